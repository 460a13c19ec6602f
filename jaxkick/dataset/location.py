"""Where a time falls among the entries of a feature: what prediction asks the data."""

import equinox as eqx
import numpy as np
from jaxtyping import ArrayLike

from jaxkick._typing import Float, Int
from jaxkick.dataset.index import Index

__all__ = ["Location", "locate"]


class Location(eqx.Module):
    """Features at times, each between two entries of its chain.

    An entry at the very time is the left neighbour, the last such if there are several.

    Attributes:
        group: number of the feature's group; -1 for an unseen feature, or a group without
            entries.
        left: flat position of the last entry at or before the time, in the concatenation of
            all chains; -1 where there is none.
        right: flat position of the next entry; -1 where there is none.
        left_gap: time since the left neighbour; 0 where there is none.
        right_gap: time until the right neighbour; 0 where there is none.
        offset: time since the data's epoch.
        age: time since the feature's first entry, negative before it; 0 for a feature
            without entries.
    """

    group: Int[np.ndarray, " Q"]
    left: Int[np.ndarray, " Q"]
    right: Int[np.ndarray, " Q"]
    left_gap: Float[np.ndarray, " Q"]
    right_gap: Float[np.ndarray, " Q"]
    offset: Float[np.ndarray, " Q"]
    age: Float[np.ndarray, " Q"]


def locate(index: Index, features: ArrayLike, times: ArrayLike, dtype: np.dtype) -> Location:
    """Find times among the entries of features, by bisection for all queries at once.

    Args:
        index: the data's index.
        features: numbers of the features; -1 for an unseen one.
        times: float64 times in the data's unit.
        dtype: floating-point type of the differences, which are taken in float64.

    Returns:
        The location of each query, as NumPy arrays.

    Raises:
        ValueError: if a feature number is out of range or a time is not finite.
    """
    features, times = np.broadcast_arrays(
        np.asarray(features, np.int64), np.asarray(times, np.float64)
    )
    if features.size and not (features.min() >= -1 and features.max() < len(index.names)):
        raise ValueError(f"`features` must count from 0 to {len(index.names) - 1:,}, or be -1.")
    if not np.isfinite(times).all():
        raise ValueError("`times` must be finite; leave out queries without a time.")
    known = features >= 0
    begins = np.where(known, index.begins[features], 0)
    counts = np.where(known, index.counts[features], 0)
    before = _count_until(index, begins, counts, times)
    left, left_time = _neighbour(index, features, before - 1, before > 0)
    right, right_time = _neighbour(index, features, before, before < counts)
    _, first_time = _neighbour(index, features, np.zeros_like(before), counts > 0)
    return Location(
        group=np.where(known, index.feature_group[features], -1).astype(np.int32),
        left=left,
        right=right,
        left_gap=np.where(left >= 0, times - left_time, 0.0).astype(dtype),
        right_gap=np.where(right >= 0, right_time - times, 0.0).astype(dtype),
        offset=(times - index.epoch).astype(dtype),
        age=np.where(counts > 0, times - first_time, 0.0).astype(dtype),
    )


def _count_until(
    index: Index, begins: np.ndarray, counts: np.ndarray, times: np.ndarray
) -> np.ndarray:
    """The number of a feature's entries at or before each time."""
    low, high = np.zeros_like(counts), counts.copy()
    while (open_ := low < high).any():
        middle = (low + high) // 2
        entry = np.where(open_, begins + middle, 0)
        after = index.times[index.observations[entry]] > times
        high = np.where(open_ & after, middle, high)
        low = np.where(open_ & ~after, middle + 1, low)
    return low


def _neighbour(
    index: Index, features: np.ndarray, ranks: np.ndarray, exists: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Positions and times of entries; -1 and 0 where there is none."""
    positions = np.full(features.shape, -1, np.int32)
    times = np.zeros(features.shape)
    chosen, ranks = features[exists], ranks[exists]
    positions[exists] = index.positions(chosen, ranks)
    times[exists] = index.times[index.observations[index.begins[chosen] + ranks]]
    return positions, times
