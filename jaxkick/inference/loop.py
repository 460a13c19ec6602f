"""The loop that takes a method to its fixed point, and says how it ended."""

import enum
from collections.abc import Callable
from typing import NamedTuple, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax

from jaxkick._typing import Array, Bool, Float, Int, Scalar
from jaxkick.inference.acceleration import (
    History,
    accelerate,
    empty_history,
    inner,
    remember,
)
from jaxkick.inference.method import AbstractMethod
from jaxkick.inference.problem import Problem, ScoreMoments, Sites, add_sites, cavities_of
from jaxkick.statespace.step import Site

__all__ = [
    "LoopResult",
    "LoopState",
    "Result",
    "Settings",
    "advance",
    "begin",
    "run_to_fixed_point",
]

_WINDOW = 5
_BEST_RATE, _WORST_RATE = 0.9, 0.99
_MOST_DAMPING = 0.999
_PATIENCE = 12
_LEAST_FALL = 0.001
_MOST_GROWTH, _MOST_PLAIN_GROWTH = 2.0, 100.0
_MOST_REJECTED = 12

Tree = TypeVar("Tree")


class Result(enum.IntEnum):
    """How inference ended."""

    CONVERGED = 0
    MAX_STEPS = 1
    DIVERGED = 2


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
        steps: how many times the method was evaluated.
        distance: the estimate of the distance that was left at the last evaluation.
        damping: the damping in force at the end.
        result: how the loop ended, as a `Result`.
    """

    sites: Sites
    cavities: tuple[ScoreMoments, ...]
    log_normaliser: Scalar
    steps: Int[Array, ""]
    distance: Scalar
    damping: Scalar
    result: Int[Array, ""]


class _Accepted(NamedTuple):
    """The last evaluation that was feasible."""

    sites: Sites
    residual: Sites
    norm: Scalar
    cavities: tuple[ScoreMoments, ...]
    log_normaliser: Scalar


class LoopState(NamedTuple):
    """Everything that one step hands to the next."""

    sites: Sites
    accepted: _Accepted
    history: History | None
    damping: Scalar
    moves: Float[Array, " window"]
    distance: Scalar
    best: Float[Array, "2"]
    patience: Int[Array, ""]
    steps: Int[Array, ""]
    rejected: Int[Array, ""]
    failed: Bool[Array, ""]


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

    end = lax.while_loop(proceed, body, begin(method, problem, sites, settings.depth))
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
        end.steps,
        end.distance,
        end.damping,
        result,
    )


def begin(method: AbstractMethod, problem: Problem, sites: Sites, depth: int) -> LoopState:
    """The loop before its first step.

    Args:
        method: the update.
        problem: model and data.
        sites: where to start.
        depth: differences that the acceleration remembers; 0 switches it off.
    """
    dtype = problem.data.coefficients.dtype
    infinite = jnp.asarray(jnp.inf, dtype)
    zeros = jax.tree.map(jnp.zeros_like, sites)
    cavities = tuple(ScoreMoments(site.precision, site.precision) for site in zeros)
    return LoopState(
        sites=sites,
        accepted=_Accepted(zeros, zeros, infinite, cavities, infinite),
        history=empty_history(sites, depth) if depth else None,
        damping=jnp.asarray(method.damping, dtype),
        moves=jnp.full((_WINDOW,), jnp.inf, dtype),
        distance=infinite,
        best=jnp.full((2,), jnp.inf, dtype),
        patience=jnp.asarray(_PATIENCE, jnp.int32),
        steps=jnp.zeros((), jnp.int32),
        rejected=jnp.zeros((), jnp.int32),
        failed=jnp.zeros((), bool),
    )


def advance(method: AbstractMethod, problem: Problem, state: LoopState) -> LoopState:
    """One step of the loop: evaluate the method and choose the next sites."""
    smoothed = problem.smooth(state.sites)
    proposal = method.propose(problem, state.sites, smoothed)
    residual = jax.tree.map(jnp.subtract, proposal, state.sites)
    norm = jnp.sqrt(inner(residual, residual))
    cavities = cavities_of(smoothed)
    log_normaliser = sum(chain.log_normaliser for chain in smoothed)
    feasible = _is_feasible(cavities, state.sites) & jnp.isfinite(norm)
    evaluated = _Accepted(state.sites, residual, norm, cavities, log_normaliser)
    return _move_on(state, evaluated, feasible)


def _is_feasible(cavities: tuple[ScoreMoments, ...], sites: Sites) -> Bool[Array, ""]:
    """Whether all cavities and marginals are proper distributions."""

    def proper(cavity: ScoreMoments, site: Site) -> Bool[Array, ""]:
        spread = (cavity.variance >= 0) & (1.0 + site.precision * cavity.variance > 0)
        return jnp.all(spread & jnp.isfinite(cavity.mean))

    return jnp.all(jnp.stack([proper(*pair) for pair in zip(cavities, sites, strict=True)]))


def _move_on(state: LoopState, evaluated: _Accepted, feasible: Bool[Array, ""]) -> LoopState:
    """Go on from a good evaluation; take back one that is infeasible or much worse.

    Both ways are computed and one is chosen: a branch would copy the history.
    """
    started = jnp.isfinite(state.accepted.norm)
    accelerated = _was_accelerated(state)
    growth = jnp.where(accelerated, _MOST_GROWTH, _MOST_PLAIN_GROWTH)
    good = feasible & ~(evaluated.norm > growth * state.accepted.norm)
    # As far as the step would have gone without damping, which slows every mode alike.
    moved = _largest_move(state.accepted, evaluated) / (1.0 - state.damping)
    moved = jnp.where(started, moved, jnp.inf)
    merits = jnp.stack([evaluated.norm, moved])
    better = jnp.any(merits < (1.0 - _LEAST_FALL * (1.0 - state.damping)) * state.best)
    patience = jnp.where(better & good, _PATIENCE, state.patience - 1)
    stalled = good & (patience <= 0)
    more = stalled | (~good & started & ~accelerated)
    most = jnp.maximum(_MOST_DAMPING, state.damping)
    damping = jnp.where(more, jnp.minimum(0.5 * (1.0 + state.damping), most), state.damping)
    restart = stalled | ~started | ~good
    history = _extend(state, evaluated, damping, restart)
    moves = jnp.where(good, jnp.concatenate([moved[None], state.moves[:-1]]), state.moves)
    rejected = jnp.where(good, 0, state.rejected + 1)
    return LoopState(
        sites=_where(
            good,
            _next_sites(history, evaluated, damping),
            _plain_step(state.accepted, damping),
        ),
        accepted=_where(good, evaluated, state.accepted),
        history=history,
        damping=damping,
        moves=moves,
        distance=jnp.where(good, _distance_left(moves, state.damping), state.distance),
        best=jnp.where(
            stalled, merits, jnp.where(good, jnp.minimum(merits, state.best), state.best)
        ),
        patience=jnp.where(more, _PATIENCE, patience),
        steps=state.steps + 1,
        rejected=rejected,
        failed=(rejected > _MOST_REJECTED) | (~good & ~started & (state.steps > 0)),
    )


def _was_accelerated(state: LoopState) -> Bool[Array, ""]:
    """Whether the sites of a step are more than the method's own."""
    return jnp.zeros((), bool) if state.history is None else state.history.count > 0


def _next_sites(history: History | None, evaluated: _Accepted, damping: Scalar) -> Sites:
    update = _plain_step(evaluated, damping)
    if history is None:
        return update
    return _keep_positive(accelerate(history, update, evaluated.residual), evaluated)


def _where(chosen: Bool[Array, ""], first: Tree, second: Tree) -> Tree:
    return jax.tree.map(lambda a, b: jnp.where(chosen, a, b), first, second)


def _plain_step(accepted: _Accepted, damping: Scalar) -> Sites:
    return jax.tree.map(lambda z, f: z + (1.0 - damping) * f, accepted.sites, accepted.residual)


def _extend(
    state: LoopState, evaluated: _Accepted, damping: Scalar, restart: Bool[Array, ""]
) -> History | None:
    """The history with the latest differences, or an empty one."""
    if state.history is None:
        return None

    def difference(new, old):
        # Nothing of an infeasible evaluation may stay in the ring, not even times zero.
        return jnp.where(restart, 0.0, new - old)

    change = jax.tree.map(difference, evaluated.residual, state.accepted.residual)
    update = jax.tree.map(
        difference, _plain_step(evaluated, damping), _plain_step(state.accepted, damping)
    )
    history = remember(state.history, update, change)
    return eqx.tree_at(lambda h: h.count, history, jnp.where(restart, 0, history.count))


def _keep_positive(sites: Sites, evaluated: _Accepted) -> Sites:
    """Precisions of the accelerated sites, kept above a tenth of what the method proposed."""

    def keep(site: Site, old: Site, residual: Site) -> Site:
        proposed = old.precision + residual.precision
        floor = jnp.where(proposed > 0, 0.1 * proposed, proposed)
        return Site(site.precision_mean, jnp.maximum(site.precision, floor))

    rows = zip(sites, evaluated.sites, evaluated.residual, strict=True)
    return tuple(keep(*row) for row in rows)


def _largest_move(before: _Accepted, now: _Accepted) -> Scalar:
    """How far any marginal moved: means in standard deviations, variances relatively."""

    def largest(old: ScoreMoments, new: ScoreMoments) -> Scalar:
        positive = new.variance > 0
        precision = jnp.where(positive, 1.0 / jnp.where(positive, new.variance, 1.0), 0.0)
        mean = jnp.square(new.mean - old.mean) * precision
        spread = jnp.square((new.variance - old.variance) * precision)
        return jnp.max(jnp.maximum(mean, spread))

    pairs = zip(
        add_sites(before.cavities, before.sites), add_sites(now.cavities, now.sites), strict=True
    )
    return jnp.sqrt(jnp.max(jnp.stack([largest(*pair) for pair in pairs])))


def _distance_left(moves: Float[Array, " window"], damping: Scalar) -> Scalar:
    """What is left to go if moves keep shrinking as they did: the rest of a geometric series.

    Early moves shrink fast while slow modes are still hidden behind them, so that the rate is
    never taken to be better than `_BEST_RATE`.
    """
    rate = jnp.power(moves[0] / moves[-1], 1.0 / (_WINDOW - 1))
    # The rate without damping, which slows every mode alike.
    rate = 1.0 - (1.0 - rate) / (1.0 - damping)
    rate = jnp.where(jnp.isfinite(moves[-1]), jnp.clip(rate, _BEST_RATE, _WORST_RATE), _WORST_RATE)
    recent = jnp.maximum(moves[0], moves[1])
    return jnp.where(recent == 0, 0.0, recent * rate / (1.0 - rate))
