"""The chain: all entries of a group of features, concatenated and cut into rows of equal length.

A flag marks the first entry of each feature, so that features with one match and features with a
million matches share one array with little padding. The smoother is vectorised over rows. If
every feature fits into a row, whole features are packed into rows, and the smoother need not link
rows. Otherwise the concatenated features are cut into rows.
"""

from bisect import bisect_right
from typing import NamedTuple

import equinox as eqx
import jax
import numpy as np
from jax.sharding import Mesh

from jaxkick._typing import Array, Bool, Float, Int
from jaxkick.errors import DataError

__all__ = ["MIN_PACKED_STEPS", "Chain", "Layout", "build_chain", "pack", "plan_layout"]

_MIN_CUT_STEPS = 16
MIN_PACKED_STEPS = 64
_MAX_PACKED_ROWS = 1.5
_FEW = 8


class Chain(eqx.Module):
    """The entries of one group of features in chain layout.

    Entry `e` of the chain is in row `e // C` at step `e % C`, which is the flat position
    `(e % C) * R + e // C` of each array. Padding has `first` set, a gap of 0, an offset within
    the data, and a source one past the end.

    Attributes:
        gap: time since the previous entry of the same feature; 0 where `first`.
        offset: time since the data's epoch.
        age: time since the first entry of the feature.
        first: whether the entry is the first of its feature.
        source: flat index `n * P + p` of the entry's observation and slot; `N * P` in padding.
        feature: number of the entry's feature; 0 in padding.
        group: name of the group of features.
        linked: whether some row begins inside a feature.
        slots: the slots of observations that have features of this group.
        few: an upper bound on the number of features if they are few beside those of other
            groups, otherwise 0.
        mesh: the devices over which rows are sharded; `None` for one device.
        aspects: the coefficients of each entry by the name of the aspect; `None` in data
            without aspects.
    """

    gap: Float[Array, "C R"]
    offset: Float[Array, "C R"]
    age: Float[Array, "C R"]
    first: Bool[Array, "C R"]
    source: Int[Array, "C R"]
    feature: Int[Array, "C R"]
    group: str = eqx.field(static=True)
    linked: bool = eqx.field(static=True)
    slots: tuple[int, ...] = eqx.field(static=True)
    few: int = eqx.field(static=True)
    mesh: Mesh | None = eqx.field(static=True, default=None)
    aspects: dict[str, Float[Array, "C R"]] | None = None


class Layout(NamedTuple):
    """The places of the features of a chain.

    Attributes:
        steps: the length C of a row.
        rows: the number R of rows.
        starts: place of each feature's first entry, counted along the rows: row r, step c
            is place `r * C + c`.
        linked: whether some row begins inside a feature.
    """

    steps: int
    rows: int
    starts: np.ndarray
    linked: bool

    def positions(self, counts: np.ndarray) -> np.ndarray:
        """Return the flat position of every entry, ordered by feature.

        Args:
            counts: number of entries of each feature.

        Returns:
            Positions in the raveled [C, R] arrays, as int64.
        """
        begins = np.cumsum(counts) - counts
        places = np.arange(int(counts.sum()))
        places += np.repeat(self.starts - begins, counts)
        return flat_positions(places, self.steps, self.rows)


class _Shape(NamedTuple):
    """Preferred shapes of a backend: the longest rows and the numbers of rows."""

    max_packed_steps: int
    min_packed_rows: int
    rows_per_step: int


# On a CPU a step over a few rows takes almost as long as a step over a few hundred, and programs
# without linked rows compile in half the time. A GPU needs thousands of rows, and sequential steps
# are expensive.
_SHAPES = {"cpu": _Shape(2048, 1, 6), "gpu": _Shape(512, 4096, 32)}


def plan_layout(counts: np.ndarray, backend: str = "cpu", row_length: int | None = None) -> Layout:
    """Choose the length of the rows and the place of each feature in them.

    1. The length is `row_length` if it is given. Otherwise it is the largest number of entries of
       a feature, if that is short enough for the backend and gives enough rows (short features
       share rows of at least 64 steps). Otherwise it balances steps and rows: `sqrt(E / 6)` for
       E entries on a CPU, and less than half of that on a GPU.
    2. If every feature fits into a row, whole features are packed into rows, the longest first.
       Padding is then at the ends of rows.
    3. If a feature is longer than a row, or packing would need half as many rows again, features
       are concatenated, and rows may begin inside them.

    More than one row is rounded up to an even number, for sharding over devices.

    Args:
        counts: number of entries of each feature, positive and in decreasing order.
        backend: name of JAX's backend; any but `"cpu"` is treated as a GPU.
        row_length: number of steps of a row, at most the number of entries; chosen automatically
            if `None`.

    Returns:
        The layout.

    Raises:
        DataError: if `row_length` is not a positive integer.
    """
    if row_length is not None and (row_length != int(row_length) or row_length < 1):
        raise DataError(
            "{argument} is {value}, but must be a positive integer",
            "Leave it out to choose it from the data.",
            argument="row_length",
            value=row_length,
        )
    steps = _choose_steps(counts, backend) if row_length is None else int(row_length)
    steps = min(steps, max(int(counts.sum()), _MIN_CUT_STEPS))
    cut_rows = -(-int(counts.sum()) // steps)
    if counts[0] <= steps:
        rows, starts = _pack(counts, steps)
        if rows <= _MAX_PACKED_ROWS * cut_rows + 1:
            return Layout(steps, _even(rows), starts, linked=False)
    return Layout(steps, _even(cut_rows), np.cumsum(counts) - counts, linked=True)


def pack(counts: np.ndarray, steps: int) -> Layout:
    """Pack whole features into rows of a length that none exceeds, the longest first."""
    rows, starts = _pack(counts, steps)
    return Layout(steps, _even(rows), starts, linked=False)


def build_chain(
    layout: Layout,
    positions: np.ndarray,
    counts: np.ndarray,
    times: np.ndarray,
    source: np.ndarray,
    *,
    features: np.ndarray,
    group: str,
    epoch: float,
    num_slots: int,
    largest: bool,
    no_source: int,
    dtype: np.dtype,
    aspects: dict[str, np.ndarray] | None = None,
) -> Chain:
    """Arrange sorted entries into a chain; time differences are computed in float64.

    Args:
        layout: the places of the features.
        positions: flat position of each entry, `layout.positions(counts)`.
        counts: number of entries of each feature.
        times: time of each entry as float64, ordered by feature and then by time.
        source: flat index of each entry's observation and slot.
        features: number of each feature.
        group: name of the group.
        epoch: the origin of time offsets.
        num_slots: number of slots of each observation.
        largest: whether no other group has more features.
        no_source: the source of padding.
        dtype: floating-point type of the chain.
        aspects: coefficients of each entry by the name of the aspect, if there are any.

    Returns:
        The chain, with its arrays on JAX's default device.
    """
    begins = np.cumsum(counts) - counts

    def arrange(values: np.ndarray | bool, padding: float | bool, kind) -> Array:
        flat = np.full(layout.rows * layout.steps, padding, kind)
        flat[positions] = values
        return jax.device_put(flat.reshape(layout.steps, layout.rows))

    first = np.zeros(len(times), bool)
    first[begins] = True
    gap = np.diff(times, prepend=times[:1])
    gap[begins] = 0.0
    return Chain(
        gap=arrange(gap, 0.0, dtype),
        # Use an offset within the data, so that no kernel is evaluated before its origin.
        offset=arrange(times - epoch, times.min() - epoch, dtype),
        age=arrange(times - np.repeat(times[begins], counts), 0.0, dtype),
        first=arrange(first, True, bool),
        source=arrange(source, no_source, np.int32),
        feature=arrange(np.repeat(features, counts), 0, np.int32),
        group=group,
        linked=layout.linked,
        slots=tuple(np.unique(source % np.int32(num_slots)).tolist()),
        few=0 if largest else _few(len(features)),
        aspects=aspects and {name: arrange(values, 0.0, dtype) for name, values in aspects.items()},
    )


def _few(count: int) -> int:
    """A power of two, so that another feature seldom makes another program; 0 for many."""
    return 1 << (count - 1).bit_length() if count <= _FEW else 0


def flat_positions(places: np.ndarray, steps: int, rows: int) -> np.ndarray:
    """Convert places counted along the rows to flat positions in [C, R] arrays."""
    row, step = np.divmod(places, steps)
    step *= rows
    step += row
    return step


def _choose_steps(counts: np.ndarray, backend: str) -> int:
    shape = _SHAPES["cpu" if backend == "cpu" else "gpu"]
    longest, total = int(counts[0]), int(counts.sum())
    if longest <= shape.max_packed_steps and total >= longest * shape.min_packed_rows:
        # A multiple, so that features of equal length fill their rows.
        return longest * -(-MIN_PACKED_STEPS // longest)
    return max(_MIN_CUT_STEPS, int(np.ceil(np.sqrt(total / shape.rows_per_step))))


def _pack(counts: np.ndarray, steps: int) -> tuple[int, np.ndarray]:
    """Pack features into rows by first-fit decreasing.

    Features of equal length are interchangeable, so each filling of a row is repeated as often as
    possible. The loop runs over different fillings, about as many as there are different lengths.
    """
    lengths, left = (list(map(int, each)) for each in np.unique(counts, return_counts=True))
    waiting = dict(zip(lengths, left, strict=True))
    following = {length: int(np.searchsorted(-counts, -length)) for length in lengths}
    starts = np.empty(len(counts), np.int64)
    rows = 0
    while lengths:
        pattern = _fill_row(lengths, waiting, steps)
        repeats = min(waiting[length] // copies for length, copies in pattern)
        row_starts = (rows + np.arange(repeats)) * steps
        rows += repeats
        step = 0
        for length, copies in pattern:
            begin = following[length]
            places = row_starts[:, None] + (step + length * np.arange(copies))
            starts[begin : begin + places.size] = places.ravel()
            following[length] += places.size
            waiting[length] -= places.size
            step += length * copies
        lengths = [length for length in lengths if waiting[length]]
    return rows, starts


def _fill_row(lengths: list[int], waiting: dict[int, int], room: int) -> list[tuple[int, int]]:
    """Return lengths and their numbers of copies that fill one row; `lengths` is increasing."""
    pattern = []
    position = len(lengths)
    while position := bisect_right(lengths, room, 0, position):
        position -= 1
        length = lengths[position]
        copies = min(waiting[length], room // length)
        pattern.append((length, copies))
        room -= length * copies
    return pattern


def _even(rows: int) -> int:
    return rows if rows == 1 else rows + rows % 2
