"""Integrals of every likelihood against the independent quadrature of the references."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxkick as jk
from tests import reference

CASES = {
    "probit": (jk.likelihoods.Probit(), reference.probit(), [-1.0, 1.0]),
    "logit": (jk.likelihoods.Logit(), reference.logit(), [-1.0, 1.0]),
    "ordinal probit": (
        jk.likelihoods.OrdinalProbit(margin=0.3),
        reference.ordinal_probit(margin=0.3),
        [-1.0, 0.0, 1.0],
    ),
    "ordinal probit with cuts": (
        jk.likelihoods.OrdinalProbit(cuts=[-1.0, 0.2, 0.9]),
        reference.ordinal_probit(cuts=[-1.0, 0.2, 0.9]),
        [0.0, 1.0, 2.0, 3.0],
    ),
    "ordinal logit": (
        jk.likelihoods.OrdinalLogit(margin=0.3),
        reference.ordinal_logit(margin=0.3),
        [-1.0, 0.0, 1.0],
    ),
    "gaussian": (jk.likelihoods.Gaussian(2.0), reference.gaussian(2.0), [-3.0, 0.5, 30.0]),
    "poisson": (jk.likelihoods.Poisson(), reference.poisson(), [0.0, 1.0, 7.0]),
    "skellam": (jk.likelihoods.Skellam(0.4), reference.skellam(0.4), [-5.0, 0.0, 3.0]),
}
MEANS = np.array([-10.0, -4.0, -1.0, 0.0, 0.7, 3.0, 10.0])
VARIANCES = np.array([1e-3, 0.1, 1.0, 9.0, 100.0])


def grid(outcomes, means, variances):
    return (part.ravel() for part in np.meshgrid(outcomes, means, variances, indexing="ij"))


def assert_close(ours, truth, tolerance):
    for name, mine, right in zip(("value", "first", "second"), ours, truth, strict=True):
        error = np.abs(np.asarray(mine) - right) / (1 + np.abs(right))
        assert error.max() < tolerance, (name, error.max(), int(error.argmax()))


@pytest.mark.parametrize("weight", [None, 0.5, 3.0])
@pytest.mark.parametrize("name", CASES)
def test_ep_moments(name, weight):
    likelihood, truth, outcomes = CASES[name]
    outcome, mean, variance = grid(outcomes, MEANS, VARIANCES)
    weights = None if weight is None else np.full(outcome.shape, weight)
    ours = eqx.filter_jit(likelihood.log_partition)(outcome, mean, variance, weights)
    right = reference.log_partition(truth, outcome, mean, variance, weight or 1.0)
    assert_close(ours, right, 1e-8)


@pytest.mark.parametrize("name", CASES)
def test_expectations(name):
    likelihood, truth, outcomes = CASES[name]
    variances = VARIANCES[:4] if name in ("poisson", "skellam") else VARIANCES
    outcome, mean, variance = grid(outcomes, MEANS, variances)
    ours = eqx.filter_jit(likelihood.expectation)(outcome, mean, variance)
    assert_close(ours, reference.expectation(truth, outcome, mean, variance), 1e-8)


@pytest.mark.parametrize("name", CASES)
def test_finite_at_the_extremes(name):
    likelihood, _, outcomes = CASES[name]
    for dtype in (np.float32, np.float64):
        # A rate of exp(1000) has no finite log-probability.
        far = 40.0 if name in ("poisson", "skellam") else 1e3
        means, variances = np.array([-far, -40, 0, 40, far]), np.array([1e-6, 1e-3, 1e4, 1e6])
        outcome, mean, variance = (part.astype(dtype) for part in grid(outcomes, means, variances))

        def total(mean, variance, outcome=outcome):
            return sum(map(jnp.sum, likelihood.log_partition(outcome, mean, variance)))

        values = eqx.filter_jit(likelihood.log_partition)(outcome, mean, variance)
        slopes = jax.jit(jax.grad(total, argnums=(0, 1)))(mean, variance)
        expected = eqx.filter_jit(likelihood.expectation)(outcome, mean, variance)
        for part in (*values, *slopes, *expected):
            assert np.isfinite(part).all()
            assert part.dtype == dtype


def test_counts_up_to_500_under_a_wide_cavity():
    outcome, mean, variance = grid([0.0, 30.0, 500.0], [-5.0, 0.0, 5.0], [1.0, 100.0])
    ours = eqx.filter_jit(jk.likelihoods.Poisson().log_partition)(outcome, mean, variance)
    assert_close(ours, reference.log_partition(reference.poisson(), outcome, mean, variance), 1e-7)


class UsersLogit(jk.likelihoods.AbstractLikelihood):
    """Three lines are enough."""

    def log_prob(self, outcome, score):
        return jax.nn.log_sigmoid(outcome * score)


def test_a_users_likelihood_needs_only_its_log_prob():
    outcome, mean, variance = grid([-1.0, 1.0], [-3.0, 0.0, 2.0], [0.01, 1.0, 5.0])
    for method in ("log_partition", "expectation"):
        ours = eqx.filter_jit(getattr(UsersLogit(), method))(outcome, mean, variance)
        assert_close(ours, getattr(jk.likelihoods.Logit(), method)(outcome, mean, variance), 1e-8)
