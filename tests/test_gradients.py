"""Gradients of the evidence against central differences."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxkick as jk
from jaxkick import kernels, likelihoods
from tests.differences import assert_gradient

pytestmark = pytest.mark.optimized

EP, KL = jk.ExpectationPropagation(), jk.ReverseKL()
TIMES = np.array([0.0, 0.4, 0.4, 1.1, 1.7, 2.0, 2.6, 3.1, 3.3, 4.0])
FIRST = np.array([0, 1, 2, 0, 1, 2, 0, 1, 0, 2])
SECOND = np.array([1, 2, 0, 2, 0, 1, 1, 2, 2, 0])
SIGNS = np.array([1, -1, 1, 1, 1, -1, 1, 1, -1, 1.0])
COUNTS = np.array([0, 2, 1, 3, 1, 0, 4, 1, 2, 1.0])

# Kernels with parameters of unusual kinds; all others are in test_kernel_gradients.py.
KERNELS = {
    # All matrices of a user's own kernel are parameters, the one that reads the score too.
    "equation": kernels.LinearSDE([[-0.5]], [1.0], 0.8, [1.2]),
    "sum of product": kernels.Constant(0.3) + kernels.Matern12(1.0, 2.0) * kernels.Cosine(0.5, 3.0),
}


class StudentT(likelihoods.AbstractLikelihood):
    """A user's own likelihood with a parameter, not log-concave."""

    scale: jax.Array

    def log_prob(self, outcome, score):
        return -2.5 * jnp.log1p(((outcome - score) / self.scale) ** 2 / 4) - jnp.log(self.scale)


LIKELIHOODS = {
    "probit": (likelihoods.Probit(), SIGNS),
    "logit": (likelihoods.Logit(), SIGNS),
    "ordinal probit": (likelihoods.OrdinalProbit(margin=0.4), np.sign(COUNTS - 1)),
    "ordinal logit": (likelihoods.OrdinalLogit(cuts=[-0.5, 0.3, 1.0]), np.minimum(COUNTS, 3)),
    "ordinal probit, cuts": (
        likelihoods.OrdinalProbit(cuts=[-0.5, 0.3, 1.0]),
        np.minimum(COUNTS, 3),
    ),
    "ordinal logit, margin": (likelihoods.OrdinalLogit(margin=0.6), np.sign(COUNTS - 1)),
    "student": (StudentT(jnp.asarray(1.4)), COUNTS - 1.5),
    "gaussian": (likelihoods.Gaussian(1.3), COUNTS - 1.5),
    "poisson": (likelihoods.Poisson(), COUNTS),
    "skellam": (likelihoods.Skellam(0.2), COUNTS - 1),
}
# One state: compiling takes the time, and it grows with the states.
SIMPLE = kernels.Matern12(1.0, 1.5)


def data_of(outcome):
    return jk.Dataset.from_pairs(TIMES, FIRST, SECOND, outcome)


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("method", [EP, KL])
def test_evidence_in_unusual_kernels(name, method):
    assert_gradient(jk.Model(KERNELS[name], likelihoods.Logit()), data_of(SIGNS), method)


@pytest.mark.parametrize("name", LIKELIHOODS)
def test_evidence_in_every_likelihoods_parameters(name):
    likelihood, outcome = LIKELIHOODS[name]
    assert_gradient(jk.Model(SIMPLE, likelihood), data_of(outcome), EP)


@pytest.mark.parametrize("name", LIKELIHOODS)
def test_evidence_lower_bound(name):
    likelihood, outcome = LIKELIHOODS[name]
    assert_gradient(jk.Model(SIMPLE, likelihood), data_of(outcome), KL)
