"""Gradients of the evidence against central differences."""

import equinox as eqx
import jax
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

import jaxkick as jk
from jaxkick import kernels, likelihoods

TIMES = np.array([0.0, 0.4, 0.4, 1.1, 1.7, 2.0, 2.6, 3.1, 3.3, 4.0])
FIRST = np.array([0, 1, 2, 0, 1, 2, 0, 1, 0, 2])
SECOND = np.array([1, 2, 0, 2, 0, 1, 1, 2, 2, 0])
SIGNS = np.array([1, -1, 1, 1, 1, -1, 1, 1, -1, 1.0])
COUNTS = np.array([0, 2, 1, 3, 1, 0, 4, 1, 2, 1.0])

KERNELS = {
    "constant": kernels.Constant(0.7),
    "wiener": kernels.Wiener(0.4, origin=-1.0, origin_variance=0.3),
    "matern32": kernels.Matern32(0.8, 1.5),
    "cosine": kernels.Cosine(0.6, 2.3, 4.0),
    # All matrices of a user's own kernel are parameters, the one that reads the score too.
    "equation": kernels.StochasticDifferentialEquation([[-0.5]], [1.0], 0.8, [1.2]),
    "sum of product": kernels.Constant(0.3) + kernels.Matern12(1.0, 2.0) * kernels.Cosine(0.5, 3.0),
}
LIKELIHOODS = {
    "probit": (likelihoods.Probit(), SIGNS),
    "logit": (likelihoods.Logit(), SIGNS),
    "ordinal probit": (likelihoods.OrdinalProbit(margin=0.4), np.sign(COUNTS - 1)),
    "ordinal logit": (likelihoods.OrdinalLogit(cuts=[-0.5, 0.3, 1.0]), np.minimum(COUNTS, 3)),
    "gaussian": (likelihoods.Gaussian(1.3), COUNTS - 1.5),
    "poisson": (likelihoods.Poisson(), COUNTS),
    "skellam": (likelihoods.Skellam(0.2), COUNTS - 1),
}
SIMPLE = kernels.Constant(0.3) + kernels.Matern12(0.7, 1.5)


def assert_gradient(function, model, step=1e-4):
    """The gradient in every unconstrained number of a model is that of central differences."""
    moving, still = eqx.partition(model, eqx.is_inexact_array)
    flat, unravel = ravel_pytree(moving)
    value = jax.jit(lambda numbers: function(eqx.combine(unravel(numbers), still)))
    gradient = jax.jit(jax.grad(value))(flat)
    moves = step * np.eye(len(flat))
    differences = [(value(flat + move) - value(flat - move)) / (2 * step) for move in moves]
    np.testing.assert_allclose(gradient, differences, rtol=1e-4, atol=1e-6)
    assert np.any(np.abs(gradient) > 1e-3)


def evidence(method, outcome):
    data = jk.Dataset.from_pairs(TIMES, FIRST, SECOND, outcome)
    return lambda model: jk.log_marginal_likelihood(model, data, method, tol=1e-9)


@pytest.mark.parametrize("name", KERNELS)
def test_evidence_in_every_kernels_parameters(name):
    model = jk.Model(KERNELS[name], likelihoods.Probit())
    assert_gradient(evidence(jk.ExpectationPropagation(), SIGNS), model)


@pytest.mark.parametrize("name", LIKELIHOODS)
def test_evidence_in_every_likelihoods_parameters(name):
    likelihood, outcome = LIKELIHOODS[name]
    model = jk.Model(SIMPLE, likelihood)
    assert_gradient(evidence(jk.ExpectationPropagation(), outcome), model)


@pytest.mark.parametrize("name", LIKELIHOODS)
def test_evidence_lower_bound(name):
    likelihood, outcome = LIKELIHOODS[name]
    assert_gradient(evidence(jk.ReverseKL(), outcome), jk.Model(SIMPLE, likelihood))
