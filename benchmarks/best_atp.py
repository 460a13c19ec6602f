"""Candidate models of tennis: dynamics, surfaces, and traits of players' pasts."""

from collections.abc import Callable
from functools import partial

import numpy as np
import pandas as pd
from best_contest import Candidate, Contest, Term, assemble, number_sides
from paper_cases import atp_model
from paper_data import as_pairs, read_atp

import jaxkick as jk
from jaxkick.kernels import AbstractKernel, Affine, Aspects, Constant, Matern12, Matern32, Wiener

LEVELS = ("tour", "qual_chall", "futures")
STARTS = {"newcomer": 0.7, "habits": 0.02, "break": 0.01, "background": 1.0}
WEIGHTS = {
    "newcomer": (-0.194, -0.842, -0.695),
    "habits": (0.228, 0.100, -0.028),
    "break": (-0.096, -0.075, -0.114),
}
"""Effects of the traits, learnt from the matches of 2001 to August 2009."""
_SPAN = 20_000
"""More than the number of days in the data."""


def read(since: str, stop: str) -> pd.DataFrame:
    """Read matches, with the traits of the winner minus those of the loser."""
    games = read_atp()
    days = pd.to_datetime(games.date).to_numpy("datetime64[D]").astype(np.int64)
    past = describe_past(np.stack(number_sides(games)), days, games.level.map(LEVELS.index))
    games["background"] = 0.0
    for name, traits in past.items():
        for number, (first, second) in enumerate(traits):
            games[f"{name} {number}"] = first - second
            games["background"] += WEIGHTS[name][number] * (first - second)
    return games[(games.date >= since) & (games.date < stop)].reset_index(drop=True)


def describe_past(players: np.ndarray, days: np.ndarray, level: pd.Series) -> dict:
    """Compute traits [traits, 2, matches] of both players from the days before each match."""
    begin, key = players * _SPAN, players * _SPAN + days
    played = np.sort(key.ravel())
    place, debut = np.searchsorted(played, key), np.searchsorted(played, begin)
    matches, years = place - debut, (key - played[debut]) / 365.25
    away = np.where(matches > 0, key - played[np.maximum(place - 1, 0)], 0)
    habits = []
    for number in range(len(LEVELS)):
        there = np.sort(key[:, level == number].ravel())
        last_year = np.searchsorted(there, key) - np.searchsorted(there, key - 365)
        habits.append(np.log1p(last_year) / 3)
    return {
        "newcomer": np.stack([matches == 0, 1 / (1 + matches / 10), np.exp(-years / 3)]) * 1.0,
        "habits": np.stack(habits),
        "break": np.stack([away > 60, away > 180, away > 365]) * 1.0,
    }


def make(
    games: pd.DataFrame,
    player: Callable[[], AbstractKernel],
    surface: str | None = None,
    traits: tuple[str, ...] = (),
) -> Candidate:
    """Build a candidate model."""
    one, two = number_sides(games)
    plus = np.ones(len(games))
    terms = [Term("player", one, plus), Term("player", two, -plus)]
    kernels, aspects = {"player": player()}, None
    if surface in ("clay aspect", "aspects"):
        names = ["Clay"] if surface == "clay aspect" else ["Hard", "Clay", "Grass"]
        ground = games.surface.replace("Carpet", "Hard").fillna("Hard")
        # One effect has opposite signs on clay and elsewhere; one of each surface counts there.
        off = -1.0 if len(names) == 1 else 0.0
        aspects = {name: np.where(ground == name, 1.0, off) for name in names}
        start = 0.0125 if len(names) == 1 else 0.05
        kernels["player"] += Aspects(**{name: Constant(start) for name in names})
    if surface == "each":
        ground = games.surface.map({"Hard": 0, "Carpet": 0, "Clay": 1, "Grass": 2}).to_numpy()
        terms += [Term("surface", 3 * one + ground, plus), Term("surface", 3 * two + ground, -plus)]
        kernels["surface"] = Constant(0.05)
    if surface == "clay":
        clay = np.where(games.surface == "Clay", 1.0, -1.0)
        terms += [Term("surface", one, clay), Term("surface", two, -clay)]
        kernels["surface"] = Constant(0.0125)
    for trait in traits:
        columns = [name for name in games.columns if name.split()[0] == trait]
        terms += [Term(trait, place, games[name].to_numpy()) for place, name in enumerate(columns)]
        kernels[trait] = Constant(STARTS[trait])
    data = assemble(games.date, terms, plus, aspects)
    return Candidate(data, jk.Model(kernels, jk.likelihoods.Probit()))


def paper_model(games: pd.DataFrame) -> Candidate:
    """Return the paper's model."""
    return Candidate(as_pairs(games), atp_model())


def _line() -> AbstractKernel:
    return Affine(0.366, 0.001) + Wiener(0.147)


def _smooth() -> AbstractKernel:
    return Matern32(0.8, 7.5) + Matern12(0.1, 0.7)


def _drift() -> AbstractKernel:
    return Wiener(0.062, origin_variance=0.269)


def _rough() -> AbstractKernel:
    return Matern12(0.43, 14.0)


_ALL = ("newcomer", "habits", "break")
_CHOSEN = partial(make, player=_drift, traits=("background",))
IDEAS = {
    "paper's kernel, learnt": partial(make, player=_line),
    "two timescales": partial(make, player=_smooth),
    "paper's kernel, each surface": partial(make, player=_line, surface="each"),
    "paper's kernel, newcomers": partial(make, player=_line, traits=("newcomer",)),
    "paper's kernel, habits": partial(make, player=_line, traits=("habits",)),
    "paper's kernel, all traits": partial(make, player=_line, traits=_ALL),
    "Wiener, all traits, clay": partial(make, player=_drift, surface="clay", traits=_ALL),
    "Matérn 1/2, all traits, clay": partial(make, player=_rough, surface="clay", traits=_ALL),
    "Wiener, background": _CHOSEN,
    "Wiener, background, clay": partial(_CHOSEN, surface="clay"),
    "Wiener, background, clay as aspect": partial(_CHOSEN, surface="clay aspect"),
    "Wiener, background, surfaces as aspects": partial(_CHOSEN, surface="aspects"),
}
CONTEST = Contest(
    read=read,
    since="2001-01-01",
    validation="2009-09-01",
    test="2011-09-12",
    blocks="month",
    ideas=IDEAS,
    chosen="Wiener, background, clay",
    paper=paper_model,
)
