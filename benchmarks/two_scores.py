"""Compare likelihoods of two scores with likelihoods of one.

    python benchmarks/two_scores.py chess
    python benchmarks/two_scores.py football --since 2012

chess: `OrdinalProbit` and `VaryingTies` on FIDE games. Parameters are learnt on the last games of
months 1 to 84, scores are inferred from all games of these months, and the results of months 85 to
96 are predicted from them. Prints the mean log loss of win, draw and loss over the games whose
players both have at least 15 games before.

football: `Poisson`, `NegativeBinomial`, `BivariatePoisson` and `DixonColes` on goals of
international matches. Parameters are learnt on the matches before `--start`; later years are
predicted one after the other from all earlier matches. Prints the mean log loss of results and of
pairs of goals.

Differences are those to the first likelihood, with 95 % bootstrap intervals. Reads `--data`, by
default the folder in JAXKICK_DATA or ../shared/data. Needs pandas (the `dev` extra).
"""

import argparse
import time
from pathlib import Path

import jax
import numpy as np
import pandas as pd
from paper_data import FOLDER

import jaxkick as jk
from jaxkick import evaluation as ev
from jaxkick import likelihoods as lk

LAST_MONTH, FEWEST_GAMES = 84, 15


def chess(folder: Path, learn_games: int, max_steps: int) -> None:
    """Print the log losses of results of chess."""
    games = pd.read_csv(folder / "chess_fide.csv.gz")
    past, future = games[games.month <= LAST_MONTH], games[games.month > LAST_MONTH]
    known = pd.concat([past.white, past.black]).value_counts()
    known = set(known[known >= FEWEST_GAMES].index)
    future = future[future.white.isin(known) & future.black.isin(known)]
    print(f"{len(past):,} games to infer from, the last {learn_games:,} to learn from")
    columns = {
        "time": "month",
        "first": "white",
        "second": "black",
        "outcome": "white_points",
        "outcomes": {1: 1, 0.5: 0, 0: -1},
        "home": True,
    }
    label = (2 * future.white_points).astype(int).to_numpy()
    losses = {}
    for name in ("OrdinalProbit", "VaryingTies"):
        begin = time.perf_counter()
        read = {**columns, "tie_effects": name == "VaryingTies"}
        part = jk.Dataset.from_frame(past.tail(learn_games), **read)
        model, _ = jk.learn(None, part, max_steps=max_steps)
        learnt = time.perf_counter()
        posterior = jk.infer(model, jk.Dataset.from_frame(past, **read), tol=0.005)
        inferred = time.perf_counter()
        match = posterior.predict(
            future.white.tolist(), future.black.tolist(), future.month.tolist(), home=1
        )
        chances = np.asarray(match.results)
        losses[name] = ev.log_loss(chances, label)
        print(model.describe("month"))
        print(
            f"learnt in {learnt - begin:.0f} s, inferred in {inferred - learnt:.0f} s", flush=True
        )
    report("win, draw and loss", losses, future.month.to_numpy())


def football(folder: Path, since: int, start: str, max_steps: int) -> None:
    """Print the log losses of results and goals of football."""
    games = pd.read_csv(folder / "football_international.csv.gz").dropna()
    games = games[games.date >= f"{since}"]
    data = jk.Dataset.from_frame(
        games,
        time="date",
        first="home_team",
        second="away_team",
        counts=("home_score", "away_score"),
        neutral="neutral",
    )
    print(
        f"{len(games):,} matches, {games.date.min()} to {games.date.max()}, predicted from {start}"
    )
    results, goals, blocks = {}, {}, None
    for kind in (lk.Poisson, lk.NegativeBinomial, lk.BivariatePoisson, lk.DixonColes):
        begin = time.perf_counter()
        past = data.index.scale.to_user(data.index.times) < np.datetime64(start)
        model = jk.suggest_model(data, kind, mask=past)
        refit = ev.Refit(model, learn_options={"max_steps": max_steps})
        found = ev.walk_forward(refit, data, start, every="year", relearn="start")
        results[kind.__name__], goals[kind.__name__] = found.log_losses, -found.log_prob
        blocks = found.blocks
        print(found.model.likelihood, f"in {time.perf_counter() - begin:.0f} s", flush=True)
    report("result", results, blocks)
    report("goals of both sides", goals, blocks)


def report(title: str, losses: dict[str, np.ndarray], blocks: np.ndarray) -> None:
    """Print mean losses, and differences to the first."""
    first = next(iter(losses.values()))
    print(f"\nlog loss of {title}, {len(first):,} matches")
    for name, loss in losses.items():
        difference = "" if loss is first else ev.bootstrap_mean(loss - first, blocks)
        print(f"  {name:18s} {loss.mean():.5f}  {difference}")


def main() -> None:
    """Run one part."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", choices=["chess", "football"])
    parser.add_argument("--data", type=Path, default=FOLDER)
    parser.add_argument("--learn-games", type=int, default=20_000)
    parser.add_argument("--since", type=int, default=2008)
    parser.add_argument("--start", default="2016-01-01")
    parser.add_argument("--max-steps", type=int, default=30)
    arguments = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    if arguments.part == "chess":
        chess(arguments.data, arguments.learn_games, arguments.max_steps)
    else:
        football(arguments.data, arguments.since, arguments.start, arguments.max_steps)


if __name__ == "__main__":
    main()
