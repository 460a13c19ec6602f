"""Expectation propagation with a factorised posterior."""

import jax.numpy as jnp

from jaxkick._typing import Array, Float, Scalar
from jaxkick.inference.method import AbstractMethod, Proposal, check_damping
from jaxkick.inference.problem import (
    Problem,
    ScoreMoments,
    Sites,
    cavities_of,
    sum_over,
)
from jaxkick.likelihoods.base import Derivatives
from jaxkick.statespace.smoother import Smoothed
from jaxkick.statespace.step import Site, gain, log_normaliser

__all__ = ["ExpectationPropagation"]


class ExpectationPropagation(AbstractMethod):
    """Moment matching against the cavity of every observation (paper, appendix A).

    With cavity mean μ and variance Σ of an entry, δ₁ and δ₂ the derivatives of the
    observation's log-partition function and x the entry's coefficient:

        τ ← −x² δ₂ / (1 + Σ x² δ₂)      ν ← (x δ₁ − μ x² δ₂) / (1 + Σ x² δ₂)

    Attributes:
        damping: the weight kept on the old sites, from 0 (none) to below 1.
    """

    damping: float = 0.0

    def __check_init__(self):
        """Refuse a damping that would never move."""
        check_damping(self.damping)

    def propose(self, problem: Problem, sites: Sites, smoothed: tuple[Smoothed, ...]) -> Proposal:
        """Match the moments of every observation against its cavity."""
        cavities = cavities_of(smoothed)
        value, first, second = problem.observe(_log_partition, cavities)
        return Proposal(
            problem.update_entries(_match_moments, cavities, first, second), jnp.sum(value)
        )

    def observed(
        self, problem: Problem, cavities: tuple[ScoreMoments, ...], sites: Sites
    ) -> Scalar:
        """Sum of the log-partition functions of the observations."""
        return jnp.sum(problem.observe(_log_partition, cavities).value)

    def pretended(self, cavities: tuple[ScoreMoments, ...], sites: Sites) -> Scalar:
        """Sum of the log-normalisers of the sites under their cavities."""
        return sum_over(_site_normaliser, cavities, sites)


def _log_partition(problem: Problem, score: ScoreMoments) -> Derivatives:
    return problem.likelihood.log_partition(
        problem.outcome, score.mean, score.variance, problem.weight
    )


def _match_moments(
    cavity: ScoreMoments,
    x: Float[Array, "C R"],
    first: Float[Array, "C R"],
    second: Float[Array, "C R"],
) -> Site:
    # Not x² times it: XLA would keep the squares for the next step.
    curvature = x * (x * second)
    denominator = 1.0 + cavity.variance * curvature
    return Site((x * first - cavity.mean * curvature) / denominator, -curvature / denominator)


def _site_normaliser(cavity: ScoreMoments, site: Site) -> Float[Array, "C R"]:
    move = gain(site, cavity.mean, cavity.variance)
    return log_normaliser(site, cavity.mean, cavity.variance, move.s)
