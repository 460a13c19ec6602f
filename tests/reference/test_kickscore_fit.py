"""The reference fits against kickscore 0.2.0, the paper's own software."""

import dataclasses

import numpy as np
import pytest

from tests import reference as ref

# Tolerances: kickscore is exact in EP where it has closed forms. Its logistic moments are a
# mixture of five probits (errors up to 1e-3). Its counts use a 30-point Gauss–Hermite rule
# centred on the cavity, which misses likelihoods far narrower than a wide cavity (errors of 1e-2
# for a prior variance of one, 1e-4 for the narrow prior here). Reverse KL has the same rule on
# the narrower marginal, and stops at 500 steps of linear convergence.

NARROW = ref.constant(0.1) + ref.matern12(0.2, 2.0)
KICKSCORE_CASES = {
    "probit": ("ep", ref.probit(), None, 1e-8),
    "ordinal_probit": (
        "ep",
        ref.ordinal_probit(margin=0.4),
        ref.wiener(0.3, -1.0, 0.2) + ref.matern12(0.5, 1.0),
        1e-8,
    ),
    "gaussian": ("ep", ref.gaussian(2.0), ref.affine(0.5, 0.1, 1.0) + ref.matern52(1.0, 2.0), 1e-8),
    "logit": ("ep", ref.logit(), ref.piecewise_constant(0.6, [1.0, 3.0]), 2e-3),
    "poisson": ("ep", ref.poisson(), NARROW, 3e-4),
    "probit_kl": ("kl", ref.probit(), None, 1e-8),
    "skellam_kl": ("kl", ref.skellam(0.2), NARROW, 1e-9),
}


@pytest.fixture(scope="session")
def kickscore_fits():
    """Every case fitted once; the first one compiles kickscore, which takes a while."""
    fits = {}
    for name, (method, likelihood, covariance, _) in KICKSCORE_CASES.items():
        problem = ref.random_league(likelihood, seed=1, team_covariance=covariance)
        damping = 0.2 if method == "ep" else 0.5
        fits[name] = (problem, ref.kickscore_fit(problem, method, damping))
    return fits


@pytest.mark.parametrize("name", KICKSCORE_CASES)
def test_fit_equals_kickscore(kickscore_fits, name):
    method, _, _, tolerance = KICKSCORE_CASES[name]
    problem, theirs = kickscore_fits[name]
    ours = {"ep": ref.dense_ep, "kl": ref.dense_kl}[method](problem)
    elsewhere = np.array([-0.5, 1.0, 2.2, 7.0])
    for feature in problem.observed:
        for actual, desired in zip(ours.scores(feature), theirs.scores[feature], strict=True):
            np.testing.assert_allclose(actual, desired, rtol=0, atol=tolerance)
        for actual, desired in zip(
            ours.predict(feature, elsewhere), theirs.predict(feature, elsewhere), strict=True
        ):
            np.testing.assert_allclose(actual, desired, rtol=0, atol=tolerance)
    np.testing.assert_allclose(
        ours.log_marginal_likelihood, theirs.log_likelihood, rtol=0, atol=tolerance
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"weights": np.full(20, 2.0)}, "no weights"),
        ({"likelihood": ref.student_t(4.0)}, "no student_t likelihood"),
        ({"covariances": dict.fromkeys(["home"], ref.periodic(1.0, 1.0, 1.0))}, "no periodic"),
    ],
)
def test_kickscore_refuses_what_it_lacks(change, message):
    problem = ref.random_league(ref.probit(), seed=1)
    if "covariances" in change:
        change = {"covariances": {**problem.covariances, **change["covariances"]}}
    with pytest.raises(ValueError, match=message):
        ref.kickscore_fit(dataclasses.replace(problem, **change))
