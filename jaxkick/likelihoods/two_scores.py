"""Outcomes that depend on two scores: goals of both sides, and varying ties and noise."""

import abc
from typing import ClassVar, NamedTuple, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import ArrayLike

from jaxkick._math import (
    LOG_SQRT_2PI,
    Derivatives,
    Local,
    bounded_exp,
    log,
    pair_mean,
    skellam_cdf,
    tilted_log_partition,
    tilted_log_partition_of_two,
)
from jaxkick._typing import Array, Float, Key, Values
from jaxkick.likelihoods.integrals import align, log_partition_by_quadrature
from jaxkick.likelihoods.likelihood import AbstractLikelihood, Weight
from jaxkick.likelihoods.numeric import Poisson, draw_poisson
from jaxkick.likelihoods.ordinal import (
    OrdinalProbit,
    Probit,
    bounds_by_margin,
    margin_warnings,
    normal_between,
)
from jaxkick.parameters import AbstractParameter, named, positive, real

__all__ = ["BivariatePoisson", "DixonColes", "VaryingNoise", "VaryingTies"]

# Dixon and Coles' factors remove at most this share, and limit rates with this power.
_MOST_REMOVED = 0.99
_SHARP = 8
# The largest logarithm of a factor of a margin.
_LARGEST_LOG = 15.0
_RESULTS = "+1 (first wins), 0 (tie) or -1 (second wins)"
# Shared counts are summed in blocks of this size, at most this many.
_BLOCK, _MOST_SHARED = 4, 40


class _AbstractResults(AbstractLikelihood):
    """Win, tie or loss given the difference of skills f and a second score g.

    The first number of an outcome is the result; the second number is ignored. Expectation
    propagation integrates over f in closed form for weights of one.
    """

    num_predictors: ClassVar[int | None] = 2

    @abc.abstractmethod
    def _given_second(
        self, g: Values, result: Values, mean: Values, variance: Values
    ) -> Derivatives:
        """Compute log P(result | g) for f ~ N(mean, variance), and its derivatives in the mean."""

    @abc.abstractmethod
    def _local(self, g: Values, result: Values, mean: Values, variance: Values) -> Local:
        """Compute log P(result | g) and its derivatives in g."""

    def check_events(self, outcome: np.ndarray) -> np.ndarray:
        return self.check(outcome[..., 0])

    def given_second(
        self, mean: Float[Array, "..."], variance: Float[Array, "..."]
    ) -> "_KnownSecond":
        """Return the likelihood of matches given f alone, for g ~ N(mean, variance)."""
        return _KnownSecond(self, mean, variance)

    def log_prob(self, outcome: Values, score: Values) -> Values:
        f, g = score[..., 0], score[..., 1]
        return self._given_second(g, outcome[..., 0], f, jnp.zeros_like(f)).value

    def log_partition(
        self, outcome: ArrayLike, mean: ArrayLike, variance: ArrayLike, weight: Weight = None
    ) -> Derivatives:
        if weight is not None:
            return log_partition_by_quadrature(self, outcome, mean, variance, weight)
        mean, variance, outcome = align(mean, variance, outcome)
        arguments = (outcome[..., 0], mean[..., 0], variance[..., 0])
        fixed, fixed_arguments = lax.stop_gradient((self, arguments))
        in_g, in_f = tilted_log_partition_of_two(
            lambda g: self._local(g, *arguments),
            lambda g: fixed._local(g, *fixed_arguments),
            lambda g: self._given_second(g, *arguments)[1:],
            mean[..., 1],
            variance[..., 1],
        )
        pairs = zip(in_f[1:], in_g[1:], strict=True)
        return Derivatives(in_g.value, *(jnp.stack(pair, axis=-1) for pair in pairs))

    def probabilities(self, mean: ArrayLike, variance: ArrayLike) -> Float[Array, "... levels"]:
        mean, variance = align(mean, variance)
        levels = jnp.asarray(self.levels, mean.dtype)
        outcomes = jnp.stack([levels, jnp.zeros_like(levels)], -1)
        log_probs = self.predictive_log_prob(outcomes, mean[..., None, :], variance[..., None, :])
        return jax.nn.softmax(log_probs, axis=-1)

    def _results_at(self, score: float) -> list[float]:
        return self.duel()._results_at(score)


class VaryingTies(_AbstractResults):
    """Win, tie or loss with a margin of ties that depends on who plays.

    The first score f is the difference of skills, the second score g is a logarithm that
    multiplies the margin: P(win) = Φ(f − margin exp(g)), P(loss) = Φ(−f − margin exp(g)). The
    first number of an outcome is +1 (win), 0 (tie) or −1 (loss); the second number is ignored.
    Expectation propagation integrates over f in closed form for weights of one.

    Attributes:
        margin: half the width of the range of f plus noise that is a tie, at g = 0; positive.
    """

    margin: AbstractParameter = eqx.field(converter=named("margin", positive))

    @property
    def levels(self) -> tuple[float, ...]:
        return (-1.0, 0.0, 1.0)

    @property
    def domain(self) -> str:
        return _RESULTS

    def duel(self) -> OrdinalProbit:
        """Return the likelihood of a match whose margin is not changed: at g = 0."""
        return OrdinalProbit(self.margin)

    def warnings(self) -> tuple[tuple[str, str], ...]:
        return margin_warnings(float(self.margin.value))

    @classmethod
    def from_outcomes(cls, outcome: np.ndarray) -> Self:
        return cls(margin=0.5)

    def sample(self, key: Key[Array, ""], score: Values) -> Values:
        f, g = score[..., 0], score[..., 1]
        return _draw_results(key, f, self._width(g), jnp.ones_like(f))

    def _width(self, g: Values) -> Values:
        return self.margin.value.astype(g.dtype) * jnp.exp(jnp.minimum(g, _LARGEST_LOG))

    def _given_second(
        self, g: Values, result: Values, mean: Values, variance: Values
    ) -> Derivatives:
        bounds = bounds_by_margin(result, self._width(g))
        return normal_between(bounds, mean, lax.rsqrt(1 + variance))

    def _local(self, g: Values, result: Values, mean: Values, variance: Values) -> Local:
        value, first, second = self._given_second(g, result, mean, variance)
        width, scale = self._width(g), lax.rsqrt(1 + variance)
        tie, far = result == 0, jnp.stack([width - mean, width + mean]) * scale
        # Densities at both ends of the margin times its width, relative to the probability.
        log_share = jnp.where(tie, -0.5 * far * far - LOG_SQRT_2PI - value, -jnp.inf)
        share = scale * width * jnp.exp(log_share)
        inward = share[0] + share[1]
        bend = -scale * width * (far[0] * share[0] + far[1] * share[1]) - inward**2
        slope = jnp.where(tie, inward, -width * result * first)
        bend = jnp.where(tie, bend, width**2 * second)
        limited = g > _LARGEST_LOG
        return Local(value, jnp.where(limited, 0.0, slope), jnp.where(limited, 0.0, slope + bend))


class VaryingNoise(_AbstractResults):
    """Win or loss, or win, tie or loss, with a scale of noise that changes with time.

    The first score f is the difference of skills, the second score g is a logarithm that
    multiplies the noise: P(win) = Φ((f − margin) exp(−g)). As g grows, a sport becomes more even.
    The first number of an outcome is the result; the second number is ignored. Expectation
    propagation integrates over f in closed form for weights of one, and over g by quadrature, with
    errors below 3e-6 if its standard deviation is at most one half, as for a scale of noise that
    many matches share.

    Attributes:
        margin: half the width of the range of f plus noise that is a tie; positive, or `None`
            without ties.
    """

    margin: AbstractParameter | None = eqx.field(
        default=None, converter=lambda value: None if value is None else _as_margin(value)
    )

    @property
    def levels(self) -> tuple[float, ...]:
        return (-1.0, 1.0) if self.margin is None else (-1.0, 0.0, 1.0)

    @property
    def domain(self) -> str:
        return "+1 (first wins) or -1 (second wins)" if self.margin is None else _RESULTS

    def duel(self) -> AbstractLikelihood:
        """Return the likelihood of a match whose noise is not changed: at g = 0."""
        return Probit() if self.margin is None else OrdinalProbit(self.margin)

    def warnings(self) -> tuple[tuple[str, str], ...]:
        return () if self.margin is None else margin_warnings(float(self.margin.value))

    @classmethod
    def from_outcomes(cls, outcome: np.ndarray) -> Self:
        return cls(0.5 if (outcome[..., 0] == 0).any() else None)

    def sample(self, key: Key[Array, ""], score: Values) -> Values:
        f, g = score[..., 0], score[..., 1]
        return _draw_results(key, f, self._width(f.dtype), self._noise(g))

    def _noise(self, g: Values) -> Values:
        return jnp.exp(jnp.clip(g, -_LARGEST_LOG, _LARGEST_LOG))

    def _width(self, dtype: jnp.dtype) -> Values:
        return jnp.zeros((), dtype) if self.margin is None else self.margin.value.astype(dtype)

    def _given_second(
        self, g: Values, result: Values, mean: Values, variance: Values
    ) -> Derivatives:
        bounds = bounds_by_margin(result, self._width(g.dtype))
        return normal_between(bounds, mean, lax.rsqrt(self._noise(g) ** 2 + variance))

    def _local(self, g: Values, result: Values, mean: Values, variance: Values) -> Local:
        value, first, second = self._given_second(g, result, mean, variance)
        noise, width = self._noise(g) ** 2, self._width(g.dtype)
        total = noise + variance
        # Derivatives in the logarithm of the inverse scale: of a win or loss, then of a tie.
        far = mean - result * width
        tie, ends = result == 0, jnp.stack([width - mean, width + mean]) * lax.rsqrt(total)
        log_share = jnp.where(tie, -0.5 * ends * ends - LOG_SQRT_2PI - value, -jnp.inf)
        share = ends * jnp.exp(log_share)
        inward = share[0] + share[1]
        bend = jnp.sum((1 - ends * ends) * share, axis=0) - inward**2
        slope = jnp.where(tie, inward, first * far)
        bend = jnp.where(tie, bend, slope + second * far * far)
        # The inverse scale falls with the share of the noise, itself a function of g.
        part = jnp.where(jnp.abs(g) > _LARGEST_LOG, 0.0, noise / total)
        return Local(value, -part * slope, part * part * bend - 2 * part * (1 - part) * slope)


def _as_margin(value: ArrayLike | AbstractParameter) -> AbstractParameter:
    return named("margin", positive)(value)


def _draw_results(key: Key[Array, ""], f: Values, width: Values, noise: Values) -> Values:
    latent = f + noise * jax.random.normal(key, f.shape, f.dtype)
    result = jnp.where(jnp.abs(latent) < width, 0.0, jnp.sign(latent))
    return jnp.stack([result, jnp.zeros_like(result)], axis=-1)


class _KnownSecond(AbstractLikelihood):
    """The likelihood of matches whose g has a known distribution: of f alone.

    Attributes:
        likelihood: the likelihood of both scores.
        mean: mean of g, of each match.
        variance: variance of g.
    """

    likelihood: _AbstractResults
    mean: Float[Array, "..."]
    variance: Float[Array, "..."]

    @property
    def levels(self) -> tuple[float, ...]:
        return self.likelihood.levels

    @property
    def domain(self) -> str:
        return self.likelihood.domain

    def log_prob(self, outcome: Values, score: Values) -> Values:
        return self.predictive_log_prob(outcome, score, jnp.zeros_like(score))

    def predictive_log_prob(
        self, outcome: ArrayLike, mean: ArrayLike, variance: ArrayLike
    ) -> Values:
        outcome = _pair(jnp.asarray(outcome), jnp.zeros_like(self.mean))
        return self.likelihood.predictive_log_prob(outcome, *self._both(mean, variance))

    def probabilities(self, mean: ArrayLike, variance: ArrayLike) -> Float[Array, "... levels"]:
        return self.likelihood.probabilities(*self._both(mean, variance))

    def _both(self, mean: ArrayLike, variance: ArrayLike) -> tuple[Values, Values]:
        mean, variance = align(mean, variance)
        return _pair(mean, self.mean), _pair(variance, self.variance)


def _pair(first: Values, second: Values) -> Values:
    return jnp.stack(jnp.broadcast_arrays(first, second), axis=-1)


class _AbstractGoals(AbstractLikelihood):
    """Counts of both sides with the logarithms of their rates as scores."""

    num_predictors: ClassVar[int | None] = 2

    @property
    def domain(self) -> str:
        return "two whole numbers not below zero"

    def check(self, outcome: np.ndarray) -> np.ndarray:
        return Poisson().check(outcome)

    @property
    def has_results(self) -> bool:
        """True: the sign of the difference of the counts is the result."""
        return True

    def score_variance(self, outcome: np.ndarray) -> float:
        return Poisson().score_variance(outcome)

    def score_offset(self, outcome: np.ndarray) -> float:
        return Poisson().score_offset(outcome)

    def difference(self, base_rate: float) -> AbstractLikelihood:
        """Return the likelihood of the difference of both counts.

        It is that of independent counts: a shared count cancels, and Dixon and Coles' factors
        move as much from ties to wins as to losses, which leaves expected results as they are.
        """
        return Poisson().difference(base_rate)

    def joint_probabilities(
        self, mean: ArrayLike, variance: ArrayLike, largest: int = 10
    ) -> Float[Array, "... first second"]:
        mean, variance = align(mean, variance)
        independent = Poisson().joint_probabilities(mean, variance, largest)
        return self._relate(independent, mean, variance)

    def joint_log_prob(self, counts: ArrayLike, mean: ArrayLike, variance: ArrayLike) -> Values:
        return self.predictive_log_prob(counts, mean, variance)

    def result_probabilities(
        self, mean: ArrayLike, variance: ArrayLike, ties: bool | None = None
    ) -> Float[Array, "... 3"]:
        mean, variance = align(mean, variance)

        def results(f, g):
            # A shared count does not change the difference.
            rates, none = (bounded_exp(f), bounded_exp(g)), jnp.zeros_like(f)
            moved = self._moved(f, g)
            loss = skellam_cdf(none - 1, *rates) + moved
            return loss, 1 - skellam_cdf(none, *rates) + moved

        loss, win = pair_mean(results, jnp.moveaxis(mean, -1, 0), jnp.moveaxis(variance, -1, 0))
        if ties is None or ties:
            return jnp.stack([loss, 1.0 - loss - win, win], axis=-1)
        return jnp.stack([loss, jnp.zeros_like(win), win], axis=-1) / (loss + win)[..., None]

    def log_partition(
        self, outcome: ArrayLike, mean: ArrayLike, variance: ArrayLike, weight: Weight = None
    ) -> Derivatives:
        if weight is not None:
            return log_partition_by_quadrature(self, outcome, mean, variance, weight)
        return self._separate(*align(mean, variance, outcome))

    @abc.abstractmethod
    def _separate(self, mean: Values, variance: Values, outcome: Values) -> Derivatives:
        """Compute `log_partition` for a likelihood that is a sum of functions of f times g."""

    @abc.abstractmethod
    def _relate(self, independent: Values, mean: Values, variance: Values) -> Values:
        """Turn the probabilities of pairs of independent counts into those of these counts."""

    @abc.abstractmethod
    def _moved(self, f: Values, g: Values) -> Values:
        """Compute the probability that is moved from ties to each side's wins by one goal."""


class BivariatePoisson(_AbstractGoals):
    """Counts of both sides that share a part: y₁ = u₁ + u₃ and y₂ = u₂ + u₃.

    The parts are independent Poisson counts with rates exp(f₁), exp(f₂) and `shared`, so that the
    counts have covariance `shared` (Karlis and Ntzoufras, 2003).

    Attributes:
        shared: the rate of the shared part; positive.
    """

    shared: AbstractParameter = eqx.field(converter=named("shared", positive))

    @property
    def domain(self) -> str:
        return f"two whole numbers not below zero, the smaller one not above {_MOST_SHARED}"

    def check_events(self, outcome: np.ndarray) -> np.ndarray:
        return super().check_events(outcome) | (np.min(outcome, axis=-1) > _MOST_SHARED)

    def describe(self) -> str:
        return (
            f"counts of both sides, of which {float(self.shared.value):.2g} are shared on average; "
            "a score higher by 0.1 raises the rate of the others by 10.5 % (BivariatePoisson)"
        )

    def count(self) -> "_CountWithShare":
        return _CountWithShare(self.shared)

    @classmethod
    def from_outcomes(cls, outcome: np.ndarray) -> Self:
        rate = max(float(np.mean(outcome)), 0.1)
        return cls(float(np.clip(np.cov(outcome.T)[0, 1], 0.05 * rate, 0.5 * rate)))

    def log_prob(self, outcome: Values, score: Values) -> Values:
        log_shared = self._log_shared(score.dtype)
        log_ratio = log_shared - score[..., 0] - score[..., 1]
        ways = _log_shared_sum(outcome[..., 0], outcome[..., 1], log_ratio)
        return _log_poisson(outcome, score) - jnp.exp(log_shared) + ways

    def _separate(self, mean: Values, variance: Values, outcome: Values) -> Derivatives:
        # Given the shared count, both others are independent Poisson counts.
        log_shared, fewer = self._log_shared(mean.dtype), jnp.min(outcome, axis=-1)

        @jax.checkpoint
        def add_count(terms: _Terms, count: Values) -> tuple[_Terms, None]:
            def add(terms: _Terms) -> _Terms:
                others = jnp.maximum(outcome - count, 0.0)
                log_weight = count * log_shared - lax.lgamma(count + 1)
                parts = Poisson().log_partition(others, mean, variance)
                return terms.plus(log_weight, jnp.where(count <= fewer, 1.0, 0.0), parts)

            return lax.cond(count <= jnp.max(fewer), add, lambda terms: terms, terms), None

        first = Poisson().log_partition(outcome, mean, variance)
        counts = jnp.arange(1, _MOST_SHARED + 1, dtype=mean.dtype)
        terms, _ = lax.scan(add_count, _Terms.of(first), counts)
        value, *slopes = terms.result()
        return Derivatives(value - jnp.exp(log_shared), *slopes)

    def sample(self, key: Key[Array, ""], score: Values) -> Values:
        own, common = jax.random.split(key)
        log_shared = jnp.broadcast_to(self._log_shared(score.dtype), score.shape[:-1])
        shared = draw_poisson(common, log_shared)
        return draw_poisson(own, score) + shared[..., None]

    def _relate(self, independent: Values, mean: Values, variance: Values) -> Values:
        log_shared = self._log_shared(mean.dtype)
        one_more = [(0, 0)] * (independent.ndim - 2) + [(1, 0), (1, 0)]

        def add_count(carry: tuple[Values, Values], count: Values):
            grid, total = carry
            weight = jnp.exp(Poisson().log_prob(count, log_shared))
            return (jnp.pad(grid[..., :-1, :-1], one_more), total + weight * grid), None

        counts = jnp.arange(independent.shape[-1], dtype=mean.dtype)
        (_, total), _ = lax.scan(add_count, (independent, jnp.zeros_like(independent)), counts)
        return total

    def _moved(self, f: Values, g: Values) -> Values:
        return jnp.zeros_like(f)

    def _log_shared(self, dtype: jnp.dtype) -> Values:
        return jnp.log(jnp.maximum(self.shared.value.astype(dtype), 1e-30))


class DixonColes(_AbstractGoals):
    """Counts of both sides, independent except for low ones (Dixon and Coles, 1997).

    The probability of independent Poisson counts with rates λ = exp(f₁) and μ = exp(f₂) is
    multiplied by 1 − λμρ for 0–0, 1 + λρ for 0–1, 1 + μρ for 1–0 and 1 − ρ for 1–1. Probabilities
    sum to one. To keep the factors positive, rates in them are limited smoothly: to 1 / |ρ| if ρ is
    negative and to 1 / √ρ if it is positive. Rates of half that change by less than 0.1 %.

    Attributes:
        correlation: ρ; negative if 0–0 and 1–1 are more frequent than for independent counts.
    """

    correlation: AbstractParameter = eqx.field(converter=named("correlation", real))

    def describe(self) -> str:
        rho = float(self.correlation.value)
        change = "more" if rho < 0 else "less"
        return (
            f"counts of both sides, with 1–1 {100 * abs(rho):.2g} % {change} frequent than for "
            "independent counts; a score higher by 0.1 raises a rate by 10.5 % (DixonColes)"
        )

    def count(self) -> Poisson:
        return Poisson()

    @classmethod
    def from_outcomes(cls, outcome: np.ndarray) -> Self:
        return cls(-0.05)

    def log_prob(self, outcome: Values, score: Values) -> Values:
        return _log_poisson(outcome, score) + log(self._factor(outcome, score))

    def sample(self, key: Key[Array, ""], score: Values) -> Values:
        independent, moving = jax.random.split(key)
        counts = draw_poisson(independent, score)
        # What the factors remove from a pair goes to its neighbour with a tie broken or made.
        moves = jax.random.uniform(moving, score.shape[:-1]) > self._factor(counts, score)
        second = jnp.where(moves, 1 - counts[..., 1], counts[..., 1])
        return jnp.stack([counts[..., 0], second], axis=-1)

    def _separate(self, mean: Values, variance: Values, outcome: Values) -> Derivatives:
        # The factors add or subtract ρ λ exp(−λ) μ exp(−μ), with limited rates.
        rho, low = self._correlation(mean.dtype), outcome <= 1
        sign = jnp.where(outcome[..., 0] == outcome[..., 1], -jnp.sign(rho), jnp.sign(rho))
        fixed = lax.stop_gradient(self)
        one = jnp.ones_like(mean)
        moved = tilted_log_partition(
            _local(lambda score: self._log_limited(score) - bounded_exp(score)),
            _local(lambda score: fixed._log_limited(score) - bounded_exp(score)),
            Poisson().anchor(one, 1.0),
            mean,
            variance,
            None,
        )
        terms = _Terms.of(Poisson().log_partition(outcome, mean, variance))
        sign = jnp.where(jnp.all(low, axis=-1), sign, 0.0)
        return terms.plus(jnp.log(jnp.maximum(jnp.abs(rho), 1e-30)), sign, moved).result()

    def _relate(self, independent: Values, mean: Values, variance: Values) -> Values:
        parts = jnp.moveaxis(mean, -1, 0), jnp.moveaxis(variance, -1, 0)
        (moved,) = pair_mean(lambda f, g: (self._moved(f, g),), *parts)
        low = np.zeros(independent.shape[-2:])
        low[:2, :2] = np.array([[-1.0, 1.0], [1.0, -1.0]])[: len(low), : len(low)]
        return independent + moved[..., None, None] * jnp.asarray(low, mean.dtype)

    def _factor(self, outcome: Values, score: Values) -> Values:
        limited = self._log_limited(score)
        zero, one = -jnp.exp(limited), jnp.exp(limited - score)
        low = jnp.where(outcome == 0, zero, jnp.where(outcome == 1, one, 0.0))
        return 1 - self._correlation(score.dtype) * low[..., 0] * low[..., 1]

    def _log_limited(self, score: Values) -> Values:
        """Return the logarithm of a rate, or of the largest one with positive factors."""
        rho = self._correlation(score.dtype)
        slope = jnp.where(rho < 0, rho**_SHARP, jnp.abs(rho) ** (_SHARP // 2)) / _MOST_REMOVED
        excess = slope * jnp.exp(_SHARP * jnp.minimum(score, _LARGEST_LOG / 2))
        return jnp.minimum(score, _LARGEST_LOG / 2) - jnp.log1p(excess) / _SHARP

    def _correlation(self, dtype: jnp.dtype) -> Values:
        return jnp.minimum(self.correlation.value.astype(dtype), _MOST_REMOVED)

    def _moved(self, f: Values, g: Values) -> Values:
        limited = self._log_limited(f) + self._log_limited(g) - bounded_exp(f) - bounded_exp(g)
        return self._correlation(f.dtype) * jnp.exp(limited)


class _CountWithShare(AbstractLikelihood):
    """The count of one side under `BivariatePoisson`: a Poisson count with rate exp(f) + shared.

    Attributes:
        shared: the rate of the shared part; positive.
    """

    shared: AbstractParameter = eqx.field(converter=named("shared", positive))

    @property
    def domain(self) -> str:
        return Poisson().domain

    def check(self, outcome: np.ndarray) -> np.ndarray:
        return Poisson().check(outcome)

    def log_prob(self, outcome: Values, score: Values) -> Values:
        log_shared = jnp.log(jnp.maximum(self.shared.value.astype(score.dtype), 1e-30))
        return Poisson().log_prob(outcome, jnp.logaddexp(score, log_shared))

    def predictive_mean(self, mean: ArrayLike, variance: ArrayLike) -> Values:
        own = Poisson().predictive_mean(mean, variance)
        return own + self.shared.value.astype(own.dtype)

    def predictive_variance(self, mean: ArrayLike, variance: ArrayLike) -> Values:
        own = Poisson().predictive_variance(mean, variance)
        return own + self.shared.value.astype(own.dtype)


class _Terms(NamedTuple):
    """A sum of products of a function of f and one of g, both integrated.

    Attributes:
        top: logarithm of the largest term, constant under differentiation.
        total: the sum of terms, relative to the largest one.
        first: the same sum of the first derivatives in each mean.
        second: the same sum of the second derivatives.
    """

    top: Values
    total: Values
    first: Float[Array, "... 2"]
    second: Float[Array, "... 2"]

    @classmethod
    def of(cls, parts: Derivatives) -> Self:
        """Start with one term, given the logarithms of its factors along the last axis."""
        log_term = jnp.sum(parts.value, axis=-1)
        top = lax.stop_gradient(log_term)
        size = jnp.exp(log_term - top)
        wide = size[..., None]
        return cls(top, size, wide * parts.first, wide * (parts.second + parts.first**2))

    def plus(self, log_weight: Values, sign: Values, parts: Derivatives) -> "_Terms":
        """Add sign · exp(log_weight) times a term."""
        log_term = log_weight + jnp.sum(parts.value, axis=-1)
        used = sign != 0
        top = jnp.maximum(self.top, jnp.where(used, lax.stop_gradient(log_term), -jnp.inf))
        kept = jnp.exp(self.top - top)
        size = sign * jnp.exp(jnp.where(used, log_term - top, 0.0))
        wide = size[..., None]
        return _Terms(
            top,
            kept * self.total + size,
            kept[..., None] * self.first + wide * parts.first,
            kept[..., None] * self.second + wide * (parts.second + parts.first**2),
        )

    def result(self) -> Derivatives:
        total = self.total[..., None]
        first = self.first / total
        return Derivatives(jnp.log(self.total) + self.top, first, self.second / total - first**2)


def _log_poisson(outcome: Values, score: Values) -> Values:
    """Compute the log-probability of two independent counts."""
    parts = Poisson().log_prob(outcome, score)
    return parts[..., 0] + parts[..., 1]


def _local(function):
    """Evaluate a function of one score and its derivatives."""

    def at(score):
        one = jnp.ones_like(score)
        with_slope = lambda score: jax.jvp(function, (score,), (one,))  # noqa: E731
        (value, first), (_, second) = jax.jvp(with_slope, (score,), (one,))
        return Local(value, first, second)

    return at


def _log_shared_sum(first: Values, second: Values, log_ratio: Values) -> Values:
    """Compute log Σ_k C(first, k) C(second, k) k! tᵏ with t = exp(log_ratio).

    The terms are divided by (1 + t)ⁿ with n = min(first, second), so that none overflows.
    """
    fewer = jnp.minimum(first, second)
    share, rest = jax.nn.sigmoid(log_ratio), jax.nn.sigmoid(-log_ratio)

    def add_block(carry, start):
        def add(carry):
            term, total = carry
            for k in range(_BLOCK):
                number = start + k
                ways = (first - number + 1) * (second - number + 1) / number
                term = term * jnp.where(number <= fewer, ways, 0.0) * share
                total = jnp.where(number <= fewer, total * rest + term, total)
            return term, total

        return lax.cond(start <= jnp.max(fewer), add, lambda carry: carry, carry), None

    one = jnp.ones_like(share)
    starts = jnp.arange(1, _MOST_SHARED + 1, _BLOCK, dtype=share.dtype)
    (_, total), _ = lax.scan(add_block, (one, one), starts)
    return fewer * jax.nn.softplus(log_ratio) + log(total)
