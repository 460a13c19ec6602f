"""The user's columns: pandas, polars and pyarrow series, NumPy arrays and lists, alike."""

from collections.abc import Iterable, Iterator, Mapping, Set
from typing import Any, TypeAlias

import narwhals as nw
import numpy as np

__all__ = [
    "Column",
    "as_column",
    "check_length",
    "chunks",
    "is_boolean",
    "is_missing",
    "to_floats",
    "to_list",
]

Column: TypeAlias = nw.Series | np.ndarray | list

_CHUNK = 1 << 17
_BOOLEANS = (bool, np.bool_)
# A set has no order.
_NO_COLUMNS = (str, bytes, Mapping, Set)
_LARGEST = 1024
_NUMBERS = (int, float, np.number, np.bool_, type(None))


def as_column(values: Any, argument: str) -> Column:
    """A column from whatever holds one value for each observation.

    Args:
        values: a series of pandas, polars or pyarrow, an array, or anything to iterate over.
        argument: name of the user's argument, for the error.

    Returns:
        A narwhals series, an array or a list.

    Raises:
        ValueError: if `values` is a single value.
    """
    if isinstance(values, (nw.Series, list)):
        return values
    if isinstance(values, np.ma.MaskedArray):
        # What is masked becomes `None`.
        return values.tolist()
    series = nw.from_native(values, series_only=True, pass_through=True)
    if isinstance(series, nw.Series):
        return series
    if hasattr(values, "__array__"):
        array = np.asarray(values)
        if array.ndim:
            return array
    elif isinstance(values, Iterable) and not isinstance(values, _NO_COLUMNS):
        return list(values)
    raise ValueError(
        f"`{argument}` is {values!r}, but must hold one value for each observation, "
        "as a series, an array or a list."
    )


def check_length(column: Column, argument: str, num_rows: int) -> None:
    """Refuse a column that does not have one value for each observation.

    Raises:
        ValueError: if the length differs.
    """
    if len(column) != num_rows:
        raise ValueError(
            f"`{argument}` has {len(column):,} values for {num_rows:,} observations; "
            "give it one value for each."
        )


def chunks(column: Column) -> Iterator[tuple[slice, list]]:
    """Parts of a column as Python lists, so that its objects need not all exist at once."""
    for begin in range(0, len(column), _CHUNK):
        part = slice(begin, min(begin + _CHUNK, len(column)))
        values = column[part]
        if isinstance(values, nw.Series):
            values = values.to_list()
        yield part, values.tolist() if isinstance(values, np.ndarray) else values


def to_list(column: Column) -> list:
    """A column as Python values."""
    if isinstance(column, nw.Series):
        return column.to_list()
    return column.tolist() if isinstance(column, np.ndarray) else column


def to_floats(values: Any, argument: str, num_rows: int) -> np.ndarray:
    """Numbers as a new float64 array, NaN where missing; one number stands for all rows.

    Raises:
        ValueError: if the values are not numbers or their length is wrong.
    """
    if values is not None and isinstance(values, _NUMBERS):
        return np.full(num_rows, values, np.float64)
    column = as_column(values, argument)
    check_length(column, argument, num_rows)
    if isinstance(column, nw.Series):
        numeric = column.dtype.is_numeric() or column.dtype == nw.Boolean
        column = (column.cast(nw.Float64) if numeric else column).to_numpy()
    if isinstance(column, np.ndarray) and column.ndim == 1 and column.dtype.kind in "biuf":
        return column.astype(np.float64)
    objects = column.tolist() if isinstance(column, np.ndarray) else column
    if not _all_numbers(objects):
        objects = [None if is_missing(value) else value for value in objects]
        if not _all_numbers(objects):
            _refuse_first_other(objects, argument)
    try:
        return np.array(objects, np.float64)
    except OverflowError:
        row = next(row for row, value in enumerate(objects) if _is_too_large(value))
        raise ValueError(
            f"`{argument}` holds an integer of {len(f'{objects[row]:x}')} hexadecimal digits in "
            f"row {row}, which no number can hold; give numbers."
        ) from None


def is_boolean(values: Any) -> bool:
    """Whether a column or value is nothing but true, false or missing."""
    if isinstance(values, nw.Series):
        if values.dtype != nw.Object:
            return values.dtype == nw.Boolean
        values = values.to_list()
    if isinstance(values, np.ndarray):
        if values.dtype != object:
            return values.dtype == bool
        values = values.tolist()
    if not isinstance(values, list):
        return isinstance(values, _BOOLEANS)
    if not any(kind in _BOOLEANS for kind in set(map(type, values))):
        return False
    return all(isinstance(value, _BOOLEANS) or is_missing(value) for value in values)


def is_missing(value: Any) -> bool:
    """Whether a value stands for nothing: `None`, NaN, NaT, pandas' NA or an empty text."""
    try:
        return value is None or bool(value != value) or (isinstance(value, str) and not value)
    except TypeError:
        # Only pandas' NA refuses to be true or false with this error.
        return True
    except ValueError:
        # An array is a value of its own.
        return False


def _is_too_large(value: Any) -> bool:
    return isinstance(value, int) and value.bit_length() > _LARGEST


def _all_numbers(objects: list) -> bool:
    return all(issubclass(kind, _NUMBERS) for kind in set(map(type, objects)))


def _refuse_first_other(objects: list, argument: str) -> None:
    row = next(row for row, value in enumerate(objects) if not isinstance(value, _NUMBERS))
    raise ValueError(
        f"`{argument}` holds {objects[row]!r} in row {row}, but must hold one number for each "
        "observation; convert it to numbers first."
    )
