"""Errors about invalid input, and checks that raise them or drop rows."""

import difflib
import sys
import warnings
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np

OnInvalid: TypeAlias = Literal["raise", "drop"]

_SHOWN = 5
_DROP = "on_invalid='drop'"


_backticks = "`{}`".format


class DataError(ValueError):
    """Invalid input.

    The message names the row or argument, the value, what is allowed, and the remedy, for
    example "Row 17: `date` is missing (3 rows affected). Drop the row, or pass
    `on_invalid='drop'`." Programs can read the same information from the attributes.

    Attributes:
        problem: the problem, without a final period. `{argument}` stands for the name of the
            argument and `{value}` for the invalid value.
        remedy: one or more sentences on how to fix it, with the same placeholders.
        argument: the name of the invalid argument, or `None`.
        column: the column of the user's table that the argument refers to, or a pair of columns.
        row: the first invalid row, counted from 0, or `None`.
        count: the number of invalid rows.
        value: the invalid value, or `None`.
        mentions: other arguments in braces in the texts, such as `{min_matches}`.
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
        """Format the message.

        Args:
            name: function that formats the name of an argument, for instance as an option of the
                command line.
            place: function that formats a row number, for instance as a line of a file.
        """
        text = self.described(name)
        text = f"{text[:1].upper()}{text[1:]}" if self.row is None else f"{place(self.row)}: {text}"
        if self.count > 1:
            text = f"{text} ({self.count:,} rows affected)"
        return f"{text}. {self._fill(self.remedy, name)}" if self.remedy else f"{text}."

    def described(self, name: Callable[[str], str] = _backticks) -> str:
        """Format the problem, without row and remedy."""
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


def invalid(
    argument: str, value: object, problem: str, remedy: str = "", **where: Any
) -> DataError:
    """Make the error "`argument` is value, problem"; `where` has row, count and mentions."""
    text = f"{{argument}} is {{value}}, {problem}"
    return DataError(text, remedy, argument=argument, value=value, **where)


def check_choice(argument: str, value: object, allowed: Sequence[object]) -> None:
    """Refuse a value that is not one of a few."""
    if value not in allowed:
        raise invalid(argument, value, f"but must be {' or '.join(map(repr, allowed))}")


def check_count(argument: str, value: object) -> None:
    """Refuse a number of things that is not positive and whole."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
        raise invalid(argument, value, "but must be a positive whole number")


def check_least(argument: str, value: float, least: int = 1) -> None:
    """Refuse a number below a bound."""
    if value < least:
        raise invalid(argument, value, f"but must be at least {least}")


def check_probability(argument: str, value: float) -> None:
    """Refuse a number that is not between zero and one, such as 90."""
    if not 0.0 < value < 1.0:
        remedy = "Pass {argument}=0.9, for example."
        raise invalid(argument, value, "but must be a probability between 0 and 1", remedy)


class DroppedWarning(UserWarning):
    """A warning about dropped rows that a front end can format, like a `DataError`.

    Attributes:
        dropped: the number of dropped rows, as text.
        reasons: the number of observations, the error and the rows for each reason.
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
        """Format counts, reasons and rows; `name` formats an argument and `places` formats rows."""
        places = places or _list_rows
        reasons = [
            f"{count:,} because {error.described(name)} ({places(rows)})"
            for count, error, rows in self.reasons
        ]
        return f"{self.dropped}: {'; '.join(reasons)}"


class Checks:
    """A collector of the invalid rows of a table and the reasons.

    With `on_invalid="raise"` the first invalid row raises a `DataError`. With `"drop"` invalid
    rows are collected, and `kept` warns once with their counts and reasons. If a row has several
    observations, each of them is kept or dropped separately.

    Args:
        num_rows: number of rows of the table.
        on_invalid: `"raise"` or `"drop"`.
        copies: number of consecutive observations per row.
        columns: the column of the user's table for each argument, if there is one.
        rows: the row of the user's table for each row; the same if `None`.
        events: the event of each row, if rows are sides of events; an event with an invalid row
            is dropped as a whole.
    """

    def __init__(
        self,
        num_rows: int,
        on_invalid: OnInvalid = "raise",
        copies: int = 1,
        columns: Mapping[str, object] | None = None,
        rows: np.ndarray | None = None,
        events: np.ndarray | None = None,
    ):
        check_choice("on_invalid", on_invalid, ("raise", "drop"))
        if num_rows == 0:
            raise DataError("The table is empty", "A data set needs at least one observation.")
        self._drop = on_invalid == "drop"
        self._copies = copies
        self._columns = columns or {}
        self._rows = np.arange(num_rows) if rows is None else rows
        self._events = events
        self._bad = np.zeros(num_rows * copies, bool)
        self._unwanted = np.zeros(num_rows * copies, bool)
        self._reasons: list[tuple[int, DataError, np.ndarray]] = []

    def refuse(
        self,
        bad: np.ndarray | np.bool,
        problem: str,
        remedy: str,
        argument: str | None = None,
        values: np.ndarray | None = None,
        mentions: Sequence[str] = (),
    ) -> None:
        """Reject the rows or observations where `bad` is True.

        `problem`, `remedy`, `argument` and `mentions` are as in `DataError`, but `remedy` has no
        final period. The message shows the first rejected element of `values`.
        """
        bad = np.asarray(bad)
        if not bad.any():
            return
        fresh = np.repeat(bad, self._bad.size // bad.size) & ~self._bad
        rows = np.unique(self._rows[fresh.reshape(-1, self._copies).any(axis=1)])
        if not rows.size:
            return
        error = DataError(
            problem,
            f"{remedy}, or pass {{{_DROP}}}.",
            mentions=[_DROP, *mentions],
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

    def leave_out(self, unwanted: np.ndarray) -> None:
        """Leave out rows that the user does not want, without a warning."""
        self._unwanted |= unwanted

    def kept(self) -> np.ndarray | None:
        """Return the indices of valid observations, `None` for all, and warn about dropped ones."""
        if self._reasons:
            self._drop_events()
            unit = "rows" if self._copies == 1 else "observations"
            unit = unit if self._events is None else "sides"
            dropped = f"{self._bad.sum():,} of {self._bad.size:,} {unit}"
            warning = DroppedWarning(dropped, self._reasons)
            if (self._bad | self._unwanted).all():
                raise DataError(f"No observation is left after dropping {warning.described()}")
            warn_caller(warning)
        out = self._bad | self._unwanted
        return np.flatnonzero(~out) if out.any() else None

    def _drop_events(self) -> None:
        """Drop all rows of an event that has an invalid row."""
        if self._events is None:
            return
        others = np.isin(self._events, self._events[self._bad]) & ~self._bad
        if others.any():
            error = DataError("another side of the event is invalid")
            self._reasons.append((int(others.sum()), error, np.unique(self._rows[others])))
            self._bad |= others


def _list_rows(rows: np.ndarray) -> str:
    """Format the first few rows and the number of others: "rows 3, 8 and 20 more"."""
    if rows.size == 1:
        return f"row {rows[0]}"
    more = rows.size > _SHOWN
    shown = [f"{row}" for row in (rows[:_SHOWN] if more else rows[:-1])]
    return f"rows {', '.join(shown)} and {f'{rows.size - _SHOWN:,} more' if more else rows[-1]}"


def suggest_names(name: Hashable, names: Iterable[Hashable]) -> str:
    """Return a sentence with the closest known names, or a pointer to all names."""
    return did_you_mean(name, names) or "See `data.names` for the known names."


def did_you_mean(name: Hashable, known: Iterable[Hashable]) -> str:
    """Return a question with the closest names, ignoring case; empty if no name is close.

    Names are also close if one contains the other, such as "bayern" and "FC Bayern München".
    """
    wanted, folded = str(name).casefold(), {str(each).casefold(): each for each in known}
    close = [wanted] if wanted in folded else difflib.get_close_matches(wanted, folded, n=3)
    if not close and wanted:
        within = [each for each in folded if each and (wanted in each or each in wanted)]
        close = sorted(within, key=lambda each: abs(len(each) - len(wanted)))[:3]
    hint = " or ".join(repr(folded[each]) for each in close)
    return f"Did you mean {hint}?" if hint else ""


def plain(value: Any) -> Any:
    """Convert a NumPy scalar to a Python value, and a float without fraction to an integer.

    Tables convert integers to floats if one of them is missing.
    """
    value = value.item() if isinstance(value, np.generic) else value
    return int(value) if isinstance(value, float) and value.is_integer() else value


def warn_caller(warning: Warning) -> None:
    """Warn at the first stack frame outside of jaxkick and of libraries that wrap its methods."""
    level, frame = 1, sys._getframe()
    inside = ("jaxkick.", "equinox.", "jaxtyping.")
    while frame.f_back is not None and frame.f_globals["__name__"].startswith(inside):
        level, frame = level + 1, frame.f_back
    warnings.warn(warning, stacklevel=level)
