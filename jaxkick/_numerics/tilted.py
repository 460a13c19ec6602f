"""The normaliser of a likelihood times a Gaussian, by one graded trapezoidal rule.

The nodes are constants under differentiation, except that they follow the Gaussian's mean
and variance as the integrand's peak does: by the fraction ``follow``, which is one where the
Gaussian is narrower than the likelihood and zero where it is wider. Any fraction would give
the same integrals; this one lets no digits cancel, neither in the derivatives returned here
nor in those that automatic differentiation takes of them.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
from jax import lax

from jaxkick._numerics.elementary import log_growth, no_less_than_tiny
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
from jaxkick._typing import Array, Bool, Float

__all__ = ["tilted_log_partition"]

LOG_SQRT_2PI = 0.9189385332046727
# Rounding of a log-density beyond which its values around the peak say nothing.
ROUGH = 0.1


class _Plan(NamedTuple):
    """What is known of a tilted density before it is integrated, all constants.

    Attributes:
        peak: where it is largest, in the Gaussian's standard deviations from its mean.
        height: logarithm of the density there.
        spread: width of the peak, in the same units.
        follow: how far the nodes move with the mean; about its variance / the Gaussian's.
        resist: (1 − follow) / variance.
        slope: derivative of log Z in the mean, were the density Gaussian.
        rough: whether rounding blurs the peak, which then counts as Gaussian.
        grid: the nodes.
    """

    peak: Float[Array, "..."]
    height: Float[Array, "..."]
    spread: Float[Array, "..."]
    follow: Float[Array, "..."]
    resist: Float[Array, "..."]
    slope: Float[Array, "..."]
    rough: Bool[Array, "..."]
    grid: Grid


class _Frame(NamedTuple):
    """How positions x of the plan move with the Gaussian.

    The score at x is centre + deviation · x, and its distance from the Gaussian's mean in
    standard deviations offset + shrink · x.

    Attributes:
        centre: score at x = 0.
        deviation: score per unit of x.
        offset: distance from the mean at x = 0.
        shrink: distance per unit of x.
        pull: derivative of the distance in the mean, with the sign changed.
        log_stretch: logarithm of how much the units of x have grown against the Gaussian's.
    """

    centre: Float[Array, "..."]
    deviation: Float[Array, "..."]
    offset: Float[Array, "..."]
    shrink: Float[Array, "..."]
    pull: Float[Array, "..."]
    log_stretch: Float[Array, "..."]


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
    variance = no_less_than_tiny(variance)
    fixed = Tilted(
        constant,
        lax.stop_gradient(mean),
        lax.stop_gradient(variance),
        1.0 if weight is None else lax.stop_gradient(weight),
    )
    plan = lax.stop_gradient(_plan(precision, fixed, lax.stop_gradient(anchor)))
    frame = _frame(plan, fixed, mean, variance)
    by_nodes = _by_nodes(precision, plan, frame, local, weight)
    by_peak = _by_peak(plan, frame, local, weight)
    value, first, second = (
        jnp.where(plan.rough, a, b) for a, b in zip(by_peak, by_nodes, strict=True)
    )
    value = plan.height + value + frame.log_stretch
    if weight is not None:
        value = value - jnp.where(fixed.weight == 0, lax.stop_gradient(value), 0.0)
    return Derivatives(value, first, second)


def _plan(precision: Precision, tilted: Tilted, anchor: Anchor | None) -> _Plan:
    """Find the peak, the extent and the nodes of a tilted density."""
    deviation = jnp.sqrt(tilted.variance)
    mode = find_mode(tilted, None if anchor is None else anchor.centre)
    at = tilted.local(mode)
    curvature = jnp.maximum(-tilted.weight * at.second, 0.0)
    follow = 1 / (1 + tilted.variance * curvature)
    spread = jnp.sqrt(follow)
    peak = (mode - tilted.mean) / deviation
    height = tilted.weight * at.log_prob - 0.5 * peak**2
    rough = jnp.abs(height) * jnp.finfo(height.dtype).eps > ROUGH
    if anchor is None:
        low, high = bisected_edges(tilted, peak, height, precision.reach)
        to_score = lambda x: tilted.mean + deviation * x  # noqa: E731
        anchor = find_bend(tilted.local, to_score(low), to_score(high))
        units = anchor.in_units(tilted.mean, deviation)
    else:
        units = anchor.in_units(tilted.mean, deviation)
        low, high = tangent_edges(tilted, peak, height, spread, units, precision.reach)
    grid = choose_grid(precision, low, peak, high, spread, units)
    # A flat top between steep sides is far narrower than its curvature says.
    extent = ((high - low) / precision.reach) ** 2
    narrow = (extent < follow) & ~rough
    resist = jnp.where(narrow, (1 - extent) / tilted.variance, curvature * follow)
    follow = jnp.where(narrow, extent, follow)
    slope = follow * tilted.weight * at.first + resist * (mode - tilted.mean)
    return _Plan(peak, height, spread, follow, resist, slope, rough, grid)


def _frame(
    plan: _Plan, fixed: Tilted, mean: Float[Array, "..."], variance: Float[Array, "..."]
) -> _Frame:
    lag = fixed.variance * plan.resist
    pull = lag * lax.rsqrt(variance)
    growth = log_growth(variance)
    moved = mean - fixed.mean
    return _Frame(
        centre=fixed.mean + plan.follow * moved,
        deviation=jnp.sqrt(fixed.variance) * jnp.exp(0.5 * plan.follow * growth),
        offset=-pull * moved,
        shrink=jnp.exp(-0.5 * lag * growth),
        pull=pull,
        log_stretch=-0.5 * lag * growth,
    )


def _by_nodes(
    precision: Precision,
    plan: _Plan,
    frame: _Frame,
    local: Callable[[Array], Local],
    weight: Float[Array, "..."] | None,
) -> Derivatives:
    """The integral by the trapezoidal rule; its logarithm relative to the plan's height."""
    scores = plan.grid.mapped(frame.centre, frame.deviation)
    distances = plan.grid.mapped(frame.offset, frame.shrink)

    def terms(node: Node):
        at, z = local(node.position(scores)), node.position(distances)
        mass, first, second = _weighted(at, weight, 0.5 * z * z + plan.height)
        mass = mass * node.width(plan.grid)
        # Far nodes carry no mass, but may carry slopes whose squares overflow.
        alive = (mass > 1e-30) & ~plan.rough
        excess = jnp.where(alive, plan.follow * first + frame.pull * z - plan.slope, 0.0)
        tilt = mass * excess
        return mass, tilt, tilt * excess, mass * jnp.where(alive, second, 0.0)

    count = nodes_needed(precision, plan.grid)
    sums, unit = sum_over_nodes(plan.grid, count, precision.most_nodes, terms)
    total, tilt, tilt_squared, curvature = sums
    total, unit = (jnp.where(plan.rough, 1.0, each) for each in (total, unit))
    excess = tilt / total
    return Derivatives(
        jnp.log(total * unit) - LOG_SQRT_2PI,
        plan.slope + excess,
        plan.follow**2 * (curvature / total) - frame.pull**2 + (tilt_squared / total - excess**2),
    )


def _by_peak(
    plan: _Plan,
    frame: _Frame,
    local: Callable[[Array], Local],
    weight: Float[Array, "..."] | None,
) -> Derivatives:
    """The integral of a Gaussian peak; its logarithm relative to the plan's height."""
    at = local(frame.centre + frame.deviation * plan.peak)
    z = frame.offset + frame.shrink * plan.peak
    factor = 1.0 if weight is None else weight
    height = factor * at.log_prob - 0.5 * z * z
    return Derivatives(
        height - lax.stop_gradient(height) + jnp.log(plan.spread),
        plan.follow * factor * at.first + frame.pull * z,
        plan.follow**2 * factor * at.second - frame.pull**2,
    )


def _weighted(at: Local, weight: Float[Array, "..."] | None, less: Float[Array, "..."]):
    """p^weight · exp(−less), and the slopes of weight · log p."""
    if weight is None:
        mass = jnp.exp(jnp.minimum(at.exponent - less, 60.0))
        return (mass if at.factor is None else mass * at.factor), at.first, at.second
    mass = jnp.exp(jnp.minimum(weight * at.log_prob - less, 60.0))
    return mass, weight * at.first, weight * at.second
