"""Read the user's columns, from any library or list, as arrays of numbers, booleans and times."""

import re
from collections.abc import Iterable, Iterator, Mapping, Set
from datetime import UTC, date, datetime
from typing import Any, NamedTuple, TypeAlias

import narwhals as nw
import numpy as np

from jaxkick.errors import DataError, invalid

Column: TypeAlias = nw.Series | np.ndarray | list

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

NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.IGNORECASE)
"""The text of a number in a table."""

TEXTS = (nw.String, nw.Categorical, nw.Enum)

_CHUNK = 1 << 17
_BOOLEANS = (bool, np.bool_)
_NUMBERS = (int, float, np.number, np.bool_, type(None))
_EPOCH_YEAR = 1970.0
_DAY = 86_400_000_000  # microseconds


def as_column(values: Any, argument: str, num_rows: int | None = None) -> Column:
    """Read a column as a series, array or list, and check its length if `num_rows` is given."""
    column = _as_column(values, argument)
    if num_rows is not None and len(column) != num_rows:
        raise DataError(
            f"{{argument}} has {len(column):,} values for {num_rows:,} observations",
            "Pass one value for each observation.",
            argument=argument,
        )
    return column


def _as_column(values: Any, argument: str) -> Column:
    if isinstance(values, (nw.Series, list)):
        return values
    if isinstance(values, np.ma.MaskedArray):
        # Masked values become `None`.
        return values.tolist()
    series = nw.from_native(values, series_only=True, pass_through=True)
    if isinstance(series, nw.Series):
        return series
    if hasattr(values, "__array__"):
        array = np.asarray(values)
        if array.ndim:
            return array
    # A set has no order.
    elif isinstance(values, Iterable) and not isinstance(values, (str, bytes, Mapping, Set)):
        return list(values)
    raise invalid(
        argument,
        values,
        "but must hold one value for each observation",
        "Pass a series, an array or a list.",
    )


def chunks(column: Column) -> Iterator[tuple[slice, list]]:
    """Yield parts of a column as Python lists, to limit the number of Python objects."""
    for begin in range(0, len(column), _CHUNK):
        part = slice(begin, min(begin + _CHUNK, len(column)))
        yield part, to_list(column[part])


def take_rows(column: Column, rows: np.ndarray) -> Column:
    """Take rows of a column of any library."""
    if isinstance(column, list):
        return [column[row] for row in rows]
    return column[rows.tolist()] if isinstance(column, nw.Series) else column[rows]


def to_list(column: Column) -> list:
    """Convert a column to a list of Python values."""
    if isinstance(column, nw.Series):
        return column.to_list()
    return column.tolist() if isinstance(column, np.ndarray) else column


def to_floats(values: Any, argument: str, num_rows: int) -> np.ndarray:
    """Convert numbers to a new float64 array, NaN where missing; one number fills all rows."""
    if values is not None and isinstance(values, _NUMBERS):
        return np.full(num_rows, values, np.float64)
    column = as_column(values, argument, num_rows)
    if isinstance(column, nw.Series):
        numeric = column.dtype.is_numeric() or column.dtype == nw.Boolean
        column = (column.cast(nw.Float64) if numeric else column).to_numpy()
    if isinstance(column, np.ndarray) and column.ndim == 1 and column.dtype.kind in "biuf":
        return column.astype(np.float64)
    objects = to_list(column)
    if not all(issubclass(kind, _NUMBERS) for kind in set(map(type, objects))):
        objects = [None if is_missing(value) else value for value in objects]
        for row, value in enumerate(objects):
            if not isinstance(value, _NUMBERS):
                raise invalid(
                    argument,
                    value,
                    "but must be a number",
                    "Convert the values to numbers first.",
                    row=row,
                )
    try:
        return np.array(objects, np.float64)
    except OverflowError:
        large = (isinstance(value, int) and value.bit_length() > 1024 for value in objects)
        row = list(large).index(True)
        raise DataError(
            f"{{argument}} is an integer of {len(f'{objects[row]:x}')} hexadecimal digits, which "
            "is too large",
            argument=argument,
            row=row,
        ) from None


def is_boolean(values: Any) -> bool:
    """Return whether a column or value holds only true, false or missing values."""
    if isinstance(values, nw.Series) and values.dtype != nw.Object:
        return values.dtype == nw.Boolean
    if isinstance(values, np.ndarray) and values.dtype != object:
        return values.dtype == bool
    if not isinstance(values, Column):
        return isinstance(values, _BOOLEANS)
    values = to_list(values)
    if not any(kind in _BOOLEANS for kind in set(map(type, values))):
        return False
    return all(isinstance(value, _BOOLEANS) or is_missing(value) for value in values)


def holds_texts(column: Column, mixed: bool = False) -> bool:
    """Return whether a column has nonempty texts, and none of them is a number.

    If `mixed`, some of them may be numbers.
    """
    if isinstance(column, nw.Series) and column.dtype != nw.Object:
        if column.dtype not in TEXTS:
            return False
        column = column.unique()
    elif isinstance(column, np.ndarray) and column.dtype.kind in "biufM":
        return False
    texts = {cell for cell in to_list(column) if isinstance(cell, str) and cell}
    numbers = sum(NUMBER.fullmatch(text) is not None for text in texts)
    return numbers < len(texts) if mixed else bool(texts) and not numbers


def is_missing(value: Any) -> bool:
    """Return whether a value is missing: `None`, NaN, NaT, pandas' NA or an empty string."""
    try:
        return value is None or bool(value != value) or (isinstance(value, str) and not value)
    except TypeError:
        # Only the truth value of pandas' NA raises this error.
        return True
    except ValueError:
        # Arrays are values, not missing ones.
        return False


def plain_value(value: Any) -> Any:
    """Convert the text of a number to this number, for comparisons."""
    return float(value) if isinstance(value, str) and NUMBER.fullmatch(value) else value


class TimeScale(NamedTuple):
    """The conversion between the user's times and numbers.

    Dates become years as `1970 + days / 365.25`, or the time since 1970-01-01 in another
    unit. Dates with a time zone are converted to UTC; others are not converted.

    Attributes:
        dates: True if the times are dates, False if they are numbers.
        unit: one of `UNITS` for dates; any word, or `None`, for numbers.
    """

    dates: bool
    unit: str | None

    def to_numbers(self, times: Any, argument: str = "times") -> np.ndarray:
        """Convert one or many times of the user to float64 numbers; NaN where missing.

        Raises:
            DataError: if numbers are given where the data has dates, or the reverse.
        """
        single = isinstance(times, (str, date, int, float, np.generic, type(None)))
        single = single or getattr(times, "ndim", 1) == 0
        if single:
            times = np.asarray(times)[None] if hasattr(times, "dtype") else [times]
        raw = _read_times(as_column(times, argument), argument)
        if (raw.dtype.kind == "M") != self.dates and not np.all(np.isnan(raw)):
            given, own = ("numbers", "dates") if self.dates else ("dates", "numbers")
            raise DataError(
                f"{{argument}} holds {given}, but the times of the data are {own}",
                "Pass a date such as '2018-12-25'." if self.dates else "Pass a number.",
                argument=argument,
            )
        numbers = self._from_dates(raw) if raw.dtype.kind == "M" else raw
        return numbers[0] if single else numbers

    def to_user(self, times: np.ndarray | float) -> np.ndarray:
        """Convert numbers back: dates as `datetime64`, rounded to the millisecond."""
        times = np.asarray(times, np.float64)
        if not self.dates:
            return times
        shift = _EPOCH_YEAR if self.unit == "year" else 0.0
        milliseconds = np.rint((times - shift) * (UNITS[self.unit or "year"] * 86_400_000))
        return milliseconds.astype(np.int64).astype("datetime64[ms]")

    def describe(self) -> str:
        """Describe the kind of the times and their unit."""
        unit = "no unit" if self.unit is None else f"{self.unit}s"
        return f"as {'dates' if self.dates else 'numbers'} in {unit}"

    def _from_dates(self, dates: np.ndarray) -> np.ndarray:
        days, rest = np.divmod(dates.astype(np.int64), _DAY)
        numbers = (days + rest / _DAY) / UNITS[self.unit or "year"]
        if self.unit == "year":
            numbers += _EPOCH_YEAR
        numbers[np.isnat(dates)] = np.nan
        return numbers


def read_times(times: Any, unit: str | None, argument: str) -> tuple[np.ndarray, TimeScale]:
    """Read times as a new float64 array, NaN where missing, and their scale."""
    raw = _read_times(as_column(times, argument), argument)
    if unit is not None and unit.removesuffix("s") in UNITS:
        unit = unit.removesuffix("s")
    if raw.dtype.kind != "M":
        return raw, TimeScale(dates=False, unit=unit)
    unit = "year" if unit is None else unit
    if unit not in UNITS:
        raise invalid("unit", unit, f"but must be one of {', '.join(UNITS)} for dates")
    scale = TimeScale(dates=True, unit=unit)
    return scale._from_dates(raw), scale


def look_like_dates(times: np.ndarray) -> bool:
    """Return whether numbers look like dates written as integers, such as 20180101."""
    day, month, year = times % 100, times // 100 % 100, times // 10_000
    likely = (day >= 1) & (day <= 31) & (month >= 1) & (month <= 12)
    return bool(np.all(likely & (times % 1 == 0) & (year >= 1500) & (year <= 2500)))


def show_time(time: Any) -> str:
    """Write a time, to the millisecond, without the time of day at midnight."""
    if isinstance(time, np.datetime64):
        return str(time.astype("datetime64[ms]")).removesuffix("T00:00:00.000")
    return str(time)


def _read_times(column: Column, argument: str) -> np.ndarray:
    """Read a column as new float64 numbers or as `datetime64[us]`."""
    if isinstance(column, nw.Series):
        if column.dtype.is_numeric():
            return column.cast(nw.Float64).to_numpy().astype(np.float64)
        # Narwhals converts times with a zone to UTC.
        column = column.to_numpy() if column.dtype.is_temporal() else column
    if isinstance(column, np.ndarray):
        if column.ndim != 1:
            problem = f"{{argument}} has the shape {column.shape}, but must be a vector"
            raise DataError(problem, argument=argument)
        if column.dtype.kind in "iuf":
            return column.astype(np.float64)
        if column.dtype.kind == "M":
            return column.astype("datetime64[us]")
    kinds = set().union(*(map(type, values) for _, values in chunks(column)))
    numbers = (int, float, np.number, type(None))
    if all(issubclass(kind, numbers) and kind is not bool for kind in kinds):
        return to_floats(column, argument, len(column))
    dates = np.empty(len(column), "datetime64[us]")
    for part, values in chunks(column):
        # Parse each distinct value of a chunk once; errors name its first row.
        rows = dict(zip(values[::-1], range(part.stop - 1, part.start - 1, -1), strict=True))
        known = {value: _read_date(value, rows[value], argument) for value in dict.fromkeys(values)}
        dates[part] = np.fromiter(map(known.__getitem__, values), dates.dtype, len(values))
    return dates


def _read_date(value: Any, row: int, argument: str) -> np.datetime64:
    """Read a date or an ISO text."""
    try:
        if is_missing(value):
            return np.datetime64("NaT", "us")
        value = datetime.fromisoformat(value) if isinstance(value, str) else value
        if isinstance(value, datetime) and value.tzinfo is not None:
            value = value.astimezone(UTC).replace(tzinfo=None)
        if isinstance(value, (date, np.datetime64)):
            return np.datetime64(value, "us")  # pyright: ignore[reportCallIssue]
    except ValueError:
        pass
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    raise invalid(
        argument,
        value,
        f"which is {'a number among dates' if number else 'not a date'}",
        "Pass numbers only or dates only; write dates as '2018-12-25' or '2018-12-25T20:00'.",
        row=row,
    )
