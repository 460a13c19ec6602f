"""Numeric outcomes: differences of points, counts, and differences of counts."""

import math
from collections.abc import Callable
from typing import Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.scipy.special import ndtr
from jaxtyping import ArrayLike

from jaxkick._math import (
    Anchor,
    Derivatives,
    Local,
    Precision,
    bounded_exp,
    exp_limit,
    gaussian_mean,
    integer_quantile,
    log_ive,
    logistic,
    skellam_cdf,
)
from jaxkick._math.special import LOG_2PI
from jaxkick._typing import Array, Key, Values
from jaxkick.likelihoods.integrals import align
from jaxkick.likelihoods.likelihood import AbstractLikelihood, Weight
from jaxkick.parameters import AbstractParameter, named, positive, real

__all__ = ["Gaussian", "NegativeBinomial", "Poisson", "Skellam"]

# exp(−weight · rate) falls off around weight · rate = _FALL_RATE, over this range of scores.
_FALL_RATE = 6.0
_FALL_SCALE = 0.8
# Stirling's series is used for sizes (inverse dispersions) above this.
_LARGE_SIZE = 100.0
# Starting values assume no smaller rate of counts.
_LEAST_RATE = 0.1


class Gaussian(AbstractLikelihood):
    """A numeric outcome with normal noise: outcome ~ N(f, variance).

    All integrals have closed forms.

    Attributes:
        variance: the variance of the noise; positive.
    """

    variance: AbstractParameter = eqx.field(converter=named("variance", positive))

    @property
    def has_results(self) -> bool:
        return True

    def describe(self) -> str:
        deviation = float(f"{math.sqrt(float(self.variance.value)):.2g}")
        return f"the score plus noise with standard deviation {deviation:g} (Gaussian)"

    @classmethod
    def from_outcomes(cls, outcome: np.ndarray) -> Self:
        return cls(0.5 * _spread(outcome))

    def score_variance(self, outcome: np.ndarray) -> float:
        return 0.5 * _spread(outcome)

    def log_prob(self, outcome: Values, score: Values) -> Values:
        noise = self.variance.value.astype(score.dtype)
        return -0.5 * (LOG_2PI + jnp.log(noise) + (outcome - score) ** 2 / noise)

    def log_partition(
        self, outcome: ArrayLike, mean: ArrayLike, variance: ArrayLike, weight: Weight = None
    ) -> Derivatives:
        weight = 1.0 if weight is None else weight
        mean, variance, outcome, weight = align(mean, variance, outcome, weight)
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

    def predictive_mean(self, mean: ArrayLike, variance: ArrayLike) -> Values:
        return align(mean, variance)[0]

    def predictive_variance(self, mean: ArrayLike, variance: ArrayLike) -> Values:
        mean, variance = align(mean, variance)
        return variance + self.variance.value.astype(mean.dtype)

    def predictive_quantile(
        self, probability: ArrayLike, mean: ArrayLike, variance: ArrayLike
    ) -> Values:
        mean, variance, probability = align(mean, variance, probability)
        deviation = jnp.sqrt(self.predictive_variance(mean, variance))
        return mean + deviation * jax.scipy.special.ndtri(probability)

    def _loss_and_win(self, mean: Values, variance: Values, ties: bool) -> tuple[Values, Values]:
        scale = 1.0 / jnp.sqrt(self.predictive_variance(mean, variance))
        half = 0.5 if ties else 0.0
        return ndtr((-half - mean) * scale), ndtr((mean - half) * scale)

    def sample(self, key: Key[Array, ""], score: Values) -> Values:
        deviation = jnp.sqrt(self.variance.value.astype(score.dtype))
        return score + deviation * jax.random.normal(key, score.shape, score.dtype)


class Poisson(AbstractLikelihood):
    """A count with rate exp(f).

    Outcomes are integers ≥ 0. Expectations for reverse KL have a closed form.
    """

    @property
    def domain(self) -> str:
        return "a whole number not below zero"

    def check(self, outcome: np.ndarray) -> np.ndarray:
        return ~np.isfinite(outcome) | (outcome < 0) | (outcome != np.round(outcome))

    def difference(self, base_rate: float) -> "Skellam":
        return Skellam(base_rate)

    def score_variance(self, outcome: np.ndarray) -> float:
        # The excess of the variance of counts over that of a single rate, relative to its square.
        rate = max(float(np.mean(outcome)), _LEAST_RATE)
        return float(np.clip((np.var(outcome) - rate) / rate**2, 0.05, 1.0))

    def score_offset(self, outcome: np.ndarray) -> float:
        return math.log(max(float(np.mean(outcome)), _LEAST_RATE))

    def describe(self) -> str:
        return "a count; a score higher by 0.1 raises its rate by 10.5 % (Poisson)"

    def log_prob(self, outcome: Values, score: Values) -> Values:
        return outcome * score - bounded_exp(score) + self.constant(outcome)

    def expectation(self, outcome: ArrayLike, mean: ArrayLike, variance: ArrayLike) -> Derivatives:
        mean, variance, outcome = align(mean, variance, outcome)
        rate = bounded_exp(mean + 0.5 * variance)
        return Derivatives(outcome * mean - rate + self.constant(outcome), outcome - rate, -rate)

    def local(self, outcome: Values) -> Callable[[Array], Local]:
        def at(score):
            rate = jnp.exp(jnp.minimum(score, exp_limit(score.dtype)))
            return Local(outcome * score - bounded_exp(score), outcome - rate, -rate)

        return at

    def constant(self, outcome: Values) -> Values:
        return -lax.lgamma(outcome + 1)

    def anchor(self, outcome: Values, weight: Values | float) -> Anchor:
        centre = jnp.log(outcome + _falls_at(weight))
        return Anchor(centre, jnp.full_like(centre, _FALL_SCALE))

    def predictive_mean(self, mean: ArrayLike, variance: ArrayLike) -> Values:
        mean, variance = align(mean, variance)
        return bounded_exp(mean + 0.5 * variance)

    def predictive_variance(self, mean: ArrayLike, variance: ArrayLike) -> Values:
        mean, variance = align(mean, variance)
        spread = bounded_exp(2 * mean + variance) * (bounded_exp(variance) - 1)
        return _finite(bounded_exp(mean + 0.5 * variance) + spread)

    def predictive_quantile(
        self, probability: ArrayLike, mean: ArrayLike, variance: ArrayLike
    ) -> Values:
        mean, variance, probability = align(mean, variance, probability)
        reach = Precision.of(mean.dtype).reach * jnp.sqrt(variance)

        def reached(count):
            anchor = Anchor(jnp.log(count + 0.5), jnp.minimum(1.5 * lax.rsqrt(count + 0.5), 0.8))
            none = jnp.zeros_like(mean)
            cdf = lambda score: skellam_cdf(count, bounded_exp(score), none)  # noqa: E731
            return gaussian_mean(cdf, anchor, mean, variance) >= probability

        high = _largest(bounded_exp(mean + reach))
        return integer_quantile(reached, jnp.full_like(mean, -1.0), high)

    def sample(self, key: Key[Array, ""], score: Values) -> Values:
        return draw_poisson(key, score)


class NegativeBinomial(AbstractLikelihood):
    """A count with mean μ = exp(f) and variance μ + dispersion · μ².

    Outcomes are integers ≥ 0. Counts vary more than those of `Poisson`, which is the limit for a
    dispersion of zero.

    Attributes:
        dispersion: the variance of the relative rate of a count; positive.
    """

    dispersion: AbstractParameter = eqx.field(converter=named("dispersion", positive))

    @property
    def domain(self) -> str:
        return Poisson().domain

    def check(self, outcome: np.ndarray) -> np.ndarray:
        return Poisson().check(outcome)

    def score_variance(self, outcome: np.ndarray) -> float:
        return 0.5 * Poisson().score_variance(outcome)

    def score_offset(self, outcome: np.ndarray) -> float:
        return Poisson().score_offset(outcome)

    @classmethod
    def from_outcomes(cls, outcome: np.ndarray) -> Self:
        # Scores explain the other half.
        return cls(0.5 * Poisson().score_variance(outcome))

    def describe(self) -> str:
        dispersion = float(self.dispersion.value)
        return (
            f"a count with variance mean + {dispersion:.2g} mean²; a score higher by 0.1 raises "
            "its mean by 10.5 % (NegativeBinomial)"
        )

    def log_prob(self, outcome: Values, score: Values) -> Values:
        return self.local(outcome)(score).exponent + self.constant(outcome)

    def local(self, outcome: Values) -> Callable[[Array], Local]:
        size = self._size(outcome.dtype)
        log_size, total = jnp.log(size), outcome + size

        def at(score):
            odds = score - log_size
            part = logistic(odds)
            growth = jnp.maximum(odds, 0.0) + jnp.log1p(jnp.exp(-jnp.abs(odds)))
            slope = outcome - total * part.win
            return Local(outcome * score - total * growth, slope, -total * part.win * part.loss)

        return at

    def constant(self, outcome: Values) -> Values:
        """Compute log [Γ(y + size) / (Γ(size) sizeʸ y!)]."""
        size = self._size(outcome.dtype)
        total, large = outcome + size, size > _LARGE_SIZE
        # Stirling's series for a large size, where the logarithms of Γ would cancel.
        end, start = jnp.where(large, total, _LARGE_SIZE), jnp.where(large, size, _LARGE_SIZE)
        series = (total - 0.5) * jnp.log1p(outcome / size) - outcome
        series += (1 / end - 1 / start) / 12 - (end**-3 - start**-3) / 360
        small = jnp.where(large, 1.0, size)
        direct = lax.lgamma(outcome + small) - lax.lgamma(small) - outcome * jnp.log(small)
        return jnp.where(large, series, direct) - lax.lgamma(outcome + 1)

    def anchor(self, outcome: Values, weight: Values | float) -> Anchor:
        size = self._size(outcome.dtype)
        # The slope changes around μ = size, or, if that is large, as that of Poisson.
        centre = jnp.log(jnp.minimum(outcome + _falls_at(weight), size))
        narrow = 3.0 * lax.rsqrt(jnp.maximum(weight * (outcome + size), 1.0))
        return Anchor(centre, jnp.maximum(narrow, _FALL_SCALE))

    def predictive_mean(self, mean: ArrayLike, variance: ArrayLike) -> Values:
        return Poisson().predictive_mean(mean, variance)

    def predictive_variance(self, mean: ArrayLike, variance: ArrayLike) -> Values:
        mean, variance = align(mean, variance)
        squares = bounded_exp(2 * mean + 2 * variance) / self._size(mean.dtype)
        return _finite(Poisson().predictive_variance(mean, variance) + squares)

    def sample(self, key: Key[Array, ""], score: Values) -> Values:
        first, second = jax.random.split(key)
        size = self._size(score.dtype)
        relative = jax.random.loggamma(first, size, score.shape, score.dtype) - jnp.log(size)
        return draw_poisson(second, score + relative)

    def _size(self, dtype: jnp.dtype) -> Values:
        """The number of failures in the usual parametrisation, limited to stay finite."""
        return 1 / jnp.maximum(self.dispersion.value.astype(dtype), 1e-12)


class Skellam(AbstractLikelihood):
    """The difference of two counts with rates exp(base_rate + f) and exp(base_rate − f).

    Outcomes are integers. Expectations for reverse KL have a closed form.

    Attributes:
        base_rate: the logarithm of the rate of both counts at f = 0; any real number.
    """

    base_rate: AbstractParameter = eqx.field(converter=named("base_rate", real))

    @property
    def domain(self) -> str:
        return "a whole number"

    def check(self, outcome: np.ndarray) -> np.ndarray:
        return ~np.isfinite(outcome) | (outcome != np.round(outcome))

    def describe(self) -> str:
        rate = math.exp(float(self.base_rate.value))
        return (
            f"a difference of two counts with rate {rate:.3g} each between equals; a lead of 0.1 "
            "raises the first rate by 10.5 % and lowers the second by 9.5 % (Skellam)"
        )

    @classmethod
    def from_outcomes(cls, outcome: np.ndarray) -> Self:
        # At f = 0 the variance is the sum of both rates.
        return cls(math.log(0.5 * _spread(outcome)))

    def log_prob(self, outcome: Values, score: Values) -> Values:
        return self.local(outcome)(score).exponent + self.constant(outcome)

    def expectation(self, outcome: ArrayLike, mean: ArrayLike, variance: ArrayLike) -> Derivatives:
        mean, variance, outcome = align(mean, variance, outcome)
        rate = self._rate(mean.dtype)
        up = rate * bounded_exp(0.5 * variance + mean)
        down = rate * bounded_exp(0.5 * variance - mean)
        value = outcome * mean - (up - rate) - (down - rate) + self.constant(outcome)
        return Derivatives(value, outcome - up + down, -up - down)

    def local(self, outcome: Values) -> Callable[[Array], Local]:
        rate = self._rate(outcome.dtype)

        def at(score):
            limit = exp_limit(score.dtype)
            up = rate * jnp.exp(jnp.minimum(score, limit))
            down = rate * jnp.exp(jnp.minimum(-score, limit))
            total = rate * (bounded_exp(score) - 1) + rate * (bounded_exp(-score) - 1)
            return Local(outcome * score - total, outcome - up + down, -up - down)

        return at

    def constant(self, outcome: Values) -> Values:
        return log_ive(jnp.abs(outcome), 2 * self._rate(outcome.dtype))

    def anchor(self, outcome: Values, weight: Values | float) -> Anchor:
        # The likelihood falls off on both sides, where the larger rate exceeds the difference.
        rate, falls_at = self._rate(outcome.dtype), _falls_at(weight)
        peak = jnp.arcsinh(0.5 * outcome / rate)
        upper = jnp.maximum(jnp.log((jnp.maximum(outcome, 0.0) + falls_at) / rate), peak)
        lower = jnp.minimum(-jnp.log((jnp.maximum(-outcome, 0.0) + falls_at) / rate), peak)
        centre = 0.5 * (lower + upper)
        return Anchor(centre, jnp.full_like(centre, _FALL_SCALE), 0.5 * (upper - lower))

    def predictive_mean(self, mean: ArrayLike, variance: ArrayLike) -> Values:
        mean, variance = align(mean, variance)
        rate = self._rate(mean.dtype)
        return rate * (bounded_exp(0.5 * variance + mean) - bounded_exp(0.5 * variance - mean))

    def predictive_variance(self, mean: ArrayLike, variance: ArrayLike) -> Values:
        mean, variance = align(mean, variance)
        rate = self._rate(mean.dtype)
        up, down = bounded_exp(0.5 * variance + mean), bounded_exp(0.5 * variance - mean)
        growth = bounded_exp(variance) - 1
        # The variance of exp(f) − exp(−f); the covariance of the two terms is 1 − up · down.
        spread = (up**2 + down**2) * growth + 2 * (up * down - 1)
        return _finite(rate * (up + down) + rate**2 * spread)

    def predictive_quantile(
        self, probability: ArrayLike, mean: ArrayLike, variance: ArrayLike
    ) -> Values:
        mean, variance, probability = align(mean, variance, probability)
        rate = self._rate(mean.dtype)
        reach = Precision.of(mean.dtype).reach * jnp.sqrt(variance)

        def reached(count):
            centre = jnp.arcsinh(0.5 * (count + 0.5) / rate)
            width = 1.5 * lax.rsqrt(2 * rate * jnp.cosh(centre))
            anchor = Anchor(centre, jnp.minimum(width, 0.8))
            return self._cdf(count, mean, variance, anchor) >= probability

        high = _largest(rate * bounded_exp(mean + reach))
        low = -_largest(rate * bounded_exp(reach - mean))
        return integer_quantile(reached, low, high)

    def _loss_and_win(self, mean: Values, variance: Values, ties: bool) -> tuple[Values, Values]:
        anchor = Anchor(jnp.zeros_like(mean), jnp.full_like(mean, 0.8))
        loss = self._cdf(jnp.full_like(mean, -1.0), mean, variance, anchor)
        return loss, 1.0 - self._cdf(jnp.zeros_like(mean), mean, variance, anchor)

    def _cdf(self, count: Values, mean: Values, variance: Values, anchor: Anchor) -> Values:
        """Compute the probability of outcomes up to `count`."""
        rate = self._rate(mean.dtype)

        def cdf(score):
            return skellam_cdf(count, rate * bounded_exp(score), rate * bounded_exp(-score))

        return gaussian_mean(cdf, anchor, mean, variance)

    def sample(self, key: Key[Array, ""], score: Values) -> Values:
        first, second = jax.random.split(key)
        base_rate = self.base_rate.value.astype(score.dtype)
        return draw_poisson(first, base_rate + score) - draw_poisson(second, base_rate - score)

    def _rate(self, dtype: jnp.dtype) -> Values:
        return bounded_exp(self.base_rate.value.astype(dtype))


def _falls_at(weight: Values | float) -> Values | float:
    """Return the rate around which exp(−weight · rate) falls off."""
    if isinstance(weight, float):
        return _FALL_RATE / max(weight, 1e-6)
    return _FALL_RATE / jnp.maximum(weight, 1e-6)


def _largest(rate: Values) -> Values:
    """Return an upper bound on counts with this rate, among exactly representable integers."""
    limit = 1e15 if rate.dtype == jnp.float64 else 1e7
    rate = jnp.minimum(rate, limit)
    return jnp.ceil(rate + 10 * jnp.sqrt(rate)) + 50


def _finite(value: Values) -> Values:
    return jnp.minimum(value, jnp.finfo(value.dtype).max)


def draw_poisson(key: Key[Array, ""], log_rate: Values) -> Values:
    """Draw counts. Rates are limited to 10⁹ because counts are 32-bit integers."""
    rate = jnp.exp(jnp.minimum(log_rate, 20.7))
    return jax.random.poisson(key, rate, dtype=jnp.int32).astype(log_rate.dtype)


def _spread(outcome: np.ndarray) -> float:
    """Return the variance of outcomes, or one if they are all equal."""
    variance = float(np.var(outcome))
    return variance if variance > 0 else 1.0
