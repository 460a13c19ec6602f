"""Whole fits against dense, slow implementations of the same approximations."""

import dataclasses
import functools

import numpy as np
import pytest

import jaxkick as jk
from tests import reference as ref
from tests.translation import dataset_of, model_of

pytestmark = pytest.mark.optimized

LIKELIHOODS = {
    "probit": ref.probit(),
    "logit": ref.logit(),
    "ordinal probit": ref.ordinal_probit(margin=0.4),
    "ordinal probit with cuts": ref.ordinal_probit(cuts=[-0.8, 0.1, 0.9]),
    "ordinal logit": ref.ordinal_logit(margin=0.5),
    "gaussian": ref.gaussian(1.3),
    "poisson": ref.poisson(),
    "skellam": ref.skellam(0.2),
}
METHODS = {
    "ep": (jk.ExpectationPropagation(), ref.dense_ep),
    "kl": (jk.ReverseKL(), ref.dense_kl),
}


def assert_same(posterior, fit, league=""):
    for name in (*(f"team{i}" for i in range(5)), "home"):
        times, means, variances = fit.scores(name)
        ours = posterior.scores(league + name, joint=False)
        np.testing.assert_allclose(ours.times, times)
        np.testing.assert_allclose(ours.mean, means, atol=1e-6)
        np.testing.assert_allclose(ours.variance, variances, atol=1e-6)
    np.testing.assert_allclose(
        posterior.log_marginal_likelihood, fit.log_marginal_likelihood, atol=1e-6, rtol=1e-7
    )


@functools.cache
def problem_of(name, weighted):
    return ref.random_league(LIKELIHOODS[name], seed=3, weighted=weighted)


@functools.cache
def all_leagues(weighted, with_weights):
    """The leagues of all likelihoods, as kinds of observations with teams of their own."""
    parts, models = {}, {}
    for name in LIKELIHOODS:
        problem = problem_of(name, weighted)
        rows = [{name + who: x for who, x in row.items()} for row in problem.features]
        own = dataclasses.replace(problem, features=rows)
        groups = lambda who: "home" if who.endswith("home") else "skill"  # noqa: E731
        parts[name] = dataset_of(own, weighted=with_weights, groups=groups)
        models[name] = model_of(problem)
    likelihood = {name: model.likelihood for name, model in models.items()}
    return jk.Model(models["probit"].kernel, likelihood), jk.concat(parts)


@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", LIKELIHOODS)
def test_every_likelihood(name, method, weighted):
    """Fits of one league each: a mask hides the others, so that one program serves all of them.

    Weights are factors in reverse KL, which needs no second program for them. EP has closed
    forms for data without weights.
    """
    model, data = all_leagues(weighted, weighted or method == "kl")
    ours, dense = METHODS[method]
    mask = np.repeat(np.array([each == name for each in LIKELIHOODS]), len(data) // 8)
    posterior = jk.infer(model, data, ours, mask=mask, tol=1e-9)
    assert_same(posterior, dense(problem_of(name, weighted)), league=name)


@pytest.mark.parametrize(
    "covariance",
    [
        ref.constant(0.4) + ref.matern12(0.8, 3.0),
        ref.affine(0.5, 0.02, origin=-1.0) + ref.wiener(0.3, origin=-1.0, origin_variance=0.1),
        ref.matern12(0.9, 2.0) * ref.cosine(1.0, 4.0),
    ],
    ids=["constant+matern12", "affine+wiener", "matern12*cosine"],
)
def test_several_kernels(covariance):
    problem = ref.random_league(ref.probit(), seed=5, team_covariance=covariance)
    posterior = jk.infer(model_of(problem), dataset_of(problem, row_length=7), tol=1e-9)
    fit = ref.dense_ep(problem)
    assert_same(posterior, fit)
    times = np.array([0.5, 3.3, 30.0])
    ours = posterior.scores("team1", times, joint=False)
    means, variances = fit.predict("team1", times)
    np.testing.assert_allclose(ours.mean, means, atol=1e-6)
    np.testing.assert_allclose(ours.variance, variances, atol=1e-6)
