"""Random programs of kickscore's interface, for kickscore and its drop-in replacement."""

import warnings
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

__all__ = ["PROGRAMS", "Program", "kickscore", "random_program", "run"]

with warnings.catch_warnings():
    # kickscore causes deprecation warnings of Numba.
    warnings.simplefilter("ignore")
    import kickscore

NAMES = ["Ada", "Ben", "Cleo", "Dan", "home"]

# The model, its arguments, and the method of its fit.
PROGRAMS = {
    "binary probit": ("BinaryModel", {}, "ep"),
    "ternary logit": ("TernaryModel", {"margin": 0.5, "obs_type": "logit"}, "ep"),
    "difference": ("DifferenceModel", {"var": 2.0}, "ep"),
    "count by reverse KL": ("CountModel", {}, "kl"),
    "count difference": ("CountDiffModel", {"base_rate": 0.4}, "ep"),
}


@dataclass(frozen=True)
class Program:
    """The calls of a user's program.

    Attributes:
        model: name of the class and its arguments.
        kernels: for each item the names and arguments of the kernels that are added up.
        observations: arguments of `observe`, in time order.
        method: of the fit.
        queries: arguments of `probabilities`.
    """

    model: tuple[str, dict]
    kernels: dict[str, list[tuple[str, dict]]]
    observations: list[dict]
    method: str
    queries: list[dict]


def random_program(name: str, seed: int = 0, size: int = 24) -> Program:
    """Draw a program for one of `PROGRAMS`, with line-ups, repeated times and other margins."""
    rng = np.random.default_rng([seed, list(PROGRAMS).index(name)])
    kind, arguments, method = PROGRAMS[name]
    contest = kind in ("BinaryModel", "TernaryModel")
    sides = ("winners", "losers") if contest else ("items1", "items2")
    teams = ("team1", "team2") if contest else ("items1", "items2")
    shared = [_random_kernel(rng, moving=True), _random_kernel(rng, moving=False)]
    observations = []
    for t in np.sort(rng.integers(0, 3 * size, size) / 8.0):
        names = dict(zip(sides, _teams(rng), strict=True))
        observations.append({**names, "t": float(t), **_outcome(rng, kind)})
    times = [-1.0, observations[3]["t"], 1.7, 3.0 * size / 8.0 + 2.0]
    queries = [{**dict(zip(teams, _teams(rng), strict=True)), "t": t} for t in times]
    kernels = {item: shared[item == "home"] for item in NAMES} | {"Eve": shared[0]}
    return Program((kind, arguments), kernels, observations, method, queries)


def run(module: ModuleType, program: Program, **fit: Any) -> Any:
    """Run a program with kickscore or its replacement, and return the fitted model."""
    kind, arguments = program.model
    model = getattr(module, kind)(**arguments)
    for item, parts in program.kernels.items():
        kernels = [getattr(module.kernel, part)(**values) for part, values in parts]
        model.add_item(item, kernel=sum(kernels[1:], start=kernels[0]))
    for observation in program.observations:
        model.observe(**observation)
    assert model.fit(method=program.method, **fit)
    return model


def _random_kernel(rng: np.random.Generator, moving: bool) -> list[tuple[str, dict]]:
    constant = ("Constant", {"var": float(rng.uniform(0.1, 0.6))})
    if not moving:
        return [constant]
    var, lscale = float(rng.uniform(0.3, 0.8)), float(rng.uniform(0.5, 3.0))
    moves = [
        ("Exponential", {"var": var, "lscale": lscale}),
        ("Matern32", {"var": var, "lscale": lscale}),
        ("Matern52", {"var": var, "lscale": lscale}),
        ("Wiener", {"var": 0.1 * var, "t0": -1.5, "var_t0": 0.2}),
        ("Affine", {"var_offset": var, "var_slope": 0.01 * var, "t0": 2.5}),
        ("PiecewiseConstant", {"var": var, "bounds": np.array([2.0, 1.5, 4.0])}),
    ]
    return [moves[rng.integers(len(moves))], constant]


def _teams(rng: np.random.Generator) -> tuple[Any, Any]:
    """Draw two sides: names, line-ups with coefficients, or a home side."""
    people = [str(name) for name in rng.permutation(NAMES[:4])]
    kind = rng.integers(3)
    if kind == 0:
        return [people[0]], (people[1],)
    if kind == 1:
        return {people[0]: 0.5, people[1]: 0.5}, {people[2]: 1.0}
    return [people[0], "home"], [people[1]]


def _outcome(rng: np.random.Generator, kind: str) -> dict[str, Any]:
    other = rng.random() < 0.3
    if kind == "TernaryModel":
        margin = {"margin": float(rng.uniform(0.1, 0.6))} if other else {}
        return {"tie": bool(rng.random() < 0.3), **margin}
    if kind == "DifferenceModel":
        var = {"var": float(rng.uniform(0.5, 3.0))} if other else {}
        return {"diff": float(rng.normal(0.0, 2.0)), **var}
    if kind == "CountModel":
        return {"count": int(rng.poisson(1.5))}
    return {"diff": int(rng.poisson(1.5) - rng.poisson(1.5))} if kind == "CountDiffModel" else {}
