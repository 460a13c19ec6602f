"""The meaning of a table's columns, and the keys and groups of the features that it names."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from jaxkick.data.columns import plain_value
from jaxkick.errors import DataError, check_choice, invalid
from jaxkick.kernels.base import GENERAL

DEFAULT_GROUP = "skill"
"""The default group."""

HOME = "home"
"""The name of the home advantage's feature and group."""

LEVEL = "level"
"""The name of the feature that all counts share, and of its group."""

ATTACK, DEFENCE = ROLES = ("attack", "defence")

PAIR = "pair"
"""The role and group of skills against a single opponent."""

TIE = "tie"
"""The role and group of competitors' effects on the frequency of ties."""

NOISE = "noise"
"""The name of the shared log noise scale's feature and group."""

WORDS, WINNER = "words", "winner"

OUTCOMES = "outcomes={1: 1, 0.5: 0, 0: -1}"
"""An example of the argument, for errors; the command line shows its options instead."""

POINTS = "points=..."

Groups: TypeAlias = Mapping[Hashable, str] | Callable[[Hashable], str] | None
Pair: TypeAlias = tuple[str, str]
SideColumns: TypeAlias = str | Sequence[str] | Mapping[str, str | float]
_Side: TypeAlias = str | tuple[tuple[str, str | float], ...]

Meaning: TypeAlias = str | tuple[tuple[Any, float | None], ...] | None
"""The meaning of the values in a column of outcomes; see `Schema.outcomes`."""

_RANKING = ("event", "rank", "points", "team")

_OUTCOMES = {
    "outcome": "outcome {0!r}",
    "result": "result of {0!r} and {1!r}",
    "difference": "difference of {0!r} and {1!r}",
    "counts": "counts {0!r} and {1!r}",
}


class Feature(NamedTuple):
    """The key of a feature: one of several skills of a competitor, or the label of a covariate.

    For example `Feature("Bayern", "attack")`, `Feature("Ada", "surface", "clay")`, or
    `Feature("Ada", "pair", "Ben")`; for the label of a covariate `Feature("Wembley", "stadium")`.

    Attributes:
        name: the name of the competitor, or the label of a covariate.
        role: the skill, which is also the feature's group unless `groups` says otherwise.
        label: the value of the column `role` for which the competitor has this skill, or the
            opponent; `None` if there is one skill of this role.
    """

    name: Hashable
    role: str
    label: Hashable = None

    def __repr__(self) -> str:
        label = "" if self.label is None else f", {self.label!r}"
        return f"Feature({self.name!r}, {self.role!r}{label})"

    def __str__(self) -> str:
        label = "" if self.label is None else f" {self.label}"
        return f"{self.name} {self.role}{label}"


def with_role(side: Any, role: str) -> Any:
    """Replace each name of a side, a line-up or a list of sides by its `Feature` of a role."""
    if isinstance(side, Mapping):
        return {Feature(name, role): value for name, value in side.items()}
    if hasattr(side, "__len__") and not isinstance(side, (str, bytes, Feature)):
        return [with_role(name, role) for name in side]
    return Feature(side, role)


@dataclass(frozen=True)
class Schema:
    """The meaning of the columns of a table.

    It is kept with the data, so that `update`, `forecast` and streams read later tables alike.

    The attributes are the arguments of `Dataset.from_frame` and `Dataset.from_rankings` with the
    same names, in a form that can be hashed: mappings are tuples of pairs. In addition:

    Attributes:
        first: the column of the first side, or of the competitors of a ranking; a line-up over
            several columns is pairs of a column of names and a column or number of coefficients.
        covariates: the covariates of matches, or the features of rankings.
        aspects: `None` without aspects. With `counts`, `()` if attack and defence are the only
            ones, and `None` if they are features of their own.
        places: the columns of competitors, from the first place to the last, of a table with one
            row for each event.
    """

    time: str | float
    first: _Side = ""
    second: _Side = ""
    outcome: str | float | None = None
    result: Pair | None = None
    difference: Pair | None = None
    counts: Pair | None = None
    home: str | bool | None = None
    neutral: str | None = None
    weight: str | float | None = None
    covariates: tuple[tuple[Hashable, str | float], ...] = ()
    interactions: tuple[str, ...] = ()
    pairs: bool = False
    tie_effects: bool = False
    noise_effects: bool = False
    aspects: tuple[tuple[str, Any], ...] | None = None
    outcomes: Meaning = None
    event: str | None = None
    rank: str | None = None
    points: str | None = None
    team: str | None = None
    dnf: str = "last"
    places: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        given = [f"`{name}`" for name in _OUTCOMES if getattr(self, name) is not None]
        if len(given) > 1:
            raise DataError(f"{' and '.join(given)} each define the outcomes", "Pass only one.")
        if self.counts is not None and (self.interactions or self.pairs):
            raise DataError(
                "`counts` cannot be combined with `interactions` or `pairs`",
                "Pass `result` or `difference` instead.",
            )
        for name in ("tie_effects", "noise_effects"):
            if getattr(self, name) and (self.counts or self.difference) is not None:
                raise DataError(
                    f"{{argument}} is for wins, ties and losses, not for `{self.reading}`",
                    "Pass `result` or `outcome` instead.",
                    argument=name,
                )
        if self.tie_effects and self.noise_effects:
            raise DataError("`tie_effects` and `noise_effects` cannot be combined", "Pass one.")
        if not self.has_home and any(meaning is True for _, meaning in self.aspects or ()):
            raise DataError(
                "{argument} has an aspect of the side at home, but no side is at home",
                "Pass `home=` or `neutral=` as well.",
                argument="aspects",
            )
        names = {name for name, _ in self.covariates}
        for name in names.intersection(self.interactions):
            problem = f"`interactions` and `covariates` both have the name {name!r}"
            raise DataError(problem, "Rename the covariate.")
        for name in names.intersection(self.added):
            raise DataError(
                f"{{argument}} has the name {name!r}, which is reserved for the feature that "
                f"`{self.added[name]}` adds",
                "Rename the covariate.",
                argument="covariates",
            )
        if self.home is True and not given:
            raise DataError(
                "Without outcomes the first side won every match, and `home=True` puts every "
                "winner at home",
                "Name the columns of outcomes, such as `result=`; pass {outcome=1.0} if home sides "
                "did win every match.",
                mentions=["outcome=1.0"],
            )

    @classmethod
    def of(
        cls,
        *,
        first: Any,
        second: Any,
        result: Any = None,
        difference: Any = None,
        counts: Any = None,
        covariates: Mapping[Hashable, str | float] | None = None,
        interactions: str | Sequence[str] | None = None,
        aspects: Any = None,
        home: Any = None,
        outcome: Any = None,
        outcomes: Any = None,
        **plain: Any,
    ) -> "Schema":
        """Make a schema from the arguments of `Dataset.from_frame`."""
        return cls(
            first=_read_side("first", first),
            second=_read_side("second", second),
            result=_read_pair("result", result),
            difference=_read_pair("difference", difference),
            counts=_read_pair("counts", counts),
            covariates=tuple(read_mapping("covariates", covariates).items()),
            interactions=_read_roles(interactions),
            aspects=_read_aspects(aspects, counts is not None),
            home=_read_home(home),
            outcome=outcome,
            outcomes=_read_meaning(outcomes, outcome),
            **plain,
        )

    @classmethod
    def of_rankings(
        cls,
        *,
        time: Any,
        competitor: Any,
        event: Any = None,
        rank: Any = None,
        points: Any = None,
        team: Any = None,
        features: Mapping[Hashable, str | float] | None = None,
        aspects: Any = None,
        dnf: Any = "last",
    ) -> "Schema":
        """Make a schema from the arguments of `Dataset.from_rankings`."""
        check_choice("dnf", dnf, ("last", "drop"))
        covariates = tuple(read_mapping("features", features).items())
        own = _read_aspects(aspects, counts=False, num_sides=1)
        shared = {"time": time, "aspects": own, "dnf": dnf}
        others = {"event": event, "rank": rank, "points": points, "team": team}
        if isinstance(competitor, (list, tuple)):
            for argument, value in (others | {"features": features}).items():
                if value is not None:
                    raise DataError(
                        "{argument} is given, but a list of columns in `competitor` means one row "
                        "for each event, with competitors from the first place to the last",
                        "Leave it out, or use a table with one row for each competitor.",
                        argument=argument,
                    )
            if len(competitor) < 2:
                raise DataError("{argument} needs at least two columns", argument="competitor")
            return cls(places=tuple(competitor), **shared)
        if not isinstance(competitor, str):
            raise invalid("competitor", competitor, "but must be a column, or a list of them")
        if event is None:
            raise DataError(
                "{argument} is missing",
                "Name the column of events; for a table with one row for each event, pass a list "
                "of columns as `competitor`.",
                argument="event",
            )
        if (rank is None) == (points is None):
            problem = "pass one of {rank} (1 is the best) and {points} (more is better)"
            raise DataError(problem, mentions=["rank", "points"])
        return cls(first=competitor, covariates=covariates, **others, **shared)

    @property
    def is_ranking(self) -> bool:
        """True if the table has events of several sides."""
        return self.event is not None or bool(self.places)

    @property
    def copies(self) -> int:
        """The number of observations of a match: two counts, or two scores."""
        return 2 if self.counts is not None or self.has_second_score else 1

    @property
    def has_second_score(self) -> bool:
        """True if a match has a second score, for ties or for the noise, without an outcome."""
        return self.tie_effects or self.noise_effects

    @property
    def aspect_columns(self) -> tuple[str, ...]:
        """The aspects whose values a match to predict may give by name."""
        return tuple(name for name, meaning in self.aspects or () if meaning is not True)

    @property
    def has_roles(self) -> bool:
        """True if attack and defence are separate features instead of aspects of one."""
        return self.counts is not None and self.aspects is None

    @property
    def has_home(self) -> bool:
        """True if matches have a side at home."""
        return self.neutral is not None or self.home not in (None, False)

    @property
    def added(self) -> dict[Hashable, str]:
        """The features that arguments add, with these arguments."""
        used = {
            HOME: ("home", self.has_home),
            LEVEL: ("counts", self.counts is not None),
            TIE: ("tie_effects", self.tie_effects),
            NOISE: ("noise_effects", self.noise_effects),
        }
        return {name: argument for name, (argument, is_used) in used.items() if is_used}

    @property
    def reading(self) -> str | None:
        """The reading of points: `"result"`, `"difference"` or `"counts"`; `None` for outcomes."""
        points = ("result", "difference", "counts")
        return next((name for name in points if getattr(self, name) is not None), None)

    @property
    def defines_losses(self) -> bool:
        """True if the table defines losses, so that 0 can only be a tie."""
        if self.is_ranking:
            return True
        if self.outcomes is None:
            return self.outcome is None
        pairs = () if isinstance(self.outcomes, str) else self.outcomes
        return not pairs or any(number is not None and number < 0 for _, number in pairs)

    @property
    def columns(self) -> dict[str, Any]:
        """The column or pair of columns of each argument, for error messages."""
        plain = ("time", "first", "second", "weight", "home", "neutral")
        named: dict[str, Any] = {name: getattr(self, name) for name in (*plain, *_RANKING)}
        if self.is_ranking:
            named["competitor"] = named.pop("first")
        named["outcome"] = self.outcome
        if self.has_home:
            home = self.home if isinstance(self.home, str) else self.neutral
            named[self.covariate_argument(HOME)] = home
        named |= {self.covariate_argument(name): column for name, column in self.covariates}
        named |= {f"interactions[{column!r}]": column for column in self.interactions}
        named |= {f"aspects[{name!r}]": column for name, column in self.aspects or ()}
        columns = {name: each for name, each in named.items() if isinstance(each, str) and each}
        return columns | ({self.reading: getattr(self, self.reading)} if self.reading else {})

    def is_covariate(self, name: Hashable) -> bool:
        """Return whether a feature is a covariate or a label of one, not a competitor."""
        role = name.role if isinstance(name, Feature) else name
        return role in dict(self.covariates) or (role in self.added and role != TIE)

    def is_competitor(self, name: Hashable) -> bool:
        """Return whether a feature is a skill of a competitor that counts in every match."""
        role = name.role if isinstance(name, Feature) else None
        if self.has_roles:
            return role in ROLES
        return not self.is_covariate(name) and role not in (PAIR, TIE, *self.interactions)

    def covariate_argument(self, name: Hashable) -> str:
        """The argument that defines a further feature, for error messages."""
        return f"{'features' if self.is_ranking else 'covariates'}[{name!r}]"

    def groups(self, groups: Groups) -> Groups:
        """Add the groups of the features that this schema adds to the user's mapping."""
        added = {name: str(name) for name in self.added if name != TIE}
        return groups if callable(groups) or not added else {**added, **(groups or {})}

    def describe(self) -> str:
        """Describe the meaning of the columns in one line."""
        if self.places:
            words = [f"places {', '.join(map(repr, self.places))}"]
        elif self.is_ranking:
            words = [f"competitor {_show_side(self.first)}"]
            given = {name: getattr(self, name) for name in _RANKING}
            words += [f"{name} {value!r}" for name, value in given.items() if value is not None]
            words += [f"feature {name!r} = {value!r}" for name, value in self.covariates]
        else:
            words = self._describe_match()
        words += [f"aspect {_show_aspect(name, value)}" for name, value in self.aspects or ()]
        words += ["ties by competitor"] if self.tie_effects else []
        words += ["noise by time"] if self.noise_effects else []
        words += ["without sides that have no place"] if self.dnf == "drop" else []
        return ", ".join(words)

    def _describe_match(self) -> list[str]:
        words = [f"first {_show_side(self.first)}", f"second {_show_side(self.second)}"]
        for name, text in _OUTCOMES.items():
            value = getattr(self, name)
            if value is not None:
                words.append(text.format(*(value if isinstance(value, tuple) else [value])))
        if isinstance(self.outcomes, str):
            words[-1] += " (names of winners)" if self.outcomes == WINNER else " (words)"
        elif self.outcomes is not None:
            pairs = [f"{value!r} is {x:+g}" for value, x in self.outcomes if x is not None]
            words[-1] += f" ({', '.join(pairs)})"
        words += ["first always won"] if len(words) == 2 else []
        if self.has_home:
            words.append(f"home {self.home!r}" if isinstance(self.home, str) else "first at home")
        words += [] if self.neutral is None else [f"neutral {self.neutral!r}"]
        words += [] if self.weight is None else [f"weight {self.weight!r}"]
        words += [f"covariate {name!r} = {value!r}" for name, value in self.covariates]
        words += [f"skills by {column!r}" for column in self.interactions]
        words += ["skills by pair"] if self.pairs else []
        joint = self.aspects is not None and self.counts is not None
        return [*words, "attack and defence in one state"] if joint else words


NO_TABLE = Schema(time=0.0)
"""The schema of data that was not read from a table."""


def read_groups(groups: Groups) -> Groups:
    """Check the user's rule for the groups; copy a mapping."""
    if isinstance(groups, Mapping):
        return dict(groups)
    if groups is not None and not callable(groups):
        raise DataError(
            f"{{argument}} is a {type(groups).__name__}, but must be a mapping from feature names "
            "to group names, a function of a feature's name, or None",
            argument="groups",
        )
    return groups


def group_of(groups: Groups, feature: Hashable) -> str:
    """The group of a feature: by the user's rule, else its role, else `"skill"`."""
    if callable(groups):
        group = groups(feature)
    else:
        role = feature.role if isinstance(feature, Feature) else DEFAULT_GROUP
        group = role if groups is None else groups.get(feature, role)
    if not isinstance(group, str):
        raise DataError(
            f"{{argument}} gives {{value}} for the feature {feature!r}",
            "Group names are strings.",
            argument="groups",
            value=group,
        )
    return group


def check_aspect_name(name: Any, argument: str = "aspects") -> None:
    """Check that the name of an aspect is a text other than that of the general skill."""
    if not isinstance(name, str):
        problem = "{argument} has the name {value}, but names of aspects are texts"
        raise DataError(problem, argument=argument, value=name)
    if name == GENERAL:
        raise DataError(
            f"{{argument}} has the name {GENERAL!r}, which is reserved for the general skill",
            "Rename it: the general skill counts in every match.",
            argument=argument,
        )


def read_mapping(argument: str, values: Any) -> Mapping:
    """Check that an argument is a mapping; `None` is read as an empty one."""
    if values is None or isinstance(values, Mapping):
        return values or {}
    raise invalid(argument, values, "but must be a mapping from names to columns")


def _read_roles(columns: Any) -> tuple[str, ...]:
    roles = (columns,) if isinstance(columns, str) else columns or ()
    taken = (DEFAULT_GROUP, HOME, LEVEL, PAIR, TIE, NOISE, ATTACK, DEFENCE)
    if not isinstance(roles, (list, tuple)) or not all(isinstance(role, str) for role in roles):
        raise invalid(
            "interactions", columns, "but must be the name of a column or a list of names"
        )
    if set(roles) & set(taken):
        raise invalid(
            "interactions",
            columns,
            f"but {', '.join(taken)} are names of other groups",
            "Rename the column.",
        )
    return tuple(roles)


def _read_aspects(
    aspects: Any, counts: bool, num_sides: int = 2
) -> tuple[tuple[str, Any], ...] | None:
    if counts and (aspects is None or aspects is True):
        return ()
    if aspects is None or aspects is False:
        return None
    if not isinstance(aspects, Mapping) or not (aspects or counts):
        raise invalid(
            "aspects",
            aspects,
            "but must be a mapping from names of aspects to columns",
            "For example, aspects={'surface': 'surface'}.",
        )
    for name, value in aspects.items():
        check_aspect_name(name)
        pair = value if isinstance(value, (tuple, list)) else ()
        kinds = [isinstance(part, (str, int, float)) for part in pair]
        by_side = num_sides == 2 and (value is True or (len(pair) == 2 and all(kinds)))
        if not (isinstance(value, str) or by_side):
            others = ", True for the side at home, or a column or number for each side: (1, 0)"
            raise DataError(
                "{argument} is {value}, but must be the name of a column"
                + (others if num_sides == 2 else ""),
                argument=f"aspects[{name!r}]",
                value=value,
            )
    return tuple(
        (name, tuple(value) if isinstance(value, list) else value)
        for name, value in aspects.items()
    )


def _show_aspect(name: str, value: Any) -> str:
    if value is True:
        return f"{name!r} of the side at home"
    both = isinstance(value, tuple)
    return f"{name!r} = {value[0]!r} and {value[1]!r}" if both else f"{name!r} = {value!r}"


def _read_home(home: Any) -> str | bool | None:
    if home is None or isinstance(home, (str, bool)):
        return home
    raise invalid(
        "home", home, "but must be True if the first side is at home, or the name of a column"
    )


def _read_pair(argument: str, columns: Any) -> Pair | None:
    if columns is None:
        return None
    if isinstance(columns, (list, tuple)) and len(columns) == 2:
        first, second = columns
        if isinstance(first, str) and isinstance(second, str) and first != second:
            return first, second
    raise invalid(
        argument,
        columns,
        "but must be the names of two columns: points of the first side and of the second",
        f"For example, {argument}=('home_goals', 'away_goals').",
    )


def _read_meaning(outcomes: Any, outcome: Any) -> Meaning:
    if outcomes is None or outcomes in (WORDS, WINNER):
        return outcomes
    pairs = dict(outcomes) if isinstance(outcomes, Mapping) else {}
    kinds = {type(number) for number in pairs.values()}
    if not pairs or not all(issubclass(kind, (int, float, type(None))) for kind in kinds):
        raise invalid(
            "outcomes",
            outcomes,
            "but must be a mapping from the values of a column to the numbers 1, 0 and -1, or "
            "'words' or 'winner'",
            f"For example, {OUTCOMES}.",
        )
    if not isinstance(outcome, str):
        problem = "{argument} is given, but `outcome` names no column"
        raise DataError(problem, "Pass both.", argument="outcomes")
    if len(set(map(plain_value, pairs))) < len(pairs):
        raise DataError("{argument} has a value twice", argument="outcomes")
    return tuple((key, None if x is None else float(x)) for key, x in pairs.items())


def _read_side(argument: str, columns: Any) -> _Side:
    if isinstance(columns, str):
        return columns
    if isinstance(columns, Mapping) and columns:
        return tuple(columns.items())
    if isinstance(columns, (list, tuple)) and columns and all(isinstance(c, str) for c in columns):
        return tuple((column, 1.0) for column in columns)
    raise invalid(
        argument,
        columns,
        "but must be the name of a column, a list of columns for a line-up, or a mapping from "
        "columns of names to columns of fractions",
    )


def _show_side(side: _Side) -> str:
    if isinstance(side, str):
        return repr(side)
    parts = [repr(names) if part == 1.0 else f"{part!r} of {names!r}" for names, part in side]
    return " + ".join(parts)
