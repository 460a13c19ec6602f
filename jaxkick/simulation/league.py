"""Final tables of a league, from played and simulated matches."""

import dataclasses
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from jaxkick.data.dataset import Dataset
from jaxkick.data.encoding import Index
from jaxkick.data.observations import Observations
from jaxkick.data.reading import Rules, read_table
from jaxkick.data.tables import AbstractTable, make_table, name_column, write_observations
from jaxkick.errors import DataError, did_you_mean, invalid
from jaxkick.posterior.simulated import Kind, Simulated, side_label

__all__ = [
    "LeagueRules",
    "LeagueTable",
    "Points",
    "TieBreaker",
    "Zones",
    "final_tables",
    "frequencies",
    "league_table",
    "observed_matches",
]

TieBreaker: TypeAlias = Literal[
    "goal_difference",
    "goals",
    "wins",
    "head_to_head",
    "head_to_head_goal_difference",
    "random",
]
Points: TypeAlias = tuple[float, float, float]
Zones: TypeAlias = Mapping[str, int | tuple[int, int]]

# The kinds of outcomes for which each tie-breaker is defined.
_NEEDS: dict[str, tuple[Kind, ...]] = {
    "goal_difference": ("difference", "goals"),
    "goals": ("goals",),
    "wins": ("result", "difference", "goals"),
    "head_to_head": ("result", "difference", "goals"),
    "head_to_head_goal_difference": ("difference", "goals"),
    "random": ("result", "difference", "goals"),
}
_DEFAULT = ("goal_difference", "goals", "head_to_head", "random")
# Tables are computed for this many pairs of teams at once.
_PAIRS = 1 << 22


@dataclasses.dataclass(frozen=True, repr=False)
class LeagueTable(AbstractTable):
    """The final tables of a league, one for each draw.

    `to_frame` has one row for each team: name, matches and points (so far), expected_points,
    points_lower and points_upper (a 90 % interval), expected_place, p_title, and the probability
    of each zone.

    Attributes:
        names: the teams, the best expected place first.
        places: the place of each team in each draw, of shape (draws, teams), from 1.
        points: the points of each team in each draw, of shape (draws, teams).
        current_points: the points of each team in the matches that were played.
        matches: the number of matches of each team that were played.
        left: the number of matches of each team that were simulated.
        tie_breakers: how places are decided among teams with equal points, in this order.
        zones: places by the name of a zone, as pairs of the first and the last place.
        library: the library of the data's tables, for `to_frame`.
    """

    names: tuple[Hashable, ...]
    places: np.ndarray
    points: np.ndarray
    current_points: np.ndarray
    matches: np.ndarray
    left: np.ndarray
    tie_breakers: tuple[str, ...]
    zones: dict[str, tuple[int, int]]
    library: str | None = None

    @property
    def probabilities(self) -> np.ndarray:
        """The probability that each team (rows) finishes in each place (columns)."""
        return frequencies(self.places)

    @property
    def p_title(self) -> np.ndarray:
        """The probability that each team finishes first."""
        return self.p_top(1)

    def p_top(self, places: int) -> np.ndarray:
        """Return the probability that each team is among the first `places`."""
        return np.mean(self.places <= places, axis=0)

    def p_bottom(self, places: int) -> np.ndarray:
        """Return the probability that each team is among the last `places`."""
        return np.mean(self.places > len(self.names) - places, axis=0)

    @property
    def expected_points(self) -> np.ndarray:
        """The expected points of each team at the end."""
        return np.mean(self.points, axis=0)

    @property
    def expected_place(self) -> np.ndarray:
        """The expected place of each team."""
        return np.mean(self.places, axis=0)

    def columns(self, places: bool = False) -> dict[str, np.ndarray]:
        """Return the columns of `to_frame`; with `places`, also the probability of each place."""
        lower, upper = np.quantile(self.points, [0.05, 0.95], axis=0, method="nearest")
        columns = {
            "name": name_column(self.names),
            "matches": self.matches,
            "points": _whole(self.current_points),
            "expected_points": self.expected_points,
            "points_lower": _whole(lower),
            "points_upper": _whole(upper),
            "expected_place": self.expected_place,
            "p_title": self.p_title,
        }
        for zone, (begin, end) in self.zones.items():
            within = (self.places >= begin) & (self.places <= end)
            columns[f"p_{zone}"] = np.mean(within, axis=0)
        if places:
            chances = self.probabilities.T
            columns |= {f"place_{place}": part for place, part in enumerate(chances, start=1)}
        return columns

    def to_frame(self, library: str | None = None, *, places: bool = False) -> Any:
        """Return a table with one row for each team, the best expected place first.

        Args:
            library: `"pandas"`, `"polars"` or `"pyarrow"`; that of the data if `None`.
            places: whether to add the probability of each place, `place_1`, `place_2`, ...
        """
        return make_table(self.columns(places), library or self.library)

    def __repr__(self) -> str:
        return self._show(
            f"LeagueTable of {len(self.names)} teams, {len(self.places):,} draws, "
            f"equal points decided by {', '.join(self.tie_breakers)}"
        )


class _Matches(NamedTuple):
    """Matches of a league with their outcomes in one draw or many.

    Attributes:
        first: the number of the first side's team of each match.
        second: the number of the second side's team.
        outcomes: outcomes of shape (draws, matches), or (draws, matches, 2) for goals.
    """

    first: list[int]
    second: list[int]
    outcomes: np.ndarray

    @classmethod
    def of(cls, matches: Simulated, number: Mapping[Hashable, int]) -> "_Matches":
        """Number the teams of matches."""
        first, second = (
            [number[team] for team in side] for side in (matches.first, matches.second)
        )
        return cls(first, second, matches.outcomes)

    def count(self, teams: int) -> np.ndarray:
        """The number of matches of each team."""
        return np.bincount(np.array(self.first + self.second, np.int64), minlength=teams)


class _Tally:
    """Sums over matches, of shape (teams, draws), or (teams, teams, draws) for head to head."""

    def __init__(self, teams: int, draws: int, points: Points, kind: Kind, pairs: bool):
        self._by_result = np.array([points[2], points[1], points[0]], np.float64)
        self._kind = kind
        self.points = np.zeros((teams, draws))
        self.wins = np.zeros((teams, draws))
        self.goals = np.zeros((teams, draws))
        self.differences = np.zeros((teams, draws))
        shape = (teams, teams, draws) if pairs else (0, 0, 0)
        self.pair_points, self.pair_differences = np.zeros(shape), np.zeros(shape)

    def add(self, matches: _Matches) -> None:
        """Add matches; a single draw counts for all."""
        outcomes = matches.outcomes
        goals = self._kind == "goals"
        differences = (outcomes[..., 0] - outcomes[..., 1] if goals else outcomes).T
        results = np.sign(differences).astype(np.int64)
        sides = (matches.first, matches.second, 1, 0), (matches.second, matches.first, -1, 1)
        for own, others, sign, side in sides:
            points = self._by_result[sign * results + 1]
            for match, (team, other) in enumerate(zip(own, others, strict=True)):
                self.points[team] += points[match]
                self.wins[team] += results[match] == sign
                self.differences[team] += sign * differences[match]
                if goals:
                    self.goals[team] += outcomes[:, match, side]
                if len(self.pair_points):
                    self.pair_points[team, other] += points[match]
                    self.pair_differences[team, other] += sign * differences[match]

    def values(self, criterion: str, ahead: np.ndarray, generator: np.random.Generator):
        """Compute the values of a criterion, of shape (teams, draws); larger is better.

        Args:
            criterion: a tie-breaker.
            ahead: the number of teams that are ahead of each team so far.
            generator: for random numbers.
        """
        if criterion.startswith("head_to_head"):
            pairs = self.pair_points if criterion == "head_to_head" else self.pair_differences
            return np.sum(pairs, axis=1, where=ahead[:, None] == ahead[None])
        if criterion == "random":
            return generator.random(ahead.shape)
        return {
            "points": self.points,
            "goal_difference": self.differences,
            "goals": self.goals,
            "wins": self.wins,
        }[criterion]

    def places(self, criteria: Sequence[str], generator: np.random.Generator) -> np.ndarray:
        """The place of each team in each draw, from 1."""
        ahead: np.ndarray = np.zeros(self.points.shape, np.int16)
        for criterion in ("points", *criteria, "random"):
            # Points of a third, for instance, are not exact.
            values = np.round(self.values(criterion, ahead, generator), 9)
            before = ahead[:, None] < ahead[None]
            better = (ahead[:, None] == ahead[None]) & (values[:, None] > values[None])
            ahead = np.asarray(np.sum(before | better, axis=0, dtype=np.int16))
        return ahead + 1


def league_table(
    played: Any,
    simulated: Simulated,
    points: Points = (3, 1, 0),
    tie_breakers: Sequence[TieBreaker] | None = None,
    *,
    zones: Zones | None = None,
    adjustments: Mapping[Hashable, float] | None = None,
    seed: int = 0,
) -> LeagueTable:
    """Compute the final tables of a league from played and simulated matches.

    Args:
        played: the matches of this season that were played: a table with the columns of the
            data's own table, or a `Dataset` of them; `None` if there are none.
        simulated: the matches that are left, from `Posterior.simulate`.
        points: the points for a win, a tie and a loss.
        tie_breakers: how places are decided among teams with equal points, in this order:
            `"goal_difference"`, `"goals"`, `"wins"`, `"head_to_head"` (points in matches among
            the teams that are still equal), `"head_to_head_goal_difference"` and `"random"` (such
            as a play-off). Remaining ties are broken at random. If `None`: goal difference and
            goals if the model has them, head to head, random.
        zones: places of interest by name: one place or a pair of the first and the last, such
            as `{"relegation": (16, 18)}`; negative places count from the end.
        adjustments: points to add by team for other reasons, such as a deduction.
        seed: the seed of the random numbers.

    Returns:
        The tables, with `p_title`, `p_top`, `p_bottom`, `expected_points` and the
        `probabilities` of all places.

    Raises:
        DataError: if a tie-breaker needs goals that the model does not have, a match is both
            played and simulated, or an argument is invalid.
    """
    rules = LeagueRules.read(points, tie_breakers, simulated.kind, zones, adjustments, seed)
    return final_tables(_read_played(played, simulated), simulated, rules)


class LeagueRules(NamedTuple):
    """The rules of a league: the arguments of `league_table`."""

    points: Points
    tie_breakers: tuple[str, ...]
    zones: Zones
    adjustments: Mapping[Hashable, float]
    seed: int

    @classmethod
    def read(
        cls,
        points: Any,
        tie_breakers: Sequence[str] | None,
        kind: Kind,
        zones: Zones | None = None,
        adjustments: Mapping[Hashable, float] | None = None,
        seed: int = 0,
    ) -> "LeagueRules":
        """Check points and tie-breakers; zones and adjustments need the teams."""
        breakers = _read_tie_breakers(tie_breakers, kind)
        return cls(_read_points(points), breakers, zones or {}, adjustments or {}, seed)


def final_tables(past: Simulated, simulated: Simulated, rules: LeagueRules) -> LeagueTable:
    """Compute final tables, given the matches played as a simulation with one draw."""
    teams = sorted({*past.first, *past.second, *simulated.first, *simulated.second}, key=str)
    number = {team: place for place, team in enumerate(teams)}
    known, criteria = _Matches.of(past, number), rules.tie_breakers
    left = _Matches.of(simulated, number)
    extra = _read_adjustments(rules.adjustments, number)[:, None]
    pairs = any(name.startswith("head_to_head") for name in criteria)
    now = _Tally(len(teams), 1, rules.points, past.kind, pairs=False)
    now.add(known)
    generator = np.random.default_rng(rules.seed)
    size = max(1, _PAIRS // len(teams) ** 2)
    found = []
    for begin in range(0, simulated.draws, size):
        part = left._replace(outcomes=left.outcomes[begin : begin + size])
        tally = _Tally(len(teams), len(part.outcomes), rules.points, past.kind, pairs)
        tally.add(known)
        tally.add(part)
        tally.points += extra
        found.append((tally.places(criteria, generator).T, tally.points.T))
    places, totals = (np.concatenate(each) for each in zip(*found, strict=True))
    order = np.lexsort((-totals.mean(axis=0), places.mean(axis=0)))
    return LeagueTable(
        names=tuple(teams[place] for place in order),
        places=places[:, order],
        points=totals[:, order],
        current_points=(now.points + extra)[order, 0],
        matches=known.count(len(teams))[order],
        left=left.count(len(teams))[order],
        tie_breakers=criteria,
        zones=_read_zones(rules.zones, len(teams)),
        library=simulated.index.library,
    )


def frequencies(places: np.ndarray) -> np.ndarray:
    """The share of draws in which each team finishes in each place."""
    columns = range(1, places.shape[1] + 1)
    return np.stack([np.mean(places == place, axis=0) for place in columns], axis=1)


def _whole(points: np.ndarray) -> np.ndarray:
    """Points as integers if they are."""
    numbers = np.rint(points).astype(np.int64)
    return numbers if np.array_equal(numbers, points) else points


def _read_points(points: Any) -> Points:
    numbers = np.asarray(points, np.float64) if np.ndim(points) == 1 else np.empty(0)
    if numbers.shape != (3,) or not np.isfinite(numbers).all():
        problem = "but must be three numbers: for a win, a tie and a loss"
        raise invalid("points", points, problem)
    win, tie, loss = numbers.tolist()
    return win, tie, loss


def _read_tie_breakers(given: Sequence[str] | None, kind: Kind) -> tuple[str, ...]:
    if given is None:
        return tuple(name for name in _DEFAULT if kind in _NEEDS[name])
    if isinstance(given, str):
        given = [given]
    for name in given:
        if name not in _NEEDS:
            raise DataError(
                f"{{argument}} has {{value}}, but must be of {', '.join(map(repr, _NEEDS))}",
                did_you_mean(name, _NEEDS),
                argument="tie_breakers",
                value=name,
            )
        if kind not in _NEEDS[name]:
            wanted = "`counts=`" if name == "goals" else "`difference=` or `counts=`"
            has = "results" if kind == "result" else "differences"
            raise DataError(
                f"{{argument}} has {{value}}, but the model simulates {has} only",
                f"Leave it out, or read the data with {wanted} and a likelihood of them.",
                argument="tie_breakers",
                value=name,
            )
    return tuple(given)


def _read_zones(zones: Zones, teams: int) -> dict[str, tuple[int, int]]:
    found = {}
    for name, places in zones.items():
        pair = (places, places) if isinstance(places, int) else tuple(places)
        ends = [place + teams + 1 if place < 0 else place for place in pair]
        if len(ends) != 2 or not 1 <= ends[0] <= ends[1] <= teams:
            problem = f"but must be a place or two from 1 to {teams}"
            remedy = "Negative places count from the end: `(-3, -1)` are the last three."
            raise invalid(f"zones[{name!r}]", places, problem, remedy)
        found[str(name)] = (ends[0], ends[1])
    return found


def _read_adjustments(
    adjustments: Mapping[Hashable, float], number: Mapping[Hashable, int]
) -> np.ndarray:
    """Read points that are added to those of matches, in the order of the teams."""
    points = np.zeros(len(number))
    for name, value in adjustments.items():
        if side_label(name) not in number:
            raise DataError(
                "{argument} has {value}, which is not a team of the league",
                did_you_mean(name, number),
                argument="adjustments",
                value=name,
            )
        points[number[side_label(name)]] += value
    return points


def _read_played(played: Any, simulated: Simulated) -> Simulated:
    """Read matches that were played, as a simulation with one draw."""
    index = simulated.index
    if played is None:
        none = simulated.take(np.zeros(len(simulated.first), bool))
        return dataclasses.replace(none, outcomes=none.outcomes[:1])
    if not isinstance(played, Dataset):
        reading = Rules(index.grouping, index.unit, schema=index.schema)
        observations = read_table(played, reading)
    elif played.schema is not None and played.schema.reading == index.schema.reading:
        observations = played.observations
    else:
        raise DataError(
            "{argument} was not read like the data of the model",
            "Pass a table with the columns of that data.",
            argument="played",
        )
    past = observed_matches(observations, simulated.kind, index)
    both = set(_keys(past)) & set(_keys(simulated))
    if both:
        first, second, _ = min(both, key=str)
        raise DataError(
            f"{first!r} against {second!r} is both played and simulated, at the same time "
            f"({len(both):,} such matches)",
            "Simulate only the matches that are left.",
        )
    return past


def _keys(matches: Simulated) -> list[tuple]:
    return list(zip(matches.first, matches.second, matches.numbers.tolist(), strict=True))


def observed_matches(observations: Observations, kind: Kind, index: Index) -> Simulated:
    """Matches with their true outcomes, as a simulation with one draw."""
    schema, columns = observations.schema, write_observations(observations, None)
    rows = observations.row_numbers
    # The two observations of a match follow each other.
    matches = np.flatnonzero(np.append(True, rows[1:] != rows[:-1]))
    outcomes = np.asarray(observations.outcome, np.float64)
    if kind == "goals":
        drawn = np.stack([outcomes[matches], outcomes[matches + 1]], axis=-1)
    else:
        drawn = np.sign(outcomes[matches]) if kind == "result" else outcomes[matches]
    sides = []
    for side in (schema.first, schema.second):
        names = [side] if isinstance(side, str) else [name for name, _ in side]
        cells = zip(*(columns[name] for name in names), strict=True)
        cells = ([name for name in each if name is not None] for each in cells)
        sides.append(tuple(side_label(each[0] if len(each) == 1 else each) for each in cells))
    first, second = sides
    return Simulated(first, second, observations.times[matches], drawn[None], kind, index)
