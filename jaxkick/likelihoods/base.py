"""What a likelihood is: log p(outcome | score), and all that inference makes of it.

A likelihood of your own needs `log_prob` alone::

    class StudentT(AbstractLikelihood):
        def log_prob(self, outcome, score):
            return -2.5 * jnp.log1p((outcome - score) ** 2 / 4.0)

The moments that inference needs then come from automatic differentiation and quadrature.
Methods work elementwise on arrays that broadcast, in the floating-point type of the mean.
"""

import abc
import dataclasses
import math
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import ArrayLike

from jaxkick._numerics import Anchor, Derivatives, Local
from jaxkick._typing import Array, Float, Key
from jaxkick.likelihoods.integrals import (
    align,
    expectation_by_quadrature,
    log_partition_by_quadrature,
)

__all__ = ["AbstractLikelihood", "Derivatives"]


class AbstractLikelihood(eqx.Module):
    """The probability of an outcome given the score of an observation."""

    @abc.abstractmethod
    def log_prob(
        self, outcome: Float[Array, "..."], score: Float[Array, "..."]
    ) -> Float[Array, "..."]:
        """log p(outcome | score)."""

    @property
    def domain(self) -> str:
        """What outcomes are allowed, in words."""
        return "a finite number"

    def check(self, outcome: np.ndarray) -> np.ndarray:
        """Say which outcomes are outside the domain; on the host.

        Args:
            outcome: outcomes as the user gave them.

        Returns:
            True where an outcome is not possible.
        """
        return ~np.isfinite(outcome)

    def log_partition(
        self,
        outcome: ArrayLike,
        mean: ArrayLike,
        variance: ArrayLike,
        weight: ArrayLike | None = None,
    ) -> Derivatives:
        """log ∫ p(outcome | f)^weight N(f; mean, variance) df and its derivatives in the mean.

        Expectation propagation matches moments with these (paper, appendix A).

        Args:
            outcome: coded as the likelihood asks.
            mean: cavity mean of the score.
            variance: cavity variance of the score.
            weight: power on the likelihood, not below zero; one if `None`.

        Returns:
            The log-partition function, its first and its second derivative.
        """
        return log_partition_by_quadrature(self, outcome, mean, variance, weight)

    def expectation(self, outcome: ArrayLike, mean: ArrayLike, variance: ArrayLike) -> Derivatives:
        """E[log p(outcome | f)] for f ~ N(mean, variance), and its derivatives in the mean.

        Inference by reverse KL divergence climbs these (paper, appendix A).

        Args:
            outcome: coded as the likelihood asks.
            mean: marginal mean of the score.
            variance: marginal variance of the score.

        Returns:
            The expectation, its first and its second derivative.
        """
        return expectation_by_quadrature(self, outcome, mean, variance)

    @property
    def stride(self) -> float:
        """How far one step of reverse KL may move a score; infinite unless curvature explodes."""
        return math.inf

    def predictive_log_prob(
        self, outcome: ArrayLike, mean: ArrayLike, variance: ArrayLike
    ) -> Float[Array, "..."]:
        """log p(outcome) for a score f ~ N(mean, variance)."""
        return self.log_partition(outcome, mean, variance).value

    @property
    def levels(self) -> tuple[float, ...]:
        """The possible outcomes in increasing order, if they are finitely many, else `()`."""
        return ()

    def probabilities(self, mean: ArrayLike, variance: ArrayLike) -> Float[Array, "... levels"]:
        """The probability of each of the `levels` for a score f ~ N(mean, variance).

        Args:
            mean: mean of the score.
            variance: variance of the score.

        Returns:
            Probabilities that sum to one.

        Raises:
            NotImplementedError: if the outcomes are not finitely many.
        """
        if not self.levels:
            raise self._lacks("probabilities", "`predictive_log_prob` gives that of any outcome")
        mean, variance = align(mean, variance)
        levels = jnp.asarray(self.levels, dtype=mean.dtype)
        log_probs = self.predictive_log_prob(levels, mean[..., None], variance[..., None])
        return jax.nn.softmax(log_probs, axis=-1)

    def predictive_mean(self, mean: ArrayLike, variance: ArrayLike) -> Float[Array, "..."]:
        """The mean of the outcome for a score f ~ N(mean, variance)."""
        probabilities = self.probabilities(mean, variance)
        return jnp.sum(probabilities * jnp.asarray(self.levels, dtype=probabilities.dtype), axis=-1)

    def predictive_variance(self, mean: ArrayLike, variance: ArrayLike) -> Float[Array, "..."]:
        """The variance of the outcome for a score f ~ N(mean, variance)."""
        probabilities = self.probabilities(mean, variance)
        levels = jnp.asarray(self.levels, dtype=probabilities.dtype)
        centred = levels - jnp.sum(probabilities * levels, axis=-1, keepdims=True)
        return jnp.sum(probabilities * centred**2, axis=-1)

    def predictive_quantile(
        self, probability: ArrayLike, mean: ArrayLike, variance: ArrayLike
    ) -> Float[Array, "..."]:
        """The smallest outcome that is not exceeded with some probability.

        Args:
            probability: between zero and one.
            mean: mean of the score.
            variance: variance of the score.

        Returns:
            Quantiles of the outcome.
        """
        mean, variance, probability = align(mean, variance, probability)
        cumulative = jnp.cumsum(self.probabilities(mean, variance), axis=-1)
        below = jnp.sum(cumulative[..., :-1] < probability[..., None], axis=-1)
        return jnp.asarray(self.levels, dtype=mean.dtype)[below]

    def sample(self, key: Key[Array, ""], score: Float[Array, "..."]) -> Float[Array, "..."]:
        """Draw outcomes.

        Args:
            key: random key.
            score: scores.

        Returns:
            One outcome for each score.

        Raises:
            NotImplementedError: if the likelihood does not say how.
        """
        raise self._lacks("sample", "define the method to draw from it")

    def local(self, outcome: Float[Array, "..."]) -> Callable[[Array], Local]:
        """The likelihood of given outcomes as a function of the score, with its slopes.

        For quadrature. Whatever depends on the outcome alone belongs outside the function
        that is returned, which is called for every node.

        Args:
            outcome: coded as the likelihood asks.

        Returns:
            Function of the score; up to `constant`.
        """

        def at(score):
            one = jnp.ones_like(score)

            def with_slope(score):
                return jax.jvp(lambda f: self.log_prob(outcome, f), (score,), (one,))

            (value, first), (_, second) = jax.jvp(with_slope, (score,), (one,))
            return Local(value, first, second)

        return at

    def constant(self, outcome: Float[Array, "..."]) -> Float[Array, "..."] | float:
        """The part of log p that does not depend on the score and that `local` leaves out."""
        return 0.0

    def anchor(
        self, outcome: Float[Array, "..."], weight: Float[Array, "..."] | float
    ) -> Anchor | None:
        """Where the likelihood, raised to a power, bends as a function of the score.

        Quadrature places its nodes there. Only for log-concave likelihoods.

        Args:
            outcome: coded as the likelihood asks.
            weight: the power.

        Returns:
            The place, or `None` to have it searched for.
        """
        return None

    def __repr__(self) -> str:
        """The call that makes this likelihood."""
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        texts = [f"{name}={value!r}" for name, value in values.items() if value is not None]
        return f"{type(self).__name__}({', '.join(texts)})"

    def _lacks(self, what: str, remedy: str) -> NotImplementedError:
        return NotImplementedError(f"{type(self).__name__} has no `{what}`; {remedy}.")
