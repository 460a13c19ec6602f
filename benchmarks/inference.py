"""How fast is inference, and how much memory does it take, beside kickscore?

    python benchmarks/inference.py               # NBA and ATP, jaxkick and kickscore: 15 minutes
    python benchmarks/inference.py --skip-slow   # without kickscore on the ATP: 5 minutes

EP on the NBA (Constant + Matérn 1/2) and ATP (Constant + Matérn 3/2) data with a probit
likelihood and the paper's parameters. Reads ../shared/data, or the folder in JAXKICK_DATA.
Every case runs in a process of its own. Needs pandas and kickscore (the `dev` extra).
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd

ROOT = Path(__file__).resolve().parent.parent
FOLDER = Path(os.environ.get("JAXKICK_DATA", ROOT.parent / "shared" / "data"))
REPEATS = 6
PARAMETERS = {"nba": (0.003, 0.152, 3.324), "atp": (0.034, 0.912, 7.469)}


def read_table(name: str) -> pd.DataFrame:
    """Winners and losers with dates."""
    if name == "nba":
        games = pd.read_csv(FOLDER / "nba_games.csv.gz")
        won = games.score1 > games.score2
        games["winner"] = np.where(won, games.team1, games.team2)
        games["loser"] = np.where(won, games.team2, games.team1)
        games["home"] = np.where(won, 1.0, -1.0) * (1 - games.neutral)
        return games[["date", "winner", "loser", "home"]]
    games = pd.read_csv(FOLDER / "tennis_atp_matches.csv.gz")
    games = games[games.winner_id != games.loser_id].reset_index(drop=True)
    return games.rename(columns={"winner_id": "winner", "loser_id": "loser"})


def peak_bytes() -> int:
    """The largest resident size of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def run_jaxkick(name: str, dtype: str, home: bool, memory: bool, devices: int) -> dict:
    """One data set: first and second call, time of a step, steps under both rules; or memory."""
    import jax

    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_num_cpu_devices", devices)
    import jaxkick as jk

    table = read_table(name)
    constant, variance, lengthscale = PARAMETERS[name]
    matern = jk.kernels.Matern12 if name == "nba" else jk.kernels.Matern32
    kernel = jk.kernels.Constant(constant) + matern(variance, lengthscale)
    if home:
        kernel = {"default": kernel, "advantage": kernel}
    model = jk.Model(kernel, jk.likelihoods.Probit())
    extra = {"covariates": {"home": "home"}, "groups": {"home": "advantage"}} if home else {}

    def read(table: pd.DataFrame) -> jk.Dataset:
        data = jk.Dataset.from_frame(
            table, time="date", first="winner", second="loser", dtype=dtype, **extra
        )
        return data.shard(jax.make_mesh((devices,), ("rows",))) if devices > 1 else data

    if memory:
        # JAX itself and its compiler, which a fit of few matches needs too.
        jax.block_until_ready(jk.infer(model, read(table[:500])).sites)
        base = peak_bytes()
        data = read(table)
        jax.block_until_ready(jk.infer(model, data).sites)
        return {"peak": (peak_bytes() - base) / data.index.num_entries}

    def fit(**options) -> tuple[jk.Posterior, float]:
        start = time.perf_counter()
        posterior = jk.infer(model, data, **options)
        jax.block_until_ready(posterior.sites)
        return posterior, time.perf_counter() - start

    start = time.perf_counter()
    data = read(table)
    posterior, _ = fit()
    first = time.perf_counter() - start
    second = min(fit()[1] for _ in range(3))
    # Other programs on the machine only ever add, so that the least of several runs counts.
    runs = [[fit(max_steps=k, tol=0.0, throw=False)[1] for k in (5, 25)] for _ in range(REPEATS)]
    short, long = map(min, zip(*runs, strict=True))
    return {
        "entries": data.index.num_entries,
        "first": first,
        "second": second,
        "step": (long - short) / 20,
        "steps": int(posterior.steps),
        "log_likelihood": float(posterior.log_marginal_likelihood),
        "rule": None if home or devices > 1 else steps_under_kickscores_rule(model, data),
    }


def steps_under_kickscores_rule(model, data) -> int:
    """Steps until no log-partition function changes by 1e-3 or more."""
    import dataclasses

    import equinox as eqx
    import jax.numpy as jnp

    import jaxkick as jk
    from jaxkick.inference.loop import ACCELERATION, advance
    from jaxkick.inference.moves import first_state
    from jaxkick.inference.problem import make_problem

    method = jk.ExpectationPropagation()

    @eqx.filter_jit
    def log_partitions(problem, cavities):
        score = problem.to_observations(cavities)
        return problem.likelihood.log_partition(problem.outcome, score.mean, score.variance, None)[
            0
        ]

    problem = make_problem(model, dataclasses.replace(data, index=None))
    state = first_state(problem.no_sites(), 0.0, ACCELERATION)
    step = eqx.filter_jit(lambda problem, state: advance(method, problem, state))
    old = jnp.zeros_like(data.outcome)
    while True:
        state = step(problem, state)
        new = log_partitions(problem, state.accepted.cavities)
        if float(jnp.max(jnp.abs(new - old))) < 1e-3:
            return int(state.steps)
        old = new


def run_kickscore(name: str) -> dict:
    """Set-up and compilation, and the time of an iteration."""
    import warnings

    warnings.simplefilter("ignore")
    import kickscore as ks

    table = read_table(name)
    constant, variance, lengthscale = PARAMETERS[name]
    matern = ks.kernel.Exponential if name == "nba" else ks.kernel.Matern32
    base = peak_bytes()
    start = time.perf_counter()
    model = ks.BinaryModel()
    kernel = ks.kernel.Constant(var=constant) + matern(var=variance, lscale=lengthscale)
    for item in sorted({*table.winner, *table.loser}):
        model.add_item(item, kernel=kernel)
    days = (pd.to_datetime(table.date) - pd.Timestamp("1970-01-01")).dt.days.to_numpy()
    rows = sorted(zip(1970 + days / 365.25, table.winner, table.loser, strict=True))
    for moment, winner, loser in rows:
        model.observe([winner], [loser], t=moment)
    model.fit(max_iter=1)
    first = time.perf_counter() - start
    steps = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        model.fit(max_iter=1)
        steps.append(time.perf_counter() - start)
    return {
        "entries": 2 * len(rows),
        "first": first,
        "step": min(steps),
        "peak": (peak_bytes() - base) / (2 * len(rows)),
    }


def in_a_process(*case: str) -> dict:
    """Run one case alone and read what it prints last."""
    command = [sys.executable, __file__, "--case", *case]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return json.loads(output.splitlines()[-1])


def compare(skip_slow: bool) -> None:
    """Print one table for each data set."""
    for name in ("nba", "atp"):
        slow = None
        if not (skip_slow and name == "atp"):
            slow = in_a_process("kickscore", name)
            print(
                f"{name} kickscore 0.2.0: {slow['first']:.0f} s set-up and first iteration, "
                f"{1e3 * slow['step']:.0f} ms an iteration, {slow['peak']:.0f} bytes an entry",
                flush=True,
            )
        for dtype in ("float64", "float32"):
            fast = in_a_process("jaxkick", name, dtype)
            fast |= in_a_process("jaxkick", name, dtype, "--memory")
            ratio = f", {slow['step'] / fast['step']:.0f} times faster" if slow else ""
            print(
                f"{name} jaxkick {dtype}: {1e3 * fast['step']:.1f} ms a step{ratio}; table to "
                f"posterior {fast['first']:.1f} s, again {fast['second']:.2f} s; "
                f"{fast['steps']} steps to the default tolerance, log-likelihood "
                f"{fast['log_likelihood']:.4f}, {fast['rule']} steps under kickscore's rule; "
                f"{fast['peak']:.0f} bytes an entry",
                flush=True,
            )
            shared = in_a_process("jaxkick", name, dtype, "--devices", "2")
            ratio = f", {slow['step'] / shared['step']:.0f} times faster" if slow else ""
            print(
                f"{name} jaxkick {dtype} on two cores as devices: {1e3 * shared['step']:.1f} ms a "
                f"step{ratio}",
                flush=True,
            )
            if name == "nba":
                home = in_a_process("jaxkick", name, dtype, "--home")
                each = 1e9 * home["step"] / home["entries"]
                print(
                    f"{name} jaxkick {dtype} with home advantage: {1e3 * home['step']:.1f} ms a "
                    f"step, {each:.0f} ns an entry (without: "
                    f"{1e9 * fast['step'] / fast['entries']:.0f} ns)",
                    flush=True,
                )


def main() -> None:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--skip-slow", action="store_true", help="no kickscore on the ATP data")
    parser.add_argument("--case", nargs="+", help=argparse.SUPPRESS)
    parser.add_argument("--home", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--memory", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--devices", type=int, default=1, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.case is None:
        compare(options.skip_slow)
    elif options.case[0] == "kickscore":
        print(json.dumps(run_kickscore(options.case[1])))
    else:
        _, name, dtype = options.case
        print(json.dumps(run_jaxkick(name, dtype, options.home, options.memory, options.devices)))


if __name__ == "__main__":
    main()
