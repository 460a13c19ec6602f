"""How good probabilities were: one loss for each match, from probabilities and what happened.

All functions take probabilities [n, levels] with the levels in increasing order, and the
place of what happened among them, from 0. They refuse what is no place or no number.
"""

import numpy as np

__all__ = ["accuracy", "brier_score", "log_loss", "ranked_probability_score", "read_levels"]


def log_loss(probabilities: np.ndarray, places: np.ndarray) -> np.ndarray:
    """−log of the probability of what happened.

    Args:
        probabilities: of each level.
        places: which level it was.

    Returns:
        One loss for each match; finite, because a probability of zero counts as the smallest
        number that is one.
    """
    probabilities, places = read_levels(probabilities, places)
    happened = np.take_along_axis(probabilities, places[:, None], axis=1)[:, 0]
    return -np.log(np.maximum(happened, np.finfo(np.float64).tiny))


def accuracy(probabilities: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Whether the most probable level was the right one; a share where several are.

    Args:
        probabilities: of each level.
        places: which level it was.

    Returns:
        One, zero, or the share of the right one among equally probable levels.
    """
    probabilities, places = read_levels(probabilities, places)
    best = probabilities >= probabilities.max(axis=1, keepdims=True) * (1.0 - 1e-6)
    right = np.take_along_axis(best, places[:, None], axis=1)[:, 0]
    return right / best.sum(axis=1)


def brier_score(probabilities: np.ndarray, places: np.ndarray) -> np.ndarray:
    """½ Σ (p − y)² over the levels, from 0 to 1; (p − y)² where there are two of them.

    Args:
        probabilities: of each level.
        places: which level it was.
    """
    return 0.5 * np.sum(_errors(probabilities, places) ** 2, axis=1)


def ranked_probability_score(probabilities: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Mean squared error of the cumulative probabilities of ordered levels.

    A prediction that is off by one level costs less than one that is off by two. With two
    levels it is the Brier score.

    Args:
        probabilities: of each level.
        places: which level it was.
    """
    error = _errors(probabilities, places)
    return np.mean(np.cumsum(error, axis=1)[:, :-1] ** 2, axis=1)


def read_levels(probabilities: np.ndarray, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities as float64 and places as integers.

    Args:
        probabilities: of each level.
        places: which level it was.

    Raises:
        ValueError: if they do not belong together, or are no numbers and no places.
    """
    probabilities, places = np.asarray(probabilities, np.float64), np.asarray(places)
    if probabilities.ndim != 2 or places.shape != probabilities.shape[:1]:
        raise ValueError(
            f"`probabilities` has the shape {probabilities.shape} and `places` {places.shape}; "
            "give one row of probabilities, and one place, for each match."
        )
    lost = ~np.isfinite(probabilities).all(axis=1)
    if lost.any():
        raise ValueError(f"`probabilities` holds no number in row {np.argmax(lost)}; leave it out.")
    levels = probabilities.shape[1]
    outside = ~np.isin(places, np.arange(levels))
    if outside.any():
        row = int(np.argmax(outside))
        raise ValueError(
            f"`places` is {places[row]} in row {row}, but must be the place of one of {levels} "
            f"levels, from 0 to {levels - 1}; an outcome such as -1 is none."
        )
    return probabilities, places.astype(np.int64)


def _errors(probabilities: np.ndarray, places: np.ndarray) -> np.ndarray:
    probabilities, places = read_levels(probabilities, places)
    return probabilities - (np.arange(probabilities.shape[1]) == places[:, None])
