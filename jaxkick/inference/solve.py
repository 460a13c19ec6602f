"""From model and data to the posterior's arrays, as one compiled and differentiable program."""

import sys
from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax
from jax.scipy.sparse.linalg import gmres

from jaxkick._typing import Array, Bool, Float, Int, Scalar
from jaxkick._xla import is_known, jit_by_size, jit_once, on_host
from jaxkick.chains.smoother import Smoothed
from jaxkick.data.dataset import Dataset
from jaxkick.inference.evidence import log_evidence
from jaxkick.inference.fixed_point import LoopResult, Settings, plain_update, run_to_fixed_point
from jaxkick.inference.methods import AbstractMethod
from jaxkick.inference.problem import (
    Problem,
    ScoreMoments,
    Sites,
    add_sites,
    cavities_of,
    entry_means,
    make_problem,
    no_sites,
)
from jaxkick.inference.status import Status
from jaxkick.model import Model

__all__ = [
    "Progress",
    "Solution",
    "every_observation",
    "fixed_point",
    "needs_grid",
    "run",
    "smooth",
    "solve",
]

Progress = bool | Callable[[int, float], None]
"""Progress reports: a line on standard error, a function of steps and distance, or none."""

# The largest residual of the linear system of a derivative, relative to its right-hand side.
_LARGEST_REST = 1e-3


class Solution(NamedTuple):
    """The result of inference; see `jaxkick.Posterior` for the fields."""

    sites: Sites
    entries: tuple[ScoreMoments, ...]
    observations: ScoreMoments
    log_marginal_likelihood: Scalar
    steps: Int[Array, ""]
    distance: Scalar
    status: Int[Array, ""]


def run(
    model: Model,
    data: Dataset,
    method: AbstractMethod,
    start: Sites | None,
    mask: Bool[Array, " N"] | None,
    tol: float,
    max_steps: int,
    progress: Progress = False,
) -> Solution:
    """Run a method to its fixed point; see `infer` for the arguments.

    What may change without another compilation is passed as an array; names and times are left
    out, so that one compiled program serves all data of one shape.
    """
    dtype = data.coefficients.dtype
    settings = Settings(jnp.asarray(tol, dtype), jnp.asarray(max_steps, jnp.int32))
    compiled = eqx.tree_at(lambda m: m.damping, method, jnp.asarray(method.damping, dtype))
    if start is None:
        # An array, so that a later warm start does not compile anew.
        start = no_sites(data.chains)
    used = every_observation(data) if mask is None else mask
    report = _write_progress if progress is True else progress or None
    solution = solve(model, data.without_index(), compiled, start, used, settings, report)
    if progress is True and is_known(solution.status):
        jax.effects_barrier()
        sys.stderr.write("\n")
    if data.index is None:
        return solution
    moments = (on_host(lambda x: x[: len(data)], part) for part in solution.observations)
    return solution._replace(observations=ScoreMoments(*moments))


@jit_once
def smooth(model: Model, data: Dataset, sites: Sites) -> tuple[Smoothed, ...]:
    """Run the smoother at given sites and keep its states, for scores at other times."""
    return make_problem(model, data).smooth(sites, keep_states=True)


@jit_by_size
def solve(
    model: Model,
    data: Dataset,
    method: AbstractMethod,
    start: Sites,
    mask: Bool[Array, " N"],
    settings: Settings,
    report: Callable[[int, float], None] | None,
) -> Solution:
    """Run a method to its fixed point: the one program of `infer` and `learn`.

    No argument has a default: a call that leaves one out would compile the program again.

    Args:
        model: kernels and likelihood.
        data: the observations, without their index.
        method: the inference method, with its damping as an array.
        start: sites to start from.
        mask: observations to use.
        settings: when to stop.
        report: called on the host after every step, if given.
    """
    problem = make_problem(model, data, mask)
    end = fixed_point(problem, method, start, settings, report)
    entries = add_sites(end.cavities, end.sites)
    wrong = lax.stop_gradient(method.is_misjudged(problem, end.cavities, end.sites))
    status = jnp.where(
        wrong & (end.status == int(Status.CONVERGED)), int(Status.INACCURATE), end.status
    )
    return Solution(
        sites=end.sites,
        entries=_with_means(entries, entry_means(model, data)),
        observations=_unpadded(problem.to_observations(entries), len(data.slots)),
        log_marginal_likelihood=log_evidence(problem, method, end),
        steps=end.steps,
        distance=end.distance,
        status=status,
    )


def every_observation(data: Dataset) -> np.ndarray:
    """A mask of all observations, so that `solve` has one program with and without masks."""
    return np.ones(len(data.slots), bool)


def _write_progress(steps: int, distance: float) -> None:
    sys.stderr.write(f"\rinference: step {int(steps)}, distance {float(distance):.2g} ")
    sys.stderr.flush()


def _with_means(
    entries: tuple[ScoreMoments, ...], means: tuple[Float[Array, "_ _"], ...] | None
) -> tuple[ScoreMoments, ...]:
    """Add prior means to the moments of processes with mean zero."""
    if means is None:
        return entries
    pairs = zip(entries, means, strict=True)
    return tuple(entry._replace(mean=entry.mean + mean) for entry, mean in pairs)


def _unpadded(observations: ScoreMoments, count: int) -> ScoreMoments:
    """Drop the observations that pad a mesh."""
    return ScoreMoments(observations.mean[:count], observations.variance[:count])


@eqx.filter_custom_jvp
def fixed_point(
    problem: Problem,
    method: AbstractMethod,
    start: Sites,
    settings: Settings,
    report: Callable[[int, float], None] | None,
) -> LoopResult:
    """Run a method to its fixed point, differentiably in the problem.

    At the fixed point z = G(z), so a derivative ż solves ż = ∂G/∂z ż + Ġ, whatever the path.

    Args:
        problem: model and data.
        method: how to approximate the posterior.
        start: sites to start from.
        settings: when to stop, and how to move.
        report: called on the host after every step, if given.
    """
    return run_to_fixed_point(method, problem, start, settings, report)


@fixed_point.def_jvp
def _fixed_point_jvp(primals, tangents):
    problem, method, *_ = primals
    end = fixed_point(*primals)

    def update(problem: Problem, sites: Sites) -> Sites:
        return plain_update(method, problem, sites)

    def read_off(problem: Problem, sites: Sites) -> tuple:
        smoothed = problem.smooth(sites)
        return cavities_of(smoothed), sum(chain.log_normaliser for chain in smoothed)

    _, moved = eqx.filter_jvp(lambda problem: update(problem, end.sites), (problem,), tangents[:1])
    # There is no derivative where nothing moves, such as the precisions of Gaussian outcomes.
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
    return end, LoopResult(sites, cavities, log_normaliser, None, None, None, None)


def _krylov(matvec: Callable[[Sites], Sites], right: Sites) -> Sites:
    """Solve a linear system that is close to the identity; NaN where that fails."""
    precision = jnp.finfo(right[0].precision.dtype).eps
    solution, _ = gmres(matvec, right, tol=float(precision) ** 0.6, restart=30, maxiter=20)
    rest = jax.tree.map(jnp.subtract, right, matvec(solution))
    solved = optax.tree.norm(rest, squared=True) <= _LARGEST_REST**2 * optax.tree.norm(
        right, squared=True
    )
    return jax.tree.map(lambda leaf: jnp.where(solved, leaf, jnp.nan), solution)


def needs_grid(model: Model, method: AbstractMethod, solution: Solution) -> bool:
    """Return whether adaptive quadrature of a user's own likelihood failed."""
    own = any(each.is_searched for each in model.likelihoods.values())
    if method.on_grid or not own or not is_known(solution.status):
        return False
    return int(solution.status) in (Status.INACCURATE, Status.MAX_STEPS)
