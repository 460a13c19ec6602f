"""Divide matches into periods of time, such as days and seasons."""

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from jaxkick.data.columns import UNITS
from jaxkick.data.encoding import Index
from jaxkick.errors import DataError, invalid

Period: TypeAlias = str | Callable[[np.ndarray], Any]
"""`"day"`, `"week"`, `"month"`, `"year"`, or a function from times to one label for each."""

_CALENDAR = {"day": "D", "week": "W", "month": "M", "year": "Y"}  # NumPy's units
_THURSDAY = 3  # day 0 is a Thursday, and weeks start on Mondays


def number_periods(index: Index, every: Period, argument: str) -> np.ndarray:
    """Number the periods of observations, increasing with time from 0.

    Raises:
        DataError: if the data has no calendar, or labels are missing or overlap in time.
    """
    if callable(every):
        labels = np.asarray(every(index.scale.to_user(index.times)))
        if labels.shape != index.times.shape:
            raise DataError(
                f"{{argument}} returned labels of shape {labels.shape}",
                f"It must return one label for each of the {len(index.times):,} times.",
                argument=argument,
            )
        if (labels != labels).any():
            time = index.scale.to_user(index.times[np.argmax(labels != labels)])
            raise DataError(
                f"{{argument}} returned no label for the time {time}",
                "It must return a label for each time.",
                argument=argument,
            )
    else:
        labels = _calendar(index, every, argument)
    codes = np.unique(labels, return_inverse=True)[1]
    order = np.lexsort((codes, index.times))
    changes = codes[order][1:] != codes[order][:-1]
    later = index.times[order][1:] > index.times[order][:-1]
    if changes.sum() != codes.max() or (changes & ~later).any():
        raise DataError(
            "{argument} returned labels that overlap in time, so that later matches could be used "
            "to predict earlier ones",
            "Return one label for each interval of time.",
            argument=argument,
        )
    number = np.empty(len(order), np.int64)
    number[order] = np.concatenate([[0], np.cumsum(changes)])
    return number


def _calendar(index: Index, every: str, argument: str) -> np.ndarray:
    """Number days, weeks, months or years."""
    if every not in _CALENDAR:
        raise invalid(
            argument,
            every,
            f"but must be {', '.join(map(repr, _CALENDAR))} or a function from times to labels",
            "Such a function is `lambda times: times.astype('datetime64[h]')`.",
        )
    if index.scale.dates:
        dates = index.scale.to_user(index.times)
        if every != "week":
            return dates.astype(f"datetime64[{_CALENDAR[every]}]").astype(np.int64)
        days = dates.astype("datetime64[D]").astype(np.int64)
    elif index.unit in UNITS:
        days = index.times * UNITS[index.unit]
    else:
        raise invalid(
            argument,
            every,
            "but the times of the data are numbers without a unit",
            "Pass a function from times to labels, such as `numpy.floor`, or build the data set "
            f"with `unit=`, one of {', '.join(UNITS)}.",
        )
    return np.floor((days + (_THURSDAY if every == "week" else 0)) / UNITS[every]).astype(np.int64)


def read_time(index: Index, value: Any, argument: str) -> float:
    """Convert one time of the user to a number."""
    number = index.scale.to_numbers(value, argument)
    if np.shape(number):
        raise DataError(
            f"{{argument}} has {np.size(number):,} times, but must be a single time",
            argument=argument,
        )
    return float(number)
