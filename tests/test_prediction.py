"""Predictions against the dense Gaussian-process conditional, also for a user's likelihood."""

import functools
import logging

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import jaxkick as jk
from jaxkick import kernels, likelihoods
from tests import reference as ref
from tests.translation import dataset_of, model_of

COVARIANCES = {"team_covariance": ref.matern12(0.8, 2.0), "home_covariance": ref.constant(0.2)}
# Before, at and between entries, and after the last.
TIMES = np.array([-2.0, 0.0, 0.7, 2.2, 3.9, 5.5, 9.0])


@functools.cache
def fits():
    """A fit with Student's t, a likelihood with only `log_prob`, and the dense reference fit."""
    problem = ref.random_league(ref.student_t(4.0, 0.7), seed=1, **COVARIANCES)
    data = dataset_of(problem, row_length=7)
    return jk.infer(model_of(problem), data, tol=1e-9), ref.dense_ep(problem)


@functools.cache
def league():
    """Eight matches with a tie among them."""
    rng = np.random.default_rng(0)
    data = jk.Dataset.from_pairs(
        np.arange(8.0), list("abcabcab"), list("bcacabca"), rng.choice([-1.0, 0.0, 1.0], 8)
    )
    kernel = kernels.Constant(0.3) + kernels.Matern12(0.7, 2.0)
    return jk.infer(jk.Model(kernel, likelihoods.OrdinalProbit(margin=0.4)), data)


def test_fit_of_a_users_likelihood():
    posterior, fit = fits()
    np.testing.assert_allclose(
        posterior.log_marginal_likelihood, fit.log_marginal_likelihood, atol=1e-6
    )
    for name in fit.problem.observed:
        for ours, theirs in zip(posterior.scores(name, joint=False), fit.scores(name), strict=True):
            np.testing.assert_allclose(ours, theirs, atol=1e-6)


@pytest.mark.parametrize("name", ["team0", "team3", "home", "absent"])
def test_scores_at_any_time(name):
    posterior, fit = fits()
    times = np.sort(np.append(TIMES, fit.problem.times[3]))
    means, variances = fit.predict(name, times)
    scores = posterior.scores(name, times, joint=False, allow_unknown=True)
    np.testing.assert_allclose(scores.mean, means, atol=1e-6)
    np.testing.assert_allclose(scores.variance, variances, atol=1e-6)


def test_linear_combinations():
    posterior, fit = fits()
    features = {"team0": 0.75, "team1": 0.25, "team2": -1.0, "home": 2.0, "absent": 0.5}
    found = posterior.linear_combination(features, TIMES, allow_unknown=True)
    parts = {name: fit.predict(name, TIMES) for name in features}
    mean = sum(x * parts[name][0] for name, x in features.items())
    variance = sum(x**2 * parts[name][1] for name, x in features.items())
    np.testing.assert_allclose(found.mean, mean, atol=1e-6)
    np.testing.assert_allclose(found.variance, variance, atol=1e-6)
    del features["absent"]
    assert posterior.linear_combination(features, 1.0).mean.shape == ()


def test_many_pairings_equal_one_at_a_time():
    posterior = league()
    first, second, times = list("abcab"), ["b", "c", "a", "new", "a"], [0.5, 3.0, -1.0, 4.0, 20.0]
    together = posterior.predict(first, second, times, allow_unknown=True)
    assert together.probabilities.shape == (5, 3)
    for row, pairing in enumerate(zip(first, second, times, strict=True)):
        alone = posterior.predict(*pairing, allow_unknown=True)
        np.testing.assert_allclose(together.probabilities[row], alone.probabilities, atol=1e-12)
        np.testing.assert_allclose(together.mean[row], alone.mean, atol=1e-12)
    at_once = posterior.predict("a", "b", times)
    np.testing.assert_allclose(at_once.mean[2], posterior.predict("a", "b", -1.0).mean)


def test_probabilities_sum_to_one_and_mirror_when_sides_are_swapped():
    posterior = league()
    names = np.array(["a", "b", "c", "new", "newer"])
    first, second = (part.ravel() for part in np.meshgrid(names, names))
    first, second = first[first != second], second[first != second]
    ours, mirrored = (
        np.asarray(posterior.predict(*sides, 3.3, allow_unknown=True).probabilities)
        for sides in ((first, second), (second, first))
    )
    assert np.all((ours >= 0) & (ours <= 1))
    np.testing.assert_allclose(ours.sum(axis=1), 1.0, atol=1e-12)
    np.testing.assert_allclose(ours, mirrored[:, ::-1], atol=1e-12)
    # Two competitors without matches have the same prior.
    unseen = posterior.predict("new", "newer", 3.3, allow_unknown=True).probabilities
    np.testing.assert_allclose(unseen[0], unseen[2], atol=1e-12)


def test_probabilities_against_monte_carlo():
    posterior = league()
    prediction = posterior.predict("a", "b", 3.3)
    rng = np.random.default_rng(0)
    scores = float(prediction.mean) + np.sqrt(prediction.variance) * rng.normal(size=40_000)
    latent = scores + rng.normal(size=40_000)
    shares = [np.mean(latent < -0.4), np.mean(np.abs(latent) < 0.4), np.mean(latent > 0.4)]
    # Four standard errors of a share of 40,000 draws.
    np.testing.assert_allclose(prediction.probabilities, shares, atol=0.01)


def test_results_have_names():
    prediction = league().predict(["a", "b"], ["b", "c"], 3.3)
    loss, tie, win = np.asarray(prediction.probabilities).T
    np.testing.assert_array_equal(prediction.p_loss, loss)
    np.testing.assert_array_equal(prediction.p_tie, tie)
    np.testing.assert_array_equal(prediction.p_win, win)
    assert list(prediction.columns())[2:] == ["p_win", "p_tie", "p_loss"]
    single = jk.Prediction(jnp.array(0.5), jnp.array(0.0), likelihoods.Probit())
    assert single.p_win.shape == ()
    np.testing.assert_allclose(single.p_win, stats.norm.cdf(0.5))
    assert single.p_tie == 0.0
    assert "p_tie" not in single.columns()
    with pytest.raises(ValueError, match="Poisson has no win, tie and loss"):
        _ = jk.Prediction(jnp.array(0.5), jnp.array(0.0), likelihoods.Poisson()).p_win


def test_scores_of_dated_data_have_dates():
    dates = np.array(["2001-01-01", "2001-06-01", "2002-01-01T12:00"], "M8[ms]")
    data = jk.Dataset.from_pairs(dates, list("aba"), list("bcc"))
    posterior = jk.infer(jk.Model(kernels.Matern12(1.0, 2.0), likelihoods.Probit()), data)
    scores = posterior.scores("a")
    np.testing.assert_array_equal(scores.times, dates[[0, 2]])
    np.testing.assert_allclose(scores.numbers, [2001.0, 2002.0], atol=2e-3)
    assert "2002-01-01T12:00:00.000" in repr(scores).splitlines()[-1]
    asked = posterior.scores("a", ["2001-03-01"])
    assert asked.times.astype(str).tolist() == ["2001-03-01T00:00:00.000"]
    times, mean, variance = asked
    assert (times.shape, mean.shape, variance.shape) == ((1,), (1,), (1,))
    np.testing.assert_array_equal(times, asked.times)
    assert league().scores("a").times.dtype == np.float64


def test_calls_of_one_shape_compile_once(caplog):
    posterior = league()

    def ask(first, second, times):
        return posterior.predict(first, second, times).probabilities

    ask(["a", "b"], ["b", "c"], [0.5, 3.0])
    with jax.log_compiles(), caplog.at_level(logging.WARNING):
        ask(["c", "a"], ["a", "c"], [7.5, 1.0])
        assert not caplog.records
        ask(["c"] * 9, ["a"] * 9, np.arange(9.0))
        assert caplog.records


def test_errors():
    posterior = league()
    with pytest.raises(ValueError, match=r"'zoe' in `name` has no matches\. Pass `times` to"):
        posterior.scores("zoe", allow_unknown=True)
    with pytest.raises(ValueError, match="`first` has 2, `second` has 3"):
        posterior.predict(["a", "b"], ["a", "b", "c"], 1.0)
    with pytest.raises(ValueError, match="`time` is missing"):
        posterior.predict("a", "b", np.nan)
    with pytest.raises(ValueError, match="dates, but the times of the data are numbers"):
        posterior.predict("a", "b", "2024-01-01")
    match = posterior.predict("a", "b", 1.0)
    for wrong in (
        lambda: match.log_prob(2.0),
        lambda: match.log_prob("win"),
        lambda: match.distribution([5.0]),
    ):
        with pytest.raises(ValueError, match=r"is not valid for OrdinalProbit, which needs \+1"):
            wrong()
    with pytest.raises(ValueError, match="`probability` is 90, but must be between 0 and 1"):
        match.outcome_quantile(90)
    with pytest.raises(ValueError, match=r"`covariates` is 1, .* pass `home=1`"):
        posterior.predict("a", "b", 1.0, 1)
    with pytest.raises(ValueError, match=r"holds \['a', 'b'\], which is not a name"):
        posterior.scores(["a", "b"])
    fitted, _ = fits()
    with pytest.raises(NotImplementedError, match="StudentT has no `probabilities`"):
        _ = fitted.predict("team0", "team1", 1.0).probabilities
