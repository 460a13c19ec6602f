"""Instants, intervals and the kernels that depend on them."""

import jax.numpy as jnp
import numpy as np
import pytest

from jaxkick.kernels import (
    FIRST,
    Affine,
    Epoch,
    Instant,
    Interval,
    Linear,
    PiecewiseConstant,
    Wiener,
    state_space_covariance,
)
from jaxkick.parameters import resolve

FAR_TIME = 1e12


def instant(time, first, epoch, dtype):
    """An instant as a data set makes it: differences in float64, then cast."""
    offset, age = np.asarray(time - epoch, dtype), np.asarray(time - first, dtype)
    return Instant(jnp.asarray(offset), jnp.asarray(age), Epoch.at(epoch, dtype))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_origins_keep_their_accuracy_far_from_zero(dtype):
    epoch, first, time = FAR_TIME + 1.25, FAR_TIME + 3.0, FAR_TIME + 5.5
    late = instant(time, first, epoch, dtype)
    assert late.since(FAR_TIME) == 5.5
    assert late.since(FIRST) == 2.5
    np.testing.assert_array_equal(late.since(np.array([FAR_TIME, FAR_TIME + 6.0])), [5.5, -0.5])
    assert instant(first, first, epoch, dtype).until(late) == 2.5
    assert late.since(FAR_TIME).dtype == dtype


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_moving_kernels_far_from_zero(dtype):
    epoch, first = FAR_TIME + 1.25, FAR_TIME + 3.0
    start, end = (instant(FAR_TIME + t, first, epoch, dtype) for t in (3.5, 6.0))
    cases = [
        (Wiener(2.0, origin=FAR_TIME), 7.0),
        (Wiener(2.0, origin=FAR_TIME, origin_variance=0.5), 7.5),
        (Wiener(2.0), 1.0),
        (Wiener(2.0, origin=FAR_TIME + 5.0, origin_variance=0.5), 0.5),
        (Linear(2.0, origin=FAR_TIME + 1.0), 25.0),
        (Linear(2.0), 3.0),
        (Affine(0.5, 2.0, origin=FAR_TIME + 1.0), 25.5),
        (PiecewiseConstant(2.0, [FAR_TIME + 6.5, FAR_TIME + 3.5]), 2.0),
        (PiecewiseConstant(2.0, [FAR_TIME + 6.0]), 0.0),
    ]
    for kernel, expected in cases:
        kernel = resolve(kernel, jnp.dtype(dtype))
        np.testing.assert_allclose(kernel.covariance(start, end), expected, rtol=1e-6)
        np.testing.assert_allclose(kernel.covariance(end, start), expected, rtol=1e-6)
        for pair in ((start, end), (end, start)):
            found = state_space_covariance(kernel, *pair)
            np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_brownian_motion_stands_still_before_its_origin():
    kernel = Wiener(2.0, origin=3.0, origin_variance=0.5)
    noises = {(0.0, 2.0): 0.0, (1.0, 4.5): 3.0, (3.0, 4.0): 2.0, (4.0, 4.25): 0.5}
    for (start, end), expected in noises.items():
        span = Interval.between(start, end)
        assert kernel.noise_cov(span).to_array() == expected
    assert kernel.state_cov(Instant.at(1.0)).to_array() == 0.5
    assert kernel.state_cov(Instant.at(4.0)).to_array() == 2.5


def test_a_short_gap_long_after_the_origin_loses_nothing():
    dtype = np.float32
    start, end = (instant(t, 0.0, 0.0, dtype) for t in (1e6, 1e6 + 1e-3))
    span = Interval(start, end, jnp.asarray(1e-3, dtype))
    for origin in (FIRST, -5.0):
        kernel = resolve(Wiener(2.0, origin=origin), jnp.dtype(dtype))
        np.testing.assert_allclose(kernel.noise_cov(span).to_array(), 2e-3, rtol=1e-6)


def test_a_boundary_belongs_to_the_piece_that_it_begins():
    kernel = PiecewiseConstant(2.0, [1.0, 4.0])
    kept = {(0.0, 0.9): 1.0, (0.0, 1.0): 0.0, (1.0, 3.9): 1.0, (0.0, 9.0): 0.0, (4.0, 9.0): 1.0}
    for (start, end), expected in kept.items():
        span = Interval.between(start, end)
        assert kernel.transition(span).to_array() == expected
        assert kernel.noise_cov(span).to_array() == 2.0 * (1.0 - expected)


def test_no_boundary_is_a_constant():
    assert PiecewiseConstant(2.0, []).covariance(Instant.at(0.0), Instant.at(9.0)) == 2.0
