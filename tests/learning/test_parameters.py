"""Fixed and tied parameters, priors, and suggested models."""

import math
from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
import scipy.optimize

import jaxkick as jk
from jaxkick.learning.objective import split
from tests.learning.simulate import dense_evidence, measurements, probit_matches
from tests.shared_data import shared_data


@pytest.fixture(scope="module")
def data():
    return measurements(features=6, each=30)


def gaussian(kernel, noise=1.0):
    return jk.Model(kernel, jk.likelihoods.Gaussian(noise))


def test_fixed_parameters_stay(data):
    start = gaussian(jk.kernels.Matern12(1.0, jk.Fixed(2.5)), jk.Fixed(0.3))
    free, _ = split(start)
    assert len(jax.tree.leaves(free)) == 1
    model, history = jk.learn(start, data)
    assert float(model.kernel.lengthscale.value) == 2.5
    assert float(model.likelihood.variance.value) == 0.3
    assert float(model.kernel.variance.value) != 1.0
    assert history.values[-1] > history.values[0]


def test_tied_parameters_move_together(data):
    start = gaussian(
        jk.kernels.Matern12(0.5, jk.Tied("pace", 2.0))
        + jk.kernels.Matern32(0.5, jk.Tied("pace", 2.0))
    )
    model, history = jk.learn(start, data)
    first, second = (float(term.lengthscale.value) for term in model.kernel.terms)
    assert first == second != 2.0
    # The gradient along the tie is the sum over its ends, and vanishes at the maximum.
    assert history.gradient_norms[-1] < 0.5 < history.gradient_norms[0]
    assert history.converged


def test_ties_survive_a_change_of_the_tree():
    kernel = jk.kernels.Matern12(jk.Tied("v", 2.0), 1.0) + jk.kernels.Matern12(
        jk.Tied("v", 2.0), 9.0
    )
    model = jax.tree.map(lambda leaf: leaf * 1.5, gaussian(kernel))
    free, template = split(model)
    assert len(jax.tree.leaves(free)) == 4
    moved = template.fill(jax.tree.map(lambda leaf: leaf + 1.0, free))
    first, second = (term.variance.value for term in moved.kernel.terms)
    np.testing.assert_allclose(first, 2.0**1.5 * np.e)
    assert first == second


def test_a_tied_number_takes_the_constraint_of_its_field():
    assert isinstance(jk.kernels.Matern12(jk.Tied("v", 2.0), 1.0).variance.parameter, jk.Positive)
    with pytest.raises(ValueError, match="positive"):
        jk.kernels.Matern12(jk.Tied("v", -2.0), 1.0)


def test_filling_restores_the_model():
    model = gaussian(jk.kernels.Matern12(1.0, jk.Fixed(2.5)), jk.Tied("n", jk.Fixed(0.3)))
    free, template = split(model)
    assert len(jax.tree.leaves(free)) == 1
    assert eqx.tree_equal(template.fill(free), model)


def test_error_messages():
    unequal = gaussian(jk.kernels.Matern12(jk.Tied("a", 1.0), jk.Tied("a", 2.0)))
    with pytest.raises(ValueError, match="tied by the name 'a' differ"):
        split(unequal)
    with pytest.raises(ValueError, match="no free parameter"):
        split(gaussian(jk.kernels.Constant(jk.Fixed(1.0)), jk.Fixed(1.0)))


def test_a_prior_gives_the_maximum_a_posteriori(data):
    start = gaussian(jk.kernels.Matern12(1.0, jk.Fixed(1.5)), jk.Fixed(0.3))

    def log_prior(model):
        return -0.5 * ((jnp.log(model.kernel.variance.value) - np.log(0.1)) / 0.05) ** 2

    model, history = jk.learn(start, data, log_prior=log_prior)

    def posterior(logarithm):
        prior = -0.5 * ((logarithm - np.log(0.1)) / 0.05) ** 2
        return dense_evidence(np.array([logarithm, np.log(1.5), np.log(0.3)]), data) + prior

    best = scipy.optimize.minimize_scalar(lambda x: -posterior(x), (np.log(0.1), np.log(0.2)))
    np.testing.assert_allclose(history.values.max(), -best.fun, atol=0.01)
    np.testing.assert_allclose(np.log(model.kernel.variance.value), best.x, atol=0.01)
    # So narrow that it outweighs the data, whose own maximum is near 2.
    assert 0.09 < float(model.kernel.variance.value) < 0.2


def test_a_users_own_array_is_learnt(data):
    class Scaled(jk.likelihoods.Gaussian):
        log_scale: jax.Array = eqx.field(kw_only=True)

        def log_partition(self, outcome, mean, variance, weight=None):
            scale = jnp.exp(self.log_scale)
            found = jk.likelihoods.Gaussian(self.variance).log_partition(
                outcome, scale * mean, scale**2 * variance, weight
            )
            return type(found)(found.value, scale * found.first, scale**2 * found.second)

    start = jk.Model(
        jk.kernels.Matern12(jk.Fixed(0.5), jk.Fixed(1.5)),
        Scaled(jk.Fixed(0.3), log_scale=jnp.zeros(())),
    )
    model, _ = jk.learn(start, data)
    # Scores of twice the size, instead of four times the variance.
    np.testing.assert_allclose(np.exp(model.likelihood.log_scale), 2.0, rtol=0.3)


def test_suggests_a_model_for_every_kind_of_outcome():
    matches = probit_matches(jk.kernels.Constant(1.0), players=4, matches=60)
    model = jk.suggest_model(matches)
    assert isinstance(model.likelihood, jk.likelihoods.Probit)
    constant, wandering = model.kernel.terms
    # Two players, and two terms each: together a variance of 1.
    np.testing.assert_allclose(constant.variance.value, 0.25)
    np.testing.assert_allclose(wandering.variance.value, 0.25)
    assert 1.5 < float(wandering.lengthscale.value) < 2.5
    ties = eqx.tree_at(lambda d: d.outcome, matches, matches.outcome.at[0].set(0.0))
    assert isinstance(jk.suggest_model(ties).likelihood, jk.likelihoods.OrdinalProbit)
    points = eqx.tree_at(lambda d: d.outcome, matches, 10.0 * matches.outcome.at[0].set(0.5))
    model = jk.suggest_model(points)
    spread = np.var(points.observations.outcome)
    np.testing.assert_allclose(model.likelihood.variance.value, spread / 2)
    np.testing.assert_allclose(model.kernel.terms[0].variance.value, spread / 8)
    given = jk.suggest_model(matches, jk.likelihoods.Logit())
    assert isinstance(given.likelihood, jk.likelihoods.Logit)


def test_outcomes_of_zero_and_one_are_ambiguous():
    data = jk.Dataset.from_pairs([0.0, 1.0], ["a", "b"], ["b", "c"], [0.0, 1.0])
    with pytest.raises(ValueError, match=r"^`outcome` holds only 0 and 1, which may be"):
        jk.suggest_model(data)


def test_suggests_a_kernel_for_every_group():
    data = jk.Dataset.from_pairs(
        [0.0, 0.0, 0.0],
        ["a", "b", "c"],
        ["b", "c", "a"],
        [1, -1, 1],
        covariates={"home": 1.0},
        groups={"home": "advantage"},
    )
    model = jk.suggest_model(data)
    # All at one time: nothing can wander.
    np.testing.assert_allclose(model.kernel["advantage"].variance.value, 0.5)
    np.testing.assert_allclose(model.kernel["skill"].variance.value, 0.25)


def test_learns_without_a_model(data):
    model, history = jk.learn(None, data, max_steps=2)
    assert isinstance(model.likelihood, jk.likelihoods.Gaussian)
    assert history.values[-1] > history.values[0]


def bundesliga(**how):
    table = {name: column[-300:] for name, column in jk.datasets.load_bundesliga().items()}
    return jk.Dataset.from_frame(table, time="date", first="home", second="away", home=True, **how)


def shared_table(name):
    return pd.read_csv(shared_data(name)).tail(300)


def nba_counts():
    table = shared_table("nba_games.csv.gz")
    sides = {"first": "team1", "second": "team2", "neutral": "neutral"}
    return jk.Dataset.from_frame(table, time="date", counts=("score1", "score2"), **sides)


def football_differences():
    table = shared_table("football_international.csv.gz")
    sides = {"first": "home_team", "second": "away_team", "neutral": "neutral"}
    return jk.Dataset.from_frame(
        table, time="date", difference=("home_score", "away_score"), **sides
    )


def chess_results():
    table = shared_table("chess_fide.csv.gz")
    table["result"] = 2 * table.white_points - 1
    sides = {"first": "white", "second": "black", "home": True}
    return jk.Dataset.from_frame(table, time="month", outcome="result", unit="month", **sides)


GOALS = ("home_goals", "away_goals")
READINGS = {
    "bundesliga counts": (lambda: bundesliga(counts=GOALS), None),
    "bundesliga levels": (lambda: bundesliga(difference=GOALS), jk.likelihoods.OrdinalProbit),
    "nba counts": (nba_counts, None),
    "football differences": (football_differences, None),
    "chess results": (chess_results, None),
}


@pytest.mark.parametrize("reading", READINGS)
def test_suggested_models_are_learnt(reading):
    read, likelihood = READINGS[reading]
    data = read()
    model = jk.suggest_model(data, likelihood)
    _, history = jk.learn(model, data, max_steps=2)
    assert history.values[-1] > history.values[0]
    assert history.inference_steps.max() < 15


def test_counts_need_no_other_method_than_ep():
    """Reverse KL has closed forms for counts, but EP copes with wider priors."""
    data = bundesliga(counts=GOALS)
    model = jk.suggest_model(data)

    def fit(factor, method):
        kernel = jax.tree_util.tree_map_with_path(
            lambda path, leaf: leaf + math.log(factor) * ("variance" in jax.tree_util.keystr(path)),
            model.kernel,
        )
        return jk.infer(replace(model, kernel=kernel), data, method)

    for factor in (1.0, 100.0, 10_000.0):
        posterior = fit(factor, jk.ExpectationPropagation())
        assert posterior.converged
        if factor < 1000.0:
            bound = fit(factor, jk.ReverseKL()).log_marginal_likelihood
            assert bound < posterior.log_marginal_likelihood
    with pytest.raises(jk.InferenceError, match="diverged"):
        fit(10_000.0, jk.ReverseKL())


def test_small_differences_are_levels_and_large_ones_are_normal():
    chosen = jk.suggest_model(bundesliga(difference=GOALS)).likelihood
    assert isinstance(chosen, jk.likelihoods.OrdinalProbit)
    assert chosen.levels[0] == -chosen.levels[-1] <= -3
    table = {name: column[-300:] for name, column in jk.datasets.load_bundesliga().items()}
    sides = {"time": "date", "first": "home", "second": "away"}
    for factor in (12, 0.5):
        scaled = table | {name: factor * table[name] for name in GOALS}
        points = jk.Dataset.from_frame(scaled, difference=GOALS, **sides)
        assert isinstance(jk.suggest_model(points).likelihood, jk.likelihoods.Gaussian)


def test_suggests_a_level_for_large_counts():
    data = bundesliga(counts=GOALS, aspects=False)
    outcome = 50.0 + data.outcome
    model = jk.suggest_model(eqx.tree_at(lambda d: d.outcome, data, outcome))
    level = np.log(50.0 + np.mean(data.observations.outcome))
    constant, _ = model.kernel["level"].terms
    assert level**2 < float(constant.variance) < level**2 + 0.1
    assert float(model.kernel["attack"].terms[0].variance) < 0.02


def test_suggestions_take_classes(data):
    with pytest.raises(TypeError, match=r"`kernel` must be a class of kernels, not Matern32"):
        jk.suggest_model(data, kernel=jk.kernels.Matern32(1.0, 1.0))
    with pytest.raises(TypeError, match="`likelihood` must be a class of likelihoods"):
        jk.suggest_model(data, jk.kernels.Matern32)


def test_suggestions_ignore_masked_observations(data):
    mask = np.arange(len(data)) < len(data) // 2
    used = jnp.arange(data.outcome.size) < mask.sum()
    other = eqx.tree_at(lambda d: d.outcome, data, jnp.where(used, data.outcome, 1e6))
    found = jk.suggest_model(other, mask=mask)
    assert eqx.tree_equal(found, jk.suggest_model(data, mask=mask))
    assert eqx.tree_equal(found, jk.suggest_model(data.subset(mask)))
    with pytest.raises(ValueError, match="`mask` leaves no observation"):
        jk.suggest_model(data, mask=np.zeros(len(data), bool))
