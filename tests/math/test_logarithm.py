"""The logarithm against NumPy's, and what it is outside of the normal numbers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxkick._math.normal import log

RNG = np.random.default_rng(0)
WIDE = np.concatenate([10.0 ** RNG.uniform(-307, 308, 100_000), RNG.uniform(0.5, 2.0, 100_000)])
NEAR_ONE = 1.0 + RNG.choice([-1, 1], 10_000) * 10.0 ** RNG.uniform(-15.6, -1, 10_000)
EDGES = np.array([np.finfo(float).tiny, np.finfo(float).max, np.sqrt(0.5), np.sqrt(2.0), 1.0, 2.0])


@pytest.mark.parametrize("x", [WIDE, NEAR_ONE, EDGES], ids=["wide", "near one", "edges"])
def test_float64_is_right_to_a_few_units_in_the_last_place(x):
    found, expected = np.asarray(jax.jit(log)(jnp.asarray(x))), np.log(x)
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, expected, rtol=6e-16, atol=0)


def test_float32_is_that_of_jax():
    x = jnp.asarray(WIDE[(WIDE > 1e-37) & (WIDE < 1e38)], jnp.float32)
    found = log(x)
    assert found.dtype == jnp.float32
    np.testing.assert_array_equal(found, jnp.log(x))


def test_float64_where_integers_have_32_bits():
    x = jnp.asarray([0.5, 2.0])
    with jax.enable_x64(False):
        np.testing.assert_allclose(log(x), np.log([0.5, 2.0]), rtol=1e-15)


def test_outside_of_the_normal_numbers():
    found = log(jnp.asarray([0.0, -0.0, 1e-310, jnp.inf, jnp.nan, -1.0, -jnp.inf]))
    infinity, unknown = np.inf, np.nan
    np.testing.assert_array_equal(
        found, [-infinity, -infinity, -infinity, infinity, unknown, unknown, unknown]
    )


def test_derivatives_of_every_order():
    x = jnp.asarray([1e-200, 0.3, 1.0, 7.0, 1e200])
    np.testing.assert_allclose(jax.vmap(jax.grad(log))(x), 1 / x, rtol=1e-15)
    curvature = jax.vmap(jax.grad(jax.grad(log)))(x[1:4])
    np.testing.assert_allclose(curvature, -1 / x[1:4] ** 2, rtol=1e-15)


@pytest.mark.parametrize("platform", ["cpu", "cuda", "tpu"])
def test_it_lowers_for_every_platform(platform):
    text = jax.export.export(jax.jit(log), platforms=[platform])(jnp.ones(4)).mlir_module()
    assert ("bitcast_convert" in text) == (platform == "cpu")
