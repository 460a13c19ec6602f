"""From one evaluation of a method to the next: accept it or take it back, damp, accelerate."""

from typing import NamedTuple, TypeVar

import jax
import jax.numpy as jnp

from jaxkick._typing import Array, Bool, Float, Int, Scalar
from jaxkick.inference.acceleration import Accelerated, History, accelerate, empty_history
from jaxkick.inference.problem import ScoreMoments, Sites
from jaxkick.statespace.step import Site

__all__ = ["Evaluation", "LoopState", "first_state", "move_on"]

_WINDOW = 5
_BEST_RATE, _WORST_RATE = 0.9, 0.99
_MOST_DAMPING = 0.9999
_PATIENCE = 12
_FIRST_REST = 16
_CALM = 20
_LEAST_FALL = 0.001
_MOST_GROWTH, _MOST_PLAIN_GROWTH = 2.0, 100.0
_MOST_REJECTED = 20
_LEAP, _LEAPS = 1.0, 24
_SWELL = 0.2

Tree = TypeVar("Tree")


class Evaluation(NamedTuple):
    """A method evaluated once.

    Attributes:
        sites: where it was evaluated.
        residual: how far the method would move them, undamped.
        norm: the Euclidean norm of the residual; infinite before the first evaluation.
        cavities: the cavities of all entries under the sites.
        log_normaliser: the sum of the chains' log-normalisers under the sites.
        observed: what the observations add to the evidence under the sites.
    """

    sites: Sites
    residual: Sites
    norm: Scalar
    cavities: tuple[ScoreMoments, ...]
    log_normaliser: Scalar
    observed: Scalar


class Caution(NamedTuple):
    """How carefully the loop goes on.

    Attributes:
        damping: the weight kept on the old sites.
        least: the damping that the method asks for.
        calm: how many steps in a row went well.
        wait: after how many of them damping is tried with less.
        relaxed: whether damping has been lowered since it last had to grow.
        plain: for how many more steps the acceleration rests.
        rest: how long its last rest was.
    """

    damping: Scalar
    least: Scalar
    calm: Int[Array, ""]
    wait: Int[Array, ""]
    relaxed: Bool[Array, ""]
    plain: Int[Array, ""]
    rest: Int[Array, ""]


class LoopState(NamedTuple):
    """Everything that one step hands to the next.

    Attributes:
        sites: where to evaluate next.
        accepted: the last evaluation that was feasible.
        history: what the acceleration remembers, if it is on.
        caution: damping, and whether the acceleration rests.
        moves: how far the marginals moved in the last steps, the latest first.
        distance: the estimate of the distance that is left.
        best: the smallest residual and move so far.
        patience: how many more steps may pass without a better one.
        steps: how many evaluations there were.
        rejected: how many evaluations in a row were taken back.
        failed: whether to give up.
    """

    sites: Sites
    accepted: Evaluation
    history: History | None
    caution: Caution
    moves: Float[Array, " window"]
    distance: Scalar
    best: Float[Array, "2"]
    patience: Int[Array, ""]
    steps: Int[Array, ""]
    rejected: Int[Array, ""]
    failed: Bool[Array, ""]


def first_state(sites: Sites, damping: float | Scalar, depth: int) -> LoopState:
    """The loop before its first step.

    Args:
        sites: where to start.
        damping: the weight kept on the old sites.
        depth: differences that the acceleration remembers; 0 switches it off.
    """
    dtype = sites[0].precision.dtype
    infinite = jnp.asarray(jnp.inf, dtype)
    zeros = jax.tree.map(jnp.zeros_like, sites)
    cavities = tuple(ScoreMoments(site.precision, site.precision) for site in zeros)
    return LoopState(
        sites=sites,
        accepted=Evaluation(zeros, zeros, infinite, cavities, infinite, infinite),
        history=empty_history(sites, depth) if depth else None,
        caution=Caution(
            damping=jnp.asarray(damping, dtype),
            least=jnp.asarray(damping, dtype),
            calm=jnp.zeros((), jnp.int32),
            wait=jnp.asarray(_CALM, jnp.int32),
            relaxed=jnp.zeros((), bool),
            plain=jnp.zeros((), jnp.int32),
            rest=jnp.asarray(_FIRST_REST // 2, jnp.int32),
        ),
        moves=jnp.full((_WINDOW,), jnp.inf, dtype),
        distance=infinite,
        best=jnp.full((2,), jnp.inf, dtype),
        patience=jnp.asarray(_PATIENCE, jnp.int32),
        steps=jnp.zeros((), jnp.int32),
        rejected=jnp.zeros((), jnp.int32),
        failed=jnp.zeros((), bool),
    )


def move_on(state: LoopState, evaluated: Evaluation, feasible: Bool[Array, ""]) -> LoopState:
    """Go on from a good evaluation; take back one that is infeasible or much worse.

    Both ways are computed and one is chosen: a branch would copy the history.
    """
    damping = state.caution.damping
    started = jnp.isfinite(state.accepted.norm)
    accelerated = _was_accelerated(state)
    growth = jnp.where(accelerated, _MOST_GROWTH, _MOST_PLAIN_GROWTH)
    good = feasible & ~(evaluated.norm > growth * state.accepted.norm)
    # As far as the step would have gone without damping, which slows every mode alike.
    largest = _largest_moves(state.accepted, evaluated) / (1.0 - damping)
    largest = jnp.where(started, largest, jnp.inf)
    moved = jnp.max(largest)
    merits = jnp.stack([evaluated.norm, moved])
    better = jnp.any(merits < (1.0 - _LEAST_FALL * (1.0 - damping)) * state.best)
    patience = jnp.where(better & good, _PATIENCE, state.patience - 1)
    stalled = good & (patience <= 0)
    overshot = ~good & started & ~accelerated
    caution = _take_care(state, good, stalled, overshot)
    unsettled = (caution.damping != damping) | (caution.plain > 0) | _is_far(largest, state.steps)
    restart = stalled | ~started | ~good | unsettled
    onward = _look_ahead(state, evaluated, caution.damping, restart)
    accepted = _where(good & _always(onward), evaluated, state.accepted)
    moves = jnp.where(good, jnp.concatenate([moved[None], state.moves[:-1]]), state.moves)
    rejected = jnp.where(good, 0, state.rejected + 1)
    return LoopState(
        sites=_next_sites(accepted, onward, caution.damping),
        accepted=accepted,
        history=None if onward is None else onward.history,
        caution=caution,
        moves=moves,
        distance=jnp.where(good, _distance_left(moves, damping), state.distance),
        best=jnp.where(
            stalled, merits, jnp.where(good, jnp.minimum(merits, state.best), state.best)
        ),
        patience=jnp.where(stalled | overshot, _PATIENCE, patience),
        steps=state.steps + 1,
        rejected=rejected,
        failed=(rejected > _MOST_REJECTED) | (~good & ~started & (state.steps > 0)),
    )


def _take_care(
    state: LoopState,
    good: Bool[Array, ""],
    stalled: Bool[Array, ""],
    overshot: Bool[Array, ""],
) -> Caution:
    """Less trust after trouble: first in the acceleration, then in the method's own steps.

    A stall gives the acceleration a rest, each time twice as long. A stall without it, or a
    plain step that had to be taken back, raises the damping. Damping falls again when enough
    steps in a row went well; where that brought trouble, the next try waits twice as long.
    """
    old = state.caution
    rests = stalled & _was_accelerated(state)
    more = (stalled & ~rests) | overshot
    calm = jnp.where(good & ~stalled, old.calm + 1, 0)
    less = (calm >= old.wait) & (old.damping > old.least)
    most = jnp.maximum(_MOST_DAMPING, old.damping)
    raised = jnp.minimum(0.5 * (1.0 + old.damping), most)
    lowered = jnp.maximum(2.0 * old.damping - 1.0, old.least)
    damping = jnp.where(more, raised, jnp.where(less, lowered, old.damping))
    rest = jnp.where(rests, 2 * old.rest, old.rest)
    return Caution(
        damping=damping,
        least=old.least,
        calm=jnp.where(less, 0, calm),
        wait=jnp.where(more & old.relaxed, 2 * old.wait, old.wait),
        relaxed=less | (old.relaxed & ~more),
        plain=jnp.where(rests, rest, jnp.maximum(old.plain - 1, 0)),
        rest=rest,
    )


def _is_far(largest: Float[Array, "2"], steps: Int[Array, ""]) -> Bool[Array, ""]:
    """Whether steps still leap, by which no later one can be foretold.

    A secant through leaps would throw off what is hardly determined, such as the level that all
    scores share under a wide prior, and no later step would bring it back. While variances stand
    still, steps are nearly linear, and far means are what the acceleration is for.
    """
    mean, variance = largest
    return ~(variance < _SWELL) | ((steps < _LEAPS) & ~(mean < _LEAP))


def _was_accelerated(state: LoopState) -> Bool[Array, ""]:
    """Whether the sites of a step are more than the method's own."""
    return jnp.zeros((), bool) if state.history is None else state.history.count > 0


def _look_ahead(
    state: LoopState, evaluated: Evaluation, damping: Scalar, restart: Bool[Array, ""]
) -> Accelerated | None:
    """The accelerated step from an evaluation, if the acceleration is on."""
    if state.history is None:
        return None

    def difference(new, old):
        # Nothing of an infeasible evaluation may stay in the ring, not even times zero.
        return jnp.where(restart, 0.0, new - old)

    update = _plain_step(evaluated, damping)
    step = jax.tree.map(difference, update, _plain_step(state.accepted, damping))
    change = jax.tree.map(difference, evaluated.residual, state.accepted.residual)
    return accelerate(state.history, step, change, update, evaluated.residual, restart)


def _always(onward: Accelerated | None) -> Bool[Array, ""]:
    """True, but only when the step ahead is known.

    A choice that waits for it is made when all else has read the old values. XLA then
    overwrites them where they stand; else it would first copy them all.
    """
    return jnp.ones((), bool) if onward is None else ~(onward.total > jnp.inf)


def _next_sites(accepted: Evaluation, onward: Accelerated | None, damping: Scalar) -> Sites:
    """Where to evaluate next: the accelerated sites, or else the method's own step."""
    plain = _plain_step(accepted, damping)
    if onward is None:
        return plain
    return _where(onward.failed, plain, _keep_positive(onward.following, accepted))


def _where(chosen: Bool[Array, ""], first: Tree, second: Tree) -> Tree:
    return jax.tree.map(lambda a, b: jnp.where(chosen, a, b), first, second)


def _plain_step(accepted: Evaluation, damping: Scalar) -> Sites:
    return jax.tree.map(lambda z, f: z + (1.0 - damping) * f, accepted.sites, accepted.residual)


def _keep_positive(sites: Sites, accepted: Evaluation) -> Sites:
    """Precisions of the accelerated sites, kept above a tenth of what the method proposed."""

    def keep(site: Site, old: Site, residual: Site) -> Site:
        proposed = old.precision + residual.precision
        floor = jnp.where(proposed > 0, 0.1 * proposed, proposed)
        return Site(site.precision_mean, jnp.maximum(site.precision, floor))

    rows = zip(sites, accepted.sites, accepted.residual, strict=True)
    return tuple(keep(*row) for row in rows)


def _largest_moves(before: Evaluation, now: Evaluation) -> Float[Array, "2"]:
    """How far any marginal moved: means in standard deviations, variances relatively.

    A marginal is (μ + ν v) / k and v / k, with μ and v its cavity, ν and τ its site and
    k = 1 + τ v. Written out with few quotients, so that XLA makes one pass of each maximum and
    stores nothing between.
    """

    def largest(
        old: ScoreMoments, old_site: Site, new: ScoreMoments, site: Site
    ) -> Float[Array, "2"]:
        k, old_k = 1.0 + site.precision * new.variance, 1.0 + old_site.precision * old.variance
        old_mean = (old.mean + old_site.precision_mean * old.variance) / old_k
        rise = new.mean + site.precision_mean * new.variance - k * old_mean
        mean = jnp.square(rise) / (k * new.variance)
        variance = jnp.square(1.0 - (old.variance / old_k) * (k / new.variance))
        # A score that is known stays so.
        known = ~(new.variance > 0)
        return jnp.stack([jnp.max(jnp.where(known, 0.0, part)) for part in (mean, variance)])

    chains = zip(before.cavities, before.sites, now.cavities, now.sites, strict=True)
    return jnp.sqrt(jnp.max(jnp.stack([largest(*chain) for chain in chains]), axis=0))


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
