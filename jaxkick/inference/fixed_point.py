"""The fixed point of an inference method: means by Newton's method, precisions by sweeps.

The means of all scores are coupled: over the levels of pools, and through effects that matches
share. Sweeping over sites finds them slowly, so each iteration solves for them instead, with
conjugate gradients (`jaxkick.inference.conjugate_gradients`). Precisions settle in a few sweeps.

One iteration, from the sites (ν, τ):

1. A smoothing pass gives the cavities, and the method a Gaussian factor on every score f.
2. The joint means s under these factors, hence the pull of every factor at its new mean.
3. New precisions τ by the method's rule at these means, and ν = x pull + τ s, so that the next
   pass finds these means again.

The iteration ends when the next move, known from 2 and 3, is small enough to skip.

From a cold start, the first iteration sets precisions only: without them, the smoother is a
poor preconditioner.

Three safeguards begin when moves stop shrinking. Linear systems are solved until the bound on
the error, not only an estimate, is small. Where a score has moved so far that its factor's pull
changed by more than the curvature says, the curvature is that of the secant. Precisions that
overshoot are damped by the secant rule, each by itself: an entry whose change is −r times the
last one takes 1 / (1 + r) of its step.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from jaxkick._typing import Array, Bool, Float, Int, Scalar
from jaxkick.chains.step import Site
from jaxkick.inference.conjugate_gradients import Entries, solve_means
from jaxkick.inference.methods import AbstractMethod, Linearization
from jaxkick.inference.problem import Problem, ScoreMoments, Sites, add_sites, cavities_of
from jaxkick.inference.status import Status

__all__ = ["LoopResult", "Settings", "plain_update", "run_to_fixed_point"]

# The share of the tolerance for the error of the means.
_MEAN_SHARE = 0.4
# Moves that shrink by less than this factor start the safeguards.
_SHRINKING = 0.9
# Damping: the smallest step of a precision.
_LEAST_STEP = 0.1
# The factor by which moves are assumed to shrink lies between these two.
_BEST_RATE, _WORST_RATE = 0.5, 0.98
# The factor assumed before two moves are known.
_UNKNOWN_RATE = 0.75
_WINDOW = 3
_MOST_REJECTED = 20


class Settings(NamedTuple):
    """Stopping rule.

    Attributes:
        tol: stop when the estimated distance to the fixed point is below this, as the
            largest over all marginals, in posterior standard deviations.
        max_steps: stop after so many iterations.
    """

    tol: Scalar
    max_steps: Int[Array, ""]


class LoopResult(NamedTuple):
    """The last feasible evaluation of the method.

    Attributes:
        sites: the sites.
        cavities: the cavities of all entries under these sites.
        log_normaliser: the sum of the chains' log-normalisers under these sites.
        observed: the observations' contribution to the log evidence under these sites.
        steps: the number of iterations.
        distance: the estimated distance to the fixed point.
        status: a `Status`.
    """

    sites: Sites
    cavities: tuple[ScoreMoments, ...]
    log_normaliser: Scalar
    observed: Scalar
    steps: Int[Array, ""]
    distance: Scalar
    status: Int[Array, ""]


class _Evaluation(NamedTuple):
    """The sites of an iteration, and what the smoothing pass found."""

    sites: Sites
    cavities: tuple[ScoreMoments, ...]
    log_normaliser: Scalar
    observed: Scalar


class _State(NamedTuple):
    """The state of the loop between two iterations.

    Attributes:
        sites: where to evaluate next.
        accepted: the last feasible evaluation.
        score: the marginal mean of every observation's score there.
        pull: the pull of its factor there.
        curvature: the curvature that the last step was taken with.
        surplus: the last undamped change of every precision, in float32 to save memory.
        step: the part of it that was taken, likewise.
        taken: the same for all precisions together.
        mean_error: an upper bound on the error of the means of `sites`.
        moves: the last distances that marginals moved, the latest first.
        distance: the estimated distance of `accepted` to the fixed point.
        steps: the number of evaluations.
        careful: whether safeguards are in use.
        rejected: the number of evaluations in a row that were infeasible.
    """

    sites: Sites
    accepted: _Evaluation
    score: Float[Array, " N"]
    pull: Float[Array, " N"]
    curvature: Float[Array, " N"]
    surplus: Entries
    step: Entries
    taken: Scalar
    mean_error: Scalar
    moves: Float[Array, " window"]
    distance: Scalar
    steps: Int[Array, ""]
    careful: Bool[Array, ""]
    rejected: Int[Array, ""]


def run_to_fixed_point(
    method: AbstractMethod,
    problem: Problem,
    sites: Sites,
    settings: Settings,
    report: Callable[[int, float], None] | None = None,
) -> LoopResult:
    """Iterate until the marginals stop moving.

    Args:
        method: the inference method.
        problem: model and data.
        sites: where to start.
        settings: when to stop.
        report: called on the host with the number of steps and the distance after each.
    """

    def proceed(state: _State) -> Bool[Array, ""]:
        return (
            ~(state.distance <= settings.tol)
            & (state.steps < settings.max_steps)
            & (state.rejected <= _MOST_REJECTED)
        )

    def body(state: _State) -> _State:
        state = _iterate(method, problem, state, settings.tol)
        if report is not None:
            jax.debug.callback(report, state.steps, state.distance)
        return state

    end = lax.while_loop(proceed, body, _first_state(problem, problem.masked_sites(sites)))
    failed = (end.rejected > _MOST_REJECTED) | ~jnp.isfinite(end.accepted.log_normaliser)
    status = jnp.where(
        failed,
        Status.DIVERGED,
        jnp.where(end.distance <= settings.tol, Status.CONVERGED, Status.MAX_STEPS),
    )
    return LoopResult(*end.accepted, end.steps, end.distance, status)


def _first_state(problem: Problem, sites: Sites) -> _State:
    dtype = sites[0].precision.dtype
    infinite = jnp.asarray(jnp.inf, dtype)
    zeros = tuple(jnp.zeros_like(site.precision) for site in sites)
    cavities = tuple(ScoreMoments(zero, zero) for zero in zeros)
    return _State(
        sites=sites,
        accepted=_Evaluation(
            tuple(Site(zero, zero) for zero in zeros), cavities, infinite, infinite
        ),
        score=jnp.zeros_like(problem.coefficients[0]),
        pull=jnp.zeros_like(problem.coefficients[0]),
        curvature=jnp.zeros_like(problem.coefficients[0]),
        surplus=_narrowed(zeros),
        step=_narrowed(tuple(jnp.ones_like(zero) for zero in zeros)),
        taken=jnp.ones((), dtype),
        mean_error=jnp.zeros((), dtype),
        moves=jnp.full((_WINDOW + 1,), jnp.inf, dtype),
        distance=infinite,
        steps=jnp.zeros((), jnp.int32),
        careful=jnp.zeros((), bool),
        rejected=jnp.zeros((), jnp.int32),
    )


def _iterate(method: AbstractMethod, problem: Problem, state: _State, tol: Scalar) -> _State:
    """Evaluate the sites and choose the next ones."""
    sites = state.sites
    smoothed = problem.find_cavities(sites)
    cavities = cavities_of(smoothed)
    linear = _steepen(problem, method.linearize(problem, cavities, sites), state)
    log_normaliser = sum(chain.log_normaliser for chain in smoothed)
    evaluation = _Evaluation(sites, cavities, log_normaliser, linear.observed)
    feasible = _is_feasible(cavities, sites) & jnp.isfinite(log_normaliser + linear.observed)
    moves = jnp.concatenate([_largest_move(state.accepted, evaluation)[None], state.moves[:-1]])
    undamped = (1.0 - method.damping) * state.taken
    rate = _slowest_rate(moves, undamped)
    # A step leaves the rest of a geometric series, and what damping kept of the step itself.
    kept = 1.0 - undamped * (1.0 - rate)
    distance = moves[0] / undamped * kept / (1.0 - rate) + state.mean_error
    careful = state.careful | (jnp.isfinite(moves[1]) & (moves[0] > _SHRINKING * moves[1]))
    marginals = add_sites(cavities, sites)
    cold = (state.steps == 0) & ~_any_precision(sites)
    # In the last iteration there is nothing to solve for.
    solve = feasible & ~(distance <= tol) & ~cold
    mean = solve_means(
        problem,
        smoothed,
        sites,
        marginals,
        linear.curvature,
        _residual(problem, linear, sites, marginals),
        jnp.where(solve, _MEAN_SHARE * tol, -1.0),
        _rough_above((1.0 - _MEAN_SHARE) * tol, rate, moves[0]),
        careful,
    )
    second = method.second_after(problem, linear, problem.combine(mean.change))
    proposed = _precisions(method, problem, second, cavities)
    precisions, surplus, step = _take_steps(
        proposed, sites, state.surplus, jnp.where(careful, _LEAST_STEP, 1.0), state.step
    )
    # The next move, before it is made: this is the distance if later moves add little.
    ahead = jnp.maximum(mean.size, _relative_change(sites, surplus))
    next_rate = _slowest_rate(jnp.concatenate([ahead[None] * undamped, moves]), undamped)
    foreseen = jnp.where(solve, ahead / (1.0 - next_rate) + mean.error, jnp.inf)
    distance = jnp.minimum(distance, foreseen)
    taken = _taken(cavities, surplus, step)
    following = _next_sites(problem, linear, precisions, cavities, sites, mean.change)
    following = tuple(
        Site(jnp.where(cold, 0.0, site.precision_mean), site.precision) for site in following
    )
    following = jax.tree.map(lambda new, old: new + method.damping * (old - new), following, sites)

    def choose(new, old):
        return jax.tree.map(lambda a, b: jnp.where(feasible, a, b), new, old)

    # From infeasible sites, go back halfway to the last feasible ones.
    halfway = jax.tree.map(lambda a, b: 0.5 * (a + b), sites, state.accepted.sites)
    started = jnp.isfinite(state.accepted.log_normaliser)
    return _State(
        sites=choose(following, halfway),
        accepted=choose(evaluation, state.accepted),
        score=choose(linear.score, state.score),
        pull=choose(linear.pull, state.pull),
        curvature=choose(linear.curvature, state.curvature),
        surplus=choose(_narrowed(surplus), state.surplus),
        step=choose(_narrowed(step), state.step),
        taken=jnp.where(feasible, taken, state.taken),
        mean_error=mean.error,
        moves=choose(moves, state.moves),
        distance=jnp.where(feasible, distance, state.distance),
        steps=state.steps + 1,
        careful=careful,
        rejected=jnp.where(feasible, 0, jnp.where(started, state.rejected + 1, _MOST_REJECTED + 1)),
    )


def _steepen(problem: Problem, linear: Linearization, state: _State) -> Linearization:
    """Take the curvature of the secant if that of the last step was too small."""
    move = linear.score - state.score
    started = state.careful & (move != 0)
    if problem.relative_rows is not None:
        # There the other scores of the event change the pull, too.
        started &= ~problem.relative_rows
    secant = jnp.where(started, (state.pull - linear.pull) / jnp.where(started, move, 1.0), 0.0)
    secant = jnp.where(secant > state.curvature, secant, 0.0)
    return linear._replace(curvature=jnp.maximum(jnp.maximum(linear.curvature, secant), 0.0))


def plain_update(method: AbstractMethod, problem: Problem, sites: Sites) -> Sites:
    """One sweep of the method without damping, which leaves the fixed point where it is."""
    cavities = cavities_of(problem.find_cavities(sites))
    linear = method.linearize(problem, cavities, sites)
    still = tuple(jnp.zeros_like(site.precision) for site in sites)
    return _next_sites(
        problem,
        linear,
        _precisions(method, problem, linear.second, cavities),
        cavities,
        sites,
        still,
    )


def _precisions(
    method: AbstractMethod,
    problem: Problem,
    second: Float[Array, " N"],
    cavities: tuple[ScoreMoments, ...],
) -> Entries:
    """The method's precision of every site, from `Linearization.second`."""
    return tuple(
        method.site_precision(
            cavity.variance,
            problem.entry_coefficients[chain],
            problem.at_entries(second, chain),
        )
        for chain, cavity in enumerate(cavities)
    )


def _next_sites(
    problem: Problem,
    linear: Linearization,
    precisions: Entries,
    cavities: tuple[ScoreMoments, ...],
    sites: Sites,
    change: Entries,
) -> Sites:
    """The sites with given precisions under which means have changed by `change`."""
    moved = problem.curve(linear.curvature, problem.combine(change))
    pulls = problem.distribute(linear.pull - moved)
    marginals = add_sites(cavities, sites)
    return tuple(
        Site(pull + precision * (marginal.mean + moved), precision)
        for pull, precision, marginal, moved in zip(
            pulls, precisions, marginals, change, strict=True
        )
    )


def _narrowed(entries: Entries) -> Entries:
    return tuple(x.astype(jnp.float32) for x in entries)


def _take_steps(
    proposed: Entries, sites: Sites, surplus: Entries, least: Scalar, step: Entries
) -> tuple[Entries, Entries, Entries]:
    """Damp precisions that overshoot, each by itself.

    Args:
        proposed: the precisions that the method proposes.
        sites: the current sites.
        surplus: the last undamped change of every precision.
        least: the smallest part of a change to take; 1 for no damping.
        step: the part of the last change that was taken.

    Returns:
        The next precisions, their undamped changes, and the parts of them that were taken.
    """

    def take(proposed: Array, site: Site, surplus: Array, step: Array) -> tuple:
        change = proposed - site.precision
        surplus, step = surplus.astype(change.dtype), step.astype(change.dtype)
        # The secant rule for a fixed point of one variable, without overrelaxation.
        ratio = jnp.where(surplus == 0, 0.0, change / jnp.where(surplus == 0, 1.0, surplus))
        part = jnp.clip(step / (1.0 - jnp.minimum(ratio, 0.5)), least, 1.0)
        return site.precision + part * change, change, part

    rows = zip(proposed, sites, surplus, step, strict=True)
    precisions, changes, parts = zip(*(take(*row) for row in rows), strict=True)
    return precisions, changes, parts


def _residual(
    problem: Problem, linear: Linearization, sites: Sites, marginals: tuple[ScoreMoments, ...]
) -> Entries:
    """The pull of the observations on every entry less that of the sites."""
    rows = zip(problem.distribute(linear.pull), sites, marginals, strict=True)
    return tuple(
        pull - (site.precision_mean - site.precision * marginal.mean)
        for pull, site, marginal in rows
    )


def _any_precision(sites: Sites) -> Bool[Array, ""]:
    return jnp.any(jnp.stack([jnp.any(site.precision != 0) for site in sites]))


def _is_feasible(cavities: tuple[ScoreMoments, ...], sites: Sites) -> Bool[Array, ""]:
    """Return whether all cavities and marginals are proper distributions."""

    def proper(cavity: ScoreMoments, site: Site) -> Bool[Array, ""]:
        positive = (cavity.variance >= 0) & (1.0 + site.precision * cavity.variance > 0)
        return jnp.all(positive & jnp.isfinite(cavity.mean))

    return jnp.all(jnp.stack([proper(*pair) for pair in zip(cavities, sites, strict=True)]))


def _largest_move(before: _Evaluation, now: _Evaluation) -> Scalar:
    """The largest move of any marginal: means in standard deviations, variances relatively.

    A marginal is (μ + ν v) / k and v / k, with μ and v its cavity, ν and τ its site and
    k = 1 + τ v. Written out with few quotients, so that XLA makes one pass of each maximum and
    stores nothing between.
    """

    def largest(old: ScoreMoments, old_site: Site, new: ScoreMoments, site: Site) -> Scalar:
        k, old_k = 1.0 + site.precision * new.variance, 1.0 + old_site.precision * old.variance
        old_mean = (old.mean + old_site.precision_mean * old.variance) / old_k
        rise = new.mean + site.precision_mean * new.variance - k * old_mean
        mean = jnp.square(rise) / (k * new.variance)
        variance = jnp.square(1.0 - (old.variance / old_k) * (k / new.variance))
        # A known score stays known.
        return jnp.max(jnp.where(new.variance > 0, jnp.maximum(mean, variance), 0.0))

    chains = zip(before.cavities, before.sites, now.cavities, now.sites, strict=True)
    move = jnp.sqrt(jnp.max(jnp.stack([largest(*chain) for chain in chains])))
    return jnp.where(jnp.isfinite(before.log_normaliser), move, jnp.inf)


def _taken(cavities: tuple[ScoreMoments, ...], surplus: Entries, step: Entries) -> Scalar:
    """The part of all changes of precisions that was taken, relative to their size."""
    rows = list(zip(cavities, surplus, step, strict=True))
    whole = sum(jnp.sum(cavity.variance * jnp.abs(change)) for cavity, change, _ in rows)
    part = sum(jnp.sum(cavity.variance * jnp.abs(change) * part) for cavity, change, part in rows)
    return jnp.where(whole > 0, part / jnp.where(whole > 0, whole, 1.0), 1.0)


def _slowest_rate(moves: Float[Array, " window"], undamped: Scalar) -> Scalar:
    """The factor by which moves shrink: the slowest lately.

    Damping slows every mode alike, so the rate is the one without it.

    Args:
        moves: the last moves, the latest first.
        undamped: the part of the last step that damping left.
    """
    known = jnp.isfinite(moves[1:]) & (moves[1:] > 0)
    ratios = moves[:-1] / jnp.where(known, moves[1:], 1.0)
    slowest = jnp.max(jnp.where(known, 1.0 - (1.0 - ratios) / undamped, -jnp.inf))
    rate = jnp.where(jnp.any(known), slowest, _UNKNOWN_RATE)
    return jnp.clip(rate, _BEST_RATE, _WORST_RATE)


def _rough_above(tol: Scalar, rate: Scalar, last: Scalar) -> Scalar:
    """The size of a move after which another one will be needed.

    After a move of size d, what is left is d r / (1 − r). The rate r is at least `rate`, and at
    least the quotient of d and the last move.
    """
    by_ratio = 2.0 * tol / (tol / last + jnp.sqrt((tol / last) ** 2 + 4.0 * tol / last))
    by_ratio = jnp.where(last > 0, by_ratio, 0.0)
    return jnp.minimum(tol * (1.0 - rate) / rate, jnp.where(jnp.isfinite(last), by_ratio, jnp.inf))


def _relative_change(sites: Sites, surplus: Entries) -> Scalar:
    """The largest relative change of a precision, which no variance exceeds by far."""

    def largest(site: Site, change: Array) -> Scalar:
        known = site.precision > 0
        relative = jnp.abs(change) / jnp.where(known, site.precision, 1.0)
        return jnp.max(jnp.where(known, relative, jnp.where(change == 0, 0.0, jnp.inf)))

    return jnp.max(jnp.stack([largest(*each) for each in zip(sites, surplus, strict=True)]))
