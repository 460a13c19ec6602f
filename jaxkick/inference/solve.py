"""From model and data to the posterior's arrays: the compiled heart of `infer`."""

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jax.scipy.sparse.linalg import gmres

from jaxkick._typing import Array, Bool, Float, Int, Scalar
from jaxkick.dataset.dataset import Dataset
from jaxkick.inference.acceleration import inner
from jaxkick.inference.evidence import log_evidence
from jaxkick.inference.loop import (
    LoopResult,
    Settings,
    run_to_fixed_point,
)
from jaxkick.inference.method import AbstractMethod
from jaxkick.inference.problem import (
    Problem,
    ScoreMoments,
    Sites,
    add_sites,
    cavities_of,
    entry_means,
    make_problem,
)
from jaxkick.model import Model

__all__ = ["Solution", "fixed_point", "solve"]

# How much of a right-hand side a derivative through the fixed point may leave unexplained.
_LARGEST_REST = 1e-3


class Solution(NamedTuple):
    """Where inference ended; see `jaxkick.Posterior` for the fields."""

    sites: Sites
    entries: tuple[ScoreMoments, ...]
    observations: ScoreMoments
    log_marginal_likelihood: Scalar
    steps: Int[Array, ""]
    distance: Scalar
    damping: Scalar
    result: Int[Array, ""]


def solve(
    model: Model,
    data: Dataset,
    method: AbstractMethod,
    start: Sites | None,
    active: Bool[Array, " N"] | None,
    settings: Settings,
    report: Callable[[int, float], None] | None,
) -> Solution:
    """Run a method to its fixed point and read off the posterior there.

    Args:
        model: kernels and likelihood.
        data: the encoded observations.
        method: how to approximate the posterior.
        start: sites to start from; those that say nothing if `None`.
        active: which observations count; all of them if `None`.
        settings: when to stop, and how to move.
        report: called on the host after every step, if given.

    Returns:
        The posterior's arrays, and how the loop ended.
    """
    problem = make_problem(model, data, active)
    start = problem.no_sites() if start is None else start
    end = fixed_point(problem, method, start, settings, report)
    entries = add_sites(end.cavities, end.sites)
    return Solution(
        sites=end.sites,
        entries=_with_means(entries, entry_means(model, data)),
        observations=_unpadded(problem.to_observations(entries), data.outcome.shape[0]),
        log_marginal_likelihood=log_evidence(problem, method, end),
        steps=end.steps,
        distance=end.distance,
        damping=end.damping,
        result=end.result,
    )


def _with_means(
    entries: tuple[ScoreMoments, ...], means: tuple[Float[Array, "C R"], ...] | None
) -> tuple[ScoreMoments, ...]:
    """The moments of scores, from those of their processes with mean zero."""
    if means is None:
        return entries
    pairs = zip(entries, means, strict=True)
    return tuple(entry._replace(mean=entry.mean + mean) for entry, mean in pairs)


def _unpadded(observations: ScoreMoments, count: int) -> ScoreMoments:
    """The moments of the user's own observations."""
    return ScoreMoments(observations.mean[:count], observations.variance[:count])


@eqx.filter_custom_jvp
def fixed_point(
    problem: Problem,
    method: AbstractMethod,
    start: Sites,
    settings: Settings,
    report: Callable[[int, float], None] | None,
) -> LoopResult:
    """Run a method to its fixed point, which is differentiable in the problem.

    At the fixed point z = G(z), so that a derivative ż solves ż = ∂G/∂z ż + Ġ, whatever path
    led there.

    Args:
        problem: model and data.
        method: how to approximate the posterior.
        start: sites to start from.
        settings: when to stop, and how to move.
        report: called on the host after every step, if given.

    Returns:
        The sites and how the loop ended.
    """
    return run_to_fixed_point(method, problem, start, settings, report)


@fixed_point.def_jvp
def _fixed_point_jvp(primals, tangents):
    problem, method, *_ = primals
    end = fixed_point(*primals)

    def update(problem: Problem, sites: Sites) -> Sites:
        return method.propose(problem, sites, problem.smooth(sites)).sites

    def read_off(problem: Problem, sites: Sites) -> tuple:
        smoothed = problem.smooth(sites)
        return cavities_of(smoothed), sum(chain.log_normaliser for chain in smoothed)

    _, moved = eqx.filter_jvp(lambda problem: update(problem, end.sites), (problem,), tangents[:1])
    # Where nothing moves, such as the precisions of Gaussian outcomes, there is no derivative.
    moved = jax.tree.map(
        lambda site, change: jnp.zeros_like(site) if change is None else change, end.sites, moved
    )
    _, along = jax.linearize(lambda sites: update(problem, sites), end.sites)

    def residual(sites: Sites) -> Sites:
        return jax.tree.map(jnp.subtract, sites, along(sites))

    sites = lax.custom_linear_solve(residual, moved, _krylov, transpose_solve=_krylov)
    _, (cavities, log_normaliser) = eqx.filter_jvp(
        read_off, (problem, end.sites), (tangents[0], sites)
    )
    return end, LoopResult(sites, cavities, log_normaliser, None, None, None, None, None)


def _krylov(matvec: Callable[[Sites], Sites], right: Sites) -> Sites:
    """Solve a linear system that is close to the identity; not a number where that fails."""
    precision = jnp.finfo(right[0].precision.dtype).eps
    solution, _ = gmres(matvec, right, tol=float(precision) ** 0.6, restart=30, maxiter=20)
    rest = jax.tree.map(jnp.subtract, right, matvec(solution))
    solved = inner(rest, rest) <= _LARGEST_REST**2 * inner(right, right)
    return jax.tree.map(lambda leaf: jnp.where(solved, leaf, jnp.nan), solution)
