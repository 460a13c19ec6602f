"""Draw the images of the README and of the guide.

    python docs/images/draw.py

Learns the models of `jaxkick demo` and of the quickstart, in about a minute. Needs the `plot`
extra and pandas.
"""

from pathlib import Path

import jax
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

import jaxkick as jk
from jaxkick import kernels, plotting

FOLDER = Path(__file__).parent
TEAMS = [
    "Bayern Muenchen",
    "Borussia Moenchengladbach",
    "Werder Bremen",
    "Hamburger SV",
]
KERNELS = {
    "Constant": kernels.Constant(1.0),
    "PiecewiseConstant": kernels.PiecewiseConstant(1.0, [2.0, 5.0, 7.5]),
    "Wiener": kernels.Wiener(0.2),
    "Affine": kernels.Affine(0.5, 0.03),
    "Matern12": kernels.Matern12(1.0, 2.0),
    "Matern32": kernels.Matern32(1.0, 2.0),
    "SquaredExponential": kernels.SquaredExponential(1.0, 2.0),
    "Periodic": kernels.Periodic(1.0, lengthscale=1.0, period=3.0),
    "Constant + Matern12": kernels.Constant(1.0) + kernels.Matern12(0.1, 1.0),
}


def draw_kernels() -> Figure:
    """Draw three random curves of each of nine kernels."""
    figure = Figure(figsize=(9.0, 6.0), dpi=100, layout="constrained")
    times = np.linspace(0.0, 10.0, 400)
    for axes, (name, kernel) in zip(figure.subplots(3, 3).flat, KERNELS.items(), strict=True):
        plotting.kernel_samples(kernel, times, count=3, seed=4, ax=axes)
        axes.set_title(name, fontsize=10, loc="left")
        axes.set(xlabel="", ylabel="", ylim=(-3.2, 3.2), xticks=[0, 5, 10], yticks=[-2, 0, 2])
    return figure


def draw_walk() -> Figure:
    """Draw random curves of a random walk, as on the page of kernels."""
    figure = Figure(figsize=(6.0, 2.8), dpi=100, layout="constrained")
    walk = kernels.Wiener(variance=0.05, origin_variance=0.5)
    times = np.linspace(0.0, 10.0, 200)
    plotting.kernel_samples(walk, times, unit="year", ax=figure.subplots())
    return figure


def draw_goals() -> Figure:
    """Draw the probabilities of goals of one match, as on the page of likelihoods."""
    matches = pd.DataFrame(jk.datasets.load_bundesliga()).tail(918)
    columns = {"time": "date", "first": "home", "second": "away"}
    by_counts = jk.Dataset.from_frame(matches, counts=("home_goals", "away_goals"), **columns)
    skill = kernels.CorrelatedAspects(kernels.Constant(0.05), ["attack", "defence"], 0.5)
    model = jk.Model({"skill": skill, "level": kernels.Constant(1.0)}, jk.likelihoods.Poisson())
    posterior = jk.infer(model, by_counts, jk.ReverseKL())
    match = posterior.predict("Hamburger SV", "Werder Bremen", "2009-08-08")
    figure = Figure(figsize=(4.2, 4.2), dpi=100, layout="constrained")
    plotting.goal_grid(match, ax=figure.subplots())
    return figure


def draw_places() -> Figure:
    """Draw the probabilities of all places of one race, as on the page of rankings."""
    orders = ["Ada Ben Cleo Dan", "Ben Ada Dan Cleo", "Ada Cleo Ben Dan"]
    orders += ["Cleo Ada Ben Dan", "Cleo Ada Dan Ben", "Cleo Ben Ada Dan"]
    places = ["first", "second", "third", "fourth"]
    races = pd.DataFrame([order.split() for order in orders], columns=places)
    days = ["03-02", "04-07", "05-19", "06-23", "07-28", "09-01"]
    races["date"] = [f"2024-{day}" for day in days]
    data = jk.Dataset.from_rankings(races, time="date", competitor=places)
    model = jk.Model(kernels.Matern32(1.0, 1.0), jk.likelihoods.Ranking())
    names = ["Ada", "Ben", "Cleo", "Dan"]
    event = jk.infer(model, data).predict_ranking(names, "2024-09-15")
    figure = Figure(figsize=(4.4, 2.8), dpi=100, layout="constrained")
    plotting.rank_probabilities(event, ax=figure.subplots())
    return figure


def draw_season() -> tuple[Figure, Figure]:
    """Draw final places and the title race of 2008/09, as on the page of simulation."""
    matches = pd.DataFrame(jk.datasets.load_bundesliga()).tail(918)
    options = {"time": "date", "first": "home", "second": "away"}
    options["result"] = ("home_goals", "away_goals")
    model = jk.Model(
        kernel=kernels.Constant(0.02) + kernels.Matern12(variance=0.08, lengthscale=2.7),
        likelihood=jk.likelihoods.OrdinalProbit(margin=0.36),
    )
    known, rest = matches[matches.date < "2009-01-15"], matches[matches.date >= "2009-01-15"]
    posterior = jk.infer(model, jk.Dataset.from_frame(known, **options))
    played = known[known.date >= "2008-08-01"]
    table = jk.simulation.league_table(played, posterior.simulate(rest))
    places = Figure(figsize=(9.6, 7.2), dpi=100, layout="constrained")
    plotting.final_places(table, ax=places.subplots())
    league = jk.Dataset.from_frame(matches, **options)
    race = jk.simulation.title_race(model, league, "2008-08-01", every="month")
    curves = Figure(figsize=(7.5, 4.2), dpi=100, layout="constrained")
    plotting.title_race(race, ax=curves.subplots())
    return places, curves


def draw_explanation() -> Figure:
    """Draw the matches behind one rating, as on the page of explanations."""
    matches = pd.DataFrame(jk.datasets.load_bundesliga()).tail(918)
    columns = {"time": "date", "first": "home", "second": "away"}
    league = jk.Dataset.from_frame(matches, result=("home_goals", "away_goals"), **columns)
    model = jk.Model(
        kernel=kernels.Constant(0.02) + kernels.Matern12(variance=0.08, lengthscale=2.7),
        likelihood=jk.likelihoods.OrdinalProbit(margin=0.36),
    )
    explained = jk.infer(model, league).explain("VfL Wolfsburg", scale="elo")
    figure = Figure(figsize=(7.0, 4.5), dpi=100, layout="constrained")
    plotting.explanation(explained, ax=figure.subplots())
    return figure


def draw_components() -> Figure:
    """Draw a skill curve and its parts, as on the page about choosing a model."""
    matches = pd.DataFrame(jk.datasets.load_bundesliga()).tail(918)
    columns = {"time": "date", "first": "home", "second": "away"}
    league = jk.Dataset.from_frame(matches, result=("home_goals", "away_goals"), **columns)
    model = jk.Model(
        kernel=kernels.Constant(0.02) + kernels.Matern12(variance=0.08, lengthscale=2.7),
        likelihood=jk.likelihoods.OrdinalProbit(margin=0.36),
    )
    days = pd.date_range("2006-08-11", "2009-05-23", periods=100)
    parts = jk.infer(model, league).components("Bayern Muenchen", days)
    figure = Figure(figsize=(7.5, 4.2), dpi=100, layout="constrained")
    plotting.components(parts, ax=figure.subplots())
    return figure


def draw_scores() -> Figure:
    """Draw the ratings of four teams over 46 years."""
    league = jk.Dataset.from_frame(
        jk.datasets.load_bundesliga(),
        time="date",
        first="home",
        second="away",
        result=("home_goals", "away_goals"),
        home=True,
    )
    model, _ = jk.learn(None, league)
    posterior = jk.infer(model, league)
    figure = Figure(figsize=(9.0, 4.4), dpi=100, layout="constrained")
    plotting.scores(posterior, TEAMS, scale="elo", ax=figure.subplots())
    return figure


def draw_quickstart() -> Figure:
    """Draw the ratings of two teams over three seasons, as in the quickstart."""
    matches = pd.DataFrame(jk.datasets.load_bundesliga()).tail(918)
    columns = {"time": "date", "first": "home", "second": "away"}
    league = jk.Dataset.from_frame(matches, result=("home_goals", "away_goals"), **columns)
    model = jk.Model(
        kernel=kernels.Constant(0.02) + kernels.Matern12(variance=0.08, lengthscale=2.7),
        likelihood=jk.likelihoods.OrdinalProbit(margin=0.36),
    )
    model, _ = jk.learn(model, league)
    figure = Figure(figsize=(9.0, 4.0), dpi=100, layout="constrained")
    teams = ["Bayern Muenchen", "Werder Bremen"]
    plotting.scores(jk.infer(model, league), teams, scale="elo", ax=figure.subplots())
    return figure


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    draw_kernels().savefig(FOLDER / "kernels.png")
    draw_walk().savefig(FOLDER / "walk.png")
    draw_goals().savefig(FOLDER / "goals.png")
    draw_places().savefig(FOLDER / "places.png")
    for name, figure in zip(("season", "race"), draw_season(), strict=True):
        figure.savefig(FOLDER / f"{name}.png")
    draw_components().savefig(FOLDER / "components.png")
    draw_explanation().savefig(FOLDER / "explanation.png")
    draw_quickstart().savefig(FOLDER / "quickstart.png")
    draw_scores().savefig(FOLDER / "scores.png")
