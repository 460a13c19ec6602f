"""Bootstrap intervals of means over matches, by whole blocks."""

from typing import NamedTuple

import numpy as np

__all__ = [
    "Estimate",
    "bootstrap_weights",
    "check_options",
    "estimate_mean",
    "interval",
    "resampled_means",
]


class Estimate(NamedTuple):
    """A number and the interval that it is in.

    Attributes:
        value: the estimate.
        lower: lower end of the interval.
        upper: upper end of the interval.
    """

    value: float
    lower: float
    upper: float

    def __str__(self) -> str:
        return f"{self.value:.4f} ({self.lower:.4f} to {self.upper:.4f})"


def bootstrap_weights(num_clusters: int, resamples: int, seed: int) -> np.ndarray:
    """How often each cluster is drawn in each resample, [resamples, clusters].

    Args:
        num_clusters: number of clusters, drawn with replacement.
        resamples: number of resamples.
        seed: of the random numbers.
    """
    random = np.random.default_rng(seed)
    shares = np.full(num_clusters, 1.0 / num_clusters)
    return random.multinomial(num_clusters, shares, size=resamples)


def estimate_mean(
    values: np.ndarray,
    blocks: np.ndarray,
    *,
    level: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
) -> Estimate:
    """The mean over matches and its bootstrap interval.

    Whole blocks are drawn, because matches of one block share what was known before them.

    Args:
        values: one number for each match.
        blocks: the block of each match.
        level: probability of the interval.
        resamples: number of resamples.
        seed: of the random numbers.

    Raises:
        ValueError: if an argument is outside its range.
    """
    check_options(level, resamples)
    means = resampled_means(values, blocks, resamples, seed)
    return interval(float(np.mean(values)), means, level)


def check_options(level: float, resamples: int) -> None:
    """Refuse what makes no interval."""
    if not 0.0 < level < 1.0:
        raise ValueError(f"`level` is {level}, but must be a probability between 0 and 1.")
    if resamples < 1:
        raise ValueError(f"`resamples` is {resamples}, but must be at least 1.")


def interval(value: float, resampled: np.ndarray, level: float) -> Estimate:
    """An estimate whose interval holds the middle of its resampled values."""
    lower, upper = np.quantile(resampled, [0.5 * (1.0 - level), 0.5 * (1.0 + level)])
    return Estimate(value, float(lower), float(upper))


def resampled_means(
    values: np.ndarray, blocks: np.ndarray, resamples: int, seed: int
) -> np.ndarray:
    """The mean over matches in each resample of blocks.

    Args:
        values: one number for each match.
        blocks: the block of each match.
        resamples: number of resamples.
        seed: of the random numbers; one seed draws the same blocks for any values.
    """
    _, clusters = np.unique(blocks, return_inverse=True)
    counts = np.bincount(clusters)
    sums = np.bincount(clusters, weights=values)
    weights = bootstrap_weights(len(counts), resamples, seed)
    return (weights @ sums) / (weights @ counts)
