"""From a file to the table that `Dataset.from_frame` takes, and errors back to lines."""

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jaxkick import Dataset
from jaxkick.cli import console
from jaxkick.cli.cells import (
    Cells,
    read_flags,
    read_names,
    read_numbers,
    read_outcomes,
    read_sides,
)
from jaxkick.cli.dates import read_times
from jaxkick.cli.errors import UsageError, in_options
from jaxkick.cli.files import FileTable, read_table
from jaxkick.cli.options import Invalid, TimeUnit
from jaxkick.dataset.recipe import Recipe

__all__ = ["Source", "explained", "make_dataset", "read_matches"]

_TO_NUMBERS = ("result", "difference", "counts")
_ARGUMENTS = ("time", "first", "second", "outcome", *_TO_NUMBERS, "home", "neutral", "weight")


@dataclass(frozen=True)
class Source:
    """A file and how to read it.

    Attributes:
        path: the file.
        encoding: the encoding of its text; found if `None`.
        delimiter: what stands between its cells; found if `None`.
        date_format: the format of its dates; found if `None`.
    """

    path: Path
    encoding: str | None = None
    delimiter: str | None = None
    date_format: str | None = None

    def table(self) -> FileTable:
        """The file as columns of cells."""
        return read_table(self.path, self.encoding, self.delimiter)


def read_matches(
    source: Source, recipe: Recipe, with_outcome: bool = True
) -> tuple[dict[str, Any], FileTable]:
    """The columns that a recipe names, as names, numbers and times.

    Args:
        source: the file.
        recipe: what its columns mean.
        with_outcome: whether there are outcomes and weights; matches to come have none.

    Returns:
        The columns by name, and the table of cells that they are of.

    Raises:
        UsageError: if a column is missing, or asked to be two things.
        ValueError: if a cell cannot be read.
    """
    table = source.table()
    frame = _Frame(table)
    if isinstance(recipe.time, str):
        cells = Cells(table, recipe.time, "--time")
        frame.add(recipe.time, "a time", lambda: read_times(cells, source.date_format))
    first, second = (frame.side(getattr(recipe, side), f"--{side}") for side in ("first", "second"))
    if isinstance(recipe.home, str):
        frame.either(recipe.home, "--home-column")
    if recipe.neutral is not None:
        flags = Cells(table, recipe.neutral, "--neutral")
        frame.add(recipe.neutral, "a flag", lambda: read_flags(flags))
    for name, column in recipe.covariates:
        frame.number(column, f"the covariate {name!r},")
    if with_outcome:
        frame.number(recipe.weight, "--weight")
        for argument in _TO_NUMBERS:
            for column, side in zip(
                getattr(recipe, argument) or (), ("first", "second"), strict=False
            ):
                frame.number(column, f"--score-{side}")
        if isinstance(recipe.outcome, str):
            outcomes = Cells(table, recipe.outcome, "--outcome")
            frame.add(recipe.outcome, "an outcome", lambda: read_outcomes(outcomes, first, second))
        _tell_of_repeats(table, frame.columns)
    return frame.columns, table


class _Frame:
    """Columns in the making, each of one meaning."""

    def __init__(self, table: FileTable):
        self.table = table
        self.columns: dict[str, Any] = {}
        self._meanings: dict[str, str] = {}

    def add(self, name: str, meaning: str, read: Any) -> Any:
        known = self._meanings.get(name)
        if known is None:
            self.columns[name], self._meanings[name] = read(), meaning
        elif known != meaning:
            raise UsageError(f"the column {name!r} is asked to be both {known} and {meaning}.")
        return self.columns[name]

    def number(self, name: Any, option: str) -> None:
        if isinstance(name, str):
            cells = Cells(self.table, name, option)
            self.add(name, "a number", lambda: read_numbers(cells))

    def either(self, name: str, option: str) -> None:
        """A column of numbers or of names, which may be that of a side."""
        if self._meanings.get(name) != "a name":
            cells = Cells(self.table, name, option)
            self.add(name, "who is at home", lambda: read_sides(cells))

    def side(self, columns: Any, option: str) -> list:
        """The names of a side; of its first place if it is a line-up."""
        if isinstance(columns, str):
            cells = Cells(self.table, columns, option)
            return self.add(columns, "a name", lambda: read_names(cells))
        for _, part in columns:
            self.number(part, option)
        sides = [self.side(names, option) for names, _ in columns]
        return sides[0]


def make_dataset(
    frame: dict[str, Any],
    table: FileTable,
    recipe: Recipe,
    unit: TimeUnit | None,
    on_invalid: Invalid,
) -> Dataset:
    """The data set of a table; errors say the line of the file.

    Args:
        frame: the columns.
        table: the table of cells that they are of.
        recipe: what they mean.
        unit: the unit that dates are counted in.
        on_invalid: what to do with rows that cannot be used.
    """
    arguments = {name: getattr(recipe, name) for name in _ARGUMENTS}
    with explained(table):
        return Dataset.from_frame(
            frame,
            **arguments,
            unit=None if unit is None else unit.value,
            on_invalid=on_invalid.value,
        )


@contextmanager
def explained(table: FileTable) -> Iterator[None]:
    """Errors with the line of the file; warnings as notes.

    Args:
        table: the table that rows in errors are of.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        try:
            yield
        except UsageError:
            raise
        except ValueError as error:
            raise ValueError(_with_line(str(error), table)) from error
    for warning in caught:
        console.note(in_options(_with_line(str(warning.message), table)))


def _with_line(message: str, table: FileTable) -> str:
    found = re.search(r"\brows? (\d+)", message)
    if found is None or table.lines is None or int(found[1]) >= table.num_rows:
        return message
    row = int(found[1])
    return f"{message} Row {row} is {table.place(row)} of {table.source!r}."


def _tell_of_repeats(table: FileTable, columns: dict[str, Any]) -> None:
    again = table.repeated(columns)
    if again:
        console.note(
            f"{table.source!r} has rows that say the same as an earlier one: "
            f"{table.places(again)}. Each of them counts."
        )
