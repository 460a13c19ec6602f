"""Gradients of the evidence in every kernel, against differences of the re-converged value.

Several kernels share a model, one for each group of features, because compiling is what takes
the time.
"""

import jax.numpy as jnp
import numpy as np
import pytest

import jaxkick as jk
from jaxkick import likelihoods
from jaxkick.kernels import Matern52, Periodic, SquaredExponential
from tests.differences import assert_gradient
from tests.kernels import zoo

EP, KL = jk.ExpectationPropagation(), jk.ReverseKL()
TIMES = np.array([0.6, 0.9, 0.9, 1.4, 1.7, 2.4, 2.6, 3.1])
FIRST = np.array([0, 1, 0, 0, 1, 0, 0, 1])
SIGNS = np.array([1, -1, 1, 1, 1, -1, 1, 1.0])
COUNTS = np.array([0, 2, 1, 3, 1, 0, 4, 1.0])
ZOO = {
    **{case.name: case.kernel for case in zoo.CASES},
    # A plain number scales once and for all; an array is a parameter.
    "scaled": jnp.asarray(2.5) * Matern52(1.3, 2.5),
    # Of low order: their gradients are alike at every order, and tracing grows with it.
    "squared-exponential": SquaredExponential(1.1, 3.0, order=3),
    "periodic": Periodic(1.2, 1.5, 2.2, order=1),
}
MODELS = {
    "still": ["constant", "pieces", "linear-number", "affine", "wiener-before"],
    "moving": ["matern12", "matern32", "matern52", "cosine-damped"],
    "approximate": ["squared-exponential", "periodic"],
    "combined": ["sum", "scaled", "product"],
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


@pytest.mark.parametrize("name", MODELS)
def test_every_kernel_under_ep(name):
    kernel = {each: ZOO[each] for each in MODELS[name]}
    assert_gradient(jk.Model(kernel, likelihoods.Probit()), data_of(kernel, SIGNS), EP)


@pytest.mark.parametrize("name", MODELS)
def test_every_kernel_under_reverse_kl(name):
    kernel = {each: ZOO[each] for each in MODELS[name]}
    assert_gradient(jk.Model(kernel, likelihoods.Poisson()), data_of(kernel, COUNTS), KL)
