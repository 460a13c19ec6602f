"""Whole fits against dense, slow implementations of the same approximations."""

import numpy as np
import pytest

import jaxkick as jk
from tests import reference as ref
from tests.translation import dataset_of, model_of

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


def assert_same(posterior, fit, problem, tolerance=1e-6):
    for name in (*(f"team{i}" for i in range(5)), "home"):
        times, means, variances = fit.scores(name)
        ours = posterior.scores(name, joint=False)
        np.testing.assert_allclose(ours.times, times)
        np.testing.assert_allclose(ours.mean, means, atol=tolerance)
        np.testing.assert_allclose(ours.variance, variances, atol=tolerance)
    np.testing.assert_allclose(
        posterior.log_marginal_likelihood, fit.log_marginal_likelihood, atol=tolerance, rtol=1e-7
    )


@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", LIKELIHOODS)
def test_every_likelihood(name, method, weighted):
    problem = ref.random_league(LIKELIHOODS[name], seed=3, weighted=weighted)
    ours, dense = METHODS[method]
    # Weights are factors in reverse KL, so that one program serves both cases. EP has closed forms
    # for data without weights.
    data = dataset_of(problem, weighted=weighted or method == "kl")
    posterior = jk.infer(model_of(problem), data, ours, tol=1e-9)
    assert_same(posterior, dense(problem), problem)


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
    assert_same(posterior, fit, problem)
    times = np.array([0.5, 3.3, 30.0])
    ours = posterior.scores("team1", times, joint=False)
    means, variances = fit.predict("team1", times)
    np.testing.assert_allclose(ours.mean, means, atol=1e-6)
    np.testing.assert_allclose(ours.variance, variances, atol=1e-6)
