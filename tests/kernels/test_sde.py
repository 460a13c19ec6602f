"""Kernels that users make from equations and from other kernels."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxkick.kernels import (
    AbstractCompositeKernel,
    AbstractKernel,
    Constant,
    Instant,
    Interval,
    LinearSDE,
    Matern32,
    Wiener,
)
from jaxkick.kernels.sde import discretise
from jaxkick.parameters import AbstractParameter, Fixed, positive
from tests.kernels.zoo import LINE, OSCILLATOR, evaluate

GAPS = np.array([0.0, 1e-9, 1e-3, 0.1, 0.7, 2.0, 9.0, 80.0, 1e4, 1e9])


class OwnMatern32(AbstractCompositeKernel):
    """Matérn 3/2 by its equation for f and df/dt."""

    variance: AbstractParameter = eqx.field(converter=positive)
    lengthscale: AbstractParameter = eqx.field(converter=positive)

    def definition(self) -> AbstractKernel:
        """The equation."""
        variance, rate = self.variance.value, jnp.sqrt(3.0) / self.lengthscale.value
        rate = rate.astype(variance.dtype)
        zero, one = jnp.zeros_like(rate), jnp.ones_like(rate)
        feedback = jnp.stack([jnp.stack([zero, one]), jnp.stack([-(rate**2), -2.0 * rate])])
        density = 4.0 * rate**3 * variance
        return LinearSDE(feedback, jnp.stack([zero, one]), density, jnp.stack([one, zero]))


def in_derivatives(values, rate):
    """The state of `Matern32`, f and f + (df/dt)/rate, as f and df/dt."""
    change = np.array([[1.0, 0.0], [-rate, rate]])
    back = np.linalg.inv(change)
    return {
        "A": change @ values["A"] @ back,
        "Q": change @ values["Q"] @ change.T,
        "P_start": change @ values["P_start"] @ change.T,
        "k": values["k"],
    }


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 1e-12), (np.float32, 3e-6)])
def test_own_equation_agrees_with_matern32(dtype, tolerance):
    lengthscale, variance = 0.8, 1.7
    own = OwnMatern32(variance, lengthscale)
    found = evaluate(own, 0.0, GAPS, dtype, dense=dtype == np.float64)
    expected = in_derivatives(
        evaluate(Matern32(variance, lengthscale), 0.0, GAPS), np.sqrt(3.0) / lengthscale
    )
    for name in {"A", "P_start", "k"} & set(found):
        scale = np.max(np.abs(expected[name]))
        np.testing.assert_allclose(found[name], expected[name], atol=tolerance * scale, rtol=0)
    # Entry by entry: the variance gained by f goes with the third power of the gap.
    np.testing.assert_allclose(found["Q"][:, 0, 0], expected["Q"][:, 0, 0], rtol=30 * tolerance)
    np.testing.assert_allclose(found["Q"][:, 1, 1], expected["Q"][:, 1, 1], rtol=30 * tolerance)


def test_gradients_flow_through_the_definition_in_both_modes():
    def value(kind, point):
        return kind(point[0], point[1]).covariance(Instant.at(0.0), Instant.at(0.6))

    point = jnp.asarray([1.7, 0.8])
    expected = jax.jit(jax.grad(lambda point: value(Matern32, point)))(point)
    for mode in (jax.grad, jax.jacfwd):
        found = jax.jit(mode(lambda point: value(OwnMatern32, point)))(point)
        np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_given_and_solved_stationary_covariances_agree():
    covariance = np.diag([0.5, 1.0])
    arguments = (OSCILLATOR, [0.0, 1.0], 0.6, [1.0, 0.0])
    given = LinearSDE(*arguments, covariance)
    solved = LinearSDE(*arguments)
    instant = Instant.at(1.0)
    np.testing.assert_allclose(
        solved.state_cov(instant).to_array(), given.state_cov(instant).to_array(), atol=1e-14
    )


def test_brownian_motion_by_its_equation():
    own = LinearSDE([[0.0]], [1.0], 0.7, [1.0], initial_covariance=[[0.2]], origin=2.0)
    kernel = Wiener(0.7, origin=2.0, origin_variance=0.2)

    @jax.jit
    @jax.vmap
    def both(start, end):
        span = Interval.between(start, end)
        return [
            (k.noise_cov(span).to_array(), k.state_cov(span.end).to_array()) for k in (own, kernel)
        ]

    found, expected = both(jnp.array([0.0, 0.0, 2.5, 3.0]), jnp.array([1.0, 4.0, 1e3, 3.001]))
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-13)


def test_slow_parts_beside_fast_ones_keep_their_accuracy():
    rates = np.array([1e6, 1e-3])
    gaps = np.array([1.0, 500.0])
    arrays = (jnp.asarray(array) for array in (-np.diag(rates), np.eye(2), 2.0 * np.diag(rates)))
    discretised = jax.jit(jax.vmap(discretise, in_axes=(None, None, None, 0)))
    transition, noise = discretised(*arrays, jnp.asarray(gaps))
    np.testing.assert_allclose(transition[:, 1, 1], np.exp(-rates[1] * gaps), rtol=1e-13)
    np.testing.assert_allclose(noise[:, 1, 1], -np.expm1(-2.0 * rates[1] * gaps), rtol=1e-11)
    np.testing.assert_allclose(noise[:, 0, 0], 1.0, rtol=1e-12)


def test_text():
    kernel = LinearSDE([[-1.0]], [1.0], Fixed(2.0), [1.0])
    assert repr(Constant(1) + kernel) == (
        "Constant(variance=1) + LinearSDE(feedback=[[-1]], noise_effect=[1], "
        "noise_density=2, measurement_vector=[1], origin=FIRST)"
    )


def test_wrong_arrays_are_refused():
    make = LinearSDE
    with pytest.raises(ValueError, match=r"`feedback` has the shape \[2, 2\], .* must be \[3, 3\]"):
        make(OSCILLATOR, [0.0, 1.0, 0.0], 1.0, [1.0, 0.0, 0.0])
    with pytest.raises(ValueError, match=r"`noise_effect` has the shape \[3\]"):
        make(OSCILLATOR, [0.0, 1.0, 0.0], 1.0, [1.0, 0.0])
    with pytest.raises(
        ValueError, match=r"`noise_density` has the shape \[\], .* must be \[2, 2\]"
    ):
        make(OSCILLATOR, np.eye(2), 1.0, [1.0, 0.0])
    with pytest.raises(ValueError, match=r"`measurement_vector` .* must have the shape \[K\]"):
        make(OSCILLATOR, np.eye(2), np.eye(2), [[1.0, 0.0]])
    with pytest.raises(ValueError, match="`feedback` is not stable"):
        make(LINE, [0.0, 1.0], 1.0, [1.0, 0.0])
    with pytest.raises(ValueError, match="`state_covariance` is not stationary"):
        make(OSCILLATOR, [0.0, 1.0], 1.0, [1.0, 0.0], np.eye(2))
    with pytest.raises(
        ValueError, match="`state_covariance` and `initial_covariance` are both given"
    ):
        make(LINE, [0.0, 1.0], 1.0, [1.0, 0.0], np.eye(2), initial_covariance=np.eye(2))
