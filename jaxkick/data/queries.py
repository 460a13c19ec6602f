"""Read prediction queries: named features at times, as arrays of feature numbers."""

from collections.abc import Hashable, Iterable, Mapping
from itertools import chain, repeat
from typing import Any, NamedTuple

import numpy as np
from jax.typing import ArrayLike

from jaxkick.data.aspect_columns import SideAspects, read_aspects
from jaxkick.data.columns import as_column, holds_texts, is_missing, to_floats, to_list
from jaxkick.data.directory import AbstractDirectory
from jaxkick.data.reading import naming_columns, read_frame, unknown_columns
from jaxkick.data.schema import HOME, Feature
from jaxkick.data.sides import (
    Block,
    Lineup,
    Vocabulary,
    check_home,
    general_skill,
    join,
    members_of,
    read_covariate,
    read_further,
    read_side,
)
from jaxkick.errors import Checks, DataError, did_you_mean, invalid, plain, suggest_names


class Query(NamedTuple):
    """Linear combinations of features at times, and the shape of the answers.

    Attributes:
        shape: shape of the answers: `()` for one combination at one time.
        times: float64 times [Q] in the data's unit.
        features: feature numbers [Q, P]; -1 in an empty slot and for an unknown feature.
        groups: names of the groups of the features [Q, P]; empty in an empty slot.
        coefficients: coefficients [Q, P]; 0 in an empty slot.
        codes: numbers [Q, P] that identify names, including unknown ones; -1 in an empty slot.
        aspects: coefficients [Q, P] by the name of the aspect; `None` in data without aspects.
    """

    shape: tuple[int, ...]
    times: np.ndarray
    features: np.ndarray
    groups: np.ndarray
    coefficients: np.ndarray
    codes: np.ndarray
    aspects: dict[str, np.ndarray] | None = None


def read_query(
    directory: AbstractDirectory,
    times: Any,
    sides: Mapping[str, tuple[Any, float]],
    covariates: Mapping[Hashable, Any],
    allow_unknown: bool = False,
    aspects: Mapping[str, np.ndarray | None] | None = None,
) -> Query:
    """Read combinations of features at times; a single combination or time is used for all.

    `sides` has for each argument its value and the sign of its coefficients. The value is a name,
    a mapping from names to coefficients, or a list for many combinations; elements of a list are
    names, lists or tuples of names, and mappings, as in `Dataset.from_pairs`. `aspects` has the
    coefficients of aspects for each side, [A] or [Q, A]; by default only the general skill counts.
    """
    numbers = np.asarray(directory.to_time(times, "time"))
    if not np.isfinite(numbers).all():
        row = int(np.argmin(np.isfinite(numbers))) if numbers.ndim else None
        raise DataError("{argument} is missing", "Give a time.", argument="time", row=row)
    for argument, (values, _) in sides.items():
        _check_ambiguous(argument, values)
    schema = directory.meaning
    covariates = {name: _without_array(values) for name, values in covariates.items()}
    arguments = {name: _without_array(values) for name, (values, _) in sides.items()}
    columns = arguments | {f"covariates[{name!r}]": x for name, x in covariates.items()}
    lengths = {name: len(values) for name, values in columns.items() if _is_many(values)}
    if numbers.ndim:
        lengths["time"] = len(numbers)
    for own in (aspects or {}).values():
        if own is not None and own.ndim > 1 and len(own) > 1:
            lengths["covariates"] = len(own)
    count = _common_length(lengths)
    vocabulary, blocks = Vocabulary(), []
    for argument, values in arguments.items():
        block = _read_values(values, sides[argument][1], vocabulary, argument)
        rows = np.zeros(count, int) if len(block.features) == 1 else slice(None)
        block = block.map(lambda part, rows=rows: part[rows])
        own = (aspects or {}).get(argument)
        if own is not None:
            shape = (*block.features.shape, own.shape[-1])
            given = np.broadcast_to(own[..., None, :], shape).copy()
            # Covariates have no aspects. The last element is for empty slots.
            alone = np.array([*map(schema.is_covariate, vocabulary.names()), False])
            given[alone[block.features]] = general_skill((), own.shape[-1])
            block = block._replace(aspects=given)
        blocks.append(block)
    roles = [role for role in schema.interactions if role in covariates]
    labels = {role: _for_all(covariates.pop(role), count) for role in roles}
    further = read_further(blocks, labels, schema.pairs and len(sides) == 2, vocabulary)
    for name, values in covariates.items():
        label = f"covariates[{name!r}]"
        blocks.append(read_covariate(name, values, vocabulary, label, count))
    block = join([*blocks, *chain.from_iterable(further.values())])
    block = block.with_aspects(len(directory.known_aspects.names))
    _check(block, vocabulary, bool(lengths))
    names = vocabulary.names()
    # The last element is for empty slots, whose code is -1.
    ids = np.append(directory.feature_ids(names), -1)
    if not allow_unknown:
        _check_labels(directory, labels, bool(lengths))
        # Skills by label or opponent may be new, so they are not checked.
        parts = zip([*sides, *["covariates"] * len(covariates)], blocks, strict=True)
        _check_known(directory, names, ids, parts, bool(lengths))
    block = block.compact()
    groups = np.array([*map(directory.group_of, names), ""], dtype=object)
    return Query(
        shape=(count,) if lengths else (),
        times=np.broadcast_to(numbers, (count,)),
        features=ids[block.features],
        groups=groups[block.features],
        coefficients=block.coefficients,
        codes=block.features,
        aspects=directory.known_aspects.by_name(block.aspects),
    )


def _read_values(values: Any, sign: float, vocabulary: Vocabulary, argument: str) -> Block:
    """Read the combinations of an argument, each of which must have a feature."""
    many = _is_many(values)
    cells = values if many else [values]
    block = read_side(cells, sign, vocabulary, argument, len(cells))
    empty = np.flatnonzero((block.features < 0).all(axis=1))
    if empty.size:
        raise DataError(
            "{argument} has no competitor",
            "Name at least one.",
            argument=argument,
            row=int(empty[0]) if many else None,
            count=len(empty),
        )
    return block


class Match(NamedTuple):
    """One match to predict, or many.

    Attributes:
        first: the first side of each, as `read_query` takes it.
        second: the second side of each.
        covariates: coefficients of further features by name, including the home advantage.
        aspects: the coefficients of aspects of both sides; `None` in data without aspects.
    """

    first: Any
    second: Any
    covariates: dict[Hashable, Any]
    aspects: SideAspects | None = None


def read_match(
    directory: AbstractDirectory,
    first: Any,
    second: Any,
    covariates: Mapping[Hashable, ArrayLike] | None,
    home: ArrayLike | None,
) -> Match:
    """Read matches by name; `home` is +1 if the first side is at home, -1 the second, 0 neutral."""
    if covariates is not None and not isinstance(covariates, Mapping):
        raise invalid(
            "covariates",
            covariates,
            "but must be a mapping from names to coefficients",
            "For the side at home, pass {home=1} or {home=-1}.",
            mentions=["home=1", "home=-1"],
        )
    given, others = split_aspects(directory, covariates or {})
    extra = read_covariates(directory, others)
    if home is not None:
        if HOME not in directory.names:
            raise DataError(
                "{argument} is given, but the data has no home advantage",
                "Leave it out, or build the data with `Dataset.from_frame(..., home=...)`.",
                argument="home",
            )
        try:
            sides = np.asarray(home, np.float64)
        except (TypeError, ValueError):
            raise invalid(
                "home", home, "but must be +1 (first at home), -1 (second) or 0 (neutral)"
            ) from None
        extra[HOME] = check_home(np.atleast_1d(sides)).reshape(sides.shape)[()]
    _check_sides(first, second)
    return Match(first, second, extra, read_side_aspects(directory, given | extra))


def split_aspects(
    directory: AbstractDirectory, values: Mapping[Hashable, Any]
) -> tuple[dict[Hashable, Any], dict[Hashable, Any]]:
    """Separate values of aspects from values of covariates; labels may be both."""
    schema = directory.meaning
    given = {name: x for name, x in values.items() if name in schema.aspect_columns}
    others = {
        name: x for name, x in values.items() if name not in given or name in schema.interactions
    }
    return given, others


def read_side_aspects(
    directory: AbstractDirectory,
    values: Mapping[Hashable, Any],
    num_sides: int = 2,
    argument: str = "covariates",
) -> SideAspects | None:
    """Read the coefficients of aspects of both sides of matches, or of the sides of events."""
    schema = directory.meaning
    if schema.aspects is None:
        return None
    many = [
        part
        for value in values.values()
        for part in (value if isinstance(value, tuple) else [value])
    ]
    count = max([len(part) for part in many if _is_many(part)], default=1)
    aspects = read_aspects(schema, values, count, directory.known_aspects, num_sides)
    if any(np.isnan(side).any() for side in aspects.sides):
        raise DataError(
            "a label or number of an aspect is missing", "Give all of them.", argument=argument
        )
    return aspects


def read_matches(directory: AbstractDirectory, frame: Any) -> tuple[Match, Any]:
    """Read matches and their times from a table with the columns of the data's own table."""
    if directory.schema is None:
        one_by_one = "Use `predict(first, second, time)`"
        either = f"{one_by_one}, or `predict_ranking(competitors, time)`."
        raise unknown_columns(directory.kind_names, f"{one_by_one}.", either)
    with naming_columns(directory.schema):
        columns = read_frame(frame, directory.schema, with_outcome=False)
        num_rows = len(columns.times)
        first, second = (
            _side_cells(side, argument, num_rows) for argument, (side, _) in columns.sides.items()
        )
        covariates = _labels_or_numbers(columns.covariates, "covariates", num_rows)
        covariates = read_covariates(directory, covariates | dict(columns.labels))
        aspects = read_side_aspects(directory, columns.aspects)
        _check_sides(first, second)
    return Match(first, second, covariates, aspects), columns.times


class Fields(NamedTuple):
    """The sides of events to come.

    Attributes:
        sides: a name, or a list of names, for each side.
        times: the time of each side's event.
        covariates: further features by name, with one coefficient for each side.
        events: the number of each side's event.
        rows: the side of each row of the table; `None` if each row is an event.
        aspects: the coefficients of aspects of each side; `None` in data without aspects.
    """

    sides: list
    times: Any
    covariates: dict[Hashable, Any]
    events: np.ndarray
    rows: np.ndarray | None
    aspects: SideAspects | None = None


def read_field(competitors: Any) -> tuple[list, list[str]]:
    """Read the sides of one event, and a label for each."""
    if isinstance(competitors, str):
        raise invalid("competitors", competitors, "but must be a list of all sides of the event")
    sides = to_list(as_column(competitors, "competitors"))
    members = list(map(members_of, sides))
    names = [plain(name) for side in members for name in side]
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        problem = "{argument} has {value} twice"
        raise DataError(problem, argument="competitors", value=twice[0])
    if len(sides) < 2:
        problem = "{argument} has fewer than two sides"
        raise DataError(problem, "Name all sides of the event.", argument="competitors")
    return sides, [" + ".join(map(str, side)) for side in members]


def read_ranking(directory: AbstractDirectory, frame: Any) -> Fields:
    """Read events and their times from a table with the columns of the data's own table."""
    schema = directory.schema
    with naming_columns(schema):
        columns = read_frame(frame, schema, with_outcome=False)
        ranked: Any = columns.ranked
        num_sides = len(ranked.names)
        times = np.asarray(directory.to_time(columns.times, "time"))
        ranked.check(Checks(num_sides, rows=ranked.rows), times)
        covariates = _labels_or_numbers(columns.covariates, "features", num_sides)
        covariates = read_covariates(directory, covariates, "features")
        aspects = read_side_aspects(directory, columns.aspects, 1)
    return Fields(ranked.names, columns.times, covariates, ranked.events, ranked.sides, aspects)


def read_covariates(
    directory: AbstractDirectory, covariates: Mapping[Hashable, Any], argument: str = "covariates"
) -> dict[Hashable, Any]:
    """Check the names of covariates, and convert columns of texts to a feature for each label."""
    schema = directory.meaning
    roles = schema.interactions
    known = {HOME, *roles, *(name for name, _ in schema.covariates)}

    def check_name(name: Hashable) -> None:
        if name not in known and directory.feature_ids([name])[0] < 0:
            raise DataError(
                "{argument} has the name {value}, which the data does not have",
                suggest_names(name, [*known, *schema.aspect_columns, *directory.names]),
                argument=argument,
                value=name,
            )

    numeric: dict[Hashable, Any] = {}
    for name, values in covariates.items():
        labels = to_list(as_column(values, argument)) if _is_many(values) else [values]
        if name not in roles and holds_texts(labels):
            for label in dict.fromkeys(labels):
                feature = Feature(label, str(name))
                if is_missing(label) or directory.group_of(feature) not in directory.groups:
                    check_name(name)
                    raise invalid(f"{argument}[{name!r}]", label, "but must be a number")
                there = [float(each == label) for each in labels]
                numeric[feature] = there if _is_many(values) else 1.0
            continue
        check_name(name)
        numeric[name] = values
    return numeric


def _labels_or_numbers(
    columns: Mapping[Hashable, Any], argument: str, num_rows: int
) -> dict[Hashable, Any]:
    """Convert columns to numbers, unless they hold labels."""
    return {
        name: x if holds_texts(x) else to_floats(x, f"{argument}[{name!r}]", num_rows)
        for name, x in columns.items()
    }


def _side_cells(side: Any, argument: str, num_rows: int) -> list:
    """List one name, list or mapping for each match."""
    if not isinstance(side, Lineup):
        return to_list(side)
    vocabulary = Vocabulary()
    block = read_side(side, 1.0, vocabulary, argument, num_rows).compact()
    names = vocabulary.names()
    return [
        {names[code]: part for code, part in zip(codes, parts, strict=True) if code >= 0}
        for codes, parts in zip(*map(np.ndarray.tolist, block[:2]), strict=True)
    ]


def _check_sides(first: Any, second: Any) -> None:
    """Refuse ambiguous sides, and matches of a competitor against itself."""
    for argument, side in (("first", first), ("second", second)):
        _check_ambiguous(argument, side)
    sides = [_without_array(side) for side in (first, second)]
    lengths = {len(side) for side in sides if _is_many(side)}
    if len(lengths) > 1:
        # Different lengths are refused later.
        return
    cells = [side if _is_many(side) else repeat(side, *lengths or [1]) for side in sides]
    for row, (one, other) in enumerate(zip(*cells, strict=True)):
        same = one == other
        # For arrays, `==` is not a boolean.
        if isinstance(same, (bool, np.bool_)) and same and not is_missing(one):
            raise invalid(
                "second",
                plain(other),
                "which is also the first side",
                "Name two competitors.",
                row=row if lengths else None,
            )


def _check(block: Block, vocabulary: Vocabulary, many: bool) -> None:
    """Refuse missing names and coefficients that are not finite."""

    def refuse(bad: np.ndarray, problem: str, remedy: str) -> None:
        rows = np.flatnonzero(bad.any(axis=1))
        if rows.size:
            row = int(rows[0]) if many else None
            raise DataError(problem, remedy, row=row, count=len(rows))

    refuse(vocabulary.missing()[block.features], "a name is missing", "Name every competitor.")
    refuse(
        ~np.isfinite(block.coefficients),
        "a coefficient is missing or infinite",
        "Coefficients, such as the side at home, must be numbers.",
    )


def _check_known(
    directory: AbstractDirectory,
    names: list[Hashable],
    ids: np.ndarray,
    parts: Iterable[tuple[str, Block]],
    many: bool,
) -> None:
    """Refuse unknown names, unless their coefficients are zero."""
    for argument, (features, coefficients, _) in parts:
        unknown = (ids[features] < 0) & (features >= 0) & (coefficients != 0.0)
        rows = np.flatnonzero(unknown.any(axis=1))
        if not rows.size:
            continue
        name = names[features[rows[0]][unknown[rows[0]]][0]]
        row = int(rows[0]) if many else None
        raise unknown_name(directory, name, argument, row=row, count=len(rows))


def _check_labels(directory: AbstractDirectory, labels: Mapping[str, list], many: bool) -> None:
    """Refuse labels for which no competitor has a skill."""
    for role, values in labels.items():
        features = (name for name in directory.names if isinstance(name, Feature))
        known = {feature.label for feature in features if feature.role == role}
        for row, label in enumerate(values):
            if not is_missing(label) and label not in known:
                some = ", ".join(sorted(map(repr, known))[:5])
                hint = did_you_mean(label, known) or f"Known labels are, for example, {some}."
                raise invalid(
                    f"covariates[{role!r}]",
                    plain(label),
                    "which is not in the data",
                    f"{hint} For a new label with the prior's scores, pass {{allow_unknown=True}}.",
                    row=row if many else None,
                    mentions=["allow_unknown=True"],
                )


def read_names(names: Any) -> list[Hashable]:
    """Read a list of names, or a single name."""
    names = [names] if isinstance(names, (str, bytes, Feature)) else list(names)
    if not names:
        raise DataError("{argument} is empty", "Give at least one name.", argument="names")
    return names


def check_known(directory: AbstractDirectory, names: Iterable[Hashable], argument: str) -> None:
    """Refuse unknown names."""
    names = list(names)
    for name in names:
        if not isinstance(name, Hashable):
            raise DataError(
                "{argument} holds {value}, which is not a name",
                "Give one name here; `to_frame(names)` takes a list.",
                argument=argument,
                value=name,
            )
    unknown = np.flatnonzero(directory.feature_ids(names) < 0)
    if unknown.size:
        raise unknown_name(directory, names[unknown[0]], argument)


def unknown_name(
    directory: AbstractDirectory,
    name: Hashable,
    argument: str,
    may_be_new: bool = True,
    **where: Any,
) -> DataError:
    """Make the error for an unknown name, with the closest known ones.

    `may_be_new` says whether the caller has `allow_unknown=`; `where` has row and count.
    """
    known: list[Hashable] = list(directory.names)
    if isinstance(name, Feature):
        labels = {each.name for each in known if isinstance(each, Feature)}
        # The name is at fault, or else the role.
        name, known = (name, known) if name.name in labels else (name.name, list(labels))
    remedy = suggest_names(name, known)
    if may_be_new:
        remedy += " For a newcomer with the prior's score, pass {allow_unknown=True}."
    return DataError(
        "{value} in {argument} is not in the data",
        remedy,
        argument=argument,
        value=plain(name),
        mentions=["allow_unknown=True"],
        **where,
    )


def _check_ambiguous(argument: str, values: Any) -> None:
    """Refuse a bare tuple or set, which could mean a line-up or several matches."""
    if isinstance(values, (tuple, set, frozenset)) and not isinstance(values, Feature):
        kind = type(values).__name__
        raise DataError(
            f"{{argument}} is a {kind}, which could be one line-up or one name for each match",
            "Pass a list of names for many matches; for the line-up of one match pass a mapping "
            'from names to coefficients, or a list in a list, such as [["Ann", "Ben"]].',
            argument=argument,
        )


def _without_array(values: Any) -> Any:
    """Convert an array without dimensions to its value."""
    return values.item() if getattr(values, "ndim", None) == 0 else values


def _is_many(values: Any) -> bool:
    """Return whether an argument has one value for each query instead of one for all."""
    return hasattr(values, "__len__") and not isinstance(values, (str, bytes, Mapping, Feature))


def _for_all(values: Any, count: int) -> list:
    """List one value for each query."""
    many = list(values) if _is_many(values) else [values]
    return many * count if len(many) == 1 else many


def _common_length(lengths: Mapping[str, int]) -> int:
    """Return the number of queries; all lists must have this length."""
    if len(set(lengths.values())) > 1:
        found = ", ".join(f"`{argument}` has {length:,}" for argument, length in lengths.items())
        raise DataError(
            f"The arguments differ in length: {found}. A list has one element for each match",
            "Pass lists of one length, or a single value for all matches. For the line-up of one "
            "match pass a mapping from names to coefficients, or a list in a list, such as "
            '[["Ann", "Ben"]].',
        )
    return next(iter(lengths.values()), 1)
