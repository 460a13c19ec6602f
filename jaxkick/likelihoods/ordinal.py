"""Binary and ordinal outcomes: win or loss, with or without ties, or more ordered levels."""

from collections.abc import Callable
from typing import Any, NamedTuple, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import ArrayLike

from jaxkick._math import (
    Anchor,
    Derivatives,
    Local,
    log_interval,
    logistic,
    logistic_log_mean,
    normal_tail,
)
from jaxkick._typing import Array, Bool, Float, Key, Values
from jaxkick.likelihoods.integrals import align, log_partition_by_quadrature
from jaxkick.likelihoods.likelihood import AbstractLikelihood, Weight
from jaxkick.parameters import AbstractParameter, Converter, Fixed, named, ordered, positive

__all__ = ["Logit", "OrdinalLogit", "OrdinalProbit", "Probit"]

# A smaller margin makes ties practically impossible.
_NO_MARGIN = 1e-3
# The range of scores over which the slope of a log-likelihood changes, for a weight of one.
_NORMAL_BEND = 2.0
_LOGISTIC_BEND = 3.0
# `from_outcomes` puts differences that are rarer than this into the outer levels.
_RARE = 0.02


class _AbstractBinary(AbstractLikelihood):
    """Two outcomes: +1 if the first side wins, −1 if the second does."""

    @property
    def levels(self) -> tuple[float, ...]:
        return (-1.0, 1.0)

    @property
    def domain(self) -> str:
        return f"+1 (first wins) or -1 (second wins); ties need Ordinal{type(self).__name__}"


class Probit(_AbstractBinary):
    """The probit likelihood: P(first wins) = Φ(f), with Φ the standard normal cdf.

    Outcomes are +1 if the first side wins and −1 if the second side wins. Expectation propagation
    has a closed form for weights of one.
    """

    def log_prob(self, outcome: Values, score: Values) -> Values:
        return normal_tail(outcome * score).log_cdf

    def log_partition(
        self, outcome: ArrayLike, mean: ArrayLike, variance: ArrayLike, weight: Weight = None
    ) -> Derivatives:
        if weight is not None:
            return log_partition_by_quadrature(self, outcome, mean, variance, weight)
        mean, variance, outcome = align(mean, variance, outcome)
        scale = outcome * lax.rsqrt(1 + variance)
        tail = normal_tail(mean * scale)
        second = -tail.hazard * tail.excess * scale * scale
        return Derivatives(tail.log_cdf, tail.hazard * scale, second)

    def local(self, outcome: Values) -> Callable[[Array], Local]:
        def at(score):
            tail = normal_tail(outcome * score)
            return Local(tail.log_cdf, outcome * tail.hazard, -tail.hazard * tail.excess)

        return at

    def anchor(self, outcome: Values, weight: Values | float) -> Anchor:
        return Anchor(jnp.zeros_like(outcome), _bend_scale(_NORMAL_BEND, outcome, weight))

    def sample(self, key: Key[Array, ""], score: Values) -> Values:
        return _sign(score + jax.random.normal(key, score.shape, score.dtype))


class Logit(_AbstractBinary):
    """The logit likelihood of Bradley–Terry: P(first wins) = 1 / (1 + exp(−f)).

    Outcomes are +1 if the first side wins and −1 if the second side wins. Expectation propagation
    has a closed form for weights of one, accurate to eight digits.
    """

    def log_prob(self, outcome: Values, score: Values) -> Values:
        return jax.nn.log_sigmoid(outcome * score)

    def log_partition(
        self, outcome: ArrayLike, mean: ArrayLike, variance: ArrayLike, weight: Weight = None
    ) -> Derivatives:
        if weight is not None:
            return log_partition_by_quadrature(self, outcome, mean, variance, weight)
        mean, variance, outcome = align(mean, variance, outcome)
        value, first, second = logistic_log_mean(outcome * mean, variance)
        return Derivatives(value, outcome * first, second)

    def local(self, outcome: Values) -> Callable[[Array], Local]:
        def at(score):
            part = logistic(outcome * score)
            return Local(part.exponent, outcome * part.loss, -part.win * part.loss, part.factor)

        return at

    def anchor(self, outcome: Values, weight: Values | float) -> Anchor:
        return Anchor(jnp.zeros_like(outcome), _bend_scale(_LOGISTIC_BEND, outcome, weight))

    def sample(self, key: Key[Array, ""], score: Values) -> Values:
        return _sign(score + jax.random.logistic(key, score.shape, score.dtype))


class Bounds(NamedTuple):
    """The interval of score plus noise for an outcome.

    If the interval has no lower or upper end, a number at distance one from the other end takes
    its place.
    """

    lower: Values
    upper: Values
    width: Values
    has_lower: Bool[Array, "..."]
    has_upper: Bool[Array, "..."]

    @property
    def bounded(self) -> Bool[Array, "..."]:
        return self.has_lower & self.has_upper


def bounds_by_margin(outcome: Values, margin: Values) -> Bounds:
    """Return the interval of a loss (−1), a tie (0) or a win (+1)."""
    has_lower, has_upper = outcome > -0.5, outcome < 0.5
    tie = has_lower & has_upper
    lower = jnp.where(tie, -margin, jnp.where(has_lower, margin, -margin - 1))
    upper = jnp.where(tie, margin, jnp.where(has_upper, -margin, margin + 1))
    return Bounds(lower, upper, jnp.where(tie, 2 * margin, 1.0), has_lower, has_upper)


def _optional(name: str, convert: Converter) -> Callable[[Any], AbstractParameter | None]:
    return lambda value: None if value is None else named(name, convert)(value)


class _AbstractOrdinal(AbstractLikelihood):
    """Ordinal outcomes, determined by the thresholds between which score plus noise lies."""

    margin: AbstractParameter | None = eqx.field(
        default=None, converter=_optional("margin", positive)
    )
    cuts: AbstractParameter | None = eqx.field(default=None, converter=_optional("cuts", ordered))

    def __check_init__(self):
        if (self.margin is None) == (self.cuts is None):
            raise ValueError(
                f"{type(self).__name__} needs either `margin` (loss, tie, win) or `cuts` "
                "(thresholds between levels). Pass exactly one of them."
            )
        if self.margin is not None and (self.margin.value.ndim > 1 or not self.margin.value.size):
            raise ValueError("`margin` must be a number or a one-dimensional array of them.")

    @property
    def levels(self) -> tuple[float, ...]:
        if self.cuts is None:
            return tuple(map(float, range(-self._largest, self._largest + 1)))
        return tuple(map(float, range(self.cuts.value.shape[-1] + 1)))

    @property
    def domain(self) -> str:
        if self.cuts is not None:
            return (
                f"a whole number from 0 to {len(self.levels) - 1}; differences of either sign need "
                "`margin` in place of `cuts`"
            )
        if self._has_differences:
            return "a whole number, positive if the first side wins"
        return "+1 (first wins), 0 (tie) or -1 (second wins)"

    def check(self, outcome: np.ndarray) -> np.ndarray:
        if not self._has_differences:
            return super().check(outcome)
        return ~np.isfinite(outcome) | (outcome != np.round(outcome))

    @property
    def _has_differences(self) -> bool:
        return self.margin is not None and self.margin.value.ndim == 1

    @property
    def _largest(self) -> int:
        """The highest level under a margin."""
        return self.margin.value.size

    @property
    def has_free_level(self) -> bool:
        return self.cuts is not None and not isinstance(self.cuts, Fixed)

    def describe(self) -> str:
        if self.cuts is None:
            return super().describe()
        cuts = ", ".join(f"{cut:.3g}" for cut in np.asarray(self.cuts.value))
        return f"{len(self.levels)} ordered outcomes with cuts at {cuts} ({type(self).__name__})"

    def warnings(self) -> tuple[tuple[str, str], ...]:
        margin = _NO_MARGIN if self.margin is None else float(np.ravel(self.margin.value)[0])
        return margin_warnings(margin)

    @classmethod
    def from_outcomes(cls, outcome: np.ndarray) -> Self:
        levels, counts = np.unique(outcome, return_counts=True)
        if set(levels.tolist()) <= {-1.0, 0.0, 1.0}:
            return cls(margin=0.5)
        if levels[0] < 0:
            largest = max(2, int(np.quantile(np.abs(outcome), 1.0 - _RARE)))
            size = np.minimum(np.abs(outcome).astype(int), largest)
            counts = np.bincount(size, minlength=largest + 1) + 0.5
            below = 0.5 + 0.5 * np.cumsum(counts)[:-1] / np.sum(counts)
            return cls(margin=np.diff(np.log(below / (1.0 - below)), prepend=0.0))
        # Thresholds that reproduce the frequencies for a score of zero.
        counts = np.bincount(levels.astype(int), counts, int(levels.max()) + 1)
        below = np.cumsum(counts + 0.5)[:-1] / np.sum(counts + 0.5)
        return cls(cuts=np.log(below / (1.0 - below)))

    def log_prob(self, outcome: Values, score: Values) -> Values:
        return self.local(outcome)(score).log_prob + self.constant(outcome)

    def _anchor(self, outcome: Values, weight: Values | float, bend: float) -> Anchor:
        bounds = self._bounds(outcome)
        lower = jnp.where(bounds.has_lower, bounds.lower, bounds.upper)
        upper = jnp.where(bounds.has_upper, bounds.upper, bounds.lower)
        scale = _bend_scale(bend, lower, weight)
        return Anchor(0.5 * (lower + upper), scale, 0.5 * (upper - lower))

    def _bounds(self, outcome: Values) -> Bounds:
        if self.margin is not None and not self._has_differences:
            return bounds_by_margin(outcome, self.margin.value.astype(outcome.dtype))
        cuts, level = self._thresholds(outcome.dtype), jnp.round(outcome).astype(jnp.int32)
        if self.margin is not None:
            level = jnp.clip(level, -self._largest, self._largest) + self._largest
        has_lower, has_upper = level > 0, level < cuts.shape[-1]
        lower = cuts[jnp.where(has_lower, level - 1, 0)]
        upper = cuts[jnp.where(has_upper, level, cuts.shape[-1] - 1)]
        lower = jnp.where(has_lower, lower, upper - 1)
        upper = jnp.where(has_upper, upper, lower + 1)
        width = jnp.where(has_lower & has_upper, upper - lower, 1.0)
        return Bounds(lower, upper, width, has_lower, has_upper)

    def _thresholds(self, dtype: jnp.dtype) -> Float[Array, " cuts"]:
        """The thresholds between all levels."""
        if self.cuts is not None:
            return self.cuts.value.astype(dtype)
        above = jnp.cumsum(jnp.atleast_1d(self.margin.value.astype(dtype)))
        return jnp.concatenate([-above[::-1], above])

    def _level_of(self, latent: Values) -> Values:
        """Return the outcome for a value of score plus noise."""
        levels = jnp.asarray(self.levels, latent.dtype)
        return levels[jnp.searchsorted(self._thresholds(latent.dtype), latent, side="right")]


class OrdinalProbit(_AbstractOrdinal):
    """Ordinal outcomes with normal noise.

    With `margin`, outcomes are +1 (win), 0 (tie) and −1 (loss): P(win) = Φ(f − margin),
    P(loss) = Φ(−f − margin). With `cuts`, outcomes are 0, …, number of cuts:
    P(outcome ≥ k) = Φ(f − cut_k). Pass one of the two. Expectation propagation has a closed form
    for weights of one.

    Attributes:
        margin: half the width of the range of score plus noise that is a tie; positive. Or k
            numbers for differences −k, …, k, whose signs are the results: half the width of the
            range of ties, then the widths of the ranges of differences of 1, 2, …; differences
            beyond ±k count as ±k.
        cuts: the thresholds between levels; strictly increasing, of shape (levels − 1,).
    """

    def log_partition(
        self, outcome: ArrayLike, mean: ArrayLike, variance: ArrayLike, weight: Weight = None
    ) -> Derivatives:
        if weight is not None:
            return log_partition_by_quadrature(self, outcome, mean, variance, weight)
        mean, variance, outcome = align(mean, variance, outcome)
        return normal_between(self._bounds(outcome), mean, lax.rsqrt(1 + variance))

    def local(self, outcome: Values) -> Callable[[Array], Local]:
        bounds = self._bounds(outcome)
        return lambda score: Local(*normal_between(bounds, score, jnp.ones_like(score)))

    def anchor(self, outcome: Values, weight: Values | float) -> Anchor:
        return self._anchor(outcome, weight, _NORMAL_BEND)

    def sample(self, key: Key[Array, ""], score: Values) -> Values:
        return self._level_of(score + jax.random.normal(key, score.shape, score.dtype))


class OrdinalLogit(_AbstractOrdinal):
    """Ordinal outcomes with logistic noise.

    With `margin`, outcomes are +1 (win), 0 (tie) and −1 (loss): P(win) = σ(f − margin),
    P(loss) = σ(−f − margin) with σ(x) = 1 / (1 + exp(−x)). With `cuts`, outcomes are 0, …, number
    of cuts: P(outcome ≥ k) = σ(f − cut_k). Pass one of the two.

    Attributes:
        margin: half the width of the range of score plus noise that is a tie; positive. Or k
            numbers for differences −k, …, k, whose signs are the results: half the width of the
            range of ties, then the widths of the ranges of differences of 1, 2, …; differences
            beyond ±k count as ±k.
        cuts: the thresholds between levels; strictly increasing, of shape (levels − 1,).
    """

    def local(self, outcome: Values) -> Callable[[Array], Local]:
        # σ(a) − σ(b) = σ(a) σ(−b) (1 − exp(b − a)), so the two thresholds are two factors.
        bounds = self._bounds(outcome)
        has_lower = bounds.has_lower.astype(outcome.dtype)
        has_upper = bounds.has_upper.astype(outcome.dtype)

        def at(score):
            above, below = logistic(score - bounds.lower), logistic(bounds.upper - score)
            return Local(
                has_lower * above.exponent + has_upper * below.exponent,
                has_lower * above.loss - has_upper * below.loss,
                -has_lower * above.win * above.loss - has_upper * below.win * below.loss,
                jnp.where(bounds.has_lower, above.factor, 1.0)
                * jnp.where(bounds.has_upper, below.factor, 1.0),
            )

        return at

    def constant(self, outcome: Values) -> Values:
        bounds = self._bounds(outcome)
        return jnp.where(bounds.bounded, jnp.log(-jnp.expm1(-bounds.width)), 0.0)

    def anchor(self, outcome: Values, weight: Values | float) -> Anchor:
        return self._anchor(outcome, weight, _LOGISTIC_BEND)

    def sample(self, key: Key[Array, ""], score: Values) -> Values:
        return self._level_of(score + jax.random.logistic(key, score.shape, score.dtype))


def margin_warnings(margin: float) -> tuple[tuple[str, str], ...]:
    """Warn of a margin that makes ties practically impossible."""
    if margin >= _NO_MARGIN:
        return ()
    text = (
        f"The margin is {margin:.2g}, so ties are practically impossible. "
        "If the data has no ties, use a likelihood without them."
    )
    return (("margin", text),)


def _bend_scale(bend: float, like: Values, weight: Values | float) -> Values:
    return bend * lax.rsqrt(jnp.maximum(jnp.zeros_like(like) + weight, 1.0))


def _sign(latent: Values) -> Values:
    return jnp.where(latent >= 0, jnp.ones_like(latent), -1.0)


def normal_between(bounds: Bounds, mean: Values, inverse_scale: Values) -> Derivatives:
    """Compute log P(lower < f + noise < upper) and its derivatives in the mean of f."""
    # Measure from the threshold for which the interval extends into the lower tail.
    from_lower = bounds.has_lower & (~bounds.has_upper | (mean < bounds.lower + 0.5 * bounds.width))
    near = jnp.where(from_lower, mean - bounds.lower, bounds.upper - mean) * inverse_scale
    value, first, second = log_interval(near, bounds.width * inverse_scale, bounds.bounded)
    sign = jnp.where(from_lower, inverse_scale, -inverse_scale)
    return Derivatives(value, sign * first, inverse_scale**2 * second)
