"""Tables out: in the library that the user came with, or as plain columns."""

from collections.abc import Hashable, Iterable, Mapping
from typing import Any

import narwhals as nw
import numpy as np

__all__ = ["Columns", "extend_table", "make_table", "name_column"]

_SHOWN = 20


class Columns(dict[str, np.ndarray]):
    """A table as a mapping from names to columns, for those who came without a library.

    `pandas.DataFrame(columns)` and `polars.DataFrame(columns)` take it as it is.
    """

    def __repr__(self) -> str:
        length = max(map(len, self.values()), default=0)
        texts = {
            name: [str(name), *(_show(value) for value in column[:_SHOWN])]
            for name, column in self.items()
        }
        widths = {name: max(map(len, cells)) for name, cells in texts.items()}
        lines = [
            "  ".join(texts[name][row].rjust(widths[name]) for name in self).rstrip()
            for row in range(min(length, _SHOWN) + 1)
        ]
        more = [f"... {length - _SHOWN:,} more rows"] if length > _SHOWN else []
        return "\n".join(lines + more)


def make_table(columns: Mapping[str, Any], library: str | None) -> Any:
    """A table of columns.

    Args:
        columns: values by the name of their column.
        library: `"pandas"`, `"polars"` or `"pyarrow"`; `None` for a mapping of arrays.

    Returns:
        The table.

    Raises:
        ValueError: if the library is unknown or not installed.
    """
    arrays = Columns({name: np.asarray(column) for name, column in columns.items()})
    if library is None:
        return arrays
    try:
        return nw.from_dict(_plain(arrays), backend=library).to_native()
    except (ValueError, ImportError, AttributeError) as error:
        raise ValueError(
            f"`library` is {library!r}, but must be 'pandas', 'polars' or 'pyarrow', and be "
            f"installed ({error})."
        ) from error


def extend_table(frame: Any, columns: Mapping[str, Any]) -> Any:
    """A user's table with columns at its end, in its own library.

    Args:
        frame: a table, or a mapping from names to columns.
        columns: values by the name of their column; replaces columns of the same name.
    """
    if isinstance(frame, Mapping):
        whole = {**frame, **columns}
        return Columns({name: np.asarray(column) for name, column in whole.items()})
    table = nw.from_native(frame, eager_only=True)
    series = [
        nw.new_series(name, np.asarray(column), backend=table.implementation)
        for name, column in columns.items()
    ]
    return table.with_columns(*series).to_native()


def name_column(names: Iterable[Hashable]) -> np.ndarray:
    """Names as one column: texts or whole numbers; texts where they are mixed."""
    names = list(names)
    if all(isinstance(name, int) for name in names):
        return np.array(names, np.int64)
    return np.array([str(name) for name in names])


def _show_time(value: np.datetime64) -> str:
    """A date, with the time of day where it is not midnight, to the millisecond."""
    return str(value.astype("datetime64[ms]")).removesuffix("T00:00:00.000")


def _plain(arrays: Columns) -> dict[str, Any]:
    """Texts as lists, which every library reads as texts."""
    return {
        name: column.tolist() if column.dtype.kind == "U" else column
        for name, column in arrays.items()
    }


def _show(value: Any) -> str:
    if isinstance(value, np.datetime64):
        return _show_time(value)
    return f"{value:.4g}" if isinstance(value, (float, np.floating)) else str(value)
