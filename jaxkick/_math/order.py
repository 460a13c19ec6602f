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
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxkick._math.normal import (
    LOG_SQRT_2PI,
    exp_limit,
    log,
    log_interval,
    normal_tail,
)
from jaxkick._typing import Array, Bool, Float, Scalar

__all__ = ["GumbelLaw", "Law", "NormalLaw", "OrderProbability", "order_probability"]

# The unit of the size of a grid. This many points share one exponent (fewer in single precision),
# so that nothing underflows in a long tail.
_BLOCK, _SINGLE_BLOCK = 16, 4
# Half the range of a normal variable that the grid covers, in standard deviations.
_REACH = 5.8
# The range of a standard Gumbel variable, and its mean and variance.
_GUMBEL_RANGE = -3.5, 19.0
_GUMBEL_MEAN, _GUMBEL_VARIANCE = 0.5772156649015329, math.pi**2 / 6
_HERMITE = np.polynomial.hermite.hermgauss(32)
# Candidates for the scale of a grid, in units of its length.
_SCALES = tuple(2.0**-power for power in range(-2, 7))


class _Jet(NamedTuple):
    """The logarithm of a function, and its first three derivatives."""

    value: Float[Array, "..."]
    first: Float[Array, "..."]
    second: Float[Array, "..."]
    third: Float[Array, "..."]


class NormalLaw(NamedTuple):
    """Normal variables.

    Attributes:
        mean: means.
        deviation: standard deviations.
        margin: the margin of ties, or `None`.
    """

    mean: Float[Array, "S E"]
    deviation: Float[Array, "S E"]
    margin: Scalar | None

    def reach(self) -> tuple[Array, Array]:
        """Return the distances below and above the mean that have practically all mass."""
        return _REACH * self.deviation, _REACH * self.deviation

    def log_density(self, point: Array) -> _Jet:
        """Compute log φ and its derivatives in the point."""
        inverse = (1.0 / self.deviation)[:, None, None]
        z = (point - self.mean[:, None, None]) * inverse
        value = -0.5 * z * z + (log(inverse) - LOG_SQRT_2PI)
        second = jnp.broadcast_to(-inverse * inverse, z.shape)
        return _Jet(value, -z * inverse, second, jnp.zeros_like(z))

    def log_window(self, point: Array, bounded: Bool[Array, "S E"]) -> _Jet:
        """Compute log w, or log Φ if not `bounded`, and their derivatives in the point."""
        inverse, bounded = (1.0 / self.deviation)[:, None, None], bounded[:, None, None]
        z = (point - self.mean[:, None, None]) * inverse
        if self.margin is None:
            log_cdf, hazard, excess = normal_tail(z)
            bend = hazard * excess
            third = bend * (hazard + excess) - hazard
            return _Jet(log_cdf, hazard * inverse, -bend * inverse**2, third * inverse**3)
        width = self.margin * inverse
        # Mirror intervals above zero, as `log_interval` demands.
        mirrored = bounded & (z > 0.5 * width)
        near = jnp.where(mirrored, width - z, z)
        width = jnp.broadcast_to(width, z.shape)
        (value, first, second), (_, _, third) = jax.jvp(
            lambda near: log_interval(near, width, bounded), (near,), (jnp.ones_like(near),)
        )
        first, third = (jnp.where(mirrored, -x, x) for x in (first, third))
        return _Jet(value, first * inverse, second * inverse**2, third * inverse**3)


class GumbelLaw(NamedTuple):
    """Normal variables plus standard Gumbel noise.

    The density g(u) is ∫ N(x; 0, v) k(u − x) dx, where k is the density of the noise, and other
    functions likewise. Gauss–Hermite nodes are centred and scaled at the peak of the integrand.
    """

    mean: Float[Array, "S E"]
    deviation: Float[Array, "S E"]
    margin: Scalar | None
    location: Float[Array, "S E"]
    spread: Float[Array, "S E"]

    @classmethod
    def make(cls, mean: Array, variance: Array, margin: Scalar | None) -> "GumbelLaw":
        variance = jnp.maximum(variance, 1e-12)
        deviation = jnp.sqrt(variance + _GUMBEL_VARIANCE)
        return cls(mean + _GUMBEL_MEAN, deviation, margin, mean, jnp.sqrt(variance))

    def reach(self) -> tuple[Array, Array]:
        low, high = _GUMBEL_RANGE
        low, high = _GUMBEL_MEAN - low, high - _GUMBEL_MEAN
        return low + _REACH * self.spread, high + _REACH * self.spread

    def log_density(self, point: Array) -> _Jet:
        def noise(y: Array) -> _Jet:
            small = _exp(-y)
            return _Jet(-y - small, small - 1.0, -small, small)

        return self._smooth(point, noise, jnp.asarray(1.0, point.dtype))

    def log_window(self, point: Array, bounded: Bool[Array, "S E"]) -> _Jet:
        bounded = bounded[:, None, None]
        widening = jnp.expm1(jnp.asarray(1.0, point.dtype) if self.margin is None else self.margin)

        def noise(y: Array) -> _Jet:
            # G(y) − G(y − ε) = G(y) (1 − exp(−d)) with G(y) = exp(−exp(−y)).
            small = _exp(-y)
            d = small * widening
            share = d / jnp.expm1(jnp.minimum(d, 80.0))
            factor = jnp.where(bounded, log(-jnp.expm1(-d)), 0.0)
            slope = jnp.where(bounded, -share, 0.0)
            rest = 1.0 - d - share
            bend = jnp.where(bounded, share * rest, 0.0)
            twist = jnp.where(bounded, share * (d + share * rest - rest**2), 0.0)
            return _Jet(factor - small, small + slope, bend - small, twist + small)

        return self._smooth(point, noise, bounded.astype(point.dtype))

    def _smooth(self, point: Array, noise: Callable[[Array], _Jet], decay: Array) -> _Jet:
        """Integrate a function of the noise, which falls as exp(−decay y) for large y."""
        spread = self.spread[:, None, None]
        u, variance = point - self.location[:, None, None], spread**2
        # The peak at x = decay v − W(v exp(decay v − u)), by an approximation of W, then Newton.
        start = jax.nn.softplus(jnp.log(variance) + decay * variance - u)
        lambert = start * (1.0 - jnp.log1p(start) / (2.0 + start))
        peak = (decay * variance - lambert) / spread
        for _ in range(3):
            at = noise(u - spread * peak)
            peak = peak - (peak + spread * at.first) / (1.0 - variance * at.second)
        peak = lax.stop_gradient(peak)
        at = noise(u - spread * peak)
        scale = lax.stop_gradient(math.sqrt(2.0) * lax.rsqrt(1.0 - variance * at.second))
        top = lax.stop_gradient(at.value - 0.5 * peak**2)
        slope = lax.stop_gradient(at.first)

        def add(sums, node):
            x, weight = node
            r = peak + scale * x
            at = noise(u - spread * r)
            part = weight * jnp.exp(at.value - 0.5 * r**2 - top + x**2)
            terms = jnp.ones_like(u), *_raw_moments(at._replace(first=at.first - slope))
            return tuple(a + part * b for a, b in zip(sums, terms, strict=True)), None

        nodes = tuple(jnp.asarray(x, point.dtype) for x in _HERMITE)
        zero = jnp.zeros_like(u + spread)
        (total, *moments), _ = lax.scan(add, (zero,) * 4, nodes)
        first, second, third = _cumulants(*(moment / total for moment in moments))
        return _Jet(top + log(total * scale) - LOG_SQRT_2PI, slope + first, second, third)


Law: TypeAlias = NormalLaw | GumbelLaw


def _raw_moments(at: _Jet) -> tuple[Array, Array, Array]:
    """Compute the derivatives of a function divided by it, from those of its logarithm."""
    square = at.first**2
    return at.first, at.second + square, at.third + at.first * (3.0 * at.second + square)


def _cumulants(first: Array, second: Array, third: Array) -> tuple[Array, Array, Array]:
    """Compute the derivatives of a logarithm: the inverse of `_raw_moments`."""
    square = first**2
    return first, second - square, third - first * (3.0 * second - 2.0 * square)


def _exp(x: Array) -> Array:
    """Compute exp(x) with a square that does not overflow."""
    return jnp.exp(jnp.minimum(x, 0.5 * exp_limit(x.dtype)))


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


class _Shares(NamedTuple):
    """The part of each side in its group, given the performance of the leader.

    Attributes:
        density: log ψ of the side's group.
        window: log w (tied) or log Φ (unplaced) of the side itself; zero for others.
        leads: probability that the side leads its group.
        widening: derivative of log ψ in the margin by the window of the side.
    """

    density: _Jet
    window: _Jet
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
    order = jnp.lexsort((-mean, key), axis=0)
    place, mean, variance = (jnp.take_along_axis(x, order, axis=0) for x in (place, mean, variance))
    groups, present = _grouped(place, mean.dtype), place >= 0
    mean, variance = jnp.where(present, mean, 0.0), jnp.where(present, variance, 1.0)
    shift = 0.0 if margin is None else margin * groups.level
    laws = law(mean + shift, variance, margin)
    nobody = ~jnp.any(groups.placed, axis=0)

    grid = lax.stop_gradient(_place_grid(lax.stop_gradient(laws), groups, blocks))
    if margin is None:
        value, first, second = _plain_order(laws, groups, grid)
        slope = jnp.zeros_like(value)
    else:
        value, first, second, slope = _tied_order(laws, groups, grid)
    used = present & ~nobody
    first, second = jnp.where(used, first, 0.0), jnp.where(used, second, 0.0)
    # A wider margin moves lower groups down and widens windows.
    slope = slope + jnp.sum(first * groups.level, axis=0)
    back = jnp.argsort(order, axis=0)
    first, second = (jnp.take_along_axis(x, back, axis=0) for x in (first, second))
    return OrderProbability(jnp.where(nobody, 0.0, value), first, second, slope)


def _grouped(place: Float[Array, "S E"], dtype: Any) -> _Groups:
    placed = place > 0
    changes = place[1:] != place[:-1]
    edge = jnp.ones_like(placed[:1])
    begins = placed & jnp.concatenate([edge, changes])
    level = jnp.cumsum(begins, axis=0) - placed.astype(int)
    ends = placed & jnp.concatenate([changes, edge])
    return _Groups(placed, place == 0, begins, ends, level.astype(dtype))


class _Grid(NamedTuple):
    """Points t = centre + scale sinh ξ at equal steps of ξ.

    Attributes:
        point: t.
        growth: dt/dξ, in units of the step.
        change: d²t/dξ², likewise.
        step: the step of ξ.
    """

    point: Float[Array, "block blocks E"]
    growth: Float[Array, "block blocks E"]
    change: Float[Array, "block blocks E"]
    step: Float[Array, " E"]

    def pull_back(self, at: _Jet) -> _Jet:
        """Convert derivatives in t to derivatives in ξ, in units of its step."""
        growth, change = self.growth, self.change
        first, square = at.first * growth, growth**2
        second = at.second * square + at.first * change
        third = growth * (at.third * square + 3.0 * at.second * change) + first * self.step**2
        return _Jet(at.value, first, second, third)


def _make_grid(low, high, centre, scale, blocks: int) -> _Grid:
    left, right = (jnp.arcsinh((end - centre) / scale) for end in (low, high))
    step = (right - left) / (_BLOCK * blocks - 1)
    block = _BLOCK if low.dtype == jnp.float64 else _SINGLE_BLOCK
    index = np.arange(_BLOCK * blocks, dtype=low.dtype).reshape(-1, block).T
    xi = left + jnp.asarray(index)[..., None] * step
    change = scale * jnp.sinh(xi)
    return _Grid(centre + change, step * scale * jnp.cosh(xi), step**2 * change, step)


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
    """Place a grid by the most probable performances, which are an isotonic regression."""
    known = groups.placed | groups.unplaced
    precision = jnp.where(known, laws.deviation**-2, 0.0)
    weight, total = jnp.cumsum(precision, axis=0), jnp.cumsum(precision * laws.mean, axis=0)
    # Means and weights of all runs of sides: from side i, along the first axis, to side j.
    weight = weight - (weight - precision)[:, None]
    total = total - (total - precision * laws.mean)[:, None]
    sides = known.shape[0]
    run = np.triu(np.ones((sides, sides), bool))[..., None]
    known_run = run & (weight > 0)
    average = jnp.where(known_run, total / jnp.where(known_run, weight, 1.0), -jnp.inf)
    highest = lax.cummax(average, axis=1, reverse=True)
    mode = jnp.min(jnp.where(run, highest, jnp.inf), axis=0)
    mode = jnp.where(known, mode, 0.0)
    down, up = laws.reach()
    nobody = ~jnp.any(known, axis=0)
    low = jnp.min(jnp.where(known, mode - down, jnp.inf), axis=0)
    high = jnp.max(jnp.where(known, mode + up, -jnp.inf), axis=0)
    low, high = jnp.where(nobody, -1.0, low), jnp.where(nobody, 1.0, high)
    return _choose_grid(low, high, mode, laws.deviation, known, blocks)


def _plain_order(laws: Law, groups: _Groups, grid: _Grid) -> tuple[Array, Array, Array]:
    """Compute log Z and its derivatives in the means, if every side is alone in its group."""

    def density(side: Law) -> _Jet:
        return _of_one(side, lambda law: law.log_density(grid.point))

    def tail(side: Law) -> _Jet:
        unbounded = jnp.zeros((1, len(grid.step)), bool)
        return _of_one(side, lambda law: law.log_window(grid.point, unbounded))

    def add(total: _Jet, side: tuple[Law, Array]) -> tuple[_Jet, None]:
        law, unplaced = side

        def added() -> _Jet:
            terms = (jnp.where(unplaced, x, 0.0) for x in tail(law))
            return _Jet(*(a + b for a, b in zip(total, terms, strict=True)))

        return lax.cond(jnp.any(unplaced), added, lambda: total), None

    none = _Jet(*(jnp.zeros_like(grid.point),) * 4)
    below, _ = lax.scan(add, none, (laws, groups.unplaced))
    value, (first, second), lowest = _sweep(groups, grid, below, laws, density, _moments_of)

    def follow(_: None, side: tuple[Law, Array]) -> tuple[None, tuple[Array, Array]]:
        law, unplaced = side
        zero = jnp.zeros_like(grid.step)
        return None, lax.cond(
            jnp.any(unplaced), lambda: _moments_of(tail(law), lowest), lambda: (zero, zero)
        )

    _, (first_below, second_below) = lax.scan(follow, None, (laws, groups.unplaced))
    first = jnp.where(groups.unplaced, first_below, first)
    return value, first, jnp.where(groups.unplaced, second_below, second)


def _of_one(law: Law, function: Callable[[Law], _Jet]) -> _Jet:
    """Apply a function of the laws of all sides to that of one side."""
    found = function(jax.tree.map(lambda x: x[None], law))
    return _Jet(*(x[0] for x in found))


def _moments_of(at: _Jet, weight: Array) -> tuple[Array, Array]:
    """Compute the derivatives in the mean, by a distribution over the points of the grid."""
    first = -_sum_points(weight * at.first)
    return first, _sum_points(weight * (at.second + (at.first + first) ** 2))


def _sum_points(values: Array) -> Array:
    """Sum over the points of the grid; as a product, which XLA's CPU compiler does faster."""
    flat = values.reshape(-1, values.shape[-1])
    return jnp.einsum("p,pe->e", jnp.ones(len(flat), flat.dtype), flat, precision="highest")


def _tied_order(laws: Law, groups: _Groups, grid: _Grid) -> tuple[Array, Array, Array, Array]:
    """Compute log Z and its derivatives in the means and in the margin."""
    own = laws.log_density(grid.point)
    shares = _share(laws, groups, own, grid.point)
    bottom = groups.unplaced[:, None, None]
    below = _Jet(*(jnp.sum(jnp.where(bottom, x, 0.0), axis=0) for x in shares.window))
    value, leader, lowest = _sweep(
        groups, grid, below, shares.density, lambda side: side, lambda _, weight: weight
    )
    # The leader of the lowest group decides about unplaced sides.
    leader = jnp.where(bottom, lowest, leader)
    leading, following = leader * shares.leads, leader * (1.0 - shares.leads)
    window = shares.window
    first = -jnp.sum(leading * own.first + following * window.first, axis=(1, 2))
    centre = first[:, None, None]
    second = leading * (own.second + (own.first + centre) ** 2)
    second = second + following * (window.second + (window.first + centre) ** 2)
    slope = jnp.sum(leader * shares.widening, axis=(0, 1, 2))
    return value, first, jnp.sum(second, axis=(1, 2)), slope


def _share(laws: Law, groups: _Groups, own: _Jet, point: Array) -> _Shares:
    tied, placed = groups.tied[:, None, None], groups.placed[:, None, None]
    has_window = tied | groups.unplaced[:, None, None]
    window = laws.log_window(point, groups.tied)
    window = _Jet(*(jnp.where(has_window, x, 0.0) for x in window))
    relative = _Jet(*(a - b for a, b in zip(own, window, strict=True)))
    ratio = jnp.where(tied, jnp.exp(jnp.where(tied, relative.value, 0.0)), 0.0)
    parts = (*window, ratio, *(ratio * moment for moment in _raw_moments(relative)))
    value, slope, bend, twist, total, *moments = _group_sums(groups, parts)
    total = jnp.maximum(total, float(jnp.finfo(total.dtype).tiny))
    first, second, third = _cumulants(*(moment / total for moment in moments))
    group = _Jet(value + log(total), slope + first, bend + second, twist + third)
    density = jax.tree.map(lambda a, b: jnp.where(tied, a, b), group, own)
    leads = jnp.where(tied, ratio / total, placed.astype(total.dtype))
    # The derivative of log w in the margin is φ(u − ε) / w = φ(u) / w − d log w / du.
    widening = jnp.where(tied, (1.0 - leads) * (ratio - window.first), 0.0)
    return _Shares(density, window, leads, widening)


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


class _Factor(NamedTuple):
    """A function on the grid, as mantissa · exp(exponent) by blocks.

    Attributes:
        mantissa: at most one.
        exponent: one for each block.
        slope: derivative of its logarithm in ξ, in units of the step.
        bend: the second derivative.
        twist: the third derivative.
    """

    mantissa: Float[Array, "block blocks E"]
    exponent: Float[Array, "blocks E"]
    slope: Float[Array, "block blocks E"]
    bend: Float[Array, "block blocks E"]
    twist: Float[Array, "block blocks E"]

    @classmethod
    def make(cls, at: _Jet) -> "_Factor":
        top = lax.stop_gradient(jnp.max(at.value, axis=0))
        return cls(jnp.exp(at.value - top), top, at.first, at.second, at.third)

    def times(self, other: "_Factor") -> "_Factor":
        """Return the product of two functions."""
        mantissa, rest = self.mantissa * other.mantissa, zip(self[1:], other[1:], strict=True)
        return _Factor(mantissa, *(a + b for a, b in rest))


class _Integral(NamedTuple):
    """The integral of a function f up to each point, from the left or from the right.

    Derivatives are computed from `part`, `slope` and `bend` when they are needed: if they were
    stored, XLA would compute the mantissa again for each of them.

    Attributes:
        mantissa: the integral, at most one.
        exponent: one for each block.
        part: ± f, in the same units.
        slope: derivative of log f in ξ, in units of the step.
        bend: the second derivative.
    """

    mantissa: Float[Array, "block blocks E"]
    exponent: Float[Array, "blocks E"]
    part: Float[Array, "block blocks E"]
    slope: Float[Array, "block blocks E"]
    bend: Float[Array, "block blocks E"]

    @classmethod
    def make(cls, at: _Jet) -> "_Integral":
        """Make an integral with this logarithm."""
        start = _Factor.make(at)
        # The inverse of `log_derivatives`.
        rises = at.first > float(jnp.finfo(at.first.dtype).tiny) ** 0.5
        inverse = jnp.where(rises, 1.0 / jnp.where(rises, at.first, 1.0), 0.0)
        rest = at.second * inverse
        bend = at.second + (at.third - at.second * rest) * inverse
        mantissa = start.mantissa + float(jnp.finfo(rest.dtype).tiny)
        return cls(mantissa, start.exponent, mantissa * at.first, at.first + rest, bend)

    def as_factor(self) -> _Factor:
        """Compute the derivatives of the logarithm h′, h″ and h‴, where h′ = f / ∫ f."""
        first = _ratio(self.part, self.mantissa)
        rest = self.slope - first
        second = first * rest
        third = second * rest + first * (self.bend - second)
        return _Factor(self.mantissa, self.exponent, first, second, third)


def _sweep(
    groups: _Groups,
    grid: _Grid,
    below: _Jet,
    sides: Any,
    density: Callable[[Any], _Jet],
    measure: Callable[[_Jet, Array], Any],
) -> tuple[Float[Array, " E"], Any, Array]:
    """Integrate side by side, from the left with the lowest side first, then from the right.

    Args:
        groups: the groups of sides.
        grid: the points.
        below: logarithm of the factor for sides below all others.
        sides: parameters of the densities, with the sides along the first axis.
        density: log ψ of a side's group, from its parameters.
        measure: a result for each side, from log ψ and the distribution of its group's leader
            over the points.

    Returns:
        log Z, the results of all sides, and the distribution of the leader of the lowest group,
        where sides are below it.
    """
    tangent = grid.change / grid.growth
    bend = grid.step**2 - tangent**2
    weight = _Jet(log(grid.growth), tangent, bend, -2.0 * tangent * bend)
    tiny = float(jnp.finfo(grid.step.dtype).tiny / jnp.finfo(grid.step.dtype).eps)

    def factor(side: Any) -> tuple[_Jet, _Factor]:
        """log ψ, and ψ in ξ by blocks."""
        at = density(side)
        pulled = _Jet(*(a + b for a, b in zip(grid.pull_back(at), weight, strict=True)))
        return at, _Factor.make(pulled)

    def rise(integral: _Integral, side) -> tuple[_Integral, tuple[Array, Array]]:
        parameters, placed, moves = side

        def move() -> tuple[_Integral, tuple[Array, Array]]:
            _, part = factor(parameters)
            product = part.times(integral.as_factor())
            new = _integrate(product, upward=True)
            new = jax.tree.map(lambda a, b: jnp.where(moves, a, b), new, integral)
            return new, (product.mantissa, product.exponent)

        def stay() -> tuple[_Integral, tuple[Array, Array]]:
            return integral, jax.tree.map(jnp.zeros_like, integral[:2])

        return lax.cond(jnp.any(placed), move, stay)

    def fall(carry: tuple[_Integral, Array], side) -> tuple[tuple[_Integral, Array], Any]:
        integral, lowest = carry
        parameters, placed, moves, last, (product, exponent) = side

        def move() -> tuple[tuple[_Integral, Array], Any]:
            at, part = factor(parameters)
            tilted, exponents = product * integral.mantissa, exponent + integral.exponent
            # The two integrals have their maxima at opposite ends of a block, so that the
            # exponents hardly determine that of their product.
            total = jnp.sum(tilted, axis=0)
            matters = lax.stop_gradient(total) > tiny
            safe = lax.stop_gradient(jnp.where(matters, total, 1.0))
            height = jnp.where(matters, exponents + log(safe), -jnp.inf)
            height = height - lax.stop_gradient(jnp.max(height, axis=0))
            scale = jnp.exp(height) / safe
            whole = jnp.sum(total * scale, axis=0)
            tilted = tilted * (scale / jnp.where(placed, whole, 1.0))
            new = _integrate(part.times(integral.as_factor()), upward=False)
            new = jax.tree.map(lambda a, b: jnp.where(moves, a, b), new, integral)
            kept = lax.cond(jnp.any(last), lambda: jnp.where(last, tilted, lowest), lambda: lowest)
            return (new, kept), measure(at, tilted)

        shapes = jax.eval_shape(lambda: move()[1])
        zeros = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)
        return lax.cond(jnp.any(placed), move, lambda: (carry, zeros))

    one = _Integral.make(jax.tree.map(jnp.zeros_like, below))
    start = _Integral.make(grid.pull_back(below))
    whole, products = lax.scan(rise, start, (sides, groups.placed, groups.begins), reverse=True)
    level = jnp.where(groups.placed, groups.level, -1.0)
    last = groups.ends & (level == jnp.max(level, axis=0)) & jnp.any(groups.unplaced, axis=0)
    scanned = sides, groups.placed, groups.ends, last, products
    (_, lowest), found = lax.scan(fall, (one, jnp.zeros_like(grid.point)), scanned)
    return whole.exponent[-1] + log(whole.mantissa[-1, -1]), found, lowest


def _integrate(function: _Factor, upward: bool) -> _Integral:
    """Integrate a function f from the left (`upward`) or from the right.

    The integral up to a point x_i is Σ_{j<i} f_j + κ f_i in units of the step, where κ depends on
    the derivatives of log f at x_i. All terms are positive.
    """
    part, exponent, slope, bend, twist = function
    dtype = part.dtype
    tiny = float(jnp.finfo(dtype).tiny)
    block, blocks = part.shape[:2]
    within = np.tril(np.ones((block, block)), -1)
    before = np.tril(np.ones((blocks, blocks), bool), -1)
    sign, end = (1.0, -1) if upward else (-1.0, 0)
    if not upward:
        within, before = within.T, before.T
    until = before | np.eye(blocks, dtype=bool)
    before, until = before[..., None], until[..., None]
    weight = _end_weight(sign * slope, bend, sign * twist)
    inner = jnp.einsum("ij,jbe->ibe", jnp.asarray(within, dtype), part, precision="highest")
    scale = lax.stop_gradient(jnp.max(jnp.where(until, exponent, -jnp.inf), axis=1))
    shift = jnp.where(before, exponent - scale[:, None], -jnp.inf)
    carried = jnp.sum(jnp.exp(shift) * (inner[end] + part[end]), axis=1)
    relative = jnp.exp(exponent - scale)
    # The integral from the left and the right end of a block, but for the weight of one point.
    whole = lax.stop_gradient(carried + relative * (inner[end] + part[end]) + tiny)
    share = relative / whole
    mantissa = carried / whole + share * (inner + weight * part) + tiny
    return _Integral(mantissa, scale + log(whole), (sign * share) * part, slope, bend)


@jax.custom_jvp
def _ratio(a: Array, b: Array) -> Array:
    """Compute a / b, with a derivative that does not square a tiny b."""
    return a / b


@_ratio.defjvp
def _ratio_jvp(primals, tangents):
    (a, b), (da, db) = primals, tangents
    ratio = _ratio(a, b)
    return ratio, (da - ratio * db) / b


def _end_weight(a: Array, b: Array, c: Array) -> Array:
    """Compute the weight κ of the last point, from the derivatives of log f in units of the step.

    k(a) = 1/a − 1/(exp a − 1) makes the integral exact if log f is linear. To sixth order,
    κ = k + k″ b / 2 + k‴ c / 6 + k⁗ b² / 8.

    Args:
        a: the first derivative.
        b: the second derivative.
        c: the third derivative.
    """
    # Coarse steps must not make κ negative.
    b, c = jnp.clip(b, -4.0, 4.0), jnp.clip(c, -4.0, 4.0)
    size, square = jnp.abs(a), a * a
    # A continued fraction.
    tail = 112.0 + 14.0 * size + square
    upper = 10.0 * tail + square * (8.0 + size)
    k = 0.5 - a * upper / (12.0 * upper + 2.0 * square * tail)
    # k″ = a r² / 120 up to 3 % for |a| < 3, and falls as it should.
    r = 25.0 / (25.0 + square)
    bent = (a * b) * (1 / 240 - b * (r * (0.001 * r - 0.0005)))
    return k + r * r * (bent + c * (r * (4 / 720) - 3 / 720))
