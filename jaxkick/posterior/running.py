"""Inference as a compiled program: what may change without another compilation is an array."""

import sys
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp

from jaxkick._tracing import is_known
from jaxkick._typing import Array, Bool
from jaxkick.dataset.dataset import Dataset
from jaxkick.inference.loop import ACCELERATION, Settings
from jaxkick.inference.method import AbstractMethod
from jaxkick.inference.problem import Sites, make_problem
from jaxkick.inference.solve import Solution, solve
from jaxkick.model import Model
from jaxkick.statespace.smoother import States

__all__ = ["end_line", "keep_states", "run"]


def run(
    model: Model,
    data: Dataset,
    method: AbstractMethod,
    start: Sites | None,
    active: Bool[Array, " N"] | None,
    tol: float,
    max_steps: int,
    acceleration: int = ACCELERATION,
    report: Callable[[int, float], None] | None = None,
) -> Solution:
    """Find the fixed point; see `infer` for the arguments.

    Names and times are left out, so that a compiled program serves all data of one shape.
    """
    dtype = data.coefficients.dtype
    settings = Settings(jnp.asarray(tol, dtype), jnp.asarray(max_steps, jnp.int32), acceleration)
    compiled = eqx.tree_at(lambda m: m.damping, method, jnp.asarray(method.damping, dtype))
    return _solve(model, data.without_index(), compiled, start, active, settings, report)


def end_line(progress: object, solution: Solution) -> None:
    """End the line on the error stream that shows the progress, if there is one."""
    if progress is True and is_known(solution.result):
        jax.effects_barrier()
        sys.stderr.write("\n")


def keep_states(model: Model, data: Dataset, sites: Sites) -> tuple[States, ...]:
    """What the smoother keeps for predictions, chain by chain."""
    return _keep_states(model, data.without_index(), sites)


_solve = eqx.filter_jit(solve)


@eqx.filter_jit
def _keep_states(model: Model, data: Dataset, sites: Sites) -> tuple[States, ...]:
    smoothed = make_problem(model, data).smooth(sites, keep_states=True)
    return tuple(chain.states for chain in smoothed)
