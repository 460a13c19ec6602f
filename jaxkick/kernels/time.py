"""Instants and intervals: the times at which kernels are evaluated.

The host computes differences of times in float64, so that float32 is accurate. An instant stores
the time since the data's epoch and since the first match of its feature. An interval stores its
length in addition to its ends.
"""

import enum
import math
import numbers
from typing import Final, TypeAlias

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import ArrayLike

from jaxkick._typing import Array, Float
from jaxkick.errors import DataError

__all__ = ["FIRST", "Epoch", "Instant", "Interval", "Origin", "as_origin"]


class _Origin(enum.Enum):
    FIRST = "first"

    def __repr__(self) -> str:
        return self.name


FIRST: Final = _Origin.FIRST
"""The first match of each feature, as the origin of a non-stationary kernel."""

Origin: TypeAlias = float | _Origin


def as_origin(value: Origin) -> Origin:
    """Convert a field to a finite number in the data's unit, or `FIRST`.

    Args:
        value: the origin.

    Raises:
        DataError: if it is neither.
    """
    if value is FIRST:
        return FIRST
    if isinstance(value, numbers.Real) and math.isfinite(value):
        return float(value)
    raise DataError(
        "{argument} is {value}, but must be a finite number or `FIRST`",
        argument="origin",
        value=value,
    )


class Epoch(eqx.Module):
    """A time in the user's unit as a sum of two numbers, so that float32 loses no digits."""

    coarse: Float[Array | np.ndarray, "..."]
    fine: Float[Array | np.ndarray, "..."]

    @staticmethod
    def at(time: float | np.ndarray, dtype: np.dtype) -> "Epoch":
        """Split `time` into the nearest number of `dtype` and the remainder.

        Args:
            time: a time in the user's unit, or several.
            dtype: floating-point type of the two parts.
        """
        exact = np.asarray(time, dtype=np.float64)
        coarse = exact.astype(dtype)
        return Epoch(coarse, np.asarray(exact - coarse.astype(np.float64), dtype=dtype))


class Instant(eqx.Module):
    """A time of a feature, since the data's epoch and since the feature's first match."""

    offset: Float[Array, "..."]
    age: Float[Array, "..."]
    epoch: Epoch

    @staticmethod
    def at(time: ArrayLike, first: ArrayLike = 0.0) -> "Instant":
        """Make an instant from plain numbers, with the epoch at zero.

        Args:
            time: the time in the user's unit.
            first: the first time of the feature.
        """
        time = jnp.asarray(time, dtype=jnp.result_type(float))
        zero = jnp.zeros((), time.dtype)
        return Instant(time, time - first, Epoch(zero, zero))

    def since(self, origin: Origin | np.ndarray) -> Float[Array, "..."]:
        """The time since `origin`: a number or array in the user's unit, or `FIRST`."""
        if origin is FIRST:
            return self.age
        start = Epoch.at(origin, self.offset.dtype)
        return self.offset + ((self.epoch.coarse - start.coarse) + (self.epoch.fine - start.fine))

    def until(self, other: "Instant") -> Float[Array, "..."]:
        """The time from this instant to another; negative if the other is earlier."""
        coarse = other.epoch.coarse - self.epoch.coarse
        return (other.offset - self.offset) + (coarse + (other.epoch.fine - self.epoch.fine))


class Interval(eqx.Module):
    """Two instants of one feature and the time between them."""

    start: Instant
    end: Instant
    gap: Float[Array, "..."]

    @staticmethod
    def between(start: ArrayLike, end: ArrayLike, first: ArrayLike = 0.0) -> "Interval":
        """Make an interval from plain numbers, with the epoch at zero.

        Args:
            start: the earlier time in the user's unit.
            end: the later time.
            first: the first time of the feature.
        """
        left, right = Instant.at(start, first), Instant.at(end, first)
        return Interval(left, right, right.offset - left.offset)

    def beyond(self, origin: Origin) -> Float[Array, "..."]:
        """The length of the part after `origin`."""
        return jnp.clip(self.end.since(origin), 0.0, self.gap)
