"""Blocks of matches: what is predicted at once, from all that came strictly before."""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from jaxkick.dataset.dataset import Dataset
from jaxkick.dataset.index import Index
from jaxkick.dataset.times import UNITS

__all__ = ["Blocks", "Every", "make_blocks", "periods", "split_time"]

Every: TypeAlias = str | Callable[[np.ndarray], Any]
"""`"day"`, `"week"`, or a function from the user's times to one label for each."""

_DAYS = {"day": 1, "week": 7}
# Day 0 is a Thursday, and weeks begin on Mondays.
_THURSDAY = 3


class Blocks(NamedTuple):
    """The division of matches into blocks.

    Attributes:
        number: the block of each observation; numbers increase with time.
        tested: the numbers of the blocks to predict, increasing.
        rows: the observations to predict, block by block.
    """

    number: np.ndarray
    tested: np.ndarray
    rows: np.ndarray

    def after(self, count: int) -> "Blocks":
        """The same without the first `count` blocks to predict."""
        left = self.tested[count:]
        return self._replace(tested=left, rows=self.rows[np.isin(self.number[self.rows], left)])


def make_blocks(data: Dataset, start: Any, every: Every, stop: Any = None) -> Blocks:
    """Divide matches into blocks, and say which are to be predicted.

    Args:
        data: the matches.
        start: the time of the first match to predict, in the user's terms.
        every: how long a block is.
        stop: matches at or after this time are left alone; all are predicted if `None`.

    Returns:
        The blocks.

    Raises:
        ValueError: if blocks overlap in time, or nothing is to be predicted.
    """
    times = data.index.times
    number = periods(data.index, every, "every")
    tested = times >= _one_time(data.index, start, "start")
    if stop is not None:
        tested &= times < _one_time(data.index, stop, "stop")
    rows = np.flatnonzero(tested)
    if not rows.size:
        first, last = data.index.scale.to_user(np.array([times.min(), times.max()]))
        raise ValueError(
            f"no match is at or after `start` ({start}) and before `stop` ({stop}); the data "
            f"reaches from {first} to {last}."
        )
    rows = rows[np.lexsort((rows, times[rows], number[rows]))]
    return Blocks(number, np.unique(number[rows]), rows)


def periods(index: Index, every: Every, argument: str) -> np.ndarray:
    """The number of each observation's period, increasing with time from 0.

    Args:
        index: times of the data.
        every: how long a period is.
        argument: name of the user's argument, for the errors.

    Raises:
        ValueError: if periods overlap in time, or a time has none.
    """
    if callable(every):
        labels = np.asarray(every(index.scale.to_user(index.times)))
        if labels.shape != index.times.shape:
            raise ValueError(
                f"`{argument}` gave labels of the shape {labels.shape}, but must give one for "
                f"each of the {len(index.times):,} times."
            )
        if (labels != labels).any():
            time = index.scale.to_user(index.times[np.argmax(labels != labels)])
            raise ValueError(f"`{argument}` gave no label for the time {time}; give one to all.")
    else:
        labels = _calendar(index, every, argument)
    codes = np.unique(labels, return_inverse=True)[1]
    order = np.lexsort((codes, index.times))
    changes = codes[order][1:] != codes[order][:-1]
    later = index.times[order][1:] > index.times[order][:-1]
    if changes.sum() + 1 != codes.max() + 1 or (changes & ~later).any():
        raise ValueError(
            f"`{argument}` gives labels that overlap in time, so that a match could be predicted "
            "from later ones; give one label to each stretch of time."
        )
    number = np.empty(len(order), np.int64)
    number[order] = np.concatenate([[0], np.cumsum(changes)])
    return number


def split_time(data: Dataset, fraction: float) -> Any:
    """The time of the match before which a fraction of all matches stands.

    `walk_forward(model, data, split_time(data, 0.7))` predicts the last 30 % of the matches,
    and those at the same time as the first of them.

    Args:
        data: the matches.
        fraction: between zero and one.

    Returns:
        The time in the user's terms.
    """
    if not 0.0 <= fraction < 1.0:
        raise ValueError(f"`fraction` is {fraction}, but must be at least 0 and below 1.")
    times = np.sort(data.index.times)
    return data.index.scale.to_user(times[int(fraction * len(times))])[()]


def _one_time(index: Index, value: Any, argument: str) -> float:
    number = index.scale.to_numbers(value, argument)
    if np.shape(number):
        raise ValueError(f"`{argument}` holds {np.size(number):,} times, but must be one.")
    return float(number)


def _calendar(index: Index, every: str, argument: str) -> np.ndarray:
    if every not in _DAYS:
        known = " or ".join(map(repr, _DAYS))
        raise ValueError(
            f"`{argument}` is {every!r}, but must be {known}, or a function from times to labels, "
            "such as `lambda times: times.astype('datetime64[M]')`."
        )
    if index.scale.dates:
        days = index.scale.to_user(index.times).astype("datetime64[D]").astype(np.int64)
    elif index.unit in UNITS:
        days = np.floor(index.times * UNITS[index.unit]).astype(np.int64)
    else:
        raise ValueError(
            f"`{argument}` is {every!r}, but the times of the data are numbers of no known unit; "
            "pass a function from times to labels, such as `numpy.floor`, or build the data set "
            f"with `unit=`, one of {', '.join(UNITS)}."
        )
    return (days + _THURSDAY) // 7 if every == "week" else days
