"""From scores to the probabilities of what people bet on: loss, tie and win."""

from functools import singledispatch

import jax.numpy as jnp
import numpy as np
from jax.scipy.special import ndtr

from jaxkick._numerics import Anchor, bounded_exp, gaussian_mean, skellam_cdf
from jaxkick._typing import Array, Float
from jaxkick.likelihoods.base import AbstractLikelihood
from jaxkick.likelihoods.count import Skellam
from jaxkick.likelihoods.gaussian import Gaussian

__all__ = ["outcome_levels", "outcome_places", "outcome_probabilities"]


def outcome_levels(likelihood: AbstractLikelihood, ties: bool) -> tuple[float, ...]:
    """The outcomes that have a probability, in increasing order; none for counts.

    Args:
        likelihood: how an outcome follows from the score.
        ties: whether a difference of points may be zero.
    """
    if likelihood.levels:
        return likelihood.levels
    if not _has_sign(likelihood):
        return ()
    return (-1.0, 0.0, 1.0) if ties else (-1.0, 1.0)


def outcome_places(
    likelihood: AbstractLikelihood, outcome: np.ndarray, ties: bool, rows: np.ndarray
) -> np.ndarray:
    """The place of each outcome among the `outcome_levels`; by its sign for differences.

    Args:
        likelihood: how an outcome follows from the score.
        outcome: what happened.
        ties: whether a difference of points may be zero.
        rows: the user's rows of the outcomes, for the error.

    Raises:
        ValueError: if there is a tie where none may be.
    """
    levels = np.array(outcome_levels(likelihood, ties))
    if not likelihood.levels:
        outcome = np.sign(outcome)
        if not ties and (outcome == 0).any():
            raise ValueError(
                f"the outcome in row {rows[int(np.argmax(outcome == 0))]} is a tie, but `ties` is "
                "false or no earlier match was one; pass `ties=True`."
            )
    return np.searchsorted(levels, outcome)


def outcome_probabilities(
    likelihood: AbstractLikelihood,
    mean: Float[Array, " n"],
    variance: Float[Array, " n"],
    ties: bool,
) -> Float[Array, "n levels"]:
    """The probability of each of the `outcome_levels`.

    For differences of points: those of their sign. Points are whole numbers, so that a
    difference of a continuous likelihood is a tie within half a point of zero. Without ties
    their probability goes to both sides in proportion.

    Args:
        likelihood: how an outcome follows from the score.
        mean: mean of the score.
        variance: variance of the score.
        ties: whether a difference of points may be zero.
    """
    if likelihood.levels:
        return likelihood.probabilities(mean, variance)
    return _sign_probabilities(likelihood, mean, variance, ties)


def _has_sign(likelihood: AbstractLikelihood) -> bool:
    return _sign_probabilities.dispatch(type(likelihood)) is not _sign_probabilities.dispatch(
        object
    )


@singledispatch
def _sign_probabilities(
    likelihood: AbstractLikelihood, mean: Array, variance: Array, ties: bool
) -> Float[Array, "n levels"]:
    return jnp.zeros((*mean.shape, 0), mean.dtype)


@_sign_probabilities.register
def _(likelihood: Gaussian, mean: Array, variance: Array, ties: bool) -> Float[Array, "n levels"]:
    scale = 1.0 / jnp.sqrt(likelihood.predictive_variance(mean, variance))
    if not ties:
        return jnp.stack([ndtr(-mean * scale), ndtr(mean * scale)], axis=-1)
    loss, win = ndtr((-0.5 - mean) * scale), ndtr((mean - 0.5) * scale)
    return jnp.stack([loss, 1.0 - loss - win, win], axis=-1)


@_sign_probabilities.register
def _(likelihood: Skellam, mean: Array, variance: Array, ties: bool) -> Float[Array, "n levels"]:
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
