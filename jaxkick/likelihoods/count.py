"""Counts, and differences of counts, such as goals."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import ArrayLike

from jaxkick._numerics import (
    Anchor,
    Derivatives,
    Local,
    Precision,
    bounded_exp,
    exp_limit,
    gaussian_mean,
    integer_quantile,
    log_ive,
    skellam_cdf,
)
from jaxkick._parameters import AbstractParameter, named, real
from jaxkick._typing import Array, Float, Key
from jaxkick.likelihoods.base import AbstractLikelihood
from jaxkick.likelihoods.integrals import align

__all__ = ["Poisson", "Skellam"]

# Where exp(−weight · rate) falls off: the rate, times the weight, around which nodes gather,
# and the range of the score over which it does.
_FALL_RATE = 6.0
_FALL_SCALE = 0.8
# A rate grows e-fold for every unit of the score: one step of reverse KL goes no further.
_STRIDE = 1.0


class Poisson(AbstractLikelihood):
    """A count with rate exp(f).

    Outcomes: whole numbers from zero. Inference by reverse KL has its expectations in closed
    form.
    """

    @property
    def domain(self) -> str:
        return "a whole number not below zero"

    def check(self, outcome: np.ndarray) -> np.ndarray:
        return ~np.isfinite(outcome) | (outcome < 0) | (outcome != np.round(outcome))

    def log_prob(
        self, outcome: Float[Array, "..."], score: Float[Array, "..."]
    ) -> Float[Array, "..."]:
        return outcome * score - bounded_exp(score) + self.constant(outcome)

    def expectation(self, outcome: ArrayLike, mean: ArrayLike, variance: ArrayLike) -> Derivatives:
        mean, variance, outcome = align(mean, variance, outcome)
        rate = bounded_exp(mean + 0.5 * variance)
        return Derivatives(outcome * mean - rate + self.constant(outcome), outcome - rate, -rate)

    @property
    def stride(self) -> float:
        return _STRIDE

    def local(self, outcome: Float[Array, "..."]) -> Callable[[Array], Local]:
        def at(score):
            rate = jnp.exp(jnp.minimum(score, exp_limit(score.dtype)))
            return Local(outcome * score - bounded_exp(score), outcome - rate, -rate)

        return at

    def constant(self, outcome: Float[Array, "..."]) -> Float[Array, "..."]:
        return -lax.lgamma(outcome + 1)

    def anchor(self, outcome: Float[Array, "..."], weight: Float[Array, "..."] | float) -> Anchor:
        centre = jnp.log(outcome + _falls_at(weight))
        return Anchor(centre, jnp.full_like(centre, _FALL_SCALE))

    def predictive_mean(self, mean: ArrayLike, variance: ArrayLike) -> Float[Array, "..."]:
        mean, variance = align(mean, variance)
        return bounded_exp(mean + 0.5 * variance)

    def predictive_variance(self, mean: ArrayLike, variance: ArrayLike) -> Float[Array, "..."]:
        mean, variance = align(mean, variance)
        spread = bounded_exp(2 * mean + variance) * (bounded_exp(variance) - 1)
        return _finite(bounded_exp(mean + 0.5 * variance) + spread)

    def predictive_quantile(
        self, probability: ArrayLike, mean: ArrayLike, variance: ArrayLike
    ) -> Float[Array, "..."]:
        mean, variance, probability = align(mean, variance, probability)
        reach = Precision.of(mean.dtype).reach * jnp.sqrt(variance)

        def reached(count):
            anchor = Anchor(jnp.log(count + 0.5), jnp.minimum(1.5 * lax.rsqrt(count + 0.5), 0.8))
            none = jnp.zeros_like(mean)
            cdf = lambda score: skellam_cdf(count, bounded_exp(score), none)  # noqa: E731
            return gaussian_mean(cdf, anchor, mean, variance) >= probability

        high = _largest(bounded_exp(mean + reach))
        return integer_quantile(reached, jnp.full_like(mean, -1.0), high)

    def sample(self, key: Key[Array, ""], score: Float[Array, "..."]) -> Float[Array, "..."]:
        return _draw_poisson(key, score)


class Skellam(AbstractLikelihood):
    """The difference of two counts with rates exp(base_rate + f) and exp(base_rate − f).

    Outcomes: whole numbers. Inference by reverse KL has its expectations in closed form.

    Attributes:
        base_rate: logarithm of the geometric mean of the two rates.
    """

    base_rate: AbstractParameter = eqx.field(converter=named("base_rate", real))

    @property
    def domain(self) -> str:
        return "a whole number"

    def check(self, outcome: np.ndarray) -> np.ndarray:
        return ~np.isfinite(outcome) | (outcome != np.round(outcome))

    def log_prob(
        self, outcome: Float[Array, "..."], score: Float[Array, "..."]
    ) -> Float[Array, "..."]:
        return self.local(outcome)(score).exponent + self.constant(outcome)

    def expectation(self, outcome: ArrayLike, mean: ArrayLike, variance: ArrayLike) -> Derivatives:
        mean, variance, outcome = align(mean, variance, outcome)
        rate = self._rate(mean.dtype)
        up = rate * bounded_exp(0.5 * variance + mean)
        down = rate * bounded_exp(0.5 * variance - mean)
        value = outcome * mean - (up - rate) - (down - rate) + self.constant(outcome)
        return Derivatives(value, outcome - up + down, -up - down)

    @property
    def stride(self) -> float:
        return _STRIDE

    def local(self, outcome: Float[Array, "..."]) -> Callable[[Array], Local]:
        rate = self._rate(outcome.dtype)

        def at(score):
            limit = exp_limit(score.dtype)
            up = rate * jnp.exp(jnp.minimum(score, limit))
            down = rate * jnp.exp(jnp.minimum(-score, limit))
            total = rate * (bounded_exp(score) - 1) + rate * (bounded_exp(-score) - 1)
            return Local(outcome * score - total, outcome - up + down, -up - down)

        return at

    def constant(self, outcome: Float[Array, "..."]) -> Float[Array, "..."]:
        return log_ive(jnp.abs(outcome), 2 * self._rate(outcome.dtype))

    def anchor(self, outcome: Float[Array, "..."], weight: Float[Array, "..."] | float) -> Anchor:
        # Falls off on both sides, where the winner's rate comes to exceed the difference.
        rate, falls_at = self._rate(outcome.dtype), _falls_at(weight)
        peak = jnp.arcsinh(0.5 * outcome / rate)
        upper = jnp.maximum(jnp.log((jnp.maximum(outcome, 0.0) + falls_at) / rate), peak)
        lower = jnp.minimum(-jnp.log((jnp.maximum(-outcome, 0.0) + falls_at) / rate), peak)
        centre = 0.5 * (lower + upper)
        return Anchor(centre, jnp.full_like(centre, _FALL_SCALE), 0.5 * (upper - lower))

    def predictive_mean(self, mean: ArrayLike, variance: ArrayLike) -> Float[Array, "..."]:
        mean, variance = align(mean, variance)
        rate = self._rate(mean.dtype)
        return rate * (bounded_exp(0.5 * variance + mean) - bounded_exp(0.5 * variance - mean))

    def predictive_variance(self, mean: ArrayLike, variance: ArrayLike) -> Float[Array, "..."]:
        mean, variance = align(mean, variance)
        rate = self._rate(mean.dtype)
        up, down = bounded_exp(0.5 * variance + mean), bounded_exp(0.5 * variance - mean)
        growth = bounded_exp(variance) - 1
        # Variance of exp(f) − exp(−f), whose covariance is exp(0) − up · down.
        spread = (up**2 + down**2) * growth + 2 * (up * down - 1)
        return _finite(rate * (up + down) + rate**2 * spread)

    def predictive_quantile(
        self, probability: ArrayLike, mean: ArrayLike, variance: ArrayLike
    ) -> Float[Array, "..."]:
        mean, variance, probability = align(mean, variance, probability)
        rate = self._rate(mean.dtype)
        reach = Precision.of(mean.dtype).reach * jnp.sqrt(variance)

        def reached(count):
            centre = jnp.arcsinh(0.5 * (count + 0.5) / rate)
            width = 1.5 * lax.rsqrt(2 * rate * jnp.cosh(centre))
            cdf = lambda f: skellam_cdf(  # noqa: E731
                count, rate * bounded_exp(f), rate * bounded_exp(-f)
            )
            anchor = Anchor(centre, jnp.minimum(width, 0.8))
            return gaussian_mean(cdf, anchor, mean, variance) >= probability

        high = _largest(rate * bounded_exp(mean + reach))
        low = -_largest(rate * bounded_exp(reach - mean))
        return integer_quantile(reached, low, high)

    def sample(self, key: Key[Array, ""], score: Float[Array, "..."]) -> Float[Array, "..."]:
        first, second = jax.random.split(key)
        base_rate = self.base_rate.value.astype(score.dtype)
        return _draw_poisson(first, base_rate + score) - _draw_poisson(second, base_rate - score)

    def _rate(self, dtype: jnp.dtype) -> Float[Array, "..."]:
        return bounded_exp(self.base_rate.value.astype(dtype))


def _falls_at(weight: Float[Array, "..."] | float) -> Float[Array, "..."] | float:
    """The rate around which exp(−weight · rate) falls off."""
    if isinstance(weight, float):
        return _FALL_RATE / max(weight, 1e-6)
    return _FALL_RATE / jnp.maximum(weight, 1e-6)


def _largest(rate: Float[Array, "..."]) -> Float[Array, "..."]:
    """A count that one with this rate does not exceed, within what the type counts exactly."""
    limit = 1e15 if rate.dtype == jnp.float64 else 1e7
    rate = jnp.minimum(rate, limit)
    return jnp.ceil(rate + 10 * jnp.sqrt(rate)) + 50


def _finite(value: Float[Array, "..."]) -> Float[Array, "..."]:
    return jnp.minimum(value, jnp.finfo(value.dtype).max)


def _draw_poisson(key: Key[Array, ""], log_rate: Float[Array, "..."]) -> Float[Array, "..."]:
    """Draw counts; rates beyond 10⁹, which a 32-bit integer does not hold, count as that."""
    rate = jnp.exp(jnp.minimum(log_rate, 20.7))
    return jax.random.poisson(key, rate, dtype=jnp.int32).astype(log_rate.dtype)
