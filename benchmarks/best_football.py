"""Candidate models of international football: results, goal differences, or goals."""

from functools import partial

import numpy as np
import pandas as pd
from best_contest import Candidate, Contest, Reading, Term, assemble, number_sides
from paper_cases import signs_of_counts
from paper_data import as_pairs, read_football

import jaxkick as jk
from jaxkick import evaluation as ev
from jaxkick.kernels import Constant, Matern12, Matern32
from jaxkick.likelihoods import OrdinalProbit, Poisson

MARGINS = (0.25, 0.5, 0.5, 0.5)
"""Starting values of the thresholds of goal differences; larger ones count as four goals."""
CONFEDERATIONS = {
    "UEFA Euro": 0,
    "UEFA Nations League": 0,
    "British Home Championship": 0,
    "Copa América": 1,
    "African Cup of Nations": 2,
    "CECAFA Cup": 2,
    "COSAFA Cup": 2,
    "AFC Asian Cup": 3,
    "AFF Championship": 3,
    "Gulf Cup": 3,
    "SAFF Cup": 3,
    "Asian Games": 3,
    "Gold Cup": 4,
    "CFU Caribbean Cup": 4,
    "CONCACAF Championship": 4,
    "UNCAF Cup": 4,
    "Oceania Nations Cup": 5,
    "South Pacific Games": 5,
}
OTHERS = 6


def read(since: str, stop: str) -> pd.DataFrame:
    """Read matches, with traits of both teams from earlier days."""
    games = read_football()
    one, two = number_sides(games)
    days = pd.to_datetime(games.date).to_numpy("datetime64[D]").astype(np.int64) + 100_000
    key = np.stack([one, two]) * 200_000 + days
    order = np.sort(key.ravel())
    before = np.searchsorted(order, key) - np.searchsorted(order, key - days)
    games["newcomer"] = -np.diff(1 / (1 + before / 10), axis=0)[0]
    games["friendly"] = (games.tournament == "Friendly") * 1.0
    games["confederation1"], games["confederation2"] = confederations(games, one, two)
    return games[(games.date >= since) & (games.date < stop)].reset_index(drop=True)


def confederations(games: pd.DataFrame, one: np.ndarray, two: np.ndarray) -> np.ndarray:
    """Assign each team to the confederation whose championships it plays in."""
    tournament = games.tournament.str.replace(" qualification", "").map(CONFEDERATIONS)
    known = tournament.notna().to_numpy()
    number = tournament[known].astype(int)
    counts = np.zeros((max(one.max(), two.max()) + 1, OTHERS + 1))
    counts[:, OTHERS] = 0.5
    for side in (one, two):
        np.add.at(counts, (side[known], number), 1)
    member = counts.argmax(axis=1)
    return member[np.stack([one, two])]


def make(
    games: pd.DataFrame,
    outcome: str = "result",
    team: str = "paper",
    home: str | None = "constant",
    own_home: bool = False,
    friendly: bool = False,
    newcomer: bool = False,
    confederation: bool = False,
) -> Candidate:
    """Build a candidate model of results or goal differences."""
    one, two = number_sides(games)
    plus, ground = np.ones(len(games)), games.home.to_numpy()
    terms = [Term("team", one, plus), Term("team", two, -plus)]
    kernels = {"team": TEAMS[team]()}
    if home:
        terms.append(Term("home", 0, ground))
        kernels["home"] = HOMES[home]()
    if own_home:
        terms.append(Term("own home", one, ground))
        kernels["own home"] = Constant(0.02)
    if friendly:
        quiet = games.friendly.to_numpy()
        terms += [
            Term("home in friendly", 0, ground * quiet),
            Term("friendly", one, quiet),
            Term("friendly", two, -quiet),
        ]
        kernels |= {"home in friendly": Constant(0.05), "friendly": Constant(0.03)}
    if newcomer:
        terms.append(Term("newcomer", 0, games.newcomer.to_numpy()))
        kernels["newcomer"] = Constant(0.5)
    if confederation:
        terms += [
            Term("confederation", games.confederation1.to_numpy(), plus),
            Term("confederation", games.confederation2.to_numpy(), -plus),
        ]
        kernels["confederation"] = Constant(0.3) + Matern12(0.1, 20.0)
    difference = games.difference.to_numpy()
    if outcome == "result":
        data = assemble(games.date, terms, np.sign(difference))
        return Candidate(data, jk.Model(kernels, OrdinalProbit(margin=0.4)))
    data = assemble(games.date, terms, difference)
    return Candidate(data, jk.Model(kernels, OrdinalProbit(margin=MARGINS)))


def make_counts(games: pd.DataFrame, team: str = "paper", friendly: bool = False) -> Candidate:
    """Build a model of goals: attack minus the opponent's defence, plus a common level."""
    one, two = (np.repeat(side, 2) for side in number_sides(games))
    ground, quiet = (np.repeat(games[name].to_numpy(), 2) for name in ("home", "friendly"))
    of_first = np.tile([True, False], len(games))
    plus = np.ones(len(one))
    terms = [
        Term("attack", np.where(of_first, one, two), plus),
        Term("defence", np.where(of_first, two, one), -plus),
        Term("level", 0, plus),
        Term("home", np.where(of_first, 0, 1), np.where(of_first, ground, -ground)),
    ]
    kernels = {
        "attack": COUNTS[team](),
        "defence": COUNTS[team](),
        "level": Constant(0.2) + Matern32(0.1, 30.0),
        "home": Constant(0.1),
    }
    if friendly:
        terms.append(Term("friendly", np.where(of_first, 0, 1), quiet))
        kernels["friendly"] = Constant(0.02)
    goals = games[["points1", "points2"]].to_numpy(float).ravel()
    data = assemble(np.repeat(games.date.to_numpy(str), 2), terms, goals)
    method = jk.ReverseKL(damping=0.2)
    return Candidate(data, jk.Model(kernels, Poisson()), method, read=read_counts)


def read_counts(forecasts: ev.Forecasts) -> Reading:
    """Convert forecasts of goals to loss, tie and win, assuming independence."""
    order = np.argsort(forecasts.rows)
    mean, variance, goals = (
        part[order].reshape(-1, 2)
        for part in (forecasts.mean, forecasts.variance, forecasts.outcome)
    )
    probabilities = signs_of_counts(mean, variance, 40).T
    labels = 1 + np.sign(goals[:, 0] - goals[:, 1]).astype(int)
    return Reading(probabilities, labels, forecasts.blocks[order][::2])


TEAMS = {
    "paper": lambda: Constant(0.895) + Matern12(0.22, 44.5),
    "two": lambda: Constant(0.4) + Matern32(0.5, 20.0) + Matern12(0.1, 3.0),
}
HOMES = {
    "constant": lambda: Constant(0.5),
    "slow": lambda: Constant(0.3) + Matern32(0.05, 20.0),
}
COUNTS = {
    "paper": lambda: Constant(0.15) + Matern12(0.1, 40.0),
    "two": lambda: Constant(0.1) + Matern32(0.1, 20.0) + Matern12(0.03, 3.0),
}


IDEAS = {
    "paper's model, learnt": partial(make, home=None),
    "home": make,
    "differences of goals": partial(make, outcome="goals"),
    "differences, confederations": partial(make, outcome="goals", confederation=True),
    "differences, newcomers": partial(make, outcome="goals", newcomer=True),
    "counts of goals": make_counts,
    "differences, two timescales": partial(make, outcome="goals", team="two"),
    "differences, slow home": partial(make, outcome="goals", home="slow"),
    "differences, own home": partial(make, outcome="goals", own_home=True),
    "differences, friendlies": partial(make, outcome="goals", friendly=True),
}


def paper_model(games: pd.DataFrame) -> Candidate:
    """Return the paper's model with a home advantage."""
    model = jk.Model(
        {"skill": Constant(0.895) + Matern12(0.220, 44.472), "advantage": Constant(1.0)},
        OrdinalProbit(margin=0.407),
    )
    return Candidate(as_pairs(games, home=True), model)


CONTEST = Contest(
    read=read,
    since="1950-01-01",
    validation="2003-01-01",
    test="2011-03-29",
    blocks="month",
    ideas=IDEAS,
    chosen="differences of goals",
    paper=paper_model,
)
