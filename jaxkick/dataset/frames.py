"""Columns out of tables: pandas, polars, pyarrow, and mappings from names to columns."""

from collections.abc import Callable, Hashable, Mapping
from typing import Any, NamedTuple

import narwhals as nw
import numpy as np

from jaxkick.dataset.columns import as_column, to_floats
from jaxkick.dataset.features import Lineup
from jaxkick.dataset.home import HOME, read_home
from jaxkick.dataset.recipe import Recipe
from jaxkick.dataset.validation import unknown_column

__all__ = ["Columns", "library_of", "read_frame"]


class Columns(NamedTuple):
    """What a table says, column by column.

    Attributes:
        times: the time of each match.
        first: the first side, for `read_side`.
        second: the second side.
        outcome: outcomes as `Table` takes them.
        weight: weights, or `None`.
        covariates: coefficients of further features by name, the home advantage among them.
        labels: what arguments are called in errors.
    """

    times: Any
    first: Any
    second: Any
    outcome: Any
    weight: Any
    covariates: dict[Hashable, Any]
    labels: dict[str, str]


def library_of(frame: Any) -> str | None:
    """The library that a table is of; `None` for a mapping from names to columns.

    Raises:
        ValueError: if it is no table.
    """
    if isinstance(frame, Mapping):
        return None
    try:
        table = nw.from_native(frame, eager_only=True, pass_through=True)
    except nw.exceptions.DuplicateError as error:
        raise ValueError(
            f"`frame` has columns of one name ({' '.join(str(error).split())}); rename them."
        ) from None
    if not isinstance(table, nw.DataFrame):
        raise ValueError(
            f"`frame` is a {type(frame).__name__}, but must be a table of pandas, polars or "
            "pyarrow that is held in memory (collect a lazy one first), or a mapping from names to "
            "columns."
        )
    return table.implementation.value


def read_frame(frame: Any, recipe: Recipe, with_outcome: bool = True) -> Columns:
    """The columns that a user named, and what to call them in errors.

    Args:
        frame: the table.
        recipe: what its columns mean.
        with_outcome: whether to read outcomes and weights; matches yet to come have none.

    Returns:
        The columns.

    Raises:
        ValueError: if the table is of an unknown kind, or lacks a column.
    """
    reader = _Reader(frame)
    first, second = reader.side("first", recipe.first), reader.side("second", recipe.second)
    num_rows = len(first.names[0] if isinstance(first, Lineup) else first)
    times = reader.column("time", recipe.time, "times")
    if not isinstance(recipe.time, str):
        times = np.full(num_rows, times, np.float64)
    outcome, weight = None, None
    if with_outcome:
        outcome = _read_outcome(reader, recipe, num_rows)
        weight = reader.column("weight", recipe.weight, optional=True)
    covariates = {}
    if recipe.has_home:
        home = recipe.home if recipe.home is True else reader.column("home", recipe.home, "", True)
        neutral = reader.column("neutral", recipe.neutral, "", True)
        covariates[HOME] = read_home(home, neutral, first, second, reader.label, num_rows)
        argument = "home" if isinstance(recipe.home, str) else "neutral"
        reader.labels[f"covariates[{HOME!r}]"] = reader.label(argument)
    for name, value in recipe.covariates:
        argument = f"covariates[{name!r}]"
        covariates[name] = reader.column(argument, value)
    return Columns(times, first, second, outcome, weight, covariates, reader.labels)


class _Reader:
    """Takes columns out of a table, and notes what they are called."""

    def __init__(self, frame: Any):
        library = library_of(frame)
        self.table = frame if library is None else nw.from_native(frame, eager_only=True)
        self.names = list(frame) if library is None else self.table.columns
        self.labels: dict[str, str] = {}

    def label(self, argument: str) -> str:
        """The user's name for an argument."""
        return self.labels.get(argument, argument)

    def column(self, argument: str, value: Any, key: str = "", optional: bool = False) -> Any:
        """A column by its name; numbers, and `None` where it is optional, as they are."""
        key = key or argument
        self.labels[key] = argument
        if isinstance(value, str):
            if value not in self.names:
                unknown_column(argument, value, self.names)
            self.labels[key] = f"{argument}={value!r}"
            return as_column(self.table[value], argument)
        if (value is None and optional) or _is_number(value):
            return value
        raise ValueError(f"`{argument}` is {value!r}, but must be the name of a column.")

    def side(self, argument: str, columns: str | tuple[tuple[str, str | float], ...]) -> Any:
        """The column of one side, or its line-up."""
        if isinstance(columns, str):
            return self.column(argument, columns)
        names, parts = zip(*columns, strict=True)
        lineup = Lineup(
            tuple(self.column(argument, name) for name in names),
            tuple(self.column(argument, part) for part in parts),
        )
        self.labels[argument] = argument
        return lineup


def _read_outcome(reader: _Reader, recipe: Recipe, num_rows: int) -> Any:
    """Outcomes; two columns for two counts of every match."""
    rules: dict[str, Callable[..., Any]] = {
        "result": lambda first, second: np.sign(first - second),
        "difference": np.subtract,
        "counts": lambda first, second: (first, second),
    }
    for argument, rule in rules.items():
        pair = getattr(recipe, argument)
        if pair is not None:
            points = [reader.column(argument, name) for name in pair]
            label = f"{argument}={pair!r}"
            reader.labels["outcome"] = label
            return rule(*(to_floats(column, label, num_rows) for column in points))
    return reader.column("outcome", recipe.outcome, optional=True)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
