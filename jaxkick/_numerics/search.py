"""Where a tilted density peaks, how far it extends and where a log-likelihood bends.

Only the placing of quadrature nodes rests on these, so rough answers do, and nothing here
is differentiated.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
from jax import lax

from jaxkick._numerics.grid import Anchor
from jaxkick._numerics.local import Local
from jaxkick._typing import Array, Float

__all__ = ["Tilted", "bisected_edges", "find_bend", "find_mode", "tangent_edges"]

MOST_STEPS = 40


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
        """Logarithm and its slope at `x`, both in units of the standard deviation."""
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
    """A score at which the tilted density has a maximum, to 5 % of the maximum's width.

    Newton's method between brackets, with bisection where it stalls and longer steps where it
    has not yet found a bracket. A maximum is bracketed by the sign of the slope, so curvature
    of the wrong sign does no harm.

    Args:
        tilted: the density.
        guess: a score near which the likelihood bends, if known; tried if it lies uphill.

    Returns:
        The maximiser, a local one if there are several.
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
            # From the mean, where Newton's step leads past the guess or is not to be trusted.
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
    """Bounds of the region that matters, for a log-concave likelihood.

    The log-density lies below any of its tangents by at least the Gaussian's own curvature,
    and reaches reach² / 2 below the peak no later than that does. The tangent is taken six
    widths from the peak, or beyond the outer of two bends if that is nearer.

    Args:
        tilted: the density.
        peak: its maximiser, in units of the Gaussian's standard deviation from its mean.
        height: logarithm of the density there.
        spread: width of the peak, at most one.
        anchor: where the likelihood bends, in the same units.
        reach: distance that a likelihood without influence would need.

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
    """Bounds of the region that matters, for any likelihood.

    Args:
        tilted: the density.
        peak: its maximiser, in units of the Gaussian's standard deviation from its mean.
        height: logarithm of the density there.
        reach: distance that a likelihood without influence would need.

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
    """Where the slope of log p is half-way between its values at two scores.

    Args:
        local: the likelihood as a function of the score.
        low: the lower score.
        high: the upper score.

    Returns:
        The anchor for a likelihood that does not name one.
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
    # Rounding may make the two scores one.
    width = jnp.maximum(high - low, 1e-6)
    curvature = jnp.abs(local(centre).second)
    scale = lax.rsqrt(jnp.maximum(curvature, 1 / (width * width)))
    return Anchor(centre, scale)
