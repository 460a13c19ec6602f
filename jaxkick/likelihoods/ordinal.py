"""Outcomes with an order: loss, tie and win, or any number of levels."""

import abc
from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import ArrayLike

from jaxkick._numerics import Anchor, Derivatives, Local, log_interval, logistic
from jaxkick._parameters import AbstractParameter, named, ordered, positive
from jaxkick._typing import Array, Bool, Float, Key
from jaxkick.likelihoods.base import AbstractLikelihood
from jaxkick.likelihoods.integrals import align, log_partition_by_quadrature

__all__ = ["OrdinalLogit", "OrdinalProbit"]


class _Bounds(NamedTuple):
    """The interval of score + noise that belongs to an outcome.

    An end that the interval does not have is filled with a number one away from the other.
    """

    lower: Float[Array, "..."]
    upper: Float[Array, "..."]
    width: Float[Array, "..."]
    has_lower: Bool[Array, "..."]
    has_upper: Bool[Array, "..."]

    @property
    def bounded(self) -> Bool[Array, "..."]:
        return self.has_lower & self.has_upper


class _AbstractOrdinal(AbstractLikelihood):
    """An ordered outcome says between which thresholds the score plus noise lies."""

    margin: eqx.AbstractVar[AbstractParameter | None]
    cuts: eqx.AbstractVar[AbstractParameter | None]

    @property
    def levels(self) -> tuple[float, ...]:
        if self.cuts is None:
            return (-1.0, 0.0, 1.0)
        return tuple(float(level) for level in range(self.cuts.value.shape[-1] + 1))

    @property
    def domain(self) -> str:
        if self.cuts is None:
            return "+1 (first wins), 0 (tie) or -1 (second wins)"
        return f"a whole number from 0 to {len(self.levels) - 1}"

    def check(self, outcome: np.ndarray) -> np.ndarray:
        return ~np.isin(outcome, self.levels)

    def log_prob(
        self, outcome: Float[Array, "..."], score: Float[Array, "..."]
    ) -> Float[Array, "..."]:
        return self.local(outcome)(score).log_prob + self.constant(outcome)

    def anchor(self, outcome: Float[Array, "..."], weight: Float[Array, "..."] | float) -> Anchor:
        bounds = self._bounds(outcome)
        lower = jnp.where(bounds.has_lower, bounds.lower, bounds.upper)
        upper = jnp.where(bounds.has_upper, bounds.upper, bounds.lower)
        scale = self._bend_scale * lax.rsqrt(jnp.maximum(jnp.zeros_like(lower) + weight, 1.0))
        return Anchor(0.5 * (lower + upper), scale, 0.5 * (upper - lower))

    @property
    @abc.abstractmethod
    def _bend_scale(self) -> float:
        """The range of the score over which the likelihood bends, for a weight of one."""

    def _bounds(self, outcome: Float[Array, "..."]) -> _Bounds:
        if self.cuts is None:
            return self._bounds_by_margin(outcome)
        cuts = self.cuts.value.astype(outcome.dtype)
        level = jnp.round(outcome).astype(jnp.int32)
        has_lower, has_upper = level > 0, level < cuts.shape[-1]
        lower = cuts[jnp.where(has_lower, level - 1, 0)]
        upper = cuts[jnp.where(has_upper, level, cuts.shape[-1] - 1)]
        lower = jnp.where(has_lower, lower, upper - 1)
        upper = jnp.where(has_upper, upper, lower + 1)
        width = jnp.where(has_lower & has_upper, upper - lower, 1.0)
        return _Bounds(lower, upper, width, has_lower, has_upper)

    def _bounds_by_margin(self, outcome: Float[Array, "..."]) -> _Bounds:
        margin = self.margin.value.astype(outcome.dtype)
        has_lower, has_upper = outcome > -0.5, outcome < 0.5
        tie = has_lower & has_upper
        lower = jnp.where(tie, -margin, jnp.where(has_lower, margin, -margin - 1))
        upper = jnp.where(tie, margin, jnp.where(has_upper, -margin, margin + 1))
        return _Bounds(lower, upper, jnp.where(tie, 2 * margin, 1.0), has_lower, has_upper)

    def _level_of(self, latent: Float[Array, "..."]) -> Float[Array, "..."]:
        """The outcome to which a score plus noise belongs."""
        if self.cuts is None:
            margin = self.margin.value.astype(latent.dtype)
            return jnp.sign(latent) * (jnp.abs(latent) >= margin).astype(latent.dtype)
        cuts = self.cuts.value.astype(latent.dtype)
        return jnp.searchsorted(cuts, latent, side="right").astype(latent.dtype)


class OrdinalProbit(_AbstractOrdinal):
    """Ordered outcomes with normal noise.

    With a `margin`: P(win) = Φ(f − margin), P(loss) = Φ(−f − margin), a tie otherwise;
    outcomes +1, 0, −1. With `cuts`: P(outcome ≥ k) = Φ(f − cut_k); outcomes 0 … number of
    cuts. Expectation propagation has its moments in closed form, for weights of one.
    """

    margin: AbstractParameter | None
    cuts: AbstractParameter | None

    def __init__(
        self,
        margin: ArrayLike | AbstractParameter | None = None,
        cuts: ArrayLike | AbstractParameter | None = None,
    ):
        """Set either the margin or the cuts.

        Args:
            margin: half the range of score plus noise that makes a tie, above zero.
            cuts: thresholds between the levels, strictly increasing.

        Raises:
            ValueError: if both or neither are given, or if they are not possible.
        """
        self.margin, self.cuts = _margin_or_cuts(type(self).__name__, margin, cuts)

    def log_partition(
        self,
        outcome: ArrayLike,
        mean: ArrayLike,
        variance: ArrayLike,
        weight: ArrayLike | None = None,
    ) -> Derivatives:
        if weight is not None:
            return log_partition_by_quadrature(self, outcome, mean, variance, weight)
        mean, variance, outcome = align(mean, variance, outcome)
        return _normal_between(self._bounds(outcome), mean, lax.rsqrt(1 + variance))

    def local(self, outcome: Float[Array, "..."]) -> Callable[[Array], Local]:
        bounds = self._bounds(outcome)
        return lambda score: Local(*_normal_between(bounds, score, jnp.ones_like(score)))

    @property
    def _bend_scale(self) -> float:
        return 2.0

    def sample(self, key: Key[Array, ""], score: Float[Array, "..."]) -> Float[Array, "..."]:
        return self._level_of(score + jax.random.normal(key, score.shape, score.dtype))


class OrdinalLogit(_AbstractOrdinal):
    """Ordered outcomes with logistic noise.

    With a `margin`: P(win) = σ(f − margin), P(loss) = σ(−f − margin), a tie otherwise, where
    σ(x) = 1 / (1 + exp(−x)); outcomes +1, 0, −1. With `cuts`: P(outcome ≥ k) = σ(f − cut_k);
    outcomes 0 … number of cuts.
    """

    margin: AbstractParameter | None
    cuts: AbstractParameter | None

    def __init__(
        self,
        margin: ArrayLike | AbstractParameter | None = None,
        cuts: ArrayLike | AbstractParameter | None = None,
    ):
        """Set either the margin or the cuts.

        Args:
            margin: half the range of score plus noise that makes a tie, above zero.
            cuts: thresholds between the levels, strictly increasing.

        Raises:
            ValueError: if both or neither are given, or if they are not possible.
        """
        self.margin, self.cuts = _margin_or_cuts(type(self).__name__, margin, cuts)

    def local(self, outcome: Float[Array, "..."]) -> Callable[[Array], Local]:
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

    def constant(self, outcome: Float[Array, "..."]) -> Float[Array, "..."]:
        bounds = self._bounds(outcome)
        return jnp.where(bounds.bounded, jnp.log(-jnp.expm1(-bounds.width)), 0.0)

    @property
    def _bend_scale(self) -> float:
        return 3.0

    def sample(self, key: Key[Array, ""], score: Float[Array, "..."]) -> Float[Array, "..."]:
        return self._level_of(score + jax.random.logistic(key, score.shape, score.dtype))


def _normal_between(
    bounds: _Bounds, mean: Float[Array, "..."], inverse_scale: Float[Array, "..."]
) -> Derivatives:
    """log P(lower < f + noise < upper) and its derivatives in the mean of f."""
    # Measured from the threshold that leaves the rest of the interval in the lower tail.
    from_lower = bounds.has_lower & (~bounds.has_upper | (mean < bounds.lower + 0.5 * bounds.width))
    near = jnp.where(from_lower, mean - bounds.lower, bounds.upper - mean) * inverse_scale
    value, first, second = log_interval(near, bounds.width * inverse_scale, bounds.bounded)
    sign = jnp.where(from_lower, inverse_scale, -inverse_scale)
    return Derivatives(value, sign * first, inverse_scale**2 * second)


def _margin_or_cuts(name: str, margin, cuts):
    if (margin is None) == (cuts is None):
        raise ValueError(
            f"{name} needs either `margin` (loss, tie, win) or `cuts` (thresholds between more "
            "levels), not both and not neither."
        )
    if cuts is None:
        return named("margin", positive)(margin), None
    return None, named("cuts", ordered)(cuts)
