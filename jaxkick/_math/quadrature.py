"""Integrals of functions of the score under a Gaussian, by a graded trapezoidal rule.

The nodes of a tilted density are constant under differentiation, except that they move with the
Gaussian's mean and variance by the fraction ``follow``, as the peak of the integrand does. The
fraction is one if the Gaussian is much narrower than the likelihood, and zero if it is much wider.
Any fraction gives the same integrals. This choice avoids cancellation in the derivatives returned
here and in their automatic derivatives.

Range. In fits with parameters of the paper's size (the last 20,000 matches of basketball and
football, 30,000 of tennis; EP with Logit, OrdinalLogit, Poisson and Skellam) cavity variances are
between 3e-4 and 11, and means are within ±10. Variance times curvature of log p at the mean is up
to 3 for results and goals, and up to 800 for counts of 110 points. The tests require tilted means
and variances to be accurate to 3e-8 (float64) for variances from 1e-6 to 1e4.

Within this range, a grid centred on the bend or a grid centred on the peak would be accurate
enough (5e-10). Choosing between them saves nodes: 16 instead of 23 to 32 for results at variances
up to 0.3, and 44 instead of 74 for Skellam at a variance of 1. Only the peak approximation
(`_by_peak`) is for the far range, where log densities are so large (1e15, or 1e6 in float32, such
as counts of 1e5) that rounding errors dominate. It keeps results finite.
"""

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
from jax import lax

from jaxkick._math.grid import (
    Anchor,
    Grid,
    Local,
    Node,
    Precision,
    choose_grid,
    nodes_needed,
    sum_over_nodes,
)
from jaxkick._math.normal import LOG_SQRT_2PI, Derivatives, log_growth, no_less_than_tiny
from jaxkick._typing import Array, Bool, Float

__all__ = [
    "gaussian_expectation",
    "gaussian_mean",
    "tilted_log_partition",
    "tilted_log_partition_of_two",
]

Slopes: TypeAlias = Callable[[Array], tuple[Array, Array]]

# With a larger rounding error than this, a log density has no information near its peak.
ROUGH = 0.1
MOST_STEPS = 40


def gaussian_expectation(
    local: Callable[[Array], Local],
    constant: Callable[[Array], Local],
    anchor: Anchor | None,
    mean: Float[Array, "..."],
    variance: Float[Array, "..."],
) -> Derivatives:
    """Compute E[log p(f)] for f ~ N(mean, variance) and its derivatives in the mean.

    Args:
        local: the likelihood as a function of the score.
        constant: the same function, constant under differentiation.
        anchor: where the likelihood bends; searched for if `None`.
        mean: mean of the Gaussian.
        variance: its variance.

    Returns:
        The expectation and its first and second derivatives.
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
    """Compute E[function(f)] for f ~ N(mean, variance), without derivatives.

    Args:
        function: function of the score.
        anchor: where the function bends.
        mean: mean of the Gaussian.
        variance: its variance.
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


# The searches below only place nodes: rough results suffice, and nothing is differentiated.


class Tilted(NamedTuple):
    """The density p(f)^weight N(f; mean, variance), up to its normaliser.

    Attributes:
        local: the likelihood as a function of the score.
        mean: mean of the Gaussian.
        variance: its variance.
        weight: power on the likelihood.
    """

    local: Callable[[Array], Local]
    mean: Float[Array, "..."]
    variance: Float[Array, "..."]
    weight: Float[Array, "..."] | float

    def log_density(self, x: Float[Array, "..."]) -> tuple[Array, Array]:
        """Compute the log density and its slope at `x`, in units of the standard deviation."""
        deviation = jnp.sqrt(self.variance)
        at = self.local(self.mean + deviation * x)
        value = self.weight * at.log_prob - 0.5 * x * x
        return value, self.weight * at.first * deviation - x


class _Newton(NamedTuple):
    count: Array
    unfinished: Array
    score: Array
    lower: Array
    upper: Array
    previous: Array


def find_mode(tilted: Tilted, guess: Float[Array, "..."] | None) -> Float[Array, "..."]:
    """Find a maximum of the tilted density, to 5 % of its width.

    This is Newton's method within brackets, with bisection if it stalls, and with growing steps
    until there is a bracket. The sign of the slope brackets a maximum, so the method also works
    where the curvature has the wrong sign.

    Args:
        tilted: the density.
        guess: a score near which the likelihood bends, if known; tried if it is uphill.

    Returns:
        The maximiser; a local one if there are several.
    """
    local, mean, variance, weight = tilted
    huge = jnp.finfo(mean.dtype).max / 4

    def improve(search: _Newton) -> _Newton:
        at = local(search.score)
        pull = variance * weight * at.first - (search.score - mean)
        stiffness = jnp.maximum(1 - variance * weight * at.second, 1.0)
        step = pull / stiffness
        lower = jnp.where(pull > 0, search.score, search.lower)
        upper = jnp.where(pull < 0, search.score, search.upper)
        bracketed = (lower > -huge) & (upper < huge)
        slow = jnp.abs(step) > 0.5 * search.previous
        target = search.score + jnp.where(slow, 2 * jnp.sign(step) * search.previous, step)
        bisect = bracketed & (slow | (target <= lower) | (target >= upper))
        target = jnp.where(bisect, 0.5 * (lower + upper), target)
        jump = jnp.zeros_like(bracketed)
        if guess is not None:
            # Start from the mean if Newton's step leads past the guess or is unreliable.
            past = (guess - search.score) * (guess - target) < 0
            inside = (guess > lower) & (guess < upper)
            jump = (search.count == 0) & inside & (past | (stiffness > 10.0))
            target = jnp.where(jump, guess, target)
        found = step * step * stiffness <= 0.0025 * variance
        target = jnp.where(found, jnp.clip(search.score + step, lower, upper), target)
        previous = jnp.where(jump, huge, jnp.abs(target - search.score))
        return _Newton(search.count + 1, ~jnp.all(found), target, lower, upper, previous)

    far = jnp.full_like(mean, huge)
    first = _Newton(jnp.int32(0), jnp.asarray(True), mean, -far, far, far)
    last = lax.while_loop(lambda s: (s.count < MOST_STEPS) & s.unfinished, improve, first)
    return last.score


def tangent_edges(
    tilted: Tilted,
    peak: Float[Array, "..."],
    height: Float[Array, "..."],
    spread: Float[Array, "..."],
    anchor: Anchor,
    reach: float,
) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
    """Bound the region with non-negligible mass, for a log-concave likelihood.

    The log density lies below each of its tangents by at least the Gaussian's own quadratic term.
    This upper bound gives the points at which the density is reach² / 2 below its peak. The
    tangent is taken six widths from the peak, or beyond the outer of two bends if that is nearer.

    Args:
        tilted: the density.
        peak: its maximiser, in units of the Gaussian's standard deviation from its mean.
        height: logarithm of the density there.
        spread: width of the peak, at most one.
        anchor: where the likelihood bends, in the same units.
        reach: the bound for a constant likelihood, in the same units.

    Returns:
        The lower and the upper bound, in the same units.
    """
    away = jnp.minimum(6.0 * spread, reach)
    side = jnp.asarray([-1.0, 1.0], dtype=peak.dtype).reshape((2,) + (1,) * peak.ndim)
    if anchor.reach is not None:
        bend = anchor.reach + side * (anchor.centre - peak)
        fade = 6.0 * anchor.scale * lax.rsqrt(jnp.clip(tilted.weight, 1e-6, 1.0))
        away = jnp.minimum(away, jnp.maximum(bend, 0.0) + fade)
    value, slope = tilted.log_density(peak + side * away)
    left = 0.5 * reach**2 - (height - value)
    fall = jnp.maximum(-side * slope, 0.0)
    further = 2 * left / (fall + jnp.sqrt(jnp.maximum(fall**2 + 2 * left, 0.0)) + 1e-6)
    extent = jnp.clip(away + further, 0.5 * away, reach)
    return peak - extent[0], peak + extent[1]


def bisected_edges(
    tilted: Tilted,
    peak: Float[Array, "..."],
    height: Float[Array, "..."],
    reach: float,
) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
    """Bound the region with non-negligible mass, for any likelihood.

    Args:
        tilted: the density.
        peak: its maximiser, in units of the Gaussian's standard deviation from its mean.
        height: logarithm of the density there.
        reach: the bound for a constant likelihood, in the same units.

    Returns:
        The lower and the upper bound, in the same units.
    """
    level = height - 0.5 * reach**2
    # Another mode may lie around the Gaussian's own mean.
    toward_mean = jnp.clip(-peak, -reach, reach)

    def halve(_, edges):
        inner, outer = edges
        middle = 0.5 * (inner + outer)
        inside = tilted.log_density(middle)[0] > level
        return jnp.where(inside, middle, inner), jnp.where(inside, outer, middle)

    def edge(outer):
        outside = tilted.log_density(outer)[0] <= level
        _, bound = lax.fori_loop(0, 12, halve, (jnp.where(outside, peak, outer), outer))
        return bound

    return (
        edge(peak - reach + jnp.minimum(toward_mean, 0.0)),
        edge(peak + reach + jnp.maximum(toward_mean, 0.0)),
    )


def find_bend(
    local: Callable[[Array], Local], low: Float[Array, "..."], high: Float[Array, "..."]
) -> Anchor:
    """Find where the slope of log p is halfway between its values at two scores.

    Args:
        local: the likelihood as a function of the score.
        low: the lower score.
        high: the upper score.

    Returns:
        The anchor for a likelihood that does not define one.
    """
    at_low = local(low).first
    half_way = 0.5 * (at_low + local(high).first)

    def halve(_, bounds):
        left, right = bounds
        middle = 0.5 * (left + right)
        beyond = (local(middle).first - half_way) * (at_low - half_way) < 0
        return jnp.where(beyond, left, middle), jnp.where(beyond, middle, right)

    left, right = lax.fori_loop(0, 14, halve, (low, high))
    centre = 0.5 * (left + right)
    # Rounding may make the two scores equal.
    width = jnp.maximum(high - low, 1e-6)
    curvature = jnp.abs(local(centre).second)
    scale = lax.rsqrt(jnp.maximum(curvature, 1 / (width * width)))
    return Anchor(centre, scale)


class Plan(NamedTuple):
    """Properties of a tilted density that determine its nodes; constant under differentiation.

    Attributes:
        peak: the maximiser, as a distance from the Gaussian's mean in standard deviations.
        height: log density at the peak.
        spread: width of the peak, in the same units.
        follow: the fraction by which nodes move with the mean; about the variance of the peak
            relative to the Gaussian's.
        resist: (1 − follow) / variance.
        slope: derivative of log Z in the mean if the density were Gaussian.
        rough: whether rounding errors dominate at the peak, which is then treated as Gaussian.
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


class Frame(NamedTuple):
    """The map from positions x of the plan to scores, as a function of the Gaussian.

    The score at x is centre + deviation · x. Its distance from the Gaussian's mean, in standard
    deviations, is offset + shrink · x.

    Attributes:
        centre: score at x = 0.
        deviation: score per unit of x.
        offset: distance from the mean at x = 0.
        shrink: distance per unit of x.
        pull: minus the derivative of the distance with respect to the mean.
        log_stretch: logarithm of the unit of x relative to that of the Gaussian.
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
    """Compute log ∫ p(f)^weight N(f; mean, variance) df and its derivatives in the mean.

    Args:
        local: the likelihood as a function of the score.
        constant: the same function, constant under differentiation.
        anchor: where the likelihood bends; searched for if `None`, and then the likelihood need
            not be log-concave.
        mean: mean of the Gaussian.
        variance: its variance.
        weight: power of the likelihood; one if `None`.

    Returns:
        The logarithm and its first and second derivatives.
    """
    found, _ = _tilted(local, constant, anchor, mean, variance, weight, None)
    return found


def tilted_log_partition_of_two(
    local: Callable[[Array], Local],
    constant: Callable[[Array], Local],
    slopes: Slopes,
    mean: Float[Array, "..."],
    variance: Float[Array, "..."],
) -> tuple[Derivatives, Derivatives]:
    """Compute log ∫ p(f, a) N(f; mean, variance) df and its derivatives in the mean and in a.

    Args:
        local: the likelihood as a function of the score f.
        constant: the same function, constant under differentiation.
        slopes: the first and second derivative of log p in a, as a function of the score f.
        mean: mean of the Gaussian.
        variance: its variance.

    Returns:
        The logarithm and its first and second derivatives in the mean; the same with those in a.
    """
    found, other = _tilted(local, constant, None, mean, variance, None, slopes)
    return found, Derivatives(found.value, *other)


def _tilted(
    local: Callable[[Array], Local],
    constant: Callable[[Array], Local],
    anchor: Anchor | None,
    mean: Float[Array, "..."],
    variance: Float[Array, "..."],
    weight: Float[Array, "..."] | None,
    slopes: Slopes | None,
) -> tuple[Derivatives, tuple[Array, ...]]:
    """Integrate, with `slopes` also the derivatives in another argument of the likelihood."""
    precision = Precision.of(mean.dtype)
    variance = no_less_than_tiny(variance)
    fixed = Tilted(
        constant,
        lax.stop_gradient(mean),
        lax.stop_gradient(variance),
        1.0 if weight is None else lax.stop_gradient(weight),
    )
    anchor = lax.stop_gradient(anchor)
    mode = find_mode(fixed, None if anchor is None else anchor.centre)
    plan = lax.stop_gradient(plan_at(precision, fixed, anchor, mode))
    frame = move_nodes(plan, fixed, mean, variance)
    by_nodes = _by_nodes(precision, plan, frame, local, weight, slopes)
    by_peak = _by_peak(plan, frame, local, weight, slopes)
    (value, first, second), other = jax.tree.map(
        lambda a, b: jnp.where(plan.rough, a, b), by_peak, by_nodes
    )
    value = plan.height + value + frame.log_stretch
    if weight is not None:
        value = value - jnp.where(fixed.weight == 0, lax.stop_gradient(value), 0.0)
    return Derivatives(value, first, second), other


def plan_at(
    precision: Precision,
    tilted: Tilted,
    anchor: Anchor | None,
    mode: Float[Array, "..."],
    grid_between: Callable[[Array, Array, Array], Grid] | None = None,
) -> Plan:
    """Find the extent and the nodes of a tilted density with this mode.

    Args:
        precision: the required accuracy.
        tilted: the density.
        anchor: where the likelihood bends; searched for if `None`.
        mode: the maximiser of the density.
        grid_between: makes a grid from the lower end, the peak and the upper end; if `None`, the
            grid is chosen by the bend.
    """
    deviation = jnp.sqrt(tilted.variance)
    at = tilted.local(mode)
    curvature = jnp.maximum(-tilted.weight * at.second, 0.0)
    follow = 1 / (1 + tilted.variance * curvature)
    spread = jnp.sqrt(follow)
    peak = (mode - tilted.mean) / deviation
    height = tilted.weight * at.log_prob - 0.5 * peak**2
    rough = jnp.abs(height) * jnp.finfo(height.dtype).eps > ROUGH
    if grid_between is not None:
        low, high = bisected_edges(tilted, peak, height, precision.reach)
        grid = grid_between(low, peak, high)
    elif anchor is None:
        low, high = bisected_edges(tilted, peak, height, precision.reach)
        to_score = lambda x: tilted.mean + deviation * x  # noqa: E731
        anchor = find_bend(tilted.local, to_score(low), to_score(high))
        units = anchor.in_units(tilted.mean, deviation)
        grid = choose_grid(precision, low, peak, high, spread, units)
    else:
        units = anchor.in_units(tilted.mean, deviation)
        low, high = tangent_edges(tilted, peak, height, spread, units, precision.reach)
        grid = choose_grid(precision, low, peak, high, spread, units)
    # A peak with a flat top and steep sides is far narrower than its curvature suggests.
    extent = ((high - low) / precision.reach) ** 2
    narrow = (extent < follow) & ~rough
    resist = jnp.where(narrow, (1 - extent) / tilted.variance, curvature * follow)
    follow = jnp.where(narrow, extent, follow)
    slope = follow * tilted.weight * at.first + resist * (mode - tilted.mean)
    return Plan(peak, height, spread, follow, resist, slope, rough, grid)


def move_nodes(
    plan: Plan, fixed: Tilted, mean: Float[Array, "..."], variance: Float[Array, "..."]
) -> Frame:
    """Return the map from positions to scores: nodes move with the Gaussian by `follow`."""
    lag = fixed.variance * plan.resist
    pull = lag * lax.rsqrt(variance)
    growth = log_growth(variance)
    moved = mean - fixed.mean
    return Frame(
        centre=fixed.mean + plan.follow * moved,
        deviation=jnp.sqrt(fixed.variance) * jnp.exp(0.5 * plan.follow * growth),
        offset=-pull * moved,
        shrink=jnp.exp(-0.5 * lag * growth),
        pull=pull,
        log_stretch=-0.5 * lag * growth,
    )


def _by_nodes(
    precision: Precision,
    plan: Plan,
    frame: Frame,
    local: Callable[[Array], Local],
    weight: Float[Array, "..."] | None,
    slopes: Slopes | None,
) -> tuple[Derivatives, tuple[Array, ...]]:
    """Integrate by the trapezoidal rule; the logarithm is relative to the plan's height."""
    scores = plan.grid.mapped(frame.centre, frame.deviation)
    distances = plan.grid.mapped(frame.offset, frame.shrink)

    def terms(node: Node):
        at, z = local(node.position(scores)), node.position(distances)
        mass, first, second = _weighted(at, weight, 0.5 * z * z + plan.height)
        mass = mass * node.width(plan.grid)
        # Far nodes have no mass, but the squares of their slopes may overflow.
        alive = (mass > 1e-30) & ~plan.rough
        excess = jnp.where(alive, plan.follow * first + frame.pull * z - plan.slope, 0.0)
        tilt = mass * excess
        other = ()
        if slopes is not None:
            along, bend = (jnp.where(alive, x, 0.0) for x in slopes(node.position(scores)))
            other = mass * along, mass * (bend + along * along)
        return mass, tilt, tilt * excess, mass * jnp.where(alive, second, 0.0), *other

    count = nodes_needed(precision, plan.grid)
    sums, unit = sum_over_nodes(plan.grid, count, precision.most_nodes, terms)
    total, tilt, tilt_squared, curvature, *other = sums
    total, unit = (jnp.where(plan.rough, 1.0, each) for each in (total, unit))
    excess = tilt / total
    if other:
        along, square = (each / total for each in other)
        other = along, square - along**2
    found = Derivatives(
        jnp.log(total * unit) - LOG_SQRT_2PI,
        plan.slope + excess,
        plan.follow**2 * (curvature / total) - frame.pull**2 + (tilt_squared / total - excess**2),
    )
    return found, tuple(other)


def _by_peak(
    plan: Plan,
    frame: Frame,
    local: Callable[[Array], Local],
    weight: Float[Array, "..."] | None,
    slopes: Slopes | None,
) -> tuple[Derivatives, tuple[Array, ...]]:
    """Integrate a Gaussian peak; the logarithm is relative to the plan's height."""
    score = frame.centre + frame.deviation * plan.peak
    at = local(score)
    z = frame.offset + frame.shrink * plan.peak
    factor = 1.0 if weight is None else weight
    height = factor * at.log_prob - 0.5 * z * z
    found = Derivatives(
        height - lax.stop_gradient(height) + jnp.log(plan.spread),
        plan.follow * factor * at.first + frame.pull * z,
        plan.follow**2 * factor * at.second - frame.pull**2,
    )
    return found, () if slopes is None else slopes(score)


def _weighted(at: Local, weight: Float[Array, "..."] | None, less: Float[Array, "..."]):
    """Compute p^weight · exp(−less) and the derivatives of weight · log p."""
    if weight is None:
        mass = jnp.exp(jnp.minimum(at.exponent - less, 60.0))
        return (mass if at.factor is None else mass * at.factor), at.first, at.second
    mass = jnp.exp(jnp.minimum(weight * at.log_prob - less, 60.0))
    return mass, weight * at.first, weight * at.second
