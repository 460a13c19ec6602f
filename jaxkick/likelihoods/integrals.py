"""Numerical integrals of a likelihood over scores and over outcomes."""

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.typing import DTypeLike
from jaxtyping import ArrayLike

from jaxkick._math import (
    Derivatives,
    gaussian_expectation,
    pair_expectation,
    pair_log_partition,
    tilted_log_partition,
)
from jaxkick._typing import Array, Bool, Float, Values
from jaxkick._xla import jit_once
from jaxkick.parameters import resolve

if TYPE_CHECKING:
    from jaxkick.likelihoods.likelihood import AbstractLikelihood

__all__ = [
    "OutcomeGrid",
    "align",
    "expectation_by_quadrature",
    "expectation_on_grid",
    "is_misjudged",
    "log_partition_by_quadrature",
    "log_partition_on_grid",
    "outcome_grid",
]

Tree = TypeVar("Tree")

# Points of a grid over outcomes; integers beyond the grid get probability zero.
_POINTS = 512
# A log density this far below its maximum is negligible.
_NEGLIGIBLE = 36.0
_HALVINGS = 40
# Points at either end of a grid, their largest share in a moment that exists, and the density
# there, relative to the largest one, in a tail.
_END = 16
_END_SHARE = 0.005
_TAIL_DENSITY = 1e-6
# Two even grids over the Gaussian that check the adaptive one: nodes of each, and how far they
# reach in standard deviations.
_EVEN_NODES, _EVEN_REACH = (1025, 1537), 9.0
# The largest difference of two logarithms, or expectations, that counts as agreement.
_AGREEMENT = 1e-2


def log_partition_by_quadrature(
    likelihood: "AbstractLikelihood",
    outcome: ArrayLike,
    mean: ArrayLike,
    variance: ArrayLike,
    weight: ArrayLike | None = None,
) -> Derivatives:
    """Compute `AbstractLikelihood.log_partition` by quadrature."""
    if likelihood.num_predictors != 1:
        return _pair_integral(likelihood, outcome, mean, variance, weight, expected=False)
    mean, variance, outcome = align(mean, variance, outcome)
    if weight is not None:
        mean, variance, outcome, weight = align(mean, variance, outcome, weight)
    likelihood, fixed, fixed_outcome = _prepared(likelihood, outcome)
    value, first, second = tilted_log_partition(
        likelihood.local(outcome),
        fixed.local(fixed_outcome),
        fixed.anchor(fixed_outcome, 1.0 if weight is None else lax.stop_gradient(weight)),
        mean,
        variance,
        weight,
    )
    constant = likelihood.constant(outcome)
    return Derivatives(value + (constant if weight is None else weight * constant), first, second)


def expectation_by_quadrature(
    likelihood: "AbstractLikelihood", outcome: ArrayLike, mean: ArrayLike, variance: ArrayLike
) -> Derivatives:
    """Compute `AbstractLikelihood.expectation` by quadrature."""
    if likelihood.num_predictors != 1:
        return _pair_integral(likelihood, outcome, mean, variance, None, expected=True)
    mean, variance, outcome = align(mean, variance, outcome)
    likelihood, fixed, fixed_outcome = _prepared(likelihood, outcome)
    value, first, second = gaussian_expectation(
        likelihood.local(outcome),
        fixed.local(fixed_outcome),
        fixed.anchor(fixed_outcome, 1.0),
        mean,
        variance,
    )
    return Derivatives(value + likelihood.constant(outcome), first, second)


def _pair_integral(
    likelihood: "AbstractLikelihood",
    outcome: ArrayLike,
    mean: ArrayLike,
    variance: ArrayLike,
    weight: ArrayLike | None,
    expected: bool,
) -> Derivatives:
    """Compute a log-partition function or an expectation over two scores."""
    if likelihood.num_predictors != 2:
        name, method = type(likelihood).__name__, "expectation" if expected else "log_partition"
        raise NotImplementedError(
            f"{name} depends on more than two scores, for which quadrature would need too many "
            f"nodes. Implement `{method}`."
        )
    mean, variance, outcome = align(mean, variance, outcome)
    if weight is not None:
        weight = jnp.asarray(weight)[..., None]
        mean, variance, outcome, weight = align(mean, variance, outcome, weight)
        weight = weight[..., 0]
    likelihood, fixed, fixed_outcome = _prepared(likelihood, outcome)

    def log_prob(f, g):
        return likelihood.log_prob(outcome, jnp.stack([f, g], axis=-1))

    def constant(f, g):
        return fixed.log_prob(fixed_outcome, jnp.stack([f, g], axis=-1))

    first, rest = jnp.moveaxis(mean, -1, 0), jnp.moveaxis(variance, -1, 0)
    if expected:
        found = pair_expectation(log_prob, first, rest)
    else:
        found = pair_log_partition(log_prob, constant, first, rest, weight)
    slopes = (jnp.moveaxis(each, 0, -1) for each in found[1:])
    return Derivatives(found.value, *slopes)


def log_partition_on_grid(
    likelihood: "AbstractLikelihood",
    outcome: Values,
    mean: Values,
    variance: Values,
    weight: Values | None = None,
) -> Derivatives:
    """Compute `AbstractLikelihood.log_partition` on an even grid.

    It finds all peaks that are not too narrow, and needs no derivatives of the likelihood, which
    may have kinks; but it has many nodes. Derivatives in the mean are moments.
    """
    likelihood = resolve(likelihood, mean.dtype)
    power = 1.0 if weight is None else weight
    variance = _floored(variance)
    deviation = jnp.sqrt(variance)

    def add(sums: tuple, node: tuple) -> tuple:
        top, zeroth, first, second = sums
        z, log_mass = node
        term = log_mass + power * likelihood.log_prob(outcome, mean + deviation * z)
        higher = jnp.maximum(top, term)
        # Minus infinity as long as nothing is possible.
        finite = jnp.where(jnp.isfinite(higher), higher, 0.0)
        old, new = jnp.exp(top - finite), jnp.exp(term - finite)
        sums = (zeroth * old + new, first * old + new * z, second * old + new * (z * z))
        return (higher, *sums), None

    zero = jnp.zeros_like(mean)
    start = (jnp.full_like(mean, -jnp.inf), zero, zero, zero)
    (top, zeroth, first, second), _ = lax.scan(add, start, _even_nodes(_EVEN_NODES[0], mean.dtype))
    first, second = first / zeroth, second / zeroth
    slope = first / deviation
    return Derivatives(top + jnp.log(zeroth), slope, (second - first * first - 1.0) / variance)


def expectation_on_grid(
    likelihood: "AbstractLikelihood", outcome: Values, mean: Values, variance: Values
) -> Derivatives:
    """Compute `AbstractLikelihood.expectation` on an even grid."""
    likelihood = resolve(likelihood, mean.dtype)
    variance = _floored(variance)
    deviation = jnp.sqrt(variance)

    def add(sums: tuple, node: tuple) -> tuple:
        z, log_mass = node
        term = jnp.exp(log_mass) * likelihood.log_prob(outcome, mean + deviation * z)
        return (sums[0] + term, sums[1] + term * z, sums[2] + term * (z * z - 1.0)), None

    start = (jnp.zeros_like(mean),) * 3
    (value, first, second), _ = lax.scan(add, start, _even_nodes(_EVEN_NODES[0], mean.dtype))
    return Derivatives(value, first / deviation, second / variance)


def _floored(variance: Values) -> Values:
    """Variances with which differences of moments keep half of their digits."""
    return jnp.maximum(variance, float(jnp.finfo(variance.dtype).eps) ** 0.5)


def _even_nodes(count: int, dtype: DTypeLike) -> tuple[Float[Array, " nodes"], ...]:
    """Standard normal nodes and the logarithms of their masses."""
    nodes = jnp.linspace(-_EVEN_REACH, _EVEN_REACH, count, dtype=dtype)
    return nodes, jax.nn.log_softmax(-0.5 * jnp.square(nodes))


def is_misjudged(
    likelihood: "AbstractLikelihood",
    outcome: Values,
    mean: Values,
    variance: Values,
    weight: Values | None,
    expected: bool,
    on_grid: bool = False,
) -> Bool[Array, "..."]:
    """Return whether adaptive quadrature misses what even grids see.

    Adaptive quadrature looks for one peak, so it can miss another one. Even grids see all peaks.
    Where two of them agree, the adaptive integral must agree with them. Where they do not, peaks
    are too narrow for them, and there must not be several.

    Args:
        likelihood: any likelihood.
        outcome: outcomes.
        mean: means of scores.
        variance: variances of scores.
        weight: powers on the likelihood, or `None`.
        expected: whether to check the expectation of log p instead of the partition function.
        on_grid: whether an even grid was used; two of them must agree then.
    """
    likelihood = resolve(likelihood, mean.dtype)

    def even(count: int) -> tuple[Values, Bool[Array, "..."]]:
        """The integral over a grid, and whether the integrand has several peaks."""
        nodes, log_mass = (part[:, None] for part in _even_nodes(count, mean.dtype))
        value = likelihood.log_prob(outcome, mean + jnp.sqrt(variance) * nodes)
        if expected:
            return jnp.sum(jnp.exp(log_mass) * value, axis=0), jnp.zeros(mean.shape, bool)
        terms = log_mass + (value if weight is None else weight * value)
        high = terms[1:-1] > jnp.max(terms, axis=0) - _NEGLIGIBLE
        peak = (terms[1:-1] > terms[:-2]) & (terms[1:-1] >= terms[2:]) & high
        return jax.nn.logsumexp(terms, axis=0), jnp.sum(peak, axis=0) > 1

    (one, several), (other, _) = (even(count) for count in _EVEN_NODES)
    scale = _AGREEMENT * (1.0 + jnp.abs(one)) if expected else _AGREEMENT
    agree = jnp.abs(one - other) < scale
    if on_grid:
        return ~agree
    if expected:
        found = likelihood.expectation(outcome, mean, variance).value
    else:
        found = likelihood.log_partition(outcome, mean, variance, weight).value
    return jnp.where(agree, jnp.abs(one - found) > 2.0 * scale, several)


def align(mean: ArrayLike, *others: ArrayLike) -> tuple[Values, ...]:
    """Broadcast all arguments and convert them to the floating-point type of the mean."""
    mean = jnp.asarray(mean)
    if not jnp.issubdtype(mean.dtype, jnp.floating):
        mean = mean.astype(jnp.result_type(float))
    rest = (jnp.asarray(other).astype(mean.dtype) for other in others)
    return tuple(jnp.broadcast_arrays(mean, *rest))


class OutcomeGrid(NamedTuple):
    """The distribution of the outcome for each score, on a grid of outcomes.

    For discrete outcomes the grid has probabilities. For a continuous outcome
    y(u) = centre + scale sinh u it has the density in u at equal steps, which is integrated to
    fourth order (corrected trapezoidal rule). Mean, quantiles and probabilities are accurate to
    about 1e-6 if the density is smooth.

    Attributes:
        outcomes: the grid points, increasing along the last axis.
        mass: the probability of each point, or the density in u times the step.
        below: the cumulative probability at each point.
        centre: the outcome at u = 0; `None` if outcomes are discrete.
        scale: the scale of the grid around the centre; `None` if outcomes are discrete.
    """

    outcomes: Float[Array, "... G"]
    mass: Float[Array, "... G"]
    below: Float[Array, "... G"]
    centre: Values | None = None
    scale: Values | None = None

    def mean(self) -> Values:
        """The mean; NaN if the tails are so heavy that there is none."""
        exists = self._converges(1)
        return jnp.where(exists, self._expectation(self.outcomes), jnp.nan)

    def variance(self) -> Values:
        """The variance; NaN if the tails are so heavy that there is none."""
        exists = self._converges(2)
        squares = (self.outcomes - self._expectation(self.outcomes)[..., None]) ** 2
        return jnp.where(exists, self._expectation(squares), jnp.nan)

    def cdf(self, outcome: float) -> Values:
        """Compute the probability of outcomes up to `outcome`."""
        if self.centre is None or self.scale is None:
            return jnp.sum(jnp.where(self.outcomes <= outcome, self.mass, 0.0), axis=-1)
        place = jnp.arcsinh((outcome - self.centre) / self.scale)
        places = self._places()
        share = (place - places[..., 0]) / (places[..., 1] - places[..., 0])
        share = jnp.clip(share, 0.0, self.mass.shape[-1] - 1.0)
        cell = jnp.clip(jnp.floor(share), 0.0, self.mass.shape[-1] - 2.0)
        return self._within(cell.astype(jnp.int32), share - cell)

    def quantile(self, probability: Values) -> Values:
        """Return the smallest outcome with a `cdf` of at least `probability`."""
        reached = jnp.sum(self.below < probability[..., None], axis=-1)
        last = self.mass.shape[-1] - 1
        if self.centre is None:
            return self._at(self.outcomes, jnp.minimum(reached, last))
        cell = jnp.clip(reached - 1, 0, last - 1)

        def halve(_, ends):
            low, high = ends
            middle = 0.5 * (low + high)
            beyond = self._within(cell, middle) >= probability
            return jnp.where(beyond, low, middle), jnp.where(beyond, middle, high)

        zero = jnp.zeros_like(probability)
        share, _ = lax.fori_loop(0, _HALVINGS, halve, (zero, zero + 1.0))
        places = self._places()
        place = self._at(places, cell) + share * (places[..., 1] - places[..., 0])
        return self.centre + self.scale * jnp.sinh(place)  # pyright: ignore[reportOptionalOperand]

    def _expectation(self, values: Float[Array, "... G"]) -> Values:
        if self.centre is None:
            return jnp.sum(self.mass * values, axis=-1)
        return jnp.sum(_cells(self.mass * values), axis=-1)

    def _converges(self, power: int) -> Array:
        """Return whether the ends of the grid hardly add to an absolute moment.

        An end with some density is that of the domain, and no tail.
        """
        if self.centre is None:
            return jnp.ones(self.mass.shape[:-1], bool)
        parts = self.mass * jnp.abs(self.outcomes - jnp.asarray(self.centre)[..., None]) ** power
        ends = jnp.stack([parts[..., :_END], parts[..., -_END:]])
        shares = jnp.sum(ends, axis=-1) / jnp.sum(parts, axis=-1)
        density = jnp.stack([self.mass[..., 0], self.mass[..., -1]])
        is_tail = density < _TAIL_DENSITY * jnp.max(self.mass, axis=-1)
        return jnp.all(~is_tail | (shares < _END_SHARE), axis=0)

    def _places(self) -> Float[Array, "... G"]:
        centre, scale = jnp.asarray(self.centre), jnp.asarray(self.scale)
        return jnp.arcsinh((self.outcomes - centre[..., None]) / scale[..., None])

    def _within(self, cell: Array, share: Values) -> Values:
        """Interpolate the cdf inside a cell by a cubic, from values and slopes at both ends."""
        low, high = self._at(self.below, cell), self._at(self.below, cell + 1)
        rise, slope = self._at(self.mass, cell), self._at(self.mass, cell + 1)
        mean, rest = high - low, 1 - share
        bend = share * rest * ((rise - mean) * rest + (mean - slope) * share)
        return low + share * mean + bend

    @staticmethod
    def _at(values: Float[Array, "... G"], index: Array) -> Values:
        return jnp.take_along_axis(values, index[..., None], axis=-1)[..., 0]


@jit_once
def outcome_grid(
    likelihood: "AbstractLikelihood",
    mean: Values,
    variance: Values | None,
    lowest: float | None,
) -> OutcomeGrid:
    """Find the outcomes with non-negligible probability, and their distribution.

    Args:
        likelihood: any likelihood.
        mean: means of the scores.
        variance: variances of the scores; `None` if the scores are known.
        lowest: the lowest possible outcome, or `None`.
    """
    likelihood = resolve(likelihood, mean.dtype)
    if likelihood.levels:
        mass = likelihood.probabilities(mean, 0.0 if variance is None else variance)
        levels = jnp.broadcast_to(jnp.asarray(likelihood.levels, mean.dtype), mass.shape)
        return OutcomeGrid(levels, mass, jnp.cumsum(mass, axis=-1))

    def log_density(outcome: Array) -> Array:
        if variance is None:
            found = likelihood.log_prob(outcome, mean[..., None])
        else:
            found = likelihood.predictive_log_prob(outcome, mean[..., None], variance[..., None])
        return jnp.where(jnp.isnan(found), -jnp.inf, found)

    limit = -jnp.inf if lowest is None else lowest
    whole = likelihood.is_discrete
    # Start from the most probable of many outcomes around zero and around the score.
    far = jnp.asarray(np.sinh(np.linspace(-14.0, 14.0, 225)), mean.dtype)
    tried = jnp.stack([jnp.broadcast_to(far, (*mean.shape, 225)), mean[..., None] + far], axis=-1)
    tried = tried.reshape(*mean.shape, -1)
    tried = jnp.maximum(jnp.round(tried) if whole else tried, limit)
    heights = likelihood.log_prob(tried, jnp.broadcast_to(mean[..., None], tried.shape))
    best = jnp.argmax(jnp.where(jnp.isnan(heights), -jnp.inf, heights), axis=-1)
    centre = OutcomeGrid._at(tried, best)
    # Find the extent of the density on each side, in powers of two.
    steps = jnp.asarray(2.0 ** np.arange(0 if whole else -20, 31), mean.dtype)
    around = log_density(centre[..., None] + jnp.concatenate([-steps, 0 * steps[:1], steps]))
    height = around[..., len(steps)]
    sides = [around[..., : len(steps)], around[..., len(steps) + 1 :]]
    falls = height[..., None, None] - jnp.stack(sides, axis=-2)

    def extents(drop: float) -> tuple[Array, Array]:
        low = falls > drop
        found = jnp.where(jnp.any(low, axis=-1), steps[jnp.argmax(low, axis=-1)], steps[-1])
        return found[..., 0], found[..., 1]

    left, right = extents(_NEGLIGIBLE)
    left = jnp.minimum(left, centre - limit)
    if whole:
        start = jnp.maximum(centre - jnp.minimum(left, _POINTS // 2), limit)
        outcomes = start[..., None] + jnp.arange(_POINTS, dtype=mean.dtype)
        density = jnp.exp(log_density(outcomes))
        mass = density / jnp.sum(density, axis=-1, keepdims=True)
        return OutcomeGrid(outcomes, mass, jnp.cumsum(mass, axis=-1))
    scale = jnp.minimum(*extents(0.5))
    first, last = -jnp.arcsinh(left / scale), jnp.arcsinh(right / scale)
    share = jnp.linspace(0.0, 1.0, _POINTS, dtype=mean.dtype)
    places = first[..., None] + (last - first)[..., None] * share
    outcomes = centre[..., None] + scale[..., None] * jnp.sinh(places)
    density = jnp.exp(log_density(outcomes) - height[..., None]) * jnp.cosh(places)
    cells = _cells(density)
    total = jnp.sum(cells, axis=-1, keepdims=True)
    below = jnp.cumsum(cells, axis=-1) / total
    below = jnp.concatenate([jnp.zeros_like(total), below], axis=-1)
    return OutcomeGrid(outcomes, density / total, below, centre, scale)


def _cells(values: Float[Array, "... G"]) -> Float[Array, "... cells"]:
    """Integrate between neighbouring points at unit distance, to fourth order."""
    slopes = jnp.asarray(jnp.gradient(values, axis=-1))
    return 0.5 * (values[..., :-1] + values[..., 1:]) + (slopes[..., :-1] - slopes[..., 1:]) / 12.0


def _prepared(
    likelihood: "AbstractLikelihood", outcome: Values
) -> tuple["AbstractLikelihood", "AbstractLikelihood", Values]:
    """Return the likelihood in the type of the outcome, and both without derivatives."""
    ready = _map_floats(lambda leaf: leaf.astype(outcome.dtype), resolve(likelihood))
    return ready, _map_floats(lax.stop_gradient, ready), lax.stop_gradient(outcome)


def _map_floats(function: Callable, tree: Tree) -> Tree:
    return jax.tree.map(lambda leaf: function(leaf) if eqx.is_inexact_array(leaf) else leaf, tree)
