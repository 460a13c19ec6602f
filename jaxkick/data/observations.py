"""Checked observations: choose, join and compare them."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, fields, replace
from functools import reduce
from typing import Any, Protocol

import numpy as np

from jaxkick.data.aspect_columns import AspectNames
from jaxkick.data.columns import TimeScale
from jaxkick.data.schema import NO_TABLE, Groups, Schema
from jaxkick.data.sides import Block, Vocabulary, stack
from jaxkick.errors import DataError, invalid, plain

_REPEATS = "allow_repeats=True"


class OutcomeDomain(Protocol):
    """The part of a likelihood that defines valid outcomes.

    `domain` describes them in words; `check` is True for each invalid outcome.
    """

    @property
    def domain(self) -> str: ...
    def check(self, outcome: np.ndarray) -> np.ndarray: ...


@dataclass(frozen=True, eq=False, kw_only=True)
class AbstractRecord:
    """The part of the observations that a data set keeps on the host.

    Attributes:
        times: float64 time of each observation, in the unit of `scale`.
        features: int32 feature numbers [N, P], each once in an observation; -1 in empty slots,
            which come last.
        names: the key of each feature; feature numbers count along them.
        grouping: the rule for the groups of features, also of new ones.
        scale: the conversion between the user's times and numbers.
        rows: the user's row of each observation; `None` if every row is one observation.
        schema: the meaning of the user's table, if there was one.
        library: the library of the user's table or columns: `"pandas"`, `"polars"`, `"pyarrow"`,
            or `None`.
        events: the event of each observation, for likelihoods of several scores, which evaluate
            the observations of an event together. `None` if every observation is an event.
        event_names: the user's name of each event, by its number; `None` for an event without.
        teams: the number of each observation's team, -1 without one; `None` if there are no teams.
        team_names: the names of the teams.
        kinds: the number of each observation's kind; `None` if there is only one kind.
        kind_names: the names of the kinds, in the order of their numbers.
        kind_schemas: the meaning of the table of each kind, in the same order. `schema` is then
            `None`, and `rows` counts the rows of each kind separately.
        aspects: coefficients [N, P, A] of the aspects of each feature; 0 in empty slots. `None`
            where there are no aspects.
        aspect_names: the names of the aspects; the first is the general skill.
        aspect_roles: for each aspect, the name in `aspects=` of the column that has it as a label;
            `""` if none.
    """

    times: np.ndarray
    features: np.ndarray
    names: tuple[Hashable, ...]
    grouping: Groups
    scale: TimeScale
    rows: np.ndarray | None = None
    schema: Schema | None = None
    library: str | None = None
    events: np.ndarray | None = None
    event_names: tuple[Hashable, ...] = ()
    teams: np.ndarray | None = None
    team_names: tuple[Hashable, ...] = ()
    kinds: np.ndarray | None = None
    kind_names: tuple[str, ...] = ()
    kind_schemas: tuple[Schema | None, ...] = ()
    aspects: np.ndarray | None = None
    aspect_names: tuple[str, ...] = ()
    aspect_roles: tuple[str, ...] = ()

    def record(self) -> dict[str, Any]:
        """The attributes of this class by name, to construct another record."""
        return {field.name: getattr(self, field.name) for field in fields(AbstractRecord)}

    def kind_number(self, kind: str) -> int:
        """The number of a kind."""
        if kind not in self.kind_names:
            raise invalid(
                "kind",
                kind,
                "but the data has no such kind",
                f"Its kinds: {', '.join(map(repr, self.kind_names)) or 'none'}.",
            )
        return self.kind_names.index(kind)

    @property
    def known_aspects(self) -> AspectNames:
        """The names of the aspects of competitors."""
        return AspectNames(self.aspect_names, self.aspect_roles)

    @property
    def row_numbers(self) -> np.ndarray:
        """The user's row of each observation."""
        return np.arange(len(self.times)) if self.rows is None else self.rows

    @property
    def event_numbers(self) -> np.ndarray:
        """The event of each observation; without events, every observation is one."""
        return np.arange(len(self.times)) if self.events is None else self.events

    @property
    def kind_numbers(self) -> np.ndarray:
        """The number of each observation's kind; 0 if there is one."""
        return np.zeros(len(self.times), np.int32) if self.kinds is None else self.kinds


@dataclass(frozen=True, eq=False, kw_only=True)
class Observations(AbstractRecord):
    """Checked observations of sparse linear combinations of features.

    Attributes:
        coefficients: coefficients [N, P]; 0 in empty slots.
        outcome: outcome of each observation.
        weight: weight of each observation, or `None`.
    """

    coefficients: np.ndarray
    outcome: np.ndarray
    weight: np.ndarray | None = None

    @property
    def block(self) -> Block:
        """The features of each observation."""
        return Block(self.features, self.coefficients, self.aspects)

    def take(self, chosen: Any) -> "Observations":
        """Choose observations by a boolean mask, a slice or numbers; all names stay."""
        optional = {name: getattr(self, name) for name in ("weight", "events", "teams", "kinds")}
        return replace(
            self,
            **self.block.map(lambda array: array[chosen]).trim()._asdict(),
            **{name: None if each is None else each[chosen] for name, each in optional.items()},
            times=self.times[chosen],
            outcome=self.outcome[chosen],
            rows=self.row_numbers[chosen],
        )

    def of_kind(self, kind: str) -> "Observations":
        """Choose the observations of one kind, with the meaning of their table."""
        number = self.kind_number(kind)
        chosen, schema = self.take(self.kind_numbers == number), self.kind_schemas[number]
        return replace(chosen, schema=schema, kinds=None, kind_names=(), kind_schemas=())

    @property
    def has_events(self) -> bool:
        """True if some observations belong to one event."""
        return self.events is not None and len(np.unique(self.events)) < len(self.events)


def join_observations(parts: Sequence[Observations]) -> Observations:
    """Join observations one after the other, with the names of all.

    The result has the schema and the groups of the first part; mappings of groups are merged. Kinds
    keep their own schemas. If all parts have the same names, these keep their order, which may be
    the user's; otherwise names are sorted.
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
    aspects, known_aspects = _join_aspects(parts)
    coefficients = [part.coefficients for part in parts]
    block = stack([Block(*each) for each in zip(features, coefficients, aspects, strict=True)])
    weight = None
    if any(part.weight is not None for part in parts):
        weights = (np.ones_like(p.outcome) if p.weight is None else p.weight for p in parts)
        weight = np.concatenate(list(weights))
    kinds, schemas = _join_kinds(parts)
    return replace(
        first,
        **block.trim()._asdict(),
        times=np.concatenate([part.times for part in parts]),
        outcome=np.concatenate([part.outcome for part in parts]),
        weight=weight,
        rows=_join_rows(parts, kinds),
        names=names,
        grouping=_join_groupings([part.grouping for part in parts]),
        **_join_events(parts),
        **_join_teams(parts),
        kinds=kinds,
        kind_names=tuple(schemas),
        kind_schemas=tuple(schemas.values()),
        aspect_names=known_aspects.names,
        aspect_roles=known_aspects.roles,
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
    one, two = (part.schema or NO_TABLE for part in (first, other))
    if one.reading and two.reading and one.reading != two.reading:
        raise DataError(
            f"The new matches were read with `{two.reading}=`, but the data with `{one.reading}=`",
            "Read both with the same arguments.",
        )
    for name in ("tie_effects", "noise_effects"):
        if getattr(one, name) != getattr(two, name):
            problem = f"Only some of the matches were read with `{name}=True`"
            raise DataError(problem, "Read all with the same arguments.")
    if NO_TABLE not in (one, two) and (one.aspects is None) != (two.aspects is None):
        problem = "Only some of the matches were read with `aspects=`"
        raise DataError(problem, "Read all with the same arguments.")
    # Events of arrays may be rankings; without events and a schema, observations are not.
    possible = [part.schema is None and part.has_events for part in (first, other)]
    if one.is_ranking != two.is_ranking and not any(possible):
        raise DataError(
            "Rankings and matches cannot be joined without a kind",
            'Give each a kind: `jk.concat({"duels": duels, "races": races})`.',
        )


def _join_rows(parts: Sequence[Observations], kinds: np.ndarray | None) -> np.ndarray | None:
    """The rows of joined observations, numbered on from part to part for each kind."""
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


def _join_events(parts: Sequence[Observations]) -> dict[str, Any]:
    """The events of joined observations, numbered on from part to part, and their names."""
    if all(part.events is None for part in parts):
        return {}
    events, names = [], ()
    for part in parts:
        own = part.event_numbers
        count = own.max() + 1
        events.append(own + len(names))
        names += (part.event_names[:count] + (None,) * count)[:count]
    return {"events": np.concatenate(events), "event_names": names}


def _join_teams(parts: Sequence[Observations]) -> dict[str, Any]:
    """The teams of joined observations, and their names."""
    if all(part.teams is None for part in parts):
        return {}
    teams, names = [], ()
    for part in parts:
        own = np.full(len(part.times), -1, np.int32) if part.teams is None else part.teams
        teams.append(np.where(own < 0, -1, own + len(names)).astype(np.int32))
        names += part.team_names
    return {"teams": np.concatenate(teams), "team_names": names}


def _join_groupings(groupings: Sequence[Groups]) -> Groups:
    """Merge mappings, where earlier ones win; if the first is a function, use it alone."""
    first, *others = groupings
    if callable(first) or all(other is None or callable(other) for other in others):
        return first
    joined: dict[Hashable, str] = {}
    for grouping in groupings[::-1]:
        joined |= {} if grouping is None or callable(grouping) else dict(grouping)
    return joined


def _join_aspects(
    parts: Sequence[Observations],
) -> tuple[Sequence[np.ndarray | None], AspectNames]:
    """The coefficients of joined observations over the aspects of all, and their names."""
    known = reduce(AspectNames.joined, [part.known_aspects for part in parts])
    names = known.names
    if not names:
        return [None] * len(parts), known
    joined = []
    for part in parts:
        own = np.asarray(part.block.with_aspects(1).aspects)
        wide = np.zeros((*own.shape[:2], len(names)))
        wide[..., [names.index(name) for name in part.aspect_names or names[:1]]] = own
        joined.append(wide)
    return joined, known


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
        kinds.append(numbers[part.kind_numbers])
    return np.concatenate(kinds), schemas


def refuse_repeats(old: Observations, new: Observations) -> None:
    """Refuse new matches that the data already has: the same sides at the same time.

    Repeats cannot be recognised in data without times, or with the same time for all matches.
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
    chosen = new.event_numbers[here].tolist()
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


def _matches(
    observations: Observations, chosen: np.ndarray, dtype: np.dtype
) -> dict[int, tuple[float, frozenset]]:
    """A key of each chosen event: its time, and the features of all sides with coefficients."""
    names = observations.names
    columns = (
        observations.event_numbers[chosen],
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
    """Refuse outcomes that are not valid for a likelihood.

    `rows` has the user's row of each observation; `mask` is False where it does not count.
    """
    bad = np.asarray(likelihood.check(outcome))
    bad = bad if mask is None else bad & mask
    if bad.any():
        place = int(np.argmax(bad))
        raise DataError(
            outcome_problem(likelihood),
            "Choose another likelihood, or build the data set with likelihood= and "
            "on_invalid='drop'.",
            argument="outcome",
            row=place if rows is None else int(rows[place]),
            count=int(bad.sum()),
            value=plain(outcome[place]),
        )


def outcome_problem(likelihood: OutcomeDomain) -> str:
    """The problem of an error about an outcome outside of a likelihood's domain."""
    name = type(likelihood).__name__
    return f"outcome {{value}} is not valid for {name}, which needs {likelihood.domain}"
