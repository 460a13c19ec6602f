"""Measure what newcomers, learning from forecasts and recalibration bring to forecasts.

    python benchmarks/forecasts.py [nba atp football chess goals noise]

For each data set: the suggested model without newcomers, learnt before the test part by the log
evidence; the same with newcomers, with newcomers whose mean fades, and learnt by the predictive
objective from there; each recalibrated by earlier forecasts; and tuned Elo and TrueSkill. Prints
the log loss, the paired difference to the first row with its 95 % interval, the slope of outcomes
on forecast log-odds, and seconds of learning and of predicting. Negative differences are better.

`goals` compares four readings of the goals of football: results, normal differences, differences
in ordered levels (which `suggest_model` chooses), and counts. `noise` compares a constant scale of
noise with one that drifts, on the main tour of ATP from 1991 on (`--years 2000 2003` to learn from
the years before 2000 and predict 2000 to 2003).
"""

import argparse
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import numpy as np
import pandas as pd
from paper_data import FOLDER, read_atp, read_football, read_nba

import jaxkick as jk
from jaxkick import evaluation as ev


class Case(NamedTuple):
    """Matches, the part to predict, and the length of blocks."""

    data: jk.Dataset
    start: Any
    every: Any


def nba() -> Case:
    """Games since 1990; weeks from October 2016 on."""
    games = read_nba()
    games = games[games.date >= "1990-01-01"]
    sides = {"time": "date", "first": "first", "second": "second", "neutral": "neutral"}
    data = jk.Dataset.from_frame(games, result=("points1", "points2"), home=True, **sides)
    return Case(data, "2016-10-01", "week")


def football() -> Case:
    """All matches; months from 2019 on."""
    sides = {"time": "date", "first": "first", "second": "second", "neutral": "neutral"}
    matches = read_football()
    data = jk.Dataset.from_frame(matches, result=("points1", "points2"), home=True, **sides)
    return Case(data, "2019-01-01", "month")


def atp() -> Case:
    """Matches of 1991 to 2002 without futures; months from 2001 on."""
    games = read_atp()
    games = games[(games.date < "2003-01-01") & (games.level != "futures")]
    data = jk.Dataset.from_frame(games, time="date", first="first", second="second")
    return Case(data, "2001-01-01", "month")


def chess() -> Case:
    """Months 61 to 96; the last year is predicted at once, from the end of month 84."""
    games = pd.read_csv(FOLDER / "chess_fide.csv.gz")
    games = games[games.month > 60]
    points = {"outcome": "white_points", "outcomes": {1: 1, 0.5: 0, 0: -1}}
    sides = {"time": "month", "first": "white", "second": "black", "home": True}
    data = jk.Dataset.from_frame(games, unit="month", **points, **sides)
    return Case(data, 85.0, lambda months: months > 84)


CASES = {each.__name__: each for each in (nba, atp, football, chess)}


def with_fade(model: jk.Model, start: float | None) -> jk.Model:
    """Let the means of newcomers fade, within a time as a start; `None` for means that stay."""

    def fade(newcomers: jk.Newcomers) -> jk.Newcomers:
        values = newcomers.mean.value, newcomers.variance_ratio.value
        return jk.Newcomers(newcomers.since, *values, fade=start)

    is_newcomers = lambda node: isinstance(node, jk.Newcomers)  # noqa: E731
    change = lambda node: fade(node) if is_newcomers(node) else node  # noqa: E731
    parts = jax.tree.map(change, model.newcomers, is_leaf=is_newcomers)
    return jk.Model(model.kernel, model.likelihood, newcomers=parts)


def models(case: Case, steps: int) -> Iterator[tuple[str, jk.Model, float]]:
    """Learn the models before the test part; yield them with the seconds that it took."""
    data = case.data
    begin = data.index.to_time(case.start)
    mask = np.asarray(data.index.times < begin)
    unit = 12.0 if data.index.unit == "month" else 1.0

    def learn(start: jk.Model, **options: Any) -> tuple[jk.Model, float]:
        began = time.perf_counter()
        model, history = jk.learn(start, data, mask=mask, max_steps=steps, **options)
        print(f"  {history}", flush=True)
        return model, time.perf_counter() - began

    plain, seconds = learn(jk.suggest_model(data, newcomers=False, mask=mask))
    yield "suggested, no newcomers", plain, seconds
    suggested = jk.suggest_model(data, mask=mask)
    if suggested.newcomers is None:
        suggested = jk.suggest_model(data, newcomers=True, mask=mask)
    start = jk.Model(plain.kernel, plain.likelihood, newcomers=suggested.newcomers)
    # A suggested mean fades: first without that.
    model, seconds = learn(with_fade(start, None))
    yield "newcomers", model, seconds
    print("  " + model.describe().replace("\n", "\n  "), flush=True)
    faded, seconds = learn(with_fade(model, 2.0 * unit))
    yield "newcomers, fading", faded, seconds
    horizon = jk.Predictive(every=None if unit == 1.0 else lambda months: (months - 1) // 12)
    predictive, seconds = learn(model, objective=horizon)
    yield "newcomers, predictive", predictive, seconds


def rivals(data: jk.Dataset) -> dict[str, ev.AbstractForecaster]:
    """Rating systems with the likelihoods of the results."""
    tied = bool((data.observations.outcome == 0).any())
    logit = jk.likelihoods.OrdinalLogit(margin=0.5) if tied else jk.likelihoods.Logit()
    probit = jk.likelihoods.OrdinalProbit(margin=0.4) if tied else jk.likelihoods.Probit()
    return {"Elo, tuned": ev.Elo(0.1, logit), "TrueSkill, tuned": ev.TrueSkill(likelihood=probit)}


def show(name: str, found: ev.Forecasts, first: ev.Forecasts, learning: float, seconds: float):
    """Print one row."""
    difference = ev.compare(found, first).difference
    slope = (found if found.recalibration else found.recalibrated()).recalibration.current[0]
    interval = f"{difference.value:+.5f} ({difference.lower:+.5f} to {difference.upper:+.5f})"
    loss = found.log_losses.mean()
    text = f"{name:32s} {loss:.5f}  {interval}  slope {slope:.3f}"
    print(f"{text}  {learning:6.0f} s {seconds:6.0f} s", flush=True)


def run(case: Case, steps: int) -> None:
    """Print the rows of a data set; the slowest model comes last."""
    first, walk = None, {"every": case.every}
    for number, (name, model, learning) in enumerate(models(case, steps)):
        began = time.perf_counter()
        found = ev.walk_forward(model, case.data, case.start, **walk)
        seconds = time.perf_counter() - began
        first = found if first is None else first
        show(name, found, first, learning, seconds)
        if len(np.unique(found.blocks)) > 1:
            show(f"{name}, recalibrated", found.recalibrated(), first, 0.0, 0.0)
        if number > 0:
            continue
        for label, rival in rivals(case.data).items():
            began = time.perf_counter()
            other = ev.walk_forward(rival, case.data, case.start, relearn="start", **walk)
            show(label, other, first, 0.0, time.perf_counter() - began)


def run_goals() -> None:
    """Forecast results of 2020 to 2025, month by month, from four readings of the goals."""
    matches = read_football()
    matches = matches[(matches.date >= "2010-01-01") & (matches.date < "2026-01-01")]
    sides = {"time": "date", "first": "first", "second": "second", "neutral": "neutral"}
    goals, kinds, found = ("points1", "points2"), jk.likelihoods, {}
    readings = {
        "levels": ({"difference": goals}, kinds.OrdinalProbit),
        "results": ({"result": goals}, None),
        "differences": ({"difference": goals}, kinds.Gaussian),
        "counts": ({"counts": goals}, None),
    }
    for name, (reading, likelihood) in readings.items():
        data = jk.Dataset.from_frame(matches, **reading, **sides)
        model = jk.suggest_model(data, likelihood)
        walk = {"start": "2020-01-01", "every": "month", "relearn": "start"}
        found[name] = ev.walk_forward(model, data, **walk)
        difference = ev.compare(found[name], found["levels"]).difference
        print(f"{name:12s} {found[name].log_losses.mean():.5f}  {difference}", flush=True)


def run_noise(first: int, last: int) -> None:
    """Forecast tennis, year by year, with a constant and a drifting noise scale."""
    games, found, start = read_atp(), {}, f"{first}-01-01"
    games = games[(games.level == "tour") & (games.date < f"{last + 1}-01-01")]
    for drifts in (False, True):
        data = jk.Dataset.from_frame(
            games, time="date", first="first", second="second", noise_effects=drifts
        )
        mask = data.index.times < data.index.to_time(start)
        suggested = jk.suggest_model(data, newcomers=False, mask=mask)
        model, history = jk.learn(suggested, data, mask=mask)
        print(f"{history}\n{model.describe()}", flush=True)
        began = time.perf_counter()
        found[drifts] = ev.walk_forward(model, data, start, every="year")
        seconds = time.perf_counter() - began
        show("drifting noise" if drifts else "constant noise", found[drifts], found[False],
             sum(history.seconds[-1:]), seconds)  # fmt: skip


def main() -> None:
    """Read the arguments and run."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "cases", nargs="*", default=list(CASES), choices=[*CASES, "goals", "noise", []]
    )
    parser.add_argument("--steps", type=int, default=30, help="steps of learning, at most")
    parser.add_argument("--years", nargs=2, type=int, default=[2010, 2017], help="of noise")
    options = parser.parse_args()
    others = {"goals": run_goals, "noise": lambda: run_noise(*options.years)}
    for name in options.cases:
        if name in others:
            others[name]()
            continue
        case = CASES[name]()
        tested = int((case.data.index.times >= case.data.index.to_time(case.start)).sum())
        print(f"\n{name}: {len(case.data):,} matches, {tested:,} to predict", flush=True)
        run(case, options.steps)


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    main()
