"""Metrics of predicted probabilities, their bootstrap intervals, and calibration curves.

All functions take probabilities [n, levels], with the levels of the outcome in increasing order,
and labels [n]: the number of the actual level, counted from 0.
"""

from typing import Any, NamedTuple

import numpy as np

from jaxkick.errors import DataError, check_least, check_probability

__all__ = [
    "Calibration",
    "Estimate",
    "accuracy",
    "bootstrap_mean",
    "brier_score",
    "calibration_curve",
    "check_options",
    "interval",
    "log_loss",
    "ranked_probability_score",
    "resampled_means",
    "show_summary",
]


# A bootstrap of fewer blocks gives intervals that are much too narrow, of length zero for one.
_FEWEST_BLOCKS = 10


class Estimate(NamedTuple):
    """A number with the lower and upper end of its confidence interval."""

    value: float
    lower: float
    upper: float

    def __str__(self) -> str:
        return f"{self.value:.4f} ({self.lower:.4f} to {self.upper:.4f})"


def show_summary(values: dict[str, Any]) -> str:
    """Write one line for each number; zeros and metrics that do not exist are left out."""
    lines = []
    for name, value in values.items():
        if value:
            text = f"{value:.3f}" if isinstance(value, float) else str(value)
            text = f"{value:,}" if isinstance(value, int) else text
            lines.append(f"{name.replace('_', ' '):26s} {text}")
    return "\n".join(lines)


class Calibration(NamedTuple):
    """A calibration curve.

    Attributes:
        predicted: mean probability in each bin.
        observed: frequency of the predicted events in each bin.
        lower: lower ends of the bootstrap intervals of `observed`.
        upper: upper ends of the bootstrap intervals of `observed`.
        counts: number of probabilities in each bin.
        error: expected calibration error, the mean of |observed − predicted| over all
            probabilities, with its bootstrap interval. By chance alone it exceeds zero.
    """

    predicted: np.ndarray
    observed: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    counts: np.ndarray
    error: Estimate


def log_loss(probabilities: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Compute −log of the probability of the actual level, for each match.

    A probability of zero counts as the smallest positive number, so that losses are finite.
    """
    probabilities, labels = _read(probabilities, labels)
    happened = np.take_along_axis(probabilities, labels[:, None], axis=1)[:, 0]
    return -np.log(np.maximum(happened, np.finfo(np.float64).tiny))


def accuracy(probabilities: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Compute 1 for each match whose most probable level occurred, else 0.

    If k levels are equally probable and one of them occurred, the result is 1/k.
    """
    probabilities, labels = _read(probabilities, labels)
    best = probabilities >= probabilities.max(axis=1, keepdims=True) * (1.0 - 1e-6)
    right = np.take_along_axis(best, labels[:, None], axis=1)[:, 0]
    return right / best.sum(axis=1)


def brier_score(probabilities: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Compute ½ Σ (p − y)² over the levels, for each match; (p − y)² if there are two."""
    return 0.5 * np.sum(_errors(probabilities, labels) ** 2, axis=1)


def ranked_probability_score(probabilities: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Compute the mean squared error of the cumulative probabilities, for each match.

    The ranked probability score (RPS) penalises a prediction that is off by one level less than
    one that is off by two. With two levels it equals the Brier score.
    """
    error = _errors(probabilities, labels)
    return np.mean(np.cumsum(error, axis=1)[:, :-1] ** 2, axis=1)


def bootstrap_mean(
    values: np.ndarray,
    blocks: np.ndarray,
    *,
    confidence: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
) -> Estimate:
    """Compute the mean over matches and its bootstrap interval.

    Whole blocks are resampled, because matches of one block depend on each other. With fewer
    than ten blocks, single matches are resampled.

    Args:
        values: one number for each match.
        blocks: the block of each match.
        confidence: probability of the interval.
        resamples: number of resamples.
        seed: seed of the random numbers.

    Raises:
        DataError: if an argument is outside its range.
    """
    check_options(confidence, resamples)
    means = resampled_means(values, blocks, resamples, seed)
    return interval(float(np.mean(values)), means, confidence)


def calibration_curve(
    probabilities: np.ndarray,
    labels: np.ndarray,
    blocks: np.ndarray,
    *,
    bins: int = 10,
    confidence: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
) -> Calibration:
    """Compare probabilities with frequencies, in bins of equally many probabilities.

    All levels are pooled, so that the result does not depend on which side is named first.

    Args:
        probabilities: probability of each level.
        labels: number of the actual level.
        blocks: the block of each match, resampled as in `bootstrap_mean`.
        bins: number of bins.
        confidence: probability of the intervals.
        resamples: number of resamples.
        seed: seed of the random numbers.

    Raises:
        DataError: if an argument is outside its range.
    """
    check_options(confidence, resamples)
    check_least("bins", bins)
    probabilities, labels = _read(probabilities, labels)
    happened = np.arange(probabilities.shape[1]) == labels[:, None]
    edges = np.unique(np.quantile(probabilities, np.linspace(0, 1, bins + 1)[1:-1]))
    bin_of = np.searchsorted(edges, probabilities.ravel(), side="right")
    # Number the bins again: some are empty if many probabilities are equal.
    bin_of = np.unique(bin_of, return_inverse=True)[1]
    clusters = _number_clusters(blocks)
    shape = (clusters.max() + 1, bin_of.max() + 1)
    cells = np.repeat(clusters, probabilities.shape[1]) * shape[1] + bin_of
    tables = [
        np.bincount(cells, weights=column, minlength=shape[0] * shape[1]).reshape(shape)
        for column in (np.ones(bin_of.size), probabilities.ravel(), happened.ravel().astype(float))
    ]
    counts, predicted_mean, observed, error = _curve(*(table.sum(axis=0) for table in tables))
    weights = _resampling_weights(shape[0], resamples, seed)
    _, _, resampled, errors = _curve(*(weights @ table for table in tables))
    lower, upper = np.nanquantile(resampled, _tails(confidence), axis=0)
    error = interval(float(error), errors, confidence)
    return Calibration(predicted_mean, observed, lower, upper, counts, error)


def check_options(confidence: float, resamples: int) -> None:
    """Check the arguments of a bootstrap interval."""
    check_probability("confidence", confidence)
    check_least("resamples", resamples)


def resampled_means(
    values: np.ndarray, blocks: np.ndarray, resamples: int, seed: int
) -> np.ndarray:
    """Compute the mean over matches in each resample of blocks, the same for the same seed."""
    clusters = _number_clusters(blocks)
    counts = np.bincount(clusters)
    sums = np.bincount(clusters, weights=values)
    weights = _resampling_weights(len(counts), resamples, seed)
    return (weights @ sums) / (weights @ counts)


def interval(value: float, resampled: np.ndarray, confidence: float) -> Estimate:
    """Add the central interval of resampled values to an estimate."""
    lower, upper = np.quantile(resampled, _tails(confidence))
    return Estimate(value, float(lower), float(upper))


def _tails(confidence: float) -> list[float]:
    return [0.5 * (1.0 - confidence), 0.5 * (1.0 + confidence)]


def _number_clusters(blocks: np.ndarray) -> np.ndarray:
    """Number the resampling units: blocks, or matches if there are too few blocks."""
    found, clusters = np.unique(blocks, return_inverse=True)
    return clusters if len(found) >= _FEWEST_BLOCKS else np.arange(len(clusters))


def _resampling_weights(num_clusters: int, resamples: int, seed: int) -> np.ndarray:
    """Count how often each cluster is drawn in each resample [resamples, clusters]."""
    shares = np.full(num_clusters, 1.0 / num_clusters)
    return np.random.default_rng(seed).multinomial(num_clusters, shares, size=resamples)


def _curve(
    counts: np.ndarray, predicted: np.ndarray, observed: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Counts, mean prediction and frequency of each bin, and the calibration error."""
    filled = np.where(counts > 0, counts, np.nan)
    gap = np.abs(observed - predicted).sum(axis=-1) / counts.sum(axis=-1)
    return counts, predicted / filled, observed / filled, gap


def _read(probabilities: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Check probabilities and labels, and convert them to float64 and int64."""
    probabilities, labels = np.asarray(probabilities, np.float64), np.asarray(labels)
    if probabilities.ndim != 2 or labels.shape != probabilities.shape[:1]:
        raise DataError(
            f"{{argument}} has the shape {probabilities.shape} and `labels` {labels.shape}",
            "Pass one row of probabilities and one label for each match.",
            argument="probabilities",
        )
    invalid = ~np.isfinite(probabilities).all(axis=1)
    if invalid.any():
        raise DataError(
            "{argument} is not finite",
            "Leave the row out.",
            argument="probabilities",
            row=int(np.argmax(invalid)),
            count=int(invalid.sum()),
        )
    improper = (probabilities < 0).any(axis=1) | (np.abs(probabilities.sum(axis=1) - 1) > 0.02)
    if improper.any():
        row = int(np.argmax(improper))
        raise DataError(
            f"{{argument}} is {probabilities[row].tolist()}, but must be positive with a sum of 1",
            "Pass one column for each level; divide percentages by 100.",
            argument="probabilities",
            row=row,
            count=int(improper.sum()),
        )
    levels = probabilities.shape[1]
    outside = ~np.isin(labels, np.arange(levels))
    if outside.any():
        row = int(np.argmax(outside))
        raise DataError(
            f"{{argument}} is {labels[row]}, but must be from 0 to {levels - 1}",
            "Labels count the levels of the outcome; an outcome such as -1 is not a label.",
            argument="labels",
            row=row,
            count=int(outside.sum()),
        )
    return probabilities, labels.astype(np.int64)


def _errors(probabilities: np.ndarray, labels: np.ndarray) -> np.ndarray:
    probabilities, labels = _read(probabilities, labels)
    return probabilities - (np.arange(probabilities.shape[1]) == labels[:, None])
