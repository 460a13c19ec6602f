"""Distributions of outcomes that are numbers, against scipy's quadrature."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import jaxkick as jk
from jaxkick import Feature
from jaxkick.posterior.prediction import CountsPrediction, Prediction

MEAN, VARIANCE = jnp.array([0.4, -0.1]), jnp.array([0.09, 0.3])
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(80)
WEIGHTS = WEIGHTS / WEIGHTS.sum()


def average(function, mean, variance):
    """E[function(f)] for a normal score f."""
    scores = float(mean) + np.sqrt(float(variance)) * NODES
    return sum(w * function(f) for w, f in zip(WEIGHTS, scores, strict=True))


def test_differences_of_goals():
    prediction = Prediction(MEAN, VARIANCE, jk.likelihoods.Skellam(0.3))
    outcomes, chances = prediction.distribution()
    np.testing.assert_array_equal(np.diff(outcomes), 1)
    np.testing.assert_allclose(chances.sum(axis=1), 1, atol=1e-5)
    for row in range(2):

        def pmf(f):
            return stats.skellam.pmf(outcomes, np.exp(0.3 + f), np.exp(0.3 - f))

        expected = average(pmf, MEAN[row], VARIANCE[row])
        np.testing.assert_allclose(chances[row], expected, atol=1e-9)
        signs = [expected[np.sign(outcomes) == sign].sum() for sign in (-1, 0, 1)]
        found = [prediction.p_loss[row], prediction.p_tie[row], prediction.p_win[row]]
        np.testing.assert_allclose(found, signs, atol=1e-5)
    assert set(prediction.columns()) >= {"expected", "p_win", "p_tie", "p_loss"}


def test_differences_of_points():
    prediction = Prediction(MEAN, VARIANCE, jk.likelihoods.Gaussian(1.5))
    outcomes, densities = prediction.distribution([-1.0, 0.5])
    expected = stats.norm.pdf(outcomes, np.asarray(MEAN)[:, None], np.sqrt(VARIANCE + 1.5)[:, None])
    np.testing.assert_allclose(densities, expected)
    wins = stats.norm.cdf(np.asarray(MEAN) / np.sqrt(VARIANCE + 1.5))
    np.testing.assert_allclose(prediction.p_win, wins)
    assert "p_tie" not in prediction.columns()


@pytest.mark.parametrize("covariance", [0.05, -0.05, 0.0])
def test_the_grid_of_goals(covariance):
    likelihood = jk.likelihoods.Poisson()
    first = Prediction(MEAN[0], VARIANCE[0], likelihood)
    second = Prediction(MEAN[1], VARIANCE[1], likelihood)
    grid = np.asarray(CountsPrediction(first, second, jnp.asarray(covariance)).grid(5))
    counts = np.arange(6)
    # Two-dimensional quadrature: the first score, then the second given the first.
    expected = np.zeros((6, 6))
    slope = covariance / float(VARIANCE[0])
    rest = float(VARIANCE[1]) - slope * covariance
    for weight, node in zip(WEIGHTS, NODES, strict=True):
        f = float(MEAN[0]) + np.sqrt(float(VARIANCE[0])) * node
        given = float(MEAN[1]) + slope * (f - float(MEAN[0]))
        other = average(lambda g: stats.poisson.pmf(counts, np.exp(g)), given, rest)
        expected += weight * np.outer(stats.poisson.pmf(counts, np.exp(f)), other)
    np.testing.assert_allclose(grid, expected, atol=1e-8)


def test_counts_of_a_match():
    table = {
        "t": [0.0, 1.0, 2.0, 3.0],
        "a": ["ant", "bee", "cat", "ant"],
        "b": ["bee", "cat", "ant", "cat"],
        "x": [3, 1, 0, 2],
        "y": [1, 1, 2, 0],
    }
    data = jk.Dataset.from_frame(
        table,
        time="t",
        first="a",
        second="b",
        counts=("x", "y"),
        home=True,
        row_length=16,
        aspects=False,
    )
    model = jk.Model(jk.kernels.Constant(0.5), jk.likelihoods.Poisson())
    posterior = jk.infer(model, data)
    match = posterior.predict("ant", "bee", 4.0, home=1)
    own = {Feature("ant", "attack"): 1, Feature("bee", "defence"): -1, "home": 1, "level": 1}
    other = {Feature("bee", "attack"): 1, Feature("ant", "defence"): -1, "home": -1, "level": 1}
    for side, features in ((match.first, own), (match.second, other)):
        moments = posterior.linear_combination(features, 4.0)
        np.testing.assert_allclose([side.mean, side.variance], moments, rtol=1e-12)
    shared = [posterior.linear_combination(name, 4.0).variance for name in ("level", "home")]
    np.testing.assert_allclose(match.covariance, shared[0] - shared[1], atol=1e-12)
    outcomes, chances = match.difference()
    tie, win = match.p_tie, match.p_win
    assert float(match.p_loss + tie + win) == pytest.approx(1, abs=1e-12)
    assert float(chances.sum()) == pytest.approx(1, abs=1e-5)
    assert float(chances[outcomes == 0][0]) == pytest.approx(float(tie), abs=1e-5)
    assert float(chances[outcomes > 0].sum()) == pytest.approx(float(win), abs=1e-5)
    table = posterior.forecast(table)
    assert table["first_expected"].shape == (4,)
    board = posterior.leaderboard()
    assert sorted(board["name"]) == ["ant", "bee", "cat"]
    strength = posterior.linear_combination(
        {Feature("ant", "attack"): 1, Feature("ant", "defence"): 1}, 3.0
    ).mean
    assert board["rating"][list(board["name"]).index("ant")] == pytest.approx(float(strength))
