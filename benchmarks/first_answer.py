"""Measure how long a new user waits: import, data, fit, learning, leaderboard, update.

    python benchmarks/first_answer.py

Runs the embedded Bundesliga (14,018 matches, home advantage, float64) in a fresh process: without
compiled programs, and again with those that JAX's compilation cache kept. Prints the seconds of
every stage, and how many of them JAX spent on tracing, lowering and compiling. What remains is
Python and the computation itself.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter

EVENTS = {
    "/jax/core/compile/jaxpr_trace_duration": "tracing",
    "/jax/core/compile/jaxpr_to_mlir_module_duration": "lowering",
    "/jax/core/compile/backend_compile_duration": "XLA",
}
COLUMNS = ("seconds", *EVENTS.values(), "programs")
NEW_MATCHES = 9


def run_stages(cache: str | None) -> dict[str, dict[str, float]]:
    """Run all stages in this process; return the seconds of each."""
    stages: dict[str, dict[str, float]] = {}
    spent: Counter[str] = Counter()
    begin = time.perf_counter()

    def finish(stage: str) -> None:
        nonlocal begin
        now = time.perf_counter()
        stages[stage] = {"seconds": now - begin, **spent}
        spent.clear()
        begin = time.perf_counter()

    import jaxkick as jk

    jk.infer, jk.learn, jk.Dataset  # noqa: B018
    finish("import")

    import jax

    def listen(event: str, duration: float, **_: str) -> None:
        if event in EVENTS:
            spent[EVENTS[event]] += duration
            spent["programs"] += EVENTS[event] == "XLA"

    jax.monitoring.register_event_duration_secs_listener(listen)
    jax.config.update("jax_enable_x64", True)
    if cache is not None:
        jax.config.update("jax_compilation_cache_dir", cache)
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    table = jk.datasets.load_bundesliga()
    early = {name: column[:-NEW_MATCHES] for name, column in table.items()}
    late = {name: column[-NEW_MATCHES:] for name, column in table.items()}
    data = jk.Dataset.from_frame(
        early,
        time="date",
        first="home",
        second="away",
        result=("home_goals", "away_goals"),
        home=True,
    )
    finish("data")
    model = jk.suggest_model(data)
    jk.infer(model, data).log_marginal_likelihood.block_until_ready()
    finish("infer")
    model, _ = jk.learn(model, data)
    finish("learn")
    posterior = jk.infer(model, data)
    posterior.log_marginal_likelihood.block_until_ready()
    finish("infer again")
    posterior.leaderboard()
    finish("leaderboard")
    posterior.update(late).log_marginal_likelihood.block_until_ready()
    finish("update")
    return stages


def print_stages(title: str, stages: dict[str, dict[str, float]]) -> None:
    """Print the seconds of every stage and their sum."""
    print(title)
    print(f"  {'':12}" + "".join(f"{column:>10}" for column in COLUMNS))
    total: Counter[str] = Counter()
    for name, spent in [*stages.items(), ("sum", total)]:
        digits = (0 if column == "programs" else 2 for column in COLUMNS)
        row = zip(COLUMNS, digits, strict=True)
        print(f"  {name:12}" + "".join(f"{spent.get(c, 0):>10.{d}f}" for c, d in row))
        if name != "sum":
            total.update(spent)


def main() -> None:
    """Run the stages in fresh processes: cold, to fill a cache, and with it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--stages", action="store_true", help="run in this process, print JSON")
    parser.add_argument("--cache", help="folder of compiled programs for --stages")
    arguments = parser.parse_args()
    if arguments.stages:
        print(json.dumps(run_stages(arguments.cache)))
        return

    def run_fresh(*options: str) -> dict[str, dict[str, float]]:
        command = [sys.executable, __file__, "--stages", *options]
        return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)

    print_stages("Cold", run_fresh())
    with tempfile.TemporaryDirectory() as cache:
        run_fresh("--cache", cache)
        print_stages("Warm: compiled programs of an earlier process", run_fresh("--cache", cache))


if __name__ == "__main__":
    main()
