"""Derivatives of posteriors and predictions, through the fixed point, against differences."""

import dataclasses
import functools
import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxkick as jk
from jaxkick import kernels, likelihoods

TIMES = np.array([0.0, 0.4, 0.4, 1.1, 1.7, 2.0, 2.6, 3.1])
FIRST = np.array([0, 1, 2, 0, 1, 2, 0, 1])
SECOND = np.array([1, 2, 0, 2, 0, 1, 1, 2])
SIGNS = np.array([1, -1, 1, 1, 1, -1, 1, 1.0])
MARGINS = np.array([0.5, -1.2, 0.3, 2.0, 1.1, -0.2, 0.9, 0.1])
OUTCOMES = {likelihoods.Logit: SIGNS, likelihoods.Gaussian: MARGINS}


class Inputs(eqx.Module):
    """All real numbers that a posterior depends on."""

    variance: jax.Array
    lengthscale: jax.Array
    noise: jax.Array
    coefficients: jax.Array
    outcome: jax.Array
    weight: jax.Array


def inputs(outcome):
    rng = np.random.default_rng(0)
    coefficients = np.tile([1.0, -1.0], (8, 1)) * rng.uniform(0.7, 1.3, (8, 2))
    numbers = (0.8, 1.5, 0.6, coefficients, outcome, rng.uniform(0.5, 1.5, 8))
    return Inputs(*map(jnp.asarray, numbers))


@functools.cache
def data_of(likelihood):
    outcome = OUTCOMES[likelihood]
    return jk.Dataset.from_pairs(
        TIMES, FIRST, SECOND, outcome, weight=np.ones(8), row_length=16
    ), inputs(outcome)


def outputs(numbers, data, likelihood, method):
    """Moments at entries and elsewhere, the evidence, and the probability of an outcome."""
    kernel = kernels.Matern12(numbers.variance, numbers.lengthscale)
    own = likelihood() if likelihood is likelihoods.Logit else likelihood(numbers.noise)
    data = dataclasses.replace(
        data, coefficients=numbers.coefficients, outcome=numbers.outcome, weight=numbers.weight
    )
    posterior = jk.infer(jk.Model(kernel, own), data, method, tol=1e-11)
    ahead = posterior.predict([0, 2], [1, 7], [2.3, 5.0], allow_unknown=True)
    evidence = posterior.log_marginal_likelihood[None]
    parts = (*posterior.observations, evidence, ahead.mean, ahead.variance, ahead.log_prob(1.0))
    return jnp.concatenate(parts)


@pytest.mark.parametrize(
    ("likelihood", "method"),
    [
        (likelihoods.Logit, jk.ExpectationPropagation()),
        (likelihoods.Logit, jk.ReverseKL()),
        (likelihoods.Gaussian, jk.ReverseKL()),
    ],
)
def test_derivatives_of_everything_in_everything(likelihood, method):
    """Of random combinations of all outputs, along random directions of every input."""
    data, numbers = data_of(likelihood)
    rng, step = np.random.default_rng(1), 1e-4

    @jax.jit
    @jax.value_and_grad
    def combined(numbers, combination):
        return combination @ outputs(numbers, data, likelihood, method)

    names = {field.name for field in dataclasses.fields(Inputs)}
    if likelihood is likelihoods.Logit:
        names -= {"noise", "outcome"}
    for name, _ in itertools.product(sorted(names), range(2)):
        combination = jnp.asarray(rng.normal(size=23))
        value = getattr(numbers, name)
        direction = jnp.asarray(rng.normal(size=value.shape))
        _, slopes = combined(numbers, combination)
        up, down = (
            combined(
                dataclasses.replace(numbers, **{name: value + sign * step * direction}),
                combination,
            )[0]
            for sign in (1, -1)
        )
        difference = float(up - down) / (2 * step)
        found = float(jnp.sum(getattr(slopes, name) * direction))
        np.testing.assert_allclose(found, difference, rtol=1e-4, err_msg=name)
        assert abs(difference) > 1e-3, name
