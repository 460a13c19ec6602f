"""Elementary functions that neither overflow nor lose their sign."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxkick._typing import Array, Float

__all__ = ["Logistic", "bounded_exp", "exp_limit", "log_growth", "logistic", "no_less_than_tiny"]


def exp_limit(dtype: jnp.dtype) -> float:
    """The exponent beyond which `bounded_exp` follows its tangent."""
    return 300.0 if dtype == jnp.float64 else 60.0


def bounded_exp(x: Float[Array, "..."]) -> Float[Array, "..."]:
    """exp(x), continued by its tangent where it would overflow.

    The value stays finite and the derivative positive, so that an optimiser is still told
    where to go.

    Args:
        x: exponents.

    Returns:
        The exponential up to e³⁰⁰ (e⁶⁰ in single precision), a straight line beyond.
    """
    limit = exp_limit(x.dtype)
    return jnp.exp(jnp.minimum(x, limit)) * (1 + jnp.maximum(x - limit, 0.0))


class Logistic(NamedTuple):
    """The logistic function σ(x) = exp(exponent) · factor.

    Attributes:
        exponent: min(x, 0).
        factor: 1 / (1 + exp(−|x|)).
        win: σ(x).
        loss: σ(−x).
    """

    exponent: Float[Array, "..."]
    factor: Float[Array, "..."]
    win: Float[Array, "..."]
    loss: Float[Array, "..."]


@jax.custom_jvp
def logistic(x: Float[Array, "..."]) -> Logistic:
    """The logistic function and its parts, by one exponential and no logarithm.

    Args:
        x: log-odds.

    Returns:
        The parts. Under differentiation all of log σ counts as its exponent.
    """
    small = jnp.exp(-jnp.abs(x))
    factor = 1 / (1 + small)
    positive = x > 0
    win = jnp.where(positive, 1.0, small) * factor
    loss = jnp.where(positive, small, 1.0) * factor
    return Logistic(jnp.minimum(x, 0.0), factor, win, loss)


@logistic.defjvp
def _logistic_jvp(primals, tangents):
    (x,), (dx,) = primals, tangents
    parts = logistic(x)
    change = parts.win * parts.loss * dx
    return parts, Logistic(parts.loss * dx, jnp.zeros_like(change), change, -change)


def no_less_than_tiny(variance: Float[Array, "..."]) -> Float[Array, "..."]:
    """`variance`, raised to the smallest that is told from zero; its square does not underflow."""
    return jnp.maximum(variance, 1e-150 if variance.dtype == jnp.float64 else 1e-18)


@jax.custom_jvp
def log_growth(variance: Float[Array, "..."]) -> Float[Array, "..."]:
    """The logarithm of a variance relative to its present value: zero, with a derivative."""
    return jnp.zeros_like(variance)


@log_growth.defjvp
def _log_growth_jvp(primals, tangents):
    (variance,), (change,) = primals, tangents
    # Bounded where variances are so small that the nodes cannot be told apart.
    floor = 1e-20 if variance.dtype == jnp.float64 else 1e-10
    return log_growth(variance), change / jnp.maximum(variance, floor)
