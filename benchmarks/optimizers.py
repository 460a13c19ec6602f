"""Compare the optimizer of `learn` with those of optax and optimistix on one objective.

    python benchmarks/optimizers.py                   # Bundesliga with home advantage: 2 minutes
    python benchmarks/optimizers.py --case nba        # any case of benchmarks/learning.py

Prints the evaluations of the objective, the inference steps in them, the seconds (compilation
included) and the value reached, each from the same poor start and with the sites of the last
accepted point as warm start. optax does not report the inference steps inside its line search.
Needs optimistix.
"""

import argparse
import sys
import time

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import optimistix
from learning import CASES, poor_start, read_case

import jaxkick as jk
from jaxkick.learning.objective import Evidence, split

TOL = 0.01


def read(case: str) -> tuple[jk.Dataset, jk.Model]:
    """Return the data of a case, and a model with all parameters far from their optimum."""
    if case != "bundesliga":
        table, arguments = read_case(case)
        names = {"time": "date", "first": "first", "second": "second"}
        return jk.Dataset.from_frame(table, **names, **arguments), poor_start(case)
    data = jk.Dataset.from_frame(
        jk.datasets.load_bundesliga(),
        time="date",
        first="home",
        second="away",
        result=("home_goals", "away_goals"),
        home=True,
        groups={"home": "advantage"},
    )
    return data, poor_start("football")


def make_objective(data: jk.Dataset, model: jk.Model) -> tuple:
    """Return the starting point and the objective, built as in `learn`."""
    free, template = split(model)
    method = eqx.tree_at(lambda m: m.damping, jk.ExpectationPropagation(), jnp.asarray(0.0))
    return free, Evidence(
        template, data.without_index(), method, jnp.asarray(0.05), None, None, None
    )


def run_optax(free, objective: Evidence) -> tuple[int, str, float]:
    """Run `optax.lbfgs` with its line search; each step needs one more evaluation for the sites."""
    optimizer = optax.lbfgs()
    evaluate = eqx.filter_jit(lambda point, sites: objective.evaluate(point, sites, False))

    @eqx.filter_jit
    def step(point, state, now):
        loss = lambda point: objective.loss(point, now.sites)[0]  # noqa: E731
        updates, state = optimizer.update(
            now.gradient, state, point, value=now.loss, grad=now.gradient, value_fn=loss
        )
        return optax.apply_updates(point, updates), state

    now = evaluate(free, objective.unknown(free).sites)
    point, state, evaluations, waited = free, optimizer.init(free), 1, 0
    while waited < 2:
        point, state = step(point, state, now)
        following = evaluate(point, now.sites)
        evaluations += int(state[-1].info.num_linesearch_steps) + 1
        waited = waited + 1 if float(now.loss - following.loss) < TOL else 0
        now = following
    return evaluations, "-", -float(now.loss)


def run_optimistix(free, objective: Evidence) -> tuple[int, str, float]:
    """Run `optimistix.LBFGS` step by step, because `minimise` cannot hand the sites on."""
    solver, sites = optimistix.LBFGS(rtol=1e-5, atol=1e-5), objective.unknown(free).sites
    shapes = eqx.filter_eval_shape(objective.loss, free, sites)
    tags, losses, inference_steps = frozenset(), [], 0
    begin = eqx.filter_jit(lambda y, s: solver.init(objective.loss, y, s, {}, *shapes, tags))
    step = eqx.filter_jit(lambda y, s, state: solver.step(objective.loss, y, s, {}, state, tags))
    point, state = free, begin(free, sites)
    while len(losses) < 26 or losses[-25] - losses[-1] > TOL:
        point, state, (found, steps) = step(point, sites, state)
        losses.append(float(state.f_info.f))
        sites = found if np.isfinite(losses[-1]) else sites
        inference_steps += int(steps)
        if bool(solver.terminate(objective.loss, point, sites, {}, state, tags)[0]):
            break
    return len(losses), str(inference_steps), -losses[-1]


def run_learn(data: jk.Dataset, model: jk.Model, units: bool = True) -> tuple[int, str, float]:
    """Run `jk.learn`, with the units of its parameters or all of them one; count evaluations."""
    module, steps = sys.modules[jk.learn.__module__], []
    evaluate, changes = Evidence.evaluate, module.typical_changes

    def counted(*arguments):
        evaluation = evaluate(*arguments)
        steps.append(int(evaluation.steps))
        return evaluation

    Evidence.evaluate = counted
    if not units:
        module.typical_changes = lambda free, data: np.ones_like(changes(free, data))
    _, history = jk.learn(model, data)
    Evidence.evaluate, module.typical_changes = evaluate, changes
    return len(steps), str(sum(steps)), history.values.max()


def main() -> None:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--case", choices=("bundesliga", *CASES), default="bundesliga")
    case = parser.parse_args().case
    jax.config.update("jax_enable_x64", True)
    data, model = read(case)
    start = make_objective(data, model)
    runs = {
        "learn": lambda: run_learn(data, model),
        "all units one": lambda: run_learn(data, model, units=False),
        "optax.lbfgs": lambda: run_optax(*start),
        "optimistix.LBFGS": lambda: run_optimistix(*start),
    }
    print(f"{case:17s} evaluations inference steps  seconds      value")
    for name, run in runs.items():
        began = time.perf_counter()
        evaluations, steps, value = run()
        seconds = time.perf_counter() - began
        print(f"{name:17s} {evaluations:11d} {steps:>15s} {seconds:8.1f} {value:10.2f}", flush=True)


if __name__ == "__main__":
    main()
