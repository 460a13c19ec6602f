"""Kernels that know where in time they are: pieces, Brownian motion, trends."""

from collections.abc import Iterable

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from jaxkick._parameters import AbstractParameter, named, nonnegative, positive
from jaxkick._smallmat import AbstractMatrix, column, identity, matrix, zeros
from jaxkick._typing import Array, Bool, Int, Scalar
from jaxkick.kernels.base import AbstractKernel
from jaxkick.kernels.time import FIRST, Instant, Interval, Origin, as_origin

__all__ = ["Affine", "Linear", "PiecewiseConstant", "Wiener"]


class PiecewiseConstant(AbstractKernel):
    """A score that is constant between boundaries and drawn afresh at each of them.

    k(t, u) = variance if no boundary lies between t and u, else 0. A boundary belongs to
    the piece that it begins.
    """

    variance: AbstractParameter = eqx.field(converter=named("variance", positive))
    boundaries: tuple[float, ...] = eqx.field(static=True)

    def __init__(self, variance: float | AbstractParameter, boundaries: Iterable[float]):
        """A fresh constant after each boundary.

        Args:
            variance: the variance of the score.
            boundaries: times in the data's unit, in any order.

        Raises:
            ValueError: if a boundary is not finite.
        """
        self.variance = named("variance", positive)(variance)
        self.boundaries = tuple(sorted(float(boundary) for boundary in boundaries))
        if not np.all(np.isfinite(self.boundaries)):
            raise ValueError(f"`boundaries` must be finite numbers, not {self.boundaries}.")

    @property
    def state_dim(self) -> int:
        """The dimension K of the state."""
        return 1

    def measurement(self) -> AbstractMatrix:
        """The column h that reads the score off the state."""
        return column([1.0])

    def state_cov(self, instant: Instant) -> AbstractMatrix:
        """The prior covariance P of the state at an instant."""
        return matrix([[self.variance.value]])

    def transition(self, interval: Interval) -> AbstractMatrix:
        """The transition A over an interval."""
        same = self._together(interval.start, interval.end)
        return matrix([[same.astype(interval.gap.dtype)]])

    def noise_cov(self, interval: Interval) -> AbstractMatrix:
        """The noise covariance Q over an interval."""
        same = self._together(interval.start, interval.end)
        return matrix([[jnp.where(same, 0.0, self.variance.value)]])

    def covariance(self, first: Instant, second: Instant) -> Scalar:
        """The covariance k(t, u) of the scores at two instants."""
        return jnp.where(self._together(first, second), self.variance.value, 0.0)

    def _together(self, first: Instant, second: Instant) -> Bool[Array, ""]:
        return self._piece(first) == self._piece(second)

    def _piece(self, instant: Instant) -> Int[Array, ""]:
        """The number of boundaries that have passed."""
        return jnp.sum(instant.since(np.array(self.boundaries)) >= 0, dtype=jnp.int32)


class Wiener(AbstractKernel):
    """Brownian motion that starts at an origin and stands still before it.

    k(t, u) = variance max(min(t, u) − origin, 0) + origin_variance.
    """

    variance: AbstractParameter = eqx.field(converter=named("variance", positive))
    origin: Origin = eqx.field(default=FIRST, static=True, converter=as_origin)
    origin_variance: AbstractParameter = eqx.field(
        default=0.0, converter=named("origin_variance", nonnegative)
    )

    @property
    def state_dim(self) -> int:
        """The dimension K of the state."""
        return 1

    def measurement(self) -> AbstractMatrix:
        """The column h that reads the score off the state."""
        return column([1.0])

    def state_cov(self, instant: Instant) -> AbstractMatrix:
        """The prior covariance P of the state at an instant."""
        return matrix([[self._variance_after(instant.since(self.origin))]])

    def transition(self, interval: Interval) -> AbstractMatrix:
        """The transition A over an interval."""
        return identity(1)

    def noise_cov(self, interval: Interval) -> AbstractMatrix:
        """The noise covariance Q over an interval."""
        return matrix([[self.variance.value * interval.beyond(self.origin)]])

    def covariance(self, first: Instant, second: Instant) -> Scalar:
        """The covariance k(t, u) of the scores at two instants."""
        earlier = jnp.minimum(first.since(self.origin), second.since(self.origin))
        return self._variance_after(earlier)

    def _variance_after(self, elapsed: Scalar) -> Scalar:
        return self.variance.value * jnp.maximum(elapsed, 0.0) + self.origin_variance.value


class _AbstractLine(AbstractKernel):
    """A straight line; its state is the value and the slope."""

    origin: eqx.AbstractVar[Origin]

    @property
    def state_dim(self) -> int:
        """The dimension K of the state."""
        return 2

    def measurement(self) -> AbstractMatrix:
        """The column h that reads the score off the state."""
        return column([1.0, None])

    def transition(self, interval: Interval) -> AbstractMatrix:
        """The transition A over an interval."""
        return matrix([[1.0, interval.gap], [None, 1.0]])

    def noise_cov(self, interval: Interval) -> AbstractMatrix:
        """The noise covariance Q over an interval."""
        return zeros(2, 2)

    def _slope_cov(self, variance: Scalar, instant: Instant) -> AbstractMatrix:
        """What a slope of this variance adds to the covariance of the state."""
        elapsed = instant.since(self.origin)
        cross = variance * elapsed
        return matrix([[cross * elapsed, cross], [cross, variance]])

    def _slope_covariance(self, variance: Scalar, first: Instant, second: Instant) -> Scalar:
        return variance * (first.since(self.origin) * second.since(self.origin))


class Linear(_AbstractLine):
    """A straight line through zero at its origin: k(t, u) = variance (t − origin)(u − origin)."""

    variance: AbstractParameter = eqx.field(converter=named("variance", positive))
    origin: Origin = eqx.field(default=FIRST, static=True, converter=as_origin)

    def state_cov(self, instant: Instant) -> AbstractMatrix:
        """The prior covariance P of the state at an instant."""
        return self._slope_cov(self.variance.value, instant)

    def covariance(self, first: Instant, second: Instant) -> Scalar:
        """The covariance k(t, u) of the scores at two instants."""
        return self._slope_covariance(self.variance.value, first, second)


class Affine(_AbstractLine):
    """A straight line with an offset at its origin.

    k(t, u) = offset_variance + slope_variance (t − origin)(u − origin).
    """

    offset_variance: AbstractParameter = eqx.field(converter=named("offset_variance", positive))
    slope_variance: AbstractParameter = eqx.field(converter=named("slope_variance", positive))
    origin: Origin = eqx.field(default=FIRST, static=True, converter=as_origin)

    def state_cov(self, instant: Instant) -> AbstractMatrix:
        """The prior covariance P of the state at an instant."""
        offset = matrix([[self.offset_variance.value, None], [None, None]])
        return offset + self._slope_cov(self.slope_variance.value, instant)

    def covariance(self, first: Instant, second: Instant) -> Scalar:
        """The covariance k(t, u) of the scores at two instants."""
        slope = self._slope_covariance(self.slope_variance.value, first, second)
        return self.offset_variance.value + slope
