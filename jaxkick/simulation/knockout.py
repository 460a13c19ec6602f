"""Knock-out tournaments."""

import dataclasses
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import jax
import numpy as np

from jaxkick._typing import Array, Key
from jaxkick.data.queries import check_known, read_match
from jaxkick.data.schema import ATTACK, HOME, Feature
from jaxkick.data.tables import AbstractTable, name_column
from jaxkick.errors import DataError, check_choice, check_count
from jaxkick.posterior.posterior import Posterior
from jaxkick.posterior.simulated import Players, side_label

__all__ = ["Knockout", "knockout"]

_ROUNDS = {2: "final", 4: "semi_final", 8: "quarter_final"}
# Ties that are still not broken after this many replays are decided by a coin.
_REPLAYS = 100


@dataclasses.dataclass(frozen=True, repr=False)
class Knockout(AbstractTable):
    """The rounds that each team of a knock-out tournament reaches.

    The table has one row for each team, the favourite first.

    Attributes:
        names: the teams, the favourite first.
        rounds: the names of the rounds, and `"winner"`.
        probabilities: the probability that each team (rows) reaches each round (columns).
        draws: the number of draws.
        library: the library of the data's tables, for `to_frame`.
    """

    names: tuple[Hashable, ...]
    rounds: tuple[str, ...]
    probabilities: np.ndarray
    draws: int
    library: str | None = None

    @property
    def p_win(self) -> np.ndarray:
        """The probability that each team wins the tournament."""
        return self.probabilities[:, -1]

    def columns(self) -> dict[str, np.ndarray]:
        chances = zip(self.rounds, self.probabilities.T, strict=True)
        return {"name": name_column(self.names), **{f"p_{each}": part for each, part in chances}}

    def __repr__(self) -> str:
        return self._show(f"Knockout of {len(self.names)} teams, {self.draws:,} draws")


def knockout(
    posterior: Posterior,
    bracket: Sequence[Hashable | None],
    time: Any,
    *,
    legs: int | Sequence[int] = 1,
    penalties: Literal["coin", "skill"] = "coin",
    hosts: Sequence[Hashable] = (),
    covariates: Mapping[Hashable, Any] | None = None,
    draws: int = 10_000,
    seed: int = 0,
    allow_unknown: bool = False,
) -> Knockout:
    """Play a knock-out tournament many times, from coherent draws of all scores.

    Args:
        posterior: the posterior.
        bracket: the teams in the order of the bracket: the first plays the second, the winner
            plays that of the third and the fourth, and so on. `None` is a bye. The length is a
            power of two.
        time: the time of all matches, or a list with one for each round.
        legs: 1 for a single match, on neutral ground unless one side is a host; 2 for a match at
            each team's home, whose goals (or goal differences, or wins) are added; or a list with
            one for each round.
        penalties: how ties are broken: by a `"coin"`, or by `"skill"`, which repeats the (last)
            match until there is a winner.
        hosts: the teams with a home advantage in single matches against others.
        covariates: as in `Posterior.predict`, with one value for all matches, such as the surface
            of the tournament. A covariate without a value is 0.
        draws: the number of draws.
        seed: the seed of the random numbers.
        allow_unknown: as in `Posterior.simulate`.

    Returns:
        The probabilities that each team reaches each round, and wins.

    Raises:
        DataError: if the bracket does not close, a team is unknown or named twice, or an
            argument is invalid.
    """
    check_count("draws", draws)
    slots = _read_bracket(bracket)
    num_rounds = len(slots).bit_length() - 1
    check_choice("penalties", penalties, ("coin", "skill"))
    all_legs, times = _per_round("legs", legs, num_rounds), _per_round("time", time, num_rounds)
    for each in all_legs:
        check_choice("legs", each, (1, 2))
    if not allow_unknown:
        by_roles = posterior.data.index.meaning.has_roles
        names = [Feature(name, ATTACK) if by_roles else name for name in slots if name is not None]
        check_known(posterior.data.index, names, "bracket")
    drawing, playing = jax.random.split(jax.random.key(seed))
    ties = _meet(posterior, slots, times, all_legs, _read_hosts(posterior, hosts, slots))
    match = read_match(posterior.data.index, ties.first, ties.second, covariates, ties.home)
    players = Players.draw(posterior, match, ties.times, drawing, draws, allow_unknown)
    filled = [-1 if name is None else place for place, name in enumerate(slots)]
    occupants = np.tile(np.array(filled), (draws, 1))
    reached = [occupants]
    for legs_here in all_legs:
        playing, own = jax.random.split(playing)
        occupants = _play_round(players, ties.numbers, occupants, legs_here, penalties, own)
        reached.append(occupants)
    teams = [place for place in filled if place >= 0]
    chances = np.array([[np.mean(np.any(r == t, axis=1)) for r in reached] for t in teams])
    order = np.lexsort(tuple(-chances.T))
    names = tuple(side_label(slots[teams[place]]) for place in order)
    sizes = [2**left for left in range(num_rounds, 0, -1)]
    titles = [_ROUNDS.get(size, f"round_of_{size}") for size in sizes]
    library = posterior.data.index.library
    return Knockout(names, (*titles, "winner"), chances[order], draws, library)


def _read_bracket(bracket: Any) -> list[Hashable | None]:
    if isinstance(bracket, (str, bytes)) or not isinstance(bracket, Iterable):
        raise DataError(
            "{argument} is {value}, but must be the list of its teams",
            argument="bracket",
            value=bracket,
        )
    slots: list[Hashable | None] = list(bracket)
    size = len(slots)
    if size < 2 or size & (size - 1):
        wanted = max(2, 1 << (size - 1).bit_length()) if size else 2
        raise DataError(
            f"{{argument}} has {size:,} slots, but must have a power of two, such as {wanted}, so "
            "that it closes with one final",
            "Add `None` for each bye, next to the team that has it.",
            argument="bracket",
        )
    labels = [side_label(name) for name in slots if name is not None]
    for label in labels:
        if labels.count(label) > 1:
            raise DataError("{argument} has {value} twice", argument="bracket", value=label)
    if len(labels) < 2:
        raise DataError("{argument} has fewer than two teams", argument="bracket")
    return slots


def _per_round(argument: str, value: Any, num_rounds: int) -> list:
    """One value for each round."""
    if np.ndim(value) == 0:
        return [value] * num_rounds
    if len(value) != num_rounds:
        raise DataError(
            f"{{argument}} has {len(value)} values, but the bracket has {num_rounds} rounds",
            "Pass one value for all rounds, or one for each.",
            argument=argument,
        )
    return list(value)


def _read_hosts(posterior: Posterior, hosts: Any, slots: Sequence[Hashable | None]) -> list[bool]:
    """Check the hosts; return for each slot whether its team is one."""
    names = [hosts] if isinstance(hosts, str) else list(hosts)
    teams = [None if name is None else side_label(name) for name in slots]
    for name in names:
        if side_label(name) not in teams:
            problem = "{argument} has {value}, which is not in the bracket"
            raise DataError(problem, argument="hosts", value=name)
    if names and HOME not in posterior.data.index.names:
        raise DataError(
            "{argument} is given, but the data has no home advantage",
            "Leave it out, or build the data with `Dataset.from_frame(..., home=...)`.",
            argument="hosts",
        )
    labels = set(map(side_label, names))
    return [team is not None and team in labels for team in teams]


class _Ties(NamedTuple):
    """All matches that may take place.

    Attributes:
        first: the first side of each.
        second: the second side of each.
        home: the side at home; `None` in data without a home advantage.
        times: the time of each.
        numbers: the number of the match of each pair of slots, [slots, slots, legs].
    """

    first: list[Hashable]
    second: list[Hashable]
    home: list[int] | None
    times: Any
    numbers: np.ndarray


def _meet(
    posterior: Posterior,
    slots: Sequence[Hashable | None],
    times: Sequence[Any],
    legs: Sequence[int],
    hosts: Sequence[bool],
) -> _Ties:
    """Find every pair that may meet, which each does in one round only."""
    numbers = np.zeros((len(slots), len(slots), 2), np.int64)
    first, second, home, when = [], [], [], []
    for one, name in enumerate(slots):
        for two in range(one + 1, len(slots)):
            if name is None or slots[two] is None:
                continue
            here = (one ^ two).bit_length() - 1
            for leg in range(legs[here]):
                numbers[one, two, leg] = len(first)
                first.append(name)
                second.append(slots[two])
                home.append(int(hosts[one]) - hosts[two] if legs[here] == 1 else 1 - 2 * leg)
                when.append(times[here])
    column = np.asarray(when) if len(set(map(type, when))) == 1 else when
    at_home = home if HOME in posterior.data.index.names else None
    return _Ties(first, second, at_home, column, numbers)


def _play_round(
    players: Players,
    numbers: np.ndarray,
    occupants: np.ndarray,
    legs: int,
    penalties: str,
    key: Key[Array, ""],
) -> np.ndarray:
    """Play one round; return the slots of the winners [draws, matches], -1 where both are empty."""
    first, second = occupants[:, 0::2], occupants[:, 1::2]
    both = np.minimum(first, second) >= 0
    rows, columns = np.nonzero(both)
    keys = iter(jax.random.split(key, legs + 1 + _REPLAYS))

    def play(chosen: np.ndarray | slice, leg: int) -> np.ndarray:
        row, column = rows[chosen], columns[chosen]
        match = numbers[first[row, column], second[row, column], leg]
        outcomes = players._replace(scores=players.scores[row, match]).play(next(keys))
        return outcomes[..., 0] - outcomes[..., 1] if players.kind == "goals" else outcomes

    lead = np.zeros(len(rows))
    for leg in range(legs):
        lead += play(slice(None), leg)
    for _ in range(_REPLAYS if penalties == "skill" else 0):
        tied = np.flatnonzero(lead == 0)
        if not len(tied):
            break
        lead[tied] = play(tied, legs - 1)
    coin = np.asarray(jax.random.bernoulli(next(keys), shape=lead.shape))
    wins = np.where(lead == 0, coin, lead > 0)
    # A bye has -1, the smaller number.
    winners = np.maximum(first, second)
    winners[both] = np.where(wins, first[both], second[both])
    return winners
