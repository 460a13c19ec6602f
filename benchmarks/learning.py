"""Measure how long `learn` takes from a poor start, compilation included.

    python benchmarks/learning.py                      # NBA and football: minutes
    python benchmarks/learning.py --cases nba          # one case, or several
    python benchmarks/learning.py --cases atp chess    # 625,844 and 528,582 matches: minutes
    python benchmarks/learning.py --cases nba --kickscore   # also measure kickscore
    python benchmarks/learning.py --gradient           # cost of a gradient and of inference, NBA

Each case starts with all variances, lengthscales and margins at 1 (the noise variance of points at
100), calls `jk.learn` with default arguments, and runs in its own process; the last column is the
processor time of that process. For comparison, the NBA case prints the cost of a random search as
in the paper: 1,000 configurations, each fitted by kickscore with the 32 iterations it needs on this
data. Reads the folder in JAXKICK_DATA, or ../shared/data. Needs pandas (the `dev` extra).
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
# The log evidence at the parameters of the paper's appendix.
PAPER = {"nba": -42806.15}
CONFIGURATIONS, ITERATIONS = 1000, 32
# Set-up with the first iteration, and each further iteration, in seconds. Measured earlier on two
# cores; `--kickscore` measures them again.
KICKSCORE = {"first": 55.0, "step": 1.1}
CASES = ("nba", "nba-home", "nba-points", "football", "atp", "chess")
WITH_ADVANTAGE = ("nba-home", "football", "chess")


def read_case(case: str) -> tuple[dict, dict]:
    """Return the columns of a table, and the arguments of `Dataset.from_frame` for it."""
    if case == "atp":
        games = pd.read_csv(FOLDER / "tennis_atp_matches.csv.gz")
        games = games[games.winner_id != games.loser_id]
        sides = {"first": games.winner_id.to_numpy(), "second": games.loser_id.to_numpy()}
        return {"date": games.date.to_numpy(str), **sides}, {}
    if case == "chess":
        games = pd.read_csv(FOLDER / "chess_fide.csv.gz")
        games = games[games.month <= 84]
        names, margin = ("white", "black"), games.white_points - 0.5
        games = games.assign(date=games.month / 12.0, neutral=0)
    elif case == "football":
        games = pd.read_csv(FOLDER / "football_international.csv.gz").dropna()
        names, margin = ("home_team", "away_team"), games.home_score - games.away_score
    else:
        games = pd.read_csv(FOLDER / "nba_games.csv.gz")
        names, margin = ("team1", "team2"), games.score1 - games.score2
    table = {
        "date": games.date.to_numpy(float if case == "chess" else str),
        "first": games[names[0]].to_numpy(str),
        "second": games[names[1]].to_numpy(str),
        "home": 1.0 - games.neutral.to_numpy(float),
        "outcome": (margin if case == "nba-points" else np.sign(margin)).to_numpy(float),
    }
    arguments = {"outcome": "outcome"}
    if case in WITH_ADVANTAGE:
        arguments |= {"covariates": {"home": "home"}, "groups": {"home": "advantage"}}
    return table, arguments


def poor_start(case: str):
    """Return a model with all parameters far from their optimum."""
    import jaxkick as jk

    matern = jk.kernels.Matern32 if case == "atp" else jk.kernels.Matern12

    def kernel():
        return jk.kernels.Constant(1.0) + matern(1.0, lengthscale=1.0)

    both = {"skill": kernel(), "advantage": kernel()}
    likelihood = {
        "football": jk.likelihoods.OrdinalProbit(margin=1.0),
        "chess": jk.likelihoods.OrdinalProbit(margin=1.0),
        "nba-points": jk.likelihoods.Gaussian(100.0),
    }.get(case, jk.likelihoods.Probit())
    return jk.Model(both if case in WITH_ADVANTAGE else kernel(), likelihood)


def run_case(case: str) -> dict:
    """Measure learning, from the table in memory to the learnt model."""
    import jax

    jax.config.update("jax_enable_x64", True)
    import jaxkick as jk

    table, arguments = read_case(case)
    start = time.perf_counter()
    data = jk.Dataset.from_frame(table, time="date", first="first", second="second", **arguments)
    _, history = jk.learn(poor_start(case), data)
    seconds = time.perf_counter() - start
    usage = resource.getrusage(resource.RUSAGE_SELF)
    best = int(np.argmax(history.values))
    return {
        "observations": len(data),
        "start": history.values[0],
        "reached": history.values[best],
        "steps": len(history.values) - 1,
        "converged": history.converged,
        "first_step": history.seconds[0],
        "seconds": seconds,
        "processor": usage.ru_utime + usage.ru_stime,
        "parameters": {name: float(rows[best]) for name, rows in history.parameters.items()},
    }


def run_gradient() -> None:
    """Compare the time of a gradient of the log evidence with that of inference, NBA data."""
    import equinox as eqx
    import jax

    jax.config.update("jax_enable_x64", True)
    import jax.numpy as jnp

    import jaxkick as jk
    from jaxkick.inference.evidence import log_evidence
    from jaxkick.inference.fixed_point import Settings
    from jaxkick.inference.problem import make_problem, no_sites
    from jaxkick.inference.solve import fixed_point

    table, arguments = read_case("nba")
    data = jk.Dataset.from_frame(table, time="date", first="first", second="second", **arguments)
    kernel = jk.kernels.Constant(0.003) + jk.kernels.Matern12(0.152, lengthscale=3.324)
    model, method = jk.Model(kernel, jk.likelihoods.Probit()), jk.ExpectationPropagation()
    data = data.without_index()

    @eqx.filter_jit
    def run(model, data):
        problem = make_problem(model, data)
        settings = Settings(jnp.asarray(0.05), jnp.asarray(1000, jnp.int32))
        return fixed_point(problem, method, no_sites(problem.chains), settings, None)

    @eqx.filter_jit
    def slope(model, data, end):
        evidence = lambda model: log_evidence(make_problem(model, data), method, end)  # noqa: E731
        return eqx.filter_grad(evidence)(model)

    def best_of(function, *arguments) -> float:
        times = []
        for _ in range(8):
            start = time.perf_counter()
            jax.block_until_ready(eqx.filter(function(*arguments), eqx.is_array))
            times.append(time.perf_counter() - start)
        return min(times)

    end = run(model, data)
    inference, gradient = best_of(run, model, data), best_of(slope, model, data, end)
    print(
        f"inference {1e3 * inference:.1f} ms in {int(end.steps)} iterations, "
        f"gradient {1e3 * gradient:.1f} ms"
    )


def report(case: str, found: dict) -> None:
    """Print one row of the table, and the parameters below it."""
    paper = f"{PAPER[case]:12.2f}" if case in PAPER else " " * 12
    ended = "" if found["converged"] else " (not converged)"
    print(
        f"{case:11s} {found['observations']:8,d} {found['start']:13.2f} {found['reached']:12.2f} "
        f"{paper} {found['steps']:5d} {found['first_step']:9.1f} {found['seconds']:8.1f} "
        f"{found['processor']:9.1f}{ended}"
    )
    values = (f"{name} {value:.4g}" for name, value in found["parameters"].items())
    print("            " + ", ".join(values), flush=True)


def report_random_search(measure: bool) -> None:
    """Print the cost of a random search on the NBA data."""
    times = KICKSCORE
    if measure:
        from inference import in_a_process

        times = in_a_process("kickscore", "nba")
    each = times["first"] + (ITERATIONS - 1) * times["step"]
    print(
        f"            random search of {CONFIGURATIONS:,} configurations with kickscore: "
        f"{each:.0f} s each, {CONFIGURATIONS * each / 3600:.0f} hours in all"
        + ("" if measure else " (from an earlier measurement; --kickscore measures it again)"),
        flush=True,
    )


def main() -> None:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", nargs="+", choices=CASES, default=CASES[:-1])
    parser.add_argument("--kickscore", action="store_true", help="also measure kickscore")
    parser.add_argument("--one", choices=CASES, help=argparse.SUPPRESS)
    parser.add_argument("--gradient", action="store_true", help="measure a gradient, NBA")
    options = parser.parse_args()
    if options.gradient:
        run_gradient()
        return
    if options.one:
        print(json.dumps(run_case(options.one)))
        return
    print(
        f"{'case':11s} {'matches':>8s} {'poor start':>13s} {'reached':>12s} {'paper':>12s} "
        f"{'steps':>5s} {'compiled':>9s} {'seconds':>8s} {'processor':>9s}",
        flush=True,
    )
    for case in options.cases:
        command = [sys.executable, __file__, "--one", case]
        output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        report(case, json.loads(output.splitlines()[-1]))
        if case == "nba":
            report_random_search(options.kickscore)


if __name__ == "__main__":
    main()
