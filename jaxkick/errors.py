"""The error for input that jaxkick cannot use, and checks that raise it or drop rows."""

import difflib
import sys
import warnings
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np

__all__ = [
    "Checks",
    "DataError",
    "DroppedWarning",
    "OnInvalid",
    "did_you_mean",
    "plain",
    "suggest_names",
]

OnInvalid: TypeAlias = Literal["raise", "drop"]

_SHOWN = 5
_DROP = "on_invalid='drop'"


_backticks = "`{}`".format


class DataError(ValueError):
    """Input that cannot be used, with everything a front end needs to explain it.

    `str(error)` reads, for instance, "Row 17: `date` is missing (3 rows affected). Drop the
    row or pass `on_invalid='drop'`."

    Attributes:
        problem: what is wrong, without a final period. `{argument}` stands for the name of the
            argument and `{value}` for the offending value.
        remedy: what the user can do, as one or more sentences; may hold the same fields.
        argument: the name of the argument at fault, if there is one.
        column: the column of the user's table that the argument names, or a pair of them.
        row: the first row at fault, counted from 0, if there is one.
        count: the number of rows at fault.
        value: the offending value, if there is one.
        mentions: other arguments that the texts name in braces, such as `{min_matches}`.
    """

    def __init__(
        self,
        problem: str,
        remedy: str = "",
        *,
        argument: str | None = None,
        column: object = None,
        row: int | None = None,
        count: int = 1,
        value: object = None,
        mentions: Sequence[str] = (),
    ):
        self.problem = problem
        self.remedy = remedy
        self.argument = argument
        self.column = column
        self.row = row
        self.count = count
        self.value = value
        self.mentions = tuple(mentions)
        super().__init__(problem)

    def __str__(self) -> str:
        return self.message()

    def message(
        self,
        name: Callable[[str], str] = _backticks,
        place: Callable[[int], str] = "Row {}".format,
    ) -> str:
        """The text of the error.

        Args:
            name: shows an argument; the command line shows its option instead.
            place: shows a row; the command line shows the line of the file instead.
        """
        text = self.described(name)
        if self.row is not None:
            text = f"{place(self.row)}: {text}"
        if self.count > 1:
            text = f"{text} ({self.count:,} rows affected)"
        return f"{text}. {self._fill(self.remedy, name)}" if self.remedy else f"{text}."

    def described(self, name: Callable[[str], str] = _backticks) -> str:
        """The problem alone, without row and remedy."""
        return self._fill(self.problem, name)

    def _fill(self, text: str, name: Callable[[str], str]) -> str:
        shown = "" if self.argument is None else name(self.argument)
        if isinstance(self.column, tuple):
            shown += f" (columns {' and '.join(map(repr, self.column))})"
        elif self.column is not None:
            shown += f" (column {self.column!r})"
        # Not `str.format`: names of competitors may hold braces.
        for mention in self.mentions:
            text = text.replace(f"{{{mention}}}", name(mention))
        return text.replace("{argument}", shown).replace("{value}", repr(self.value))


class DroppedWarning(UserWarning):
    """Rows that were dropped; like `DataError` it can be shown in the words of a front end.

    Attributes:
        dropped: the number of rows in words.
        reasons: for each reason the number of observations, the error, and the rows.
    """

    def __init__(self, dropped: str, reasons: Sequence[tuple[int, DataError, np.ndarray]]):
        self.dropped = dropped
        self.reasons = tuple(reasons)
        super().__init__(dropped, self.reasons)

    def __str__(self) -> str:
        return f"Dropped {self.described()}."

    def described(
        self,
        name: Callable[[str], str] = _backticks,
        places: Callable[[np.ndarray], str] | None = None,
    ) -> str:
        """The counts, reasons and rows; `name` shows an argument and `places` shows rows."""
        places = places or _list_rows
        reasons = [
            f"{count:,} because {error.described(name)} ({places(rows)})"
            for count, error, rows in self.reasons
        ]
        return f"{self.dropped}: {'; '.join(reasons)}"


class Checks:
    """Collects the rows of a table that cannot be used, and why.

    With `on_invalid="raise"` the first refusal raises a `DataError`. With `"drop"` refusals are
    collected, and `kept` warns once with their counts and reasons. A row may make several
    observations, each of which is refused or kept on its own.

    Args:
        num_rows: number of rows of the table.
        on_invalid: `"raise"` or `"drop"`.
        copies: number of observations that a row makes, one after the other.
        columns: the column of the user's table that each argument names, if any.
    """

    def __init__(
        self,
        num_rows: int,
        on_invalid: OnInvalid = "raise",
        copies: int = 1,
        columns: Mapping[str, object] | None = None,
    ):
        if on_invalid not in ("raise", "drop"):
            raise DataError(
                "{argument} is {value}, but must be 'raise' or 'drop'",
                argument="on_invalid",
                value=on_invalid,
            )
        if num_rows == 0:
            raise DataError("The table is empty", "A data set needs at least one observation.")
        self._drop = on_invalid == "drop"
        self._copies = copies
        self._columns = columns or {}
        self._bad = np.zeros(num_rows * copies, bool)
        self._reasons: list[tuple[int, DataError, np.ndarray]] = []

    def refuse(
        self,
        bad: np.ndarray | np.bool,
        problem: str,
        remedy: str,
        argument: str | None = None,
        values: np.ndarray | None = None,
    ) -> None:
        """Refuse the rows where `bad` (by row or by observation) is True.

        `problem` and `argument` are those of `DataError`, `remedy` too but without its final
        period. The first refused one of `values` is shown.
        """
        bad = np.asarray(bad)
        if not bad.any():
            return
        fresh = np.repeat(bad, self._bad.size // bad.size) & ~self._bad
        rows = np.flatnonzero(fresh.reshape(-1, self._copies).any(axis=1))
        if not rows.size:
            return
        error = DataError(
            problem,
            f"{remedy}, or pass {{{_DROP}}}.",
            mentions=[_DROP],
            argument=argument,
            column=self._columns.get(argument or ""),
            row=int(rows[0]),
            count=len(rows),
            value=None if values is None else plain(values[int(np.argmax(bad))]),
        )
        if not self._drop:
            raise error
        self._reasons.append((int(fresh.sum()), error, rows))
        self._bad |= fresh

    def kept(self) -> np.ndarray | None:
        """The numbers of the observations to keep, `None` for all; warns if any is dropped."""
        if not self._reasons:
            return None
        unit = "rows" if self._copies == 1 else "observations"
        warning = DroppedWarning(f"{self._bad.sum():,} of {self._bad.size:,} {unit}", self._reasons)
        if self._bad.all():
            raise DataError(f"No observation is left after dropping {warning.described()}")
        _warn_caller(warning)
        return np.flatnonzero(~self._bad)


def _list_rows(rows: np.ndarray) -> str:
    """Show the first few rows and their number: "rows 3, 8 and 20 more"."""
    if rows.size == 1:
        return f"row {rows[0]}"
    more = rows.size > _SHOWN
    shown = [f"{row}" for row in (rows[:_SHOWN] if more else rows[:-1])]
    return f"rows {', '.join(shown)} and {f'{rows.size - _SHOWN:,} more' if more else rows[-1]}"


def suggest_names(name: Hashable, names: Iterable[Hashable]) -> str:
    """A sentence with the closest known names, or where to find all of them."""
    return did_you_mean(name, map(str, names)) or "See `data.names` for the known names."


def did_you_mean(name: Hashable, known: Iterable[str]) -> str:
    """A question with the closest names, whatever their case; empty if none is close.

    A name that contains the other is close, too: "bayern" is close to "FC Bayern München".
    """
    wanted, folded = str(name).casefold(), {each.casefold(): each for each in known}
    close = [wanted] if wanted in folded else difflib.get_close_matches(wanted, folded, n=3)
    if not close and wanted:
        within = [each for each in folded if each and (wanted in each or each in wanted)]
        close = sorted(within, key=lambda each: abs(len(each) - len(wanted)))[:3]
    hint = " or ".join(repr(folded[each]) for each in close)
    return f"Did you mean {hint}?" if hint else ""


def plain(value: Any) -> Any:
    """A Python value for NumPy's scalars, and an integer for a whole float.

    Tables turn integers into floats when one of them is missing.
    """
    value = value.item() if isinstance(value, np.generic) else value
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _warn_caller(warning: Warning) -> None:
    """Warn at the first frame outside jaxkick and the type checks that its tests put around it."""
    level, frame = 1, sys._getframe()
    inside = ("jaxkick.", "jaxtyping.")
    while frame.f_back is not None and frame.f_globals["__name__"].startswith(inside):
        level, frame = level + 1, frame.f_back
    warnings.warn(warning, stacklevel=level)
