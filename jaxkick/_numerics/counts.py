"""Distribution functions of counts and their differences, and quantiles of whole numbers."""

import math
from collections.abc import Callable

import jax.numpy as jnp
from jax import lax

from jaxkick._typing import Array, Bool, Float

__all__ = ["integer_quantile", "skellam_cdf"]

NODES = 24
MOST_HALVINGS = 64


def skellam_cdf(
    count: Float[Array, "..."], up: Float[Array, "..."], down: Float[Array, "..."]
) -> Float[Array, "..."]:
    """P(A − B ≤ count) for independent Poisson counts A and B with rates `up` and `down`.

    Cauchy's integral of the generating function over a circle |z| = eᵗ close to its saddle
    point, by the trapezoidal rule, which converges exponentially fast; half a circle by
    symmetry. A circle outside the unit circle gives the upper tail, one inside the lower.

    Args:
        count: whole numbers.
        up: rate of A.
        down: rate of B; zero gives the Poisson distribution.

    Returns:
        Probabilities, to about ten digits in double precision.
    """
    tiny = 1e-30
    up, down = jnp.maximum(up, tiny), jnp.maximum(down, tiny)
    level = count + 0.5
    root = jnp.sqrt(level**2 + 4 * up * down)
    saddle = jnp.where(
        level > 0,
        jnp.log(jnp.abs(level + root) / (2 * up)),
        jnp.log(2 * down / jnp.abs(root - level)),
    )
    # The integrand has a pole on the unit circle: keep away from it by two of its widths.
    away = jnp.minimum(2 * lax.rsqrt(up + down), 1.0)
    upper = saddle > 0
    t = jnp.where(upper, jnp.maximum(saddle, away), jnp.minimum(saddle, -away))
    weight_up, weight_down = up * jnp.exp(t), down * jnp.exp(-t)
    reach = jnp.minimum(12 * lax.rsqrt(weight_up + weight_down), math.pi)

    theta = ((jnp.arange(NODES, dtype=up.dtype) + 0.5) / NODES) * reach[..., None]
    sine, cosine = jnp.sin(theta), jnp.cos(theta)
    each = lambda x: x[..., None]  # noqa: E731
    size = each(weight_up) * cosine - each(up) + each(weight_down) * cosine - each(down)
    size = jnp.exp(size - each(level * t))
    phase = each(weight_up - weight_down) * sine - each(level) * theta
    real, imaginary = (
        each(jnp.sinh(0.5 * t)) * jnp.cos(0.5 * theta),
        each(jnp.cosh(0.5 * t)) * jnp.sin(0.5 * theta),
    )
    part = size * (jnp.cos(phase) * real + jnp.sin(phase) * imaginary)
    integral = reach / (2 * math.pi * NODES) * jnp.sum(part / (real**2 + imaginary**2), axis=-1)
    return jnp.clip(jnp.where(upper, 1 - integral, -integral), 0.0, 1.0)


def integer_quantile(
    reached: Callable[[Array], Bool[Array, "..."]],
    low: Float[Array, "..."],
    high: Float[Array, "..."],
) -> Float[Array, "..."]:
    """The smallest whole number in (low, high] for which a monotone condition holds.

    Args:
        reached: the condition, taken to hold at `high` and not at `low`.
        low: whole numbers.
        high: whole numbers above `low`.

    Returns:
        Whole numbers.
    """

    def unfinished(state):
        step, low, high = state
        return (step < MOST_HALVINGS) & jnp.any(high - low > 1)

    def halve(state):
        step, low, high = state
        middle = jnp.floor(0.5 * (low + high))
        holds = reached(middle)
        return step + 1, jnp.where(holds, low, middle), jnp.where(holds, middle, high)

    return lax.while_loop(unfinished, halve, (jnp.int32(0), low, high))[2]
