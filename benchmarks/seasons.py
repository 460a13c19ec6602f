"""Simulate the second half of all 46 Bundesliga seasons, and compare with what happened.

    python benchmarks/seasons.py
    python benchmarks/seasons.py --seasons 5 --draws 1000    # a short run

Before the middle of each season the model is fitted to all earlier matches, of this season and of
those before it, and the rest of the season is simulated from the joint posterior. The model is of
results, so equal points are decided at random; the true tables know goals. Parameters are learned
once, from the matches before July 1973, so those of the first ten seasons have seen the results.

Compares the probabilities of the title, of the last three places and of all places with those of
two baselines: `extrapolated` continues every team's points per match, with the spread of a match's
points; `equal` gives all teams the same expected points per match. Needs pandas (the `dev` extra).
"""

import argparse

import jax
import numpy as np
import pandas as pd

import jaxkick as jk
from jaxkick.simulation import league_table

LEARNED_UNTIL = np.datetime64("1973-07-01")
LAST = 3


def points_of(season: int) -> tuple[int, int, int]:
    """A win has three points since 1995."""
    return (3, 1, 0) if season >= 1995 else (2, 1, 0)


def final_places(matches: pd.DataFrame, points: tuple[int, int, int]) -> pd.DataFrame:
    """Points and places of all teams after some matches, by points, goal difference and goals."""
    sides = [
        matches[[own, f"{own}_goals", f"{other}_goals"]].set_axis(["team", "own", "other"], axis=1)
        for own, other in (("home", "away"), ("away", "home"))
    ]
    rows = pd.concat(sides)
    rows["difference"] = rows.own - rows.other
    rows["points"] = np.array(points)[1 - np.sign(rows.difference)]
    table = rows.groupby("team")[["points", "difference", "own"]].sum()
    table["variance"] = rows.groupby("team")["points"].var()
    table["matches"] = rows.groupby("team").size()
    order = table.sort_values(["points", "difference", "own"], ascending=False).index
    table["place"] = pd.Series(np.arange(1, len(order) + 1), index=order)
    return table


def by_extrapolation(
    half: pd.DataFrame, rest: pd.DataFrame, draws: int, equal: bool, seed: int
) -> np.ndarray:
    """Probabilities of places if points per match continue as they were."""
    generator = np.random.default_rng(seed)
    left = pd.concat([rest.home, rest.away]).value_counts().reindex(half.index, fill_value=0)
    rate = half.points / half.matches
    if equal:
        rate[:] = half.points.sum() / half.matches.sum()
    spread = np.sqrt(left * half.variance.mean())
    expected, spread = (half.points + rate * left).to_numpy(), spread.to_numpy()
    totals = expected + spread * generator.normal(size=(draws, len(half)))
    places = np.argsort(np.argsort(-totals, axis=1), axis=1) + 1
    return np.stack([np.mean(places == k, axis=0) for k in range(1, len(half) + 1)], axis=1)


def scores(chances: np.ndarray, place: np.ndarray, draws: int) -> dict[str, float]:
    """Losses of one season: `chances` of shape (teams, places), and the true place of each team."""
    teams = len(place)
    floor = 0.5 / draws
    title, champion = chances[:, 0], place == 1
    low, down = chances[:, -LAST:].sum(axis=1), place > teams - LAST
    truth = np.arange(1, teams + 1) >= place[:, None]
    rps = np.sum((np.cumsum(chances, axis=1) - truth) ** 2, axis=1) / (teams - 1)
    low_clipped = np.clip(low, floor, 1 - floor)
    return {
        "title log loss": -np.log(max(title[champion][0], floor)),
        "title Brier": np.sum((title - champion) ** 2),
        "last log loss": -np.mean(np.log(np.where(down, low_clipped, 1 - low_clipped))),
        "last Brier": np.mean((low - down) ** 2),
        "RPS": np.mean(rps),
        "favourite won": float(champion[np.argmax(title)]),
    }


def main() -> None:
    """Print the mean losses, and calibration by decile."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seasons", type=int, default=46, help="the number of last seasons")
    parser.add_argument("--draws", type=int, default=10_000)
    options = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    matches = pd.DataFrame(jk.datasets.load_bundesliga())
    dates = pd.to_datetime(matches.date)
    matches["season"] = dates.dt.year - (dates.dt.month < 7)
    data = jk.Dataset.from_frame(
        matches,
        time="date",
        first="home",
        second="away",
        result=("home_goals", "away_goals"),
        home=True,
    )
    times = data.index.scale.to_user(data.index.times)
    model, _ = jk.learn(None, data, mask=times < LEARNED_UNTIL)
    print(model)
    start, losses, events = None, [], []
    for season in sorted(matches.season.unique())[-options.seasons :]:
        own = matches[matches.season == season].sort_values("date", kind="stable")
        middle = own.date.iloc[len(own) // 2]
        played, rest = own[own.date < middle], own[own.date >= middle]
        posterior = jk.infer(model, data, start=start, mask=times < np.datetime64(middle))
        start = posterior.sites
        points = points_of(season)
        table = league_table(played, posterior.simulate(rest, options.draws), points, ["random"])
        truth, half = final_places(own, points), final_places(played, points)
        half = half.reindex(truth.index)
        order = [table.names.index(name) for name in truth.index]
        found = {"jaxkick": table.probabilities[order]}
        for name, equal in (("extrapolated", False), ("equal", True)):
            found[name] = by_extrapolation(half, rest, options.draws, equal, season)
        place = truth.place.to_numpy()
        for name, chances in found.items():
            losses.append({"forecast": name, **scores(chances, place, options.draws)})
            rows = {"title": (chances[:, 0], place == 1)}
            rows["last"] = chances[:, -LAST:].sum(axis=1), place > len(place) - LAST
            for event, (chance, happened) in rows.items():
                parts = {"forecast": name, "event": event, "chance": chance, "happened": happened}
                events.append(pd.DataFrame(parts))
        print(
            season, truth.index[place == 1][0], round(losses[-3]["title log loss"], 3), flush=True
        )
    print(pd.DataFrame(losses).groupby("forecast", sort=False).mean().round(4).to_string())
    whole = pd.concat(events)
    whole["decile"] = np.minimum((10 * whole.chance).astype(int), 9)
    groups = whole.groupby(["forecast", "event", "decile"], sort=False)
    curve = groups.agg(
        count=("chance", "size"), chance=("chance", "mean"), happened=("happened", "mean")
    )
    print(curve.sort_index().round(3).to_string())


if __name__ == "__main__":
    main()
