"""The joint posterior means of all scores, by conjugate gradients.

With every observation a Gaussian factor on its score f = X s, of curvature W, the means solve
A s = b with A = K⁻¹ + XᵀWX. The smoother inverts M = K⁻¹ + diag(τ), with τ the precisions of
the sites, and preconditions the iteration. M p is carried along with p, so that K⁻¹ is never
applied: an iteration costs one pass over means and two gathers.
"""

from typing import NamedTuple, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jax.typing import DTypeLike

from jaxkick._math.small_matrices import dot
from jaxkick._typing import Array, Bool, Float, Int, Scalar
from jaxkick.chains.devices import on_every_device
from jaxkick.chains.filter import step_times
from jaxkick.chains.means import smooth_means
from jaxkick.chains.smoother import Smoothed
from jaxkick.chains.step import StepModel, StepTime
from jaxkick.inference.problem import Problem, ScoreMoments, Sites

__all__ = ["MeanStep", "solve_means"]

Entries = tuple[Float[Array, "_ _"], ...]
Tree = TypeVar("Tree")

_MAX_ITERATIONS = 200
# The error that is left to the next Newton step, relative to the size of this one.
_INEXACT = 0.1
_WINDOW = 4
# Above this number of entries, float64 means are solved for in float32. The right-hand side is
# computed anew in float64 by every Newton step, so no digits are lost, and an iteration takes
# less than half the time (`benchmarks/inference.py`).
_LARGE = 50_000


class MeanStep(NamedTuple):
    """The change of all means that solves the linear system.

    Attributes:
        change: the change of every entry's mean.
        error: an upper bound on what is left, as the largest over all entries, in marginal
            standard deviations.
        iterations: the number of conjugate-gradient iterations.
    """

    change: Entries
    error: Scalar
    iterations: Int[Array, ""]


class _State(NamedTuple):
    """The iteration: solution, residual, direction p, M p, and scalars.

    Attributes:
        rho: rᵀM⁻¹r of the last iteration.
        radau: what is left of the coefficient γ of the upper bound √(γ ρ) on the error in the
            norm of A.
        moves: squared sizes of the last changes in the norm of A, the latest first.
        scale: largest ratio of a change in standard deviations to its size in the norm of A.
        estimate: an estimate of the error in standard deviations: what is left is usually less
            than the last few changes.
        error: an upper bound on the error in standard deviations.
        size: the whole change in standard deviations.
    """

    change: Entries
    residual: Entries
    direction: Entries
    preconditioned: Entries
    rho: Scalar
    radau: Scalar
    moves: Float[Array, " window"]
    scale: Scalar
    estimate: Scalar
    error: Scalar
    size: Scalar
    iterations: Int[Array, ""]


def solve_means(
    problem: Problem,
    smoothed: tuple[Smoothed, ...],
    sites: Sites,
    marginals: tuple[ScoreMoments, ...],
    curvature: Float[Array, " N"],
    residual: Entries,
    tol: Scalar,
    large: Scalar,
    careful: Bool[Array, ""],
) -> MeanStep:
    """Solve A Δs = r for the change of all means.

    The error in the norm of A is bounded by Gauss–Radau quadrature (Meurant and Tichý, "On
    computing quadrature-based bounds for the A-norm of the error in conjugate gradients",
    2013), with a lower bound on the eigenvalues of M⁻¹A. Unlike the residual, the bound covers
    modes that are not resolved yet, such as the common level of a pool.

    Args:
        problem: model and data.
        smoothed: the smoothing pass over the sites.
        sites: the sites.
        marginals: the marginals of all entries.
        curvature: W, not below zero.
        residual: r.
        tol: stop when the error is below this, in standard deviations. A negative number
            solves nothing.
        large: of a change above this, in standard deviations, a rough solution is enough.
        careful: whether "rough" is decided by the bound on the error, not by an estimate.
    """
    wide = residual[0].dtype
    scales = tuple(_inverse_deviation(marginal) for marginal in marginals)
    priors = _prior_variances(problem)
    precisions = tuple(site.precision for site in sites)
    least = _least_eigenvalue(problem, precisions, priors)
    # An error of size one in the norm of A moves no mean by more than its joint standard
    # deviation, which is at most that of the prior.
    widest = _largest(tuple(map(jnp.sqrt, priors)), scales)

    narrow = jnp.float32 if sum(x.size for x in residual) > _LARGE else wide
    gains = tuple(chain.gains for chain in smoothed)
    problem, curvature, scales, precisions, gains, start = _cast(
        (problem, curvature, scales, precisions, gains, residual), narrow
    )
    rounding = 4.0 * float(jnp.finfo(narrow).eps) / least

    def invert(vector: Entries) -> Entries:
        chains = zip(problem.steps, problem.chains, precisions, gains, vector, strict=True)
        return tuple(smooth_means(*chain) for chain in chains)

    def couple(vector: Entries) -> Entries:
        """(A − M) times a vector."""
        coupled = problem.distribute(problem.curve(curvature, problem.combine(vector)))
        return jax.tree.map(lambda a, t, b: a - t * b, coupled, precisions, vector)

    def proceed(state: _State) -> Array:
        rough = jnp.where(careful, state.error, state.estimate) <= _INEXACT * state.size
        resolved = (state.error <= tol) | (rough & (state.size > large))
        return ~resolved & (state.rho > 0) & (tol >= 0) & (state.iterations < _MAX_ITERATIONS)

    def iterate(state: _State) -> _State:
        z = invert(state.residual)
        rho = _inner(state.residual, z, wide)
        beta = jnp.where(jnp.isfinite(state.rho), rho / state.rho, 0.0)
        radau = 1.0 / (least + beta / state.radau)
        direction = _add(z, beta, state.direction)
        preconditioned = _add(state.residual, beta, state.preconditioned)
        product = jax.tree.map(jnp.add, preconditioned, couple(direction))
        energy = _inner(direction, product, wide)
        # Rounding may leave nothing to gain.
        usable = (rho > 0) & (energy > 0)
        alpha = jnp.where(usable, rho / energy, 0.0)
        change = _add(state.change, alpha, direction)
        moved = alpha * _largest(direction, scales).astype(wide) / jnp.sqrt(alpha * rho)
        scale = jnp.where(usable, jnp.maximum(state.scale, moved), state.scale)
        moves = jnp.concatenate([(alpha * rho)[None], state.moves[:-1]])
        # This step took α ρ off the squared error. Rounding may leave nothing of the bound.
        left = jnp.where(radau > alpha, radau - alpha, radau)
        size = _largest(change, scales).astype(wide)
        return _State(
            change,
            _add(state.residual, -alpha, product),
            direction,
            preconditioned,
            jnp.where(usable, rho, 0.0),
            jnp.where(radau > alpha, left, jnp.inf),
            moves,
            scale,
            scale * jnp.sqrt(jnp.minimum(jnp.sum(moves), left * rho)),
            # No bound where rounding leaves a direction without energy.
            jnp.where(rho == 0, 0.0, jnp.where(usable, widest * jnp.sqrt(left * rho), jnp.inf))
            + rounding * size,
            size,
            state.iterations + 1,
        )

    zeros = jax.tree.map(jnp.zeros_like, start)
    zero, infinite = jnp.zeros((), wide), jnp.asarray(jnp.inf, wide)
    end = lax.while_loop(
        proceed,
        iterate,
        _State(
            zeros, start, zeros, zeros, infinite, infinite, jnp.full((_WINDOW,), jnp.inf, wide),
            zero, infinite, infinite, zero, jnp.zeros((), jnp.int32),
        ),
    )  # fmt: skip
    return MeanStep(_cast(end.change, wide), end.error, end.iterations)


def _prior_variances(problem: Problem) -> Entries:
    """The prior variance of every entry's score."""

    def variance(step: StepModel, time: StepTime) -> Scalar:
        h = step.h(time)
        return dot(h, step.prior_cov(time) @ h)

    over_entries = jax.vmap(jax.vmap(variance, in_axes=(None, 0)), in_axes=(None, 0))
    chains = zip(problem.steps, problem.chains, strict=True)
    return tuple(over_entries(step, step_times(chain)) for step, chain in chains)


def _least_eigenvalue(problem: Problem, precisions: Entries, priors: Entries) -> Scalar:
    """A lower bound on the eigenvalues of M⁻¹A.

    A is at least K⁻¹, so they are at least 1 / (1 + λ) with λ the largest eigenvalue of K T,
    which is at most the largest trace of K T over features.
    """
    traces = []
    for chain, precision, prior in zip(problem.chains, precisions, priors, strict=True):
        # Along the rows, where the entries of a feature are consecutive. Every device
        # sums over all of them: a cumulative sum over shards would take quadratic time.
        terms = on_every_device((jnp.maximum(precision, 0.0) * prior).T.ravel(), chain.mesh)
        first = on_every_device(chain.first.T.ravel(), chain.mesh)
        total = jnp.cumsum(terms)
        opening = lax.cummax(jnp.where(first, jnp.arange(first.size, dtype=jnp.int32), 0))
        traces.append(jnp.max(total - (total - terms)[opening]))
    return 1.0 / (1.0 + jnp.max(jnp.stack(traces)))


def _inverse_deviation(marginal: ScoreMoments) -> Float[Array, "C R"]:
    """One over the standard deviation; zero for a score that is known."""
    known = ~(marginal.variance > 0)
    return jnp.where(known, 0.0, lax.rsqrt(jnp.where(known, 1.0, marginal.variance)))


def _cast(tree: Tree, dtype: DTypeLike) -> Tree:
    """Change the precision of all floating-point arrays."""
    return jax.tree.map(lambda x: x.astype(dtype) if eqx.is_inexact_array(x) else x, tree)


def _inner(first: Entries, second: Entries, dtype: DTypeLike) -> Scalar:
    parts = [jnp.sum(a * b, dtype=dtype) for a, b in zip(first, second, strict=True)]
    return jnp.sum(jnp.stack(parts))


def _add(first: Tree, factor: Scalar, second: Tree) -> Tree:
    return jax.tree.map(lambda a, b: a + factor.astype(b.dtype) * b, first, second)


def _largest(vector: Entries, scales: Entries) -> Scalar:
    parts = [jnp.max(jnp.abs(part) * scale) for part, scale in zip(vector, scales, strict=True)]
    return jnp.max(jnp.stack(parts))
