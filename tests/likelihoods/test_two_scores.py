"""Likelihoods of two scores against dense grids, sums over outcomes and simpler likelihoods."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxkick.likelihoods import (
    AbstractLikelihood,
    BivariatePoisson,
    DixonColes,
    OrdinalProbit,
    Poisson,
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


def settings(outcomes, largest_deviation=1.5, count=42):
    """Outcomes, means and variances."""
    rng = np.random.default_rng(3)
    mean = rng.uniform(-1.5, 2.0, (count, 2))
    variance = rng.uniform(0.05, largest_deviation, (count, 2)) ** 2
    return np.resize(outcomes, (count, 2)), mean, variance


def by_grid(likelihood, outcome, mean, variance, weight=1.0):
    """The log-partition function and its derivatives by sums over a dense grid."""
    places = np.linspace(-9.0, 9.0, 721)
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
    for i, setting in enumerate(zip(*arguments, strict=True)):
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
    outcome, mean, variance = settings(GOALS[1:3])
    ours = call(OwnDixonColes().log_partition, outcome, mean, variance)
    for i, setting in enumerate(zip(outcome, mean, variance, strict=True)):
        value, first, second = by_grid(OwnDixonColes(), *setting)
        np.testing.assert_allclose(ours.value[i], value, atol=1e-5)
        np.testing.assert_allclose(ours.first[i], first, atol=1e-3)
        np.testing.assert_allclose(ours.second[i], second, atol=1e-2)


def test_no_variation_of_the_margin_is_an_ordinal_probit():
    outcome, mean, variance = settings(RESULTS)
    mean[:, 1], variance[:, 1] = 0.0, 0.0
    ours = call(VaryingTies(0.5).log_partition, outcome, mean, variance)
    right = OrdinalProbit(0.5).log_partition(outcome[:, 0], mean[:, 0], variance[:, 0])
    np.testing.assert_allclose(ours.value, right.value, atol=1e-10)
    np.testing.assert_allclose(ours.first[:, 0], right.first, atol=1e-10)
    np.testing.assert_allclose(ours.second[:, 0], right.second, atol=1e-10)
    probabilities = VaryingTies(0.5).result_probabilities(mean[:2], variance[:2])
    exact = OrdinalProbit(0.5).result_probabilities(mean[:2, 0], variance[:2, 0])
    np.testing.assert_allclose(probabilities, exact, atol=1e-10)


@pytest.mark.parametrize("likelihood", [BivariatePoisson(1e-12), DixonColes(0.0)], ids=repr)
def test_unrelated_goals_are_two_poisson_counts(likelihood):
    arguments = settings(GOALS)
    ours = call(likelihood.log_partition, *arguments)
    right = Poisson().log_partition(*arguments)
    np.testing.assert_allclose(ours.value, right.value.sum(-1), atol=3e-6)
    np.testing.assert_allclose(ours.first, right.first, atol=3e-6)
    np.testing.assert_allclose(ours.second, right.second, atol=3e-6)
