"""From a table, names or arrays to checked observations."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

import narwhals as nw
import numpy as np

from jaxkick.data.aspect_columns import AspectNames, read_aspects
from jaxkick.data.columns import TimeScale, as_column, is_missing, read_times, to_floats
from jaxkick.data.outcomes import Points, read_outcomes, read_points
from jaxkick.data.ranking_tables import RankedSides, read_sides, read_wide
from jaxkick.data.schema import (
    GENERAL,
    HOME,
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
from jaxkick.errors import Checks, DataError, OnInvalid, did_you_mean, plain

__all__ = [
    "Columns",
    "Observations",
    "OutcomeDomain",
    "Rules",
    "check_outcomes",
    "join_observations",
    "library_of",
    "library_of_columns",
    "read_arrays",
    "read_frame",
    "read_observations",
    "read_table",
    "refuse_repeats",
    "tabulate_pairs",
]

_REPEATS = "allow_repeats=True"


class OutcomeDomain(Protocol):
    """The part of a likelihood that knows which outcomes are possible.

    `domain` describes them in words; `check` says for each outcome whether it is outside.
    """

    @property
    def domain(self) -> str: ...
    def check(self, outcome: np.ndarray) -> np.ndarray: ...


class Observations(NamedTuple):
    """Checked observations of sparse linear combinations of features.

    Attributes:
        times: float64 time of each observation, in the unit of `scale`.
        features: int32 feature numbers [N, P], each once in an observation; -1 in empty slots,
            which come last.
        coefficients: coefficients [N, P]; 0 in empty slots.
        outcome: outcome of each observation.
        weight: weight of each observation, or `None`.
        rows: the user's row of each observation, or `None` where each row made one.
        names: the key of each feature; feature numbers count along them.
        grouping: the rule for the groups of features.
        scale: the conversion between the user's times and numbers.
        schema: the meaning of the user's table, if there was one.
        library: the library of the user's table or columns: `"pandas"`, `"polars"`, `"pyarrow"`,
            or `None`.
        events: the event of each observation, for likelihoods of several scores: those of one
            event are evaluated together. `None` where each is an event of its own.
        kinds: the number of each observation's kind, or `None` where there is one.
        kind_names: the names of the kinds, in the order of their numbers.
        kind_schemas: the meaning of the table of each kind, in the same order. `schema` is then
            `None`, and `rows` counts the rows of each kind by themselves.
        aspects: coefficients [N, P, A] of the aspects of each feature; 0 in empty slots. `None`
            where there are no aspects.
        aspect_names: the names of the aspects; the first is the general skill.
        aspect_roles: for each aspect, the name in `aspects=` of the column whose label it is;
            `""` if none.
    """

    times: np.ndarray
    features: np.ndarray
    coefficients: np.ndarray
    outcome: np.ndarray
    weight: np.ndarray | None
    rows: np.ndarray | None
    names: tuple[Hashable, ...]
    grouping: Groups
    scale: TimeScale
    schema: Schema | None = None
    library: str | None = None
    events: np.ndarray | None = None
    kinds: np.ndarray | None = None
    kind_names: tuple[str, ...] = ()
    kind_schemas: tuple[Schema | None, ...] = ()
    aspects: np.ndarray | None = None
    aspect_names: tuple[str, ...] = ()
    aspect_roles: tuple[str, ...] = ()

    @property
    def block(self) -> Block:
        """The features of each observation."""
        return Block(self.features, self.coefficients, self.aspects)

    def take(self, chosen: Any) -> "Observations":
        """Choose observations by a boolean mask, a slice or numbers; all names stay."""
        block = self.block.map(lambda array: array[chosen]).trim()
        return self._replace(
            **block._asdict(),
            times=self.times[chosen],
            outcome=self.outcome[chosen],
            weight=None if self.weight is None else self.weight[chosen],
            rows=self.row_numbers[chosen],
            events=None if self.events is None else self.events[chosen],
            kinds=None if self.kinds is None else self.kinds[chosen],
        )

    def of_kind(self, kind: str) -> "Observations":
        """Choose the observations of one kind, with the meaning of their table."""
        number = self.kind_names.index(kind)
        chosen = slice(None) if self.kinds is None else self.kinds == number
        schema = self.kind_schemas[number]
        return self.take(chosen)._replace(schema=schema, kinds=None, kind_names=(), kind_schemas=())

    @property
    def has_events(self) -> bool:
        """True if some observations belong to one event."""
        return self.events is not None and len(np.unique(self.events)) < len(self.events)

    @property
    def row_numbers(self) -> np.ndarray:
        """The user's row of each observation."""
        return np.arange(len(self.times)) if self.rows is None else self.rows


class Columns(NamedTuple):
    """The columns of a table, by what they mean.

    Attributes:
        times: the time of each match.
        sides: for each argument the values that `read_side` takes, and their sign.
        covariates: coefficients of further features by name, the home advantage among them.
        outcome: outcomes or `Points`; `None` where the first side always won.
        weight: weights, or `None`.
        labels: labels of each match by the role of the skills that competitors have for them.
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
    """Options that all readers share: those of `Dataset`, and the meaning of a table."""

    groups: Groups = None
    unit: str | None = None
    on_invalid: OnInvalid = "raise"
    likelihood: OutcomeDomain | None = None
    schema: Schema | None = None
    library: str | None = None


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
            f"{{argument}} has several columns of one name ({' '.join(str(error).split())})",
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
    """Make a table and its schema of the arguments of `Dataset.from_pairs`."""
    table: dict[str, Any] = {}

    def put(name: str, values: Any, argument: str) -> Any:
        """Add a column; return its name, or a number as it is."""
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
        raise DataError(
            "The data was not made from a table, so the meaning of columns is unknown",
            "Pass a `Dataset` of the new matches.",
        )
    with naming_columns(rules.schema):
        return read_observations(read_frame(frame, rules.schema), rules)


@contextmanager
def naming_columns(schema: Schema):
    """Add the user's column to errors that know only the argument."""
    try:
        yield
    except DataError as error:
        if error.column is None and error.argument is not None:
            error.column = schema.columns.get(error.argument)
        raise


def read_frame(frame: Any, schema: Schema, with_outcome: bool = True) -> Columns:
    """Take the columns that a schema names out of a table.

    Args:
        frame: the table.
        schema: the meaning of its columns.
        with_outcome: whether to read outcomes and weights; future matches have none.
    """
    table = frame if library_of(frame) is None else nw.from_native(frame, eager_only=True)
    names = list(table if isinstance(table, Mapping) else table.columns)

    def column(argument: str, value: Any, optional: bool = False) -> Any:
        """A column by its name; numbers, and `None` where it is optional, as they are."""
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
        problem = "{argument} is {value}, but must be the name of a column"
        raise DataError(problem, argument=argument, value=value)

    def side(argument: str, columns: Any) -> Any:
        if isinstance(columns, str):
            return column(argument, columns)
        pairs = [(column(argument, name), column(argument, part)) for name, part in columns]
        return Lineup(*zip(*pairs, strict=True))

    if schema.is_ranking:
        return _read_rankings(schema, column, with_outcome)
    first, second = side("first", schema.first), side("second", schema.second)
    num_rows = len(first.names[0] if isinstance(first, Lineup) else first)
    times = column("time", schema.time)
    times = times if isinstance(schema.time, str) else np.full(num_rows, times, np.float64)
    outcome, weight = None, None
    if with_outcome:
        outcome = column("outcome", schema.outcome, optional=True)
        weight = column("weight", schema.weight, optional=True)
        for argument in ("result", "difference", "counts"):
            pair = getattr(schema, argument)
            if pair is not None:
                one, other = (to_floats(column(argument, c), argument, num_rows) for c in pair)
                outcome = Points(argument, one, other)
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
    copies = 1 if rules.schema is None else rules.schema.copies
    ranked = columns.ranked
    times, scale, checks = _read_times(columns.times, rules, copies, ranked)
    if ranked is not None:
        ranked.check(checks, times)
        if rules.schema.dnf == "drop":
            there = columns.outcome > 0
            # One side alone says nothing.
            enough = np.bincount(ranked.events, there) > 1
            there &= enough[ranked.events]
            if not there.any():
                problem = "{argument} is {value}, but no event has two sides with a place"
                raise DataError(problem, "Pass 'last'.", argument="dnf", value="drop")
            checks.leave_out(~there)
    vocabulary = Vocabulary()
    blocks = {}
    for argument, (values, sign) in columns.sides.items():
        blocks[argument] = read_side(values, sign, vocabulary, argument, len(times))
    pairs = rules.schema is not None and rules.schema.pairs
    further = read_further(list(blocks.values()), columns.labels, pairs, vocabulary)
    known = AspectNames((), ())
    if rules.schema is not None and rules.schema.aspects is not None:
        num_sides = len(columns.sides)
        known, by_side = read_aspects(rules.schema, columns.aspects, len(times), None, num_sides)
        for argument, own in zip(columns.sides, by_side, strict=True):
            block = blocks[argument]
            problem, remedy = "a label or number of an aspect is missing", "Give all of them"
            checks.refuse(np.isnan(own).any(axis=1), problem, remedy, "aspects")
            shape = (*block.features.shape, own.shape[-1])
            aspects = np.broadcast_to(np.nan_to_num(own)[:, None], shape)
            blocks[argument] = block._replace(aspects=aspects)
    for name, values in columns.covariates.items():
        argument = f"covariates[{name!r}]"
        argument = argument if rules.schema is None else rules.schema.covariate_argument(name)
        blocks[argument] = read_covariate(name, values, vocabulary, argument, len(times))
    missing = vocabulary.missing()
    for argument, block in blocks.items():
        if missing.any():
            bad = missing[block.features].any(axis=1)
            checks.refuse(bad, "{argument} has a missing name", "Name every competitor", argument)
        _check_coefficients(checks, block, argument)
    if len(columns.sides) > 1:
        first, second = (blocks[argument].features for argument in columns.sides)
        checks.refuse(
            on_both_sides(first, second),
            "the same competitor is on both sides",
            "Remove matches of a competitor against itself",
        )
    for argument, (block, *_) in further.items():
        problem, remedy = "{argument} has a missing label", "Label every match"
        checks.refuse((block.features < 0).all(axis=1), problem, remedy, argument)
    first, *others = blocks.values()
    if rules.schema is not None and rules.schema.counts is not None:
        places = None if rules.schema.has_roles else tuple(map(known.names.index, ROLES))
        block, vocabulary = split_counts(first, others[0], others[1:], vocabulary, places)
    else:
        block = join([first, *others, *chain.from_iterable(further.values())])
        if rules.schema is not None and rules.schema.noise_effects:
            block = add_noise(block, vocabulary)
        elif copies == 2:
            block = add_ties(block, [first, others[0]], vocabulary)
    outcome = columns.outcome
    if isinstance(outcome, Points):
        outcome = read_points(outcome, checks)
    else:
        sides = [values for values, _ in columns.sides.values()] if len(columns.sides) > 1 else []
        meaning = None if rules.schema is None else rules.schema.outcomes
        outcome, meaning = read_outcomes(outcome, meaning, sides, len(times))
        if rules.schema is not None:
            rules = rules._replace(schema=replace(rules.schema, outcomes=meaning))
    read = _finish(times, scale, block, outcome, columns.weight, checks, rules, copies, ranked)
    names, places = vocabulary.sort(read.features)
    return read._replace(
        names=names,
        features=places[read.features],
        aspect_names=known.names,
        aspect_roles=known.roles,
    )


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
    times, scale, checks = _read_times(times, rules, 1)
    features = np.asarray(features)
    coefficients = np.array(coefficients, np.float64)
    if features.ndim != 2 or len(features) != len(times) or features.dtype.kind not in "iu":
        raise DataError(
            f"{{argument}} has the shape {features.shape} and type {features.dtype}, but must be "
            f"an array of integers with a row for each of the {len(times):,} observations",
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
    if aspects:
        block = block._replace(aspects=_read_aspect_arrays(aspects, features.shape, checks))
    num_features = int(block.features.max()) + 1
    if names is None and num_features > max(1_000_000, 4 * features.size):
        raise DataError(
            f"{{argument}} counts up to {num_features - 1:,} with {features.size:,} slots",
            "Number the features from 0 without large gaps, or use `Dataset.from_mappings`.",
            argument="features",
        )
    known = tuple(range(num_features)) if names is None else _check_names(names)
    outcome, _ = read_outcomes(outcome, None, (), len(times))
    ranked = None
    if events is not None:
        numbers = np.asarray(events)
        if numbers.shape != times.shape or numbers.dtype.kind not in "iu":
            problem = f"{{argument}} must be {len(times):,} integers"
            raise DataError(problem, "Number the events from 0.", argument="events")
        labels, numbers = np.unique(numbers, return_inverse=True)
        rows = np.arange(len(times))
        ranked = RankedSides([], numbers, rows, rows, labels.tolist(), None, True, {})
        ranked.check_times(checks, times)
    read = _finish(times, scale, block, outcome, weight, checks, rules, ranked=ranked)
    if not aspects:
        return read._replace(names=known)
    roles = ("",) * (1 + len(aspects))
    return read._replace(names=known, aspect_names=(GENERAL, *aspects), aspect_roles=roles)


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


def join_observations(parts: Sequence[Observations]) -> Observations:
    """Join observations one after the other, with the names of all.

    The schema is that of the first, and so is the rule for the groups, except that mappings are
    joined. Kinds keep their own schemas. Names that are the same in all parts keep their order,
    which may be the user's own; others are sorted.
    """
    first = parts[0]
    for other in parts[1:]:
        _check_alike(first, other)
    names, vocabulary = first.names, Vocabulary()
    features = [part.features for part in parts]
    if any(part.names != names for part in parts):
        codes = [vocabulary.encode(list(part.names), "names") for part in parts]
        names, places = vocabulary.sort(np.concatenate(codes))
        features = [
            np.append(places[code], np.int32(-1))[old]
            for code, old in zip(codes, features, strict=True)
        ]
    aspects, aspect_names, aspect_roles = _join_aspects(parts)
    block = Block(
        _stack(features, -1),
        _stack([part.coefficients for part in parts], 0.0),
        None if aspects is None else _stack(aspects, 0.0),
    ).trim()
    weight = None
    if any(part.weight is not None for part in parts):
        weight = np.concatenate(
            [np.ones_like(part.outcome) if part.weight is None else part.weight for part in parts]
        )
    events = None
    if any(part.events is not None for part in parts):
        own = [_event_numbers(part) for part in parts]
        lasts = np.cumsum([0, *(part.max() + 1 for part in own[:-1])])
        events = np.concatenate([part + last for part, last in zip(own, lasts, strict=True)])
    kinds, schemas = _join_kinds(parts)
    return first._replace(
        **block._asdict(),
        grouping=_join_groupings([part.grouping for part in parts]),
        aspect_names=aspect_names,
        aspect_roles=aspect_roles,
        events=events,
        kinds=kinds,
        kind_names=tuple(schemas),
        kind_schemas=tuple(schemas.values()),
        times=np.concatenate([part.times for part in parts]),
        outcome=np.concatenate([part.outcome for part in parts]),
        weight=weight,
        rows=_join_rows(parts, kinds),
        names=names,
    )


def _check_alike(first: Observations, other: Observations) -> None:
    """Refuse observations that cannot be joined."""
    if other.scale != first.scale:
        raise DataError(
            f"The new matches have times {other.scale.describe()}, but the data has times "
            f"{first.scale.describe()}",
            "Use the same kind of times and the same `unit`.",
        )
    if bool(first.kind_names) != bool(other.kind_names):
        raise DataError(
            "Only some of the observations have a kind",
            'Give all a kind, as in `jk.concat({"races": races})`.',
        )
    if first.kind_names:
        for kind in first.kind_names:
            if kind in other.kind_names:
                _check_alike(first.of_kind(kind), other.of_kind(kind))
        return
    schemas = [part.schema for part in (first, other)]
    readings = [schema and schema.reading for schema in schemas]
    if None not in readings and readings[0] != readings[1]:
        raise DataError(
            f"The new matches were read with `{readings[1]}=`, but the data with `{readings[0]}=`",
            "Read both alike.",
        )
    for name in ("tie_effects", "noise_effects"):
        effects = [schema is not None and getattr(schema, name) for schema in schemas]
        if effects[0] != effects[1]:
            problem = f"Only some of the matches were read with `{name}=True`"
            raise DataError(problem, "Read all alike.")
    joint = [schema and schema.aspects is not None for schema in schemas]
    if None not in joint and joint[0] != joint[1]:
        problem = "Only some of the matches were read with `aspects=`"
        raise DataError(problem, "Read all alike.")
    # Events of arrays may be rankings; without events and a schema, observations are not.
    rankings = [part.schema is not None and part.schema.is_ranking for part in (first, other)]
    possible = [part.schema is None and part.has_events for part in (first, other)]
    if rankings[0] != rankings[1] and not any(possible):
        raise DataError(
            "Rankings and matches cannot be joined without a kind",
            'Give each a kind: `jk.concat({"duels": duels, "races": races})`.',
        )


def _join_rows(parts: Sequence[Observations], kinds: np.ndarray | None) -> np.ndarray | None:
    """The user's rows of joined observations, which continue those before, kind by kind."""
    if kinds is None and all(part.rows is None for part in parts):
        return None
    whole = np.concatenate([part.row_numbers for part in parts])
    kinds = np.zeros(len(whole), int) if kinds is None else kinds
    before, start = np.zeros(kinds.max() + 1, int), 0
    for part in parts:
        here = slice(start, start + len(part.times))
        whole[here] += before[kinds[here]]
        np.maximum.at(before, kinds[here], whole[here] + 1)
        start = here.stop
    return whole


def _join_groupings(groupings: Sequence[Groups]) -> Groups:
    """Join mappings, of which the first has the last word; a function decides alone."""
    first, *others = groupings
    if callable(first) or all(other is None or callable(other) for other in others):
        return first
    joined: dict[Hashable, str] = {}
    for grouping in groupings[::-1]:
        joined |= {} if grouping is None or callable(grouping) else dict(grouping)
    return joined


def _join_aspects(
    parts: Sequence[Observations],
) -> tuple[list[np.ndarray] | None, tuple[str, ...], tuple[str, ...]]:
    """The coefficients of joined observations over the aspects of all, and their names."""
    found: dict[str, str] = {}
    for part in parts[::-1]:
        found = dict(zip(part.aspect_names, part.aspect_roles, strict=True)) | found
    names = tuple(dict.fromkeys(name for part in parts for name in part.aspect_names))
    if not names:
        return None, (), ()
    joined = []
    for part in parts:
        own = part.block.with_aspects(1).aspects
        wide = np.zeros((*own.shape[:2], len(names)))
        wide[..., [names.index(name) for name in part.aspect_names or names[:1]]] = own
        joined.append(wide)
    return joined, names, tuple(found[name] for name in names)


def _join_kinds(
    parts: Sequence[Observations],
) -> tuple[np.ndarray | None, dict[str, Schema | None]]:
    """The kinds of joined observations, and the schema of each."""
    schemas: dict[str, Schema | None] = {}
    for part in parts:
        for name, schema in zip(part.kind_names, part.kind_schemas, strict=True):
            schemas.setdefault(name, schema)
    if not schemas:
        return None, {}
    names, kinds = list(schemas), []
    for part in parts:
        numbers = np.array([names.index(name) for name in part.kind_names], np.int32)
        kinds.append(numbers[np.zeros(len(part.times), int) if part.kinds is None else part.kinds])
    return np.concatenate(kinds), schemas


def refuse_repeats(old: Observations, new: Observations) -> None:
    """Refuse new matches that the data already has: the same sides at the same time.

    A data set without times, or with one time for all, says nothing about repeats.

    Raises:
        DataError: if there is such a match.
    """
    timeless = old.schema is not None and not isinstance(old.schema.time, str)
    latest = old.times.max()
    if timeless or new.scale != old.scale or (len(old.times) > 1 and old.times.min() == latest):
        return
    # Most new matches are later than all others.
    here = np.flatnonzero(new.times <= latest)
    here = here[np.isin(new.times[here], old.times)]
    if not here.size:
        return
    there = np.flatnonzero(np.isin(old.times, new.times[here]))
    known = set(_matches(old, there, old.coefficients.dtype).values())
    keys = _matches(new, here, old.coefficients.dtype)
    chosen = _event_numbers(new)[here].tolist()
    repeated = here[[keys[number] in known for number in chosen]]
    if repeated.size:
        rows = np.unique(new.row_numbers[repeated])
        raise DataError(
            "the data already has a match of the same sides at the same time",
            f"Remove matches that are in the data, or pass {{{_REPEATS}}} if they met again.",
            row=int(rows[0]),
            count=len(rows),
            mentions=[_REPEATS],
        )


def _event_numbers(observations: Observations) -> np.ndarray:
    """The event of each observation, which is its own if there are none."""
    events = observations.events
    return np.arange(len(observations.times)) if events is None else events


def _matches(
    observations: Observations, chosen: np.ndarray, dtype: np.dtype
) -> dict[int, tuple[float, frozenset]]:
    """A key of each chosen event: its time, and the features of all sides with coefficients."""
    names = observations.names
    columns = (
        _event_numbers(observations)[chosen],
        observations.times[chosen],
        observations.features[chosen],
        observations.coefficients[chosen].astype(dtype),
    )
    events: dict[int, tuple[float, set]] = {}
    for number, time, features, parts in zip(*(part.tolist() for part in columns), strict=True):
        side = frozenset((names[k], x) for k, x in zip(features, parts, strict=True) if k >= 0)
        events.setdefault(number, (time, set()))[1].add(side)
    return {number: (time, frozenset(sides)) for number, (time, sides) in events.items()}


def check_outcomes(
    likelihood: OutcomeDomain,
    outcome: np.ndarray,
    rows: np.ndarray | None = None,
    mask: np.ndarray | None = None,
) -> None:
    """Refuse outcomes that a likelihood cannot explain.

    Args:
        likelihood: the likelihood.
        outcome: the outcome of each observation.
        rows: the user's row of each observation, if it is not its number.
        mask: the observations to look at; all of them if `None`.

    Raises:
        DataError: if there is such an outcome.
    """
    bad = np.asarray(likelihood.check(outcome))
    bad = bad if mask is None else bad & mask
    if bad.any():
        place = int(np.argmax(bad))
        raise DataError(
            _outcome_problem(likelihood),
            "Choose another likelihood, or build the data set with likelihood= and "
            "on_invalid='drop'.",
            argument="outcome",
            row=place if rows is None else int(rows[place]),
            count=int(bad.sum()),
            value=plain(outcome[place]),
        )


def _outcome_problem(likelihood: OutcomeDomain) -> str:
    name = type(likelihood).__name__
    return f"outcome {{value}} is not valid for {name}, which needs {likelihood.domain}"


def _read_times(
    times: Any, rules: Rules, copies: int, ranked: RankedSides | None = None
) -> tuple[np.ndarray, TimeScale, Checks]:
    """The time of each row, its scale, and the checks that all rows go through."""
    argument = "times" if rules.schema is None else "time"
    times, scale = read_times(times, rules.unit, argument)
    columns = {} if rules.schema is None else rules.schema.columns
    rows, events = (None, None) if ranked is None else (ranked.rows, ranked.events)
    checks = Checks(len(times), rules.on_invalid, copies, columns, rows, events)
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
    copies: int = 1,
    ranked: RankedSides | None = None,
) -> Observations:
    """Check outcomes, read weights and leave out refused rows; the names are still to be set."""
    weight = _check_outcome(outcome, weight, checks, rules, len(times), copies)
    if rules.schema is not None and rules.schema.has_second_score:
        outcome = np.stack([outcome, np.zeros_like(outcome)], axis=1).ravel()
    block = block.compact()
    checks.refuse(
        ~(block.features >= 0).any(axis=1),
        "no feature has a coefficient other than zero",
        "Name at least one feature",
    )
    groups = read_groups(rules.groups)
    groups = groups if rules.schema is None else rules.schema.groups(groups)
    rows = None if copies == 1 else np.arange(len(outcome)) // copies
    rows, events = (rows, rows) if ranked is None else (ranked.rows, ranked.events)
    read = Observations(
        np.repeat(times, copies),
        block.features,
        block.coefficients,
        outcome,
        weight,
        rows,
        aspects=block.aspects,
        names=(),
        grouping=groups,
        scale=scale,
        schema=rules.schema,
        library=rules.library,
        events=events,
    )
    kept = checks.kept()
    return read if kept is None else read.take(kept)


def _check_outcome(
    outcome: np.ndarray, weight: Any, checks: Checks, rules: Rules, num_rows: int, copies: int
) -> np.ndarray | None:
    """Refuse outcomes and weights that cannot be used; return the weights."""
    problem = "{argument} is missing or infinite"
    checks.refuse(~np.isfinite(outcome), problem, "Give every observation an outcome", "outcome")
    if isinstance(rules.likelihood, type):
        problem = f"{{argument}} is the class {rules.likelihood.__name__}"
        raise DataError(problem, "Pass an object, such as Probit().", argument="likelihood")
    if rules.likelihood is not None:
        bad = np.asarray(rules.likelihood.check(outcome))
        remedy = "Choose another likelihood"
        checks.refuse(bad, _outcome_problem(rules.likelihood), remedy, "outcome", outcome)
    if weight is None:
        return None
    weight = to_floats(weight, "weight", num_rows)
    checks.refuse(~np.isfinite(weight), problem, "Give finite weights", "weight")
    problem = "{argument} is {value}, but must not be negative"
    checks.refuse(weight < 0, problem, "Give weights of at least 0", "weight", weight)
    return np.repeat(weight, copies)


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


def _stack(arrays: Sequence[np.ndarray], padding: float) -> np.ndarray:
    """Join arrays [N, P] or [N, P, A] one below the other, as wide as the widest."""
    width = max(array.shape[1] for array in arrays)
    widened = [
        np.pad(
            array,
            ((0, 0), (0, width - array.shape[1]), *[(0, 0)] * (array.ndim - 2)),
            constant_values=padding,
        )
        for array in arrays
    ]
    return np.concatenate(widened)
