"""Special functions against SciPy's, into their tails."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special
import scipy.stats

from jaxkick._math.normal import bounded_exp, exp_limit, log_interval, logistic, normal_tail
from jaxkick._math.special import log_ive, skellam_cdf

DTYPES = [("float64", 1e-12), ("float32", 2e-5)]


@pytest.mark.parametrize(("dtype", "tolerance"), DTYPES)
def test_normal_tail(dtype, tolerance):
    z = np.concatenate([-np.logspace(4, -3, 60), [0.0], np.logspace(-3, 4, 60)]).astype(dtype)
    exact = z.astype(np.float64)
    found = jax.jit(normal_tail)(jnp.asarray(z))
    log_cdf = scipy.special.log_ndtr(exact)
    np.testing.assert_allclose(found.log_cdf, log_cdf, rtol=tolerance, atol=1e-3 * tolerance)
    hazard = np.exp(scipy.stats.norm.logpdf(exact) - log_cdf)
    near = np.abs(exact) < 30
    np.testing.assert_allclose(found.hazard[near], hazard[near], rtol=100 * tolerance, atol=1e-37)
    # Far below zero the hazard is −z + 1/(−z) − …, of which the excess is all but −z.
    far = exact < -100
    np.testing.assert_allclose(found.excess[far], -1 / exact[far], rtol=3e-4)


@pytest.mark.parametrize("width", [1e-6, 0.3, 5.0, 40.0])
def test_log_interval(width):
    near = np.linspace(-30.0, 0.5 * width, 61)
    bounded = jnp.ones(61, bool)
    found = jax.jit(log_interval)(jnp.asarray(near), jnp.full(61, width), bounded)
    high, low = scipy.special.log_ndtr(near), scipy.special.log_ndtr(near - width)
    value = high + np.log(-np.expm1(low - high))
    tolerance = 1e-12 if width > 1e-3 else 1e-8
    np.testing.assert_allclose(found.value, value, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(("dtype", "tolerance"), DTYPES)
def test_log_ive(dtype, tolerance):
    order, z = np.meshgrid([0.0, 1.0, 3.0, 20.0, 150.0], np.logspace(-3, 4, 40))
    order, z = order.astype(dtype), z.astype(dtype)
    exact = scipy.special.ive(order.astype(np.float64), z.astype(np.float64))
    known = exact > 1e-290
    found = np.asarray(jax.jit(log_ive)(jnp.asarray(order), jnp.asarray(z)))
    bound = tolerance * (1 + np.abs(np.log(exact[known])))
    assert np.all(np.abs(found[known] - np.log(exact[known])) < 10 * bound)


@pytest.mark.parametrize("rates", [(0.3, 0.7), (5.0, 2.0), (60.0, 80.0)])
def test_skellam_cdf(rates):
    count = np.arange(-40.0, 41.0)
    up, down = (jnp.full(count.shape, rate) for rate in rates)
    found = jax.jit(skellam_cdf)(jnp.asarray(count), up, down)
    np.testing.assert_allclose(found, scipy.stats.skellam.cdf(count, *rates), atol=1e-9)


def test_exponentials_without_overflow():
    x = jnp.array([-1e4, 0.0, 5.0, 1e4])
    assert np.all(np.isfinite(bounded_exp(x)))
    np.testing.assert_allclose(bounded_exp(x)[1:3], np.exp([0.0, 5.0]), rtol=1e-15)
    assert exp_limit(jnp.dtype("float32")) < np.log(np.finfo(np.float32).max)
    parts = logistic(x)
    np.testing.assert_allclose(parts.win, scipy.special.expit(np.asarray(x)), rtol=1e-14)
    np.testing.assert_allclose(parts.win + parts.loss, 1.0, rtol=1e-15)
