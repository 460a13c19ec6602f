"""Expectations of a function of the score under a Gaussian, by one graded trapezoidal rule."""

from collections.abc import Callable

import jax.numpy as jnp
from jax import lax

from jaxkick._numerics.elementary import log_growth, no_less_than_tiny
from jaxkick._numerics.grid import (
    Anchor,
    Node,
    Precision,
    choose_grid,
    nodes_needed,
    sum_over_nodes,
)
from jaxkick._numerics.local import Derivatives, Local
from jaxkick._numerics.search import find_bend
from jaxkick._typing import Array, Float

__all__ = ["gaussian_expectation", "gaussian_mean"]


def gaussian_expectation(
    local: Callable[[Array], Local],
    constant: Callable[[Array], Local],
    anchor: Anchor | None,
    mean: Float[Array, "..."],
    variance: Float[Array, "..."],
) -> Derivatives:
    """E[log p(f)] for f ~ N(mean, variance), and its derivatives in the mean.

    Args:
        local: the likelihood as a function of the score.
        constant: the same function, with nothing in it to be differentiated.
        anchor: where the likelihood bends; searched for if `None`.
        mean: mean of the Gaussian.
        variance: its variance.

    Returns:
        The expectation and its first and second derivative.
    """
    precision = Precision.of(mean.dtype)
    variance = no_less_than_tiny(variance)
    fixed_mean, fixed_variance = lax.stop_gradient(mean), lax.stop_gradient(variance)
    deviation = jnp.sqrt(fixed_variance)
    reach = precision.reach + 0.5
    if anchor is None:
        anchor = find_bend(constant, fixed_mean - reach * deviation, fixed_mean + reach * deviation)
    zero, one = jnp.zeros_like(mean), jnp.ones_like(mean)
    units = lax.stop_gradient(anchor).in_units(fixed_mean, deviation)
    grid = choose_grid(precision, zero - reach, zero, zero + reach, one, units)
    grid = lax.stop_gradient(grid)
    scale = deviation * jnp.exp(0.5 * log_growth(variance))

    scores = grid.mapped(mean, scale)

    def terms(node: Node):
        at, x = local(node.position(scores)), node.position(grid)
        mass = jnp.exp(-0.5 * x * x) * node.width(grid)
        return mass, mass * at.log_prob, mass * at.first, mass * at.second

    count = nodes_needed(precision, grid)
    (total, *sums), _ = sum_over_nodes(grid, count, precision.most_nodes, terms)
    return Derivatives(*(each / total for each in sums))


def gaussian_mean(
    function: Callable[[Array], Array],
    anchor: Anchor,
    mean: Float[Array, "..."],
    variance: Float[Array, "..."],
) -> Float[Array, "..."]:
    """E[function(f)] for f ~ N(mean, variance), without derivatives.

    Args:
        function: of the score.
        anchor: where the function bends.
        mean: mean of the Gaussian.
        variance: its variance.

    Returns:
        The expectation.
    """
    precision = Precision.of(mean.dtype)
    deviation = jnp.sqrt(variance)
    zero, one = jnp.zeros_like(mean), jnp.ones_like(mean)
    units = anchor.in_units(mean, jnp.maximum(deviation, jnp.finfo(mean.dtype).eps))
    grid = choose_grid(precision, zero - precision.reach, zero, zero + precision.reach, one, units)
    count = nodes_needed(precision, grid)

    def add(index, sums):
        node = Node.at(grid.start + index.astype(mean.dtype) * step)
        x = node.position(grid)
        mass = jnp.exp(-0.5 * x * x) * node.width(grid)
        return sums[0] + mass, sums[1] + mass * function(mean + deviation * x)

    step = grid.span / (count - 1).astype(mean.dtype)
    total, weighted = lax.fori_loop(0, count, add, (zero, zero))
    return weighted / total
