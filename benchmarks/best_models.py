"""Backtest models beyond the paper's against the paper's models and FiveThirtyEight's Elo.

    python benchmarks/best_models.py nba atp football     # the chosen models: an hour or two
    python benchmarks/best_models.py nba --every week     # coarser blocks: minutes
    python benchmarks/best_models.py nba --learn          # only keep the learnt parameters
    python benchmarks/best_models.py football --ideas     # compare the candidate models
    python benchmarks/best_models.py atp --ideas NAME OTHER --test --every month

The paper's protocol: predict the last 30 % of the matches, each day from all earlier days, with
parameters learnt before the first of them. The models were chosen with `--ideas`, which backtests
candidates on a validation period before that date in coarser blocks. All predictions are of wins,
ties and losses. Differences of log loss have bootstrap intervals over blocks. Results are kept in
best_models.json. Uses float32. Reads the folder in JAXKICK_DATA, or ../shared/data. Needs
pandas (the `dev` extra).

To reuse a chosen model, take it from "learnt" in best_models.json: a Python expression of
`jaxkick.Model`, kernels and likelihoods, and the parameters with all digits, learnt from the
matches before the test period. Times are in years. best_nba.py, best_atp.py and best_football.py
have the features of each group.
"""

import argparse
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import best_atp
import best_football
import best_nba
import numpy as np
import pandas as pd
from best_contest import Contest, Reading

from jaxkick import evaluation as ev
from jaxkick.learning.objective import named_values

CONTESTS = {
    "nba": best_nba.CONTEST,
    "atp": best_atp.CONTEST,
    "football": best_football.CONTEST,
}
RESULTS = Path(__file__).with_name("best_models.json")
END = "9999"


def keep(sport: str, part: str, values: dict) -> None:
    """Add results to the file."""
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    results.setdefault(sport, {}).setdefault(part, {}).update(values)
    RESULTS.write_text(json.dumps(results, indent=1) + "\n")


def summarise(reading: Reading) -> dict[str, float]:
    """Return rounded log loss and accuracy."""
    return {
        "log_loss": round(float(np.mean(reading.log_losses)), 5),
        "accuracy": round(reading.accuracy, 4),
    }


def compare_ideas(sport: str, contest: Contest, only: list[str], test: str | None) -> None:
    """Backtest candidates on the validation period, or on the test period in blocks of `test`.

    Prints and keeps the difference of log loss to the first candidate.
    """
    games = contest.read(contest.since, END if test else contest.test)
    start, every = (contest.test, test) if test else (contest.validation, contest.blocks)
    first = None
    for name, make in contest.ideas.items():
        if only and name not in only:
            continue
        begin = time.perf_counter()
        reading = make(games).predict(start, every)
        first = first or reading
        found: dict[str, Any] = summarise(reading)
        if reading is not first:
            less = ev.bootstrap_mean(reading.log_losses - first.log_losses, reading.blocks)
            found["less the first"] = [round(float(value), 5) for value in less]
        print(f"{sport:9s} {name:50s} {found}  {time.perf_counter() - begin:.0f} s", flush=True)
        keep(sport, f"ideas, test by {test}" if test else "ideas", {name: found})


def learn_chosen(sport: str, contest: Contest) -> None:
    """Learn the chosen model from the matches before the test period, and keep its parameters."""
    games = contest.read(contest.since, contest.test)
    model, converged = contest.ideas[contest.chosen](games).learn()
    found = {
        "idea": contest.chosen,
        "matches": len(games),
        "first": str(games.date.min())[:10],
        "last": str(games.date.max())[:10],
        "converged": converged,
        "model": repr(model),
        "parameters": {name: value.tolist() for name, value in named_values(model).items()},
    }
    print(sport, found, flush=True)
    keep(sport, "learnt", found)


def predict_test(sport: str, contest: Contest, every: Any) -> None:
    """Backtest the chosen model on the last 30 %, and compare it with its baselines."""
    games = contest.read(contest.since, END)
    ours = contest.ideas[contest.chosen](games).predict(contest.test, every)
    found: dict[str, Any] = {"model": contest.chosen, "matches": len(ours.labels)}
    found["ours"] = summarise(ours)
    keep(sport, f"test by {every}", found)
    print(sport, found, flush=True)
    for name, rival in predict_rivals(contest, games, ours, every):
        difference = ev.bootstrap_mean(ours.log_losses - rival.log_losses, ours.blocks)
        interval = [round(float(value), 5) for value in difference]
        found[name] = summarise(rival) | {"our log loss less this": interval}
        print(f"{sport} {name} {found[name]}", flush=True)
        keep(sport, f"test by {every}", found)


def predict_rivals(
    contest: Contest, games: pd.DataFrame, ours: Reading, every: Any
) -> Iterator[tuple[str, Reading]]:
    """Yield the baselines' predictions of the same matches."""
    if contest.given:
        win = games[contest.given].to_numpy()[games.date >= contest.test]
        yield contest.given, Reading(np.stack([1.0 - win, win], axis=1), ours.labels, ours.blocks)
    paper = contest.paper(contest.read("", END))
    yield "paper's model and parameters", paper.predict(contest.test, every, learn=False)


def main() -> None:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sports", nargs="+", choices=CONTESTS)
    parser.add_argument("--every", choices=["day", "week", "month"], default="day")
    parser.add_argument("--ideas", nargs="*", help="compare candidates: all, or the named ones")
    parser.add_argument("--learn", action="store_true", help="only learn the chosen models")
    parser.add_argument("--test", action="store_true", help="compare them on the test period")
    options = parser.parse_args()
    for sport in options.sports:
        if options.learn:
            learn_chosen(sport, CONTESTS[sport])
        elif options.ideas is not None:
            test = options.every if options.test else None
            compare_ideas(sport, CONTESTS[sport], options.ideas, test)
        else:
            predict_test(sport, CONTESTS[sport], options.every)


if __name__ == "__main__":
    main()
