"""Tables of results and observations, in the library of the user's table or as plain columns."""

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from typing import Any

import narwhals as nw
import numpy as np

from jaxkick.data.outcomes import write_outcomes
from jaxkick.data.ranking_tables import dense_places
from jaxkick.data.reading import Observations
from jaxkick.data.schema import (
    ATTACK,
    DEFENCE,
    HOME,
    LEVEL,
    NOISE,
    PAIR,
    TIE,
    WINNER,
    Feature,
    Schema,
)
from jaxkick.errors import DataError

__all__ = ["Columns", "extend_table", "make_table", "name_column", "write_observations"]

_SHOWN = 20


class Columns(dict[str, np.ndarray]):
    """A table as a mapping from names to columns, for data that came without a library.

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
    """Make a table of columns.

    Args:
        columns: values by the name of their column.
        library: `"pandas"`, `"polars"` or `"pyarrow"`; `None` for a mapping of arrays.

    Raises:
        DataError: if the library is unknown or not installed.
    """
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
        raise DataError(
            "{argument} is {value}, but must be 'pandas', 'polars' or 'pyarrow'",
            f"Choose one of them and install it ({error}).",
            argument="library",
            value=library,
        ) from error


def extend_table(frame: Any, columns: Mapping[str, Any]) -> Any:
    """Add columns to the end of a user's table, in its own library.

    Args:
        frame: a table, or a mapping from names to columns.
        columns: values by the name of their column; they replace columns of the same name.
    """
    if isinstance(frame, Mapping):
        whole = {**frame, **columns}
        return Columns({name: np.asarray(column) for name, column in whole.items()})
    table = nw.from_native(frame, eager_only=True)
    series = [
        nw.new_series(name, np.asarray(column), backend=table.implementation)
        for name, column in columns.items()
    ]
    return table.with_columns(*series).to_native()


def name_column(names: Iterable[Hashable]) -> np.ndarray:
    """Make a column of names: integers if all names are, otherwise strings.

    Names that differ but read alike, such as 1 and "1", are written as in Python.
    """
    names = list(names)
    if all(isinstance(name, int) for name in names):
        return np.array(names, np.int64)
    texts = Counter(map(str, set(names)))
    return np.array([str(name) if texts[str(name)] == 1 else repr(name) for name in names])


def write_observations(observations: Observations, library: str | None) -> Any:
    """Write observations as a table; see `Dataset.to_frame`."""
    if observations.schema is None:
        return make_table(_long_columns(observations), library)
    schema = observations.schema
    columns = (_write_rankings if schema.is_ranking else _write_matches)(observations, schema)
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


def _write_matches(observations: Observations, schema: Schema) -> dict[str, Any]:
    rows = observations.row_numbers
    # Two counts of one match follow each other.
    again = np.append(False, rows[1:] == rows[:-1])
    return _Writer(observations, again).columns(schema)


def _write_rankings(observations: Observations, schema: Schema) -> dict[str, Any]:
    """One row for each side of an event, or for each member; or one row for each event."""
    writer = _Writer(observations, np.zeros(len(observations.times), bool))
    _, events = np.unique(np.asarray(observations.events), return_inverse=True)
    unplaced = observations.outcome <= 0
    places = dense_places(events, np.where(unplaced, np.nan, observations.outcome))
    places = np.where(unplaced, np.nan, places)
    times = observations.scale.to_user(observations.times)
    sides = writer.members(1.0, {name for name, _ in schema.covariates})
    columns: dict[str, Any] = {schema.time: times} if isinstance(schema.time, str) else {}
    if schema.places:
        cells = _cells(sides)
        _, first = np.unique(events, return_index=True)
        columns = {name: column[first] for name, column in columns.items()}
        for place, name in enumerate(schema.places, start=1):
            chosen = np.flatnonzero(places == place)
            columns[name] = np.full(len(first), None, object)
            columns[name][events[chosen]] = cells[chosen]
        return columns
    columns.setdefault(str(schema.event), events)
    if schema.rank is not None:
        columns.setdefault(schema.rank, places)
    elif schema.points is not None:
        columns.setdefault(schema.points, -places)
    writer.write_covariates(schema, columns)
    competitor = str(schema.first)
    if schema.team is None:
        return {**columns, competitor: _cells(sides)}
    numbers = np.repeat(np.arange(len(sides)), list(map(len, sides)))
    columns = {name: column[numbers] for name, column in columns.items()}
    names = name_column(name for side in sides for name in side)
    return {**columns, competitor: names, schema.team: numbers}


class _Writer:
    """The observations of a table, match by match."""

    def __init__(self, observations: Observations, again: np.ndarray):
        count = len(observations.times)
        self.whole = observations
        self.matches = np.flatnonzero(~again)
        self.seconds = np.where(np.append(again[1:], False), np.arange(count) + 1, -1)[self.matches]
        self.features = observations.features[self.matches]
        self.coefficients = np.asarray(observations.coefficients[self.matches], np.float64)

    def columns(self, schema: Schema) -> dict[str, Any]:
        columns: dict[str, Any] = {}
        if isinstance(schema.time, str):
            columns[schema.time] = self.whole.scale.to_user(self.whole.times[self.matches])
        others = {
            HOME,
            LEVEL,
            PAIR,
            TIE,
            *((NOISE,) if schema.noise_effects else ()),
            *schema.interactions,
            *(name for name, _ in schema.covariates),
        }
        others = {name for name in others if not isinstance(name, Feature)}
        for sign, side in ((1.0, schema.first), (-1.0, schema.second)):
            members = self.members(sign, others)
            if isinstance(side, str):
                columns.setdefault(side, _cells(members))
            else:
                _spread(members, side, columns)
        self._write_outcome(schema, columns)
        if isinstance(schema.weight, str):
            columns.setdefault(schema.weight, np.asarray(self.whole.weight)[self.matches])
        if schema.has_home:
            home = self._coefficient(HOME)
            if isinstance(schema.home, str):
                columns.setdefault(schema.home, home)
                home = np.ones_like(home)
            if schema.neutral is not None:
                columns.setdefault(schema.neutral, home == 0.0)
        self.write_covariates(schema, columns)
        for column in schema.interactions:
            columns.setdefault(column, self._labels(column, "label"))
        for name, column in schema.aspects or ():
            pair = column if isinstance(column, tuple) else (column,)
            for sign, part in zip((1.0, -1.0), pair, strict=False):
                if isinstance(part, str):
                    columns.setdefault(part, self._aspect(name, sign, others))
        return columns

    def _aspect(self, role: str, sign: float, others: set[Hashable]) -> np.ndarray:
        """The label or the coefficient of an aspect of one side in every match."""
        whole = self.whole
        member = np.array([_is_member(name, others) for name in [*whole.names, HOME]])
        own = member[self.features] & (self.features >= 0) & (sign * self.coefficients > 0)
        by_side = np.asarray(whole.aspects)[self.matches, own.argmax(axis=1)]
        labels = [k for k, each in enumerate(whole.aspect_roles) if each == role]
        if not labels:
            return by_side[:, whole.aspect_names.index(role)]
        return name_column(whole.aspect_names[labels[k]] for k in by_side[:, labels].argmax(axis=1))

    def write_covariates(self, schema: Schema, columns: dict[str, Any]) -> None:
        """Add the columns of further features."""
        for name, column in schema.covariates:
            if isinstance(column, str):
                labels = self._labels(str(name), "name")
                columns.setdefault(column, self._coefficient(name) if labels is None else labels)

    def _write_outcome(self, schema: Schema, columns: dict[str, Any]) -> None:
        outcome = np.asarray(self.whole.outcome[self.matches], np.float64)
        if isinstance(schema.outcome, str):
            sides = (
                [] if schema.outcomes != WINNER else [columns[schema.first], columns[schema.second]]
            )
            columns.setdefault(schema.outcome, write_outcomes(outcome, schema.outcomes, sides))
        if schema.counts is not None:
            second = np.append(np.asarray(self.whole.outcome, np.float64), np.nan)[self.seconds]
            pair, points = schema.counts, (outcome, second)
        else:
            pair = schema.result or schema.difference or ()
            points = (np.maximum(outcome, 0.0), np.maximum(-outcome, 0.0))
        columns.update(zip(pair, points, strict=False))

    def _coefficient(self, name: Hashable) -> np.ndarray:
        """The coefficient of a feature in every match."""
        names = self.whole.names
        number = names.index(name) if name in names else -2
        return np.where(self.features == number, self.coefficients, 0.0).sum(axis=1)

    def _labels(self, role: str, field: str) -> np.ndarray | None:
        """The name or label of the features of a role in every match; `None` if there are none."""
        names = self.whole.names
        chosen = [isinstance(name, Feature) and name.role == role for name in names]
        if not any(chosen):
            return None
        slots = np.array([*chosen, False])[self.features].argmax(axis=1)
        features = self.features[np.arange(len(slots)), slots].tolist()
        return name_column(getattr(names[feature], field) for feature in features)

    def members(self, sign: float, others: set[Hashable]) -> list[dict[Hashable, float]]:
        """The names of one side of every match, with their coefficients."""
        names = self.whole.names
        role = ATTACK if sign > 0 else DEFENCE
        counts = self.whole.schema is not None and self.whole.schema.has_roles
        labels = [
            (name.name if counts and name.role == role else None)
            if isinstance(name, Feature) and (counts or name.role in others)
            else (None if name in others else name)
            for name in names
        ]
        members = []
        signed = (sign * self.coefficients).tolist()
        for features, parts in zip(self.features.tolist(), signed, strict=True):
            there = zip(features, parts, strict=True)
            members.append(
                {labels[k]: x for k, x in there if k >= 0 and x > 0 and labels[k] is not None}
            )
        return members


def _is_member(name: Hashable, others: set[Hashable]) -> bool:
    """Return whether a feature is a competitor, not a covariate or a further skill."""
    role = name.role if isinstance(name, Feature) else None
    return name not in others and role not in others


def _cells(members: list[dict[Hashable, float]]) -> Any:
    """Plain names where each side is one; else lists of names, else mappings."""
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
    """Write line-ups over their columns."""
    cells = {name: np.full(len(members), None, object) for name, _ in side}
    parts = {part: np.zeros(len(members)) for _, part in side if isinstance(part, str)}
    for row, each in enumerate(members):
        free = list(side)
        for name, x in each.items():
            places = [pair for pair in free if isinstance(pair[1], str) or pair[1] == x]
            if not places:
                raise DataError(
                    f"the coefficient {x:g} of {name!r} fits into no column of the line-up",
                    row=row,
                )
            free.remove(places[0])
            column, part = places[0]
            cells[column][row] = name
            if isinstance(part, str):
                parts[part][row] = x
    columns |= cells | parts


def _show(value: Any) -> str:
    if isinstance(value, np.datetime64):
        # To the millisecond, without a time of day at midnight.
        return str(value.astype("datetime64[ms]")).removesuffix("T00:00:00.000")
    return f"{value:.4g}" if isinstance(value, (float, np.floating)) else str(value)
