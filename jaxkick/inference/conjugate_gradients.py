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
from jaxkick.chains.filter import step_times
from jaxkick.chains.layout import Chain
from jaxkick.chains.mean_smoother import smooth_means
from jaxkick.chains.rows import Link, incoming_states
from jaxkick.chains.smoother import Smoothed
from jaxkick.chains.step import StepModel, StepTime
from jaxkick.inference.problem import Problem, ScoreMoments, Sites

__all__ = ["MeanStep", "cast", "least_eigenvalue", "prior_variances", "solve_means"]

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
        size: the change, in the same measure.
        iterations: the number of conjugate-gradient iterations.
    """

    change: Entries
    error: Scalar
    size: Scalar
    iterations: Int[Array, ""]


class _State(NamedTuple):
    """The iteration: solution, residual, direction p, M p, and scalars.

    Attributes:
        rho: rᵀM⁻¹r of the last iteration.
        radau: the remaining part of the coefficient γ of the upper bound √(γ ρ) on the error in the
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


class _Effects(NamedTuple):
    """Shared effects, to be eliminated from the linear system.

    With X the design of other features, Z that of shared effects and B = ZᵀWZ plus the prior
    precisions of shared effects, their means are B⁻¹(r − ZᵀW X s), and W − WZ B⁻¹ ZᵀW takes the
    place of W in the equations of the others, whose A is still at least K⁻¹.

    Attributes:
        weighted: ZᵀW.
        inverse: B⁻¹.
        alone: B⁻¹r, the change of their means if nothing else changes.
        variance: the marginal variance of every effect.
        prior: its prior variance.
    """

    weighted: Float[Array, "Q N"]
    inverse: Float[Array, "Q Q"]
    alone: Float[Array, " Q"]
    variance: Float[Array, " Q"]
    prior: Float[Array, " Q"]

    @classmethod
    def make(
        cls, problem: Problem, sites: Sites, curvature: Float[Array, " N"], residual: Entries
    ) -> "_Effects | None":
        """The shared effects of a problem; `None` if there are none."""
        shared = problem.shared
        if shared is None:
            return None
        prior = shared.prior_variances(problem.steps, problem.chains)
        weighted = jax.vmap(problem.curve, in_axes=(None, 0))(curvature, shared.design)
        inverse = jnp.linalg.inv(weighted @ shared.design.T + jnp.diag(1.0 / prior))
        variance = 1.0 / (1.0 / prior + shared.sum(tuple(site.precision for site in sites)))
        return cls(weighted, inverse, inverse @ shared.sum(residual), variance, prior)

    def respond(self, scores: Float[Array, " N"]) -> Float[Array, " Q"]:
        """B⁻¹ZᵀW times a vector of scores."""
        return self.inverse @ (self.weighted @ scores)

    def widest(
        self,
        problem: Problem,
        curvature: Float[Array, " N"],
        precisions: Entries,
        least: Scalar,
    ) -> Scalar:
        """A bound on changes of shared means, in standard deviations.

        For changes of all means of size one in the norm of A. They are at most the deviations of
        the prior. They are also the response to a change e of the other means, and by the
        inequality of Cauchy and Schwarz at most √B⁻¹ times the norm ‖X e‖ under W, of which the
        square is at most P x²w / τ (for P slots) times that of M, at most 1 / `least` that of A.
        """
        ratios = []
        for chain, (x, tau) in enumerate(zip(problem.entry_coefficients, precisions, strict=True)):
            w = x * (x * problem.at_entries(curvature, chain))
            ratios.append(jnp.max(jnp.where(w > 0, w / jnp.maximum(tau, 0.0), 0.0)))
        norm = len(problem.slots) * jnp.max(jnp.stack(ratios)) / least
        bounds = jnp.minimum(jnp.diag(self.inverse) * norm, self.prior)
        return jnp.sqrt(jnp.max(bounds / self.variance))


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
        large: a change above this, in standard deviations, needs only a rough solution.
        careful: whether "rough" is decided by the bound on the error, not by an estimate.
    """
    wide = residual[0].dtype
    effects = _Effects.make(problem, sites, curvature, residual)
    whole, problem = problem, problem.others
    chosen = [k for k, chain in enumerate(smoothed) if chain.gains is not None]
    scales = tuple(_inverse_deviation(marginals[k]) for k in chosen)
    precisions = tuple(sites[k].precision for k in chosen)
    gains = tuple(smoothed[k].gains for k in chosen)
    start = tuple(residual[k] for k in chosen)
    priors = prior_variances(problem)
    least = least_eigenvalue(problem, precisions, priors)
    # An error of size one in the norm of A moves no mean by more than its joint standard
    # deviation, which is at most that of the prior.
    widest = _largest(tuple(map(jnp.sqrt, priors)), scales)
    if effects is not None:
        widest = jnp.maximum(widest, effects.widest(problem, curvature, precisions, least))
        pulled = problem.distribute(effects.weighted.T @ effects.alone)
        start = jax.tree.map(jnp.subtract, start, pulled)

    narrow = jnp.float32 if sum(x.size for x in start) > _LARGE else wide
    problem, curvature, scales, precisions, gains, start, narrowed = cast(
        (problem, curvature, scales, precisions, gains, start, effects), narrow
    )
    rounding = 4.0 * float(jnp.finfo(narrow).eps) / least

    def invert(vector: Entries) -> Entries:
        chains = zip(problem.steps, problem.chains, precisions, gains, vector, strict=True)
        return tuple(smooth_means(*chain) for chain in chains)

    def couple(vector: Entries) -> Entries:
        """(A − M) times a vector."""
        scores = problem.combine(vector)
        pulls = problem.curve(curvature, scores)
        if narrowed is not None:
            pulls = pulls - narrowed.weighted.T @ narrowed.respond(scores)
        coupled = problem.distribute(pulls)
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
        # This step reduced the squared error by α ρ. Rounding may reduce the bound to zero.
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
            # There is no bound where rounding leaves a direction without energy.
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
    change, size = cast(end.change, wide), end.size
    if effects is not None:
        shift = effects.alone - effects.respond(whole.others.combine(change))
        size = jnp.maximum(size, jnp.max(jnp.abs(shift) / jnp.sqrt(effects.variance)))
        rest = iter(change)
        change = tuple(
            next(rest) if place is None else jnp.where(tol >= 0, whole.shared.spread(shift, k), 0.0)
            for k, place in enumerate(whole.shared.place)
        )
    return MeanStep(change, end.error, size, end.iterations)


def prior_variances(problem: Problem) -> Entries:
    """The prior variance of every entry's score."""

    def variance(step: StepModel, time: StepTime) -> Scalar:
        h = step.h(time)
        return dot(h, step.prior_cov(time) @ h)

    over_entries = jax.vmap(jax.vmap(variance, in_axes=(None, 0)), in_axes=(None, 0))
    chains = zip(problem.steps, problem.chains, strict=True)
    return tuple(over_entries(step, step_times(chain)) for step, chain in chains)


def least_eigenvalue(problem: Problem, precisions: Entries, priors: Entries) -> Scalar:
    """A lower bound on the eigenvalues of M⁻¹A.

    A is at least K⁻¹, so they are at least 1 / (1 + λ) with λ the largest eigenvalue of K T,
    which is at most the largest trace of K T over features.
    """
    traces = [
        _largest_sum(chain, jnp.maximum(precision, 0.0) * prior)
        for chain, precision, prior in zip(problem.chains, precisions, priors, strict=True)
    ]
    return 1.0 / (1.0 + jnp.max(jnp.stack(traces)))


def _largest_sum(chain: Chain, terms: Float[Array, "C R"]) -> Scalar:
    """The largest sum of a feature's terms, which are not negative."""

    def step(carry: tuple, entry: tuple) -> tuple:
        total, most = carry
        first, term = entry
        total = jnp.where(first, 0.0, total) + term
        return (total, jnp.maximum(most, total)), None

    def run(incoming: Float[Array, " R"]) -> tuple:
        start = (incoming, jnp.zeros_like(incoming))
        return lax.scan(step, start, (chain.first, terms))[0]

    incoming = jnp.zeros_like(terms[0])
    if chain.linked:
        goes_on = 1.0 - jnp.any(chain.first, axis=0).astype(terms.dtype)
        link = Link(
            lambda x, row: row[0] * x + row[1],
            lambda one, two: (two[0] * one[0], two[0] * one[1] + two[1]),
            (jnp.ones((), terms.dtype), jnp.zeros((), terms.dtype)),
        )
        rows = (goes_on, run(incoming)[0])
        incoming = incoming_states(link, jnp.zeros((), terms.dtype), rows, chain)
    return jnp.max(run(incoming)[1])


def _inverse_deviation(marginal: ScoreMoments) -> Float[Array, "C R"]:
    """One over the standard deviation; zero for a score that is known."""
    known = ~(marginal.variance > 0)
    return jnp.where(known, 0.0, lax.rsqrt(jnp.where(known, 1.0, marginal.variance)))


def cast(tree: Tree, dtype: DTypeLike) -> Tree:
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
