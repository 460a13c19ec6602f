"""Whether events of probability 0.7 happen in 70 % of the cases."""

from typing import NamedTuple

import numpy as np

from jaxkick.evaluation.bootstrap import Estimate, bootstrap_weights, check_options, interval
from jaxkick.evaluation.metrics import read_levels

__all__ = ["Calibration", "calibrate"]


class Calibration(NamedTuple):
    """A calibration curve.

    Attributes:
        predicted: mean probability in each bin.
        observed: how often events of the bin happened.
        lower: lower ends of the bootstrap intervals of `observed`.
        upper: upper ends of them.
        counts: number of probabilities in each bin.
        error: expected calibration error: the mean of |observed − predicted| over all
            probabilities, with its bootstrap interval. Chance alone makes it positive.
    """

    predicted: np.ndarray
    observed: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    counts: np.ndarray
    error: Estimate


def calibrate(
    probabilities: np.ndarray,
    places: np.ndarray,
    blocks: np.ndarray,
    *,
    bins: int = 10,
    level: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
) -> Calibration:
    """The calibration curve of all levels together; of the highest where there are two.

    Bins hold equally many probabilities. With two levels the second says nothing new.

    Args:
        probabilities: of each level, [n, levels].
        places: which level it was.
        blocks: the block of each match; whole blocks are resampled.
        bins: number of bins.
        level: probability of the intervals.
        resamples: number of resamples.
        seed: of the random numbers.

    Raises:
        ValueError: if an argument is outside its range.
    """
    check_options(level, resamples)
    if bins < 1:
        raise ValueError(f"`bins` is {bins}, but must be at least 1.")
    probabilities, places = read_levels(probabilities, places)
    happened = np.arange(probabilities.shape[1]) == places[:, None]
    first = 1 if probabilities.shape[1] == 2 else 0
    predicted = probabilities[:, first:]
    happened = happened[:, first:]
    edges = np.unique(np.quantile(predicted, np.linspace(0, 1, bins + 1)[1:-1]))
    bin_of = np.searchsorted(edges, predicted.ravel(), side="right")
    # Without bins that are empty because many probabilities are equal.
    bin_of = np.unique(bin_of, return_inverse=True)[1]
    clusters = np.unique(blocks, return_inverse=True)[1]
    shape = (clusters.max() + 1, bin_of.max() + 1)
    cells = np.repeat(clusters, predicted.shape[1]) * shape[1] + bin_of
    tables = [
        np.bincount(cells, weights=column, minlength=shape[0] * shape[1]).reshape(shape)
        for column in (np.ones(predicted.size), predicted.ravel(), happened.ravel().astype(float))
    ]
    counts, predicted_mean, observed, error = _curve(*(table.sum(axis=0) for table in tables))
    weights = bootstrap_weights(shape[0], resamples, seed)
    _, _, resampled, errors = _curve(*(weights @ table for table in tables))
    tail = [0.5 * (1.0 - level), 0.5 * (1.0 + level)]
    lower, upper = np.nanquantile(resampled, tail, axis=0)
    error = interval(float(error), errors, level)
    return Calibration(predicted_mean, observed, lower, upper, counts, error)


def _curve(
    counts: np.ndarray, predicted: np.ndarray, observed: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Counts, mean prediction and frequency of each bin, and the calibration error."""
    filled = np.where(counts > 0, counts, np.nan)
    gap = np.abs(observed - predicted).sum(axis=-1) / counts.sum(axis=-1)
    return counts, predicted / filled, observed / filled, gap
