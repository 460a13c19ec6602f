"""Kernels that depend on absolute time: piecewise constants, Brownian motion, trends."""

from collections.abc import Iterable
from typing import Self

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from jaxkick._math.small_matrices import AbstractMatrix, column, identity, matrix, zeros
from jaxkick._typing import Array, Bool, Int, Scalar
from jaxkick.kernels.base import AbstractKernel, describe_origin, deviation
from jaxkick.kernels.time import FIRST, Instant, Interval, Origin, as_origin
from jaxkick.parameters import AbstractParameter, named, nonnegative, positive

__all__ = ["Affine", "Linear", "PiecewiseConstant", "Wiener"]


class PiecewiseConstant(AbstractKernel):
    """A score that is constant between boundaries, with a new, independent value after each.

    k(t, u) = variance if no boundary lies between t and u, else 0. At the time of a boundary the
    new value applies.
    """

    variance: AbstractParameter = eqx.field(converter=named("variance", positive))
    boundaries: tuple[float, ...] = eqx.field(static=True)

    def __init__(self, variance: float | AbstractParameter, boundaries: Iterable[float]):
        """Set the variance and the boundaries.

        Args:
            variance: the prior variance of the score; positive.
            boundaries: times in the data's unit, in any order. They are not learnt.

        Raises:
            ValueError: if a boundary is not finite.
        """
        self.variance = named("variance", positive)(variance)
        self.boundaries = tuple(sorted(float(boundary) for boundary in boundaries))
        if not np.all(np.isfinite(self.boundaries)):
            raise ValueError(f"`boundaries` must be finite numbers, not {self.boundaries}.")

    def describe(self, unit: str | None = None) -> str:
        count = len(self.boundaries)
        return f"a level with {deviation(self.variance)} that changes at {count:,} boundaries"

    @property
    def state_dim(self) -> int:
        return 1

    def measurement(self) -> AbstractMatrix:
        return column([1.0])

    def state_cov(self, instant: Instant) -> AbstractMatrix:
        return matrix([[self.variance.value]])

    def transition(self, interval: Interval) -> AbstractMatrix:
        same = self._same_piece(interval.start, interval.end)
        return matrix([[same.astype(interval.gap.dtype)]])

    def noise_cov(self, interval: Interval) -> AbstractMatrix:
        same = self._same_piece(interval.start, interval.end)
        return matrix([[jnp.where(same, 0.0, self.variance.value)]])

    def covariance(self, first: Instant, second: Instant) -> Scalar:
        return jnp.where(self._same_piece(first, second), self.variance.value, 0.0)

    def _same_piece(self, first: Instant, second: Instant) -> Bool[Array, ""]:
        return self._piece(first) == self._piece(second)

    def _piece(self, instant: Instant) -> Int[Array, ""]:
        """Count the boundaries at or before an instant."""
        return jnp.sum(instant.since(np.array(self.boundaries)) >= 0, dtype=jnp.int32)


class Wiener(AbstractKernel):
    """Brownian motion from an origin on; constant before it.

    k(t, u) = variance max(min(t, u) − origin, 0) + origin_variance.

    Attributes:
        variance: the variance gained per unit of time; positive.
        origin: a time in the data's unit, or `FIRST` (default), the first match of each feature.
        origin_variance: the variance at the origin; not negative, default 0.
    """

    variance: AbstractParameter = eqx.field(converter=named("variance", positive))
    origin: Origin = eqx.field(default=FIRST, static=True, converter=as_origin)
    origin_variance: AbstractParameter = eqx.field(
        default=0.0, converter=named("origin_variance", nonnegative)
    )

    def describe(self, unit: str | None = None) -> str:
        walk = f"a random walk {describe_origin(self.origin)}"
        return f"{walk} with {deviation(self.variance)} after one {unit or 'unit of time'}"

    @classmethod
    def from_scale(cls, variance: float, span: float) -> Self:
        return cls(variance / span)

    @property
    def state_dim(self) -> int:
        return 1

    def measurement(self) -> AbstractMatrix:
        return column([1.0])

    def state_cov(self, instant: Instant) -> AbstractMatrix:
        return matrix([[self._variance_after(instant.since(self.origin))]])

    def transition(self, interval: Interval) -> AbstractMatrix:
        return identity(1)

    def noise_cov(self, interval: Interval) -> AbstractMatrix:
        return matrix([[self.variance.value * interval.beyond(self.origin)]])

    def covariance(self, first: Instant, second: Instant) -> Scalar:
        earlier = jnp.minimum(first.since(self.origin), second.since(self.origin))
        return self._variance_after(earlier)

    def _variance_after(self, elapsed: Scalar) -> Scalar:
        return self.variance.value * jnp.maximum(elapsed, 0.0) + self.origin_variance.value


class _AbstractLine(AbstractKernel):
    """A straight line; the state is its value and its slope."""

    origin: eqx.AbstractVar[Origin]

    @property
    def state_dim(self) -> int:
        return 2

    def measurement(self) -> AbstractMatrix:
        return column([1.0, None])

    def transition(self, interval: Interval) -> AbstractMatrix:
        return matrix([[1.0, interval.gap], [None, 1.0]])

    def noise_cov(self, interval: Interval) -> AbstractMatrix:
        return zeros(2, 2)

    def _describe_slope(self, variance: AbstractParameter, unit: str | None) -> str:
        per = f"per {unit or 'unit of time'}"
        return f"a linear trend {describe_origin(self.origin)} with {deviation(variance)} {per}"

    def _slope_cov(self, variance: Scalar, instant: Instant) -> AbstractMatrix:
        """Return the covariance of the state due to a slope with this variance."""
        elapsed = instant.since(self.origin)
        cross = variance * elapsed
        return matrix([[cross * elapsed, cross], [cross, variance]])

    def _slope_covariance(self, variance: Scalar, first: Instant, second: Instant) -> Scalar:
        return variance * (first.since(self.origin) * second.since(self.origin))


class Linear(_AbstractLine):
    """A straight line that is zero at its origin: k(t, u) = variance (t − origin)(u − origin).

    Attributes:
        variance: the prior variance of the slope per unit of time; positive.
        origin: a time in the data's unit, or `FIRST` (default), the first match of each feature.
    """

    variance: AbstractParameter = eqx.field(converter=named("variance", positive))
    origin: Origin = eqx.field(default=FIRST, static=True, converter=as_origin)

    def describe(self, unit: str | None = None) -> str:
        return self._describe_slope(self.variance, unit)

    @classmethod
    def from_scale(cls, variance: float, span: float) -> Self:
        return cls(variance / span**2)  # pyright: ignore[reportCallIssue]

    def state_cov(self, instant: Instant) -> AbstractMatrix:
        return self._slope_cov(self.variance.value, instant)

    def covariance(self, first: Instant, second: Instant) -> Scalar:
        return self._slope_covariance(self.variance.value, first, second)


class Affine(_AbstractLine):
    """A straight line with an offset at its origin.

    k(t, u) = offset_variance + slope_variance (t − origin)(u − origin).

    Attributes:
        offset_variance: the prior variance of the score at the origin; positive.
        slope_variance: the prior variance of the slope per unit of time; positive.
        origin: a time in the data's unit, or `FIRST` (default), the first match of each feature.
    """

    offset_variance: AbstractParameter = eqx.field(converter=named("offset_variance", positive))
    slope_variance: AbstractParameter = eqx.field(converter=named("slope_variance", positive))
    origin: Origin = eqx.field(default=FIRST, static=True, converter=as_origin)

    def describe(self, unit: str | None = None) -> str:
        slope = self._describe_slope(self.slope_variance, unit)
        return f"a level with {deviation(self.offset_variance)} and {slope}"

    @classmethod
    def from_scale(cls, variance: float, span: float) -> Self:
        return cls(0.5 * variance, 0.5 * variance / span**2)  # pyright: ignore[reportCallIssue]

    def state_cov(self, instant: Instant) -> AbstractMatrix:
        offset = matrix([[self.offset_variance.value, None], [None, None]])
        return offset + self._slope_cov(self.slope_variance.value, instant)

    def covariance(self, first: Instant, second: Instant) -> Scalar:
        slope = self._slope_covariance(self.slope_variance.value, first, second)
        return self.offset_variance.value + slope
