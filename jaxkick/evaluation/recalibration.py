"""Recalibration: correct forecasts by the outcomes of earlier ones.

Under overconfident forecasts, the slope of outcomes on forecast log-odds is below one. With
log p_k the forecast log-probability of level k, the recalibrated forecast is

    q_k ∝ exp(slope · log p_k + tie_offset · [k is a tie]),

so that the slope multiplies the log-odds of a win. Both numbers maximise the log-probability of the
outcomes of earlier blocks, times a normal prior around 1 and 0, which matters only for the first
few hundred matches.
"""

from typing import NamedTuple

import numpy as np

__all__ = ["Recalibration", "recalibrate"]

_PRIOR_DEVIATION = 0.2
_LEAST_SLOPE = 0.05
_GROWTH = 1.01  # refit when the number of matches has grown by this factor
_STEPS, _TOLERANCE = 30, 1e-8


class Recalibration(NamedTuple):
    """The correction of forecasts.

    Attributes:
        slope: the factor of the log-odds of each match, fitted to earlier blocks.
        tie_offset: the addition to the log-probability of a tie of each match; 0 without ties.
        current: slope and tie offset fitted to all matches, for future ones.
        original: the forecast probabilities before the correction.
    """

    slope: np.ndarray
    tie_offset: np.ndarray
    current: tuple[float, float]
    original: np.ndarray


def recalibrate(
    probabilities: np.ndarray, labels: np.ndarray, blocks: np.ndarray, tie: int | None
) -> tuple[np.ndarray, Recalibration]:
    """Recalibrate the forecasts of each block on the outcomes of earlier blocks.

    Args:
        probabilities: forecast probabilities [n, levels].
        labels: the number of the actual level [n].
        blocks: block of each match [n], non-decreasing.
        tie: the number of the level that is a tie; `None` without ties.
    """
    logs = np.log(np.maximum(probabilities, np.finfo(np.float64).tiny))
    is_tie = np.arange(probabilities.shape[1]) == (-1 if tie is None else tie)
    begins = np.flatnonzero(np.diff(blocks, prepend=blocks[:1] - 1))
    theta, fitted = np.array([1.0, 0.0]), 0
    thetas = np.empty((len(blocks), 2))
    for begin, end in zip(begins, np.append(begins[1:], len(blocks)), strict=True):
        if begin >= _GROWTH * fitted and begin:
            theta, fitted = _fit(logs[:begin], labels[:begin], is_tie, theta), begin
        thetas[begin:end] = theta
    current = _fit(logs, labels, is_tie, theta)
    found = _probabilities(logs, is_tie, thetas)
    slope, tie_offset = thetas.T
    numbers = (float(current[0]), float(current[1]))
    return found, Recalibration(slope, tie_offset, numbers, probabilities)


def _probabilities(logs: np.ndarray, is_tie: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """The recalibrated probabilities, with one pair of numbers or one for each match."""
    scores = theta[..., :1] * logs + theta[..., 1:] * is_tie
    scores = np.exp(scores - scores.max(axis=1, keepdims=True))
    return scores / scores.sum(axis=1, keepdims=True)


def _fit(logs: np.ndarray, labels: np.ndarray, is_tie: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """Find slope and tie offset by Newton's method on a concave function."""
    happened = logs[np.arange(len(labels)), labels].sum(), is_tie[labels].sum()
    precision = 1.0 / _PRIOR_DEVIATION**2
    for _ in range(_STEPS):
        chances = _probabilities(logs, is_tie, theta[None])
        mean, tied = np.sum(chances * logs, axis=1), np.sum(chances * is_tie, axis=1)
        gradient = np.array(happened) - [mean.sum(), tied.sum()] - precision * (theta - [1.0, 0.0])
        both = np.sum(chances * logs * is_tie, axis=1) - mean * tied
        curvature = [
            [np.sum(chances * logs**2) - np.sum(mean**2), both.sum()],
            [both.sum(), np.sum(tied * (1.0 - tied))],
        ]
        step = np.linalg.solve(np.array(curvature) + precision * np.eye(2), gradient)
        theta = theta + step
        theta[0] = max(theta[0], _LEAST_SLOPE)
        if np.abs(step).max() < _TOLERANCE:
            break
    return theta
