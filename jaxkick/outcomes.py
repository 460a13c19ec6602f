"""What a score says of outcomes: distributions of numbers, and win, tie or loss from them."""

from collections.abc import Callable
from functools import singledispatch
from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import ndtr
from jaxtyping import ArrayLike

from jaxkick._numerics import Anchor, bounded_exp, gaussian_mean, skellam_cdf
from jaxkick._parameters import resolve
from jaxkick._typing import Array, Float, Scalar
from jaxkick.likelihoods.base import AbstractLikelihood
from jaxkick.likelihoods.count import Skellam
from jaxkick.likelihoods.gaussian import Gaussian

__all__ = [
    "Distribution",
    "distribute",
    "expected_score",
    "has_results",
    "has_sign_chances",
    "is_whole",
    "level_chances",
    "outcome_chances",
    "outcome_columns",
    "quantile",
    "result_chances",
    "sign_chances",
]

_TAIL = 1e-6
_POINTS = 201


class Distribution(NamedTuple):
    """How probable every outcome is, where outcomes are numbers.

    Attributes:
        outcomes: the outcomes, increasing, the same for all predictions.
        probabilities: their probabilities along the last axis; densities if outcomes are not
            whole numbers.
    """

    outcomes: np.ndarray
    probabilities: Float[Array, "... G"]


def is_whole(likelihood: AbstractLikelihood) -> bool:
    """Whether the outcomes of a likelihood are whole numbers."""
    return bool(np.all(likelihood.check(np.array([0.5]))))


def distribute(
    likelihood: AbstractLikelihood,
    mean: Float[Array, "..."],
    variance: Float[Array, "..."],
    outcomes: ArrayLike | None = None,
) -> Distribution:
    """The distribution of outcomes for scores f ~ N(mean, variance).

    Args:
        likelihood: how an outcome follows from f.
        mean: means of scores.
        variance: their variances.
        outcomes: the outcomes to tell the probability of; if `None` those that leave out one
            in a million on either side, whole numbers or 201 points between.

    Returns:
        The distribution.
    """
    if outcomes is None:
        outcomes = _range_of(likelihood, mean, variance)
    outcomes = np.atleast_1d(np.asarray(outcomes, np.float64))
    grid = jnp.asarray(outcomes, mean.dtype)
    return Distribution(outcomes, outcome_chances(likelihood, grid, mean, variance))


def result_chances(
    likelihood: AbstractLikelihood, mean: Float[Array, "..."], variance: Float[Array, "..."]
) -> Float[Array, "... 3"]:
    """The probabilities that the first side loses, ties and wins.

    Args:
        likelihood: how an outcome follows from the score of a match.
        mean: means of scores.
        variance: their variances.

    Raises:
        ValueError: if outcomes are no results: levels other than -1, 0 and +1, or counts.
    """
    if not has_results(likelihood):
        raise ValueError(
            f"{type(likelihood).__name__} has no win, tie and loss: its outcomes are "
            f"{likelihood.domain}."
        )
    if likelihood.levels or has_sign_chances(likelihood):
        return _closed_chances(likelihood, mean, variance)
    return _signs_of(distribute(likelihood, mean, variance))


def outcome_columns(
    likelihood: AbstractLikelihood, mean: Float[Array, "..."], variance: Float[Array, "..."]
) -> dict[str, Float[Array, "..."]]:
    """What a table says of outcomes: results where there are any, and numbers where they are."""
    columns = {}
    if not likelihood.levels:
        columns["expected"] = likelihood.predictive_mean(mean, variance)
        columns["expected_deviation"] = jnp.sqrt(likelihood.predictive_variance(mean, variance))
    if has_results(likelihood):
        loss, tie, win = jnp.moveaxis(result_chances(likelihood, mean, variance), -1, 0)
        without_ties = isinstance(likelihood, Gaussian) or len(likelihood.levels) == 2
        ties = {} if without_ties else {"tie": tie}
        return {**columns, "first_wins": win, **ties, "second_wins": loss}
    if likelihood.levels:
        chances = likelihood.probabilities(mean, variance)
        for place, level in enumerate(likelihood.levels):
            columns[f"outcome_{level:g}"] = chances[..., place]
    return columns


def has_results(likelihood: AbstractLikelihood) -> bool:
    """Whether outcomes say who won: -1, 0 and +1, or numbers of either sign."""
    if likelihood.levels:
        return set(likelihood.levels) <= {-1.0, 0.0, 1.0}
    whole_or_normal = isinstance(likelihood, Gaussian) or is_whole(likelihood)
    return whole_or_normal and not np.any(likelihood.check(np.array([-1.0])))


def expected_score(likelihood: AbstractLikelihood, score: ArrayLike) -> np.ndarray:
    """The probability of a win plus half that of a tie, at scores that are known."""
    scores = jnp.asarray(score, jnp.result_type(float))
    chances = result_chances(resolve(likelihood, scores.dtype), scores, jnp.zeros_like(scores))
    return np.asarray(chances[..., 2] + 0.5 * chances[..., 1])


@eqx.filter_jit
def _closed_chances(
    likelihood: AbstractLikelihood, mean: Float[Array, "..."], variance: Float[Array, "..."]
) -> Float[Array, "... 3"]:
    """Loss, tie and win where no range of outcomes has to be searched for."""
    levels = likelihood.levels
    if levels:
        chances = likelihood.probabilities(mean, variance)
        columns = [
            chances[..., levels.index(level)] if level in levels else jnp.zeros_like(mean)
            for level in (-1.0, 0.0, 1.0)
        ]
        return jnp.stack(columns, axis=-1)
    if not isinstance(likelihood, Gaussian):
        return sign_chances(likelihood, mean, variance, ties=True)
    loss, win = jnp.moveaxis(sign_chances(likelihood, mean, variance, ties=False), -1, 0)
    return jnp.stack([loss, jnp.zeros_like(win), win], axis=-1)


@singledispatch
def sign_chances(
    likelihood: AbstractLikelihood,
    mean: Float[Array, "..."],
    variance: Float[Array, "..."],
    ties: bool,
) -> Float[Array, "... signs"]:
    """The probabilities that a difference of points is below zero, zero and above.

    Points are whole numbers, so that a difference of a continuous likelihood is a tie within
    half a point of zero. Without ties their probability goes to both sides in proportion.

    Args:
        likelihood: how a difference follows from the score; of other kinds none is returned.
        mean: mean of the score.
        variance: variance of the score.
        ties: whether a difference may be zero.
    """
    return jnp.zeros((*mean.shape, 0), mean.dtype)


@sign_chances.register
def _(likelihood: Gaussian, mean: Array, variance: Array, ties: bool) -> Float[Array, "... signs"]:
    scale = 1.0 / jnp.sqrt(likelihood.predictive_variance(mean, variance))
    if not ties:
        return jnp.stack([ndtr(-mean * scale), ndtr(mean * scale)], axis=-1)
    loss, win = ndtr((-0.5 - mean) * scale), ndtr((mean - 0.5) * scale)
    return jnp.stack([loss, 1.0 - loss - win, win], axis=-1)


@sign_chances.register
def _(likelihood: Skellam, mean: Array, variance: Array, ties: bool) -> Float[Array, "... signs"]:
    rate = bounded_exp(likelihood.base_rate.value.astype(mean.dtype))

    def below(count: float) -> Array:
        anchor = Anchor(jnp.zeros_like(mean), jnp.full_like(mean, 0.8))
        place = jnp.full_like(mean, count)
        return gaussian_mean(
            lambda f: skellam_cdf(place, rate * bounded_exp(f), rate * bounded_exp(-f)),
            anchor,
            mean,
            variance,
        )

    loss, win = below(-1.0), 1.0 - below(0.0)
    if not ties:
        return jnp.stack([loss, win], axis=-1) / (loss + win)[..., None]
    return jnp.stack([loss, 1.0 - loss - win, win], axis=-1)


def has_sign_chances(likelihood: AbstractLikelihood) -> bool:
    """Whether `sign_chances` knows the likelihood."""
    return sign_chances.dispatch(type(likelihood)) is not sign_chances.dispatch(object)


@eqx.filter_jit
def level_chances(
    likelihood: AbstractLikelihood, mean: Float[Array, "..."], variance: Float[Array, "..."]
) -> Float[Array, "... L"]:
    """The probability of every level, compiled."""
    return likelihood.probabilities(mean, variance)


@eqx.filter_jit
def quantile(
    likelihood: AbstractLikelihood,
    probability: Scalar,
    mean: Float[Array, "..."],
    variance: Float[Array, "..."],
) -> Float[Array, "..."]:
    """The quantile of the outcome, compiled: the search for it would be slow otherwise."""
    return likelihood.predictive_quantile(probability, mean, variance)


@eqx.filter_jit
def outcome_chances(
    likelihood: AbstractLikelihood,
    outcomes: Float[Array, " G"],
    mean: Float[Array, "..."],
    variance: Float[Array, "..."],
) -> Float[Array, "... G"]:
    """The probability of every outcome for every score, compiled."""
    return jnp.exp(likelihood.predictive_log_prob(outcomes, mean[..., None], variance[..., None]))


def _signs_of(distribution: Distribution) -> Float[Array, "... 3"]:
    sign, chances = np.sign(distribution.outcomes), distribution.probabilities
    total = jnp.sum(chances, axis=-1)
    sums = [jnp.sum(jnp.where(sign == each, chances, 0.0), axis=-1) / total for each in (-1, 0, 1)]
    return jnp.stack(sums, axis=-1)


def _range_of(
    likelihood: AbstractLikelihood, mean: Float[Array, "..."], variance: Float[Array, "..."]
) -> np.ndarray:
    if likelihood.levels:
        return np.asarray(likelihood.levels)

    def ends(probability: float, choose: Callable) -> float:
        wanted = jnp.asarray(probability, mean.dtype)
        return float(choose(quantile(likelihood, wanted, mean, variance)))

    low, high = ends(_TAIL, jnp.min), ends(1.0 - _TAIL, jnp.max)
    if is_whole(likelihood):
        return np.arange(low, high + 1.0)
    return np.linspace(low, high, _POINTS)
