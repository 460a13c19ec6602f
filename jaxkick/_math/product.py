"""Integrals of functions of two scores under two independent Gaussians, by a product rule.

The nodes form a sheared grid around the mode of the integrand. One axis follows the ridge along
which the second score is most probable given the first, the other one is the second score. Each
axis has a fixed number of nodes between the ends of the integrand, densest on the side where it
falls off faster, so that a likelihood may be much narrower or wider than either Gaussian. As in
one dimension, nodes are constant under differentiation, except that each score moves with its own
mean and variance by the fraction ``follow``.

For Poisson counts up to 10 under Gaussians with deviations up to 1.5, the logarithm and both
derivatives are accurate to 1e-7 (float64). Likelihoods should be positive and smooth: near a zero
of p, errors are up to 5e-6 in the logarithm, 3e-4 in the first and 4e-3 in the second derivative.

Expectations of log p are exact for Poisson counts, and accurate to 1e-5 in the value, 1e-3 in the
first and 1e-2 in the second derivative if log p bends sharply within the Gaussians.

Arrays of both scores have them along the first axis.
"""

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxkick._math.grid import Grid, Local, Node, Precision
from jaxkick._math.normal import LOG_SQRT_2PI, Derivatives, log_growth, no_less_than_tiny
from jaxkick._math.quadrature import MOST_STEPS, Tilted, move_nodes, plan_at
from jaxkick._typing import Array, Float

__all__ = ["pair_expectation", "pair_log_partition", "pair_mean"]

LogProb: TypeAlias = Callable[[Array, Array], Array]

# Reach in standard deviations, digits and nodes of each axis.
_DOUBLE, _SINGLE = Precision(6.0, 17.0, 20), Precision(5.2, 13.5, 14)
# Centre and stretch of an axis, relative to the shorter side of its peak.
_SHIFT, _STRETCH = 0.85, 0.75
_HERMITE_NODES = 32
# Pairs of nodes in one step of the loop.
_UNROLL = 4


class _Expansion(NamedTuple):
    """The value of a function of two scores and its derivatives up to second order."""

    value: Float[Array, "..."]
    first: tuple[Float[Array, "..."], Float[Array, "..."]]
    second: tuple[Float[Array, "..."], Float[Array, "..."]]
    mixed: Float[Array, "..."]


def pair_log_partition(
    log_prob: LogProb,
    constant: LogProb,
    mean: Float[Array, "2 ..."],
    variance: Float[Array, "2 ..."],
    weight: Float[Array, "..."] | None,
) -> Derivatives:
    """Compute log ∫∫ p(f, g)^weight N(f) N(g) df dg and its derivatives in both means.

    Args:
        log_prob: log p as a function of the two scores.
        constant: the same function, constant under differentiation.
        mean: means of the Gaussians.
        variance: their variances.
        weight: power of the likelihood; one if `None`.

    Returns:
        The logarithm, and its first and second derivatives of shape (2, ...).
    """
    precision = _precision(mean)
    variance = no_less_than_tiny(variance)
    fixed_mean, fixed_variance = lax.stop_gradient(mean), lax.stop_gradient(variance)
    fixed_weight = 1.0 if weight is None else lax.stop_gradient(weight)
    deviation = jnp.sqrt(fixed_variance)

    def log_density(f, g):
        x, y = (jnp.stack([f, g]) - fixed_mean) / deviation
        return fixed_weight * constant(f, g) - 0.5 * (x * x + y * y)

    mode, stiffness = _find_mode(log_density, fixed_mean, fixed_variance)
    # The most probable second score changes by `shear` per unit of the first.
    shear = -stiffness[2] / stiffness[1]
    tilt = shear * deviation[1] / deviation[0]

    def lines(scores):
        """The likelihood along both axes; on the ridge, with the Gaussian of the second score."""
        f = jnp.stack([scores[0], mode[0]])
        g = jnp.stack([mode[1] + tilt * (scores[0] - mode[0]), scores[1]])
        along = jnp.ones_like(f).at[1].set(0.0), jnp.ones_like(g).at[0].set(tilt)

        def with_slope(f, g):
            def value(f, g):
                y = ((g - fixed_mean[1]) / deviation[1]).at[1].set(0.0)
                return fixed_weight * constant(f, g) - 0.5 * y * y

            return jax.jvp(value, (f, g), along)

        (value, first), (_, second) = jax.jvp(with_slope, (f, g), along)
        x = ((mode - fixed_mean) / deviation)[0]
        return Local(value - jnp.stack([0.0 * x, 0.5 * x * x]), first, second)

    tilted = Tilted(lines, fixed_mean, fixed_variance, 1.0)
    plan = lax.stop_gradient(plan_at(precision, tilted, None, mode, _grid_between))
    shear = lax.stop_gradient(shear)
    frame = move_nodes(plan, tilted, mean, variance)
    factor = 1.0 if weight is None else weight
    height = plan.height[0]

    def terms(node: Node, other: Node):
        x = node.position(_axis(plan.grid, 0))
        y = other.position(_axis(plan.grid, 1)) + shear * (x - plan.peak[0])
        f, g = (frame.centre[i] + frame.deviation[i] * place for i, place in enumerate((x, y)))
        z = [frame.offset[i] + frame.shrink[i] * place for i, place in enumerate((x, y))]
        at = _expand(log_prob, f, g)
        drop = 0.5 * (z[0] * z[0] + z[1] * z[1]) + height
        width = node.width(_axis(plan.grid, 0)) * other.width(_axis(plan.grid, 1))
        mass = jnp.exp(jnp.minimum(factor * at.value - drop, 60.0)) * width
        # Far nodes have no mass, but the squares of their slopes may overflow.
        alive = mass > 1e-30
        sums = [jnp.where(alive, mass, 0.0)]
        for i in range(2):
            excess = plan.follow[i] * factor * at.first[i] + frame.pull[i] * z[i] - plan.slope[i]
            tilt = mass * jnp.where(alive, excess, 0.0)
            bend = mass * jnp.where(alive, factor * at.second[i], 0.0)
            sums += [tilt, tilt * excess, bend]
        return tuple(sums)

    (total, *sums), unit = _sum_over_pairs(precision, plan.grid, terms)
    first, squared, second = (jnp.stack([sums[k], sums[k + 3]]) for k in range(3))
    excess = first / total
    value = jnp.log(total * unit) - 2 * LOG_SQRT_2PI + height + jnp.sum(frame.log_stretch, axis=0)
    if weight is not None:
        value = value - jnp.where(fixed_weight == 0, lax.stop_gradient(value), 0.0)
    return Derivatives(
        value,
        plan.slope + excess,
        plan.follow**2 * (second / total) - frame.pull**2 + (squared / total - excess**2),
    )


def pair_expectation(
    log_prob: LogProb, mean: Float[Array, "2 ..."], variance: Float[Array, "2 ..."]
) -> Derivatives:
    """Compute E[log p(f, g)] for independent Gaussian f and g and its derivatives in both means.

    Args:
        log_prob: log p as a function of the two scores.
        mean: means of the Gaussians.
        variance: their variances.
    """

    def terms(f, g):
        at = _expand(log_prob, f, g)
        return at.value, *at.first, *at.second

    value, *slopes = pair_mean(terms, mean, variance)
    return Derivatives(value, jnp.stack(slopes[:2]), jnp.stack(slopes[2:]))


def pair_mean(
    function: Callable[[Array, Array], tuple[Array, ...]],
    mean: Float[Array, "2 ..."],
    variance: Float[Array, "2 ..."],
) -> tuple[Array, ...]:
    """Compute E[function(f, g)] for independent Gaussian f and g by a Gauss–Hermite product rule.

    Args:
        function: function of the two scores that returns a tuple of arrays.
        mean: means of the Gaussians.
        variance: their variances.
    """
    variance = no_less_than_tiny(variance)
    scale = jnp.sqrt(lax.stop_gradient(variance)) * jnp.exp(0.5 * log_growth(variance))
    places, masses = np.polynomial.hermite_e.hermegauss(_HERMITE_NODES)
    x, y = np.meshgrid(places, places)
    nodes = x.ravel(), y.ravel(), np.outer(masses, masses).ravel() / (2 * np.pi)

    @jax.checkpoint
    def add(sums, node):
        x, y, mass = node
        parts = function(mean[0] + scale[0] * x, mean[1] + scale[1] * y)
        return tuple(each + mass * part for each, part in zip(sums, parts, strict=True)), None

    zeros = jax.tree.map(jnp.zeros_like, jax.eval_shape(function, mean[0], mean[1]))
    sums, _ = lax.scan(add, zeros, tuple(jnp.asarray(each, mean.dtype) for each in nodes))
    return sums


def _find_mode(
    log_density: LogProb, start: Float[Array, "2 ..."], variance: Float[Array, "2 ..."]
) -> tuple[Float[Array, "2 ..."], Float[Array, "3 ..."]]:
    """Find a maximum by Newton's method with shorter steps where the density does not increase.

    Returns:
        The maximiser, and minus the second derivatives there in units of the Gaussians' standard
        deviations: of the first score, of the second score, and mixed.
    """
    deviation = jnp.sqrt(variance)

    def look(scores):
        at = _expand(log_density, *scores)
        slope = jnp.stack(at.first) * deviation
        stiffness = jnp.maximum(-jnp.stack(at.second) * variance, 1.0)
        bound = 0.99 * jnp.sqrt(stiffness[0] * stiffness[1])
        mixed = jnp.clip(-at.mixed * deviation[0] * deviation[1], -bound, bound)
        determinant = stiffness[0] * stiffness[1] - mixed**2
        step = (stiffness[::-1] * slope - mixed * slope[::-1]) / determinant
        gain = jnp.sum(step * slope, axis=0)
        return at.value, step, gain, jnp.concatenate([stiffness, mixed[None]])

    def improve(search):
        count, scores, share, (value, step, _, _) = search
        trial = scores + share * step * deviation
        found = look(trial)
        better = (found[0] >= value) & jnp.isfinite(found[2])
        new = jax.tree.map(lambda a, b: jnp.where(better, a, b), found, search[3])
        share = jnp.where(better, jnp.minimum(4.0 * share, 1.0), 0.2 * share)
        return count + 1, jnp.where(better, trial, scores), share, new

    def unfinished(search):
        count, _, share, (_, _, gain, _) = search
        return (count < MOST_STEPS) & jnp.any((gain > 1e-3) & (share > 1e-6))

    first = jnp.int32(0), start, jnp.ones_like(start[0]), look(start)
    _, mode, _, (_, _, _, stiffness) = lax.while_loop(unfinished, improve, first)
    return mode, stiffness


def _expand(function: LogProb, f: Float[Array, "..."], g: Float[Array, "..."]) -> _Expansion:
    one, zero = jnp.ones_like(f), jnp.zeros_like(f)
    along_f = lambda f, g: jax.jvp(function, (f, g), (one, zero))  # noqa: E731
    along_g = lambda f, g: jax.jvp(function, (f, g), (zero, one))  # noqa: E731
    (value, first), (_, second) = jax.jvp(along_f, (f, g), (one, zero))
    (_, other_first), (_, other_second) = jax.jvp(along_g, (f, g), (zero, one))
    _, (_, mixed) = jax.jvp(along_f, (f, g), (zero, one))
    return _Expansion(value, (first, other_first), (second, other_second), mixed)


def _sum_over_pairs(
    precision: Precision, grid: Grid, terms: Callable[[Node, Node], tuple[Array, ...]]
) -> tuple[tuple[Array, ...], Float[Array, "..."]]:
    """Sum functions of pairs of nodes; return also the area of a pair of width one."""
    start, step = grid.start, grid.span / (precision.most_nodes - 1)
    growth = Node.at(step[1])

    def add(total, node: Node, other: Node):
        return jax.tree.map(jnp.add, total, terms(node, other))

    @jax.checkpoint
    def add_column(total, index):
        node = Node.at(start[0] + index * step[0])

        @jax.checkpoint
        def add_pair(carry, _):
            total, other = carry
            total = add(total, node, other)
            return (total, _next(other, growth)), None

        carry, _ = lax.scan(
            add_pair, (total, Node.at(start[1])), length=precision.most_nodes, unroll=_UNROLL
        )
        return carry[0], None

    shapes = jax.eval_shape(terms, *(Node.at(each) for each in start))
    zeros = jax.tree.map(lambda shape: jnp.zeros(shape.shape, shape.dtype), shapes)
    sums, _ = lax.scan(add_column, zeros, jnp.arange(precision.most_nodes, dtype=step.dtype))
    return sums, grid.stretch[0] * step[0] * grid.stretch[1] * step[1]


def _next(node: Node, growth: Node) -> Node:
    """Return the node after a step of `growth`, by the addition theorems."""
    return Node(
        node.sinh * growth.cosh + node.cosh * growth.sinh,
        node.cosh * growth.cosh + node.sinh * growth.sinh,
    )


def _grid_between(low: Array, peak: Array, high: Array) -> Grid:
    """Return a grid that is densest near the end that is nearer to the peak."""
    before, after = peak - low, high - peak
    shorter = jnp.minimum(before, after)
    centre = peak + jnp.where(after < before, _SHIFT, -_SHIFT) * shorter
    stretch = _STRETCH * shorter
    start, stop = (jnp.arcsinh((end - centre) / stretch) for end in (low, high))
    return Grid(centre, stretch, None, start, stop - start, jnp.zeros_like(start))


def _axis(grid: Grid, axis: int) -> Grid:
    return jax.tree.map(lambda each: each[axis], grid)


def _precision(mean: Array) -> Precision:
    return _DOUBLE if mean.dtype == jnp.float64 else _SINGLE
