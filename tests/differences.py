"""Gradients of the evidence against central differences of the re-converged value."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

import jaxkick as jk

__all__ = ["assert_gradient"]

_STEP = 1e-4


def assert_gradient(model, data, method):
    """The gradient in every unconstrained number of a model is that of central differences."""
    moving, still = eqx.partition(model, eqx.is_inexact_array)
    flat, unravel = ravel_pytree(moving)

    def evidence(numbers):
        moved = eqx.combine(unravel(numbers), still)
        return jk.log_marginal_likelihood(moved, data, method, tol=1e-9)

    # One program for value and gradient: compiling is what takes the time.
    evidence = jax.jit(jax.value_and_grad(evidence))
    moves = _STEP * jnp.eye(len(flat))
    pairs = [(evidence(flat + move)[0], evidence(flat - move)[0]) for move in moves]
    differences = np.array([float(up - down) / (2 * _STEP) for up, down in pairs])
    np.testing.assert_allclose(evidence(flat)[1], differences, rtol=1e-4, atol=1e-6)
    assert np.all(differences != 0)
