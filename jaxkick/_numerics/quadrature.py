"""Integrals of a likelihood against a Gaussian, by one graded trapezoidal rule."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax

from jaxkick._numerics import grid as G
from jaxkick._numerics.grid import Anchor, Precision, graded_grid, nodes_needed, sum_over_nodes
from jaxkick._numerics.local import Derivatives, Local
from jaxkick._numerics.mode import find_mode
from jaxkick._typing import Array, Float

LOG_SQRT_2PI = 0.9189385332046727

FORCE = None

def tilted(local, frozen, mean, variance, weight, anchor):
    fixed = lax.stop_gradient
    precision = Precision.of(mean.dtype)
    variance = jnp.maximum(variance, jnp.sqrt(jnp.finfo(mean.dtype).tiny))
    mean0, variance0 = fixed(mean), fixed(variance)
    weight0 = 1.0 if weight is None else fixed(weight)
    deviation = jnp.sqrt(variance0)
    anchor = fixed(anchor)
    mode = find_mode(frozen, mean0, variance0, weight0, anchor.centre)
    at = frozen(mode)
    curvature = jnp.maximum(-weight0 * at.second, 0.0)
    follow = 1 / (1 + variance0 * curvature)
    resist = curvature * follow          # (1-follow)/variance
    lag = variance0 * resist             # 1-follow
    peak = (mode - mean0) / deviation
    height = weight0 * at.log_prob - 0.5 * peak**2
    slope = follow * weight0 * at.first + resist * (mode - mean0)
    scaled = Anchor((anchor.centre - mean0) / deviation, anchor.scale / deviation,
        None if anchor.reach is None else anchor.reach / deviation)
    grid = fixed(graded_grid(precision, peak, jnp.sqrt(follow), scaled))
    count = nodes_needed(precision, grid) if FORCE is None else jnp.int32(FORCE)

    growth = jnp.log1p((variance - variance0) / jnp.maximum(variance0, 1e-20 if mean.dtype==jnp.float64 else 1e-10))
    centre = mean0 + follow * (mean - mean0)
    scale = deviation * jnp.exp(0.5 * follow * growth)
    shrink = jnp.exp(-0.5 * lag * growth)
    pull = resist * variance0 * lax.rsqrt(variance)
    shift = pull * (mean - mean0)

    def terms(x, dx):
        at = local(centre + scale * x)
        z = shrink * x - shift
        if weight is None:
            e = jnp.exp(jnp.minimum(at.exponent - 0.5*z*z - height, 60.0)) * dx
            if at.factor is not None: e = e * at.factor
            first, second = at.first, at.second
        else:
            e = jnp.exp(jnp.minimum(weight * at.log_prob - 0.5*z*z - height, 60.0)) * dx
            first, second = weight * at.first, weight * at.second
        alive = e > 1e-30
        d = jnp.where(alive, follow * first + pull * z - slope, 0.0)
        ed = e * d
        return e, ed, ed * d, e * jnp.where(alive, second, 0.0)

    (total, s1, s11, s2), step = sum_over_nodes(grid, count, precision.most_nodes, terms)
    inv = 1 / total
    m1 = s1 * inv
    value = height + jnp.log(total * step) - LOG_SQRT_2PI - 0.5 * lag * growth
    first = slope + m1
    second = follow**2 * (s2 * inv) - pull**2 + (s11 * inv - m1**2)
    if weight is not None:
        value = value - jnp.where(weight0 == 0, fixed(value), 0.0)
    return Derivatives(value, first, second), count
