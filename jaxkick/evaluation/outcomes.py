"""From scores to the probabilities of what people bet on: loss, tie and win."""

import numpy as np

from jaxkick._typing import Array, Float
from jaxkick.likelihoods.base import AbstractLikelihood
from jaxkick.outcomes import has_sign_chances, sign_chances

__all__ = ["outcome_levels", "outcome_places", "outcome_probabilities"]


def outcome_levels(likelihood: AbstractLikelihood, ties: bool) -> tuple[float, ...]:
    """The outcomes that have a probability, in increasing order; none for counts.

    Args:
        likelihood: how an outcome follows from the score.
        ties: whether a difference of points may be zero.
    """
    if likelihood.levels:
        return likelihood.levels
    if not has_sign_chances(likelihood):
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

    For differences of points: those of their sign; see `sign_chances`.

    Args:
        likelihood: how an outcome follows from the score.
        mean: mean of the score.
        variance: variance of the score.
        ties: whether a difference of points may be zero.
    """
    if likelihood.levels:
        return likelihood.probabilities(mean, variance)
    return sign_chances(likelihood, mean, variance, ties)
