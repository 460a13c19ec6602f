"""The probability that independent variables come in a given order, with ties and unknown parts.

Variables p_k have log-concave densities φ_k. They come in groups g = 1, 2, … from the top. The
largest variable of a group leads it, the others of the group lie within a margin ε below their
leader, and all lower groups lie below that. In the coordinate t = u + (g − 1) ε of a leader at u,
leaders only have to decrease, so no margin is left in the recursion over groups:

    A_g(x) = ∫_{−∞}^{x} ψ_g(t) A_{g+1}(t) dt        B_g(x) = ∫_{x}^{∞} ψ_{g−1}(t) B_{g−1}(t) dt
    ψ_g = Σ_i φ_i Π_{j≠i} w_j                        w_j(u) = Φ_j(u) − Φ_j(u − ε)

Z = A_1(∞), and the leader of group g has the density ψ_g A_{g+1} B_g / Z. Variables that are only
known to be below all others multiply A of the lowest group by their Φ.

Arrays on the grid have the shape (sides, points of a block, blocks, events).
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxkick._math.normal import LOG_SQRT_2PI, Derivatives, log, log_interval
from jaxkick._typing import Array, Bool, Float, Scalar

__all__ = ["Law", "NormalLaw", "OrderProbability", "order_probability"]

# Points of a block, which share one exponent, so that nothing underflows in a long tail.
_BLOCK = 16
_COARSE_BLOCKS = 2
# Half the width of the first grid, in standard deviations.
_REACH = 6.5
# The second grid omits where all densities of leaders are below exp(−_CUT) of their maximum.
_CUT = 21.0
# Candidates for the scale of a grid, in units of its length.
_SCALES = tuple(2.0**-power for power in range(-2, 7))


class Law(Protocol):
    """The distributions of all variables."""

    @property
    def mean(self) -> Float[Array, "S E"]: ...

    @property
    def deviation(self) -> Float[Array, "S E"]: ...

    def log_density(self, grid: Array) -> Derivatives:
        """Compute log φ and its derivatives in the point."""
        ...

    def log_window(self, grid: Array, bounded: Bool[Array, "S E"]) -> Derivatives:
        """Compute log w, or log Φ if not `bounded`, and their derivatives in the point."""
        ...


class NormalLaw(NamedTuple):
    """Normal variables."""

    mean: Float[Array, "S E"]
    deviation: Float[Array, "S E"]
    margin: Scalar | None

    def log_density(self, grid: Array) -> Derivatives:
        inverse = (1.0 / self.deviation)[:, None, None]
        z = (grid - self.mean[:, None, None]) * inverse
        value = -0.5 * z * z + (log(inverse) - LOG_SQRT_2PI)
        return Derivatives(value, -z * inverse, jnp.broadcast_to(-inverse * inverse, z.shape))

    def log_window(self, grid: Array, bounded: Bool[Array, "S E"]) -> Derivatives:
        inverse, bounded = (1.0 / self.deviation)[:, None, None], bounded[:, None, None]
        z = (grid - self.mean[:, None, None]) * inverse
        width = 1.0 if self.margin is None else self.margin * inverse
        # Mirror intervals above zero, as `log_interval` demands.
        mirrored = bounded & (z > 0.5 * width)
        near = jnp.where(mirrored, width - z, z)
        value, first, second = log_interval(near, jnp.broadcast_to(width, z.shape), bounded)
        return Derivatives(value, jnp.where(mirrored, -first, first) * inverse, second * inverse**2)


class OrderProbability(NamedTuple):
    """log Z and its derivatives in the mean of each variable and in the margin."""

    value: Float[Array, " E"]
    first: Float[Array, "S E"]
    second: Float[Array, "S E"]
    margin_slope: Float[Array, " E"]


class _Groups(NamedTuple):
    """The groups of sides that are sorted from the top.

    Attributes:
        placed: sides with a place.
        unplaced: sides that are only known to be below them.
        begins: the first side of each group.
        ends: the last side of each group.
        level: the number of groups above the side.
    """

    placed: Bool[Array, "S E"]
    unplaced: Bool[Array, "S E"]
    begins: Bool[Array, "S E"]
    ends: Bool[Array, "S E"]
    level: Float[Array, "S E"]

    @property
    def tied(self) -> Bool[Array, "S E"]:
        return self.placed & ~(self.begins & self.ends)


class _Stages(NamedTuple):
    """The factors of the recursion on a grid, for the group of each side.

    Attributes:
        density: log ψ and its derivatives.
        up: whether the integral A advances after this side.
        down: whether the integral B advances after this side.
        start: log A below the lowest group, and its derivatives.
        own: log φ of the side itself.
        window: log w (tied) or log Φ (unplaced) of the side itself; zero for others.
        leads: probability that the side leads its group, given the level of the leader.
        widening: derivative of log ψ in the margin by the window of the side, given that level.
    """

    density: Derivatives
    up: Bool[Array, "S E"]
    down: Bool[Array, "S E"]
    start: Derivatives
    own: Derivatives
    window: Derivatives
    leads: Array
    widening: Array


def order_probability(
    law: Callable[[Array, Array, Any], Law],
    place: Float[Array, "S E"],
    mean: Float[Array, "S E"],
    variance: Float[Array, "S E"],
    margin: Scalar | None,
    blocks: int,
) -> OrderProbability:
    """Compute the probability of an order, for events along the last axis.

    Args:
        law: distribution of the variables, given a mean, a variance and the margin.
        place: places 1, 2, … from the top; 0 if only below all others; negative if absent.
        mean: means.
        variance: variances, passed to `law`.
        margin: the margin of ties, or `None` if there are none.
        blocks: size of the grid in blocks of 16 points.
    """
    last = float(jnp.finfo(place.dtype).max)
    key = jnp.where(place > 0, place, jnp.where(place < 0, jnp.inf, last))
    order = jnp.argsort(key, axis=0)
    place, mean, variance = (jnp.take_along_axis(x, order, axis=0) for x in (place, mean, variance))
    groups, present = _grouped(place, mean.dtype), place >= 0
    mean, variance = jnp.where(present, mean, 0.0), jnp.where(present, variance, 1.0)
    shift = 0.0 if margin is None else margin * groups.level
    laws = law(mean + shift, variance, margin)
    nobody = ~jnp.any(groups.placed, axis=0)

    grid = lax.stop_gradient(_place_grid(lax.stop_gradient(laws), groups, blocks))
    stages = _stages(laws, groups, grid.point)
    value, share = _tilt(stages, grid)
    # The level of the lowest group decides about sides that are unplaced.
    final = groups.ends & (
        groups.level == jnp.max(jnp.where(groups.placed, groups.level, -1.0), axis=0)
    )
    lowest = jnp.sum(jnp.where(final[:, None, None], share, 0.0), axis=0)
    share = jnp.where(groups.unplaced[:, None, None], lowest, share)
    parts = ((share * stages.leads, stages.own), (share * (1.0 - stages.leads), stages.window))
    first = -sum(jnp.sum(part * at.first, axis=(1, 2)) for part, at in parts)
    centre = first[:, None, None]
    second = sum(
        jnp.sum(part * (at.second + (at.first + centre) ** 2), axis=(1, 2)) for part, at in parts
    )
    used = present & ~nobody
    first, second = jnp.where(used, first, 0.0), jnp.where(used, second, 0.0)
    # A wider margin moves lower groups down and widens windows.
    slope = jnp.sum(first * groups.level, axis=0)
    if margin is not None:
        slope = slope + jnp.sum(share * stages.widening, axis=(0, 1, 2))
    back = jnp.argsort(order, axis=0)
    first, second = (jnp.take_along_axis(x, back, axis=0) for x in (first, second))
    return OrderProbability(jnp.where(nobody, 0.0, value), first, second, slope)


def _grouped(place: Float[Array, "S E"], dtype: Any) -> _Groups:
    placed = place > 0
    changes = place[1:] != place[:-1]
    edge = jnp.ones_like(placed[:1])
    begins = placed & jnp.concatenate([edge, changes])
    level = jnp.cumsum(begins, axis=0, dtype=jnp.int32) - placed.astype(jnp.int32)
    ends = placed & jnp.concatenate([changes, edge])
    return _Groups(placed, place == 0, begins, ends, level.astype(dtype))


class _Grid(NamedTuple):
    """Points t = centre + scale sinh ξ at equal steps of ξ.

    Attributes:
        point: t.
        growth: dt/dξ.
        change: d²t/dξ².
        step: the step of ξ.
    """

    point: Float[Array, "block blocks E"]
    growth: Float[Array, "block blocks E"]
    change: Float[Array, "block blocks E"]
    step: Float[Array, " E"]

    def pull_back(self, at: Derivatives) -> Derivatives:
        """Convert derivatives in t to derivatives in ξ."""
        second = at.second * self.growth**2 + at.first * self.change
        return Derivatives(at.value, at.first * self.growth, second)


def _make_grid(low, high, centre, scale, blocks: int) -> _Grid:
    left, right = (jnp.arcsinh((end - centre) / scale) for end in (low, high))
    step = (right - left) / (_BLOCK * blocks - 1)
    index = np.arange(_BLOCK * blocks, dtype=low.dtype).reshape(blocks, _BLOCK).T
    xi = left + jnp.asarray(index)[..., None] * step
    change = scale * jnp.sinh(xi)
    return _Grid(centre + change, scale * jnp.cosh(xi), change, step)


def _choose_grid(low, high, mean, deviation, counts, blocks: int) -> _Grid:
    """Make a grid with the smallest ratio of its step to the deviation of a side at its mean."""
    precision = jnp.where(counts, deviation**-2, 0.0)
    total = jnp.sum(precision, axis=0)
    centre = jnp.sum(precision * mean, axis=0) / jnp.where(total > 0, total, 1.0)
    scales = jnp.asarray(_SCALES, low.dtype)[:, None] * (high - low)
    length = jnp.arcsinh((high - centre) / scales) - jnp.arcsinh((low - centre) / scales)
    step = length[:, None] * jnp.hypot(scales[:, None], mean - centre) / deviation
    worst = jnp.max(jnp.where(counts, step, 0.0), axis=1)
    scale = jnp.take_along_axis(scales, jnp.argmin(worst, axis=0)[None], axis=0)[0]
    return _make_grid(low, high, centre, scale, blocks)


def _place_grid(laws: Law, groups: _Groups, blocks: int) -> _Grid:
    """Place the grid where leaders have mass, found by a coarse grid over everybody's range."""
    counts = groups.placed
    nobody = ~jnp.any(counts, axis=0)
    known = (counts | groups.unplaced) & ~nobody
    reach = _REACH * laws.deviation
    low = jnp.min(jnp.where(known, laws.mean - reach, jnp.inf), axis=0)
    high = jnp.max(jnp.where(known, laws.mean + reach, -jnp.inf), axis=0)
    low, high = jnp.where(nobody, -1.0, low), jnp.where(nobody, 1.0, high)
    grid = _choose_grid(low, high, laws.mean, laws.deviation, counts, _COARSE_BLOCKS)
    point, gap = grid.point, grid.growth * grid.step
    _, share = _tilt(_stages(laws, groups, point), grid)
    mean = jnp.sum(share * point, axis=(1, 2))
    variance = jnp.sum(share * (point - mean[:, None, None]) ** 2, axis=(1, 2))
    # A coarse grid cannot see a deviation below its step.
    deviation = jnp.minimum(jnp.sqrt(variance) + jnp.min(gap, axis=(0, 1)), laws.deviation)
    floor = math.exp(-_CUT) * jnp.max(share, axis=(1, 2), keepdims=True)
    likely = jnp.any((share > floor) & counts[:, None, None], axis=0)
    tight_low = jnp.min(jnp.where(likely, point - gap, jnp.inf), axis=(0, 1))
    tight_high = jnp.max(jnp.where(likely, point + gap, -jnp.inf), axis=(0, 1))
    low = jnp.where(nobody, low, jnp.maximum(low, tight_low))
    high = jnp.where(nobody, high, jnp.minimum(high, tight_high))
    return _choose_grid(low, high, mean, deviation, counts, blocks)


def _stages(laws: Law, groups: _Groups, point: Array) -> _Stages:
    def spread(mask: Array) -> Array:
        return mask[:, None, None]

    own = laws.log_density(point)
    nothing = Derivatives(*(jnp.zeros_like(own.value),) * 3)
    has_window = groups.unplaced | groups.tied

    def windows() -> Derivatives:
        at = laws.log_window(point, groups.tied)
        return jax.tree.map(lambda x: jnp.where(spread(has_window), x, 0.0), at)

    window = lax.cond(jnp.any(has_window), windows, lambda: nothing)
    start = jax.tree.map(
        lambda x: jnp.sum(jnp.where(spread(groups.unplaced), x, 0.0), axis=0), window
    )
    leads = jnp.broadcast_to(spread(groups.placed), own.value.shape).astype(point.dtype)
    density, widening = own, nothing.value
    if laws.margin is not None:
        density, leads, widening = lax.cond(
            jnp.any(groups.tied),
            lambda: _tied(groups, own, window, leads),
            lambda: (own, leads, nothing.value),
        )
    return _Stages(density, groups.begins, groups.ends, start, own, window, leads, widening)


def _tied(groups: _Groups, own: Derivatives, window: Derivatives, leads: Array):
    """Compute log ψ of groups with ties, and the probabilities of leading them."""
    tied = groups.tied[:, None, None]
    ratio = jnp.where(tied, jnp.exp(jnp.where(tied, own.value - window.value, 0.0)), 0.0)
    first, second = own.first - window.first, own.second - window.second
    parts = (*window, ratio, ratio * first, ratio * (first**2 + second))
    value, slope, bend, total, total1, total2 = _group_sums(groups, parts)
    total = jnp.maximum(total, float(jnp.finfo(total.dtype).tiny))
    shift = total1 / total
    group = Derivatives(value + log(total), slope + shift, bend + total2 / total - shift**2)
    density = jax.tree.map(lambda a, b: jnp.where(tied, a, b), group, own)
    leads = jnp.where(tied, ratio / total, leads)
    widening = jnp.where(tied, (1.0 - leads) * (ratio - window.first), 0.0)
    return density, leads, widening


def _group_sums(groups: _Groups, parts: tuple[Array, ...]) -> tuple[Array, ...]:
    """Sum over the sides of each group, and give every side the sum of its group."""
    zero = jax.tree.map(lambda x: jnp.zeros_like(x[0]), parts)

    def add(total, side):
        begins, part = side
        total = jax.tree.map(lambda a, b: jnp.where(begins, b, a + b), total, part)
        return total, total

    def copy(total, side):
        ends, running = side
        total = jax.tree.map(lambda a, b: jnp.where(ends, b, a), total, running)
        return total, total

    _, running = lax.scan(add, zero, (groups.begins, parts))
    return lax.scan(copy, zero, (groups.ends, running), reverse=True)[1]


def _tilt(stages: _Stages, grid: _Grid) -> tuple[Float[Array, " E"], Array]:
    """Compute log Z and the distribution of each side's leader over the points of the grid."""
    count = grid.step.shape[0]

    def flip(x: Array) -> Array:
        return jnp.flip(x, (-3, -2))

    def both(up: Array, down: Array) -> Array:
        return jnp.concatenate([up, down], axis=-1)

    density, start = grid.pull_back(stages.density), grid.pull_back(stages.start)
    square = (grid.change / grid.growth) ** 2
    density = Derivatives(
        density.value + log(grid.growth),
        density.first + grid.change / grid.growth,
        density.second + (1.0 - square),
    )
    forward = jax.tree.map(lambda x: jnp.flip(x, 0), density)
    backward = Derivatives(flip(density.value), -flip(density.first), flip(density.second))
    one = jax.tree.map(jnp.zeros_like, start)
    value, (mantissa, exponent) = _sweep(
        jax.tree.map(both, forward, backward),
        both(jnp.flip(stages.up, 0), stages.down),
        jax.tree.map(both, start, one),
        both(grid.step, grid.step),
    )
    mantissa = jnp.flip(mantissa[..., :count], 0) * flip(mantissa[..., count:])
    exponent = jnp.flip(exponent[..., :count], 0) + jnp.flip(exponent[..., count:], -2)
    top = lax.stop_gradient(jnp.max(density.value, axis=1))
    exponent = exponent + top
    highest = lax.stop_gradient(jnp.max(exponent, axis=1, keepdims=True))
    tilted = jnp.exp(density.value - top[:, None]) * mantissa * jnp.exp(exponent - highest)[:, None]
    return value[:count], tilted / jnp.sum(tilted, axis=(1, 2), keepdims=True)


def _langevin(x):
    """Compute coth x − 1/x by its continued fraction."""
    square = x * x
    tail = 3.0 + jnp.sqrt(square + 16.0)
    upper = 5.0 * tail + square
    return x * upper / (3.0 * upper + square * tail)


def _sweep(density: Derivatives, moves, start: Derivatives, step):
    """Integrate from the left, side by side; return the integrals before each side, and the last.

    Arrays are (sides, points of a block, blocks, events). The integral up to a grid point is
    exact where the logarithm of the integrand is linear, and corrected for its curvature.
    """
    dtype = step.dtype
    tiny = float(jnp.finfo(dtype).tiny)
    below = jnp.asarray(np.tril(np.ones((_BLOCK, _BLOCK)), -1), dtype)
    blocks = start.value.shape[1]
    earlier = np.tril(np.ones((blocks, blocks), bool), -1)[..., None]
    until = np.tril(np.ones((blocks, blocks), bool))[..., None]

    def body(carry, side):
        mantissa, exponent, hazard, bend = carry
        (value, slope, curvature), moves = side
        top = lax.stop_gradient(jnp.max(value, axis=0))
        part = jnp.exp(value - top) * mantissa
        part_exponent = top + exponent
        slope = slope + hazard
        x = 0.5 * step * slope
        curvature = curvature + bend
        bent = jnp.maximum(curvature * step * step, -4.0) / 8.0
        last = 0.5 * (1.0 - _langevin(x))
        square = x * x
        last = last + bent * x / (15.0 + square * (4.76 + square))
        inner = jnp.einsum("ij,jbe->ibe", below, part, precision="highest")
        total = inner[-1] + part[-1]
        scale = lax.stop_gradient(jnp.max(jnp.where(until, part_exponent[None], -jnp.inf), axis=1))
        shift = jnp.where(earlier, part_exponent[None] - scale[:, None], -jnp.inf)
        before = jnp.sum(jnp.exp(shift) * total[None], axis=1)
        weight = jnp.exp(part_exponent - scale)
        integral = before + weight * (inner + last * part) + tiny
        new_hazard = weight * part / integral / step
        whole = integral[-1]
        new = (
            integral / whole,
            scale + log(whole) + jnp.log(step),
            new_hazard,
            new_hazard * (slope - new_hazard),
        )
        new = jax.tree.map(lambda a, b: jnp.where(moves, a, b), new, carry)
        return new, carry[:2]

    top = lax.stop_gradient(jnp.max(start.value, axis=0))
    first = (jnp.exp(start.value - top), top, start.first, start.second)
    carry, before = lax.scan(body, first, (density, moves))
    return carry[1][-1], before
