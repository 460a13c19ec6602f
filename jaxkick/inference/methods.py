"""Inference methods: expectation propagation and reverse KL with a factorised posterior.

Both replace the likelihood of an observation by a Gaussian factor on its score f, and that
factor by one site for each entry (paper, appendix A). They differ in where they evaluate the
likelihood, in the precisions of the sites, and in their approximation of the log evidence.
"""

import abc
import operator
from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp

from jaxkick._typing import Array, Bool, Float, Scalar
from jaxkick.chains.step import Site, gain, log_normaliser
from jaxkick.errors import DataError
from jaxkick.inference.problem import Problem, ScoreMoments, Sites, add_sites, sum_over
from jaxkick.likelihoods import AbstractLikelihood, Derivatives
from jaxkick.likelihoods.integrals import (
    expectation_on_grid,
    is_misjudged,
    log_partition_on_grid,
)
from jaxkick.likelihoods.likelihood import Weight, map_observations

__all__ = ["AbstractMethod", "ExpectationPropagation", "Linearization", "ReverseKL"]

# The approximate number of integrals that are checked.
_CHECKED = 500


class Linearization(NamedTuple):
    """The observations as Gaussian factors on their scores, at the current sites.

    Attributes:
        observed: the observations' contribution to the log evidence.
        score: the current marginal mean of f.
        pull: derivative of the log factor there.
        curvature: minus its second derivative, w; negative where a likelihood is not
            log-concave.
        second: the input of `site_precision`: a second derivative in f.
        variance: the variance of f that the likelihood was evaluated under.
    """

    observed: Scalar
    score: Float[Array, " N"]
    pull: Float[Array, " N"]
    curvature: Float[Array, " N"]
    second: Float[Array, " N"]
    variance: Float[Array, " N"]


class AbstractMethod(eqx.Module):
    """A way to approximate the posterior (paper, section 3.1 and appendix A)."""

    damping: eqx.AbstractVar[float]
    on_grid: eqx.AbstractVar[bool]

    @abc.abstractmethod
    def linearize(
        self, problem: Problem, cavities: tuple[ScoreMoments, ...], sites: Sites
    ) -> Linearization:
        """Evaluate the likelihoods and approximate each of them by a Gaussian factor.

        Args:
            problem: model and data.
            cavities: the cavities under the sites.
            sites: the current sites.
        """

    @abc.abstractmethod
    def second_after(
        self, problem: Problem, linear: Linearization, move: Float[Array, " N"]
    ) -> Float[Array, " N"]:
        """`Linearization.second` after the marginal means of f have moved.

        Args:
            problem: model and data.
            linear: the factors before.
            move: the change of every mean.
        """

    @abc.abstractmethod
    def site_precision(
        self, variance: Float[Array, "C R"], x: Float[Array, "C R"], second: Float[Array, "C R"]
    ) -> Float[Array, "C R"]:
        """The precision of the site of every entry.

        Args:
            variance: the cavity variance of the entry.
            x: the coefficient of the entry.
            second: `Linearization.second` of the entry's observation.
        """

    @abc.abstractmethod
    def observed(
        self, problem: Problem, cavities: tuple[ScoreMoments, ...], sites: Sites
    ) -> Scalar:
        """The observations' contribution to the log evidence: a sum over their likelihoods.

        Equal to `Linearization.observed`; the evidence takes its value from there and its
        derivative from here.
        """

    @abc.abstractmethod
    def is_misjudged(
        self, problem: Problem, cavities: tuple[ScoreMoments, ...], sites: Sites
    ) -> Bool[Array, ""]:
        """Return whether the integral of any likelihood is known to be wrong."""

    @abc.abstractmethod
    def site_terms(self, cavities: tuple[ScoreMoments, ...], sites: Sites) -> Scalar:
        """The sites' contribution to the log evidence, which is subtracted."""


class ExpectationPropagation(AbstractMethod):
    """Moment matching against the cavity of every observation (paper, appendix A).

    With cavity mean μ and variance Σ of an entry, δ₁ and δ₂ the derivatives of the
    observation's log-partition function and x the entry's coefficient, the sites are

        τ = −x² δ₂ / (1 + Σ x² δ₂)      ν = (x δ₁ − μ x² δ₂) / (1 + Σ x² δ₂)

    at the fixed point.

    Attributes:
        damping: the weight kept on the old sites, from 0 (none) to below 1.
        on_grid: whether to integrate likelihoods without closed forms over even grids of many
            nodes, which find all peaks and may have kinks. `infer` does so by itself where the
            usual quadrature fails.
    """

    damping: float = 0.0
    on_grid: bool = eqx.field(static=True, default=False)

    def __check_init__(self):
        """Reject a damping that would never move."""
        _check_damping(self.damping)

    def linearize(
        self, problem: Problem, cavities: tuple[ScoreMoments, ...], sites: Sites
    ) -> Linearization:
        score = problem.to_observations(cavities)
        marginal = problem.to_observations(add_sites(cavities, sites))
        value, first, second = problem.observe(self._evaluate, score)
        curvature = problem.curvature(second, score.variance)
        # From the mean of the tilted distribution, where the pull is `first`.
        beyond = marginal.mean - (score.mean + score.variance * first)
        pull = first - problem.curve(curvature, beyond)
        return Linearization(jnp.sum(value), marginal.mean, pull, curvature, second, score.variance)

    def second_after(
        self, problem: Problem, linear: Linearization, move: Float[Array, " N"]
    ) -> Float[Array, " N"]:
        if problem.is_relative:
            # The precisions of rankings hardly depend on the means. Evaluating them again takes
            # half the time of an iteration, and saves at most a quarter of the iterations
            # (`benchmarks/rankings.py`: none on Formula 1, 8 to 6 on random leagues).
            return linear.second
        pull = linear.pull - problem.curve(linear.curvature, move)
        mean = linear.score + move - linear.variance * pull
        return problem.observe(self._evaluate, ScoreMoments(mean, linear.variance)).second

    def site_precision(
        self, variance: Float[Array, "C R"], x: Float[Array, "C R"], second: Float[Array, "C R"]
    ) -> Float[Array, "C R"]:
        # Not x² times it: XLA would keep the squares for the next step.
        curvature = x * (x * second)
        return -curvature / (1.0 + variance * curvature)

    def observed(
        self, problem: Problem, cavities: tuple[ScoreMoments, ...], sites: Sites
    ) -> Scalar:
        score = problem.to_observations(cavities)
        return jnp.sum(problem.observe(self._evaluate, score).value)

    def is_misjudged(
        self, problem: Problem, cavities: tuple[ScoreMoments, ...], sites: Sites
    ) -> Bool[Array, ""]:
        return _any_misjudged(problem, problem.to_observations(cavities), False, self.on_grid)

    def site_terms(self, cavities: tuple[ScoreMoments, ...], sites: Sites) -> Scalar:
        return sum_over(_site_normaliser, cavities, sites)

    def _evaluate(
        self,
        likelihood: AbstractLikelihood,
        outcome: Array,
        mean: Array,
        variance: Array,
        weight: Weight,
    ) -> Derivatives:
        if self.on_grid and _needs_search(likelihood):
            return log_partition_on_grid(likelihood, outcome, mean, variance, weight)
        return likelihood.log_partition(outcome, mean, variance, weight)


class ReverseKL(AbstractMethod):
    """Maximisation of the evidence lower bound (paper, appendix A).

    With posterior mean μ of an entry, δ₁ and δ₂ the derivatives of the observation's expected
    log-likelihood and x the entry's coefficient, the sites are

        τ = −x² δ₂      ν = x δ₁ + μ τ

    at the fixed point.

    Attributes:
        damping: the weight kept on the old sites, from 0 (none) to below 1.
        on_grid: whether to integrate likelihoods without closed forms over even grids of many
            nodes, which find all peaks and may have kinks. `infer` does so by itself where the
            usual quadrature fails.
    """

    damping: float = 0.0
    on_grid: bool = eqx.field(static=True, default=False)

    def __check_init__(self):
        """Reject a damping that would never move."""
        _check_damping(self.damping)

    def linearize(
        self, problem: Problem, cavities: tuple[ScoreMoments, ...], sites: Sites
    ) -> Linearization:
        score = problem.to_observations(add_sites(cavities, sites))
        value, first, second = problem.observe(self._evaluate, score)
        return Linearization(jnp.sum(value), score.mean, first, -second, second, score.variance)

    def second_after(
        self, problem: Problem, linear: Linearization, move: Float[Array, " N"]
    ) -> Float[Array, " N"]:
        score = ScoreMoments(linear.score + move, linear.variance)
        return problem.observe(self._evaluate, score).second

    def site_precision(
        self, variance: Float[Array, "C R"], x: Float[Array, "C R"], second: Float[Array, "C R"]
    ) -> Float[Array, "C R"]:
        return -x * (x * second)

    def observed(
        self, problem: Problem, cavities: tuple[ScoreMoments, ...], sites: Sites
    ) -> Scalar:
        score = problem.to_observations(add_sites(cavities, sites))
        return jnp.sum(problem.observe(self._evaluate, score).value)

    def is_misjudged(
        self, problem: Problem, cavities: tuple[ScoreMoments, ...], sites: Sites
    ) -> Bool[Array, ""]:
        marginals = add_sites(cavities, sites)
        return _any_misjudged(problem, problem.to_observations(marginals), True, self.on_grid)

    def site_terms(self, cavities: tuple[ScoreMoments, ...], sites: Sites) -> Scalar:
        return sum_over(_expected_site, add_sites(cavities, sites), sites)

    def _evaluate(
        self,
        likelihood: AbstractLikelihood,
        outcome: Array,
        mean: Array,
        variance: Array,
        weight: Weight,
    ) -> Derivatives:
        if self.on_grid and _needs_search(likelihood):
            expected = expectation_on_grid(likelihood, outcome, mean, variance)
        else:
            expected = likelihood.expectation(outcome, mean, variance)
        if weight is None:
            return expected
        weight = jnp.asarray(weight)
        # Derivatives may have one more axis.
        parts = (jnp.asarray(part) for part in expected)
        return Derivatives(
            *(jnp.expand_dims(weight, range(weight.ndim, part.ndim)) * part for part in parts)
        )


def _needs_search(likelihood: AbstractLikelihood) -> bool:
    return likelihood.is_searched and likelihood.num_predictors == 1


def _any_misjudged(
    problem: Problem, score: ScoreMoments, expected: bool, on_grid: bool
) -> Bool[Array, ""]:
    """Check the integrals of a sample of observations, if quadrature may have gone wrong."""
    wrong = jnp.zeros((), bool)
    for likelihood in problem.likelihoods.values():
        # Where kinds are mixed, only the first of several likelihoods could be told apart.
        if not _needs_search(likelihood) or problem.events is not None:
            continue
        chosen = slice(None, None, max(len(problem.mask) // _CHECKED, 1))
        pick = operator.itemgetter(chosen)
        parts = (problem.outcome, score.mean, score.variance, problem.weight)
        outcome, mean, variance, weight = (None if x is None else pick(x) for x in parts)
        likelihood = map_observations(likelihood, pick)
        found = is_misjudged(
            likelihood, outcome.astype(mean.dtype), mean, variance, weight, expected, on_grid
        )
        wrong |= jnp.any(found & pick(problem.mask))
    return wrong


def _site_normaliser(cavity: ScoreMoments, site: Site) -> Float[Array, "C R"]:
    move = gain(site, cavity.mean, cavity.variance)
    return log_normaliser(site, cavity.mean, cavity.variance, move.s)


def _expected_site(entry: ScoreMoments, site: Site) -> Float[Array, "C R"]:
    """The expectation of ν s − τ s² / 2."""
    second_moment = entry.mean * entry.mean + entry.variance
    return site.precision_mean * entry.mean - 0.5 * site.precision * second_moment


def _check_damping(damping: float) -> None:
    if not 0.0 <= damping < 1.0:
        raise DataError(
            "{argument} is {value}",
            "It is the weight kept on the old sites: at least 0 and below 1.",
            argument="damping",
            value=damping,
        )
