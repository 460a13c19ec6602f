"""The parts of a skill, against a dense Gaussian process whose features are the parts."""

import matplotlib
import numpy as np
import pytest

import jaxkick as jk
from jaxkick import kernels, likelihoods, plotting

matplotlib.use("Agg")
from matplotlib import pyplot

COUNT, NOISE, MEAN = 40, 0.5, 0.7
ASKED = np.array([-1.0, 0.5, 2.0, 2.01, 9.0])
NAMES = ("Constant", "Matern12", "Linear")


def parts(t, u, first):
    """The prior covariances of the three parts, at times of one competitor."""
    gap = np.abs(t - u)
    slope = 0.02 * (t - first) * (u - first)
    return 0.3 * np.ones_like(gap), 0.8 * np.exp(-gap / 2.0), slope


@pytest.fixture(scope="module")
def league():
    rng = np.random.default_rng(0)
    times = np.sort(rng.uniform(0.0, 6.0, COUNT))
    first = rng.integers(0, 4, COUNT)
    second = (first + rng.integers(1, 4, COUNT)) % 4
    outcome = rng.normal(size=COUNT) + 0.5 * (first - second)
    table = {"time": times, "one": first, "two": second, "points": outcome}
    data = jk.Dataset.from_frame(
        table, time="time", first="one", second="two", outcome="points", home=True
    )
    kernel = kernels.Constant(0.3) + kernels.Matern12(0.8, 2.0) + kernels.Linear(0.02)
    model = jk.Model(
        {"skill": kernel, "home": kernels.Constant(0.2)},
        likelihoods.Gaussian(NOISE),
        mean={"skill": MEAN},
    )
    return table, jk.infer(model, data, tol=1e-9)


def dense(table, asked):
    """Mean and covariance of the parts of competitor 0 at the asked times, in one system."""
    times, sides = table["time"], np.stack([table["one"], table["two"]])
    debut = {team: times[(sides == team).any(axis=0)].min() for team in range(4)}
    outcome_cov = NOISE * np.eye(COUNT) + 0.2
    cross = np.zeros((len(NAMES), len(asked), COUNT))
    for sign, own in zip((1.0, -1.0), sides, strict=True):
        for other_sign, other in zip((1.0, -1.0), sides, strict=True):
            same = own[:, None] == other[None, :]
            first = np.array([debut[team] for team in own])[:, None]
            prior = sum(parts(times[:, None], times[None, :], first))
            outcome_cov += sign * other_sign * np.where(same, prior, 0.0)
        prior = parts(asked[:, None], times[None, :], debut[0])
        cross += sign * np.where(own == 0, prior, 0.0)
    own = np.array(parts(asked, asked, debut[0]))
    # The prior means of both sides cancel.
    mean = cross @ np.linalg.solve(outcome_cov, table["points"])
    solved = np.linalg.solve(outcome_cov, np.swapaxes(cross, 1, 2))
    return mean, own - np.einsum("pan,pna->pa", cross, solved)


def test_parts_are_those_of_a_dense_gaussian_process(league):
    table, posterior = league
    found = posterior.components(0, ASKED)
    mean, variance = dense(table, ASKED)
    assert list(found) == [*NAMES, "prior mean"]
    for place, name in enumerate(NAMES):
        np.testing.assert_allclose(found[name].mean, mean[place], atol=1e-8)
        # Joint variances are solved to a relative error of about 1e-6 of their correction.
        np.testing.assert_allclose(found[name].variance, variance[place], rtol=1e-5)
        alone = posterior.components(0, ASKED, joint=False)[name].variance
        assert np.all(np.asarray(alone) < variance[place] + 1e-9)
    np.testing.assert_allclose(found["prior mean"].mean, MEAN)
    np.testing.assert_array_equal(found["prior mean"].variance, 0.0)


def test_parts_add_up_to_the_score(league):
    posterior = league[1]
    found = posterior.components(1)
    scores = posterior.scores(1)
    np.testing.assert_array_equal(found.times, scores.times)
    total = sum(np.asarray(found[name].mean) for name in found)
    np.testing.assert_allclose(total, scores.mean, atol=1e-12)
    np.testing.assert_allclose(found.whole.mean, scores.mean, atol=1e-12)
    np.testing.assert_allclose(found.whole.variance, scores.variance, rtol=1e-9)
    frame = found.to_frame()
    assert len(frame["mean"]) == len(found) * len(scores.times)
    assert "Matern12: rough fluctuations" in repr(found)


def test_a_kernel_without_summands_is_one_part(league):
    found = league[1].components("home", [1.0])
    assert list(found) == ["Constant"]
    with pytest.raises(KeyError, match=r"There is no part 'Matern12'. The parts are 'Constant'."):
        found["Matern12"]
    with pytest.raises(jk.DataError, match="nobody"):
        league[1].components("nobody")


def test_equal_classes_have_numbers():
    from jaxkick.posterior.components import label_terms

    rough = kernels.Matern12(1.0, 1.0)
    terms = (rough, kernels.Constant(1.0), rough, kernels.Cosine(1.0, 2.0) * rough)
    assert label_terms(terms) == ["Matern12 1", "Constant", "Matern12 2", "Cosine * Matern12"]


def test_the_plot_has_a_curve_for_the_whole_and_for_each_part(league):
    found = league[1].components(0, np.linspace(0.0, 6.0, 20))
    ax = plotting.components(found)
    assert [text.get_text() for text in ax.texts] == ["0", *NAMES, "prior mean"]
    labelled = {line.get_label(): line for line in ax.lines}
    np.testing.assert_allclose(labelled["Matern12"].get_ydata(), found["Matern12"].mean)
    heights = np.asarray(ax.collections[2].get_paths()[0].vertices)[:, 1]
    lower = found["Matern12"].mean - 1.6449 * np.sqrt(found["Matern12"].variance)
    np.testing.assert_allclose(heights.min(), lower.min(), rtol=1e-3)
    pyplot.close(ax.figure)


def test_parts_of_newcomers_add_up(league):
    """The prior of newcomers has another mean and variance, which belong to the parts."""
    _, posterior = league
    newcomers = {"skill": jk.Newcomers(-1.0, mean=-0.4, variance_ratio=2.5, fade=1.5)}
    given = {"mean": {"skill": MEAN}, "newcomers": newcomers}
    model = jk.Model(posterior.model.kernel, posterior.model.likelihood, **given)
    fit = jk.infer(model, posterior.data, tol=1e-9)
    found, scores = fit.components(0, ASKED), fit.scores(0, ASKED)
    assert list(found) == [*NAMES, "prior mean"]
    total = sum(np.asarray(part.mean) for part in found.parts.values())
    np.testing.assert_allclose(total, scores.mean, atol=1e-8)
    np.testing.assert_allclose(found.whole.variance, scores.variance, rtol=1e-6)
    assert "between" in found.descriptions["prior mean"]
