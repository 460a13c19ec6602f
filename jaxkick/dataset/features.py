"""Who takes part in each observation: names, lists of names and mappings to sparse arrays."""

from collections.abc import Hashable, Mapping, Sequence
from itertools import chain, compress
from operator import methodcaller
from typing import Any, NamedTuple, TypeAlias

import narwhals as nw
import numpy as np

from jaxkick.dataset.columns import (
    Column,
    as_column,
    check_length,
    is_missing,
    to_floats,
    to_list,
)
from jaxkick.dataset.names import Vocabulary

__all__ = [
    "Block",
    "Lineup",
    "Side",
    "add_repeated",
    "compact",
    "join",
    "on_both_sides",
    "read_covariate",
    "read_side",
    "trim",
]

Side: TypeAlias = Hashable | Sequence[Hashable] | Mapping[Hashable, float]

_LISTS = (list, tuple, set, frozenset, np.ndarray)


class Block(NamedTuple):
    """Features of each observation, in slots.

    Attributes:
        features: codes [N, P] of the features as int32; -1 in an empty slot.
        coefficients: their coefficients [N, P]; 0 in an empty slot.
    """

    features: np.ndarray
    coefficients: np.ndarray


class Lineup(NamedTuple):
    """A side whose members stand in several columns.

    Attributes:
        names: columns of names; a missing name is an empty place.
        coefficients: for each of them, a column of coefficients or one number.
    """

    names: tuple[Any, ...]
    coefficients: tuple[Any, ...]


def read_side(
    values: Any, sign: float, vocabulary: Vocabulary, argument: str, num_rows: int
) -> Block:
    """The features of one side of each observation.

    Args:
        values: for each observation a name, a list of names or a mapping from names to
            coefficients; or a `Lineup` over several columns.
        sign: factor on the coefficients.
        vocabulary: the names, which grow.
        argument: name of the user's argument, for the errors.
        num_rows: number of observations.

    Returns:
        The block.

    Raises:
        ValueError: if the length is wrong or a coefficient is not a number.
    """
    if isinstance(values, Lineup):
        return _read_lineup(values, sign, vocabulary, argument, num_rows)
    column = as_column(values, argument)
    check_length(column, argument, num_rows)
    if not _is_plain(column):
        cells = to_list(column)
        if any(issubclass(kind, (*_LISTS, Mapping)) for kind in set(map(type, cells))):
            return _read_cells(cells, sign, vocabulary, argument)
        column = cells
    codes = vocabulary.encode(column, argument)[:, None]
    return Block(codes, np.broadcast_to(sign, codes.shape))


def read_covariate(
    name: Hashable, values: Any, vocabulary: Vocabulary, argument: str, num_rows: int
) -> Block:
    """A feature that takes part in every observation where its coefficient is not zero.

    Args:
        name: the name of the feature.
        values: its coefficients, or one number for all observations.
        vocabulary: the names, which grow.
        argument: name of the user's argument, for the errors.
        num_rows: number of observations.

    Returns:
        A block with one slot.

    Raises:
        ValueError: if the values are not numbers or the name is missing or a competitor's.
    """
    if is_missing(name):
        raise ValueError("`covariates` has a name that is missing; give each covariate a name.")
    if name in vocabulary:
        raise ValueError(
            f"`covariates` has the name {name!r}, which is also the name of a competitor; "
            "choose another name for the covariate."
        )
    coefficients = to_floats(values, argument, num_rows)[:, None]
    code = int(vocabulary.encode([name], argument)[0])
    return Block(np.full((num_rows, 1), code, np.int32), coefficients)


def join(blocks: Sequence[Block]) -> Block:
    """Blocks side by side, as new arrays."""
    return Block(
        np.concatenate([block.features for block in blocks], axis=1, dtype=np.int32),
        np.concatenate([block.coefficients for block in blocks], axis=1, dtype=np.float64),
    )


def on_both_sides(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """For each observation, whether a feature stands in both [N, P] arrays."""
    shared = np.zeros(len(first), bool)
    for slot in second.T:
        shared |= ((first == slot[:, None]) & (slot >= 0)[:, None]).any(axis=1)
    return shared


def compact(block: Block) -> Block:
    """Each feature once in an observation, no zeros, in the fewest slots.

    Coefficients of a repeated feature are added in its first slot; the order of slots stays.
    The arrays of the block are changed.
    """
    add_repeated(block)
    features, coefficients = block
    features[coefficients == 0.0] = -1
    used = features >= 0
    coefficients[~used] = 0.0
    behind_hole = (used[:, 1:] & ~used[:, :-1]).any(axis=1)
    rows = np.flatnonzero(behind_hole)
    if rows.size:
        order = np.argsort(~used[rows], axis=1, kind="stable")
        for array in block:
            array[rows] = np.take_along_axis(array[rows], order, axis=1)
    return trim(block)


def trim(block: Block) -> Block:
    """Without the slots at the end that no observation uses; at least one stays."""
    width = block.features.shape[1]
    while width > 1 and not (block.features[:, width - 1] >= 0).any():
        width -= 1
    if width == block.features.shape[1]:
        return block
    return Block(*(np.ascontiguousarray(array[:, :width]) for array in block))


def add_repeated(block: Block) -> None:
    """Add the coefficients of a feature named twice in an observation, in its first slot."""
    ordered = np.sort(block.features, axis=1)
    repeated = (ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0)
    rows = np.flatnonzero(repeated.any(axis=1))
    if not rows.size:
        return
    features, coefficients = block.features[rows], block.coefficients[rows]
    order = np.argsort(features, axis=1, kind="stable")
    features = np.take_along_axis(features, order, axis=1)
    coefficients = np.take_along_axis(coefficients, order, axis=1)
    opens = np.ones(features.shape, bool)
    opens[:, 1:] = features[:, 1:] != features[:, :-1]
    begins = np.flatnonzero(opens)
    sums = np.zeros(coefficients.size)
    sums[begins] = np.add.reduceat(coefficients.ravel(), begins)
    features[~opens] = -1
    back = np.argsort(order, axis=1)
    block.features[rows] = np.take_along_axis(features, back, axis=1)
    block.coefficients[rows] = np.take_along_axis(sums.reshape(order.shape), back, axis=1)


def _read_lineup(
    lineup: Lineup, sign: float, vocabulary: Vocabulary, argument: str, num_rows: int
) -> Block:
    blocks = []
    for column, part in zip(*lineup, strict=True):
        names = to_list(as_column(column, argument))
        check_length(names, argument, num_rows)
        there = np.fromiter((not is_missing(name) for name in names), bool, num_rows)
        features = np.full(num_rows, -1, np.int32)
        features[there] = vocabulary.encode(list(compress(names, there)), argument)
        coefficients = np.where(there, sign * to_floats(part, argument, num_rows), 0.0)
        blocks.append(Block(features[:, None], coefficients[:, None]))
    return join(blocks)


def _is_plain(column: Column) -> bool:
    """Whether the type of a column already says that its values are names."""
    if isinstance(column, nw.Series):
        return not column.dtype.is_nested() and column.dtype != nw.Object
    return isinstance(column, np.ndarray) and column.ndim == 1 and column.dtype.kind != "O"


def _read_cells(cells: list, sign: float, vocabulary: Vocabulary, argument: str) -> Block:
    """Lists, mappings and names, kind by kind, so that each is flattened at once."""
    kinds = list(map(type, cells))
    kind_of = {kind: _cell_kind(kind) for kind in set(kinds)}
    cell_kinds = np.fromiter(map(kind_of.__getitem__, kinds), np.int8, len(cells))
    parts = []
    for kind in np.unique(cell_kinds):
        chosen = cell_kinds == kind
        rows = np.flatnonzero(chosen)
        parts.append((rows, *_flatten(list(compress(cells, chosen)), kind, rows, argument)))
    width = max(1, *(int(lengths.max()) for _, lengths, _, _ in parts))
    features = np.full((len(cells), width), -1, np.int32)
    coefficients = np.zeros((len(cells), width))
    for rows, lengths, names, values in parts:
        filled = np.arange(width) < lengths[:, None]
        for array, flat in ((features, vocabulary.encode(names, argument)), (coefficients, values)):
            padded = array[rows]
            padded[filled] = flat
            array[rows] = padded
    coefficients *= sign
    return Block(features, coefficients)


_NAME, _LIST, _MAPPING = range(3)


def _cell_kind(kind: type) -> int:
    if issubclass(kind, Mapping):
        return _MAPPING
    return _LIST if issubclass(kind, _LISTS) else _NAME


def _flatten(
    cells: list, kind: int, rows: np.ndarray, argument: str
) -> tuple[np.ndarray, list, np.ndarray]:
    """The number of names of each cell, all names, and all coefficients."""
    if kind == _NAME:
        return np.ones(len(cells), np.int64), cells, np.ones(len(cells))
    lengths = np.fromiter(map(len, cells), np.int64, len(cells))
    names = list(chain.from_iterable(cells))
    if kind == _LIST:
        return lengths, names, np.ones(len(names))
    values = list(chain.from_iterable(map(methodcaller("values"), cells)))
    try:
        return lengths, names, to_floats(values, argument, len(values))
    except ValueError:
        bad = next(place for place, value in enumerate(values) if not _is_number(value))
        row = rows[np.searchsorted(np.cumsum(lengths), bad, side="right")]
        raise ValueError(
            f"`{argument}` has the coefficient {values[bad]!r} for {names[bad]!r} in row {row}; "
            "coefficients must be numbers."
        ) from None


def _is_number(value: Any) -> bool:
    return is_missing(value) or isinstance(value, (int, float, np.number, np.bool_))
