"""Measure rankings: Formula 1 against other packages, scale, and claims of convergence.

    python benchmarks/rankings.py rivals formula1    # forecasts of ten seasons: 15 minutes or more
    python benchmarks/rankings.py speed              # from a table to a posterior
    python benchmarks/rankings.py synthetic          # 20,000 races; --races 100000 for more
    python benchmarks/rankings.py convergence        # random leagues and their true fixed points

`rivals`, `formula1` and `speed` read formula1.csv.gz from the folder `--data`, by default that in
JAXKICK_DATA or ../shared/data. The model has a skill for each driver and one for each constructor,
with parameters learnt from races before 2006. A second model also knows the grid: the logarithm of
the starting place, and whether a side starts from the pit lane. Each race from 2006 to 2015 is
predicted from earlier ones. Sides that were not classified are last. `rivals` stores its forecasts
in the file `--store`, with which `formula1` compares its own. Needs pandas and trueskillthroughtime
(the `dev` extra), and for `rivals` also openskill (`pip install openskill`).

openskill's Plackett–Luce model and TrueSkillThroughTime have a normal skill and normal noise of
performance for each side. The probabilities of all places follow by the same integral as
jaxkick's, from their moments in units of their noise. Their parameters have the lowest log loss of
the winner from 1996 to 2005 on a grid around the defaults. Unclassified sides tie for the last
place in openskill. TrueSkillThroughTime needs a margin for ties, so it gets them in the order of
the table (laps driven). Its forecasts are those of its forward pass: smoothing before every race
would take hours.
"""

import argparse
import functools
import importlib.util
import itertools
import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import jax

jax.config.update("jax_enable_x64", True)

import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
import pandas as pd  # noqa: E402
from convergence import distance, residual  # noqa: E402

import jaxkick as jk  # noqa: E402
from jaxkick import evaluation as ev  # noqa: E402
from jaxkick.evaluation.rank_forecasts import rank_metrics  # noqa: E402

ROOT = Path(__file__).resolve().parents[1]
FOLDER = os.environ.get("JAXKICK_DATA", str(ROOT.parent / "shared" / "data"))
TEST, TUNING = "2006", "1996"
METRICS = ("log loss", "rank log loss", "pairwise", "reciprocal rank")


# Formula 1


def read_formula1(folder: str) -> pd.DataFrame:
    """Read one row for each driver of a race, best first, and one driver for each position."""
    rows = pd.read_csv(Path(folder, "formula1.csv.gz"))
    rows["event"] = rows.date + " " + rows.race
    rows = rows.sort_values(["date", "event", "position"], kind="stable", na_position="last")
    rows = rows.drop_duplicates(["event", "driver"])
    shared = rows.position.notna() & rows.duplicated(["event", "position"])
    rows = rows[~shared].reset_index(drop=True)
    rows["points"] = -rows.position
    # A side without a place on the grid starts from the pit lane, behind all others.
    place = rows.grid.where(rows.grid > 0, rows.groupby("event").driver.transform("size"))
    rows["log_grid"], rows["pit_lane"] = np.log(place.astype(float)), 1.0 * (rows.grid <= 0)
    return rows


GRID = {"log grid": "log_grid", "pit lane": "pit_lane"}


def encode(rows: pd.DataFrame, grid: bool = False) -> jk.Dataset:
    """Make the data set of drivers and cars, and of places on the grid if asked."""
    return jk.Dataset.from_rankings(
        rows,
        time="date",
        event="event",
        competitor="driver",
        points="points",
        features={"car": "constructor", **(GRID if grid else {})},
        groups=dict.fromkeys(GRID, "grid"),
    )


def start_model(grid: bool = False) -> jk.Model:
    """Return the model that learning starts from."""
    driver = jk.kernels.Constant(0.1) + jk.kernels.Matern12(0.15, 3.0)
    kernels = {"skill": driver, "car": jk.kernels.Matern12(0.4, 3.0)}
    kernels |= {"grid": jk.kernels.Constant(0.3)} if grid else {}
    return jk.Model(kernels, jk.likelihoods.Ranking())


class Races:
    """The races of a table.

    Attributes:
        dates: date of each race, as text.
        sides: rows of the table of each race.
        tested: numbers of the races to predict.
        tuned: numbers of the races that the rivals' parameters are chosen by.
        position: position of each row of the table; NaN if not classified.
    """

    def __init__(self, rows: pd.DataFrame):
        self.sides = [np.asarray(rows_of) for rows_of in rows.groupby("event").indices.values()]
        self.dates = np.array([rows.date[each[0]] for each in self.sides])
        self.tested = np.flatnonzero(self.dates >= TEST)
        self.tuned = np.flatnonzero((self.dates >= TUNING) & (self.dates < TEST))
        self.position = rows.position.to_numpy()

    def measure(
        self, chosen: np.ndarray, mean: list, variance: list, noise: str = "normal"
    ) -> np.ndarray:
        """Compute the metrics of forecasts with these moments of scores, as rows of an array."""
        present = np.arange(max(map(len, mean))) < np.array([len(each) for each in mean])[:, None]
        moments = [np.zeros(present.shape), np.ones(present.shape)]
        for array, values in zip(moments, (mean, variance), strict=True):
            array[present] = np.concatenate(values)
        likelihood = jk.likelihoods.Ranking(noise=noise)
        found = np.asarray(_rank_probabilities(likelihood, *map(jnp.asarray, moments), present))
        return self.score(chosen, found)

    def score(self, chosen: np.ndarray, probabilities: np.ndarray) -> np.ndarray:
        """Compute the metrics of probabilities of all places."""
        parts = []
        for race, found in zip(chosen, probabilities, strict=True):
            size = len(self.sides[race])
            outcome = np.nan_to_num(self.position[self.sides[race]])
            parts.append(np.concatenate(rank_metrics(outcome[None], found[None, :size, :size])))
        return np.array(parts)


@jax.jit
def _rank_probabilities(likelihood, mean, variance, present):
    return likelihood.rank_probabilities(mean, variance, present)


def members_of(rows: pd.DataFrame, cars: bool) -> list[list[str]]:
    """Return the names on each side: the driver, or the driver and the car."""
    if cars:
        return [list(pair) for pair in zip(rows.driver, "car " + rows.constructor, strict=True)]
    return [[driver] for driver in rows.driver]


def run_openskill(
    races: Races, members: list[list[str]], tau: float, sigma: float, beta: float
) -> tuple[list, list]:
    """Rate all races; return means and variances before each race, in units of the noise."""
    from openskill.models import PlackettLuce

    model = PlackettLuce(tau=tau, sigma=sigma, beta=beta)
    ratings, means, variances = {}, [], []
    for sides in races.sides:
        teams = [
            [ratings.setdefault(name, model.rating()) for name in members[row]] for row in sides
        ]
        # Scores of jaxkick have noise of variance ½ on each side.
        noise = len(teams[0]) * model.beta**2
        mean = [sum(each.mu for each in team) for team in teams]
        variance = [sum(each.sigma**2 + tau**2 for each in team) for team in teams]
        means.append(np.array(mean) / (2 * noise) ** 0.5)
        variances.append(np.array(variance) / (2 * noise))
        ranks = list(np.nan_to_num(races.position[sides], nan=99.0))
        for row, team in zip(sides, model.rate(teams, ranks=ranks), strict=True):
            ratings.update(zip(members[row], team, strict=True))
    return means, variances


def _day(date: str) -> int:
    return int(np.datetime64(date, "D").astype(np.int64))


def _history(races: Races, members: list[list[str]], chosen: range, **options: float):
    import trueskillthroughtime as ttt

    composition = [[members[row] for row in races.sides[race]] for race in chosen]
    days = [_day(races.dates[race]) for race in chosen]
    results = [list(range(len(side), 0, -1)) for side in composition]
    return ttt.History(composition, results, days, **options)


def run_ttt(
    races: Races, members: list[list[str]], gamma: float, sigma: float
) -> tuple[list, list]:
    """Filter all races; return moments before each race, in units of the noise.

    Args:
        races: the races.
        members: the names on each side.
        gamma: growth of the standard deviation in a day.
        sigma: prior standard deviation.
    """
    every = range(len(races.sides))
    return _forward_moments(_history(races, members, every, gamma=gamma, sigma=sigma))


def _forward_moments(history) -> tuple[list, list]:
    means, variances = [], []
    # There is one race in each batch, as no two are on one day.
    for batch in history.batches:
        names = [[item.name for item in team.items] for team in batch.events[0].teams]
        teams = [[batch.skills[name].forward for name in side] for side in names]
        noise = 2.0 * len(teams[0])
        means.append(np.array([sum(each.mu for each in team) for team in teams]) / noise**0.5)
        variances.append(np.array([sum(each.sigma**2 for each in team) for team in teams]) / noise)
    return means, variances


def tune(races: Races, name: str, run: Callable, *grids: tuple[float, ...]) -> np.ndarray:
    """Return the metrics of a rival with the best parameters of a grid."""
    best, chosen, kept = np.inf, None, None

    def measure_at(which: np.ndarray, mean: list, variance: list) -> np.ndarray:
        return races.measure(which, [mean[k] for k in which], [variance[k] for k in which])

    for parameters in itertools.product(*grids):
        mean, variance = run(*parameters)
        loss = measure_at(races.tuned, mean, variance)[:, 0].mean()
        if loss < best:
            best, chosen, kept = loss, parameters, measure_at(races.tested, mean, variance)
    print(f"{name}: parameters {chosen}, log loss {best:.4f} before {TEST}", flush=True)
    return kept


def grid_scores(rows: pd.DataFrame, races: Races, chosen: np.ndarray) -> list[np.ndarray]:
    """Return minus the place on the grid; sides without a place start last."""
    place = rows.grid.where(rows.grid > 0).to_numpy()
    fields = [races.sides[race] for race in chosen]
    return [-np.nan_to_num(place[sides], nan=len(sides)) for sides in fields]


def measure_grid(rows: pd.DataFrame, races: Races) -> np.ndarray:
    """Forecast by a softmax over places on the grid, with a slope that is fitted before 2006."""
    past = np.flatnonzero(races.dates < TEST)
    scores = grid_scores(rows, races, past)
    slopes = np.linspace(0.05, 1.0, 20)
    # The winner is the first side.
    losses = [
        sum(np.log(np.sum(np.exp(slope * (each - each[0])))) for each in scores) for slope in slopes
    ]
    slope = slopes[int(np.argmin(losses))]
    print(f"grid: slope {slope:.2f}")
    mean = [slope * each for each in grid_scores(rows, races, races.tested)]
    return races.measure(races.tested, mean, [0.0 * each for each in mean], "gumbel")


def measure_constant(races: Races) -> np.ndarray:
    """Forecast 1/n for each place; the winner's rank is that of a random order."""
    sizes = [len(races.sides[race]) for race in races.tested]
    found = races.score(races.tested, [np.full((size, size), 1.0 / size) for size in sizes])
    found[:, 3] = [np.mean(1.0 / np.arange(1, size + 1)) for size in sizes]
    return found


def report(found: dict[str, np.ndarray], names: list[str]) -> None:
    """Print the metrics of all methods, and paired differences of some to each of them."""
    print("method | " + " | ".join(METRICS))
    for name, metrics in found.items():
        print(f"{name} | " + " | ".join(f"{value:.4f}" for value in metrics.mean(axis=0)))
    for ours in names:
        print(f"{ours} minus | " + " | ".join(METRICS[:3]))
        for name, metrics in found.items():
            difference = (found[ours] - metrics).T[:3]
            blocks = np.arange(len(metrics))
            texts = [str(ev.bootstrap_mean(each, blocks)) for each in difference]
            print(f"{name} | " + " | ".join(texts), flush=True)


def require(*packages: str) -> None:
    """Stop if a package is not installed."""
    missing = [name for name in packages if importlib.util.find_spec(name) is None]
    if missing:
        sys.exit(f"Not installed: {', '.join(missing)}. Run `pip install {' '.join(missing)}`.")


def rivals(options: argparse.Namespace) -> None:
    """Forecast ten seasons with other methods."""
    require("openskill", "trueskillthroughtime")
    rows = read_formula1(options.data)
    races, found = Races(rows), {}
    found["constant"] = measure_constant(races)
    found["grid"] = measure_grid(rows, races)
    for cars, what in ((False, "drivers"), (True, "drivers and cars")):
        members = members_of(rows, cars)
        name = f"openskill, {what}"
        run = functools.partial(run_openskill, races, members)
        grids = (25 / 300, 0.5), (25 / 3,), (25 / 6, 25 / 3, 25.0, 75.0)
        found[name] = tune(races, name, run, *grids)
        name = f"TrueSkillThroughTime, {what}"
        run = functools.partial(run_ttt, races, members)
        found[name] = tune(races, name, run, (0.01, 0.03, 0.06), (0.7, 2.0))
        store(options, found)
    report(found, [])


def formula1(options: argparse.Namespace) -> None:
    """Learn, predict ten seasons, and compare with the stored forecasts of the rivals."""
    rows = read_formula1(options.data)
    rows = rows[rows.date >= options.since].reset_index(drop=True)
    names = {"jaxkick, drivers and cars": False, "jaxkick, drivers, cars and grid": True}
    for name, grid in names.items():
        store(options, {name: forecast_formula1(encode(rows, grid), grid, options.steps)})
    report(dict(np.load(options.store)), list(names))


def forecast_formula1(data: jk.Dataset, grid: bool, steps: int) -> np.ndarray:
    """Learn from races before the test, and return the metrics of each race after that."""
    print(data)
    past = data.index.times < float(TEST)
    begin = time.perf_counter()
    model, history = jk.learn(start_model(grid), data, mask=past, max_steps=steps, tol=0.5)
    print(
        f"learnt in {time.perf_counter() - begin:.0f} s, {len(history.values) - 1} steps, "
        f"{history.status.name}, log evidence {history.values[-1]:.2f}"
    )
    print(model.describe(), flush=True)
    begin = time.perf_counter()
    forecasts = ev.walk_forward(model, data, f"{TEST}-01-01", every="day")
    print(f"{forecasts!r} in {time.perf_counter() - begin:.0f} s")
    print(forecasts.summary())
    columns = ("log_losses", "rank_log_losses", "pairwise", "reciprocal_ranks")
    order = np.argsort(forecasts.rows)
    return np.stack([getattr(forecasts, name)[order] for name in columns], axis=1)


def store(options: argparse.Namespace, found: dict[str, np.ndarray]) -> None:
    """Add metrics of every predicted race to the file of forecasts."""
    old = dict(np.load(options.store)) if Path(options.store).exists() else {}
    np.savez(options.store, **{**old, **found})


# Speed on Formula 1


def fit_formula1(options: argparse.Namespace) -> None:
    """Fit in a new process, and again; print the measurements as JSON."""
    rows = read_formula1(options.data)
    seconds, processor = [], []
    for _ in range(3):
        begin, busy = time.perf_counter(), time.process_time()
        data = encode(rows)
        encoded = time.perf_counter() - begin
        posterior = jk.infer(start_model(), data)
        jax.block_until_ready(posterior.sites)
        seconds.append(time.perf_counter() - begin)
        processor.append(time.process_time() - busy)
    found = {
        "cold": seconds[0],
        "warm": min(seconds[1:]),
        "processor": min(processor[1:]),
        "encoding": encoded,
        "steps": int(posterior.steps),
    }
    print(json.dumps(found))


def speed(options: argparse.Namespace) -> None:
    """Compare times from the table to the posterior of all races."""
    require("trueskillthroughtime")
    command = [sys.executable, __file__, "fit_formula1", "--data", options.data]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    ours = json.loads(output.splitlines()[-1])
    print(
        f"jaxkick: cold {ours['cold']:.1f} s, warm {ours['warm']:.2f} s (of which encoding "
        f"{ours['encoding']:.2f} s; {ours['processor']:.2f} s of processor time), "
        f"{ours['steps']} iterations",
        flush=True,
    )
    rows = read_formula1(options.data)
    races = Races(rows)
    begin, busy = time.perf_counter(), time.process_time()
    members, every = members_of(rows, cars=True), range(len(races.sides))
    history = _history(races, members, every, gamma=0.03, sigma=0.7)
    first = time.process_time() - busy
    step, iterations = history.convergence(0.01, options.iterations, verbose=False)
    total, processor = time.perf_counter() - begin, time.process_time() - busy
    print(
        f"TrueSkillThroughTime: {total:.0f} s; processor time {processor:.0f} s, first pass "
        f"{first:.1f} s, then {iterations} iterations of {(processor - first) / iterations:.1f} s; "
        f"the last changes means by up to {step[0]:.3g} and deviations by {step[1]:.3g}"
    )
    print(
        f"ratio to jaxkick: {total / ours['warm']:.0f} (warm), {total / ours['cold']:.0f} (cold), "
        f"{processor / ours['processor']:.0f} (processor time, warm)"
    )


# Scale


def simulate(races: int, seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Simulate ten years of races of 8 sides; return a table and the skills at the end.

    Skills are Ornstein–Uhlenbeck processes with variance 1 and a lengthscale of 4 years. There is
    one competitor for 20 races.
    """
    rng = np.random.default_rng(seed)
    competitors, sides = races // 20, 8
    times = np.sort(rng.uniform(0.0, 10.0, races))
    who = rng.integers(0, competitors, (races, sides))
    while len(again := np.flatnonzero(np.any(np.diff(np.sort(who, axis=1), axis=1) == 0, axis=1))):
        who[again] = rng.integers(0, competitors, (len(again), sides))
    skill, latest = rng.normal(size=competitors), np.zeros(competitors)

    def move(chosen: np.ndarray, now: float) -> None:
        keep = np.exp(-(now - latest[chosen]) / 4.0)
        noise = rng.normal(size=len(chosen)) * np.sqrt(1.0 - keep**2)
        skill[chosen] = keep * skill[chosen] + noise
        latest[chosen] = now

    performance = rng.normal(size=who.shape) * 0.5**0.5
    for race, now in enumerate(times):
        move(who[race], now)
        performance[race] += skill[who[race]]
    move(np.arange(competitors), 10.0)
    table = {
        "time": np.repeat(times, sides),
        "race": np.repeat(np.arange(races), sides),
        "name": who.ravel(),
        "points": performance.ravel(),
    }
    return pd.DataFrame(table), skill


def read_simulated(table: pd.DataFrame) -> jk.Dataset:
    """Read a simulated table."""
    return jk.Dataset.from_rankings(
        table, time="time", event="race", competitor="name", points="points"
    )


def time_likelihood(events: int, sides: int, unplaced: int) -> None:
    """Measure an evaluation of the likelihood of random orders."""
    rng, shape = np.random.default_rng(1), (events, sides)
    place = np.argsort(rng.normal(size=shape), axis=1) + 1.0
    place = jnp.asarray(np.where(place > sides - unplaced, 0.0, place))
    mean, variance = jnp.asarray(rng.normal(size=shape)), jnp.full(shape, 0.2)
    evaluate = jax.jit(jk.likelihoods.Ranking().log_partition)
    best_of(2, lambda: evaluate(place, mean, variance))
    busy = time.process_time()
    _, seconds, _ = best_of(4, lambda: evaluate(place, mean, variance))
    busy = (time.process_time() - busy) / 4
    print(
        f"likelihood of {sides} sides, {unplaced} of them unplaced: "
        f"{1e9 * seconds / place.size:.0f} ns a side; {1e9 * busy / place.size:.0f} ns a side of "
        "processor time",
        flush=True,
    )


def synthetic(options: argparse.Namespace) -> None:
    """Measure the likelihood, fits, intervals and learning on simulated races."""
    for sides, unplaced in ((8, 0), (24, 0), (24, 12)):
        time_likelihood(40_000 // sides, sides, unplaced)
    table, truth = simulate(options.races, 0)
    likelihood = jk.likelihoods.Ranking()
    model = jk.Model(jk.kernels.Matern12(1.0, 4.0), likelihood)
    begin = time.perf_counter()
    data = read_simulated(table)
    encoding = time.perf_counter() - begin
    cold, warm, posterior = best_of(3, lambda: jk.infer(model, data))
    print(
        f"{options.races:,} races, {len(table):,} sides, {len(truth):,} competitors: encoding "
        f"{encoding:.2f} s, cold {cold:.1f} s, warm {warm:.1f} s, {int(posterior.steps)} "
        "iterations",
        flush=True,
    )
    names = np.unique(table.name)
    board = posterior.leaderboard(10.0).set_index("name").loc[names]
    error = np.abs(board.rating - truth[names]) / board.deviation
    inside = [100 * float(np.mean(error < reach)) for reach in (0.6745, 1.6449)]
    print(f"true skills in 50 % intervals {inside[0]:.1f} %, in 90 % {inside[1]:.1f} %", flush=True)
    few = min(options.races, 5_000)
    small = read_simulated(simulate(few, 1)[0])
    wrong = jk.Model(jk.kernels.Matern12(0.3, 1.0), likelihood)
    begin = time.perf_counter()
    learnt, history = jk.learn(wrong, small, max_steps=10, tol=0.5)
    print(
        f"learning from {few:,} races: {time.perf_counter() - begin:.0f} s with compilation, "
        f"{len(history.values) - 1} steps, {history.status.name}; true variance 1 and lengthscale 4"
    )
    print(learnt.describe())


def best_of(times: int, run: Callable) -> tuple:
    """Return the time of the first run, the best time of the others, and the last result."""
    seconds = []
    for _ in range(times):
        begin = time.perf_counter()
        found = run()
        jax.block_until_ready(found.value if hasattr(found, "value") else found.sites)
        seconds.append(time.perf_counter() - begin)
    return seconds[0], min(seconds[1:]), found


# Claims of convergence

SIDES, TOL = 240, 0.05
"""Sides of all races of a league."""


def random_league(size: int, cars: bool, structure: str, seed: int) -> jk.Dataset:
    """Make a league of races of two to `size` sides, in one shape for each size.

    Args:
        size: number of sides of the largest race.
        cars: whether sides have a car besides the driver.
        structure: "mixed" for any sides, "pools" for pools with few races between them, "ladder"
            for neighbours, or "star" for one competitor in most races.
        seed: seed of everything random: competitors, times, order, unplaced sides.
    """
    rng = np.random.default_rng([seed, size, cars, list(STRUCTURES).index(structure)])
    # The same sizes of races for all leagues.
    sizes, left = [], SIDES
    for each in itertools.cycle(sorted({size, max(2, size // 2), 2})[::-1]):
        if left < each:
            break
        sizes.append(each)
        left -= each
    sizes[0] = size
    number = int(rng.integers(max(4, size), 61))
    skill = rng.normal(size=number) * rng.uniform(0.2, 3.0)
    speeds = rng.normal(size=8)
    moving = rng.random() < 0.5
    dropout = rng.choice([0.0, 0.2, 0.6])
    rows = []
    for race, count in enumerate(rng.permutation(sizes)):
        who = STRUCTURES[structure](rng, number, int(count), race)
        car = (who + rng.integers(0, 2, len(who)) * (rng.random() < 0.1)) % 8
        points = skill[who] + speeds[car] * cars + rng.normal(size=count) * 0.5**0.5
        out = rng.random(count) < dropout
        out[rng.integers(count)] = False
        now = np.full(count, race / 8.0 if moving else 0.0)
        rows.append(
            pd.DataFrame({
                "time": now, "race": race, "name": who, "car": [f"car {k}" for k in car],
                "points": np.where(out, np.nan, points),
            })
        )  # fmt: skip
    return jk.Dataset.from_rankings(
        pd.concat(rows), time="time", event="race", competitor="name", points="points",
        features={"car": "car"} if cars else None, row_length=SIDES,
    )  # fmt: skip


def _mixed(rng: np.random.Generator, number: int, count: int, race: int) -> np.ndarray:
    return rng.choice(number, count, replace=False)


def _pools(rng: np.random.Generator, number: int, count: int, race: int) -> np.ndarray:
    half = number // 2
    if half < count or race % 20 == 19:
        return _mixed(rng, number, count, race)
    return rng.choice(half, count, replace=False) + half * int(rng.integers(0, 2))


def _ladder(rng: np.random.Generator, number: int, count: int, race: int) -> np.ndarray:
    return int(rng.integers(0, number - count + 1)) + rng.permutation(count)


def _star(rng: np.random.Generator, number: int, count: int, race: int) -> np.ndarray:
    return np.append(0, 1 + rng.choice(number - 1, count - 1, replace=False))


STRUCTURES = {"mixed": _mixed, "pools": _pools, "ladder": _ladder, "star": _star}


def convergence(options: argparse.Namespace) -> None:
    """Compare fits at the default tolerance with true fixed points."""
    count, worst, steps, begin = Counter(), (0.0, None), [], time.time()
    method = jk.ExpectationPropagation()
    kinds = itertools.product(
        (3, 6, 12), (False, True), range(options.seeds), STRUCTURES, (0.1, 1.0, 10.0, 100.0)
    )
    for size, cars, seed, structure, variance in kinds:
        case = (size, cars, structure, seed, variance)
        data = random_league(size, cars, structure, seed)
        kernel = jk.kernels.Matern12(variance, 2.0)
        groups = {"skill": kernel, "car": kernel} if cars else kernel
        model = jk.Model(groups, jk.likelihoods.Ranking())
        fit = jk.infer(model, data, tol=TOL, throw=False)
        truth = jk.infer(model, data, tol=1e-7, start=fit, throw=False)
        count["fits"] += 1
        count["claimed"] += fit.converged
        steps.append(int(fit.steps))
        change = float(residual(method, model, data.without_index(), truth.sites))
        if not fit.converged or not truth.converged or not change < 1e-5:
            count["without a truth"] += not (truth.converged and change < 1e-5)
            print(
                f"{case}: {fit.status!r} after {int(fit.steps)} iterations at distance "
                f"{float(fit.distance):.3g}; at 1e-7 {truth.status!r} at "
                f"{float(truth.distance):.3g}, residual {change:.3g}",
                flush=True,
            )
            continue
        off = distance(fit, truth)
        worst = max(worst, (off, case))
        count["beyond the tolerance"] += off > TOL
        count["beyond twice the tolerance"] += off > 2 * TOL
        if off > TOL:
            print(f"FALSE {case}: {off:.3g}, claimed {float(fit.distance):.3g}", flush=True)
    print(dict(count), f"largest distance {worst[0]:.3g} at {worst[1]}")
    print(
        f"iterations: median {np.median(steps):.0f}, 90 % {np.quantile(steps, 0.9):.0f}, most "
        f"{max(steps)}; {time.time() - begin:.0f} s"
    )


PARTS = {
    each.__name__: each for each in (rivals, formula1, speed, fit_formula1, synthetic, convergence)
}


def main() -> None:
    """Run the chosen parts."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="+", choices=PARTS)
    parser.add_argument("--data", default=FOLDER, help="folder of formula1.csv.gz")
    parser.add_argument("--since", default="1950", help="first year of formula1's races")
    parser.add_argument("--steps", type=int, default=15, help="steps of learning")
    parser.add_argument("--store", default="rankings.npz", help="file of forecasts")
    parser.add_argument("--races", type=int, default=20_000, help="races of synthetic")
    parser.add_argument(
        "--iterations", type=int, default=30, help="most iterations of TrueSkillThroughTime"
    )
    parser.add_argument("--seeds", type=int, default=2, help="leagues of every kind of convergence")
    options = parser.parse_args()
    for part in options.parts:
        PARTS[part](options)


if __name__ == "__main__":
    main()
