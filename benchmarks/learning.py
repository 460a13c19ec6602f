"""How long does it take to learn hyper-parameters from a poor start, compilation included?

    python benchmarks/learning.py                      # NBA and football: some minutes
    python benchmarks/learning.py --cases nba          # one case, or several
    python benchmarks/learning.py --cases atp          # 625,848 matches: under 15 minutes
    python benchmarks/learning.py --cases nba --kickscore   # measures kickscore's time as well
    python benchmarks/learning.py --gradient           # a gradient in steps of inference, NBA

Every case starts with all variances, lengthscales and margins at 1 (the noise of points at
100), takes `jk.learn` as it comes, and runs in a process of its own. Beside the NBA stands
what a random search of the paper's kind would cost: 1,000 configurations, each fitted by
kickscore with the 32 iterations that it takes on these data. Reads ../shared/data, or the
folder in JAXKICK_DATA. Needs pandas (the `dev` extra).
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd

ROOT = Path(__file__).resolve().parent.parent
FOLDER = Path(os.environ.get("JAXKICK_DATA", ROOT.parent / "shared" / "data"))
# The evidence at the parameters of the paper's appendix, where there is one to compare with.
PAPER = {"nba": -42807.18}
CONFIGURATIONS, ITERATIONS = 1000, 32
# Set-up with the first iteration and each further one, in seconds: a figure of record for two
# cores; `--kickscore` measures it anew.
KICKSCORE = {"first": 55.0, "step": 1.1}
CASES = ("nba", "nba-home", "nba-points", "football", "atp")


def read_case(case: str) -> tuple[dict, dict]:
    """Columns of a table, and the arguments of the data set that read them."""
    if case == "atp":
        games = pd.read_csv(FOLDER / "tennis_atp_matches.csv.gz")
        games = games[games.winner_id != games.loser_id]
        sides = {"first": games.winner_id.to_numpy(), "second": games.loser_id.to_numpy()}
        return {"date": games.date.to_numpy(str), **sides}, {}
    if case == "football":
        games = pd.read_csv(FOLDER / "football_international.csv.gz").dropna()
        names, margin = ("home_team", "away_team"), games.home_score - games.away_score
    else:
        games = pd.read_csv(FOLDER / "nba_games.csv.gz")
        names, margin = ("team1", "team2"), games.score1 - games.score2
    table = {
        "date": games.date.to_numpy(str),
        "first": games[names[0]].to_numpy(str),
        "second": games[names[1]].to_numpy(str),
        "home": 1.0 - games.neutral.to_numpy(float),
        "outcome": (margin if case == "nba-points" else np.sign(margin)).to_numpy(float),
    }
    arguments = {"outcome": "outcome"}
    if case in ("nba-home", "football"):
        arguments |= {"covariates": {"home": "home"}, "groups": {"home": "advantage"}}
    return table, arguments


def poor_start(case: str):
    """A model whose every number is far off."""
    import jaxkick as jk

    matern = jk.kernels.Matern32 if case == "atp" else jk.kernels.Matern12

    def kernel():
        return jk.kernels.Constant(1.0) + matern(1.0, lengthscale=1.0)

    both = {"default": kernel(), "advantage": kernel()}
    likelihood = {
        "football": jk.likelihoods.OrdinalProbit(margin=1.0),
        "nba-points": jk.likelihoods.Gaussian(100.0),
    }.get(case, jk.likelihoods.Probit())
    return jk.Model(both if case in ("nba-home", "football") else kernel(), likelihood)


def run_case(case: str) -> dict:
    """Learn, from the table in memory to the learnt model."""
    import jax

    jax.config.update("jax_enable_x64", True)
    import jaxkick as jk

    table, arguments = read_case(case)
    start = time.perf_counter()
    data = jk.Dataset.from_frame(table, time="date", first="first", second="second", **arguments)
    _, history = jk.learn(poor_start(case), data)
    seconds = time.perf_counter() - start
    best = int(np.argmax(history.values))
    return {
        "observations": data.num_observations,
        "start": history.values[0],
        "reached": history.values[best],
        "steps": len(history.values) - 1,
        "converged": history.converged,
        "first_step": history.seconds[0],
        "seconds": seconds,
        "parameters": {name: float(rows[best]) for name, rows in history.parameters.items()},
    }


def run_gradient() -> None:
    """What the gradient of the evidence costs beside a step of inference, on the NBA data."""
    import equinox as eqx
    import jax

    jax.config.update("jax_enable_x64", True)
    import jax.numpy as jnp

    import jaxkick as jk
    from jaxkick.inference.evidence import log_evidence
    from jaxkick.inference.loop import ACCELERATION, Settings
    from jaxkick.inference.problem import make_problem
    from jaxkick.inference.solve import fixed_point

    table, arguments = read_case("nba")
    data = jk.Dataset.from_frame(table, time="date", first="first", second="second", **arguments)
    kernel = jk.kernels.Constant(0.003) + jk.kernels.Matern12(0.152, lengthscale=3.324)
    model, method = jk.Model(kernel, jk.likelihoods.Probit()), jk.ExpectationPropagation()
    data = data.without_index()

    @eqx.filter_jit
    def run(model, max_steps):
        problem = make_problem(model, data)
        settings = Settings(jnp.zeros(()), max_steps, ACCELERATION)
        return fixed_point(problem, method, problem.no_sites(), settings, None)

    @eqx.filter_jit
    def slope(model, end):
        evidence = lambda model: log_evidence(make_problem(model, data), method, end)  # noqa: E731
        return eqx.filter_grad(evidence)(model)

    def best_of(function, *arguments) -> float:
        times = []
        for _ in range(8):
            start = time.perf_counter()
            jax.block_until_ready(eqx.filter(function(*arguments), eqx.is_array))
            times.append(time.perf_counter() - start)
        return min(times)

    steps = [jnp.asarray(count, jnp.int32) for count in (5, 15, 30)]
    short, long = (best_of(run, model, count) for count in steps[:2])
    step, gradient = (long - short) / 10, best_of(slope, model, run(model, steps[2]))
    print(
        f"a step of inference {1e3 * step:.1f} ms, a gradient {1e3 * gradient:.1f} ms: "
        f"{gradient / step:.2f} steps"
    )


def report(case: str, found: dict) -> None:
    """One row of the table, and the parameters below it."""
    paper = f"{PAPER[case]:12.2f}" if case in PAPER else " " * 12
    ended = "" if found["converged"] else " (not converged)"
    print(
        f"{case:11s} {found['observations']:8,d} {found['start']:13.2f} {found['reached']:12.2f} "
        f"{paper} {found['steps']:5d} {found['first_step']:9.1f} {found['seconds']:8.1f}{ended}"
    )
    values = (f"{name} {value:.4g}" for name, value in found["parameters"].items())
    print("            " + ", ".join(values), flush=True)


def report_random_search(measure: bool) -> None:
    """What the paper's way to choose parameters would cost on the NBA data."""
    times = KICKSCORE
    if measure:
        from inference import in_a_process

        times = in_a_process("kickscore", "nba")
    each = times["first"] + (ITERATIONS - 1) * times["step"]
    print(
        f"            random search of {CONFIGURATIONS:,} configurations with kickscore: "
        f"{each:.0f} s each, {CONFIGURATIONS * each / 3600:.0f} hours in all"
        + ("" if measure else " (as measured before; --kickscore measures anew)"),
        flush=True,
    )


def main() -> None:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", nargs="+", choices=CASES, default=CASES[:-1])
    parser.add_argument("--kickscore", action="store_true", help="measure kickscore's time")
    parser.add_argument("--one", choices=CASES, help=argparse.SUPPRESS)
    parser.add_argument("--gradient", action="store_true", help="the cost of a gradient, NBA")
    options = parser.parse_args()
    if options.gradient:
        run_gradient()
        return
    if options.one:
        print(json.dumps(run_case(options.one)))
        return
    print(
        f"{'case':11s} {'matches':>8s} {'poor start':>13s} {'reached':>12s} {'paper':>12s} "
        f"{'steps':>5s} {'compiled':>9s} {'seconds':>8s}",
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
