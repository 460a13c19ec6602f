"""Cells as what they stand for: names, numbers, flags and results."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, NoReturn

import numpy as np

from jaxkick.cli.files import FileTable

__all__ = ["Cells", "read_flags", "read_names", "read_numbers", "read_outcomes", "read_sides"]

_MISSING = frozenset({"", "na", "n/a", "nan", "null", "none"})
_TRUTHS = {"true": 1.0, "t": 1.0, "yes": 1.0, "y": 1.0, "1": 1.0}
_TRUTHS |= {"false": 0.0, "f": 0.0, "no": 0.0, "n": 0.0, "0": 0.0}
_WINS = ("w", "win", "won", "h", "home", "first", "true", "1-0")
_TIES = ("d", "draw", "drawn", "t", "tie", "tied", "1/2-1/2", "½-½")
_LOSSES = ("l", "loss", "lose", "lost", "a", "away", "second", "false", "0-1")
_RESULTS = {**dict.fromkeys(_WINS, 1.0), **dict.fromkeys(_TIES, 0.0)}
_RESULTS |= dict.fromkeys(_LOSSES, -1.0)
_POINTS = frozenset({0.0, 0.5, 1.0})


class Cells(NamedTuple):
    """A column with what it is called.

    Attributes:
        table: the table that it is of.
        name: its name.
        option: the option that asks for it.
    """

    table: FileTable
    name: str
    option: str

    @property
    def values(self) -> Any:
        """The cells."""
        return self.table.column(self.name, self.option)

    @property
    def texts(self) -> Sequence[str] | None:
        """The cells if they are texts."""
        return self.values if isinstance(self.values, tuple) else None

    def refuse(self, row: int, problem: str) -> NoReturn:
        """Raise an error of one cell, with its place.

        Raises:
            ValueError: always.
        """
        cell = self.values[row]
        shown = cell if isinstance(cell, str) else str(cell)
        raise ValueError(
            f"{self.option} {self.name!r} is {shown!r} on {self.table.place(row)} of "
            f"{self.table.source!r}, {problem}"
        )


def is_missing(text: str) -> bool:
    """Whether a text stands for nothing."""
    return text.casefold() in _MISSING


def read_names(cells: Cells) -> list[str | None]:
    """Names; whole numbers as texts, `None` where nothing stands.

    Raises:
        ValueError: if a cell can be no name.
    """
    if cells.texts is not None:
        return [text or None for text in cells.texts]
    values = cells.values.to_pylist()
    for row, value in enumerate(values):
        if isinstance(value, (list, dict, bytes)):
            cells.refuse(row, "which can be no name; a name is a text or a number.")
    whole = (int(v) if isinstance(v, float) and v.is_integer() else v for v in values)
    return [None if value is None else str(value) for value in whole]


def read_numbers(cells: Cells) -> np.ndarray:
    """Numbers as float64; NaN where nothing stands.

    Raises:
        ValueError: if a cell is no number.
    """
    if cells.texts is None:
        return _arrow_numbers(cells)
    known = {text: _number(text) for text in set(cells.texts)}
    wrong = {text for text, number in known.items() if number is None}
    if wrong:
        row = next(row for row, text in enumerate(cells.texts) if text in wrong)
        remedy = "write decimals with a point" if "," in cells.texts[row] else "leave it empty"
        cells.refuse(row, f"which is no number; {remedy}, or choose another column.")
    return np.array([known[text] for text in cells.texts], np.float64)


def read_flags(cells: Cells) -> np.ndarray:
    """True and false as 1 and 0; NaN where nothing stands.

    Raises:
        ValueError: if a cell is neither.
    """
    if cells.texts is None:
        return _arrow_numbers(cells)
    flags = [math.nan if is_missing(text) else _TRUTHS.get(text.casefold()) for text in cells.texts]
    if None in flags:
        cells.refuse(flags.index(None), "which is neither true nor false (1 or 0, yes or no).")
    return np.array(flags, np.float64)


def read_sides(cells: Cells) -> Any:
    """Who is at home: numbers if all cells are, else names."""
    if cells.texts is None or all(_number(text) is not None for text in set(cells.texts)):
        return read_numbers(cells) if cells.texts is not None else cells.values
    return read_names(cells)


def read_outcomes(cells: Cells, first: Sequence, second: Sequence) -> np.ndarray:
    """Outcomes as numbers: as they are, from words, or from the name of the winner.

    Args:
        cells: the column.
        first: the names of the first side.
        second: the names of the second side.

    Raises:
        ValueError: if a cell is none of them, or numbers leave open what they mean.
    """
    texts = cells.texts
    if texts is None:
        return _arrow_outcomes(cells)
    if all(_number(text) is not None for text in set(texts)):
        return _checked(cells, read_numbers(cells))
    return _from_winners(cells, texts, list(zip(first, second, strict=True)))


def _from_winners(cells: Cells, texts: Sequence[str], pairs: Sequence[tuple]) -> np.ndarray:
    """Outcomes from the name of the winner, or from words where no winner is named."""
    rows = list(zip(texts, pairs, strict=True))
    named = any(text in pair for text, pair in rows if text)
    words = dict.fromkeys(_TIES, 0.0) if named else _RESULTS
    outcomes = np.empty(len(rows))
    for row, (text, (one, other)) in enumerate(rows):
        known = {one: 1.0, other: -1.0} if named else {}
        outcome = known.get(text, words.get(text.casefold()))
        if outcome is None and not is_missing(text):
            cells.refuse(
                row,
                "which is neither a number nor a word such as win, draw and loss (or H, D and A) "
                "nor the name of the winner.",
            )
        outcomes[row] = math.nan if outcome is None else outcome
    return outcomes


def _checked(cells: Cells, numbers: np.ndarray) -> np.ndarray:
    """Refuse the points of chess, which are no results as they are."""
    levels = set(numbers[~np.isnan(numbers)].tolist())
    if 0.5 in levels and levels <= _POINTS:
        cells.refuse(
            int(np.argmax(numbers == 0.5)),
            "half a point; give wins, ties and losses as 1, 0 and -1, or in words.",
        )
    return numbers


def _arrow_numbers(cells: Cells) -> np.ndarray:
    import pyarrow as pa

    try:
        column = cells.values.cast(pa.float64())
    except pa.ArrowException:
        cells.refuse(0, f"but the column holds {cells.values.type}; numbers are needed.")
    return column.to_numpy(zero_copy_only=False).astype(np.float64)


def _arrow_outcomes(cells: Cells) -> np.ndarray:
    import pyarrow as pa

    numbers = _arrow_numbers(cells)
    return (
        2.0 * numbers - 1.0 if pa.types.is_boolean(cells.values.type) else _checked(cells, numbers)
    )


def _number(text: str) -> float | None:
    """A number, NaN for nothing, `None` for any other text."""
    if is_missing(text):
        return math.nan
    try:
        # Python reads underscores between digits, which tables do not mean.
        return None if "_" in text else float(text)
    except ValueError:
        return None
