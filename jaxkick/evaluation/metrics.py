"""How good probabilities were: one loss for each match, from probabilities and what happened.

All functions take probabilities [n, levels] with the levels in increasing order, and the
place of what happened among them.
"""

import numpy as np

__all__ = ["accuracy", "brier_score", "log_loss", "ranked_probability_score"]


def log_loss(probabilities: np.ndarray, places: np.ndarray) -> np.ndarray:
    """−log of the probability of what happened.

    Args:
        probabilities: of each level.
        places: which level it was.

    Returns:
        One loss for each match; finite, because a probability of zero counts as the smallest
        number that is one.
    """
    probabilities = np.asarray(probabilities, np.float64)
    happened = np.take_along_axis(probabilities, np.asarray(places)[:, None], axis=1)[:, 0]
    return -np.log(np.maximum(happened, np.finfo(np.float64).tiny))


def accuracy(probabilities: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Whether the most probable level was the right one; a share where several are.

    Args:
        probabilities: of each level.
        places: which level it was.

    Returns:
        One, zero, or the share of the right one among equally probable levels.
    """
    probabilities = np.asarray(probabilities, np.float64)
    best = probabilities >= probabilities.max(axis=1, keepdims=True) * (1.0 - 1e-6)
    right = np.take_along_axis(best, np.asarray(places)[:, None], axis=1)[:, 0]
    return right / best.sum(axis=1)


def brier_score(probabilities: np.ndarray, places: np.ndarray) -> np.ndarray:
    """½ Σ (p − y)² over the levels, from 0 to 1; (p − y)² where there are two of them.

    Args:
        probabilities: of each level.
        places: which level it was.
    """
    error = np.asarray(probabilities, np.float64) - _indicators(probabilities, places)
    return 0.5 * np.sum(error**2, axis=1)


def ranked_probability_score(probabilities: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Mean squared error of the cumulative probabilities of ordered levels.

    A prediction that is off by one level costs less than one that is off by two. With two
    levels it is the Brier score.

    Args:
        probabilities: of each level.
        places: which level it was.
    """
    error = np.asarray(probabilities, np.float64) - _indicators(probabilities, places)
    return np.mean(np.cumsum(error, axis=1)[:, :-1] ** 2, axis=1)


def _indicators(probabilities: np.ndarray, places: np.ndarray) -> np.ndarray:
    return np.arange(np.shape(probabilities)[1]) == np.asarray(places)[:, None]
