"""Search for known structures in simulated data, and for models of the Bundesliga and the NBA.

    python benchmarks/discovery.py simulated --seed 1   # eight kernels: about half an hour
    python benchmarks/discovery.py bundesliga nba       # suggested, discovered, Elo, TrueSkill

Simulated: 20 players over ten seasons of 20 rounds, in each of which everybody plays once, so that
all searches share their programs. Wins by `Probit`, with the skills of one of eight kernels. A
search finds the true structure, or another one that the data cannot tell from it: the log evidences
of both, learnt to the end, differ by at most three nats (odds of 20 to 1).

Data sets: models are chosen and learnt from the matches before the last fifth, which is predicted
month by month. Log losses are of results. Results are kept in discovery.json. Uses float64. The NBA
is read from the folder in JAXKICK_DATA, or ../shared/data.
"""

import argparse
import json
import os
import time
from pathlib import Path

import jax
import numpy as np
import pandas as pd

import jaxkick as jk
from jaxkick import datasets, kernels, likelihoods
from jaxkick import evaluation as ev
from jaxkick.discovery.grammar import normal_form
from jaxkick.discovery.model_comparison import learn_model, nats_per_parameter

FOLDER = Path(os.environ.get("JAXKICK_DATA", "../shared/data"))
RESULTS = Path(__file__).with_name("discovery.json")
PLAYERS, ROUNDS, YEARS, PLAYING = 20, 20, 10, 0.75
BREAKS = [year + 0.5 * (1.0 + PLAYING) for year in range(YEARS)]
TRUTHS = {
    "level": kernels.Constant(1.0),
    "rough": kernels.Matern12(1.5, 2.0),
    "level and rough": kernels.Constant(0.7) + kernels.Matern12(0.8, 0.5),
    "smooth": kernels.Matern32(1.5, 2.0),
    "level and walk": kernels.Constant(0.5) + kernels.Wiener(0.3),
    "level and trend": kernels.Constant(0.7) + kernels.Linear(0.04),
    "level and seasons": kernels.Constant(0.5) + kernels.PiecewiseConstant(1.0, BREAKS),
    "level and cycle": kernels.Constant(0.7) + kernels.Cosine(0.8, 2.2),
}
# So many nats do not tell two structures apart.
ALIKE = 3.0


def simulate(kernel: kernels.AbstractKernel, seed: int) -> jk.Dataset:
    """Draw skills and matches."""
    rng = np.random.default_rng(seed)
    seasons = np.repeat(np.arange(YEARS), ROUNDS)
    rounds = np.sort(seasons + rng.uniform(0.0, PLAYING, len(seasons)))
    keys = jax.random.split(jax.random.key(seed), PLAYERS)
    skills = np.stack([kernels.sample_prior(kernel, rounds, key) for key in keys])
    drawn = np.array([rng.permutation(PLAYERS) for _ in rounds])
    first, second = drawn[:, ::2].ravel(), drawn[:, 1::2].ravel()
    row = np.repeat(np.arange(len(rounds)), PLAYERS // 2)
    lead = skills[first, row] - skills[second, row]
    outcome = np.where(lead + rng.normal(size=len(row)) > 0, 1.0, -1.0)
    return jk.Dataset.from_pairs(rounds[row], first, second, outcome, unit="year")


def search_simulated(name: str, seed: int, budget: float) -> dict:
    """Search the structure of one kernel, and compare it with the true one."""
    truth, began = TRUTHS[name], time.process_time()
    data = simulate(truth, seed)
    found = jk.discover(data, likelihoods.Probit(), budget)
    best, own = found.table.best, normal_form(truth)
    known = [row for row in found.table if normal_form(row.model.kernel) == own]
    start = known[0].model if known else jk.Model(truth, likelihoods.Probit())
    true = learn_model(name, start, data, None, nats_per_parameter(data, None))
    behind = true.log_evidence - best.log_evidence
    exact = normal_form(best.model.kernel) == own
    return {
        "truth": " + ".join(own),
        "found": best.name,
        "evidence_of_truth_minus_found": round(behind, 2),
        "parameters_of_truth_minus_found": true.num_parameters - best.num_parameters,
        "verdict": "exact" if exact else "alike" if abs(behind) <= ALIKE else "wrong",
        "candidates": len(found.table),
        "complete": found.complete,
        "processor_seconds": round(time.process_time() - began, 1),
    }


def read(name: str) -> jk.Dataset:
    """Results of a data set, with home advantage."""
    if name == "bundesliga":
        table, points = datasets.load_bundesliga(), ("home_goals", "away_goals")
        columns = {"time": "date", "first": "home", "second": "away", "home": True}
    else:
        games = pd.read_csv(FOLDER / "nba_games.csv.gz")
        table, points = games[games.score1 != games.score2], ("score1", "score2")
        columns = {"time": "date", "first": "team1", "second": "team2", "neutral": "neutral"}
    return jk.Dataset.from_frame(table, result=points, **columns)


def paper_model(data: jk.Dataset) -> jk.Model:
    """Constant + Matérn 1/2 for skills, and a constant home advantage: the paper's choice."""
    model = jk.suggest_model(data, kernel=kernels.Matern12)
    kernel = {"skill": model.kernel_of("skill"), "home": kernels.Constant(0.3)}
    return jk.Model(kernel, model.likelihood)


def search_data(name: str, budget: float) -> dict:
    """Backtest suggested and discovered models and rating systems on one data set."""
    data = read(name)
    paper = paper_model(data)
    start = ev.split_time(data, 0.8)
    before = data.subset(data.index.times < float(data.index.to_time(start, "start")))
    found = jk.discover(before, None, budget, progress=True)
    print(found.describe())
    ties = bool(np.any(data.observations.outcome == 0))
    models: dict = {"suggested": None, "paper's kernel": paper, "discovered": found.model}
    models["Elo"] = ev.Elo(
        {group: 0.1 if group == "skill" else 0.01 for group in data.index.groups},
        likelihoods.OrdinalLogit(margin=0.5) if ties else likelihoods.Logit(),
    )
    models["TrueSkill"] = ev.TrueSkill(
        dict.fromkeys(data.index.groups, 1.0),
        {group: 0.01 if group == "skill" else 0.0001 for group in data.index.groups},
        likelihood=likelihoods.OrdinalProbit(margin=0.5) if ties else None,
    )
    forecasts = {
        each: ev.walk_forward(model, data, start, every="month", relearn="start")
        for each, model in models.items()
    }
    evidence = jk.compare_models({"discovered": found.model, "paper's kernel": paper}, before)
    return {
        "description": found.describe().split("\n"),
        "structure": found.table.best.name,
        "candidates": len(found.table),
        "seconds": round(found.seconds, 1),
        "complete": found.complete,
        "log_evidence": {row.name: round(row.log_evidence, 2) for row in evidence},
        "log_loss": {
            each: round(float(np.mean(forecast.log_losses)), 5)
            for each, forecast in forecasts.items()
        },
        "discovered_minus": {
            each: [round(value, 5) for value in ev.compare(forecasts["discovered"], forecast)[0]]
            for each, forecast in forecasts.items()
            if each != "discovered"
        },
    }


def keep(part: str, values: dict) -> None:
    """Add results to the file."""
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    results.setdefault(part, {}).update(values)
    RESULTS.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n")


def main() -> None:
    """Run the parts that were asked for."""
    jax.config.update("jax_enable_x64", True)
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("parts", nargs="+", choices=["simulated", "bundesliga", "nba"])
    parser.add_argument("--budget", type=float, default=1800.0, help="seconds of a search")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--truths", nargs="+", choices=list(TRUTHS), default=list(TRUTHS))
    options = parser.parse_args()
    for part in options.parts:
        if part != "simulated":
            values = search_data(part, options.budget)
            keep("data", {part: values})
            print(json.dumps(values, indent=1, ensure_ascii=False))
            continue
        for name in options.truths:
            values = search_simulated(name, options.seed, options.budget)
            keep(f"simulated, seed {options.seed}", {name: values})
            print(f"{name:20s} {values}", flush=True)


if __name__ == "__main__":
    main()
