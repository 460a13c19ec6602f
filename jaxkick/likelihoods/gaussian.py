"""A real-valued outcome, such as a difference of points."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import ArrayLike

from jaxkick._numerics import Derivatives
from jaxkick._parameters import AbstractParameter, named, positive
from jaxkick._typing import Array, Float, Key
from jaxkick.likelihoods.base import AbstractLikelihood
from jaxkick.likelihoods.integrals import align

__all__ = ["Gaussian"]

LOG_2PI = 1.8378770664093453


class Gaussian(AbstractLikelihood):
    """outcome = f + noise, with noise ~ N(0, variance); everything in closed form.

    Attributes:
        variance: variance of the noise.
    """

    variance: AbstractParameter = eqx.field(converter=named("variance", positive))

    def log_prob(
        self, outcome: Float[Array, "..."], score: Float[Array, "..."]
    ) -> Float[Array, "..."]:
        noise = self.variance.value.astype(score.dtype)
        return -0.5 * (LOG_2PI + jnp.log(noise) + (outcome - score) ** 2 / noise)

    def log_partition(
        self,
        outcome: ArrayLike,
        mean: ArrayLike,
        variance: ArrayLike,
        weight: ArrayLike | None = None,
    ) -> Derivatives:
        mean, variance, outcome, weight = align(
            mean, variance, outcome, 1.0 if weight is None else weight
        )
        noise = self.variance.value.astype(mean.dtype)
        # N(y; f, s)^w is N(y; f, s / w) up to a constant.
        precision = weight / (noise + weight * variance)
        error = outcome - mean
        value = -0.5 * (
            weight * (LOG_2PI + jnp.log(noise))
            + jnp.log1p(weight * variance / noise)
            + precision * error**2
        )
        return Derivatives(value, precision * error, -precision)

    def expectation(self, outcome: ArrayLike, mean: ArrayLike, variance: ArrayLike) -> Derivatives:
        mean, variance, outcome = align(mean, variance, outcome)
        noise = self.variance.value.astype(mean.dtype)
        error = outcome - mean
        value = -0.5 * (LOG_2PI + jnp.log(noise) + (error**2 + variance) / noise)
        return Derivatives(value, error / noise, jnp.broadcast_to(-1 / noise, mean.shape))

    def predictive_mean(self, mean: ArrayLike, variance: ArrayLike) -> Float[Array, "..."]:
        return align(mean, variance)[0]

    def predictive_variance(self, mean: ArrayLike, variance: ArrayLike) -> Float[Array, "..."]:
        mean, variance = align(mean, variance)
        return variance + self.variance.value.astype(mean.dtype)

    def predictive_quantile(
        self, probability: ArrayLike, mean: ArrayLike, variance: ArrayLike
    ) -> Float[Array, "..."]:
        mean, variance, probability = align(mean, variance, probability)
        deviation = jnp.sqrt(self.predictive_variance(mean, variance))
        return mean + deviation * jax.scipy.special.ndtri(probability)

    def sample(self, key: Key[Array, ""], score: Float[Array, "..."]) -> Float[Array, "..."]:
        deviation = jnp.sqrt(self.variance.value.astype(score.dtype))
        return score + deviation * jax.random.normal(key, score.shape, score.dtype)
