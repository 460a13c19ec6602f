"""Likelihoods of two scores against dense grids, sums over outcomes and simpler likelihoods."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import norm

from jaxkick.likelihoods import (
    AbstractLikelihood,
    BivariatePoisson,
    DixonColes,
    OrdinalProbit,
    Poisson,
    VaryingNoise,
    VaryingTies,
)

GOALS = np.array([[0, 0], [0, 1], [1, 0], [1, 1], [2, 3], [10, 6], [0, 9]], float)
RESULTS = np.array([[-1, 0], [0, 0], [1, 0]], float)


class OwnDixonColes(AbstractLikelihood):
    """Dixon and Coles' formula as a user would write it; `power` limits rates as we do."""

    num_predictors = 2

    power: int | None = None

    def log_prob(self, outcome, score):
        x, y, (rate, other) = outcome[..., 0], outcome[..., 1], jnp.moveaxis(jnp.exp(score), -1, 0)
        rho, share, other_share = -0.1, 1.0, 1.0
        if self.power:
            share, other_share = (
                (1 + (abs(rho) * each) ** self.power / 0.99) ** (-1 / self.power)
                for each in (rate, other)
            )
        change = jnp.select(
            [(x == 0) & (y == 0), (x == 0) & (y == 1), (x == 1) & (y == 0), (x == 1) & (y == 1)],
            [-rate * other, rate, other, -jnp.ones_like(rate)],
            0.0,
        )
        factor = 1 + rho * share * other_share * change
        poisson = outcome * score - jnp.exp(score) - jax.lax.lgamma(outcome + 1)
        return jnp.sum(poisson, axis=-1) + jnp.log(jnp.maximum(factor, 1e-12))


CASES = {
    "ties": (VaryingTies(0.5), RESULTS),
    "shared": (BivariatePoisson(0.3), GOALS),
    "low": (DixonColes(-0.1), GOALS),
    "own": (OwnDixonColes(8), GOALS),
}


@eqx.filter_jit
def call(method, *arguments):
    """One program instead of one for every operation."""
    return method(*arguments)


# Compiled programs are shared by tests whose arrays have the same length.
COUNT, CHECKED = 28, 14


def settings(outcomes, largest_deviation=1.5, count=COUNT):
    """Outcomes, means and variances."""
    rng = np.random.default_rng(3)
    mean = rng.uniform(-1.5, 2.0, (count, 2))
    variance = rng.uniform(0.05, largest_deviation, (count, 2)) ** 2
    return np.resize(outcomes, (count, 2)), mean, variance


def by_grid(likelihood, outcome, mean, variance, weight=1.0):
    """The log-partition function and its derivatives by sums over a dense grid."""
    places = np.linspace(-9.0, 9.0, 361)
    f, g = (mean[i] + np.sqrt(variance[i]) * places for i in range(2))
    scores = np.stack(np.meshgrid(f, g, indexing="ij"), axis=-1)
    log_prob = np.asarray(call(likelihood.log_prob, np.broadcast_to(outcome, scores.shape), scores))
    mass = np.exp(weight * log_prob - 0.5 * (places[:, None] ** 2 + places**2))
    total = mass.sum()
    slopes = []
    for i in range(2):
        centre = (mass * scores[..., i]).sum() / total
        spread = (mass * (scores[..., i] - centre) ** 2).sum() / total
        first, second = (centre - mean[i]) / variance[i], (spread / variance[i] - 1) / variance[i]
        slopes.append((first, second))
    step = places[1] - places[0]
    return np.log(total * step**2 / (2 * np.pi)), *np.transpose(slopes)


@pytest.mark.parametrize("name", CASES)
def test_log_partition_against_a_dense_grid(name):
    likelihood, outcomes = CASES[name]
    arguments = settings(outcomes)
    found = call(likelihood.log_partition, *arguments)
    for i, setting in enumerate(zip(*(x[:CHECKED] for x in arguments), strict=True)):
        for ours, right in zip(found, by_grid(likelihood, *setting), strict=True):
            np.testing.assert_allclose(ours[i], right, atol=3e-6, rtol=1e-6)


def test_own_class_equals_the_built_in_one():
    arguments = settings(GOALS)
    ours = call(OwnDixonColes(8).log_partition, *arguments)
    right = call(DixonColes(-0.1).log_partition, *arguments)
    for mine, exact in zip(ours, right, strict=True):
        np.testing.assert_allclose(mine, exact, atol=1e-6)


def test_probability_that_falls_to_zero():
    """The limits of the product rule: at a zero of p, log p has no derivatives."""
    arguments = settings(GOALS[1:3])
    ours = call(OwnDixonColes().log_partition, *arguments)
    for i, setting in enumerate(zip(*(x[:CHECKED] for x in arguments), strict=True)):
        value, first, second = by_grid(OwnDixonColes(), *setting)
        np.testing.assert_allclose(ours.value[i], value, atol=1e-5)
        np.testing.assert_allclose(ours.first[i], first, atol=1e-3)
        np.testing.assert_allclose(ours.second[i], second, atol=1e-2)


def test_no_variation_of_the_margin_is_an_ordinal_probit():
    outcome, mean, variance = settings(RESULTS)
    mean[:, 1], variance[:, 1] = 0.0, 0.0
    ours = call(VaryingTies(0.5).log_partition, outcome, mean, variance)
    right = call(OrdinalProbit(0.5).log_partition, outcome[:, 0], mean[:, 0], variance[:, 0])
    np.testing.assert_allclose(ours.value, right.value, atol=1e-10)
    np.testing.assert_allclose(ours.first[:, 0], right.first, atol=1e-10)
    np.testing.assert_allclose(ours.second[:, 0], right.second, atol=1e-10)
    probabilities = call(VaryingTies(0.5).result_probabilities, mean[:2], variance[:2])
    exact = call(OrdinalProbit(0.5).result_probabilities, mean[:2, 0], variance[:2, 0])
    np.testing.assert_allclose(probabilities, exact, atol=1e-10)


@pytest.mark.parametrize("margin", [None, 0.5])
def test_noise_against_a_dense_grid(margin):
    """For standard deviations of g up to one half; the gradient in the mean is `first`."""
    likelihood = VaryingNoise(margin)
    outcome, mean, variance = settings(RESULTS if margin else RESULTS[::2])
    variance[:, 1] = np.minimum(variance[:, 1], 0.25)

    def function(mean):
        return jax.jvp(
            lambda mean: likelihood.log_partition(outcome, mean, variance),
            (mean,),
            (jnp.broadcast_to(jnp.array([0.0, 1.0]), mean.shape),),
        )

    found, slope = call(function, mean)
    for i in range(CHECKED):
        right = by_grid(likelihood, outcome[i], mean[i], variance[i])
        for ours, exact in zip(found, right, strict=True):
            np.testing.assert_allclose(ours[i], exact, atol=3e-6, rtol=1e-6)
    np.testing.assert_allclose(slope.value, found.first[:, 1], atol=3e-6)
    np.testing.assert_allclose(slope.first[:, 1], found.second[:, 1], atol=3e-6)
    single = call(likelihood.log_partition, *(x.astype("f4") for x in (outcome, mean, variance)))
    for mine, exact in zip(single, found, strict=True):
        np.testing.assert_allclose(mine, exact, atol=1e-3)


@pytest.mark.parametrize("margin", [None, 0.5])
def test_noise_multiplies_that_of_a_probit(margin):
    """At known scores: P(win) = Φ((f − margin) exp(−g)), and g = 0 changes nothing."""
    likelihood = VaryingNoise(margin)
    f, g = np.array([-1.3, 0.2, 2.0, 0.7]), np.array([0.0, 0.8, -0.5, 1.5])
    win = np.tile([1.0, 0.0], (4, 1))
    found = np.exp(call(likelihood.log_prob, win, np.stack([f, g], -1)))
    np.testing.assert_allclose(found, norm.cdf((f - (margin or 0.0)) * np.exp(-g)), rtol=1e-9)
    mean, variance = np.array([[0.4, 0.0]]), np.array([[0.6, 0.0]])
    right = call(likelihood.duel().probabilities, mean[:, 0], variance[:, 0])
    found = call(likelihood.probabilities, mean, variance)
    np.testing.assert_allclose(found, right, atol=1e-10)
    scores = np.broadcast_to([0.7, 0.8], (40_000, 2))
    drawn = call(likelihood.sample, jax.random.key(0), scores)
    share = np.mean(np.asarray(drawn)[:, 0] == 1)
    expected = norm.cdf((0.7 - (margin or 0.0)) * np.exp(-0.8))
    np.testing.assert_allclose(share, expected, atol=0.012)
    assert VaryingNoise.from_outcomes(np.array([[1.0, 0.0], [-1.0, 0.0]])).margin is None


@pytest.mark.parametrize("likelihood", [BivariatePoisson(1e-12), DixonColes(0.0)], ids=repr)
def test_unrelated_goals_are_two_poisson_counts(likelihood):
    arguments = settings(GOALS)
    ours = call(likelihood.log_partition, *arguments)
    right = call(Poisson().log_partition, *arguments)
    np.testing.assert_allclose(ours.value, right.value.sum(-1), atol=3e-6)
    np.testing.assert_allclose(ours.first, right.first, atol=3e-6)
    np.testing.assert_allclose(ours.second, right.second, atol=3e-6)


def test_weights_against_a_dense_grid():
    likelihood, weights = DixonColes(-0.1), np.resize([0.0, 0.3, 2.0], COUNT)
    arguments = settings(GOALS)
    found = call(likelihood.log_partition, *arguments, weights)
    checked = (x[:CHECKED] for x in (*arguments, weights))
    for i, setting in enumerate(zip(*checked, strict=True)):
        # Small weights expose the bend where rates are limited.
        truth = zip(found, by_grid(likelihood, *setting), (3e-6, 5e-5, 5e-4), strict=True)
        for ours, right, bound in truth:
            np.testing.assert_allclose(ours[i], right, atol=bound)
    assert np.all(np.asarray(found.value)[weights == 0] == 0)


@pytest.mark.parametrize("name", ["ties", "shared", "own"])
def test_expectation_against_a_dense_grid(name):
    likelihood, outcomes = CASES[name]
    outcome, mean, variance = settings(outcomes, 0.8, count=6)
    found = call(likelihood.expectation, outcome, mean, variance)
    places = np.linspace(-9.0, 9.0, 361)
    mass = np.exp(-0.5 * (places[:, None] ** 2 + places**2))
    mass /= mass.sum()
    x = np.stack(np.meshgrid(places, places, indexing="ij"), axis=-1)
    for i in range(6):
        scores = mean[i] + np.sqrt(variance[i]) * x
        value = mass * call(likelihood.log_prob, np.broadcast_to(outcome[i], scores.shape), scores)
        first = [np.sum(value * x[..., k]) / np.sqrt(variance[i, k]) for k in range(2)]
        second = [np.sum(value * (x[..., k] ** 2 - 1)) / variance[i, k] for k in range(2)]
        truth = zip(found, (value.sum(), first, second), (1e-5, 1e-3, 1e-2), strict=True)
        for ours, right, bound in truth:
            np.testing.assert_allclose(ours[i], right, atol=bound)


def test_expectation_of_unrelated_goals():
    arguments = settings(GOALS)
    ours = call(DixonColes(0.0).expectation, *arguments)
    right = call(Poisson().expectation, *arguments)
    np.testing.assert_allclose(ours.value, right.value.sum(-1), rtol=1e-9)
    np.testing.assert_allclose(ours.first, right.first, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(ours.second, right.second, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", ["ties", "shared", "own"])
def test_automatic_derivatives(name):
    """Slopes in means and variances (∂/∂v = ½ (∂² + (∂)²)), and reverse mode in parameters."""
    likelihood, outcomes = CASES[name]
    outcome, mean, variance = settings(outcomes)

    def slope(mean_change, variance_change):
        function = lambda m, v: likelihood.log_partition(outcome, m, v)  # noqa: E731
        return jax.jvp(function, (mean, variance), (mean_change, variance_change))

    first_only = np.broadcast_to([1.0, 0.0], mean.shape)
    found, in_mean = call(slope, first_only, 0.0 * mean)
    _, in_variance = call(slope, 0.0 * mean, first_only)
    diffusion = 0.5 * (found.second + found.first**2)[:, 0]
    np.testing.assert_allclose(in_mean.value, found.first[:, 0], atol=3e-6)
    np.testing.assert_allclose(in_mean.first[:, 0], found.second[:, 0], atol=3e-6)
    np.testing.assert_allclose(in_variance.value, diffusion, atol=3e-6)
    assert all(np.isfinite(part).all() for part in jax.tree.leaves((in_mean, in_variance)))
    if name == "own":
        return
    kind, leaf = type(likelihood), 0.3

    def total(parameter):
        return jnp.sum(kind(parameter).log_partition(outcome, mean, variance).value)

    both, step = jax.jit(jax.value_and_grad(total)), 1e-5
    right = (both(leaf + step)[0] - both(leaf - step)[0]) / (2 * step)
    np.testing.assert_allclose(both(leaf)[1], right, rtol=1e-6)


@pytest.mark.parametrize("name", CASES)
def test_single_precision_and_wide_or_narrow_cavities(name):
    likelihood, outcomes = CASES[name]
    variance = np.repeat(np.array([0.0, 1e-6, 0.3, 30.0], np.float32), COUNT // 4)[:, None]
    variance = np.concatenate([variance, variance[::-1]], axis=1)
    mean, outcome = np.full_like(variance, 0.4), np.resize(outcomes, (COUNT, 2))
    double = call(likelihood.log_partition, outcome, mean.astype(float), variance.astype(float))
    single = call(likelihood.log_partition, outcome.astype(np.float32), mean, variance)
    for mine, right in zip(single, double, strict=True):
        assert mine.dtype == np.float32
        np.testing.assert_allclose(mine, right, atol=2e-3, rtol=2e-3)


@pytest.mark.parametrize("likelihood", [BivariatePoisson(0.3), DixonColes(-0.15), DixonColes(0.2)])
def test_goals_sum_to_one_and_draws_agree(likelihood):
    score, variance = np.array([0.5, -0.2]), np.array([0.2, 0.1])
    joint = np.asarray(call(likelihood.joint_probabilities, score, variance, 25))
    np.testing.assert_allclose(joint.sum(), 1.0, atol=1e-5)
    exact = [np.triu(joint, 1).sum(), np.trace(joint), np.tril(joint, -1).sum()]
    results = call(likelihood.result_probabilities, score, variance)
    np.testing.assert_allclose(results, exact, atol=1e-5)
    # At any known rates, also far beyond those for which Dixon and Coles' factors are positive.
    counts = np.stack(np.meshgrid(np.arange(41.0), np.arange(41.0), indexing="ij"), axis=-1)
    for known in ([0.5, -0.2], [2.5, 2.6], [2.7, -6.0]):
        mass = np.exp(call(likelihood.log_prob, counts, np.broadcast_to(known, counts.shape)))
        np.testing.assert_allclose(mass.sum(), 1.0, atol=1e-6)
    scores = np.broadcast_to(score, (20_000, 2))
    draws = np.asarray(call(likelihood.sample, jax.random.key(1), scores))
    assert not likelihood.check_events(draws).any()
    at_score = np.exp(call(likelihood.log_prob, counts, np.broadcast_to(score, counts.shape)))
    for x, y in ((0, 0), (0, 1), (1, 0), (1, 1), (2, 1)):
        share = np.mean((draws == [x, y]).all(axis=1))
        error = np.sqrt(at_score[x, y] / 20_000)
        assert abs(share - at_score[x, y]) < 4 * error


def test_words_domains_and_starting_values():
    ties = VaryingTies.from_outcomes(RESULTS)
    assert (ties.levels, ties.has_results, ties.has_ties) == ((-1.0, 0.0, 1.0), True, True)
    assert "equal skills tie with probability 38 %" in ties.describe()
    assert VaryingTies(1e-4).warnings()[0][0] == "margin"
    np.testing.assert_array_equal(ties.check_events(np.array([[1.0, 9.0], [2.0, 0.0]])), [0, 1])
    drawn = np.asarray(call(ties.sample, jax.random.key(0), np.zeros((20_000, 2))))
    np.testing.assert_allclose(np.mean(drawn[:, 0] == 0), 0.3829, atol=0.015)
    for kind in (BivariatePoisson, DixonColes):
        likelihood = kind.from_outcomes(GOALS)
        assert likelihood.has_results
        assert likelihood.has_ties
        assert kind.__name__ in likelihood.describe()
        outcomes = np.array([[1.0, 0.5], [2.0, -1.0], [3.0, 0.0]])
        np.testing.assert_array_equal(likelihood.check_events(outcomes), [1, 1, 0])
    assert BivariatePoisson(0.1).check_events(np.array([[50.0, 41.0]])).all()


def test_three_scores_need_their_own_integral():
    class Three(OwnDixonColes):
        num_predictors = 3

    with pytest.raises(
        NotImplementedError, match=r"more than two scores.*Implement `log_partition`"
    ):
        Three().log_partition(np.zeros(3), np.zeros(3), np.ones(3))
