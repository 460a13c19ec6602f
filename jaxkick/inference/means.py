"""The joint posterior means of all scores, by conjugate gradients.

With every observation a Gaussian factor on its score f = X s, of curvature W, the means solve
A s = b with A = K⁻¹ + XᵀWX. The smoother inverts M = K⁻¹ + diag(XᵀWX), the same without the
coupling of features, and preconditions the iteration. M p is carried along with p, so that
K⁻¹ is never applied: an iteration costs one pass over means and two gathers.
"""

from typing import NamedTuple, TypeVar

import jax
import jax.numpy as jnp
from jax import lax

from jaxkick._math.small_matrices import dot
from jaxkick._typing import Array, Float, Int, Scalar
from jaxkick.chains.devices import on_every_device
from jaxkick.chains.filter import step_times
from jaxkick.chains.means import smooth_means
from jaxkick.chains.step import Site, StepModel, StepTime
from jaxkick.inference.problem import Problem, ScoreMoments

__all__ = ["MeanStep", "solve_means"]

Entries = tuple[Float[Array, "_ _"], ...]
Tree = TypeVar("Tree")

_MAX_ITERATIONS = 40
# The part of the largest possible ratio of errors to their norm that is always expected.
_CAUTION = 0.1
_WINDOW = 4


class MeanStep(NamedTuple):
    """The change of all means that solves the linear system.

    Attributes:
        change: the change of every entry's mean.
        error: an upper estimate of what is left, as the largest over all entries, in marginal
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
        steps: squared sizes of the last changes in the norm of A; what is left is usually less
            than their sum.
        scale: largest ratio of a change in standard deviations to its size in the norm of A.
        error: an upper estimate in standard deviations.
        size: the largest change so far, in standard deviations.
    """

    change: Entries
    residual: Entries
    direction: Entries
    preconditioned: Entries
    rho: Scalar
    radau: Scalar
    steps: Float[Array, " window"]
    scale: Scalar
    error: Scalar
    size: Scalar
    iterations: Int[Array, ""]


def solve_means(
    problem: Problem,
    marginals: tuple[ScoreMoments, ...],
    curvature: Float[Array, " N"],
    residual: Entries,
    relative_tol: float,
    tol: Scalar,
) -> MeanStep:
    """Solve A Δs = r for the change of all means.

    The error in the norm of A is taken to be at most the size of the last few changes, and is
    bounded by Gauss–Radau quadrature (Meurant and Tichý, "On computing quadrature-based bounds
    for the A-norm of the error in conjugate gradients", 2013), which needs a lower bound on
    the eigenvalues of M⁻¹A. Unlike the residual, both show modes that are not resolved yet,
    such as the common level of a pool.

    Args:
        problem: model and data.
        marginals: the marginals of all entries.
        curvature: W, not below zero.
        residual: r.
        relative_tol: stop when the error is below this times the change.
        tol: stop when the error is below this, in standard deviations. A negative number
            solves nothing.
    """
    # The part of A within features: the curvature of every entry's own observation.
    precisions = tuple(
        x * part
        for x, part in zip(problem.entry_coefficients, problem.distribute(curvature), strict=True)
    )
    sites = tuple(Site(jnp.zeros_like(precision), precision) for precision in precisions)
    gains = tuple(chain.gains for chain in problem.smooth(sites))
    scales = tuple(_inverse_deviation(marginal) for marginal in marginals)
    priors = _prior_variances(problem)
    least = _least_eigenvalue(problem, precisions, priors)
    # An error of size one in the norm of A moves no mean by more than its joint standard
    # deviation, which is at most that of the prior and usually far below it.
    widest = _largest(tuple(map(jnp.sqrt, priors)), scales)
    dtype = precisions[0].dtype

    def invert(vector: Entries) -> Entries:
        chains = zip(problem.steps, problem.chains, precisions, gains, vector, strict=True)
        return tuple(smooth_means(*chain) for chain in chains)

    def couple(vector: Entries) -> Entries:
        """(A − M) times a vector."""
        coupled = problem.distribute(curvature * problem.combine(vector))
        return jax.tree.map(lambda a, t, b: a - t * b, coupled, precisions, vector)

    def proceed(state: _State) -> Array:
        resolved = state.error <= jnp.maximum(relative_tol * state.size, tol)
        return ~resolved & (state.rho > 0) & (tol >= 0) & (state.iterations < _MAX_ITERATIONS)

    def iterate(state: _State) -> _State:
        z = invert(state.residual)
        rho = _inner(state.residual, z)
        begun = jnp.isfinite(state.rho)
        beta = jnp.where(begun, rho / state.rho, 0.0)
        radau = 1.0 / (least + beta / state.radau)
        direction = _add(z, beta, state.direction)
        preconditioned = _add(state.residual, beta, state.preconditioned)
        product = jax.tree.map(jnp.add, preconditioned, couple(direction))
        energy = _inner(direction, product)
        # Rounding may leave nothing to gain.
        usable = (rho > 0) & (energy > 0)
        alpha = jnp.where(usable, rho / energy, 0.0)
        moved = alpha * _largest(direction, scales) / jnp.sqrt(alpha * rho)
        scale = jnp.where(usable, jnp.maximum(state.scale, moved), state.scale)
        change = _add(state.change, alpha, direction)
        steps = jnp.concatenate([(alpha * rho)[None], state.steps[:-1]])
        bound = jnp.where(rho > 0, jnp.sqrt(jnp.minimum(radau * rho, jnp.sum(steps))), 0.0)
        return _State(
            change,
            _add(state.residual, -alpha, product),
            direction,
            preconditioned,
            jnp.where(usable, rho, 0.0),
            # Rounding may leave nothing of it; then the bound starts anew.
            jnp.where(radau > alpha, radau - alpha, jnp.inf),
            steps,
            scale,
            jnp.maximum(scale, _CAUTION * widest) * bound,
            _largest(change, scales),
            state.iterations + 1,
        )

    zeros = jax.tree.map(jnp.zeros_like, residual)
    zero, infinite = jnp.zeros((), dtype), jnp.asarray(jnp.inf, dtype)
    start = _State(
        zeros, residual, zeros, zeros, infinite, infinite, jnp.full((_WINDOW,), jnp.inf, dtype),
        zero, infinite, zero, jnp.zeros((), jnp.int32),
    )  # fmt: skip
    end = lax.while_loop(proceed, iterate, start)
    return MeanStep(end.change, end.error, end.iterations)


def _prior_variances(problem: Problem) -> Entries:
    """The prior variance of every entry's score."""

    def variance(step: StepModel, time: StepTime) -> Scalar:
        return dot(step.h, step.prior_cov(time) @ step.h)

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


def _inner(first: Entries, second: Entries) -> Scalar:
    return jnp.sum(jnp.stack([jnp.sum(a * b) for a, b in zip(first, second, strict=True)]))


def _add(first: Tree, factor: Scalar, second: Tree) -> Tree:
    return jax.tree.map(lambda a, b: a + factor * b, first, second)


def _largest(vector: Entries, scales: Entries) -> Scalar:
    parts = [jnp.max(jnp.abs(part) * scale) for part, scale in zip(vector, scales, strict=True)]
    return jnp.max(jnp.stack(parts))
