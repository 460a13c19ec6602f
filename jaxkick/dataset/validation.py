"""Refusing what cannot be used, or leaving it out: with the argument, the row and the remedy."""

import difflib
import sys
import warnings
from collections.abc import Hashable, Iterable
from typing import Any, Literal, NoReturn, TypeAlias

import numpy as np

__all__ = ["Checks", "OnInvalid", "list_rows", "suggest_names", "unknown_column"]

OnInvalid: TypeAlias = Literal["raise", "drop"]

_SHOWN = 5


class Checks:
    """The rows of a table that cannot be used, and why.

    With `on_invalid="raise"` the first refusal raises; with `"drop"` refusals gather, and
    `kept` warns of them once. A row may make several observations, of which each is refused
    or kept on its own.
    """

    def __init__(self, num_rows: int, on_invalid: OnInvalid = "raise", copies: int = 1):
        """Start with every row in use.

        Args:
            num_rows: number of rows of the table.
            on_invalid: `"raise"` or `"drop"`.
            copies: how many observations a row makes, one after the other.

        Raises:
            ValueError: if the table is empty or `on_invalid` is something else.
        """
        if on_invalid not in ("raise", "drop"):
            raise ValueError(f"`on_invalid` is {on_invalid!r}, but must be 'raise' or 'drop'.")
        if num_rows == 0:
            raise ValueError("the table is empty; a data set needs at least one observation.")
        self._drop = on_invalid == "drop"
        self._copies = copies
        self._bad = np.zeros(num_rows * copies, bool)
        self._reasons: list[str] = []

    def refuse(
        self, bad: np.ndarray | np.bool, problem: str, remedy: str, values: Any = None
    ) -> None:
        """Refuse the rows where `bad` holds.

        Args:
            bad: one boolean for each row, or for each observation.
            problem: what is wrong, with the argument in front ("`times` is missing").
            remedy: what the user can do ("give every observation a time").
            values: the argument's values, to show the first bad one.

        Raises:
            ValueError: if there is such a row and rows are not dropped.
        """
        bad = np.asarray(bad)
        if not bad.any():
            return
        if not self._drop:
            example = "" if values is None else f" (here {values[int(np.argmax(bad))]!s})"
            raise ValueError(
                f"{problem} in {self._rows(bad)}{example}; {remedy}, "
                "or pass `on_invalid='drop'` to leave such rows out."
            )
        bad = np.repeat(bad, self._bad.size // bad.size)
        fresh = bad & ~self._bad
        if fresh.any():
            self._reasons.append(f"{fresh.sum():,} because {problem} ({self._rows(fresh)})")
            self._bad |= bad

    def kept(self) -> np.ndarray | None:
        """The numbers of the observations to keep, or `None` for all; warns if any is dropped.

        Raises:
            ValueError: if no observation is left.
        """
        if not self._reasons:
            return None
        unit = "rows" if self._copies == 1 else "observations"
        report = f"{self._bad.sum():,} of {self._bad.size:,} {unit}: {'; '.join(self._reasons)}."
        if self._bad.all():
            raise ValueError(f"no observation is left after dropping {report}")
        warnings.warn(f"Dropped {report}", UserWarning, stacklevel=_level_of_caller())
        return np.flatnonzero(~self._bad)

    def _rows(self, bad: np.ndarray) -> str:
        """The rows of the table in words."""
        copies = bad.size * self._copies // self._bad.size
        return list_rows(bad.reshape(-1, copies).any(axis=1))


def _level_of_caller() -> int:
    """How far up the user's own line is, for a warning of the function that asks."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals["__name__"].startswith("jaxkick."):
        level, frame = level + 1, frame.f_back
    return level


def list_rows(bad: np.ndarray) -> str:
    """The first few rows where `bad` holds, and their number: "rows 3, 8 and 20 more"."""
    rows = np.flatnonzero(bad)
    shown = [f"{row}" for row in rows[:_SHOWN]]
    if rows.size == 1:
        return f"row {shown[0]}"
    if rows.size > _SHOWN:
        return f"rows {', '.join(shown)} and {rows.size - _SHOWN:,} more"
    return f"rows {', '.join(shown[:-1])} and {shown[-1]}"


def unknown_column(argument: str, name: str, columns: Iterable[str]) -> NoReturn:
    """Refuse a column that the table lacks, with the closest names it has.

    Raises:
        ValueError: always.
    """
    columns = [str(column) for column in columns]
    suggestion = _close_to(name, columns) or f"its columns are {', '.join(columns)}."
    raise ValueError(f"`{argument}` names the column {name!r}, which the table lacks; {suggestion}")


def suggest_names(name: Hashable, names: Iterable[Hashable]) -> str:
    """What to do about a name that is not known: the closest names, or where to find them."""
    suggestion = _close_to(name, [each for each in names if isinstance(each, str)])
    return suggestion or "look for its name in `data.names`."


def _close_to(name: Hashable, known: list[str]) -> str:
    """The closest names as a question; nothing if none is close."""
    close = difflib.get_close_matches(str(name), known, n=3)
    # A difference of case alone is too far for difflib in short names.
    close = close or [each for each in known if each.lower() == str(name).lower()]
    hint = " or ".join(repr(each) for each in close)
    return f"did you mean {hint}?" if hint else ""
