"""Read names, line-ups and covariates as sparse arrays of features."""

import unicodedata
from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from itertools import chain, compress, count
from typing import Any, NamedTuple, TypeAlias

import narwhals as nw
import numpy as np

from jaxkick.data.columns import (
    TEXTS,
    Column,
    as_column,
    chunks,
    holds_texts,
    is_boolean,
    is_missing,
    plain_value,
    to_floats,
    to_list,
)
from jaxkick.data.schema import ATTACK, DEFENCE, LEVEL, NOISE, PAIR, TIE, Feature
from jaxkick.errors import DataError, invalid, plain

Side: TypeAlias = Hashable | Sequence[Hashable] | Mapping[Hashable, float]

_LISTS = (list, tuple, set, frozenset, np.ndarray)


class Block(NamedTuple):
    """Features of each observation, in slots.

    Attributes:
        features: codes [N, P] of the features as int32; -1 in an empty slot.
        coefficients: their coefficients [N, P]; 0 in an empty slot.
        aspects: the coefficients [N, P, A] of aspects, starting with the general skill; `None` if
            there are no others.
    """

    features: np.ndarray
    coefficients: np.ndarray
    aspects: np.ndarray | None = None

    def map(self, function: Callable[[np.ndarray], np.ndarray]) -> "Block":
        """Apply a function to every array."""
        return Block(*(None if array is None else function(array) for array in self))

    def with_aspects(self, size: int) -> "Block":
        """Add coefficients of `size` aspects: 1 for the general skill, 0 for others."""
        if self.aspects is not None or size == 0:
            return self
        return self._replace(aspects=general_skill(self.features.shape, size))

    def widen(self, width: int) -> "Block":
        """Add empty slots up to a number of slots."""
        missing = width - self.features.shape[1]
        if missing == 0:
            return self
        wide = self.map(lambda part: np.pad(part, [(0, 0), (0, missing), (0, 0)][: part.ndim]))
        wide.features[:, -missing:] = -1
        return wide

    def compact(self) -> "Block":
        """Merge repeated features of an observation, drop zeros, and use the fewest slots.

        Coefficients of a repeated feature are added in its first slot; the order of slots stays.
        With aspects, the coefficient of this slot is set to one, and the coefficients of its
        aspects are sums. The arrays of the block are overwritten.
        """
        self._add_repeated()
        features, coefficients, aspects = self
        features[coefficients == 0.0] = -1
        used = features >= 0
        coefficients[~used] = 0.0
        if aspects is not None:
            aspects[~used] = 0.0
        behind_hole = (used[:, 1:] & ~used[:, :-1]).any(axis=1)
        rows = np.flatnonzero(behind_hole)
        if rows.size:
            order = np.argsort(~used[rows], axis=1, kind="stable")
            for array in (features, coefficients):
                array[rows] = np.take_along_axis(array[rows], order, axis=1)
            if aspects is not None:
                aspects[rows] = np.take_along_axis(aspects[rows], order[..., None], axis=1)
        return self.trim()

    def trim(self) -> "Block":
        """Drop trailing slots that no observation uses; keep at least one."""
        width = self.features.shape[1]
        while width > 1 and not (self.features[:, width - 1] >= 0).any():
            width -= 1
        if width == self.features.shape[1]:
            return self
        return self.map(lambda array: np.ascontiguousarray(array[:, :width]))

    def _add_repeated(self) -> None:
        ordered = np.sort(self.features, axis=1)
        repeated = (ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0)
        rows = np.flatnonzero(repeated.any(axis=1))
        if not rows.size:
            return
        row, slot = np.nonzero(self.features[rows] >= 0)
        used = rows[row], slot
        features, coefficients = self.features[used], self.coefficients[used]
        keys = row * np.int64(features.max() + 1) + features
        _, first, number = np.unique(keys, return_index=True, return_inverse=True)
        firsts = rows[row[first]], slot[first]
        sums = np.bincount(number, coefficients)
        if self.aspects is not None:
            totals = np.zeros((len(first), self.aspects.shape[-1]))
            np.add.at(totals, number, coefficients[:, None] * self.aspects[used])
            several = np.bincount(number) > 1
            sums = np.where(several, (totals != 0.0).any(axis=1), coefficients[first])
            self.aspects[firsts] = np.where(several[:, None], totals, self.aspects[firsts])
        self.features[rows], self.coefficients[rows] = -1, 0.0
        self.features[firsts], self.coefficients[firsts] = features[first], sums


def general_skill(shape: tuple[int, ...], size: int) -> np.ndarray:
    """Make coefficients of aspects: 1 for the general skill, 0 for others."""
    aspects = np.zeros((*shape, size))
    aspects[..., 0] = 1.0
    return aspects


class Lineup(NamedTuple):
    """A side with its members in several columns.

    Attributes:
        names: columns of names; a missing name is an empty place.
        coefficients: for each of them, a column of coefficients or one number.
    """

    names: tuple[Any, ...]
    coefficients: tuple[Any, ...]


class Vocabulary:
    """The distinct names, with codes in order of appearance."""

    def __init__(self) -> None:
        self._codes: defaultdict[Hashable, int] = defaultdict(count().__next__)

    def __contains__(self, name: Hashable) -> bool:
        return name in self._codes

    def encode(self, column: Column, argument: str) -> np.ndarray:
        """Encode a column of names as int32 codes, adding new names."""
        if isinstance(column, nw.Series) and column.dtype in TEXTS:
            values, inverse = _factorise_texts(column)
            return self.encode(values, argument)[inverse]
        if isinstance(column, nw.Series) and column.dtype.is_integer() and not column.null_count():
            column = column.to_numpy()
        if isinstance(column, np.ndarray) and column.dtype.kind in "iu" and column.size:
            values, inverse = _factorise_integers(column)
            return self.encode(values.tolist(), argument)[inverse]
        codes = np.empty(len(column), np.int32)
        for part, names in chunks(column):
            try:
                codes[part] = np.fromiter(map(self._codes.__getitem__, names), np.int32, len(names))
            except TypeError:
                name = next(name for name in names if not _is_hashable(name))
                raise DataError(
                    "{argument} holds {value}, which cannot be a name",
                    "Use strings or numbers.",
                    argument=argument,
                    value=name,
                ) from None
        return codes

    def names(self) -> list[Hashable]:
        """The names as plain Python values, by code."""
        return list(map(plain, self._codes))

    def missing(self) -> np.ndarray:
        """True for each code with a missing name; the last element is False, for code -1."""
        return np.array([*map(is_missing, self._codes), False])

    def sort(self, features: np.ndarray) -> tuple[tuple[Hashable, ...], np.ndarray]:
        """Sort the names in use, so that their order does not depend on the order of rows.

        Returns:
            The sorted names, and for each code the position of its name; the last element is -1,
            for code -1.
        """
        names = self.names()
        used = np.zeros(len(names) + 1, bool)
        used[features] = True
        codes = sorted(np.flatnonzero(used[:-1]).tolist(), key=lambda code: _sort_key(names[code]))
        _refuse_lookalikes([names[code] for code in codes])
        places = np.full(len(names) + 1, -1, np.int32)
        places[codes] = np.arange(len(codes))
        return tuple(names[code] for code in codes), places


def read_side(
    values: Any, sign: float, vocabulary: Vocabulary, argument: str, num_rows: int
) -> Block:
    """Read one side of each observation, and add new names to the vocabulary.

    `values` has for each observation a name, a list of names or a mapping from names to
    coefficients; or it is a `Lineup` over several columns.
    """
    if isinstance(values, Lineup):
        return _read_lineup(values, sign, vocabulary, argument, num_rows)
    column = as_column(values, argument, num_rows)
    if isinstance(column, nw.Series):
        only_names = not column.dtype.is_nested() and column.dtype != nw.Object
    else:
        only_names = isinstance(column, np.ndarray) and column.ndim == 1 and column.dtype != object
    if not only_names:
        column = to_list(column)
        if any(cell_kind(kind) is not Hashable for kind in set(map(type, column))):
            return _read_cells(column, sign, vocabulary, argument)
    codes = vocabulary.encode(column, argument)[:, None]
    return Block(codes, np.broadcast_to(sign, codes.shape))


def read_covariate(
    name: Hashable, values: Any, vocabulary: Vocabulary, argument: str, num_rows: int
) -> Block:
    """Read a further feature with its coefficients.

    A column of texts is read as labels. Each label is a feature with a coefficient of 1.
    """
    if is_missing(name):
        raise DataError("{argument} has a missing name", argument=argument.partition("[")[0])
    if name in vocabulary:
        raise DataError(
            "{argument} has the name {value}, which is also the name of a competitor",
            "Rename it.",
            argument=argument.partition("[")[0],
            value=name,
        )
    if not isinstance(values, (int, float, np.number)):
        values = as_column(values, argument, num_rows)
        if holds_texts(values):
            labels = to_list(values)
            there = np.array([not is_missing(label) for label in labels])
            codes = vocabulary.encode([Feature(label, str(name)) for label in labels], argument)
            return Block(codes[:, None], np.where(there, 1.0, np.nan)[:, None])
    coefficients = to_floats(values, argument, num_rows)[:, None]
    code = int(vocabulary.encode([name], argument)[0])
    return Block(np.full((num_rows, 1), code, np.int32), coefficients)


def read_further(
    sides: Sequence[Block], labels: Mapping[str, Any], pairs: bool, vocabulary: Vocabulary
) -> dict[str, list[Block]]:
    """Read further skills of the competitors, by label and by opponent.

    The skill of a pair belongs to the opponent whose name is first in sorted order.

    Returns:
        Blocks by argument; slots of missing labels are empty.
    """
    names, further = vocabulary.names(), {}

    def encode(role: str, own: np.ndarray, other: np.ndarray, labels: list) -> np.ndarray:
        """The codes of `Feature(names[own], role, labels[other])`."""
        own, other = np.broadcast_arrays(own, other)
        known = (own >= 0) & (other >= 0)
        keys, places = np.unique(
            own[known] * np.int64(len(labels)) + other[known], return_inverse=True
        )
        both = zip(*np.divmod(keys, max(len(labels), 1)), strict=True)
        codes = np.full(own.shape, -1, np.int32)
        features = [Feature(names[name], role, labels[label]) for name, label in both]
        codes[known] = vocabulary.encode(features, role)[places]
        return codes

    for role, values in labels.items():
        argument = f"interactions[{role!r}]"
        own = Vocabulary()
        codes = own.encode(as_column(values, argument, len(sides[0].features)), argument)
        codes = np.where(own.missing()[codes], np.int32(-1), codes)[:, None]
        further[argument] = [
            Block(encode(role, block.features, codes, own.names()), block.coefficients)
            for block in sides
        ]
    if pairs:
        if any(block.features.shape[1] != 1 for block in sides):
            raise DataError("{argument} needs one name on each side", argument="pairs")
        order = sorted(range(len(names)), key=lambda code: _sort_key(names[code]))
        places = np.argsort(order)
        one, other = (block.features for block in sides)
        swapped = places[one] > places[other]
        low, high = np.where(swapped, other, one), np.where(swapped, one, other)
        coefficients = np.where(swapped, -1.0, 1.0) * sides[0].coefficients
        further["pairs"] = [Block(encode(PAIR, low, high, names), coefficients)]
    return further


def read_home(home: Any, neutral: Any, first: Any, second: Any, num_rows: int) -> np.ndarray:
    """Read the side at home in every match: +1 the first, -1 the second, 0 neither.

    `home` is a column of these numbers or of names, or `None` or `True` if the first side is at
    home. `neutral` is a column that is true for matches on neutral ground, or `None`.
    """
    coefficients = np.ones(num_rows)
    if home is not None and home is not True:
        column = as_column(home, "home", num_rows)
        if is_boolean(column):
            raise DataError(
                "{argument} holds booleans, which do not distinguish neutral ground from the "
                "home of the second side",
                "Pass +1 (first at home), -1 (second) and 0 (neutral), or home=True with neutral=.",
                argument="home",
            )
        cells = to_list(column)
        if any(isinstance(cell, str) for cell in cells):
            coefficients = _match_home(cells, first, second)
        else:
            coefficients = check_home(to_floats(column, "home", num_rows))
    if neutral is not None:
        flags = to_floats(neutral, "neutral", num_rows)
        problem = "{argument} is {value}, but must be true (1) or false (0)"
        _check_values(flags, (0.0, 1.0), "neutral", problem)
        coefficients = coefficients * (1.0 - flags)
    return coefficients


def check_home(values: np.ndarray) -> np.ndarray:
    """Refuse numbers other than +1, -1, 0 and NaN, such as goals."""
    problem = "{argument} is {value}, but must be +1 (first at home), -1 (second) or 0 (neutral)"
    _check_values(
        values, (-1.0, 0.0, 1.0), "home", problem, "Pass other coefficients as covariates=."
    )
    return values


def match_sides(cells: list, first: Any, second: Any) -> np.ndarray | None:
    """Find the side that each cell names: +1 the first, -1 the second, 0 neither.

    Returns:
        The signs; `None` if a side is a line-up.
    """
    if isinstance(first, Lineup) or isinstance(second, Lineup):
        return None
    sides = [to_list(as_column(side, "first")) for side in (first, second)]
    kinds = {kind for side in sides for kind in set(map(type, side))}
    if any(cell_kind(kind) is not Hashable for kind in kinds):
        return None
    signs = np.zeros(len(cells))
    for row, (cell, one, other) in enumerate(zip(cells, *sides, strict=True)):
        if is_missing(cell):
            continue
        if not isinstance(cell, str):
            # The command line reads names as texts, but numeric columns as numbers.
            one, other = plain_value(one), plain_value(other)
        signs[row] = float(cell == one) - float(cell == other)
    return signs


def split_counts(
    first: Block,
    second: Block,
    covariates: Sequence[Block],
    vocabulary: Vocabulary,
    places: tuple[int, int] | None = None,
) -> tuple[Block, Vocabulary]:
    """Make two observations of every match: the count of each side.

    The count of a side depends on its attack, the defence of the other side, the `level` of all
    counts, and the covariates, which have the opposite sign for the second side. `places` has the
    positions of attack and defence among the aspects; `None` if they are separate features.

    Returns:
        Two rows for each match, and the names with new codes.
    """
    names, roles = vocabulary.names(), Vocabulary()
    keys = [[Feature(name, role) for name in names] for role in (ATTACK, DEFENCE)]
    attack, defence = (
        roles.encode(names if places else own, argument)
        for own, argument in zip(keys, ("first", "second"), strict=True)
    )
    same = roles.encode(names, "covariates")
    level = np.full((len(first.features), 1), roles.encode([LEVEL], LEVEL)[0], np.int32)
    shared = Block(level, np.ones(level.shape))

    def recode(block: Block, codes: np.ndarray, sign: float, role: int = 0) -> Block:
        features = np.append(codes, np.int32(-1))[block.features]
        aspects = block.aspects
        if places is not None and aspects is not None:
            aspects = aspects.copy()
            aspects[..., places[role]] = 1.0
        return Block(features, sign * block.coefficients, aspects)

    def side(sign: float, own: Block, other: Block) -> Block:
        extra = [recode(block, same, sign) for block in covariates]
        both = [recode(own, attack, sign, 0), recode(other, defence, sign, 1)]
        return join([*both, *extra, shared])

    return _alternate(side(1.0, first, second), side(-1.0, second, first)), roles


def _alternate(first: Block, second: Block) -> Block:
    """Two observations of every match, one after the other."""

    def mix(one: np.ndarray, other: np.ndarray) -> np.ndarray:
        return np.stack([one, other], axis=1).reshape(-1, *one.shape[1:])

    both = None if first.aspects is None else mix(first.aspects, np.asarray(second.aspects))
    parts = zip(first[:2], second[:2], strict=True)
    return Block(*(mix(*part) for part in parts), aspects=both)


def add_ties(block: Block, sides: Sequence[Block], vocabulary: Vocabulary) -> Block:
    """Make two observations of every match: its score, and its log factor of the margin of ties.

    The second is the sum of a feature of each competitor of both sides, which is added to the
    vocabulary.
    """
    names, both = vocabulary.names(), join(sides)
    used = np.unique(both.features[both.features >= 0])
    codes = np.full(len(names) + 1, -1, np.int32)
    codes[used] = vocabulary.encode([Feature(names[code], TIE) for code in used], TIE)
    return _add_second(block, Block(codes[both.features], np.abs(both.coefficients)))


def add_noise(block: Block, vocabulary: Vocabulary) -> Block:
    """Make two observations of every match: its score, and the log scale of its noise."""
    code, count = vocabulary.encode([NOISE], NOISE)[0], len(block.features)
    return _add_second(block, Block(np.full((count, 1), code, np.int32), np.ones((count, 1))))


def _add_second(block: Block, second: Block) -> Block:
    """Insert the features of a second score after those of every match."""
    second = second.widen(block.features.shape[1])
    size = 0 if block.aspects is None else block.aspects.shape[-1]
    return _alternate(block, second.with_aspects(size))


def join(blocks: Sequence[Block]) -> Block:
    """Join blocks side by side, as new arrays."""
    size = max(0 if block.aspects is None else block.aspects.shape[-1] for block in blocks)
    features, coefficients, aspects = zip(
        *(block.with_aspects(size) for block in blocks), strict=True
    )
    return Block(
        np.concatenate(features, axis=1, dtype=np.int32),
        np.concatenate(coefficients, axis=1, dtype=np.float64),
        np.concatenate(aspects, axis=1, dtype=np.float64) if size else None,
    )


def stack(blocks: Sequence[Block]) -> Block:
    """Join blocks one below the other; all or none have aspects."""
    width = max(block.features.shape[1] for block in blocks)
    parts = zip(*(block.widen(width) for block in blocks), strict=True)
    return Block(*(None if part[0] is None else np.concatenate(part) for part in parts))


def on_both_sides(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return for each observation whether the [N, P] arrays have a feature in common."""
    shared = np.zeros(len(first), bool)
    for slot in second.T:
        shared |= ((first == slot[:, None]) & (slot >= 0)[:, None]).any(axis=1)
    return shared


def _read_lineup(
    lineup: Lineup, sign: float, vocabulary: Vocabulary, argument: str, num_rows: int
) -> Block:
    blocks = []
    for column, part in zip(*lineup, strict=True):
        names = to_list(as_column(column, argument, num_rows))
        there = np.fromiter((not is_missing(name) for name in names), bool, num_rows)
        features = np.full(num_rows, -1, np.int32)
        features[there] = vocabulary.encode(list(compress(names, there)), argument)
        coefficients = np.where(there, sign * to_floats(part, argument, num_rows), 0.0)
        blocks.append(Block(features[:, None], coefficients[:, None]))
    return join(blocks)


def _read_cells(cells: list, sign: float, vocabulary: Vocabulary, argument: str) -> Block:
    """Read names, lists and mappings; cells of the same kind are flattened together."""
    kind_of = {kind: cell_kind(kind) for kind in set(map(type, cells))}
    parts = []
    for kind in (Hashable, Sequence, Mapping):
        rows = np.flatnonzero([kind_of[type(cell)] is kind for cell in cells])
        if rows.size:
            chosen = [cells[row] for row in rows]
            parts.append((rows, *_flatten(chosen, kind, rows, argument)))
    width = max(1, *(int(lengths.max()) for _, lengths, _, _ in parts))
    features = np.full((len(cells), width), -1, np.int32)
    coefficients = np.zeros((len(cells), width))
    for rows, lengths, names, values in parts:
        filled = np.arange(width) < lengths[:, None]
        place = (np.repeat(rows, lengths), np.nonzero(filled)[1])
        features[place] = vocabulary.encode(names, argument)
        coefficients[place] = sign * values
    return Block(features, coefficients)


def cell_kind(kind: type) -> type:
    """The kind of a cell: `Mapping`, `Sequence` for a list of names, or `Hashable` for a name."""
    if issubclass(kind, Mapping):
        return Mapping
    # A `Feature` is a tuple, but not a line-up.
    return Sequence if issubclass(kind, _LISTS) and not issubclass(kind, Feature) else Hashable


def members_of(cell: Any) -> list:
    """The names of a side."""
    return [cell] if cell_kind(type(cell)) is Hashable else list(cell)


def _flatten(
    cells: list, kind: type, rows: np.ndarray, argument: str
) -> tuple[np.ndarray, list, np.ndarray]:
    """The number of names of each cell, all names, and all coefficients."""
    if kind is Hashable:
        return np.ones(len(cells), np.int64), cells, np.ones(len(cells))
    lengths = np.fromiter(map(len, cells), np.int64, len(cells))
    names = list(chain.from_iterable(cells))
    if kind is Sequence:
        return lengths, names, np.ones(len(names))
    values = [value for cell in cells for value in cell.values()]
    try:
        return lengths, names, to_floats(values, argument, len(values))
    except DataError as error:
        # The row of this error is the number of the value.
        place = int(error.row)
        raise DataError(
            f"{{argument}} has the coefficient {{value}} for {names[place]!r}",
            "Coefficients must be numbers.",
            argument=argument,
            row=int(np.repeat(rows, lengths)[place]),
            value=values[place],
        ) from None


def _match_home(cells: list, first: Any, second: Any) -> np.ndarray:
    """Find the side that is named as being at home."""
    signs = match_sides(cells, first, second)
    if signs is None:
        raise DataError(
            "{argument} holds names, but the sides are line-ups",
            "Pass +1 (first at home), -1 (second) and 0 (neutral).",
            argument="home",
        )
    for row in np.flatnonzero(signs == 0.0):
        if not is_missing(cells[row]):
            raise invalid(
                "home",
                cells[row],
                "which is neither side of the match",
                "Pass the side at home, or leave it empty on neutral ground.",
                row=int(row),
            )
    return signs


def _check_values(
    values: np.ndarray, allowed: tuple[float, ...], argument: str, problem: str, remedy: str = ""
) -> None:
    wrong = np.flatnonzero(~np.isin(values, allowed) & ~np.isnan(values))
    if wrong.size:
        row, value = int(wrong[0]), plain(values[wrong[0]])
        raise DataError(problem, remedy, argument=argument, row=row, count=len(wrong), value=value)


def _factorise_texts(series: nw.Series) -> tuple[list, np.ndarray]:
    """Find the distinct texts and the index of each row's text, by the table's own library.

    This is several times faster than a Python dictionary over all rows.
    """
    if series.implementation.is_pandas_like():
        places, values = series.to_native().factorize()
        # Missing texts have the index -1, that of the last element.
        return [*values.tolist(), None], places
    series = series.cast(nw.String).fill_null("")
    # In the order of rows: the order of a set would differ from run to run.
    values = series.unique(maintain_order=True).to_list()
    places = series.replace_strict(values, list(range(len(values))), return_dtype=nw.Int32)
    return values, places.to_numpy()


def _factorise_integers(column: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Find the distinct values and the index of each row's value."""
    low, high = int(column.min()), int(column.max())
    if high - low > 4 * column.size or high >= 2**63:
        values, inverse = np.unique(column, return_inverse=True)
        return values, inverse
    # One pass with a table of the range is faster than sorting.
    shifted = column.astype(np.int64, copy=False) - low
    present = np.zeros(high - low + 1, bool)
    present[shifted] = True
    places = np.cumsum(present, dtype=np.int32) - np.int32(1)
    return np.flatnonzero(present) + low, places[shifted]


def _refuse_lookalikes(names: Sequence[Hashable]) -> None:
    """Refuse names that differ only in surrounding space or in the encoding of their letters."""
    texts = {name for name in names if isinstance(name, str)}
    for name in texts:
        clean = unicodedata.normalize("NFC", name).strip()
        if clean != name and clean in texts:
            raise DataError(
                f"the names {clean!r} and {name!r} look alike",
                "Strip surrounding space and normalise the names (NFC) first.",
            )


def _sort_key(name: Hashable) -> tuple:
    if isinstance(name, (int, float)):
        return (0, name, "")
    if isinstance(name, Feature):
        return (3, _sort_key(name.name), name.role, _sort_key(name.label))
    return (1, 0, name) if isinstance(name, str) else (2, 0, f"{type(name).__name__} {name!r}")


def _is_hashable(name: Any) -> bool:
    try:
        return hash(name) is not None
    except TypeError:
        return False
