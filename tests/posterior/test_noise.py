"""A scale of noise that changes with time, against quadrature and simulation."""

import functools

import numpy as np
import pytest
from scipy.stats import norm

import jaxkick as jk
from jaxkick.kernels import Constant, Wiener
from jaxkick.likelihoods import OrdinalProbit, Probit, VaryingNoise

COLUMNS = {"time": "t", "first": "a", "second": "b", "outcome": "y"}
SKILLS = np.array([1.5, 0.8, 0.0, -0.7, -1.6])
COUNT, MARGIN = 1000, 0.6


@functools.cache
def table(ties=False):
    """Matches whose noise grows from 1 to e^1.2 over ten years."""
    rng = np.random.default_rng(4)
    times = np.sort(rng.uniform(0.0, 10.0, COUNT))
    sides = np.array([rng.choice(5, 2, replace=False) for _ in range(COUNT)])
    score = SKILLS[sides[:, 0]] - SKILLS[sides[:, 1]]
    latent = score + np.exp(0.12 * times) * rng.normal(size=COUNT)
    outcome = np.where(np.abs(latent) < (MARGIN if ties else 0.0), 0.0, np.sign(latent))
    names = np.array(list("abcde"))
    return {"t": times, "a": names[sides[:, 0]], "b": names[sides[:, 1]], "y": outcome}


def read(noise_effects=True, ties=False, **options):
    return jk.Dataset.from_frame(table(ties), noise_effects=noise_effects, **COLUMNS, **options)


@functools.cache
def fit():
    model = jk.Model({"skill": Constant(2.0), "noise": Wiener(0.05)}, VaryingNoise())
    return jk.infer(model, read())


def test_reading():
    data, columns = read(), table()
    seen = data.observations
    assert (len(data), len(data.first_rows)) == (2 * COUNT, COUNT)
    assert data.index.groups == ("noise", "skill")
    names = [data.names[k] for k in seen.features[1] if k >= 0]
    assert names == ["noise"]
    assert "noise by time" in repr(data)
    for name, column in data.to_frame().items():
        np.testing.assert_array_equal(column, columns[name])
    model = jk.suggest_model(data)
    assert isinstance(model.kernel["noise"], Wiener)
    assert model.likelihood.margin is None
    assert jk.suggest_model(read(ties=True)).likelihood.levels == (-1.0, 0.0, 1.0)


@functools.cache
def fit_with_ties(variance, known):
    """A constant scale of noise, and skills that are known or have a wide prior."""
    data = read(ties=True)
    kernels = {"skill": Constant(1e-10 if known else 2.0), "noise": Constant(variance)}
    skills = [0.0 if n == "noise" else SKILLS["abcde".index(n)] for n in data.names]
    model = jk.Model(kernels, VaryingNoise(MARGIN), mean=known * np.array(skills))
    return jk.infer(model, data, tol=1e-8)


def test_known_skills_leave_an_integral_over_one_number():
    """The posterior of a constant scale of noise, and its evidence, by quadrature."""
    posterior, columns = fit_with_ties(0.3, True), table(True)
    one, two = (SKILLS[np.searchsorted(list("abcde"), columns[side])] for side in "ab")
    grid, y = np.linspace(-1.0, 2.0, 3001)[:, None], columns["y"]
    win, loss = (norm.cdf((sign * (one - two) - MARGIN) * np.exp(-grid)) for sign in (1, -1))
    chance = np.where(y > 0, win, np.where(y < 0, loss, 1 - win - loss))
    logs = np.log(chance).sum(axis=1) + norm.logpdf(grid[:, 0], 0, np.sqrt(0.3))
    weight = np.exp(logs - logs.max())
    evidence = np.log(weight.sum() * 0.001) + logs.max()
    exact = np.sum(weight * grid[:, 0]) / weight.sum()
    variance = np.sum(weight * (grid[:, 0] - exact) ** 2) / weight.sum()
    found = posterior.scores("noise", [5.0], joint=False)
    np.testing.assert_allclose(found.mean, exact, atol=0.02 * np.sqrt(variance))
    np.testing.assert_allclose(found.variance, variance, rtol=0.01)
    np.testing.assert_allclose(posterior.log_marginal_likelihood, evidence, atol=0.01)


def test_noise_that_does_not_change_is_none():
    ours, plain = fit_with_ties(1e-12, False), jk.Model(Constant(2.0), OrdinalProbit(MARGIN))
    right = jk.infer(plain, read(False, True), tol=1e-8)
    evidence = right.log_marginal_likelihood
    np.testing.assert_allclose(ours.log_marginal_likelihood, evidence, rtol=1e-8)
    mine, exact = (each.predict("a", "c", 10.0) for each in (ours, right))
    np.testing.assert_allclose(mine.results, exact.results, atol=1e-7)


def test_growing_noise_is_found():
    posterior = fit()
    times = np.array([2.0, 5.0, 9.0])
    found = posterior.scores("noise", times, joint=False)
    assert np.all(np.abs(found.mean - 0.12 * times) < 3.5 * np.sqrt(found.variance) + 0.15)
    plain = jk.infer(jk.Model(Constant(2.0), Probit()), read(False))
    gain = float(posterior.log_marginal_likelihood - plain.log_marginal_likelihood)
    assert gain > 10.0


def test_a_stream_finds_growing_noise():
    stream = jk.Stream.start(fit().model, read())
    found = stream.linear_combination("noise", 10.0)
    assert abs(float(found.mean) - 1.2) < 3.5 * np.sqrt(float(found.variance)) + 0.15
    plain = jk.Stream.start(jk.Model(Constant(2.0), Probit()), read(False))
    assert stream.log_evidence - plain.log_evidence > 10.0
    one, two = (stream.predict("a", "e", 10.0).p_win, fit().predict("a", "e", 10.0).p_win)
    assert abs(float(one - two)) < 0.03


def test_predictions(tmp_path):
    posterior = fit()
    match = posterior.predict(["a", "a"], ["e", "e"], [0.0, 10.0])
    g_mean, g_variance = map(float, posterior.linear_combination("noise", 10.0))
    draws = np.random.default_rng(0).normal(size=200_000)
    noise = np.exp(g_mean + np.sqrt(g_variance) * draws)
    scale = np.sqrt(noise**2 + float(match.variance[1]))
    np.testing.assert_allclose(match.p_win[1], norm.cdf(match.mean[1] / scale).mean(), atol=2e-3)
    assert match.p_win[0] > match.p_win[1] + 0.05
    one = posterior.predict("a", "e", 10.0)
    np.testing.assert_allclose(one.p_win, match.p_win[1], rtol=1e-9)
    jk.save(tmp_path / "noise.jk", posterior)
    again = jk.load(tmp_path / "noise.jk").predict("a", "e", 10.0)
    np.testing.assert_allclose(again.p_win, one.p_win, rtol=1e-9)
    fixtures = {"t": np.full(3, 10.5), "a": list("abc"), "b": list("cde")}
    simulated = posterior.simulate(fixtures, 4000, seed=1)
    share = np.mean(simulated.outcomes == 1, axis=0)
    expected = posterior.forecast(fixtures)["p_win"]
    np.testing.assert_allclose(share, expected, atol=0.04)


def test_refusals():
    with pytest.raises(jk.DataError, match="noise_effects=True`, but Probit has no noise that"):
        jk.infer(jk.Model(Constant(1.0), Probit()), read())
    with pytest.raises(jk.DataError, match="cannot be combined"):
        read(tie_effects=True)
    options = {**COLUMNS, "outcome": None, "difference": ("t", "y")}
    with pytest.raises(jk.DataError, match="`noise_effects` is for wins, ties and losses"):
        jk.Dataset.from_frame(table(), noise_effects=True, **options)
