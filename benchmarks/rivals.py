"""Compare jaxkick with other rating systems: forecasts, time and memory, losses included.

In an environment of its own:

    pip install --editable ".[plot]" pandas kickscore trueskillthroughtime whole-history-rating \
        openskill trueskill glicko2 penaltyblog choix
    python benchmarks/rivals.py run                                  # everything: hours
    python benchmarks/rivals.py run --tasks nba --systems jaxkick Elo
    python benchmarks/rivals.py run --file game.parquet another.csv --start 2023-04-01 --days 7
    python benchmarks/rivals.py page                                 # docs/rivals.md

Every system sees the same matches through the interface of `rival_systems.py`. Its parameters are
chosen on the training part alone: of the last training matches, the first two thirds are observed
and the last third is predicted (in *frozen* tasks by online systems: at most the last year), with
each combination of the grid and the protocol of the test. Systems that fit all matches at once get
4,000 of them, online systems 6,000, and Elo, Glicko-2, openskill and choix, which are fast, 40,000
or more. Then all training matches are observed and the test matches predicted:

- *frozen*: those of the first year, all from the training matches;
- *monthly*: all of them, each month from all earlier ones. Not for systems that fit all matches at
  once, which would need a fit for each month.

Each cell runs in a process of its own with a limit of processor time. A system that exceeds it, or
cannot do a task, is reported so. Results are kept in rivals.json, forecasts and failures in the
folder `--store`. What is there is not run again.

`--file` reads tables with the columns of EsportsBench: date, competitor_1, competitor_2 and
outcome (1, 0.5 or 0). Their results, and means over the files, are printed only. Other tasks read
the folder in JAXKICK_DATA, or ../shared/data.
"""

import argparse
import importlib.metadata
import inspect
import itertools
import json
import os
import platform
import resource
import subprocess
import sys
import time
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from paper_data import FOLDER, read_atp, read_football, read_nba
from rival_systems import SYSTEMS, System
from scipy.optimize import minimize_scalar

from jaxkick import evaluation as ev

RESULTS = Path(__file__).with_name("rivals.json")
PAGE = Path(__file__).resolve().parents[1] / "docs" / "rivals.md"
OURS = "jaxkick"
_LEAST = 1e-6
_YEAR = 365


class Task(NamedTuple):
    """Matches, and the first day of the test period.

    Attributes:
        title: the task in words.
        matches: columns of `rival_systems`.
        start: the first day of the test.
        counted: rows that count in the test; all if `None`.
        days: length of a month.
    """

    title: str
    matches: pd.DataFrame
    start: int
    counted: np.ndarray | None = None
    days: int = 30

    def blocks(self, matches: pd.DataFrame) -> np.ndarray:
        """Number the months of matches."""
        return matches.day.to_numpy() // self.days

    def tested(self, protocol: str) -> np.ndarray:
        """Choose the matches that a protocol predicts."""
        day = self.matches.day.to_numpy()
        return (day >= self.start) & ((protocol != "frozen") | (day < self.start + _YEAR))


# Tasks


def _day(dates: Any) -> np.ndarray:
    return pd.to_datetime(dates).to_numpy("datetime64[D]").astype(np.int64)


def _sides(games: pd.DataFrame, points: np.ndarray, **columns: Any) -> pd.DataFrame:
    names = {side: games[side].astype(str) for side in ("first", "second")}
    return pd.DataFrame({"day": columns.pop("day"), **names, "points": points, **columns})


def _games_with_points(games: pd.DataFrame, **columns: Any) -> pd.DataFrame:
    points = (np.sign(games.difference) + 1.0) / 2.0
    home = games.home.astype(int)
    return _sides(games, points.to_numpy(), day=_day(games.date), home=home, **columns)


def nba() -> Task:
    """The paper's test set: the last 30 % of all games."""
    games = read_nba()
    table = _games_with_points(games, goals1=games.points1, goals2=games.points2)
    return Task("NBA basketball from 2003", table, int(_day(["2003-03-16"])[0]))


def football() -> Task:
    """International football since 1990; the test starts with 2010."""
    games = read_football()
    games = games[games.date >= "1990"].reset_index(drop=True)
    table = _games_with_points(games, goals1=games.points1, goals2=games.points2)
    return Task("International football from 2010", table, int(_day(["2010-01-01"])[0]))


def chess() -> Task:
    """The published table's protocol: months 85 to 96, players with 15 games before."""
    games = pd.read_csv(FOLDER / "chess_fide.csv.gz").rename(
        columns={"white": "first", "black": "second"}
    )
    table = _sides(games, games.white_points.to_numpy(), day=30 * games.month.to_numpy(), home=1)
    before = games[games.month <= 84]
    count = pd.concat([before["first"], before["second"]]).value_counts()
    known = [games[side].map(count).fillna(0) >= 15 for side in ("first", "second")]
    return Task("FIDE chess, months 85 to 96", table, 30 * 85, np.logical_and(*known).to_numpy())


def atp() -> Task:
    """Main tour matches since 1991; the test starts with 2010. The winner is not always first."""
    games = read_atp()
    games = games[games.level == "tour"].reset_index(drop=True)
    turned = np.random.default_rng(0).random(len(games)) < 0.5
    first, second = games["first"].copy(), games["second"].copy()
    games.loc[turned, "first"], games.loc[turned, "second"] = second[turned], first[turned]
    table = _sides(games, 1.0 - turned, day=_day(games.date), home=0)
    return Task("ATP main tour from 2010", table, int(_day(["2010-01-01"])[0]))


def starcraft() -> Task:
    """Games without dates in random order; 30 % are predicted."""
    games = pd.read_csv(FOLDER / "starcraft_wol.csv.gz").sample(frac=1.0, random_state=0)
    games = games[games.winner != games.loser].reset_index(drop=True)
    turned = np.arange(len(games)) % 2 == 1
    first = np.where(turned, games.loser, games.winner)
    second = np.where(turned, games.winner, games.loser)
    sides = pd.DataFrame({"first": first, "second": second})
    test = np.arange(len(games)) >= 0.7 * len(games)
    return Task("StarCraft II, random games", _sides(sides, 1.0 - turned, day=1 * test, home=0), 1)


def read_file(path: str, start: str, end: str = "9999-12-31", days: int = 30) -> Task:
    """Read a file in the format of EsportsBench, up to the day `end`."""
    read = pd.read_parquet if path.endswith(".parquet") else pd.read_csv
    names = {"competitor_1": "first", "competitor_2": "second"}
    games = read(path).rename(columns=names).sort_values("date", kind="stable")
    games = games[_day(games.date) <= _day([end])[0]].reset_index(drop=True)
    table = _sides(games, games.outcome.to_numpy(float), day=_day(games.date), home=0)
    return Task(Path(path).stem, table, int(_day([start])[0]), days=days)


TASKS = {"nba": nba, "football": football, "chess": chess, "atp": atp, "starcraft": starcraft}
WITHOUT_TIME = ("starcraft",)


# One cell


def forecast(system: System, test: pd.DataFrame, blocks: np.ndarray | None) -> np.ndarray:
    """Predict the test matches: all at once, or block by block and observing each."""
    if blocks is None:
        return system.predict(test)
    found = np.empty((len(test), 3))
    for block in np.unique(blocks):
        rows = np.flatnonzero(blocks == block)
        found[rows] = system.predict(test.iloc[rows])
        system.observe(test.iloc[rows])
    return found


def losses(probabilities: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Log loss of each match."""
    chosen = probabilities[np.arange(len(points)), (2 * points).astype(int)]
    return -np.log(np.maximum(chosen, _LEAST))


def tune(kind: type[System], task: Task, ties: bool, monthly: bool) -> tuple[dict, float]:
    """Choose parameters, and Davidson's for systems that use it, on training matches."""
    past = task.matches[task.matches.day < task.start].iloc[-kind.TUNED :]
    cut = len(past) * 2 // 3
    recent = int(np.sum(past.day < task.start - _YEAR))
    if kind.ONLINE and not monthly and recent < len(past):
        cut = max(cut, recent)
    known, test = past.iloc[:cut], past.iloc[cut:]
    points = test.points.to_numpy()
    best = (np.inf, {}, 0.0)
    for values in itertools.product(*kind.GRID.values()):
        parameters = dict(zip(kind.GRID, values, strict=True))
        system = kind(ties, **parameters)
        system.observe(known)
        blocks = task.blocks(test) if kind.ONLINE and monthly else None
        found = forecast(system, test, blocks)
        davidson = 0.0
        if ties and not np.any(found[:, 1]):
            # Without ties, win and loss keep their odds.
            odds = found[:, 2] / (found[:, 0] + found[:, 2])

            def loss_at(value: float, system=system, odds=odds) -> float:
                system.davidson = value
                return float(np.mean(losses(system.split(odds), points)))

            davidson = float(minimize_scalar(loss_at, bounds=(0.01, 5.0), method="bounded").x)
            system.davidson = davidson
            found = system.split(odds)
        loss = float(np.mean(losses(found, points)))
        if loss < best[0]:
            best = (loss, parameters, davidson)
    return best[1], best[2]


def run_cell(task: Task, protocol: str, name: str, store: Path) -> None:
    """Tune, fit and predict; store forecasts and costs."""
    kind, matches = SYSTEMS[name], task.matches
    ties = bool(np.any(matches.points == 0.5))
    monthly = protocol == "monthly"
    past, test = matches[matches.day < task.start], matches[task.tested(protocol)]
    clock = [time.process_time()]
    parameters, davidson = tune(kind, task, ties, monthly) if kind.GRID else ({}, 0.0)
    clock.append(time.process_time())
    system = kind(ties, **parameters)
    system.davidson = davidson
    system.observe(past)
    found = forecast(system, test, task.blocks(test) if monthly else None)
    clock.append(time.process_time())
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    costs = {"tuning": clock[1] - clock[0], "rest": clock[2] - clock[1], "megabytes": peak}
    notes = {"parameters": parameters, "davidson": davidson, "costs": costs} | describe(name)
    notes = json.dumps(notes)
    np.savez_compressed(store, probabilities=found, notes=notes)


# Results


def measure(task: Task, protocol: str, stored: Path, ours: Path | None) -> dict[str, Any]:
    """Compute the metrics of stored forecasts, and the difference from jaxkick's."""
    tested = task.tested(protocol)
    test = task.matches[tested]
    kept = np.ones(len(test), bool) if task.counted is None else task.counted[tested]
    points, blocks = test.points.to_numpy()[kept], task.blocks(test)[kept]
    if np.all(blocks == blocks[0]):  # Matches without times.
        blocks = np.arange(len(blocks))
    with np.load(stored) as file:
        probabilities, notes = file["probabilities"][kept], json.loads(str(file["notes"]))
    values = losses(probabilities, points)
    expected = np.clip(probabilities @ [0.0, 0.5, 1.0], _LEAST, 1 - _LEAST)
    found = {
        "matches": len(points),
        "log_loss": float(np.mean(values)),
        "accuracy": float(np.mean(np.argmax(probabilities, axis=1) == 2 * points)),
        "rps": float(np.mean(ev.ranked_probability_score(probabilities, (2 * points).astype(int)))),
        "slope": calibration_slope(expected, points),
        # As in the published table of chess: expected points, capped.
        "points_loss": float(np.mean(_points_loss(np.clip(expected, 0.01, 0.99), points))),
        **notes,
    }
    if ours is not None and ours.exists():
        with np.load(ours) as file:
            difference = values - losses(file["probabilities"][kept], points)
        found["difference"] = [float(value) for value in ev.bootstrap_mean(difference, blocks)]
    return found


def _points_loss(expected: np.ndarray, points: np.ndarray) -> np.ndarray:
    return -(points * np.log(expected) + (1 - points) * np.log(1 - expected))


def calibration_slope(expected: np.ndarray, points: np.ndarray) -> float:
    """Slope of outcomes on the log-odds of expected points: below 1, forecasts are too sure."""
    odds = np.log(expected / (1.0 - expected))
    found = minimize_scalar(
        lambda slope: np.mean(np.logaddexp(0.0, slope * odds) - points * slope * odds),
        bounds=(0.0, 5.0),
        method="bounded",
    )
    return float(found.x)


def run(options: argparse.Namespace) -> None:
    """Run all chosen cells, and keep their results."""
    options.store.mkdir(parents=True, exist_ok=True)
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() and not options.file else {}
    for name in options.tasks:
        task = load(name, options)
        for protocol in options.protocols:
            cells = results.setdefault(name, {"title": task.title}).setdefault(protocol, {})
            for system in options.systems:
                path = options.store / f"{name}-{protocol}-{system}.npz".replace(" ", "_")
                if not can_do(system, name, task, protocol):
                    continue
                if not path.exists() and not path.with_suffix(".json").exists():
                    start_cell(name, protocol, system, path, options)
                if path.exists():
                    ours = options.store / f"{name}-{protocol}-{OURS}.npz"
                    cells[system] = measure(task, protocol, path, ours)
                else:
                    cells[system] = json.loads(path.with_suffix(".json").read_text())
                print(name, protocol, system, cells[system], flush=True)
                if not options.file:
                    RESULTS.write_text(json.dumps(results, indent=1) + "\n")
    if options.file:
        for protocol, system in itertools.product(options.protocols, options.systems):
            print(protocol, system, average(list(results.values()), protocol, system))


def can_do(system: str, name: str, task: Task, protocol: str) -> bool:
    """Return whether a task is one that a system is made for."""
    kind = SYSTEMS[system]
    if name in WITHOUT_TIME:
        made = (kind.ONLINE or system == "choix") and protocol == "frozen"
    else:
        made = (kind.ONLINE or protocol == "frozen") and system not in ("choix", "jaxkick, pairs")
    if system in ("Dixon–Coles", "pi ratings"):
        made = made and name == "football"
    return made and (not kind.GOALS or "goals1" in task.matches)


def average(tasks: list[dict], protocol: str, system: str) -> str:
    """Say the mean log losses of a system over tasks."""
    cells = [task[protocol].get(system, {}) for task in tasks]
    done = [cell for cell in cells if "log_loss" in cell]
    if not done:
        return "no result"
    win, points = (np.mean([cell[name] for cell in done]) for name in ("log_loss", "points_loss"))
    number = f"{len(done)} of {len(cells)} files"
    return f"log loss {win:.4f}, of expected points {points:.4f}, in {number}"


def load(name: str, options: argparse.Namespace) -> Task:
    """Read a task by its name."""
    files = {Path(path).stem: path for path in options.file or ()}
    return (
        read_file(files[name], options.start, options.end, options.days) if files else TASKS[name]()
    )


def start_cell(
    name: str, protocol: str, system: str, path: Path, options: argparse.Namespace
) -> None:
    """Run a cell in a process of its own; keep why it failed, if it did."""
    command = [sys.executable, __file__, "cell", "--tasks", name, "--protocols", protocol]
    command += ["--systems", system, "--store", str(path), "--limit", str(options.limit)]
    if options.file:
        command += ["--file", *options.file, "--start", options.start, "--end", options.end]
        command += ["--days", str(options.days)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    failure = f"more than {options.limit} s of processor time"
    if done.returncode > 0:
        failure = done.stderr.strip().splitlines()[-1][:200]
    if done.returncode != 0:
        failed = {"failure": failure} | describe(system)
        path.with_suffix(".json").write_text(json.dumps(failed))


def describe(name: str) -> dict[str, Any]:
    """The version, date and number of lines of a system's code."""
    kind = SYSTEMS[name]
    source = "".join(
        inspect.getsource(each)
        for each in kind.__mro__
        if issubclass(each, System) and not inspect.isabstract(each)
    )
    lines = [line for line in source.splitlines() if line.strip()]
    package = "jaxkick" if name.startswith(OURS) else kind.PACKAGE
    known = package and f"{package} {importlib.metadata.version(package)}"
    return {
        "version": known or "own code",
        "lines": len(lines),
        "date": date.today().isoformat(),
        "machine": machine(),
    }


def machine() -> str:
    """The machine in a few words."""
    about = Path("/proc/cpuinfo")
    models = [
        line.split(":")[1].strip()
        for line in (about.read_text().splitlines() if about.exists() else [])
        if line.startswith("model name")
    ]
    return f"{os.cpu_count()} cores, {models[0] if models else platform.machine()}"


# The page

_OPENING = """# Beside other rating systems

jaxkick and other systems on the same matches. `python benchmarks/rivals.py page` writes this page
from `benchmarks/rivals.json`, which also has the parameters that were chosen. The command below
each table makes its figures; with `--systems`, those of one row. The docstring of the script
describes the protocol: every system chooses its parameters on the training matches alone, then
predicts the test matches: *frozen* (one year at once) or *monthly* (each month from all earlier
ones). Systems that fit all matches at once (kickscore, TrueSkill Through Time,
whole-history-rating, Dixon–Coles) would need a fit for each month, so they are in frozen tables
only.

*jaxkick* is what a newcomer gets: `suggest_model` and `learn`, nothing chosen by hand. Richer
models are in `benchmarks/README.md`. Log loss counts all results, ties included. *Difference* is a
system's log loss minus jaxkick's, with a 95 % interval over months; where it is positive, jaxkick
is better. A *slope* below 1 means that forecasts are too confident. Time is processor time on a
machine with other programs: of choosing parameters, and of everything else, compilation included.
*Lines* counts the lines of code that a system takes in `benchmarks/rival_systems.py`.

The choice of parameters is itself uncertain. The grids and the validation period were changed after
a first run, when its results were known. With the former validation period Elo had a log loss of
0.6362 on the frozen NBA matches and 0.6155 on tennis, and openskill with its former grid had 0.9783
on chess.

Not run yet: whole-history-rating on tennis, kickscore on tennis and chess, TrueSkill and
TrueSkill Through Time on chess, and monthly tables of tennis and chess.
"""

_RANKINGS = """- Formula 1: the order of the grid alone predicts the winner better than jaxkick and
  TrueSkill Through Time, which do not differ clearly. With the grid in its model, jaxkick has the
  best log losses of all, but its lead over the order of the grid in predicting the winner is not
  significant. The tables are in `benchmarks/README.md`, "Rankings".
"""

_VOTES = """## Votes on language models

1,374,996 wins, losses and ties of 129 models in the Chatbot Arena up to August 2024, which
leaderbot ships ("both bad" is left out). Mean of -log p over votes: of all votes, which the models
have seen, as leaderbot publishes it; of a random fifth of the votes; and of all votes on a random
fifth of the pairs. jaxkick takes the counts as weights. *jaxkick* is the suggested model
(`OrdinalProbit`), *logit* has `OrdinalLogit` instead, *ties by model* has `VaryingTies` (run with
`--limit 300`), and *pairs* a further skill of each pair. Time is that of the fit of all votes; the
limit holds for all three fits.
"""

_CLOSING = """## Elsewhere

- The paper's tables, FiveThirtyEight's Elo, and models chosen by hand: `benchmarks/README.md`,
  "The paper's tables" and "Best models". Learnt parameters: `benchmarks/best_models.json`.
- EsportsBench: its 20 games could not be downloaded for this page. With a network, and the package
  datasets, this compares all systems on one of them, with the dates and weeks of EsportsBench's own
  script (later editions have later dates). With several files it also prints means over them:

      python -c 'from datasets import load_dataset as load
      load("EsportsBench/EsportsBench", split="smash_melee").to_parquet("smash_melee.parquet")'
      python benchmarks/rivals.py run --file smash_melee.parquet --protocols monthly --days 7 \\
          --start 2023-04-01 --end 2024-03-31

  EsportsBench publishes a mean log loss of 0.6005 for Glicko-2 over the 20 games: their figure, not
  ours. A tie is half a win in it, as in the log loss of expected points that the script prints.
"""

_EARLIER = (
    "Rows with an earlier date chose their parameters from smaller grids, on 15,000 matches, of "
    "which the last third was predicted. Their differences are from jaxkick's forecasts of then.\n"
)

# Why a rival is better, or not clearly worse, by task, protocol and system.
_REASONS = {
    ("football", "frozen", "Dixon–Coles"): "It learns from goals, as *jaxkick, goals* does.",
    ("starcraft", "frozen", "choix"): "The difference comes from players with fewer than five "
    "games before the test, whose one-sided results choix trusts more.",
    ("votes", "", "leaderbot, Davidson with factors"): "It gives each language model a variance "
    "and a rate of ties of its own.",
    ("votes", "", "leaderbot, Rao-Kupper"): "Its link is logistic, as that of *logit*, which is "
    "level with it.",
}

_NOTES = {
    ("nba", "monthly"): "FiveThirtyEight's own Elo on the same games, and a model chosen by hand: "
    '`benchmarks/README.md`, "Best models".\n',
    (
        "starcraft",
        "frozen",
    ): "A random 30 % of the games are predicted. The paper's model, on other "
    'splits of the same games: `benchmarks/README.md`, "The paper\'s tables".\n',
}


def page(_: argparse.Namespace) -> None:
    """Write the page of the guide and its plots."""
    results = json.loads(RESULTS.read_text())
    votes = results.pop("votes", {})
    losses = [*list_losses(results), *list_vote_losses(votes)]
    parts = [
        _OPENING,
        "## Where jaxkick is not the best\n",
        "Where an interval contains zero, the matches are too few to tell two systems apart.\n",
        "\n".join(losses),
        _RANKINGS,
        tell_costs(results),
        "![Differences of log loss from jaxkick, and log loss by time](images/rivals.png)\n",
    ]
    for name, task in results.items():
        for protocol in ("frozen", "monthly"):
            if task.get(protocol):
                parts += [
                    f"## {task['title']}: {protocol}\n",
                    tabulate(name, protocol, task[protocol]),
                ]
    parts += [_VOTES, tabulate_votes(votes), _CLOSING]
    draw(results, PAGE.parent / "images" / "rivals.png")
    PAGE.write_text("\n".join(parts))


def list_losses(results: dict) -> list[str]:
    """Say where a rival is better than jaxkick, or not clearly worse, and why."""
    lines = []
    for (key, task), protocol in itertools.product(results.items(), ("frozen", "monthly")):
        ours = task.get(protocol, {}).get(OURS, {})
        if "failure" in ours:
            done = {name: cell for name, cell in task[protocol].items() if "log_loss" in cell}
            best = min(done, key=lambda name: done[name]["log_loss"])
            lines.append(
                f"- {task['title']}, {protocol}: jaxkick has no result ({ours['failure']}). The "
                f"best log loss is that of {best}, {done[best]['log_loss']:.4f}."
            )
        for name, cell in task.get(protocol, {}).items():
            if name.startswith(OURS) or "difference" not in cell:
                continue
            value, low, high = cell["difference"]
            if low <= 0:
                verdict = "is not clearly worse"
                if value < 0:
                    verdict = "is better" if high < 0 else "is better, but not clearly"
                why = _REASONS.get((key, protocol, name), "")
                lines.append(
                    f"- {task['title']}, {protocol}: {name} {verdict} "
                    f"({value:+.4f}, {low:+.4f} to {high:+.4f}).{why and ' ' + why}"
                )
    return lines


def list_vote_losses(votes: dict) -> list[str]:
    """Say which systems predict votes better than models of jaxkick, in all measures."""
    done = {name: cell for name, cell in votes.items() if "new_votes" in cell}
    ours = {name: cell for name, cell in done.items() if name.startswith(OURS)}
    lines = []
    for name, cell in done.items():
        if name in ours:
            continue
        worse = [
            each for each in ours
            if all(ours[each][m] > cell[m] for m in ("in_sample", "new_votes", "new_pairs"))
        ]  # fmt: skip
        if worse:
            than = (
                "all models of jaxkick with a result"
                if len(worse) == len(ours)
                else ", ".join(f"*{w}*" for w in worse)
            )
            why = _REASONS.get(("votes", "", name), "")
            lines.append(
                f"- Votes on language models: {name} is better than {than}.{why and ' ' + why}"
            )
    return lines


def tell_costs(results: dict) -> str:
    """Say in how many tables jaxkick takes more processor time than every rival."""
    slowest, ours, elo = 0, [], []
    for task, protocol in itertools.product(results.values(), ("frozen", "monthly")):
        times = {
            name: sum(cell["costs"][part] for part in ("tuning", "rest"))
            if "costs" in cell
            else np.inf
            for name, cell in task.get(protocol, {}).items()
        }
        if OURS in times:
            rivals = [time for name, time in times.items() if not name.startswith(OURS)]
            ours.append(times[OURS])
            elo.append(times["Elo"])
            slowest += times[OURS] > max(rivals)
    return (
        f"jaxkick takes the most processor time of all in {slowest} of {len(ours)} tables: "
        f"{min(ours):.0f} to {max(ours):.0f} s, and Elo {min(elo):.0f} to {max(elo):.0f} s.\n"
    )


def tabulate(task: str, protocol: str, cells: dict) -> str:
    """The table of one task and protocol, best first."""
    ties = task in ("football", "chess")
    head = ["system", "log loss", "difference", "accuracy", *(["RPS"] if ties else []), "slope",
            "tuning", "fit and predict", "peak memory", "lines"]  # fmt: skip
    rows, last = [], max(cell["date"] for cell in cells.values())
    for system, cell in sorted(cells.items(), key=lambda item: item[1].get("log_loss", np.inf)):
        earlier = f", {cell['date']}" if cell["date"] != last else ""
        title = f"{system} ({cell['version']}{earlier})"
        if "failure" in cell:
            rows.append([title, cell["failure"], *[""] * (len(head) - 3), str(cell["lines"])])
            continue
        costs = cell["costs"]
        # Forecasts that are all alike have no slope.
        slope = f"{cell['slope']:.2f}" if cell["slope"] < 4.99 else ""
        difference = ""
        if system != OURS and "difference" in cell:
            difference = "{:+.4f} ({:+.4f} to {:+.4f})".format(*cell["difference"])
        rows.append([
            title, f"{cell['log_loss']:.4f}", difference, f"{cell['accuracy']:.3f}",
            *([f"{cell['rps']:.4f}"] if ties else []), slope,
            f"{costs['tuning']:.0f} s", f"{costs['rest']:.0f} s",
            f"{costs['megabytes']:.0f} MB", str(cell["lines"]),
        ])  # fmt: skip
    number = next(cell["matches"] for cell in cells.values() if "matches" in cell)
    command = f"python benchmarks/rivals.py run --tasks {task} --protocols {protocol}"
    notes = [f"{number:,} matches; {tell_origin(cells)}; `{command}`.\n"]
    if any(cell["date"] != last for cell in cells.values()):
        notes.append(_EARLIER)
    notes += list_edges(cells)
    if (task, protocol) in _NOTES:
        notes.append(_NOTES[task, protocol])
    if task == "chess" and protocol == "frozen":
        scores = ", ".join(
            f"{system} {100 * cell['points_loss']:.2f}"
            for system, cell in sorted(cells.items(), key=lambda item: item[0])
            if "points_loss" in cell
        )
        notes.append(
            "The published table of the R package PlayerRatings has 100 times the mean log loss "
            "of expected points on these games, frozen, tuned on them: Stephenson 61.46, Glicko "
            f"61.54, Elo 61.71. The same measure here, tuned before them: {scores}.\n"
        )
    return _rows_of(head, rows) + "\n" + "\n".join(notes)


def list_edges(cells: dict) -> list[str]:
    """Say which parameters were chosen at an end of their grid, so that others may be better."""
    found = []
    for system, cell in cells.items():
        for name, value in cell.get("parameters", {}).items():
            grid = SYSTEMS[system].GRID.get(name, ())
            if value and value in grid[:1] + grid[-1:] and not isinstance(value, str):
                found.append(f"{system} ({name} {value:g})")
    return [f"Chosen at an end of the grid: {', '.join(found)}.\n"] if found else []


def _rows_of(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in lines) + "\n"


def tell_origin(cells: dict) -> str:
    """Say where and when cells were measured."""
    machines = sorted({cell["machine"] for cell in cells.values()})
    dates = sorted({cell["date"] for cell in cells.values()})
    return f"{' and '.join(machines)}, {' to '.join(dict.fromkeys((dates[0], dates[-1])))}"


def tabulate_votes(votes: dict) -> str:
    """The table of `votes.py`, best first."""
    head = ["system", "in sample", "published", "new votes", "new pairs", "processor time"]
    rows = []
    for name, cell in sorted(votes.items(), key=lambda item: item[1].get("new_votes", np.inf)):
        if "failure" in cell:
            rows.append([name, cell["failure"], "", "", "", ""])
            continue
        published = f"{cell['published']:.4f}" if "published" in cell else ""
        losses = [f"{cell[each]:.5f}" for each in ("in_sample", "new_votes", "new_pairs")]
        rows.append([name, losses[0], published, *losses[1:], f"{cell['seconds']:.0f} s"])
    return f"{_rows_of(head, rows)}\n{tell_origin(votes)}; `python benchmarks/votes.py`.\n"


def draw(results: dict, path: Path) -> None:
    """Draw differences of log loss with intervals, and log loss against processor time."""
    from matplotlib.figure import Figure

    shown = [(task, protocol) for task in results.values() for protocol in ("frozen", "monthly")
             if "difference" in task.get(protocol, {}).get(OURS, {})]  # fmt: skip
    figure = Figure(figsize=(10, 1.0 + 2.5 * len(shown)), layout="constrained")
    axes, points = figure.subplots(len(shown), 2, squeeze=False), []
    for (left, right), (task, protocol) in zip(axes, shown, strict=True):
        cells = {
            name: cell for name, cell in task[protocol].items()
            if "difference" in cell and name != "shares of results"
        }  # fmt: skip
        order = sorted(cells, key=lambda name: -cells[name]["log_loss"])
        points.append({})
        for height, name in enumerate(order):
            value, low, high = cells[name]["difference"]
            color = "C3" if name.startswith(OURS) else "C0"
            left.errorbar(value, height, xerr=[[value - low], [high - value]], fmt="o", color=color)
            costs = cells[name]["costs"]
            seconds = max(costs["tuning"] + costs["rest"], 1.0)
            points[-1][name] = seconds, cells[name]["log_loss"]
            right.semilogx(*points[-1][name], "o", color=color)
        left.set_yticks(range(len(order)), order, fontsize=8)
        left.locator_params(axis="x", nbins=5)
        left.axvline(0.0, color="0.6", linewidth=1)
        left.set_title(f"{task['title']}: {protocol}", fontsize=9)
        left.set_xlabel("log loss minus jaxkick's")
        right.set_xlim(0.5, 1000.0)
        right.set_xlabel("processor seconds")
        right.set_ylabel("log loss")
        right.margins(y=0.25)
    figure.draw_without_rendering()
    for right, labels in zip(axes[:, 1], points, strict=True):
        write_labels(right, labels)
    figure.savefig(path, dpi=110)


def write_labels(axes: Any, points: dict[str, tuple[float, float]]) -> None:
    """Write names beside points, on the side where they cover the least."""
    scale = 72.0 / axes.figure.dpi
    places = {name: scale * axes.transData.transform(point) for name, point in points.items()}
    taken = [(x - 3, y - 3, x + 3, y + 3) for x, y in places.values()]
    for name, (x, y) in places.items():
        width, options = 4.0 * len(name), []
        for left, up in itertools.product((False, True), (1, -9)):
            begin = x - 5 - width if left else x + 5
            box = (begin, y + up, begin + width, y + up + 8)
            covered = sum(
                max(0.0, min(box[2], other[2]) - max(box[0], other[0]))
                * max(0.0, min(box[3], other[3]) - max(box[1], other[1]))
                for other in taken
            )
            options.append((covered, left, -up, box))
        _, left, down, box = min(options)
        taken.append(box)
        axes.annotate(
            name, points[name], xytext=(-5 if left else 5, -down), textcoords="offset points",
            fontsize=7, ha="right" if left else "left",
        ).set_in_layout(False)  # fmt: skip


def main() -> None:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("command", choices=["run", "cell", "page"])
    parser.add_argument("--tasks", nargs="+", default=list(TASKS), help="names of tasks")
    parser.add_argument("--systems", nargs="+", default=list(SYSTEMS), choices=SYSTEMS)
    parser.add_argument("--protocols", nargs="+", default=["frozen", "monthly"])
    parser.add_argument("--limit", type=int, default=600, help="processor seconds of a cell")
    parser.add_argument("--store", type=Path, default=Path("rivals"), help="folder of forecasts")
    parser.add_argument("--file", nargs="+", help="tables of matches instead of the tasks")
    parser.add_argument("--start", help="with --file: the first date to predict")
    parser.add_argument("--end", default="9999-12-31", help="with --file: the last date")
    parser.add_argument("--days", type=int, default=30, help="with --file: length of a month")
    options = parser.parse_args()
    if options.file:
        names = [Path(path).stem for path in options.file]
        options.tasks = [
            name for name in names if options.command == "run" or name in options.tasks
        ]
    if options.command == "cell":
        resource.setrlimit(resource.RLIMIT_CPU, (options.limit, options.limit + 5))
        task = load(options.tasks[0], options)
        run_cell(task, options.protocols[0], options.systems[0], options.store)
    else:
        {"run": run, "page": page}[options.command](options)


if __name__ == "__main__":
    main()
