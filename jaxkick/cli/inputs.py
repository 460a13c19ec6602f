"""Convert files and options to data sets, posteriors, times and scales."""

import math
import re
import warnings
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from jaxkick import Dataset, Posterior, load
from jaxkick.cli import cells, console
from jaxkick.cli.cells import Cells
from jaxkick.cli.console import UsageError, option_of
from jaxkick.cli.files import FileTable, read_file, suggest
from jaxkick.cli.options import Reading
from jaxkick.data.columns import TimeScale
from jaxkick.data.reading import Rules, read_table
from jaxkick.data.schema import Feature, Schema
from jaxkick.errors import DataError, DroppedWarning, OnInvalid
from jaxkick.likelihoods import AbstractLikelihood
from jaxkick.posterior.leaderboard import SCALES
from jaxkick.simulation import LeagueTable, Simulated, league_table

MODEL_FILE = "model.jaxkick"
"""The name of the model in the folder that `fit` writes."""


class Matches(NamedTuple):
    """The cells of a file, and its columns as arguments of `Dataset.from_frame`."""

    table: FileTable
    columns: dict[str, Any]


def read_matches(
    path: Path, reading: Reading, schema: Schema, with_outcome: bool = True
) -> Matches:
    """Read the columns of a schema; outcomes and weights are optional."""
    # The schema may have numbers instead of columns.
    roles = [role for role in _roles(schema, reading, with_outcome) if isinstance(role[0], str)]
    wanted = {name: option for name, option, _, _ in reversed(roles)}
    table = read_file(path, reading.encoding, reading.delimiter, wanted)
    columns: dict[str, Any] = {}
    meanings: dict[str, str] = {}
    with file_errors(table):
        for name, option, meaning, convert in roles:
            if meanings.setdefault(name, meaning) != meaning:
                raise UsageError(
                    f"the column {name!r} cannot be both {meanings[name]} and {meaning}."
                )
            if name not in columns:
                columns[name] = convert(Cells(table, name, option))
    repeated = table.repeated(columns) if with_outcome else []
    if repeated:
        console.note(
            f"{table.source!r} repeats earlier rows: {table.places(repeated)}. Every row counts."
        )
    return Matches(table, columns)


def _roles(
    schema: Schema, reading: Reading, with_outcome: bool
) -> Iterator[tuple[Any, str, str, Callable[[Cells], Any]]]:
    """The columns of a schema: name, option, meaning and converter."""
    number = "a number", cells.parse_numbers
    read_times = partial(cells.parse_times, date_format=reading.date_format)
    yield schema.time, "--time", "a time", read_times
    if schema.event != schema.time:
        yield schema.event, "--event", "an event", cells.parse_names
    sides = _sides(schema)
    for option, side in sides.items():
        for name, coefficient in side:
            yield name, option, "a name", cells.parse_names
            yield coefficient, option, *number
    yield schema.team, "--team", "a team", cells.parse_names
    if schema.home not in [name for side in sides.values() for name, _ in side]:
        yield schema.home, "--home-column", "the side at home", cells.parse_sides
    yield schema.neutral, "--neutral", "a flag", cells.parse_flags
    for name, column in schema.covariates:
        yield column, schema.covariate_argument(name), "a covariate", cells.parse_sides
    for name in schema.interactions:
        yield name, f"interaction {name!r}", "a label", cells.parse_names
    for name, value in schema.aspects or ():
        for column in value if isinstance(value, tuple) else (value,):
            yield column, f"--aspect {name}", "an aspect", cells.parse_sides
    if not with_outcome:
        return
    yield schema.weight, "--weight", *number
    first, second = schema.result or schema.difference or schema.counts or (None, None)
    yield first, "--score-first", *number
    yield second, "--score-second", *number
    read_outcomes = partial(cells.parse_outcomes, coded=isinstance(schema.outcomes, tuple))
    yield schema.outcome, "--outcome", "an outcome", read_outcomes
    yield schema.rank, "--rank", "a rank", partial(cells.parse_outcomes, coded=False)
    yield schema.points, "--points", "points", partial(cells.parse_outcomes, coded=False)


def _sides(schema: Schema) -> dict[str, Any]:
    """For each option, columns of names with columns or numbers of coefficients."""
    if schema.is_ranking:
        return {"--competitor": [(name, 1.0) for name in schema.places or (schema.first,)]}
    sides = {"--first": schema.first, "--second": schema.second}
    return {
        option: [(side, 1.0)] if isinstance(side, str) else side for option, side in sides.items()
    }


def read_dataset(
    path: Path, reading: Reading, schema: Schema, unit: str | None, on_invalid: OnInvalid
) -> Dataset:
    """Read a data set from a file; `unit` and `on_invalid` as in `Dataset.from_frame`."""
    matches = read_matches(path, reading, schema)
    rules = Rules(unit=unit, on_invalid=on_invalid, schema=schema)
    with file_errors(matches.table):
        return Dataset.from_observations(read_table(matches.columns, rules))


@contextmanager
def file_errors(table: FileTable) -> Iterator[None]:
    """Show options and lines of the file in errors, and print warnings as notes."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        try:
            yield
        except DataError as error:
            raise ValueError(error.message(name=option_of, place=table.place)) from error
    for warning in (each.message for each in caught):
        if isinstance(warning, DroppedWarning):
            console.note(f"Dropped {warning.described(option_of, table.places)}.")
        else:
            console.note(str(warning))


def model_path(path: Path) -> Path:
    """The file of a model: the path itself, or the model in that folder."""
    found = path / MODEL_FILE if path.is_dir() else path
    if not found.is_file():
        raise UsageError(
            f"there is no model {str(found)!r}. Make one with `jaxkick fit ... --output FOLDER`."
        )
    return found


def load_posterior(path: Path) -> Posterior:
    """Load the posterior from a file or a folder."""
    found = load(model_path(path))
    if not isinstance(found, Posterior):
        raise ValueError(
            f"{str(path)!r} holds a {type(found).__name__.lower()} without matches. Save a "
            "posterior, as `jaxkick fit` does."
        )
    return found


def schema_of(posterior: Posterior) -> Schema:
    """The meaning of the columns of the fitted file."""
    if posterior.data.schema is None:
        raise ValueError(
            "the model was not fitted to a table, so the meaning of columns is unknown. Use Python "
            "to update it, and --first, --second and --time to predict."
        )
    return posterior.data.schema


def competitors(data: Dataset) -> dict[str, Hashable]:
    """Competitors by their names as texts, without home advantage and covariates."""
    names, schema = data.names, data.schema
    if schema is None:
        return {str(name): name for name in names}
    found = [name for name in names if schema.is_competitor(name)]
    if schema.has_roles:
        found = [name.name for name in found if isinstance(name, Feature)]
    return {str(name): name for name in found}


def known_name(name: str, known: Mapping[str, Hashable], where: str, newcomers: bool) -> Hashable:
    """Find a competitor by the text of its name; `where` begins the error if it is unknown."""
    if name not in known and not newcomers:
        raise UsageError(
            f"{where} is {name!r}, an unknown competitor. {suggest(name, known, 'competitors')} "
            "Pass --allow-unknown to predict newcomers."
        )
    return known.get(name, name)


def read_fixtures(
    path: Path, reading: Reading, schema: Schema, data: Dataset, newcomers: bool
) -> Matches:
    """Read future matches with the columns, the kind of times and the competitors of the data."""
    matches = read_matches(path, reading, schema, with_outcome=False)
    if isinstance(schema.time, str):
        with file_errors(matches.table):
            missing = np.isnan(data.index.scale.to_numbers(matches.columns[schema.time], "time"))
            if missing.any():
                raise DataError(
                    "{argument} is missing",
                    "Give every match a time.",
                    argument="time",
                    column=schema.time,
                    row=int(np.argmax(missing)),
                    count=int(missing.sum()),
                )
    known = competitors(data)
    for option, side in _sides(schema).items():
        for column, _ in side:
            names = matches.columns[column]
            for row, name in enumerate(names):
                where = f"{matches.table.place(row)}: `{option}` (column {column!r})"
                names[row] = None if name is None else known_name(name, known, where, newcomers)
    return matches


def forecast_file(
    posterior: Posterior, path: Path, reading: Reading, newcomers: bool
) -> dict[str, Any]:
    """Forecast the matches of a file."""
    matches = read_fixtures(path, reading, schema_of(posterior), posterior.data, newcomers)
    with file_errors(matches.table):
        return posterior.forecast(matches.columns, allow_unknown=newcomers)


def forecast_pairs(
    posterior: Posterior, pairs: Sequence[Sequence], time: Any, home: int, newcomers: bool = False
) -> dict[str, Any]:
    """Forecast matches at one time; `home` is 1 or -1 if the first or second sides are at home."""
    first, second = (list(side) for side in zip(*pairs, strict=True))
    prediction = posterior.predict(first, second, time, home=home or None, allow_unknown=newcomers)
    names = {"first": first, "second": second}
    if home:
        names["home"] = first if home > 0 else second
    texts = {name: np.array(list(map(str, side))) for name, side in names.items()}
    return {"time": np.full(len(first), time), **texts, **prediction.columns()}


def read_rules(
    points: str, tie_breakers: list[str] | None, zones: list[str] | None
) -> dict[str, Any]:
    """Read the rules of a league: the arguments of `league_table` with these names."""
    try:
        win, tie, loss = map(float, points.split("/"))
    except ValueError:
        raise UsageError(f"--points is {points!r}. Write WIN/TIE/LOSS: 3/1/0.") from None
    found: dict[str, Any] = {}
    for text in zones or ():
        zone = re.fullmatch(r"(.+?)=(-?\d+)(?:-(-?\d+))?", text)
        if zone is None:
            raise UsageError(f"--zone is {text!r}. Write NAME=PLACES: relegation=16-18.")
        name, first, last = zone.groups()
        found[name] = (int(first), int(last or first))
    # Typer passes an empty list for an option of many values that is absent.
    return {"points": (win, tie, loss), "tie_breakers": tie_breakers or None, "zones": found}


def played_since(posterior: Posterior, text: str | None, date_format: str | None) -> Any:
    """The matches of a model at or after a time; `None` without a time."""
    if text is None:
        return None
    data = posterior.data
    time = parse_time(data.index.scale, "--since", text, date_format)
    chosen = data.index.times >= data.index.scale.to_numbers(time)
    if not chosen.any():
        last = data.index.scale.to_user(data.index.latest)
        raise UsageError(f"--since is {text!r}, but the last match of the model is at {last}.")
    return data.subset(chosen)


def simulate_file(
    posterior: Posterior,
    path: Path,
    reading: Reading,
    newcomers: bool,
    played: Dataset | None,
    rules: Mapping[str, Any],
    draws: int,
    seed: int,
) -> tuple[LeagueTable, Simulated]:
    """Simulate the matches of a file; count those played before in the final tables."""
    fixtures = read_fixtures(path, reading, schema_of(posterior), posterior.data, newcomers)
    with file_errors(fixtures.table):
        options = {"seed": seed, "allow_unknown": newcomers}
        matches = posterior.simulate(fixtures.columns, draws, **options)
        return league_table(played, matches, **rules, seed=seed), matches


def parse_time(scale: TimeScale, option: str, text: str, date_format: str | None = None) -> Any:
    """Parse a time that was given as an option."""
    cell = Cells(FileTable("the command", {"": (text.strip(),)}, [1]), "", option)
    try:
        time = cells.parse_times(cell, date_format)[0]
        scale.to_numbers(time)
    except ValueError as error:
        kind = "dates, such as 2018-12-25" if scale.dates else "numbers"
        raise UsageError(f"{option} is {text!r}, but the times of the data are {kind}.") from error
    return time


def parse_scale(text: str | None, likelihood: AbstractLikelihood) -> Any:
    """Parse a rating scale for `Posterior.leaderboard`; by default Elo's where it applies."""
    if text is None:
        return "elo" if likelihood.has_results else None
    if text in SCALES:
        return text
    if text == "score":
        return None
    try:
        centre, spread = map(float, text.split("/"))
    except ValueError:
        centre = spread = 0.0
    if not (math.isfinite(centre) and 0.0 < spread < math.inf):
        raise UsageError(
            f"--scale is {text!r}. Give elo, trueskill, score, or two numbers such as 1500/400."
        )
    return centre, spread
