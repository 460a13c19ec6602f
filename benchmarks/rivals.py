"""Compare jaxkick with other rating systems: forecasts, time and memory, losses included.

In an environment of its own:

    pip install --editable ".[plot]" pandas kickscore trueskillthroughtime whole-history-rating \
        openskill trueskill glicko2 penaltyblog choix
    python benchmarks/rivals.py run                                  # everything: hours
    python benchmarks/rivals.py run --tasks nba --systems jaxkick Elo
    python benchmarks/rivals.py run --file matches.csv --start 2024-01-01
    python benchmarks/rivals.py page                                 # docs/rivals.md

Every system sees the same matches through the interface of `rival_systems.py`. Its parameters are
chosen on the training part alone: of the last 15,000 training matches (4,000 for systems that fit
all matches at once), the first two thirds are observed and the last third is predicted, with each
combination of the grid and the protocol of the test. Then all training matches are observed and
the test matches predicted:

- *frozen*: those of the first year, all from the training matches;
- *monthly*: all of them, each month from all earlier ones.

Each cell runs in a process of its own with a limit of processor time. A system that exceeds it, or
cannot do a task, is reported so. Results are kept in rivals.json, forecasts in the folder
`--store`.

`--file` reads a table with the columns of EsportsBench: date, competitor_1, competitor_2 and
outcome (1, 0.5 or 0). Other tasks read the folder in JAXKICK_DATA, or ../shared/data.
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
_TUNING = {True: 15_000, False: 4_000}
_LEAST = 1e-6


class Task(NamedTuple):
    """Matches, and the first day of the test period.

    Attributes:
        title: the task in words.
        matches: columns of `rival_systems`.
        start: the first day of the test.
        counted: rows that count in the test; all if `None`.
    """

    title: str
    matches: pd.DataFrame
    start: int
    counted: np.ndarray | None = None

    def tested(self, protocol: str) -> np.ndarray:
        """Choose the matches that a protocol predicts."""
        day = self.matches.day.to_numpy()
        return (day >= self.start) & ((protocol != "frozen") | (day < self.start + 365))


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


def read_file(path: str, start: str) -> Task:
    """Read a file in the format of EsportsBench."""
    read = pd.read_parquet if path.endswith(".parquet") else pd.read_csv
    names = {"competitor_1": "first", "competitor_2": "second"}
    games = read(path).rename(columns=names).sort_values("date", kind="stable")
    games = games.reset_index(drop=True)
    table = _sides(games, games.outcome.to_numpy(float), day=_day(games.date), home=0)
    return Task(Path(path).stem, table, int(_day([start])[0]))


TASKS = {"nba": nba, "football": football, "chess": chess, "atp": atp, "starcraft": starcraft}
WITHOUT_TIME = ("starcraft",)


# One cell


def months(days: np.ndarray) -> np.ndarray:
    """Number the months of days (of 30 days)."""
    return np.asarray(days) // 30


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


def tune(kind: type[System], past: pd.DataFrame, ties: bool, monthly: bool) -> tuple[dict, float]:
    """Choose parameters, and Davidson's for systems that use it, on training matches."""
    past = past.iloc[-_TUNING[kind.ONLINE] :]
    cut = len(past) * 2 // 3
    known, test = past.iloc[:cut], past.iloc[cut:]
    points = test.points.to_numpy()
    best = (np.inf, {}, 0.0)
    for values in itertools.product(*kind.GRID.values()):
        parameters = dict(zip(kind.GRID, values, strict=True))
        system = kind(ties, **parameters)
        system.observe(known)
        blocks = months(test.day) if kind.ONLINE and monthly else None
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
    parameters, davidson = tune(kind, past, ties, monthly) if kind.GRID else ({}, 0.0)
    clock.append(time.process_time())
    system = kind(ties, **parameters)
    system.davidson = davidson
    system.observe(past)
    found = forecast(system, test, months(test.day) if monthly else None)
    clock.append(time.process_time())
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    costs = {"tuning": clock[1] - clock[0], "rest": clock[2] - clock[1], "megabytes": peak}
    notes = json.dumps({"parameters": parameters, "davidson": davidson, "costs": costs})
    np.savez_compressed(store, probabilities=found, notes=notes)


# Results


def measure(task: Task, protocol: str, stored: Path, ours: Path | None) -> dict[str, Any]:
    """Compute the metrics of stored forecasts, and the difference from jaxkick's."""
    tested = task.tested(protocol)
    test = task.matches[tested]
    kept = np.ones(len(test), bool) if task.counted is None else task.counted[tested]
    points, blocks = test.points.to_numpy()[kept], months(test.day)[kept]
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
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for name in options.tasks:
        task = load(name, options)
        for protocol in options.protocols:
            if protocol == "monthly" and name in WITHOUT_TIME:
                continue
            cells = results.setdefault(name, {"title": task.title}).setdefault(protocol, {})
            for system in options.systems:
                path = options.store / f"{name}-{protocol}-{system}.npz".replace(" ", "_")
                if not can_do(system, name, task):
                    continue
                failure = None
                if not path.exists():
                    failure = start_cell(name, protocol, system, path, options)
                if failure is None:
                    ours = options.store / f"{name}-{protocol}-{OURS}.npz"
                    cells[system] = measure(task, protocol, path, ours)
                else:
                    cells[system] = {"failure": failure}
                cells[system] |= describe(system)
                print(name, protocol, system, cells[system], flush=True)
                if not options.file:
                    RESULTS.write_text(json.dumps(results, indent=1) + "\n")


def can_do(system: str, name: str, task: Task) -> bool:
    """Return whether a task is one that a system is made for."""
    if system == "choix":
        return name in WITHOUT_TIME
    if system in ("Dixon–Coles", "pi ratings"):
        return name == "football"
    return not SYSTEMS[system].GOALS or "goals1" in task.matches


def load(name: str, options: argparse.Namespace) -> Task:
    """Read a task by its name."""
    return read_file(options.file, options.start) if options.file else TASKS[name]()


def start_cell(
    name: str, protocol: str, system: str, path: Path, options: argparse.Namespace
) -> str | None:
    """Run a cell in a process of its own; return why it failed, if it did."""
    command = [sys.executable, __file__, "cell", "--tasks", name, "--protocols", protocol]
    command += ["--systems", system, "--store", str(path)]
    if options.file:
        command += ["--file", options.file, "--start", options.start]

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (options.limit, options.limit + 5))

    done = subprocess.run(command, capture_output=True, text=True, preexec_fn=limit, check=False)
    if done.returncode == 0:
        return None
    if done.returncode < 0:
        return f"more than {options.limit} s of processor time"
    return done.stderr.strip().splitlines()[-1][:200]


def describe(name: str) -> dict[str, Any]:
    """The version, date and number of lines of a system's code."""
    kind = SYSTEMS[name]
    lines = [line for line in inspect.getsource(kind).splitlines() if line.strip()]
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
    return f"{os.cpu_count()} cores, {platform.machine()}"


# The page

_OPENING = """# Beside other rating systems

jaxkick and other systems on the same matches. `python benchmarks/rivals.py run` makes all figures,
and `python benchmarks/rivals.py page` this page, from `benchmarks/rivals.json`. The docstring of
the script describes the protocol: every system chooses its parameters on the training matches
alone, then predicts the test matches: *frozen* (one year at once) or *monthly* (each month from
all earlier ones).

*jaxkick* is what a newcomer gets: `suggest_model` and `learn`, nothing chosen by hand. Richer
models are in `benchmarks/README.md`. Log loss counts all results, ties included. *Difference* is a
system's log loss minus jaxkick's, with a 95 % interval over months; where it is positive, jaxkick
is better. A *slope* below 1 means that forecasts are too confident. Time is processor time: of
choosing parameters, and of everything else, compilation included.

The frozen figures of jaxkick were measured before it had a prior for newcomers. Its monthly figures
were measured after `update` became faster. Its rivals were then run again with the parameters
chosen before, but *jaxkick, goals* was not. The parameters of openskill were chosen from a coarser
grid than the script has now. Among thousands of chess players, 15,000 matches
tune Elo and Glicko-2 poorly: compare with their published figures below the table instead. Not run
yet: StarCraft, kickscore, TrueSkill Through Time, whole-history-rating and Dixon–Coles.
"""


_VOTES = """## Votes on language models

`python benchmarks/votes.py`: 1,374,996 wins, losses and ties of 129 models in the Chatbot Arena
up to August 2024, which leaderbot ships ("both bad" is left out). Mean of -log p over votes: of all
votes, which the models have seen, as leaderbot publishes it; of a random fifth of the votes; and of
all votes on a random fifth of the pairs. jaxkick takes the counts as weights. *jaxkick* is the
suggested model (`OrdinalProbit`), *logit* has `OrdinalLogit` instead, *ties by model* has
`VaryingTies`, and *pairs* a further skill of each pair.
"""

_CLOSING = """## Elsewhere

- Formula 1 beside TrueSkillThroughTime, openskill and the order of the grid:
  `benchmarks/README.md`, "Rankings".
- The paper's tables, FiveThirtyEight's Elo, and models chosen by hand: `benchmarks/README.md`,
  "The paper's tables" and "Best models".
- Other games in the format of EsportsBench: `python benchmarks/rivals.py run --file matches.csv
  --start 2024-01-01`. EsportsBench itself could not be downloaded for this page.
"""


def page(_: argparse.Namespace) -> None:
    """Write the page of the guide and its plots."""
    results = json.loads(RESULTS.read_text())
    votes = results.pop("votes", {})
    parts = [
        _OPENING,
        "## Where jaxkick is not the best\n",
        *list_losses(results),
        tell_costs(results),
    ]
    for name, task in results.items():
        for protocol in ("frozen", "monthly"):
            if protocol in task:
                parts += [f"## {task['title']}: {protocol}\n", tabulate(name, task[protocol])]
    parts += [*tabulate_votes(votes), _CLOSING]
    draw(results, PAGE.parent / "images" / "rivals.png")
    parts.insert(1, "![Differences of log loss from jaxkick, with intervals](images/rivals.png)\n")
    PAGE.write_text("\n".join(parts))


def list_losses(results: dict) -> list[str]:
    """Say where a rival is better than jaxkick, or not clearly worse."""
    lines = []
    for task, protocol in itertools.product(results.values(), ("frozen", "monthly")):
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
                verdict = "is better" if high < 0 else "is not clearly worse"
                lines.append(
                    f"- {task['title']}, {protocol}: {name} {verdict} "
                    f"({value:+.4f}, {low:+.4f} to {high:+.4f})."
                )
    return [*(lines or ["- In none of these tasks.\n"]), ""]


def tell_costs(results: dict) -> str:
    """Say in how many tasks jaxkick takes more processor time than every rival."""
    slowest, seconds = 0, []
    for task, protocol in itertools.product(results.values(), ("frozen", "monthly")):
        times = {
            name: cell["costs"]["tuning"] + cell["costs"]["rest"]
            for name, cell in task.get(protocol, {}).items()
            if "costs" in cell
        }
        if OURS in times:
            rivals = [time for name, time in times.items() if not name.startswith(OURS)]
            seconds.append(times[OURS])
            slowest += times[OURS] > max(rivals)
    return (
        f"jaxkick takes the most processor time of all in {slowest} of {len(seconds)} tables: "
        f"{min(seconds):.0f} to {max(seconds):.0f} s, where Elo takes a second or two.\n"
    )


def tabulate(name: str, cells: dict) -> str:
    """The table of one task and protocol, best first."""
    ties = any(cell.get("rps") and name in ("football", "chess") for cell in cells.values())
    head = ["system", "log loss", "difference", "accuracy", *(["RPS"] if ties else []), "slope",
            "tuning", "fit and predict", "peak memory", "lines"]  # fmt: skip
    rows = []
    for system, cell in sorted(cells.items(), key=lambda item: item[1].get("log_loss", np.inf)):
        title = f"{system} ({cell['version']})"
        if "failure" in cell:
            rows.append([title, cell["failure"], *[""] * (len(head) - 2)])
            continue
        costs = cell["costs"]
        difference = ""
        if system != OURS and "difference" in cell:
            difference = "{:+.4f} ({:+.4f} to {:+.4f})".format(*cell["difference"])
        rows.append([
            title, f"{cell['log_loss']:.4f}", difference, f"{cell['accuracy']:.3f}",
            *([f"{cell['rps']:.4f}"] if ties else []), f"{cell['slope']:.2f}",
            f"{costs['tuning']:.0f} s", f"{costs['rest']:.0f} s",
            f"{costs['megabytes']:.0f} MB", str(cell["lines"]),
        ])  # fmt: skip
    lines = [head, ["---"] * len(head), *rows]
    done = next(cell for cell in cells.values() if "matches" in cell)
    closing = f"\n{done['matches']:,} matches; {done['machine']}, {done['date']}.\n"
    if name == "chess":
        scores = ", ".join(
            f"{system} {100 * cell['points_loss']:.2f}"
            for system, cell in sorted(cells.items(), key=lambda item: item[0])
            if "points_loss" in cell
        )
        closing += (
            "\nThe published table of the R package PlayerRatings has 100 times the mean log loss "
            "of expected points on these games, frozen, tuned on them: Stephenson 61.46, Glicko "
            f"61.54, Elo 61.71. The same measure here: {scores}.\n"
        )
    return "\n".join(f"| {' | '.join(row)} |" for row in lines) + "\n" + closing


def tabulate_votes(votes: dict) -> list[str]:
    """The table of `votes.py`, best first."""
    head = ["system", "in sample", "published", "new votes", "new pairs", "processor time"]
    rows = [head, ["---"] * len(head)]
    for name, cell in sorted(votes.items(), key=lambda item: item[1]["new_votes"]):
        published = f"{cell['published']:.4f}" if "published" in cell else ""
        losses = [f"{cell[each]:.5f}" for each in ("in_sample", "new_votes", "new_pairs")]
        rows.append([name, losses[0], published, *losses[1:], f"{cell['seconds']:.0f} s"])
    return [_VOTES, "\n".join(f"| {' | '.join(row)} |" for row in rows) + "\n"]


def draw(results: dict, path: Path) -> None:
    """Draw differences of log loss with intervals, and log loss against processor time."""
    from matplotlib.figure import Figure

    shown = [(task, protocol) for task in results.values() for protocol in ("frozen", "monthly")
             if "difference" in task.get(protocol, {}).get(OURS, {})]  # fmt: skip
    figure = Figure(figsize=(10, 1.0 + 2.2 * len(shown)), layout="constrained")
    axes = figure.subplots(len(shown), 2, squeeze=False)
    for (left, right), (task, protocol) in zip(axes, shown, strict=True):
        cells = {
            name: cell for name, cell in task[protocol].items()
            if "difference" in cell and name != "shares of results"
        }  # fmt: skip
        order = sorted(cells, key=lambda name: -cells[name]["log_loss"])
        last, span = (1.0, np.inf), np.ptp([cell["log_loss"] for cell in cells.values()])
        for height, name in enumerate(order):
            value, low, high = cells[name]["difference"]
            color = "C3" if name.startswith(OURS) else "C0"
            left.errorbar(value, height, xerr=[[value - low], [high - value]], fmt="o", color=color)
            costs, loss = cells[name]["costs"], cells[name]["log_loss"]
            seconds = costs["tuning"] + costs["rest"]
            right.semilogx(seconds, loss, "o", color=color)
            # jaxkick is farthest to the right. Labels close to the last one go below their points.
            ours = name.startswith(OURS)
            close = last[1] - loss < 0.1 * span and abs(np.log10(seconds / last[0])) < 0.5
            right.annotate(name, (seconds, loss), ha="right" if ours else "left", fontsize=7,
                           textcoords="offset points",
                           xytext=(-5 if ours else 5, -9 if close else 3))  # fmt: skip
            last = seconds, loss
        left.set_yticks(range(len(order)), order, fontsize=8)
        left.axvline(0.0, color="0.6", linewidth=1)
        left.set_title(f"{task['title']}: {protocol}", fontsize=9)
        left.set_xlabel("log loss minus jaxkick's")
        right.set_xlabel("processor seconds")
        right.set_ylabel("log loss")
        right.margins(0.25)
    figure.savefig(path, dpi=110)


def main() -> None:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("command", choices=["run", "cell", "page"])
    parser.add_argument("--tasks", nargs="+", default=list(TASKS), help="names of tasks")
    parser.add_argument("--systems", nargs="+", default=list(SYSTEMS), choices=SYSTEMS)
    parser.add_argument("--protocols", nargs="+", default=["frozen", "monthly"])
    parser.add_argument("--limit", type=int, default=900, help="processor seconds of a cell")
    parser.add_argument("--store", type=Path, default=Path("rivals"), help="folder of forecasts")
    parser.add_argument("--file", help="a table of matches instead of the tasks")
    parser.add_argument("--start", help="with --file: the first date to predict")
    options = parser.parse_args()
    if options.file:
        options.tasks = [Path(options.file).stem]
    if options.command == "cell":
        task = load(options.tasks[0], options)
        run_cell(task, options.protocols[0], options.systems[0], options.store)
    else:
        {"run": run, "page": page}[options.command](options)


if __name__ == "__main__":
    main()
