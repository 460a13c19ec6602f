"""The chances of all teams over a season."""

import dataclasses
from collections.abc import Hashable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxkick.chains.step import Site
from jaxkick.data.columns import TimeScale
from jaxkick.data.dataset import Dataset
from jaxkick.data.periods import Period
from jaxkick.data.tables import AbstractTable, name_column, write_observations
from jaxkick.errors import check_count
from jaxkick.evaluation.backtest import make_blocks
from jaxkick.inference.infer import infer
from jaxkick.inference.methods import AbstractMethod
from jaxkick.model import Model
from jaxkick.posterior.simulated import Players, read_fixtures
from jaxkick.simulation.league import (
    LeagueRules,
    Points,
    TieBreaker,
    final_tables,
    frequencies,
    observed_matches,
)

__all__ = ["TitleRace", "title_race"]


@dataclasses.dataclass(frozen=True, repr=False)
class TitleRace(AbstractTable):
    """The chances of all teams over a season, before each block of matches and at the end.

    The table has the columns time, name, p_title, expected_points and expected_place.

    Attributes:
        names: the teams, in the order of the final table.
        numbers: the time of the first match of each block, and that of the last match, in the
            data's unit; see `times`.
        probabilities: the probability of each place, of shape (times, teams, places).
        expected_points: the expected points at the end, of shape (times, teams).
        scale: conversion between numeric times and dates.
        library: the library of the data's tables, for `to_frame`.
    """

    names: tuple[Hashable, ...]
    numbers: np.ndarray
    probabilities: np.ndarray
    expected_points: np.ndarray
    scale: TimeScale
    library: str | None = None

    @property
    def times(self) -> np.ndarray:
        """The times, as in the data."""
        return self.scale.to_user(self.numbers)

    @property
    def p_title(self) -> np.ndarray:
        """The probability that each team finishes first, of shape (times, teams)."""
        return self.p_top(1)

    def p_top(self, places: int) -> np.ndarray:
        """Return the probability of finishing among the first `places`, of shape (times, teams)."""
        return np.sum(self.probabilities[..., :places], axis=-1)

    def p_bottom(self, places: int) -> np.ndarray:
        """Return the probability of finishing among the last `places`, of shape (times, teams)."""
        return np.sum(self.probabilities[..., len(self.names) - places :], axis=-1)

    def columns(self) -> dict[str, np.ndarray]:
        places = np.arange(1.0, len(self.names) + 1)
        return {
            "time": np.repeat(self.times, len(self.names)),
            "name": np.tile(name_column(self.names), len(self.numbers)),
            "p_title": self.p_title.ravel(),
            "expected_points": self.expected_points.ravel(),
            "expected_place": (self.probabilities @ places).ravel(),
        }

    def __repr__(self) -> str:
        return self._show(f"TitleRace of {len(self.names)} teams at {len(self.numbers)} times")


def title_race(
    model: Model,
    data: Dataset,
    start: Any,
    *,
    every: Period = "week",
    stop: Any = None,
    draws: int = 2_000,
    points: Points = (3, 1, 0),
    tie_breakers: Sequence[TieBreaker] | None = None,
    method: AbstractMethod | None = None,
    seed: int = 0,
) -> TitleRace:
    """Simulate the rest of a season before each block of its matches, from earlier results only.

    The model is refitted before each block to all earlier matches, with a warm start. Learn
    parameters from earlier seasons only, with `learn(model, data, mask=...)`: parameters learnt
    from the season itself have seen its results.

    Args:
        model: the model, with its parameters.
        data: the matches of the season and of earlier ones, from `Dataset.from_frame`.
        start: the time of the season's start, as in the data.
        every: length of a block, as in `evaluation.walk_forward`.
        stop: the end of the season; matches at or after it are ignored.
        draws: the number of draws before each block.
        points: the points for a win, a tie and a loss.
        tie_breakers: as in `league_table`.
        method: the inference method, as in `infer`.
        seed: the seed of the random numbers.

    Returns:
        The chances of all teams over the season.

    Raises:
        DataError: if an argument is invalid, or the data was not read from a table of matches.
        InferenceError: if inference fails before some block.
    """
    check_count("draws", draws)
    blocks = make_blocks(data, start, every, stop)
    rows = np.sort(blocks.rows)
    season = data.observations.take(rows)
    match, times = read_fixtures(data.index, write_observations(season, None))
    own = season.row_numbers
    number = blocks.number[rows][np.append(True, own[1:] != own[:-1])]
    sites = tuple(Site(*[jnp.zeros_like(chain.gap)] * 2) for chain in data.chains)
    drawing, playing = jax.random.split(jax.random.key(seed))
    found, numbers = [], []
    for block in blocks.tested:
        posterior = infer(model, data, method, start=sites, mask=blocks.number < block)
        sites = posterior.sites
        # All matches of the season are drawn, so that one compiled program serves all blocks.
        players = Players.draw(posterior, match, times, drawing, draws, allow_unknown=False)
        past = observed_matches(season, players.kind, data.index)
        whole = dataclasses.replace(past, outcomes=players.play(playing))
        rules = LeagueRules.read(points, tie_breakers, players.kind, seed=seed)
        found.append(final_tables(past.take(number < block), whole.take(number >= block), rules))
        numbers.append(past.numbers[number >= block].min())
    found.append(final_tables(past, whole.take(number < 0), rules))
    numbers.append(past.numbers.max())
    names = found[-1].names
    orders = [[table.names.index(name) for name in names] for table in found]
    return TitleRace(
        names,
        np.array(numbers),
        np.stack([frequencies(t.places)[order] for t, order in zip(found, orders, strict=True)]),
        np.stack([t.expected_points[order] for t, order in zip(found, orders, strict=True)]),
        data.index.scale,
        data.index.library,
    )
