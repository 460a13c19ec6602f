"""The log-marginal likelihood at a fixed point, and its derivative.

Both the EP energy and the evidence lower bound are stationary in the sites (and, for EP,
in the cavities). At a fixed point their derivative in any parameter is therefore the
explicit one, with sites and cavities held still. For the chain's log-normaliser L the
smoother's adjoints give it without a pass through the recursion: with (r, N) the adjoint
of a predicted state and (m, P) the state before it,

    ∂L/∂Q = ½ (r rᵀ − N)      ∂L/∂A = r mᵀ + (r rᵀ − N) A P,

and with (x, S) the smoothed mean and covariance of the state, for the vector h that reads
the score off it, ∂L/∂h = (ν − τ hᵀx) x − τ S h.
"""

from collections.abc import Callable
from typing import NamedTuple, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp

from jaxkick._math.small_matrices import AbstractMatrix, dot, frobenius
from jaxkick._typing import Scalar
from jaxkick.chains.filter import step_times
from jaxkick.chains.layout import Chain
from jaxkick.chains.smoother import States
from jaxkick.chains.step import Adjoint, Site, State, StepModel, StepTime
from jaxkick.inference.fixed_point import LoopResult
from jaxkick.inference.methods import AbstractMethod
from jaxkick.inference.problem import Problem, Sites, cavities_of

__all__ = ["evidence_slope", "log_evidence", "with_slope"]

Tree = TypeVar("Tree")


def log_evidence(problem: Problem, method: AbstractMethod, end: LoopResult) -> Scalar:
    """The log-marginal likelihood (EP), or its lower bound (reverse KL).

    Its derivative in the parameters and data of `problem` is that of the value at the fixed
    point; the fixed point itself is held constant.

    Args:
        problem: model and data.
        method: the inference method.
        end: the method's fixed point.

    Returns:
        The evidence.
    """
    value = end.observed - method.site_terms(end.cavities, end.sites) + end.log_normaliser
    return with_slope(value, problem, method, end.sites)


@eqx.filter_custom_jvp
def with_slope(value: Scalar, problem: Problem, method: AbstractMethod, sites: Sites) -> Scalar:
    """Give the log evidence at a fixed point its derivative in the problem, and no other.

    Args:
        value: the log evidence.
        problem: model and data.
        method: the inference method.
        sites: the sites of its fixed point.
    """
    return value


@with_slope.def_jvp
def _with_slope_jvp(primals, tangents):
    value, problem, method, sites = primals
    along = evidence_slope(problem, method, sites)
    _, tangent = eqx.filter_jvp(along, (problem,), (tangents[1],))
    return value, tangent


def evidence_slope(
    problem: Problem, method: AbstractMethod, sites: Sites
) -> Callable[[Problem], Scalar]:
    """Make a function with the derivative of the log evidence, but another value.

    Args:
        problem: model and data.
        method: the inference method.
        sites: the sites of its fixed point.

    Returns:
        A function of a problem, to be differentiated at `problem`.
    """
    smoothed = problem.smooth(sites, keep_states=True)
    cavities = cavities_of(smoothed)
    chains = zip(problem.steps, problem.chains, sites, smoothed, strict=True)
    slopes = tuple(
        _slopes_at_entries(step, chain, site, part.states) for step, chain, site, part in chains
    )

    def along(problem: Problem) -> Scalar:
        chains = zip(problem.steps, problem.chains, slopes, strict=True)
        observed = method.observed(problem, cavities, sites)
        return observed + sum(_along_slopes(*chain) for chain in chains)

    return along


class _Slopes(NamedTuple):
    """Derivatives of a chain's log-normaliser in every step's Q (or first P), A and h."""

    covariance: AbstractMatrix
    transition: AbstractMatrix
    measurement: AbstractMatrix


def _slopes_at_entries(step: StepModel, chain: Chain, sites: Site, states: States) -> _Slopes:
    """The slopes at every entry, from the smoother's adjoints."""

    def slopes(
        past: State, before: StepTime, now: StepTime, future: Adjoint, site: Site
    ) -> _Slopes:
        r, N = future.r, future.N.symmetric()
        excess = r @ r.T - N
        A, before_P = step.transition(before, now), past.P.symmetric()
        P = step.predict_cov(A, before_P, before, now)
        mean = step.carry(A, past.m, now) + P @ r
        h = step.h(now)
        score_cov = (P - P @ N @ P) @ h
        error = site.precision_mean - site.precision * dot(h, mean)
        return _Slopes(
            covariance=excess * 0.5,
            transition=r @ past.m.T + excess @ A @ before_P,
            measurement=mean * error - score_cov * site.precision,
        )

    moments = step_times(chain)
    return _over_entries(slopes)(
        _previous(states.past), _previous(moments), moments, states.future, sites
    )


def _along_slopes(step: StepModel, chain: Chain, slopes: _Slopes) -> Scalar:
    """A function of the state space, linear in its matrices, with the given slopes."""

    def along(slopes: _Slopes, before: StepTime, now: StepTime) -> Scalar:
        inside = frobenius(slopes.transition, step.transition(before, now)) + frobenius(
            slopes.covariance, step.noise_cov(before, now)
        )
        opening = frobenius(slopes.covariance, step.prior_cov(now))
        return jnp.where(now.first, opening, inside) + frobenius(slopes.measurement, step.h(now))

    moments = step_times(chain)
    return jnp.sum(_over_entries(along)(slopes, _previous(moments), moments))


def _over_entries(function: Callable) -> Callable:
    """A function of one entry, for all entries of a chain."""
    return jax.vmap(jax.vmap(function))


def _previous(tree: Tree) -> Tree:
    """The values of the entry before every entry, along the rows."""

    def shift(leaf):
        return jnp.concatenate([jnp.roll(leaf[-1:], 1, axis=1), leaf[:-1]])

    return jax.tree.map(shift, tree)
