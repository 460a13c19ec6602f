"""Read tables, names or arrays as checked observations."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain
from types import MappingProxyType
from typing import Any, NamedTuple

import narwhals as nw
import numpy as np

from jaxkick.data.aspect_columns import AspectNames, read_aspects
from jaxkick.data.columns import TimeScale, as_column, is_missing, read_times, to_floats
from jaxkick.data.observations import Observations, OutcomeDomain, outcome_problem
from jaxkick.data.outcomes import Points, read_outcomes, read_points
from jaxkick.data.ranking_tables import RankedSides, read_sides, read_wide
from jaxkick.data.schema import (
    GENERAL,
    HOME,
    NO_TABLE,
    ROLES,
    Groups,
    Schema,
    check_aspect_name,
    read_groups,
    read_mapping,
)
from jaxkick.data.sides import (
    Block,
    Lineup,
    Vocabulary,
    add_noise,
    add_ties,
    general_skill,
    join,
    on_both_sides,
    read_covariate,
    read_further,
    read_home,
    read_side,
    split_counts,
)
from jaxkick.errors import Checks, DataError, OnInvalid, did_you_mean, invalid, plain


class Columns(NamedTuple):
    """The columns of a table, by what they mean.

    Attributes:
        times: the time of each match.
        sides: for each argument the values that `read_side` takes, and their sign.
        covariates: coefficients of further features by name, the home advantage among them.
        outcome: outcomes or `Points`; `None` if the first side always won.
        weight: weights, or `None`.
        labels: labels of each match, by the role of the skills that depend on them.
        ranked: the sides of all events, if the table has rankings.
        aspects: the values of each aspect of competitors, as `read_aspects` takes them.
    """

    times: Any
    sides: dict[str, tuple[Any, float]]
    covariates: Mapping[Hashable, Any]
    outcome: Any
    weight: Any
    labels: Mapping[str, Any] = MappingProxyType({})
    ranked: RankedSides | None = None
    aspects: Mapping[str, Any] = MappingProxyType({})


class Rules(NamedTuple):
    """The options of all readers; see `Dataset`.

    `schema` is the meaning of the table's columns; data with `kind_names` has one for each kind.
    """

    groups: Groups = None
    unit: str | None = None
    on_invalid: OnInvalid = "raise"
    likelihood: OutcomeDomain | None = None
    schema: Schema | None = None
    library: str | None = None
    kind_names: tuple[str, ...] = ()

    @property
    def meaning(self) -> Schema:
        """The schema, or that of data without a table."""
        return self.schema or NO_TABLE


def library_of_columns(*columns: Any) -> str | None:
    """The library of the first column that has one."""
    for column in columns:
        series = nw.from_native(column, series_only=True, pass_through=True)
        if isinstance(series, nw.Series):
            return series.implementation.value
    return None


def library_of(frame: Any) -> str | None:
    """The library of a table; `None` for a mapping from names to columns."""
    if isinstance(frame, Mapping):
        return None
    try:
        table = nw.from_native(frame, eager_only=True, pass_through=True)
    except nw.exceptions.DuplicateError as error:
        raise DataError(
            f"{{argument}} has several columns with the same name ({' '.join(str(error).split())})",
            "Rename them.",
            argument="frame",
        ) from None
    if not isinstance(table, nw.DataFrame):
        raise DataError(
            f"{{argument}} is a {type(frame).__name__}, but must be a pandas, polars or pyarrow "
            "table in memory, or a mapping from names to columns",
            "Collect a lazy table first.",
            argument="frame",
        )
    return table.implementation.value


def tabulate_pairs(
    times: Any,
    first: Any,
    second: Any,
    outcome: Any,
    weight: Any,
    covariates: Any,
    aspects: Any,
) -> tuple[dict[str, Any], Schema]:
    """Make a table and its schema from the arguments of `Dataset.from_pairs`."""
    table: dict[str, Any] = {}

    def put(name: str, values: Any, argument: str) -> Any:
        """Add a column and return its name; return a number unchanged."""
        if values is None or np.ndim(values) == 0:
            return values
        if name in table:
            problem = "{argument} has the name {value}, which another column has"
            raise DataError(problem, "Rename it.", argument=argument, value=name)
        table[name] = values
        return name

    given = {"time": times, "outcome": outcome, "weight": weight}
    named = {name: put(name, values, name) for name, values in given.items()}
    table |= {"first": first, "second": second}
    own = {}
    for name, values in read_mapping("aspects", aspects).items():
        pair = values if isinstance(values, tuple) and len(values) == 2 else None
        parts = zip((f"{name} of first", f"{name} of second"), pair or (), strict=False)
        sides = tuple(put(column, part, "aspects") for column, part in parts)
        own[name] = sides or put(str(name), values, "aspects")
    extra = {
        name: put(str(name), values, "covariates")
        for name, values in read_mapping("covariates", covariates).items()
    }
    return table, Schema.of(first="first", second="second", covariates=extra, aspects=own, **named)


def read_table(frame: Any, rules: Rules) -> Observations:
    """Read a table whose columns have the meaning of `rules.schema`."""
    if rules.schema is None:
        raise unknown_columns(
            rules.kind_names,
            "Pass a `Dataset` of the new matches.",
            "Pass a `Dataset` of the new matches with their kind, as in "
            f"`jk.concat({{{next(iter(rules.kind_names), '')!r}: ...}})`.",
        )
    with naming_columns(rules.schema):
        return read_observations(read_frame(frame, rules.schema), rules)


def unknown_columns(kind_names: Sequence[str], without_table: str, with_kinds: str) -> DataError:
    """Make the error for a table whose columns have no meaning, with the remedy for each reason."""
    if kind_names:
        listed = ", ".join(map(repr, kind_names))
        problem = f"The data has kinds of observations ({listed}), each with columns of its own"
        return DataError(problem, with_kinds)
    problem = "The data was not made from a table, so the meaning of columns is unknown"
    return DataError(problem, without_table)


@contextmanager
def naming_columns(schema: Schema):
    """Add the user's column to errors that have only the argument."""
    try:
        yield
    except DataError as error:
        if error.column is None and error.argument is not None:
            error.column = schema.columns.get(error.argument)
        raise


def read_frame(frame: Any, schema: Schema, with_outcome: bool = True) -> Columns:
    """Take the columns of a schema out of a table; future matches have no outcomes and weights."""
    table = frame if library_of(frame) is None else nw.from_native(frame, eager_only=True)
    names = list(table if isinstance(table, Mapping) else table.columns)

    def column(argument: str, value: Any, optional: bool = False) -> Any:
        """Get a column by name; numbers, and `None` if it is optional, are returned unchanged."""
        if isinstance(value, str) and value in names:
            return as_column(table[value], argument)
        if isinstance(value, str):
            known = [str(name) for name in names]
            raise DataError(
                "{argument} is not in the table",
                did_you_mean(value, known) or f"Its columns are {', '.join(known)}.",
                argument=argument,
                column=value,
                value=value,
            )
        number = isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
        if number or (value is None and optional):
            return value
        raise invalid(argument, value, "but must be the name of a column")

    read = _read_rankings if schema.is_ranking else _read_matches
    return read(schema, column, with_outcome)


def _read_matches(schema: Schema, column: Callable, with_outcome: bool) -> Columns:
    """Take the columns of matches out of a table."""

    def side(argument: str, columns: Any) -> Any:
        if isinstance(columns, str):
            return column(argument, columns)
        pairs = [(column(argument, name), column(argument, part)) for name, part in columns]
        return Lineup(*zip(*pairs, strict=True))

    first, second = side("first", schema.first), side("second", schema.second)
    num_rows = len(first.names[0] if isinstance(first, Lineup) else first)
    times = column("time", schema.time)
    times = times if isinstance(schema.time, str) else np.full(num_rows, times, np.float64)
    outcome, weight = None, None
    if with_outcome:
        outcome = column("outcome", schema.outcome, optional=True)
        weight = column("weight", schema.weight, optional=True)
        if (reading := schema.reading) is not None:
            points = (column(reading, name) for name in getattr(schema, reading))
            outcome = Points(reading, *(to_floats(each, reading, num_rows) for each in points))
    covariates = {}
    if schema.has_home:
        home = schema.home if schema.home is True else column("home", schema.home, optional=True)
        neutral = column("neutral", schema.neutral, optional=True)
        covariates[HOME] = read_home(home, neutral, first, second, num_rows)
    for name, value in schema.covariates:
        covariates[name] = column(f"covariates[{name!r}]", value)
    labels = {name: column(f"interactions[{name!r}]", name) for name in schema.interactions}
    aspects: dict[str, Any] = {HOME: covariates[HOME]} if schema.has_home else {}
    for name, value in schema.aspects or ():
        argument = f"aspects[{name!r}]"
        if isinstance(value, tuple):
            aspects[name] = tuple(column(argument, part) for part in value)
        elif value is not True:
            aspects[name] = column(argument, value)
    sides = {"first": (first, 1.0), "second": (second, -1.0)}
    return Columns(times, sides, covariates, outcome, weight, labels, aspects=aspects)


def _read_rankings(schema: Schema, column: Callable, with_outcome: bool) -> Columns:
    """Take the columns of rankings out of a table."""
    if schema.places:
        ranked = read_wide([column("competitor", name) for name in schema.places])
    else:
        rank, points = (
            column(name, getattr(schema, name), optional=True) if with_outcome else None
            for name in ("rank", "points")
        )
        competitor, event = column("competitor", schema.first), column("event", schema.event)
        team = column("team", schema.team, optional=True)
        ranked = read_sides(competitor, event, team, rank, points)

    def by_side(argument: str, value: Any) -> Any:
        values = column(argument, value)
        return ranked.pick(values, argument) if isinstance(value, str) else values

    times = by_side("time", schema.time)
    if not isinstance(schema.time, str):
        times = np.full(len(ranked.rows), times, np.float64)
    covariates = {
        name: by_side(schema.covariate_argument(name), value) for name, value in schema.covariates
    }
    aspects = {name: by_side(f"aspects[{name!r}]", value) for name, value in schema.aspects or ()}
    outcome = None if ranked.numbers is None else ranked.places()
    sides = {"competitor": (ranked.names, 1.0)}
    return Columns(times, sides, covariates, outcome, None, ranked=ranked, aspects=aspects)


def read_observations(columns: Columns, rules: Rules) -> Observations:
    """Read and check observations given by names."""
    schema, ranked = rules.meaning, columns.ranked
    times, scale, checks = _read_times(columns.times, rules, ranked)
    if ranked is not None:
        ranked.check(checks, times)
        if schema.dnf == "drop":
            _leave_out_unplaced(ranked, columns.outcome, checks)
    vocabulary = Vocabulary()
    sides = {
        argument: read_side(values, sign, vocabulary, argument, len(times))
        for argument, (values, sign) in columns.sides.items()
    }
    further = read_further(list(sides.values()), columns.labels, schema.pairs, vocabulary)
    known = AspectNames((), ())
    if schema.aspects is not None:
        known, sides = _add_aspects(schema, columns.aspects, sides, checks)
    covariates = {}
    for name, values in columns.covariates.items():
        argument = schema.covariate_argument(name)
        covariates[argument] = read_covariate(name, values, vocabulary, argument, len(times))
    _check_blocks(sides, covariates, further, vocabulary, checks)
    if schema.counts is not None:
        places = None if schema.has_roles else tuple(map(known.names.index, ROLES))
        first, second = sides.values()
        others = list(covariates.values())
        block, vocabulary = split_counts(first, second, others, vocabulary, places)
    else:
        parts = [*sides.values(), *covariates.values(), *chain.from_iterable(further.values())]
        block = join(parts)
        if schema.noise_effects:
            block = add_noise(block, vocabulary)
        elif schema.tie_effects:
            block = add_ties(block, list(sides.values()), vocabulary)
    outcome = columns.outcome
    if isinstance(outcome, Points):
        outcome = read_points(outcome, checks)
    else:
        names = [values for values, _ in columns.sides.values()] if len(sides) > 1 else []
        outcome, meaning = read_outcomes(outcome, schema.outcomes, names, len(times))
        if rules.schema is not None:
            rules = rules._replace(schema=replace(schema, outcomes=meaning))
    read = _finish(times, scale, block, outcome, columns.weight, checks, rules, ranked)
    names, places = vocabulary.sort(read.features)
    return replace(
        read,
        names=names,
        features=places[read.features],
        aspect_names=known.names,
        aspect_roles=known.roles,
    )


def _add_aspects(
    schema: Schema, values: Mapping[str, Any], sides: dict[str, Block], checks: Checks
) -> tuple[AspectNames, dict[str, Block]]:
    """The names of the aspects, and the sides with their coefficients."""
    num_rows = len(next(iter(sides.values())).features)
    known, by_side = read_aspects(schema, values, num_rows, None, len(sides))
    found = {}
    for (argument, block), own in zip(sides.items(), by_side, strict=True):
        problem, remedy = "a label or number of an aspect is missing", "Give all of them"
        checks.refuse(np.isnan(own).any(axis=1), problem, remedy, "aspects")
        shape = (*block.features.shape, own.shape[-1])
        aspects = np.broadcast_to(np.nan_to_num(own)[:, None], shape)
        found[argument] = block._replace(aspects=aspects)
    return known, found


def _check_blocks(
    sides: dict[str, Block],
    covariates: dict[str, Block],
    further: dict[str, list[Block]],
    vocabulary: Vocabulary,
    checks: Checks,
) -> None:
    """Refuse missing names, labels and coefficients, and competitors on both sides."""
    missing = vocabulary.missing()
    for argument, block in (sides | covariates).items():
        if missing.any():
            bad = missing[block.features].any(axis=1)
            checks.refuse(bad, "{argument} has a missing name", "Name every competitor", argument)
        _check_coefficients(checks, block, argument)
    if len(sides) > 1:
        checks.refuse(
            on_both_sides(*(block.features for block in sides.values())),
            "the same competitor is on both sides",
            "Remove matches of a competitor against itself",
        )
    for argument, (block, *_) in further.items():
        problem, remedy = "{argument} has a missing label", "Label every match"
        checks.refuse((block.features < 0).all(axis=1), problem, remedy, argument)


def _leave_out_unplaced(ranked: RankedSides, places: np.ndarray, checks: Checks) -> None:
    """Leave out sides without a place, and events with only one side left."""
    there = places > 0
    there &= (np.bincount(ranked.events, there) > 1)[ranked.events]
    if not there.any():
        raise invalid("dnf", "drop", "but no event has two sides with a place", "Pass 'last'.")
    checks.leave_out(~there)


def read_arrays(
    times: Any,
    features: Any,
    coefficients: Any,
    outcome: Any,
    weight: Any,
    names: Sequence[Hashable] | None,
    events: Any,
    rules: Rules,
    aspects: Mapping[str, Any] | None = None,
) -> Observations:
    """Read and check observations given by feature numbers; see `Dataset.from_arrays`."""
    times, scale, checks = _read_times(times, rules)
    block = _read_numbered(features, coefficients, names, checks, len(times))
    num_features = int(block.features.max()) + 1
    known = tuple(range(num_features)) if names is None else _check_names(names)
    if aspects:
        block = block._replace(aspects=_read_aspect_arrays(aspects, block.features.shape, checks))
    outcome, _ = read_outcomes(outcome, None, (), len(times))
    ranked = None if events is None else _read_events(events, times, checks)
    read = _finish(times, scale, block, outcome, weight, checks, rules, ranked)
    own = (GENERAL, *aspects) if aspects else ()
    return replace(read, names=known, aspect_names=own, aspect_roles=("",) * len(own))


def _read_numbered(
    features: Any,
    coefficients: Any,
    names: Sequence[Hashable] | None,
    checks: Checks,
    num_rows: int,
) -> Block:
    """Read feature numbers and coefficients; numbers out of range become empty slots."""
    features = np.asarray(features)
    coefficients = np.array(coefficients, np.float64)
    if features.ndim != 2 or len(features) != num_rows or features.dtype.kind not in "iu":
        raise DataError(
            f"{{argument}} has the shape {features.shape} and type {features.dtype}, but must be "
            f"an array of integers with a row for each of the {num_rows:,} observations",
            argument="features",
        )
    if coefficients.shape != features.shape:
        raise DataError(
            f"{{argument}} has the shape {coefficients.shape}, but `features` has the shape "
            f"{features.shape}",
            "Give one coefficient for each feature.",
            argument="coefficients",
        )
    limit = np.iinfo(np.int32).max if names is None else len(names)
    outside = (features < -1) | (features >= limit)
    checks.refuse(
        outside.any(axis=1),
        f"{{argument}} is not between -1 and {limit - 1}",
        "Number the features from 0 along `names`, with -1 in an empty slot",
        "features",
    )
    # Rows with such a feature are refused or dropped.
    block = Block(np.where(outside, -1, features).astype(np.int32), coefficients)
    coefficients[block.features < 0] = 0.0
    _check_coefficients(checks, block, "coefficients")
    largest = block.features.max()
    if names is None and largest >= max(1_000_000, 4 * features.size):
        raise DataError(
            f"{{argument}} counts up to {largest:,} with {features.size:,} slots",
            "Number the features from 0 without large gaps, or use `Dataset.from_mappings`.",
            argument="features",
        )
    return block


def _read_events(events: Any, times: np.ndarray, checks: Checks) -> RankedSides:
    """Read the numbers of events; they have no names and ranks to check."""
    numbers = np.asarray(events)
    if numbers.shape != times.shape or numbers.dtype.kind not in "iu":
        problem = f"{{argument}} must be {len(times):,} integers"
        raise DataError(problem, "Number the events from 0.", argument="events")
    labels, numbers = np.unique(numbers, return_inverse=True)
    rows = np.arange(len(times))
    ranked = RankedSides([], numbers, rows, rows, labels.tolist(), None, None, True, {})
    ranked.check_times(checks, times)
    return ranked


def _read_aspect_arrays(
    aspects: Mapping[str, Any], shape: tuple[int, ...], checks: Checks
) -> np.ndarray:
    """The coefficients of all aspects, the first of which is the general skill."""
    found = general_skill(shape, 1 + len(aspects))
    for place, (name, values) in enumerate(aspects.items(), start=1):
        argument = f"aspects[{name!r}]"
        check_aspect_name(name, argument)
        numbers = np.asarray(values, np.float64)
        if numbers.shape != shape:
            raise DataError(
                f"{{argument}} has the shape {numbers.shape}, but `features` has the shape {shape}",
                "Give one coefficient for each feature.",
                argument=argument,
            )
        problem, remedy = "{argument} has a missing or infinite number", "Give finite numbers"
        checks.refuse(~np.isfinite(numbers).all(axis=1), problem, remedy, argument)
        found[..., place] = numbers
    return found


def _read_times(
    times: Any, rules: Rules, ranked: RankedSides | None = None
) -> tuple[np.ndarray, TimeScale, Checks]:
    """Read the time of each row; return also the scale and the checks for all rows."""
    argument = "times" if rules.schema is None else "time"
    times, scale = read_times(times, rules.unit, argument)
    schema = rules.meaning
    rows, events = (None, None) if ranked is None else (ranked.rows, ranked.events)
    checks = Checks(len(times), rules.on_invalid, schema.copies, schema.columns, rows, events)
    problem, remedy = "{argument} is missing or infinite", "Give every observation a finite time"
    checks.refuse(~np.isfinite(times), problem, remedy, argument)
    return times, scale, checks


def _check_coefficients(checks: Checks, block: Block, argument: str) -> None:
    checks.refuse(
        ~np.isfinite(block.coefficients).all(axis=1),
        "{argument} has a coefficient that is missing or infinite",
        "Give finite numbers",
        argument,
    )


def _finish(
    times: np.ndarray,
    scale: TimeScale,
    block: Block,
    outcome: np.ndarray,
    weight: Any,
    checks: Checks,
    rules: Rules,
    ranked: RankedSides | None,
) -> Observations:
    """Check outcomes, read weights and drop refused rows; the caller sets the names."""
    schema, copies = rules.meaning, rules.meaning.copies
    _check_outcome(outcome, checks, rules.likelihood)
    weight = None if weight is None else _read_weight(weight, checks, len(times))
    if schema.has_second_score:
        outcome = np.stack([outcome, np.zeros_like(outcome)], axis=1).ravel()
    block = block.compact()
    checks.refuse(
        ~(block.features >= 0).any(axis=1),
        "no feature has a coefficient other than zero",
        "Name at least one feature",
    )
    rows = None if copies == 1 else np.arange(len(outcome)) // copies
    rows, events = (rows, rows) if ranked is None else (ranked.rows, ranked.events)
    labels = {} if ranked is None or not schema.is_ranking else _keep_labels(ranked)
    read = Observations(
        **block._asdict(),
        times=np.repeat(times, copies),
        outcome=outcome,
        weight=None if weight is None else np.repeat(weight, copies),
        rows=rows,
        names=(),
        grouping=schema.groups(read_groups(rules.groups)),
        scale=scale,
        schema=rules.schema,
        library=rules.library,
        events=events,
        **labels,
    )
    kept = checks.kept()
    return read if kept is None else read.take(kept)


def _keep_labels(ranked: RankedSides) -> dict[str, Any]:
    """The names of events and teams, which `to_frame` writes."""
    labels: dict[str, Any] = {}
    if ranked.sides is not None:
        labels["event_names"] = tuple(map(_simple, ranked.labels))
    if ranked.teams is not None:
        names = {name: None for name in map(_simple, ranked.teams) if name is not None}
        numbers = {name: number for number, name in enumerate(names)}
        teams = [numbers.get(_simple(name), -1) for name in ranked.teams]
        labels |= {"team_names": tuple(names), "teams": np.array(teams, np.int32)}
    return labels


def _simple(label: Hashable) -> Hashable:
    """A label that files can hold."""
    return label if label is None or isinstance(label, (str, int, float)) else str(label)


def _check_outcome(outcome: np.ndarray, checks: Checks, likelihood: OutcomeDomain | None) -> None:
    problem, remedy = "{argument} is missing or infinite", "Give every observation an outcome"
    checks.refuse(~np.isfinite(outcome), problem, remedy, "outcome")
    if isinstance(likelihood, type):
        problem = f"{{argument}} is the class {likelihood.__name__}"
        raise DataError(problem, "Pass an object, such as Probit().", argument="likelihood")
    if likelihood is not None:
        bad, remedy = np.asarray(likelihood.check(outcome)), "Choose another likelihood"
        checks.refuse(bad, outcome_problem(likelihood), remedy, "outcome", outcome)


def _read_weight(weight: Any, checks: Checks, num_rows: int) -> np.ndarray:
    weight = to_floats(weight, "weight", num_rows)
    problem = "{argument} is missing or infinite"
    checks.refuse(~np.isfinite(weight), problem, "Give finite weights", "weight")
    problem = "{argument} is {value}, but must not be negative"
    checks.refuse(weight < 0, problem, "Give weights of at least 0", "weight", weight)
    return weight


def _check_names(names: Sequence[Hashable]) -> tuple[Hashable, ...]:
    """Check the names of numbered features; return them as plain Python values."""
    seen: dict[Hashable, int] = {}
    for number, name in enumerate(map(plain, names)):
        if is_missing(name):
            problem = f"{{argument}} is missing for feature {number}"
            raise DataError(problem, "Name every feature.", argument="names")
        if seen.setdefault(name, number) != number:
            problem, remedy = "{argument} has {value} twice", "Give every feature its own name."
            raise DataError(problem, remedy, argument="names", value=name)
    return tuple(seen)
