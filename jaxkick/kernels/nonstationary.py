"""Kernels that know where in time they are: pieces, Brownian motion, trends."""

from collections.abc import Iterable

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from jaxkick._parameters import AbstractParameter, nonnegative, positive
from jaxkick._smallmat import AbstractMatrix, column, identity, matrix, zeros
from jaxkick._typing import Bool, Float, Int, Scalar
from jaxkick.kernels.base import AbstractKernel
from jaxkick.kernels.time import FIRST, Instant, Interval, Origin, as_origin

__all__ = ["Affine", "Linear", "PiecewiseConstant", "Wiener"]


class PiecewiseConstant(AbstractKernel):
    """A score that is constant between boundaries and drawn afresh at each of them.

    k(t, u) = variance if no boundary lies between t and u, else 0. A boundary belongs to
    the piece that it begins.
    """

    variance: AbstractParameter = eqx.field(converter=positive)
    boundaries: tuple[float, ...] = eqx.field(static=True)

    def __init__(self, variance: float | AbstractParameter, boundaries: Iterable[float]):
        """A fresh constant after each boundary.

        Args:
            variance: the variance of the score.
            boundaries: times in the data's unit, in any order.

        Raises:
            ValueError: if a boundary is not finite.
        """
        self.variance = positive(variance)
        self.boundaries = tuple(sorted(float(boundary) for boundary in boundaries))
        if not np.all(np.isfinite(self.boundaries)):
            raise ValueError(f"`boundaries` must be finite numbers, not {self.boundaries}.")

    @property
    def state_dim(self) -> int:
        return 1

    def measurement(self) -> AbstractMatrix:
        return column([1.0])

    def state_cov(self, instant: Instant) -> AbstractMatrix:
        return matrix([[self.variance.value]])

    def transition(self, interval: Interval) -> AbstractMatrix:
        same = self._together(interval.start, interval.end)
        return matrix([[same.astype(interval.gap.dtype)]])

    def noise_cov(self, interval: Interval) -> AbstractMatrix:
        same = self._together(interval.start, interval.end)
        return matrix([[jnp.where(same, 0.0, self.variance.value)]])

    def covariance(self, first: Instant, second: Instant) -> Scalar:
        return jnp.where(self._together(first, second), self.variance.value, 0.0)

    def _together(self, first: Instant, second: Instant) -> Bool[jnp.ndarray, ""]:
        return self._piece(first) == self._piece(second)

    def _piece(self, instant: Instant) -> Int[jnp.ndarray, ""]:
        """The number of boundaries that have passed."""
        return jnp.sum(instant.since(np.array(self.boundaries)) >= 0, dtype=jnp.int32)


class Wiener(AbstractKernel):
    """Brownian motion that starts at an origin and stands still before it.

    k(t, u) = variance max(min(t, u) − origin, 0) + origin_variance.
    """

    variance: AbstractParameter = eqx.field(converter=positive)
    origin: Origin = eqx.field(default=FIRST, static=True, converter=as_origin)
    origin_variance: AbstractParameter = eqx.field(default=0.0, converter=nonnegative)

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


class Linear(AbstractKernel):
    """A straight line through zero at its origin: k(t, u) = variance (t − origin)(u − origin)."""

    variance: AbstractParameter = eqx.field(converter=positive)
    origin: Origin = eqx.field(default=FIRST, static=True, converter=as_origin)

    @property
    def state_dim(self) -> int:
        return 2

    def measurement(self) -> AbstractMatrix:
        return column([1.0, None])

    def state_cov(self, instant: Instant) -> AbstractMatrix:
        return _line_cov(instant.since(self.origin), self.variance.value)

    def transition(self, interval: Interval) -> AbstractMatrix:
        return _line_transition(interval)

    def noise_cov(self, interval: Interval) -> AbstractMatrix:
        return zeros(2, 2)

    def covariance(self, first: Instant, second: Instant) -> Scalar:
        product = first.since(self.origin) * second.since(self.origin)
        return self.variance.value * product


class Affine(AbstractKernel):
    """A straight line with an offset at its origin.

    k(t, u) = offset_variance + slope_variance (t − origin)(u − origin).
    """

    offset_variance: AbstractParameter = eqx.field(converter=positive)
    slope_variance: AbstractParameter = eqx.field(converter=positive)
    origin: Origin = eqx.field(default=FIRST, static=True, converter=as_origin)

    @property
    def state_dim(self) -> int:
        return 2

    def measurement(self) -> AbstractMatrix:
        return column([1.0, None])

    def state_cov(self, instant: Instant) -> AbstractMatrix:
        line = _line_cov(instant.since(self.origin), self.slope_variance.value)
        return line + matrix([[self.offset_variance.value, None], [None, None]])

    def transition(self, interval: Interval) -> AbstractMatrix:
        return _line_transition(interval)

    def noise_cov(self, interval: Interval) -> AbstractMatrix:
        return zeros(2, 2)

    def covariance(self, first: Instant, second: Instant) -> Scalar:
        product = first.since(self.origin) * second.since(self.origin)
        return self.offset_variance.value + self.slope_variance.value * product


def _line_cov(elapsed: Scalar, variance: Float[jnp.ndarray, ""]) -> AbstractMatrix:
    """The covariance of a line's value and slope."""
    cross = variance * elapsed
    return matrix([[cross * elapsed, cross], [cross, variance]])


def _line_transition(interval: Interval) -> AbstractMatrix:
    return matrix([[1.0, interval.gap], [None, 1.0]])
