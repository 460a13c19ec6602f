"""Integrals of a likelihood against a Gaussian, by one graded trapezoidal rule.

The nodes are constants under differentiation, except that they follow the Gaussian's mean
and variance as the integrand's peak does: by the fraction ``follow``, which is one where the
Gaussian is narrower than the likelihood and zero where it is wider. Any fraction would give
the same integrals; this one lets no digits cancel, neither in the derivatives returned here
nor in those that automatic differentiation takes of them.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from jaxkick._numerics.grid import (
    Anchor,
    Grid,
    Node,
    Precision,
    choose_grid,
    nodes_needed,
    sum_over_nodes,
)
from jaxkick._numerics.local import Derivatives, Local
from jaxkick._numerics.search import Tilted, bisected_edges, find_bend, find_mode, tangent_edges
from jaxkick._typing import Array, Float

__all__ = ["gaussian_expectation", "gaussian_mean", "tilted_log_partition"]

LOG_SQRT_2PI = 0.9189385332046727


class _Plan(NamedTuple):
    """What is known of a tilted density before it is integrated, all constants.

    Attributes:
        follow: how far the peak moves with the mean; variance of the peak / variance.
        resist: (1 − follow) / variance.
        height: logarithm of the density at its peak.
        slope: derivative of log Z in the mean, were the density Gaussian.
        grid: the nodes.
    """

    follow: Float[Array, "..."]
    resist: Float[Array, "..."]
    height: Float[Array, "..."]
    slope: Float[Array, "..."]
    grid: Grid


def tilted_log_partition(
    local: Callable[[Array], Local],
    constant: Callable[[Array], Local],
    anchor: Anchor | None,
    mean: Float[Array, "..."],
    variance: Float[Array, "..."],
    weight: Float[Array, "..."] | None,
) -> Derivatives:
    """log ∫ p(f)^weight N(f; mean, variance) df and its derivatives in the mean.

    Args:
        local: the likelihood as a function of the score.
        constant: the same function, with nothing in it to be differentiated.
        anchor: where the likelihood bends; searched for if `None`, and then the likelihood
            need not be log-concave.
        mean: mean of the Gaussian.
        variance: its variance.
        weight: power on the likelihood; one if `None`.

    Returns:
        The logarithm and its first and second derivative.
    """
    precision = Precision.of(mean.dtype)
    variance = jnp.maximum(variance, _smallest(mean.dtype))
    fixed = Tilted(
        constant,
        lax.stop_gradient(mean),
        lax.stop_gradient(variance),
        1.0 if weight is None else lax.stop_gradient(weight),
    )
    plan = lax.stop_gradient(_plan(precision, fixed, lax.stop_gradient(anchor)))
    lag = fixed.variance * plan.resist
    growth = _growth(variance)
    moved = mean - fixed.mean
    centre = fixed.mean + plan.follow * moved
    deviation = jnp.sqrt(fixed.variance) * jnp.exp(0.5 * plan.follow * growth)
    shrink = jnp.exp(-0.5 * lag * growth)
    pull = lag * lax.rsqrt(variance)

    scores = plan.grid.mapped(centre, deviation)
    standardised = plan.grid.mapped(-pull * moved, shrink)

    def terms(node: Node):
        at, z = local(node.position(scores)), node.position(standardised)
        mass, first, second = _weighted(at, weight, 0.5 * z * z + plan.height)
        mass = mass * node.width(plan.grid)
        # Far nodes carry no mass, but may carry slopes whose squares overflow.
        alive = mass > 1e-30
        excess = jnp.where(alive, plan.follow * first + pull * z - plan.slope, 0.0)
        tilt = mass * excess
        return mass, tilt, tilt * excess, mass * jnp.where(alive, second, 0.0)

    count = nodes_needed(precision, plan.grid)
    sums, unit = sum_over_nodes(plan.grid, count, precision.most_nodes, terms)
    total, tilt, tilt_squared, curvature = sums
    excess = tilt / total
    value = plan.height + jnp.log(total * unit) - LOG_SQRT_2PI - 0.5 * lag * growth
    first = plan.slope + excess
    second = plan.follow**2 * (curvature / total) - pull**2 + (tilt_squared / total - excess**2)
    if weight is not None:
        value = value - jnp.where(fixed.weight == 0, lax.stop_gradient(value), 0.0)
    return Derivatives(value, first, second)


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
    variance = jnp.maximum(variance, _smallest(mean.dtype))
    fixed_mean, fixed_variance = lax.stop_gradient(mean), lax.stop_gradient(variance)
    deviation = jnp.sqrt(fixed_variance)
    reach = precision.reach + 0.5
    if anchor is None:
        anchor = find_bend(constant, fixed_mean - reach * deviation, fixed_mean + reach * deviation)
    zero, one = jnp.zeros_like(mean), jnp.ones_like(mean)
    units = lax.stop_gradient(anchor).in_units(fixed_mean, deviation)
    grid = choose_grid(precision, zero - reach, zero, zero + reach, one, units)
    grid = lax.stop_gradient(grid)
    scale = deviation * jnp.exp(0.5 * _growth(variance))

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


def _plan(precision: Precision, tilted: Tilted, anchor: Anchor | None) -> _Plan:
    """Find the peak, the extent and the nodes of a tilted density."""
    deviation = jnp.sqrt(tilted.variance)
    mode = find_mode(tilted, None if anchor is None else anchor.centre)
    at = tilted.local(mode)
    curvature = jnp.maximum(-tilted.weight * at.second, 0.0)
    follow = 1 / (1 + tilted.variance * curvature)
    resist = curvature * follow
    spread = jnp.sqrt(follow)
    peak = (mode - tilted.mean) / deviation
    height = tilted.weight * at.log_prob - 0.5 * peak**2
    slope = follow * tilted.weight * at.first + resist * (mode - tilted.mean)
    if anchor is None:
        low, high = bisected_edges(tilted, peak, height, precision.reach)
        to_score = lambda x: tilted.mean + deviation * x  # noqa: E731
        anchor = find_bend(tilted.local, to_score(low), to_score(high))
    else:
        low, high = tangent_edges(tilted, peak, height, spread, precision.reach)
    units = anchor.in_units(tilted.mean, deviation)
    grid = choose_grid(precision, low, peak, high, spread, units)
    return _Plan(follow, resist, height, slope, grid)


def _weighted(at: Local, weight: Float[Array, "..."] | None, less: Float[Array, "..."]):
    """p^weight · exp(−less), and the slopes of weight · log p."""
    if weight is None:
        mass = jnp.exp(jnp.minimum(at.exponent - less, 60.0))
        return (mass if at.factor is None else mass * at.factor), at.first, at.second
    mass = jnp.exp(jnp.minimum(weight * at.log_prob - less, 60.0))
    return mass, weight * at.first, weight * at.second


def _smallest(dtype: jnp.dtype) -> float:
    """The smallest variance that is told from zero; its square does not underflow."""
    return 1e-150 if dtype == jnp.float64 else 1e-18


@jax.custom_jvp
def _growth(variance: Float[Array, "..."]) -> Float[Array, "..."]:
    """The logarithm of the variance relative to its present value: zero, with a derivative."""
    return jnp.zeros_like(variance)


@_growth.defjvp
def _growth_jvp(primals, tangents):
    (variance,), (change,) = primals, tangents
    # Bounded where variances are so small that the nodes cannot be told apart.
    floor = 1e-20 if variance.dtype == jnp.float64 else 1e-10
    return _growth(variance), change / jnp.maximum(variance, floor)
