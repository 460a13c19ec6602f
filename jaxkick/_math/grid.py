"""Graded quadrature grids, one for each array element, summed without storing all nodes.

The trapezoidal rule in u for x = centre + stretch · sinh u converges exponentially, because the
spacing of the nodes grows with the distance from the centre. It handles a step of width one under
a Gaussian of width one hundred as well as a narrow peak with long tails. If a log-likelihood bends
(changes slope) in two places, such as at the margins of a tie, the additional term plateau · tanh u
places nodes densely around both.

Distances are in units of the standard deviation of the Gaussian.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from jaxkick._typing import Array, Float, Int

__all__ = [
    "Anchor",
    "Grid",
    "Local",
    "Node",
    "Precision",
    "choose_grid",
    "nodes_needed",
    "sum_over_nodes",
]

# The number of nodes is a multiple of this.
ROUND = 4
# Grids with a larger stretch are effectively linear and need as many nodes.
LINEAR = 5.0
# Stretch of a grid for a peak that is much narrower than the Gaussian and may have long tails.
PEAKED = 1.5
# Heights above the real line at which the growth of the integrand is evaluated (below π/4).
HEIGHTS = (0.25, 0.45, 0.6, 0.75)


class Local(NamedTuple):
    """A likelihood at one score, p = factor · exp(exponent), and the derivatives of log p.

    If the likelihood is a quotient, such as the logistic function, the factor saves a logarithm
    and an exponential at each quadrature node.

    Attributes:
        exponent: logarithm of the likelihood without the factor.
        first: first derivative of log p with respect to the score.
        second: second derivative of log p.
        factor: a factor near one; `None` if it is one.
    """

    exponent: Float[Array, "..."]
    first: Float[Array, "..."]
    second: Float[Array, "..."]
    factor: Float[Array, "..."] | None = None

    @property
    def log_prob(self) -> Float[Array, "..."]:
        """The logarithm of the likelihood."""
        if self.factor is None:
            return self.exponent
        return self.exponent + jnp.log(self.factor)


class Anchor(NamedTuple):
    """The place where the slope of a log-likelihood changes, as a function of the score.

    Attributes:
        centre: the score at which the slope changes, or the middle of two such scores.
        scale: the distance over which it changes; about the distance to the nearest complex
            singularity.
        reach: half the distance between two bends; `None` if there is only one.
    """

    centre: Float[Array, "..."]
    scale: Float[Array, "..."]
    reach: Float[Array, "..."] | None = None

    def in_units(self, mean: Float[Array, "..."], deviation: Float[Array, "..."]) -> "Anchor":
        """Convert to distances from `mean` in units of `deviation`."""
        reach = None if self.reach is None else self.reach / deviation
        return Anchor((self.centre - mean) / deviation, self.scale / deviation, reach)


class Grid(NamedTuple):
    """Nodes x = centre + stretch · sinh u + plateau · tanh u for u in [start, start + span].

    Attributes:
        centre: node at u = 0.
        stretch: spacing of the nodes around the centre, per unit of u.
        plateau: half the distance between two bends; `None` if there is only one.
        start: the first u.
        span: the last u minus the first.
        intervals: the number of steps that the span needs.
    """

    centre: Float[Array, "..."]
    stretch: Float[Array, "..."]
    plateau: Float[Array, "..."] | None
    start: Float[Array, "..."]
    span: Float[Array, "..."]
    intervals: Float[Array, "..."]

    def mapped(self, offset: Float[Array, "..."], factor: Float[Array, "..."]) -> "Grid":
        """Return the grid of offset + factor · x."""
        return self._replace(
            centre=offset + factor * self.centre,
            stretch=factor * self.stretch,
            plateau=None if self.plateau is None else factor * self.plateau,
        )


class Node(NamedTuple):
    """One node of each element's grid: the hyperbolic functions of its u."""

    sinh: Float[Array, "..."]
    cosh: Float[Array, "..."]

    @classmethod
    def at(cls, u: Float[Array, "..."]) -> "Node":
        """Return the node at `u`."""
        up, down = jnp.exp(u), jnp.exp(-u)
        return cls(0.5 * (up - down), 0.5 * (up + down))

    def position(self, grid: Grid) -> Float[Array, "..."]:
        """Return the position x of the node."""
        x = grid.centre + grid.stretch * self.sinh
        return x if grid.plateau is None else x + grid.plateau * (self.sinh / self.cosh)

    def width(self, grid: Grid) -> Float[Array, "..."]:
        """Return the weight of the node: dx/du relative to the grid's stretch."""
        if grid.plateau is None:
            return self.cosh
        return self.cosh + (grid.plateau / grid.stretch) / (self.cosh * self.cosh)


class Precision(NamedTuple):
    """The accuracy of quadrature for a floating-point type.

    Attributes:
        reach: the range covered on each side, in standard deviations of the Gaussian.
        digits: minus the natural logarithm of the target relative error.
        most_nodes: the maximum number of nodes, a multiple of `ROUND`.
    """

    reach: float
    digits: float
    most_nodes: int

    @classmethod
    def of(cls, dtype: jnp.dtype) -> "Precision":
        """Return the precision for `dtype`."""
        return cls(7.1, 26.5, 96) if dtype == jnp.float64 else cls(5.2, 13.5, 56)


def choose_grid(
    precision: Precision,
    low: Float[Array, "..."],
    peak: Float[Array, "..."],
    high: Float[Array, "..."],
    spread: Float[Array, "..."],
    anchor: Anchor,
) -> Grid:
    """Choose a grid for an integrand with a peak and a likelihood that bends elsewhere.

    Bends outside the covered range are moved to its border and treated as smoother, according to
    their distance. The grid is centred on the bends or on the peak, whichever needs fewer nodes.

    Args:
        precision: the required accuracy.
        low: lower end of the range.
        peak: position of the integrand's peak.
        high: upper end of the range.
        spread: standard deviation of the peak, at most one.
        anchor: the bends.
    """
    half = 0.0 if anchor.reach is None else anchor.reach
    left = jnp.clip(anchor.centre - half, low, high)
    right = jnp.clip(anchor.centre + half, low, high)
    outside = jnp.minimum(
        jnp.abs(left - (anchor.centre - half)), jnp.abs(right - (anchor.centre + half))
    )
    scale = jnp.minimum(jnp.sqrt(anchor.scale**2 + outside**2), LINEAR)
    to_left, to_right = jnp.abs(peak - left), jnp.abs(peak - right)
    nearer, farther = jnp.minimum(to_left, to_right), jnp.maximum(to_left, to_right)
    narrow = spread * (PEAKED + (LINEAR - PEAKED) * spread**2)

    # Both candidates along a first axis, which compiles faster than two separate computations.
    scales = jnp.stack([scale, narrow])
    steps = _gaussian_step(
        precision.digits, scales / spread, jnp.stack([nearer, jnp.zeros_like(peak)]) / spread
    )
    singular = _singular_step(
        precision.digits,
        jnp.minimum(scale * lax.rsqrt(narrow**2 + farther**2), 1.5),
        jnp.minimum(anchor.scale, LINEAR) ** 2 - (nearer + outside) ** 2,
    )
    steps = steps.at[1].min(singular)
    lefts = jnp.stack([left, peak])
    rights = lefts if anchor.reach is None else jnp.stack([right, peak])
    grids = _between(low, lefts, rights, high, scales, steps, anchor.reach is not None)
    on_peak = grids.intervals[1] < grids.intervals[0]
    return jax.tree.map(lambda each: jnp.where(on_peak, each[1], each[0]), grids)


def _between(low, left, right, high, scale, step, two: bool) -> Grid:
    """Return grids from `low` to `high` with bends at `left` and `right`, if there are two."""
    plateau, stretch, foot = None, scale, 0.0
    if two:
        plateau = 0.5 * (right - left)
        # Keep the smallest spacing, which is at the bends, equal to the required scale.
        stretch = scale * lax.rsqrt(1 + 6.75 * plateau / scale)
        foot = jnp.cbrt(0.5 * plateau / stretch)
    ends = jnp.stack([left - low, high - right]) / stretch + foot
    before, after = jnp.log(ends + jnp.sqrt(1 + ends**2))
    span = before + after
    return Grid(0.5 * (left + right), stretch, plateau, -before, span, span / step)


def _gaussian_step(digits: float, stretch, distance) -> Float[Array, "..."]:
    """Return the largest step in u with a trapezoidal error of exp(−digits) for a Gaussian peak.

    The error is exp(growth(v) − 2π v / step) for any height v. Here growth is the logarithm of the
    ratio of the Gaussian on the line at height v to the Gaussian on the real line. `stretch` and
    `distance` (of the peak from the grid's centre) are in units of the peak's width.
    """
    best = jnp.zeros_like(stretch)
    for height in HEIGHTS:
        sine = math.sin(height) ** 2
        growth = 0.5 * sine * (stretch**2 + distance**2 / (1 - 2 * sine))
        best = jnp.maximum(best, 2 * math.pi * height / (digits + growth))
    return best


def _singular_step(digits: float, height, growth) -> Float[Array, "..."]:
    """Return the largest step for a singularity at `height`, with the Gaussian exp(growth / 2)."""
    return 2 * math.pi * height / jnp.maximum(digits + 0.5 * growth, 2.0)


def nodes_needed(precision: Precision, grid: Grid) -> Int[Array, ""]:
    """Return the number of nodes that is sufficient for all elements."""
    # An observation with NaN must not affect the others.
    known = jnp.where(jnp.isfinite(grid.intervals), grid.intervals, 0.0)
    rounds = jnp.ceil((jnp.max(known, initial=0.0) + 1) / ROUND)
    return ROUND * jnp.clip(rounds, 2, precision.most_nodes // ROUND).astype(jnp.int32)


def sum_over_nodes(
    grid: Grid,
    count: Int[Array, ""],
    most: int,
    terms: Callable[[Node], tuple[Array, ...]],
) -> tuple[tuple[Array, ...], Float[Array, "..."]]:
    """Sum functions of the nodes, with one node of each element in memory at a time.

    The loop has a fixed length, because reverse-mode differentiation requires it, and skips nodes
    beyond `count`. The backward pass recomputes nodes instead of storing them.

    Args:
        grid: the nodes, constant under differentiation.
        count: the number of nodes, a multiple of `ROUND`.
        most: the maximum of `count`.
        terms: function of a node.

    Returns:
        The sums, and dx of a node of width one.
    """
    step = grid.span / (count - 1).astype(grid.span.dtype)

    @jax.checkpoint
    def add_node(total, index):
        node = Node.at(grid.start + index.astype(step.dtype) * step)
        return jax.tree.map(jnp.add, total, terms(node))

    @jax.checkpoint
    def add_round(total, first):
        def all_nodes(total):
            indices = first + jnp.arange(ROUND, dtype=jnp.int32)
            return lax.scan(lambda t, i: (add_node(t, i), None), total, indices)[0]

        return lax.cond(first < count, all_nodes, lambda total: total, total)

    shapes = jax.eval_shape(terms, Node.at(grid.start))
    zeros = jax.tree.map(lambda shape: jnp.zeros(shape.shape, shape.dtype), shapes)
    rounds = jnp.arange(0, most, ROUND, dtype=jnp.int32)
    sums, _ = lax.scan(lambda t, i: (add_round(t, i), None), zeros, rounds)
    return sums, grid.stretch * step
