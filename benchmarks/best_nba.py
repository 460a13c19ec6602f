"""Candidate models of basketball: points, home advantages, playoffs, rest, seasons."""

from functools import partial

import numpy as np
import pandas as pd
from best_contest import Candidate, Contest, Term, assemble, number_sides
from paper_cases import nba_model
from paper_data import as_pairs, read_nba

import jaxkick as jk
from jaxkick.kernels import Constant, Matern12, Matern32, PiecewiseConstant

SEASONS = [year + 0.7 for year in range(1945, 2020)]
"""Boundaries between seasons, in September."""


def read(since: str, stop: str) -> pd.DataFrame:
    """Read games, with the days of rest of both teams."""
    games = read_nba()
    days = pd.to_datetime(games.date).to_numpy("datetime64[D]").astype(np.int64)
    sides = pd.DataFrame(
        {
            "team": np.stack([games["first"], games["second"]], axis=1).ravel(),
            "day": np.repeat(days, 2),
        }
    )
    rest = sides.groupby("team").day.diff().fillna(99).to_numpy().reshape(-1, 2)
    # The game before the last was at most three days ago.
    busy = sides.groupby("team").day.diff(2).fillna(99).to_numpy().reshape(-1, 2)
    games["tired"] = -np.diff((rest == 1) * 1.0)[:, 0]
    games["busy"] = -np.diff((busy <= 3) * 1.0)[:, 0]
    games["rested"] = -np.diff(((rest >= 3) & (rest < 8)) * 1.0)[:, 0]
    return games[(games.date >= since) & (games.date < stop)].reset_index(drop=True)


def make(
    games: pd.DataFrame,
    team: str = "rough",
    home: str = "slow",
    without: tuple[str, ...] = (),
    rest: tuple[str, ...] = ("tired",),
    power: float = 1.0,
) -> Candidate:
    """Build a candidate model of the difference of points."""
    one, two = number_sides(games)
    plus, ground = np.ones(len(games)), games.home.to_numpy()
    terms = [
        Term("team", one, plus),
        Term("team", two, -plus),
        Term("home", 0, ground),
        Term("own home", one, ground),
        Term("playoffs", 0, ground * games.playoff.to_numpy()),
        *(Term(name, 0, games[name].to_numpy()) for name in rest),
    ]
    terms = [term for term in terms if term.group not in without]
    kernels = {
        "team": TEAMS[team](),
        "home": HOMES[home](),
        "own home": Constant(1.0),
        "playoffs": Constant(1.0),
        **{name: Constant(3.0) for name in rest},
    }
    kernels = {term.group: kernels[term.group] for term in terms}
    points = games.difference.to_numpy()
    data = assemble(games.date, terms, np.sign(points) * np.abs(points) ** power)
    return Candidate(data, jk.Model(kernels, jk.likelihoods.Gaussian(130.0)), ties=False)


TEAMS = {
    "paper": lambda: Constant(0.06) + Matern12(17.7, 3.3),
    "rough": lambda: Matern12(17.0, 3.3),
    "smooth": lambda: Matern32(17.0, 1.8),
    "two": lambda: Matern12(12.0, 5.0) + Matern12(5.0, 0.3),
    "smooth and rough": lambda: Matern32(12.0, 3.0) + Matern12(5.0, 0.3),
    "seasons": lambda: Matern12(12.0, 5.0) + PiecewiseConstant(4.0, SEASONS),
    "season products": lambda: (
        Matern12(12.0, 5.0) + PiecewiseConstant(jk.Fixed(1.0), SEASONS) * Matern12(5.0, 0.5)
    ),
}
HOMES = {
    "constant": lambda: Constant(9.0),
    "slow": lambda: Constant(9.0) + Matern32(1.0, 5.0),
}


IDEAS = {
    "as it was": make,
    "paper's kernel, no more": partial(
        make, team="paper", without=("home", "own home", "playoffs", "tired")
    ),
    "without own home": partial(make, without=("own home",)),
    "without playoffs": partial(make, without=("playoffs",)),
    "without tiredness": partial(make, without=("tired",)),
    "constant home": partial(make, home="constant"),
    "more kinds of rest": partial(make, rest=("tired", "busy", "rested")),
    "Matern32": partial(make, team="smooth"),
    "two timescales": partial(make, team="two"),
    "smooth and rough": partial(make, team="smooth and rough"),
    "seasons": partial(make, team="seasons"),
    "season products": partial(make, team="season products"),
    "points to the power of 0.75": partial(make, power=0.75),
}


def paper_model(games: pd.DataFrame) -> Candidate:
    """Return the paper's model of wins and losses."""
    return Candidate(as_pairs(games), nba_model())


CONTEST = Contest(
    read=read,
    since="1979-07-01",
    validation="1997-07-01",
    test="2003-03-16",
    blocks="week",
    ideas=IDEAS,
    chosen="points to the power of 0.75",
    paper=paper_model,
    given="elo_prob1",
)
