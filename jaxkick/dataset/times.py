"""Times: numbers as they are, dates as float64 numbers of a unit."""

from datetime import UTC, date, datetime
from typing import Any, NamedTuple, NoReturn

import narwhals as nw
import numpy as np

from jaxkick.dataset.columns import Column, as_column, chunks, is_missing, to_floats

__all__ = ["UNITS", "TimeScale", "look_like_dates", "read_times"]

_MICROSECONDS_PER_DAY = 86_400_000_000
_EPOCH_YEAR = 1970.0

UNITS = {
    "year": 365.25,
    "month": 365.25 / 12,
    "week": 7.0,
    "day": 1.0,
    "hour": 1 / 24,
    "minute": 1 / 1440,
    "second": 1 / 86400,
}
"""The length of each unit in days."""


class TimeScale(NamedTuple):
    """How the user's times become numbers.

    Dates become years as `1970 + days / 365.25`, or the time since 1970-01-01 in another
    unit. Dates with a time zone are taken in UTC, those without as they stand.

    Attributes:
        dates: whether the times are dates; otherwise they are numbers.
        unit: one of `UNITS` for dates; any word, or `None`, for numbers.
    """

    dates: bool
    unit: str | None

    def to_numbers(self, times: Any, argument: str = "times") -> np.ndarray:
        """Times of the user's kind as float64; NaN where missing.

        Args:
            times: one time or an array or list of them.
            argument: name of the user's argument, for the errors.

        Returns:
            An array of the times; without dimensions for one time.

        Raises:
            ValueError: if numbers are given where the data has dates, or the reverse.
        """
        single = isinstance(times, (str, date, int, float, np.generic, type(None)))
        single = single or getattr(times, "ndim", 1) == 0
        if single:
            times = np.asarray(times)[None] if hasattr(times, "dtype") else [times]
        raw = _read_column(as_column(times, argument), argument)
        if (raw.dtype.kind == "M") != self.dates and not np.all(np.isnan(raw)):
            given, own = ("numbers", "dates") if self.dates else ("dates", "numbers")
            example = "a date such as '2018-12-25'" if self.dates else "a number"
            raise ValueError(
                f"`{argument}` holds {given}, but the times of the data are {own}; pass {example}."
            )
        numbers = self._from_dates(raw) if raw.dtype.kind == "M" else raw
        return numbers[0] if single else numbers

    def to_user(self, times: np.ndarray | float) -> np.ndarray:
        """Numbers as the user's kind of time: dates as `datetime64`, to the millisecond."""
        times = np.asarray(times, np.float64)
        if not self.dates:
            return times
        shift = _EPOCH_YEAR if self.unit == "year" else 0.0
        milliseconds = np.rint((times - shift) * (UNITS[self.unit or "year"] * 86_400_000))
        return milliseconds.astype(np.int64).astype("datetime64[ms]")

    def describe(self) -> str:
        """The kind of the times and their unit, in words."""
        unit = "no unit" if self.unit is None else f"{self.unit}s"
        return f"as {'dates' if self.dates else 'numbers'} in {unit}"

    def _from_dates(self, dates: np.ndarray) -> np.ndarray:
        days, rest = np.divmod(dates.astype(np.int64), _MICROSECONDS_PER_DAY)
        numbers = (days + rest / _MICROSECONDS_PER_DAY) / UNITS[self.unit or "year"]
        if self.unit == "year":
            numbers += _EPOCH_YEAR
        numbers[np.isnat(dates)] = np.nan
        return numbers


def read_times(times: Any, unit: str | None, argument: str) -> tuple[np.ndarray, TimeScale]:
    """The times of a data set and their scale.

    Args:
        times: numbers or dates, one for each observation.
        unit: the unit that dates are counted in (years if `None`), or the name of the unit
            of the numbers.
        argument: name of the user's argument, for the errors.

    Returns:
        The times as a new float64 array, NaN where missing, and the scale.

    Raises:
        ValueError: if the times are neither, or the unit is unknown.
    """
    raw = _read_column(as_column(times, argument), argument)
    if raw.dtype.kind != "M":
        return raw, TimeScale(dates=False, unit=unit)
    unit = "year" if unit is None else unit
    if unit not in UNITS:
        raise ValueError(f"`unit` is {unit!r}, but dates can be counted in {', '.join(UNITS)}.")
    scale = TimeScale(dates=True, unit=unit)
    return scale._from_dates(raw), scale


def look_like_dates(times: np.ndarray) -> bool:
    """Whether numbers look like dates that were written as integers, such as 20180101."""
    day, month, year = times % 100, times // 100 % 100, times // 10_000
    likely = (day >= 1) & (day <= 31) & (month >= 1) & (month <= 12)
    return bool(np.all(likely & (times % 1 == 0) & (year >= 1500) & (year <= 2500)))


def _read_column(column: Column, argument: str) -> np.ndarray:
    """A column as new float64 numbers or as `datetime64[us]`."""
    if isinstance(column, nw.Series):
        if column.dtype.is_numeric():
            return column.cast(nw.Float64).to_numpy().astype(np.float64)
        # Narwhals gives times with a zone in UTC.
        column = column.to_numpy() if column.dtype.is_temporal() else column
    if isinstance(column, np.ndarray):
        if column.ndim != 1:
            raise ValueError(f"`{argument}` has the shape {column.shape}, but must be a vector.")
        if column.dtype.kind in "iuf":
            return column.astype(np.float64)
        if column.dtype.kind == "M":
            return column.astype("datetime64[us]")
    return _read_objects(column, argument)


def _read_objects(column: Column, argument: str) -> np.ndarray:
    kinds: set[type] = set()
    for _, values in chunks(column):
        kinds |= set(map(type, values))
    numbers = (int, float, np.number, type(None))
    if all(issubclass(kind, numbers) and kind is not bool for kind in kinds):
        return to_floats(column, argument, len(column))
    return _read_dates(column, argument)


def _read_dates(column: Column, argument: str) -> np.ndarray:
    """Dates and ISO texts; each different one of a chunk is read once."""
    dates = np.empty(len(column), "datetime64[us]")
    for part, values in chunks(column):
        distinct = {value: number for number, value in enumerate(dict.fromkeys(values))}
        try:
            known = np.array(list(map(_read_date, distinct)), "datetime64[us]")
        except ValueError:
            _refuse_first_unreadable(values, part.start, argument)
        dates[part] = known[np.fromiter(map(distinct.__getitem__, values), np.intp, len(values))]
    return dates


def _read_date(value: Any) -> date | np.datetime64 | None:
    if is_missing(value):
        return None
    if isinstance(value, str):
        value = datetime.fromisoformat(value)
    if isinstance(value, datetime):
        return value if value.tzinfo is None else value.astimezone(UTC).replace(tzinfo=None)
    if isinstance(value, (date, np.datetime64)):
        return value
    raise ValueError


def _refuse_first_unreadable(values: list, begin: int, argument: str) -> NoReturn:
    for row, value in enumerate(values, start=begin):
        try:
            _read_date(value)
        except ValueError:
            number = isinstance(value, (int, float)) and not isinstance(value, bool)
            problem = "a number among dates" if number else "no date"
            raise ValueError(
                f"`{argument}` is {value!r} in row {row}, which is {problem}; give numbers only, "
                "or dates only, texts as in ISO 8601: '2018-12-25' or '2018-12-25T20:00'."
            ) from None
    raise ValueError(f"`{argument}` holds dates that cannot be read.")
