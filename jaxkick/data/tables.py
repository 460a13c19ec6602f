"""Make tables of results and observations, in the user's library or as plain columns."""

import abc
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from typing import Any

import narwhals as nw
import numpy as np

from jaxkick.data.columns import show_time
from jaxkick.data.observations import Observations
from jaxkick.data.outcomes import write_outcomes
from jaxkick.data.ranking_tables import dense_places
from jaxkick.data.schema import ATTACK, DEFENCE, HOME, WINNER, Feature, Schema
from jaxkick.errors import DataError, invalid

_SHOWN = 20


class Columns(dict[str, np.ndarray]):
    """A table as a mapping from names to columns, for data without a library.

    `pandas.DataFrame(columns)` and `polars.DataFrame(columns)` accept it.
    """

    def __repr__(self) -> str:
        length = max(map(len, self.values()), default=0)
        texts = {name: [str(name), *map(_show, column[:_SHOWN])] for name, column in self.items()}
        widths = {name: max(map(len, cells)) for name, cells in texts.items()}
        lines = [
            "  ".join(texts[name][row].rjust(widths[name]) for name in self).rstrip()
            for row in range(min(length, _SHOWN) + 1)
        ]
        more = [f"... {length - _SHOWN:,} more rows"] if length > _SHOWN else []
        return "\n".join(lines + more)


def make_table(columns: Mapping[str, Any], library: str | None) -> Any:
    """Make a table of columns in a library, or a mapping of arrays without one."""
    arrays = Columns({name: np.asarray(column) for name, column in columns.items()})
    if library is None:
        return arrays
    # Every library reads lists of strings as text.
    plain = {
        name: part.tolist() if part.dtype.kind == "U" else part for name, part in arrays.items()
    }
    try:
        return nw.from_dict(plain, backend=library).to_native()
    except (ValueError, ImportError, AttributeError) as error:
        raise invalid(
            "library",
            library,
            "but must be 'pandas', 'polars' or 'pyarrow'",
            f"Choose one of them and install it ({error}).",
        ) from error


class AbstractTable(abc.ABC):
    """Base of results that convert to a table.

    Attributes:
        library: the library of the user's tables, for `to_frame`.
    """

    library: str | None

    @abc.abstractmethod
    def columns(self) -> dict[str, np.ndarray]:
        """Return the columns of `to_frame` as NumPy arrays."""

    def to_frame(self, library: str | None = None) -> Any:
        """Return the result as a table.

        Args:
            library: `"pandas"`, `"polars"` or `"pyarrow"`; that of the data if `None`.
        """
        return make_table(self.columns(), library or self.library)

    def _show(self, title: str) -> str:
        """Write a title and the first rows of the table."""
        return f"{title}\n{make_table(self.columns(), None)!r}"


def extend_table(frame: Any, columns: Mapping[str, Any]) -> Any:
    """Add columns to a user's table, in its own library; they replace those of the same name."""
    if isinstance(frame, Mapping):
        whole = {**frame, **columns}
        return Columns({name: _as_array(column) for name, column in whole.items()})
    table = nw.from_native(frame, eager_only=True)
    series = [
        nw.new_series(name, np.asarray(column), backend=table.implementation)
        for name, column in columns.items()
    ]
    return table.with_columns(*series).to_native()


def _as_array(column: Any) -> np.ndarray:
    """Make an array of a column; each line-up is one cell."""
    if isinstance(column, list) and any(isinstance(x, (list, tuple, Mapping)) for x in column):
        return np.fromiter(column, object, len(column))
    return np.asarray(column)


def name_column(names: Iterable[Hashable]) -> np.ndarray:
    """Make a column of names: integers if all names are integers, otherwise strings.

    Different names with the same text, such as 1 and "1", are written as in Python.
    """
    names = list(names)
    if all(isinstance(name, int) for name in names):
        return np.array(names, np.int64)
    texts = Counter(map(str, set(names)))
    return np.array([str(name) if texts[str(name)] == 1 else repr(name) for name in names])


def write_observations(observations: Observations, library: str | None) -> Any:
    """Write observations as a table; see `Dataset.to_frame`."""
    schema = observations.schema
    if schema is None:
        columns = _long_columns(observations)
    elif schema.is_ranking:
        columns = _write_rankings(_Writer(observations, schema), observations)
    else:
        columns = _write_matches(_Writer(observations, schema))
    return make_table(columns, library)


def _long_columns(observations: Observations) -> dict[str, np.ndarray]:
    """One row for each observation and feature."""
    numbers, slots = np.nonzero(observations.features >= 0)
    names = name_column(observations.names)
    columns = {
        "observation": numbers,
        "time": observations.scale.to_user(observations.times)[numbers],
        "feature": names[observations.features[numbers, slots]],
        "coefficient": observations.coefficients[numbers, slots],
        "outcome": observations.outcome[numbers],
    }
    if observations.weight is not None:
        columns["weight"] = observations.weight[numbers]
    return columns


def _write_rankings(writer: "_Writer", observations: Observations) -> dict[str, Any]:
    """One row for each side of an event, or for each member; or one row for each event."""
    schema = writer.schema
    _, first, events = np.unique(observations.event_numbers, return_index=True, return_inverse=True)
    numbers = np.where(observations.outcome > 0, observations.outcome, np.nan)
    places = np.where(np.isnan(numbers), np.nan, dense_places(events, numbers))
    sides, columns = writer.members(1.0), writer.times()
    if schema.places:
        cells = _cells(sides)
        columns = {name: column[first] for name, column in columns.items()}
        for place, name in enumerate(schema.places, start=1):
            chosen = np.flatnonzero(places == place)
            columns[name] = np.full(len(first), None, object)
            columns[name][events[chosen]] = cells[chosen]
        return columns
    columns.setdefault(str(schema.event), _event_cells(observations, events))
    if schema.rank is not None:
        columns.setdefault(schema.rank, places)
    elif schema.points is not None:
        columns.setdefault(schema.points, -places)
    writer.write_covariates(columns)
    writer.write_aspects(columns)
    competitor = str(schema.first)
    if schema.team is None:
        return {**columns, competitor: _cells(sides)}
    rows = np.repeat(np.arange(len(sides)), list(map(len, sides)))
    columns = {name: column[rows] for name, column in columns.items()}
    names = name_column(name for side in sides for name in side)
    return {**columns, competitor: names, schema.team: _team_cells(observations, sides)[rows]}


def _event_cells(observations: Observations, events: np.ndarray) -> np.ndarray:
    """The name of each side's event; its number if events lack names, or have the same."""
    names = observations.event_names
    numbers = np.unique(observations.event_numbers)
    labels = [names[number] if number < len(names) else None for number in numbers]
    cells = name_column(labels)
    usable = None not in labels and len(set(cells.tolist())) == len(cells)
    return (cells if usable else np.arange(len(cells)))[events]


def _team_cells(observations: Observations, sides: list[dict[Hashable, float]]) -> np.ndarray:
    """The name of each side's team; the number of each side if teams lack names."""
    teams = observations.teams
    if teams is None or any(t < 0 and len(side) > 1 for t, side in zip(teams, sides, strict=True)):
        return np.arange(len(sides))
    names = [*name_column(observations.team_names).tolist(), None]
    cells = np.array(names, object)[teams]
    return cells if None in cells else np.array(cells.tolist())


def _write_matches(writer: "_Writer") -> dict[str, Any]:
    """One row for each match."""
    schema, columns = writer.schema, writer.times()
    for sign, side in ((1.0, schema.first), (-1.0, schema.second)):
        members = writer.members(sign)
        if isinstance(side, str):
            columns.setdefault(side, _cells(members))
        else:
            _spread(members, side, columns)
    writer.write_outcome(columns)
    if schema.has_home:
        home = writer.coefficient(HOME)
        if isinstance(schema.home, str):
            columns.setdefault(schema.home, home)
            home = np.ones_like(home)
        if schema.neutral is not None:
            columns.setdefault(schema.neutral, home == 0.0)
    writer.write_covariates(columns)
    for column in schema.interactions:
        columns.setdefault(column, writer.labels(column, "label"))
    writer.write_aspects(columns)
    return columns


class _Writer:
    """The observations of a table by match; a match has one, or two in a row."""

    def __init__(self, observations: Observations, schema: Schema):
        rows = observations.row_numbers
        is_first = np.append(True, schema.is_ranking | (rows[1:] != rows[:-1]))
        self.whole, self.schema = observations, schema
        self.matches = np.flatnonzero(is_first)
        self.features = observations.features[self.matches]
        self.coefficients = np.asarray(observations.coefficients[self.matches], np.float64)
        self.outcome = np.asarray(observations.outcome[self.matches], np.float64)
        has_second = np.append(~is_first[1:], False)[self.matches]
        second = observations.outcome[np.minimum(self.matches + 1, len(rows) - 1)]
        self.second_outcome = np.where(has_second, second, np.nan)

    def times(self) -> dict[str, Any]:
        """The column of times, if there is one."""
        if not isinstance(self.schema.time, str):
            return {}
        return {self.schema.time: self.whole.scale.to_user(self.whole.times[self.matches])}

    def aspect(self, role: str, sign: float) -> np.ndarray:
        """The label or the coefficient of an aspect of one side in every match."""
        whole = self.whole
        is_member = np.array([*map(self.schema.is_competitor, whole.names), False])
        own = is_member[self.features] & (sign * self.coefficients > 0)
        by_side = np.asarray(whole.aspects)[self.matches, own.argmax(axis=1)]
        labels = [k for k, each in enumerate(whole.aspect_roles) if each == role]
        if not labels:
            return by_side[:, whole.aspect_names.index(role)]
        return name_column(whole.aspect_names[labels[k]] for k in by_side[:, labels].argmax(axis=1))

    def write_covariates(self, columns: dict[str, Any]) -> None:
        """Add the columns of further features."""
        for name, column in self.schema.covariates:
            if isinstance(column, str):
                labels = self.labels(str(name), "name")
                columns.setdefault(column, self.coefficient(name) if labels is None else labels)

    def write_aspects(self, columns: dict[str, Any]) -> None:
        """Add the columns of aspects."""
        for name, column in self.schema.aspects or ():
            pair = column if isinstance(column, tuple) else (column,)
            for sign, part in zip((1.0, -1.0), pair, strict=False):
                if isinstance(part, str):
                    columns.setdefault(part, self.aspect(name, sign))

    def write_outcome(self, columns: dict[str, Any]) -> None:
        """Add the columns of outcomes or points, and of weights."""
        schema, outcome = self.schema, self.outcome
        if isinstance(schema.outcome, str):
            sides = (
                [columns[schema.first], columns[schema.second]] if schema.outcomes == WINNER else []
            )
            columns.setdefault(schema.outcome, write_outcomes(outcome, schema.outcomes, sides))
        if schema.counts is not None:
            columns.update(zip(schema.counts, (outcome, self.second_outcome), strict=True))
        elif pair := schema.result or schema.difference:
            points = (np.maximum(outcome, 0.0), np.maximum(-outcome, 0.0))
            columns.update(zip(pair, points, strict=True))
        if isinstance(schema.weight, str):
            columns.setdefault(schema.weight, np.asarray(self.whole.weight)[self.matches])

    def coefficient(self, name: Hashable) -> np.ndarray:
        """The coefficient of a feature in every match."""
        names = self.whole.names
        number = names.index(name) if name in names else -2
        return np.where(self.features == number, self.coefficients, 0.0).sum(axis=1)

    def labels(self, role: str, field: str) -> np.ndarray | None:
        """The names or labels of the features with a role in every match; `None` if none has it."""
        names = self.whole.names
        chosen = [isinstance(name, Feature) and name.role == role for name in names]
        if not any(chosen):
            return None
        slots = np.array([*chosen, False])[self.features].argmax(axis=1)
        features = self.features[np.arange(len(slots)), slots].tolist()
        return name_column(getattr(names[feature], field) for feature in features)

    def members(self, sign: float) -> list[dict[Hashable, float]]:
        """The names of one side of every match, with their coefficients."""
        labels: list[Hashable] = [
            name if self.schema.is_competitor(name) else None for name in self.whole.names
        ]
        if self.schema.has_roles:
            role = ATTACK if sign > 0 else DEFENCE
            labels = [x.name if isinstance(x, Feature) and x.role == role else None for x in labels]
        signed = (sign * self.coefficients).tolist()
        return [
            {
                labels[k]: x
                for k, x in zip(features, parts, strict=True)
                if k >= 0 and x > 0 and labels[k] is not None
            }
            for features, parts in zip(self.features.tolist(), signed, strict=True)
        ]


def _cells(members: list[dict[Hashable, float]]) -> Any:
    """Write sides as names if all have one member, else as lists if possible, else as mappings."""
    if all(len(each) == 1 and next(iter(each.values())) == 1.0 for each in members):
        return name_column(next(iter(each)) for each in members)
    cells = np.empty(len(members), object)
    whole = all(x.is_integer() for each in members for x in each.values())
    for row, each in enumerate(members):
        cells[row] = [name for name, x in each.items() for _ in range(int(x))] if whole else each
    return cells


def _spread(
    members: list[dict[Hashable, float]],
    side: tuple[tuple[str, str | float], ...],
    columns: dict[str, Any],
) -> None:
    """Distribute line-ups over their columns."""
    cells = {name: np.full(len(members), None, object) for name, _ in side}
    parts = {part: np.zeros(len(members)) for _, part in side if isinstance(part, str)}
    for row, each in enumerate(members):
        free = list(side)
        for name, x in each.items():
            places = [pair for pair in free if isinstance(pair[1], str) or pair[1] == x]
            if not places:
                raise DataError(
                    f"the coefficient {x:g} of {name!r} does not fit any column of the line-up",
                    row=row,
                )
            free.remove(places[0])
            column, part = places[0]
            cells[column][row] = name
            if isinstance(part, str):
                parts[part][row] = x
    columns |= cells | parts


def _show(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, (float, np.floating)) else show_time(value)
