"""Sorting entries into chains: from observations with features to what the smoother reads."""

from collections.abc import Hashable
from typing import NamedTuple

import numpy as np

from jaxkick.dataset.index import Index
from jaxkick.dataset.names import Groups, group_name
from jaxkick.dataset.recipe import Recipe
from jaxkick.dataset.room import Room, choose_layout
from jaxkick.dataset.times import TimeScale
from jaxkick.statespace.chain import Chain, build_chain

__all__ = ["Observations", "count_entries", "encode"]

_LIMIT = 2**31


class Observations(NamedTuple):
    """Checked observations, ready to be sorted.

    Attributes:
        times: float64 time of each observation.
        features: feature numbers [N, P], each once in an observation; -1 in empty slots.
        names: name of each feature.
        grouping: the user's rule for the groups.
        scale: how the user's times became numbers.
        rows: the user's row of each observation, or `None` where each row made one.
        recipe: how the user's table was read, if it was one.
    """

    times: np.ndarray
    features: np.ndarray
    names: tuple[Hashable, ...]
    grouping: Groups
    scale: TimeScale
    rows: np.ndarray | None
    recipe: Recipe | None = None


class _Order(NamedTuple):
    """Features in chain order: by group, the one with most entries first."""

    groups: tuple[str, ...]
    feature_group: np.ndarray
    counts: np.ndarray
    begins: np.ndarray
    members: tuple[np.ndarray, ...]


def encode(
    observations: Observations, dtype: np.dtype, row_length: int | None, room: Room | None = None
) -> tuple[Index, tuple[Chain, ...], np.ndarray]:
    """Build the chains of a data set, the slots that lead into them, and the index.

    Args:
        observations: the observations.
        dtype: floating-point type of the chains.
        row_length: steps of the rows of every chain, or `None` to choose them.
        room: the shapes to fill, which the observations fit into; as large as needed if
            `None`. Features then have a row for every observation that there is room for.

    Returns:
        The index, the chains and the slots [N, P].

    Raises:
        ValueError: if the data is too large for 32-bit positions.
    """
    times, features = observations.times, observations.features
    _check_size(features.size)
    groups = _groups_of(observations)
    order = _order_features(features, groups)
    source = _sort_entries(features, times, order)
    entries = source // np.int32(features.shape[1])
    epoch = float(np.floor(times.min()))
    slots = np.full(features.size, -1, np.int32)
    places = np.zeros(len(groups), np.int64)
    chains, base = [], 0
    for group, members in zip(order.groups, order.members, strict=True):
        counts = order.counts[members]
        begin = order.begins[members[0]]
        part = slice(begin, begin + int(counts.sum()))
        layout = choose_layout(group, counts, row_length, room)
        _check_size(base + layout.steps * layout.rows)
        positions = layout.positions(counts)
        places[members] = layout.starts
        slots[source[part]] = positions + base
        chain = build_chain(
            layout,
            positions,
            counts,
            times[entries[part]],
            source[part],
            features=members,
            group=group,
            epoch=epoch,
            no_source=features.size,
            dtype=dtype,
        )
        chains.append(chain)
        base += layout.steps * layout.rows
    slots[slots < 0] = base
    index = _index(observations, order, tuple(chains), entries, places, epoch, row_length)
    return index, tuple(chains), slots.reshape(features.shape)


def count_entries(observations: Observations) -> dict[str, np.ndarray]:
    """The numbers of entries of the features of each group, decreasing."""
    order = _order_features(observations.features, _groups_of(observations))
    pairs = zip(order.groups, order.members, strict=True)
    return {group: order.counts[members] for group, members in pairs}


def _groups_of(observations: Observations) -> list[str]:
    return [group_name(observations.grouping, name) for name in observations.names]


def _index(
    observations: Observations,
    order: _Order,
    chains: tuple[Chain, ...],
    entries: np.ndarray,
    places: np.ndarray,
    epoch: float,
    row_length: int | None,
) -> Index:
    return Index(
        names=observations.names,
        groups=order.groups,
        scale=observations.scale,
        epoch=epoch,
        times=observations.times,
        rows=observations.rows,
        feature_group=order.feature_group,
        counts=order.counts,
        begins=order.begins,
        places=places,
        shapes=tuple((chain.gap.shape[0], chain.gap.shape[1]) for chain in chains),
        observations=entries,
        grouping=observations.grouping,
        recipe=observations.recipe,
        row_length=row_length,
    )


def _order_features(features: np.ndarray, group_of: list[str]) -> _Order:
    # Empty slots are counted in front and left off.
    counts = np.bincount((features + np.int32(1)).ravel(), minlength=len(group_of) + 1)[1:]
    seen = counts > 0
    groups = tuple(sorted({group for group, used in zip(group_of, seen, strict=True) if used}))
    number = {group: place for place, group in enumerate(groups)}
    feature_group = np.array([number.get(group, -1) for group in group_of], np.int32)
    order = np.lexsort((np.arange(len(counts)), -counts, feature_group))
    order = order[seen[order]]
    begins = np.zeros(len(counts), np.int64)
    begins[order] = np.cumsum(counts[order]) - counts[order]
    members = tuple(order[feature_group[order] == place] for place in range(len(groups)))
    return _Order(groups, feature_group, counts, begins, members)


def _sort_entries(features: np.ndarray, times: np.ndarray, order: _Order) -> np.ndarray:
    """The flat index of each entry's observation and slot, in chain order."""
    num_slots = features.shape[1]
    rank = np.zeros(len(order.counts), np.int64)
    rank[np.concatenate(order.members)] = np.arange(sum(map(len, order.members)))
    by_time = None
    if not (times[1:] >= times[:-1]).all():
        by_time = np.argsort(times, kind="stable")
        # Several times faster than indexing with the order.
        features = features.take(by_time, axis=0)
    # One integer holds the feature and the place in time, so that a plain sort does it all.
    bits = np.int64(features.size).item().bit_length()
    keys = rank[features]
    keys <<= bits
    keys += np.arange(features.size).reshape(features.shape)
    keys = keys[features >= 0]
    keys.sort()
    keys &= (1 << bits) - 1
    if by_time is not None:
        slot = keys % num_slots
        keys //= num_slots
        keys = by_time[keys]
        keys *= num_slots
        keys += slot
    return keys.astype(np.int32)


def _check_size(size: int) -> None:
    if size >= _LIMIT:
        raise ValueError(
            f"the data takes {size:,} places, but their numbers have 32 bits; split the data, or "
            "give observations with many features fewer of them."
        )
