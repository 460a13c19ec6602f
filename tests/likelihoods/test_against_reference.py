"""Integrals of every likelihood over a wide grid against the references' brute-force quadrature.

Errors are measured by what inference makes of them: those of the derivatives of a log-partition
function as the error of the tilted mean, in tilted standard deviations, and of the tilted
variance, relative to itself.
"""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests import reference as ref
from tests.likelihoods.cases import CASES, COUNTS

MEANS = [-40.0, -4.0, -1.0, 0.0, 0.7, 15.0, 40.0]
VARIANCES = [1e-6, 1e-3, 0.1, 1.0, 10.0, 100.0, 1e4]
WEIGHTS = [0.01, 0.5, 3.0]
# Compiling costs most: one of the ordinal likelihoods of a kind stands for the others.
SHARED = ("ordinal_probit-margin", "ordinal_probit-cuts", "ordinal_logit-cuts")
EP_CASES = [(name, False) for name in CASES] + [(n, True) for n in CASES if n not in SHARED]


def grid(*axes):
    """All combinations, repeated to one length so that each likelihood is compiled once."""
    return [np.resize(part, 600) for part in np.meshgrid(*axes, indexing="ij")]


@eqx.filter_jit
def with_slopes(method, outcome, mean, variance, *weight):
    """The result of a method, and its derivatives in the mean and in the variance."""

    def slopes(move):
        moves = jnp.full_like(mean, move[0]), jnp.full_like(mean, move[1])
        function = lambda mean, variance: method(outcome, mean, variance, *weight)  # noqa: E731
        return jax.jvp(function, (mean, variance), moves)

    basis = jnp.eye(2, dtype=mean.dtype)
    value, along = jax.vmap(slopes, out_axes=(None, 0))(basis)
    return value, *(type(value)(*parts) for parts in zip(*along, strict=True))


@functools.cache
def ep_moments(name, weighted):
    likelihood, _, outcomes = CASES[name]
    axes = (outcomes, MEANS, VARIANCES, WEIGHTS) if weighted else (outcomes, MEANS, VARIANCES)
    arguments = grid(*axes)
    return arguments, with_slopes(likelihood.log_partition, *map(jnp.asarray, arguments))


@functools.cache
def expectations(name):
    likelihood, _, outcomes = CASES[name]
    arguments = grid(outcomes, MEANS, VARIANCES)
    return arguments, with_slopes(likelihood.expectation, *map(jnp.asarray, arguments))


def assert_below(bound, error):
    """The place of the largest error is part of the message."""
    assert (float(np.max(error)), int(np.argmax(error))) < (bound,)


@pytest.mark.parametrize(("name", "weighted"), EP_CASES)
def test_ep_moments(name, weighted):
    (outcome, mean, variance, *weight), (ours, _, _) = ep_moments(name, weighted)
    right = ref.log_partition(CASES[name].truth, outcome, mean, variance, *weight)
    tilted = variance * (1 + variance * right.second)
    assert_below(1e-10, np.abs(ours.value - right.value) / (1 + np.abs(right.value)))
    assert_below(1e-8, np.abs(ours.first - right.first) * variance / np.sqrt(tilted))
    # Heavy tails go on below the e⁻²⁵ of the peak at which the quadrature ends.
    bound = 1e-5 if name == "student_t" else 3e-8
    assert_below(bound, np.abs(ours.second - right.second) * variance**2 / tilted)


@pytest.mark.parametrize("name", CASES)
def test_expectations(name):
    (outcome, mean, variance), (ours, _, _) = expectations(name)
    # Beyond, the expectation of a rate overflows; it is finite all the same.
    there = variance < 1e3 if name in COUNTS else np.full(variance.shape, True)
    right = ref.expectation(CASES[name].truth, outcome[there], mean[there], variance[there])
    first_size = np.abs(right.first) + np.abs(right.second)
    second_size = np.abs(right.second) + 1 / variance[there]
    sizes = (1 + np.abs(right.value), 1 + first_size, second_size)
    for mine, truth, size in zip(ours, right, sizes, strict=True):
        assert_below(1e-8, np.abs(np.asarray(mine)[there] - truth) / size)
        assert np.isfinite(mine).all()


@pytest.mark.parametrize("name", CASES)
def test_derivatives_against_automatic_differentiation(name):
    """In the mean by definition; in the variance by the heat equation ∂/∂v = ½ ∂²/∂m²."""

    def check(value, in_mean, in_variance, diffusion, there=True):
        pairs = (in_mean.value, value.first), (in_mean.first, value.second)
        for found, right in (*pairs, (in_variance.value, 0.5 * diffusion)):
            assert_below(1e-6, np.where(there, np.abs(found - right) / (1 + np.abs(right)), 0.0))

    for weighted in (weighted for other, weighted in EP_CASES if other == name):
        _, (value, *slopes) = ep_moments(name, weighted)
        check(value, *slopes, value.second + value.first**2)
    (_, mean, variance), (value, *slopes) = expectations(name)
    # Where a rate would overflow, it goes on along its tangent.
    check(value, *slopes, value.second, (np.abs(mean) + variance / 2 < 250) | (name not in COUNTS))


@pytest.mark.parametrize("name", [name for name in CASES if name not in SHARED])
def test_finite_at_the_extremes_in_both_types(name):
    likelihood, _, outcomes = CASES[name]
    # A rate of exp(1000) has no finite log-probability.
    far = 40.0 if name in COUNTS else 1e3
    variances = [0.0, 1e-12, 1e-6, 1e-3, 1.0, 1e4, 1e6]
    axes = (outcomes, [-far, -40.0, 0.0, 40.0, far], variances, [0.0, 0.5, 1.0])
    for dtype in (np.float32, np.float64):
        arguments = [jnp.asarray(part, dtype) for part in grid(*axes)]
        # Slopes of the others in float32 cost more to compile than they show.
        look = with_slopes if dtype == np.float64 else eqx.filter_jit(lambda f, *x: (f(*x),))
        plain = with_slopes(likelihood.log_partition, *arguments[:3])
        weighted = look(likelihood.log_partition, *arguments)
        expected = look(likelihood.expectation, *arguments[:3])
        for part in jax.tree.leaves((plain, weighted, expected)):
            assert part.dtype == dtype
            assert np.isfinite(part).all()
        for part in weighted[0]:
            np.testing.assert_allclose(part[arguments[3] == 0], 0.0, atol=1e-6)


def test_counts_up_to_500_under_a_wide_cavity():
    arguments = grid([0.0, 30.0, 200.0, 500.0], [-5.0, 0.0, 5.0], [1.0, 100.0, 1e4])
    likelihood, truth, _ = CASES["poisson"]
    ours, _, _ = with_slopes(likelihood.log_partition, *map(jnp.asarray, arguments))
    right = ref.log_partition(truth, *arguments)
    for mine, exact in zip(ours, right, strict=True):
        np.testing.assert_allclose(mine, exact, rtol=1e-9, atol=1e-12)


def test_logit_where_the_mean_is_moved_back():
    """The mixture is evaluated up to a mean of half the variance, and moved back beyond."""
    shares = [-3.0, -1.0, -0.75, -0.5 - 1e-9, -0.5, -0.25, 0.25, 0.5, 0.5 + 1e-9, 1.0, 2.0]
    outcome, share, variance = grid([-1.0, 1.0], shares, [0.3, 4.0, 20.0, 80.0, 300.0])
    mean = share * variance
    likelihood, truth, _ = CASES["logit"]
    ours, _, _ = with_slopes(likelihood.log_partition, *map(jnp.asarray, (outcome, mean, variance)))
    right = ref.log_partition(truth, outcome, mean, variance)
    tilted = variance * (1 + variance * right.second)
    assert_below(1e-10, np.abs(ours.value - right.value) / (1 + np.abs(right.value)))
    assert_below(1e-8, np.abs(ours.first - right.first) * variance / np.sqrt(tilted))
    assert_below(3e-8, np.abs(ours.second - right.second) * variance**2 / tilted)


def test_logit_of_large_means_in_single_precision():
    """Rounding twice would make the density of the widest part of the mixture underflow."""
    mean = jnp.array([-1e6, 1e6], jnp.float32)
    found = CASES["logit"][0].log_partition(1.0, mean, jnp.ones(2, jnp.float32))
    np.testing.assert_allclose(found.value, [-1e6, 0.0], rtol=1e-5)
    np.testing.assert_allclose(found.first, [1.0, 0.0], rtol=1e-5)
    np.testing.assert_allclose(found.second, 0.0, atol=1e-5)
