"""Read the aspects of matches: coefficients of several skills of each competitor.

An aspect has a coefficient for each side of a match. It comes from the side at home, from numbers
of each side, or from a column of labels; each label is an aspect, with a coefficient of 1 in
matches with this label, and 0 in others. The general skill is the first aspect, with a coefficient
of 1 in every match.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxkick.data.columns import as_column, holds_texts, is_missing, to_floats, to_list
from jaxkick.data.schema import ATTACK, DEFENCE, GENERAL, HOME, Schema, check_aspect_name
from jaxkick.data.sides import general_skill
from jaxkick.errors import DataError, did_you_mean, invalid, plain


class AspectNames(NamedTuple):
    """The aspects of a data set.

    Attributes:
        names: the names; the first is the general skill.
        roles: for each aspect, the name in `aspects=` of the column that has it as a label; `""`
            if none.
    """

    names: tuple[str, ...]
    roles: tuple[str, ...]

    def labels(self, role: str) -> list[str]:
        """The aspects that are labels of this column."""
        pairs = zip(self.names, self.roles, strict=True)
        return [name for name, own in pairs if own == role]

    def joined(self, other: "AspectNames") -> "AspectNames":
        """Add the aspects of other data."""
        roles = dict(zip(*self, strict=True))
        for name, role in zip(*other, strict=True):
            roles.setdefault(name, role)
        return AspectNames(tuple(roles), tuple(roles.values()))

    def by_name(self, coefficients: np.ndarray | None) -> dict[str, np.ndarray] | None:
        """Split coefficients [..., A] into one array for each aspect."""
        if coefficients is None:
            return None
        return dict(zip(self.names, np.moveaxis(coefficients, -1, 0), strict=True))


class SideAspects(NamedTuple):
    """The coefficients of aspects in each match.

    Attributes:
        known: the names of the aspects.
        sides: for each side the coefficients [N, A]; NaN where a label or number is missing.
    """

    known: AspectNames
    sides: tuple[np.ndarray, ...]

    def with_role(self, role: str) -> "SideAspects":
        """Add the attack or the defence, for counts."""
        place = self.known.names.index(role)
        sides = tuple(side.copy() for side in self.sides)
        for side in sides:
            side[:, place] = 1.0
        return self._replace(sides=sides)


def read_aspects(
    schema: Schema,
    values: Mapping[str, Any],
    num_rows: int,
    known: AspectNames | None = None,
    num_sides: int = 2,
) -> SideAspects:
    """Read the aspects of each side of all matches.

    Args:
        schema: the meaning of the aspects.
        values: for each aspect of the schema its values for both sides, or a tuple with values
            for each side: labels or numbers, one for each match or one for all. For the side at
            home, +1 (first), -1 (second) and 0. Aspects without values have coefficients of 0.
        num_rows: the number of matches.
        known: the aspects of the data, for matches to predict; others are refused. If `None`,
            the aspects of the schema and of the labels in `values`.
        num_sides: the number of sides of a row.
    """
    columns, found = {}, {GENERAL: ""}
    if schema.counts is not None:
        found |= {ATTACK: "", DEFENCE: ""}
    for role, meaning in schema.aspects or ():
        argument = f"aspects[{role!r}]"
        given = values.get(HOME if meaning is True else role)
        parts = _split_sides(meaning, given, argument, num_rows, num_sides)
        columns[role] = parts = [_read_part(part, argument, num_rows) for part in parts]
        labels = {label for part in parts if isinstance(part, list) for label in part}
        names = sorted(label for label in labels if label is not None)
        numeric = any(isinstance(part, np.ndarray) for part in parts)
        for name, owner in [*((name, role) for name in names), *[(role, "")] * numeric]:
            check_aspect_name(name, argument)
            if name in found:
                raise DataError(
                    "{argument} has the aspect {value}, but another aspect has this name",
                    "Rename the label or the aspect.",
                    argument=argument,
                    value=name,
                )
            found[name] = owner
        if known is not None:
            _check_labels(known, role, names, argument)
    all_known = known or AspectNames(tuple(found), tuple(found.values()))
    return SideAspects(
        all_known,
        tuple(_coefficients(columns, side, num_rows, all_known) for side in range(num_sides)),
    )


def aspect_vector(
    known: AspectNames, aspects: Mapping[str, float] | None, by_counts: bool = False
) -> np.ndarray | None:
    """Read the coefficients [A] of a combination of aspects; `None` in data without aspects.

    The general skill counts once unless it is named. If `aspects` is `None`, it counts alone, or
    for data of counts with the sum of attack and defence.
    """
    if aspects is not None and not isinstance(aspects, Mapping):
        raise invalid(
            "aspects",
            aspects,
            "but must be a mapping from aspects to coefficients",
            "For example, {'clay': 1}.",
        )
    if not known.names:
        if aspects:
            problem = "{argument} is given, but the data has no aspects"
            raise DataError(problem, "Name them in `aspects=` of the data.", argument="aspects")
        return None
    vector = general_skill((), len(known.names))
    if aspects is None and by_counts:
        aspects = {GENERAL: 2.0, ATTACK: 1.0, DEFENCE: 1.0}
    for name, value in (aspects or {}).items():
        if name not in known.names:
            hint = did_you_mean(name, known.names)
            raise DataError(
                "{argument} has {value}, which is not an aspect of the data",
                hint or f"Its aspects are {', '.join(map(repr, known.names))}.",
                argument="aspects",
                value=plain(name),
            )
        number = value if isinstance(value, (int, float, np.number)) else np.nan
        if not np.isfinite(number):
            raise invalid(f"aspects[{name!r}]", value, "but must be a number")
        vector[known.names.index(name)] = number
    return vector


def _split_sides(
    meaning: Any, given: Any, argument: str, num_rows: int, num_sides: int
) -> Sequence[Any]:
    """The values of an aspect for each side."""
    if meaning is True and given is not None:
        home = to_floats(given, "home", num_rows)
        return np.maximum(home, 0.0), np.maximum(-home, 0.0)
    if isinstance(meaning, tuple) and given is None:
        # The schema has these numbers itself.
        return [None if isinstance(part, str) else part for part in meaning]
    if given is None or isinstance(meaning, str):
        return [given] * num_sides
    if not isinstance(given, (tuple, list)) or len(given) != num_sides:
        problem = "{argument} must be two values, one for each side"
        raise DataError(problem, "Pass a tuple.", argument=argument, value=given)
    return given


def _read_part(values: Any, argument: str, num_rows: int) -> np.ndarray | list | None:
    """The numbers of one side, or its labels, or `None`."""
    if values is None:
        return None
    if isinstance(values, str):
        return [values] * num_rows
    if isinstance(values, (int, float, np.number)):
        return to_floats(values, argument, num_rows)
    column = as_column(values, argument, num_rows)
    if not holds_texts(column):
        return to_floats(column, argument, num_rows)
    return [None if is_missing(label) else str(label) for label in to_list(column)]


def _check_labels(known: AspectNames, role: str, labels: Sequence[str], argument: str) -> None:
    own = known.labels(role)
    for label in labels:
        if label not in own:
            hint = did_you_mean(label, own) or f"Its labels are {', '.join(map(repr, own))}."
            raise invalid(argument, label, "which is not in the data", hint)


def _coefficients(
    columns: Mapping[str, list], side: int, num_rows: int, known: AspectNames
) -> np.ndarray:
    """The coefficients [N, A] of one side."""
    found = general_skill((num_rows,), len(known.names))
    place = {name: number for number, name in enumerate(known.names)}
    for role, parts in columns.items():
        part = parts[side]
        if isinstance(part, np.ndarray):
            found[:, place[role]] = part
        elif part is not None:
            rows = np.flatnonzero([label is not None for label in part])
            found[rows, [place[part[row]] for row in rows]] = 1.0
            # Missing labels are refused like missing numbers.
            found[np.setdiff1d(np.arange(num_rows), rows), 0] = np.nan
    return found
