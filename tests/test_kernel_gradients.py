"""Gradients of the evidence in every kernel, against differences of the re-converged value.

Several kernels share a model, one for each group of features, because compiling is what takes
the time.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

import jaxkick as jk
from jaxkick import likelihoods
from tests.kernels import zoo

EP, KL = jk.ExpectationPropagation(), jk.ReverseKL()
TIMES = np.array([0.6, 0.9, 0.9, 1.4, 1.7, 2.4, 2.6, 3.1])
FIRST = np.array([0, 1, 0, 0, 1, 0, 0, 1])
SIGNS = np.array([1, -1, 1, 1, 1, -1, 1, 1.0])
COUNTS = np.array([0, 2, 1, 3, 1, 0, 4, 1.0])
ZOO = {case.name: case.kernel for case in zoo.CASES}
MODELS = {
    "still": ["constant", "pieces", "linear-number", "affine", "wiener-before"],
    "moving": ["matern12", "matern32", "matern52", "cosine-damped"],
    "approximate": ["squared-exponential", "periodic"],
    "combined": ["sum", "product"],
}


def data_of(groups, outcome):
    """Matches of two players out of three, once for every group at the same time."""
    rows = [
        {(group, who): x for group in groups for who, x in ((first, 1.0), (2, -0.5))}
        for first in FIRST
    ]
    return jk.Dataset.from_mappings(
        TIMES, rows, outcome, groups=lambda name: name[0], row_length=16
    )


def assert_gradient(model, data, method, step=1e-4):
    """The gradient in every unconstrained number of a model is that of central differences."""
    moving, still = eqx.partition(model, eqx.is_inexact_array)
    flat, unravel = ravel_pytree(moving)

    def evidence(numbers):
        moved = eqx.combine(unravel(numbers), still)
        return jk.log_marginal_likelihood(moved, data, method, tol=1e-9, acceleration=0)

    evidence = jax.jit(jax.value_and_grad(evidence))
    moves = step * jnp.eye(len(flat))
    pairs = [(evidence(flat + move)[0], evidence(flat - move)[0]) for move in moves]
    differences = np.array([float(up - down) / (2 * step) for up, down in pairs])
    np.testing.assert_allclose(evidence(flat)[1], differences, rtol=1e-4, atol=1e-6)
    assert np.all(differences != 0)


@pytest.mark.parametrize("name", MODELS)
def test_every_kernel_under_ep(name):
    kernel = {each: ZOO[each] for each in MODELS[name]}
    assert_gradient(jk.Model(kernel, likelihoods.Probit()), data_of(kernel, SIGNS), EP)


@pytest.mark.parametrize("name", MODELS)
def test_every_kernel_under_reverse_kl(name):
    kernel = {each: ZOO[each] for each in MODELS[name]}
    assert_gradient(jk.Model(kernel, likelihoods.Poisson()), data_of(kernel, COUNTS), KL)
