"""Encode checked observations as chains; the index finds names and times in them."""

import hashlib
import math
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, fields
from functools import cached_property
from typing import NamedTuple

import equinox as eqx
import jax
import numpy as np
from jax.typing import ArrayLike

from jaxkick._typing import Float, Int
from jaxkick.chains.layout import (
    MIN_PACKED_STEPS,
    Chain,
    Layout,
    build_chain,
    flat_positions,
    pack,
    plan_layout,
)
from jaxkick.data.directory import AbstractDirectory, Played
from jaxkick.data.observations import AbstractRecord, Observations
from jaxkick.data.schema import group_of
from jaxkick.errors import DataError

# If the number of entries or observations has at most this many bits, sizes are powers of two.
_COARSE_BITS = 12
_GROWTH = 1.25


class Entries(NamedTuple):
    """The entries of one feature, in the order of time.

    Attributes:
        positions: flat positions in the concatenation of all chains, as in `Dataset.slots`.
        times: float64 times in the data's unit.
        observations: numbers of the observations.
    """

    positions: np.ndarray
    times: np.ndarray
    observations: np.ndarray


class Location(eqx.Module):
    """Features at times, each between two entries of its chain.

    Entries at exactly this time are on the left; the last of them is the left neighbour.

    Attributes:
        group: number of the feature's group; -1 for an unknown feature, or a group without
            entries.
        left: flat position of the last entry at or before the time, in the concatenation of
            all chains; -1 if there is none.
        right: flat position of the next entry; -1 if there is none.
        left_gap: time since the left neighbour; 0 if there is none.
        right_gap: time until the right neighbour; 0 if there is none.
        offset: time since the data's epoch.
        age: time since the feature's first entry, negative before it; 0 for a feature
            without entries.
    """

    group: Int[np.ndarray, "*Q"]
    left: Int[np.ndarray, "*Q"]
    right: Int[np.ndarray, "*Q"]
    left_gap: Float[np.ndarray, "*Q"]
    right_gap: Float[np.ndarray, "*Q"]
    offset: Float[np.ndarray, "*Q"]
    age: Float[np.ndarray, "*Q"]


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Index(AbstractRecord, AbstractDirectory):
    """Names, groups, times and the places of entries, on the host.

    Hashable, and equal where the content is equal. Entries are listed group by group, feature by
    feature, in the order of time.

    Attributes:
        groups: names of the groups, one for each chain.
        epoch: the time that offsets count from.
        feature_group: number of each feature's group; -1 if the group has no entries.
        counts: number of entries of each feature.
        begins: number of each feature's first entry.
        places: place of each feature's first entry in its chain, counted along the rows.
        shapes: steps and rows of each chain.
        entry_observations: observation of each entry.
        row_length: steps of the rows of the chains, if the user chose them.
    """

    groups: tuple[str, ...]
    epoch: float
    feature_group: np.ndarray
    counts: np.ndarray
    begins: np.ndarray
    places: np.ndarray
    shapes: tuple[tuple[int, int], ...]
    entry_observations: np.ndarray
    row_length: int | None = None

    def __post_init__(self) -> None:
        for field in fields(self):
            array = getattr(self, field.name)
            if isinstance(array, np.ndarray):
                array.setflags(write=False)

    def __hash__(self) -> int:
        return hash(self._outline)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Index) or self._outline != other._outline:
            return False
        return self._digest == other._digest and self.grouping == other.grouping

    def __repr__(self) -> str:
        return f"Index({len(self.names):,} features, {len(self.times):,} observations)"

    @property
    def unit(self) -> str | None:
        """The unit of time, where it is known."""
        return self.scale.unit

    @cached_property
    def bases(self) -> np.ndarray:
        """Position of each chain's begin in the concatenation of all chains, and the end."""
        sizes = [steps * rows for steps, rows in self.shapes]
        return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)

    @property
    def num_entries(self) -> int:
        """The number of entries."""
        return len(self.entry_observations)

    @property
    def latest(self) -> float:
        return float(self.times.max())

    def members(self, group: str) -> list[Hashable]:
        chosen = (self.feature_group == self.groups.index(group)) & (self.counts > 0)
        return [self.names[member] for member in np.flatnonzero(chosen)]

    def played(self, name: Hashable, until: float) -> Played:
        times = self.entries(name).times
        count = int(np.searchsorted(times, until, side="right"))
        return Played(count, float(times[count - 1]) if count else -np.inf)

    def group_ids(self, names: Iterable[Hashable]) -> np.ndarray:
        """The numbers of the groups of names, known or not; -1 for a group without entries."""
        number = {group: place for place, group in enumerate(self.groups)}
        return np.array([number.get(self.group_of(name), -1) for name in names], np.int32)

    def entries(self, name: Hashable) -> Entries:
        """The entries of a feature in the order of time; none for an unknown name."""
        feature = self._numbers.get(name, -1)
        count = 0 if feature < 0 else int(self.counts[feature])
        if not count:
            return Entries(np.empty(0, np.int32), np.empty(0), np.empty(0, np.int32))
        ranks = np.arange(count)
        observations = self.entry_observations[self.begins[feature] + ranks]
        positions = self.positions(np.full(count, feature), ranks)
        return Entries(positions, self.times[observations], observations)

    def entry_aspects(self, name: Hashable) -> dict[str, np.ndarray] | None:
        """The coefficients of a feature's entries by aspect, in the order of time."""
        if self.aspects is None:
            return None
        rows = self.entries(name).observations
        slots = (self.features[rows] == self._numbers.get(name, -2)).argmax(axis=1)
        return self.known_aspects.by_name(self.aspects[rows, slots])

    def positions(self, features: np.ndarray, ranks: np.ndarray) -> np.ndarray:
        """Flat positions of the `ranks`-th entries of features that have entries, as int32."""
        group = self.feature_group[features]
        steps, rows = np.array(self.shapes, np.int64)[group].T
        places = self.places[features] + ranks
        return (self.bases[group] + flat_positions(places, steps, rows)).astype(np.int32)

    def locate(self, features: ArrayLike, times: ArrayLike, dtype: np.dtype) -> Location:
        """Find times among the entries of features, by bisection for all queries at once.

        Args:
            features: numbers of the features; -1 for an unknown one.
            times: float64 times in the data's unit.
            dtype: floating-point type of the differences, which are computed in float64.
        """
        features, times = np.broadcast_arrays(
            np.asarray(features, np.int64), np.asarray(times, np.float64)
        )
        if features.size and not (features.min() >= -1 and features.max() < len(self.names)):
            problem = f"{{argument}} must count from 0 to {len(self.names) - 1:,}, or be -1"
            raise DataError(problem, argument="features")
        if not np.isfinite(times).all():
            raise DataError("{argument} must be finite", "Drop missing times.", argument="times")
        known = features >= 0
        counts = np.where(known, self.counts[features], 0)
        before = self._count_until(np.where(known, self.begins[features], 0), counts, times)
        left, left_time = self._entry(features, before - 1, before > 0)
        right, right_time = self._entry(features, before, before < counts)
        _, first_time = self._entry(features, np.zeros_like(before), counts > 0)
        return Location(
            group=np.where(known, self.feature_group[features], -1).astype(np.int32),
            left=left,
            right=right,
            left_gap=np.where(left >= 0, times - left_time, 0.0).astype(dtype),
            right_gap=np.where(right >= 0, right_time - times, 0.0).astype(dtype),
            offset=np.asarray(times - self.epoch, dtype),
            age=np.where(counts > 0, times - first_time, 0.0).astype(dtype),
        )

    def _count_until(self, begins: np.ndarray, counts: np.ndarray, times: np.ndarray) -> np.ndarray:
        """Count a feature's entries at or before each time."""
        low, high = np.zeros_like(counts), counts.copy()
        while (open_ := low < high).any():
            middle = (low + high) // 2
            entry = np.where(open_, begins + middle, 0)
            after = self.times[self.entry_observations[entry]] > times
            high = np.where(open_ & after, middle, high)
            low = np.where(open_ & ~after, middle + 1, low)
        return low

    def _entry(
        self, features: np.ndarray, ranks: np.ndarray, exists: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Positions and times of entries; -1 and 0 where there is none."""
        positions = np.full(features.shape, -1, np.int32)
        times = np.zeros(features.shape)
        chosen, ranks = features[exists], ranks[exists]
        positions[exists] = self.positions(chosen, ranks)
        times[exists] = self.times[self.entry_observations[self.begins[chosen] + ranks]]
        return positions, times

    @cached_property
    def _outline(self) -> tuple:
        """The parts that are quick to compare."""
        sizes = (len(self.names), len(self.times), len(self.entry_observations), self.rows is None)
        return (
            sizes,
            self.groups,
            self.shapes,
            self.scale,
            self.epoch,
            self.kind_names,
            self.aspect_names,
        )

    @cached_property
    def _digest(self) -> bytes:
        # `grouping` is not hashed: mappings have no order, functions no content.
        names = "\n".join(map(repr, (*self.names, *self.event_names, *self.team_names)))
        digest = hashlib.blake2b(names.encode(errors="surrogatepass"))
        for field in fields(self):
            array = getattr(self, field.name)
            if isinstance(array, np.ndarray):
                digest.update(np.ascontiguousarray(array).view(np.uint8).data)
        return digest.digest()


class Room(NamedTuple):
    """Chains with shapes that are kept if all observations fit into them.

    Attributes:
        observations: number of observations with padding.
        chains: the chain of each group.
        used: number of observations without padding.
    """

    observations: int
    chains: dict[str, Chain]
    used: int

    def growth(self, count: int) -> float:
        """The factor for the shapes of `count` observations that do not fit.

        Shapes grow by a quarter, so that data that grows match by match is compiled a few times
        instead of dozens of times. A large addition gets no further room.
        """
        return max(1.0, _GROWTH * self.used / count)


class _Order(NamedTuple):
    """Features in chain order: by group, then by decreasing number of entries."""

    groups: tuple[str, ...]
    feature_group: np.ndarray
    counts: np.ndarray
    begins: np.ndarray
    members: tuple[np.ndarray, ...]


def padded_size(number: int, total: int) -> int:
    """Round a number of rows, steps or observations up to one of a few sizes.

    A compiled program can be reused for all data of the same shape. Data sets of similar sizes
    therefore have the same shape, with room for a few more observations. For small data, compiling
    takes longer than fitting, so its sizes are powers of two. Sizes become finer with `total`, the
    number of entries or observations: 50 % apart above 4,000, 12 % above 16,000, 3 % above 65,000
    and 0.8 % for two million.
    """
    bits = total.bit_length()
    fineness = min(bits // 3, max(0, bits - _COARSE_BITS))
    step = 1 << max(0, number.bit_length() - 1 - fineness)
    return -(-number // step) * step


def encode(
    observations: Observations,
    dtype: np.dtype,
    row_length: int | None = None,
    room: Room | None = None,
) -> tuple[Index, tuple[Chain, ...], np.ndarray]:
    """Build the chains of a data set, with the shapes in `room` if everything fits.

    Returns:
        The index, the chains, and the slots with those of padding.

    Raises:
        DataError: if the data is too large for 32-bit positions.
    """
    times, features, names = observations.times, observations.features, observations.names
    groups = [group_of(observations.grouping, name) for name in names]
    order = _order_features(features, groups)
    size, layouts = _plan(order, len(features), row_length, room)
    num_slots = size * features.shape[1]
    _check_size(num_slots)
    source = _sort_entries(features, times, order)
    entries = source // np.int32(features.shape[1])
    epoch = float(np.floor(times.min()))
    slots = np.full(num_slots, -1, np.int32)
    places = np.zeros(len(groups), np.int64)
    aspects = observations.aspects
    aspects = None if aspects is None else aspects.reshape(-1, aspects.shape[-1])
    chains, base, largest = [], 0, max(map(len, order.members))
    for group, members, layout in zip(order.groups, order.members, layouts, strict=True):
        counts = order.counts[members]
        begin = order.begins[members[0]]
        part = slice(begin, begin + int(counts.sum()))
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
            no_source=num_slots,
            dtype=dtype,
            num_slots=features.shape[1],
            largest=len(members) == largest,
            aspects=observations.known_aspects.by_name(
                None if aspects is None else aspects[source[part]]
            ),
        )
        chains.append(chain)
        base += layout.steps * layout.rows
    slots[slots < 0] = base
    index = Index(
        **observations.record(),
        groups=order.groups,
        epoch=epoch,
        feature_group=order.feature_group,
        counts=order.counts,
        begins=order.begins,
        places=places,
        shapes=tuple(chain.gap.shape for chain in chains),
        entry_observations=entries,
        row_length=row_length,
    )
    return index, tuple(chains), slots.reshape(-1, features.shape[1])


def _plan(
    order: _Order, count: int, row_length: int | None, room: Room | None
) -> tuple[int, list[Layout]]:
    """The number of observations with padding, and the layout of every chain."""
    growth, counts = 1.0, [order.counts[members] for members in order.members]
    if room is not None:
        chains = [room.chains.get(group) for group in order.groups]
        fitted = [_fit(each, chain) for each, chain in zip(counts, chains, strict=True)]
        kept = [layout for layout in fitted if layout is not None]
        if count <= room.observations and len(kept) == len(fitted):
            return room.observations, kept
        # All shapes grow at once, because each change compiles the programs again.
        growth = room.growth(count)
    size = math.ceil(growth * count)
    return padded_size(size, size), [_lay_out(each, row_length, growth) for each in counts]


def _lay_out(counts: np.ndarray, row_length: int | None, growth: float) -> Layout:
    """Place the features of a group in a padded shape, with room for more entries of each."""
    grown = np.ceil(growth * counts).astype(counts.dtype)
    total = int(grown.sum())
    layout = plan_layout(grown, jax.default_backend(), row_length)
    if not layout.linked and row_length is None:
        # Longer rows, so that the longest feature may grow.
        steps = padded_size(layout.steps, total)
        if total.bit_length() <= _COARSE_BITS:
            steps = max(steps, min(2 * MIN_PACKED_STEPS, padded_size(total, total)))
        layout = pack(grown, steps)
    rows = layout.rows
    if rows > 1:
        rows = padded_size(rows, total)
        rows += rows % 2
    if layout.linked:
        return Layout(layout.steps, rows, np.cumsum(counts) - counts, linked=True)
    packed = layout if growth == 1.0 else pack(counts, layout.steps)
    # Fewer entries rarely take more rows.
    return packed._replace(rows=max(rows, packed.rows))


def _fit(counts: np.ndarray, chain: Chain | None) -> Layout | None:
    """Lay out features in the shape of a chain; `None` if they do not fit."""
    if chain is None:
        return None
    steps, rows = chain.gap.shape
    if chain.linked:
        fits = counts.sum() <= steps * rows
        return Layout(steps, rows, np.cumsum(counts) - counts, linked=True) if fits else None
    if counts[0] > steps or (packed := pack(counts, steps)).rows > rows:
        return None
    return packed._replace(rows=rows)


def _order_features(features: np.ndarray, groups: list[str]) -> _Order:
    # The first count is that of empty slots.
    counts = np.bincount((features + np.int32(1)).ravel(), minlength=len(groups) + 1)[1:]
    seen = counts > 0
    used = tuple(sorted({group for group, there in zip(groups, seen, strict=True) if there}))
    number = {group: place for place, group in enumerate(used)}
    feature_group = np.array([number.get(group, -1) for group in groups], np.int32)
    order = np.lexsort((np.arange(len(counts)), -counts, feature_group))
    order = order[seen[order]]
    begins = np.zeros(len(counts), np.int64)
    begins[order] = np.cumsum(counts[order]) - counts[order]
    members = tuple(order[feature_group[order] == place] for place in range(len(used)))
    return _Order(used, feature_group, counts, begins, members)


def _sort_entries(features: np.ndarray, times: np.ndarray, order: _Order) -> np.ndarray:
    """The flat index of each entry's observation and slot, in chain order."""
    num_slots = features.shape[1]
    rank = np.zeros(len(order.counts), np.int64)
    rank[np.concatenate(order.members)] = np.arange(sum(map(len, order.members)))
    by_time = None
    if not (times[1:] >= times[:-1]).all():
        by_time = np.argsort(times, kind="stable")
        # `take` is several times faster than indexing with the order.
        features = features.take(by_time, axis=0)
    # One integer holds the feature and its position in time, so that a single sort is enough.
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
    if size >= 2**31:
        raise DataError(
            f"The data takes {size:,} positions, but positions have 32 bits",
            "Split the data, or use fewer features in each observation.",
        )
