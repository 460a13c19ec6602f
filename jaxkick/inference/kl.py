"""Reverse Kullback–Leibler divergence: variational inference with a factorised posterior."""

import functools
import math

import jax.numpy as jnp

from jaxkick._typing import Array, Float, Scalar
from jaxkick.inference.method import AbstractMethod, Proposal, check_damping
from jaxkick.inference.problem import (
    Problem,
    ScoreMoments,
    Sites,
    add_sites,
    cavities_of,
    sum_over,
)
from jaxkick.likelihoods.base import Derivatives
from jaxkick.statespace.smoother import Smoothed
from jaxkick.statespace.step import Site

__all__ = ["ReverseKL"]


class ReverseKL(AbstractMethod):
    """Natural-gradient ascent of the evidence lower bound (paper, appendix A).

    With posterior mean μ of an entry, δ₁ and δ₂ the derivatives of the observation's
    expected log-likelihood and x the entry's coefficient:

        τ ← −x² δ₂      ν ← x δ₁ + μ τ

    Where the curvature changes quickly with the score, as for counts, a full step from afar
    would overshoot beyond recall. There τ is raised for as long as the entry would move by
    more than the likelihood's `stride`. Nothing moves at the fixed point, so it stays the same.

    Attributes:
        damping: the weight kept on the old sites, from 0 (none) to below 1.
    """

    damping: float = 0.0

    def __check_init__(self):
        """Refuse a damping that would never move."""
        check_damping(self.damping)

    def propose(self, problem: Problem, sites: Sites, smoothed: tuple[Smoothed, ...]) -> Proposal:
        """One natural-gradient step of length one."""
        entries = add_sites(cavities_of(smoothed), sites)
        value, first, second = problem.observe(_expectation, entries)
        rule = functools.partial(_natural_gradient, problem.likelihood.stride)
        pairs = tuple(zip(entries, sites, strict=True))
        return Proposal(problem.update_entries(rule, pairs, first, second), jnp.sum(value))

    def observed(
        self, problem: Problem, cavities: tuple[ScoreMoments, ...], sites: Sites
    ) -> Scalar:
        """Sum of the expected log-likelihoods of the observations."""
        return jnp.sum(problem.observe(_expectation, add_sites(cavities, sites)).value)

    def pretended(self, cavities: tuple[ScoreMoments, ...], sites: Sites) -> Scalar:
        """Sum of the expectations of the sites' logarithms."""
        return sum_over(_expected_site, add_sites(cavities, sites), sites)


def _expectation(problem: Problem, score: ScoreMoments) -> Derivatives:
    expected = problem.likelihood.expectation(problem.outcome, score.mean, score.variance)
    if problem.weight is None:
        return expected
    return Derivatives(*(problem.weight * part for part in expected))


def _natural_gradient(
    stride: float,
    entry: tuple[ScoreMoments, Site],
    x: Float[Array, "C R"],
    first: Float[Array, "C R"],
    second: Float[Array, "C R"],
) -> Site:
    (mean, _), site = entry
    pull, precision = x * first, -x * (x * second)
    if math.isfinite(stride):
        unbalanced = pull - (site.precision_mean - site.precision * mean)
        short = jnp.maximum(precision, jnp.abs(x * unbalanced) / stride)
        # Observations that do not count have no curvature, and their sites no say at all.
        precision = jnp.where(second < 0, short, precision)
    return Site(pull + mean * precision, precision)


def _expected_site(entry: ScoreMoments, site: Site) -> Float[Array, "C R"]:
    """The expectation of ν s − τ s² / 2."""
    second_moment = entry.mean * entry.mean + entry.variance
    return site.precision_mean * entry.mean - 0.5 * site.precision * second_moment
