"""Columns out of tables: pandas, polars, pyarrow, and mappings from names to columns."""

from collections.abc import Hashable, Mapping
from typing import Any

import narwhals as nw
import numpy as np

from jaxkick.dataset.columns import as_column
from jaxkick.dataset.validation import unknown_column

__all__ = ["read_frame"]


def read_frame(
    frame: Any, wanted: Mapping[str, Any], covariates: Mapping[Hashable, Any]
) -> tuple[dict[str, Any], dict[str, str]]:
    """The columns that a user named, and what to call them in errors.

    Args:
        frame: the table.
        wanted: for each argument the name of a column, a number or `None`.
        covariates: for each covariate the name of a column or a number.

    Returns:
        The columns (numbers and `None` stay) and the labels, by argument.

    Raises:
        ValueError: if the table is of an unknown kind, or lacks a column.
    """
    table, names = _open_table(frame)
    wanted = {**wanted, **{f"covariates[{name!r}]": value for name, value in covariates.items()}}
    columns, labels = dict(wanted), {}
    for argument, value in wanted.items():
        shown = "time" if argument == "times" else argument
        labels[argument] = shown
        if isinstance(value, str):
            if value not in names:
                unknown_column(shown, value, names)
            columns[argument] = as_column(table[value], shown)
            labels[argument] = f"{shown}={value!r}"
        elif argument in ("first", "second") or not _is_number(value, argument):
            raise ValueError(f"`{shown}` is {value!r}, but must be the name of a column.")
    if _is_number(wanted["times"], "times"):
        columns["times"] = np.full(len(columns["first"]), wanted["times"], np.float64)
    return columns, labels


def _open_table(frame: Any) -> tuple[Any, list[str]]:
    if isinstance(frame, Mapping):
        return frame, list(frame)
    table = nw.from_native(frame, eager_only=True, pass_through=True)
    if not isinstance(table, nw.DataFrame):
        raise ValueError(
            f"`frame` is a {type(frame).__name__}, but must be a table of pandas, polars or "
            "pyarrow that is held in memory (collect a lazy one first), or a mapping from names to "
            "columns."
        )
    return table, table.columns


def _is_number(value: Any, argument: str) -> bool:
    if value is None:
        return argument in ("outcome", "weight")
    return isinstance(value, (int, float, np.number))
