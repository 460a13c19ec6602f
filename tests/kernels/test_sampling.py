"""Samples from the prior have the covariance of the kernel."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxkick.kernels import (
    Constant,
    Instant,
    Linear,
    Matern12,
    Matern32,
    Matern52,
    Periodic,
    Wiener,
    sample_prior,
    state_space_covariance,
)

# Unsorted, with one time twice and two very close to each other.
TIMES = np.array([4.0, 1.5, 2.0, 1.5, 9.0, 2.0 + 1e-7])
DRAWS = 40_000

KERNELS = [
    Constant(0.3) + Matern32(1.3, 2.5),
    Linear(0.4, origin=2.0) + Wiener(0.7, origin=1.75, origin_variance=0.2),
    Wiener(0.7) * Matern52(1.3, 2.5),
    Periodic(1.2, 0.7, 3.3, order=4),
]


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_samples_have_the_covariance_of_the_kernel(kernel):
    samples = np.asarray(sample_prior(kernel, TIMES, jax.random.key(1), (DRAWS,)))
    assert samples.shape == (DRAWS, len(TIMES))
    pairs = [np.repeat(TIMES, len(TIMES)), np.tile(TIMES, len(TIMES))]

    @jax.jit
    @jax.vmap
    def covariance(first, second):
        first, second = (Instant.at(time, TIMES.min()) for time in (first, second))
        return state_space_covariance(kernel, first, second)

    expected = np.asarray(covariance(*map(jnp.asarray, pairs))).reshape(len(TIMES), -1)
    variances = np.diag(expected)
    spread = np.sqrt((np.outer(variances, variances) + expected**2) / DRAWS)
    found = samples.T @ samples / DRAWS
    assert np.all(np.abs(found - expected) <= 4.5 * spread + 1e-12)
    error = np.abs(np.mean(samples, axis=0))
    assert np.all(error <= 4.5 * np.sqrt(variances / DRAWS) + 1e-12)
    np.testing.assert_allclose(samples[:, 1], samples[:, 3], atol=1e-12)


def test_gradients_are_finite_where_nothing_is_random():
    def total(kernel):
        return jnp.sum(sample_prior(kernel, TIMES, jax.random.key(0), (2, 3)))

    slopes = jax.grad(total)(Periodic(1.2, 0.7, 3.3, order=4) + Linear(0.4))
    assert all(np.isfinite(slope) and slope != 0.0 for slope in jax.tree.leaves(slopes))


def test_shapes_and_keys():
    kernel, key = Matern32(1.0, 1.0), jax.random.key(0)
    assert sample_prior(kernel, TIMES, key, (2, 3)).shape == (2, 3, 6)
    assert sample_prior(kernel, [2018.0], key).shape == (1,)
    again, other = (sample_prior(kernel, TIMES, k, (2, 3)) for k in (key, jax.random.key(1)))
    assert np.array_equal(sample_prior(kernel, TIMES, key, (2, 3)), again)
    assert not np.array_equal(again, other)


def test_traced_times_give_the_same_samples():
    kernel, key = Wiener(1.0, origin=-2.0) + Matern12(1.0, 1.0), jax.random.key(0)
    traced = jax.jit(lambda times: sample_prior(kernel, times, key, (2, 3)))(jnp.asarray(TIMES))
    np.testing.assert_allclose(traced, sample_prior(kernel, TIMES, key, (2, 3)), rtol=1e-10)


def test_single_precision():
    with jax.enable_x64(False):
        samples = sample_prior(Matern32(1.0, 1.0), 1e9 + TIMES, jax.random.key(0), (3,))
    assert samples.dtype == jnp.float32
    assert np.all(np.isfinite(samples))
    assert np.all(np.abs(samples[:, 0] - samples[:, 2]) > 1e-3)


def test_bad_times_are_refused():
    kernel, key = Matern32(1.0, 1.0), jax.random.key(0)
    with pytest.raises(ValueError, match="Row 1: `times` is missing or infinite"):
        sample_prior(kernel, [1.0, np.nan], key)
    with pytest.raises(ValueError, match="must be a list of at least one time"):
        sample_prior(kernel, [], key)
    with pytest.raises(ValueError, match="must be a list of at least one time"):
        sample_prior(kernel, [[1.0]], key)
