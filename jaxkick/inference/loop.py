"""The loop that takes a method to its fixed point, and says how it ended."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from jaxkick._typing import Array, Bool, Int, Scalar
from jaxkick.inference.acceleration import inner
from jaxkick.inference.ending import Result
from jaxkick.inference.method import AbstractMethod
from jaxkick.inference.moves import Evaluation, LoopState, first_state, move_on
from jaxkick.inference.problem import Problem, ScoreMoments, Sites, cavities_of
from jaxkick.statespace.step import Site

__all__ = [
    "ACCELERATION",
    "LoopResult",
    "Settings",
    "advance",
    "run_to_fixed_point",
]


ACCELERATION = 6
"""How many differences the acceleration remembers, unless asked otherwise; more take memory,
and hardly a step less on the NBA and ATP data."""


class Settings(NamedTuple):
    """When to stop, and how to move.

    Attributes:
        tol: stop when the estimated distance to the fixed point is below this, as the
            largest over all entries, in posterior standard deviations.
        max_steps: stop after so many evaluations.
        depth: differences that the acceleration remembers; 0 switches it off.
    """

    tol: Scalar
    max_steps: Int[Array, ""]
    depth: int


class LoopResult(NamedTuple):
    """Where the loop ended: its last feasible evaluation.

    Attributes:
        sites: the last sites that were evaluated.
        cavities: the cavities of all entries under these sites.
        log_normaliser: the sum of the chains' log-normalisers under these sites.
        observed: what the observations add to the evidence under these sites.
        steps: how many times the method was evaluated.
        distance: the estimate of the distance that was left at the last evaluation.
        damping: the damping in force at the end.
        result: how the loop ended, as a `Result`.
    """

    sites: Sites
    cavities: tuple[ScoreMoments, ...]
    log_normaliser: Scalar
    observed: Scalar
    steps: Int[Array, ""]
    distance: Scalar
    damping: Scalar
    result: Int[Array, ""]


def run_to_fixed_point(
    method: AbstractMethod,
    problem: Problem,
    sites: Sites,
    settings: Settings,
    report: Callable[[int, float], None] | None = None,
) -> LoopResult:
    """Repeat a method's update until the sites stand still.

    An evaluation that leaves the feasible region, or whose residual is much larger than the
    last, is taken back. The method's own step is tried instead, and if it was that step, with
    more damping. When neither residual nor moves have fallen for a while, damping grows too.

    Args:
        method: the update.
        problem: model and data.
        sites: where to start.
        settings: when to stop, and how to move.
        report: called on the host with the number of steps and the distance after each.

    Returns:
        The last sites and how the loop ended.
    """

    def proceed(state: LoopState) -> Bool[Array, ""]:
        return ~state.failed & (state.distance > settings.tol) & (state.steps < settings.max_steps)

    def body(state: LoopState) -> LoopState:
        state = advance(method, problem, state)
        if report is not None:
            jax.debug.callback(report, state.steps, state.distance)
        return state

    end = lax.while_loop(proceed, body, first_state(sites, method.damping, settings.depth))
    result = jnp.where(
        end.failed | ~jnp.isfinite(end.accepted.norm),
        Result.DIVERGED,
        jnp.where(end.distance <= settings.tol, Result.CONVERGED, Result.MAX_STEPS),
    )
    last = end.accepted
    return LoopResult(
        last.sites,
        last.cavities,
        last.log_normaliser,
        last.observed,
        end.steps,
        end.distance,
        end.caution.damping,
        result,
    )


def advance(method: AbstractMethod, problem: Problem, state: LoopState) -> LoopState:
    """One step of the loop: evaluate the method and choose the next sites."""
    smoothed = problem.smooth(state.sites)
    proposal = method.propose(problem, state.sites, smoothed)
    residual = jax.tree.map(jnp.subtract, proposal.sites, state.sites)
    norm = jnp.sqrt(inner(residual, residual))
    cavities = cavities_of(smoothed)
    log_normaliser = sum(chain.log_normaliser for chain in smoothed)
    feasible = _is_feasible(cavities, state.sites) & jnp.isfinite(norm + log_normaliser)
    evaluated = Evaluation(state.sites, residual, norm, cavities, log_normaliser, proposal.observed)
    return move_on(state, evaluated, feasible)


def _is_feasible(cavities: tuple[ScoreMoments, ...], sites: Sites) -> Bool[Array, ""]:
    """Whether all cavities and marginals are proper distributions."""

    def proper(cavity: ScoreMoments, site: Site) -> Bool[Array, ""]:
        spread = (cavity.variance >= 0) & (1.0 + site.precision * cavity.variance > 0)
        return jnp.all(spread & jnp.isfinite(cavity.mean))

    return jnp.all(jnp.stack([proper(*pair) for pair in zip(cavities, sites, strict=True)]))
