"""Who is at home: +1 the first side, -1 the second, 0 nobody."""

from collections.abc import Callable
from typing import Any

import numpy as np

from jaxkick.dataset.columns import as_column, is_boolean, is_missing, to_floats, to_list

__all__ = ["HOME", "check_sides", "read_home"]

HOME = "home"
"""The name of the feature, and of its group."""


def read_home(
    home: Any, neutral: Any, first: Any, second: Any, label: Callable[[str], str], num_rows: int
) -> np.ndarray:
    """The coefficient of the home advantage in every match.

    Args:
        home: a column of numbers or of names of the side at home; anything else if the first
            side is at home.
        neutral: a column that says which matches are on neutral ground, or `None`.
        first: the names of the first side.
        second: the names of the second side.
        label: what an argument is called in errors.
        num_rows: the number of matches.

    Returns:
        Numbers; NaN where it is not known who is at home.

    Raises:
        ValueError: if a column cannot be read.
    """
    coefficients = np.ones(num_rows)
    if home is not None and home is not True:
        coefficients = _read_side_at_home(home, first, second, label("home"), num_rows)
    if neutral is not None:
        coefficients = coefficients * (1.0 - _read_flags(neutral, label("neutral"), num_rows))
    return coefficients


def _read_side_at_home(home: Any, first: Any, second: Any, label: str, num_rows: int) -> np.ndarray:
    column = as_column(home, label)
    if is_boolean(column):
        raise ValueError(
            f"`{label}` holds booleans, which leave open whether False is the home of the second "
            "side or neutral ground; give +1 (first at home), -1 (second) and 0 (neutral), or "
            "`home=True` with `neutral=`."
        )
    cells = to_list(column)
    if not any(isinstance(cell, str) for cell in cells):
        return check_sides(to_floats(column, label, num_rows), label)
    return _match_names(cells, _names(first), _names(second), label)


def check_sides(values: np.ndarray, label: str) -> np.ndarray:
    """Numbers that name a side; others, such as goals, are refused.

    Args:
        values: +1, -1 or 0; NaN where it is not known.
        label: what the argument is called in errors.

    Raises:
        ValueError: if there are other numbers.
    """
    wrong = np.flatnonzero(~np.isin(values, (-1.0, 0.0, 1.0)) & ~np.isnan(values))
    if len(wrong):
        raise ValueError(
            f"`{label}` is {values[wrong[0]]:g} in row {wrong[0]}; give +1 (first at home), -1 "
            "(second) and 0 (neutral). Other coefficients go into `covariates=`."
        )
    return values


def _match_names(cells: list, first: list | None, second: list | None, label: str) -> np.ndarray:
    if first is None or second is None:
        raise ValueError(
            f"`{label}` holds names, but the sides are line-ups; give +1 (first at home), -1 "
            "(second) and 0 (neutral)."
        )
    coefficients = np.zeros(len(cells))
    for row, (cell, one, other) in enumerate(zip(cells, first, second, strict=True)):
        if cell == one:
            coefficients[row] = 1.0
        elif cell == other:
            coefficients[row] = -1.0
        elif not is_missing(cell):
            raise ValueError(
                f"`{label}` is {cell!r} in row {row}, which is neither side of the match; give the "
                "side at home, or leave it empty on neutral ground."
            )
    return coefficients


def _names(side: Any) -> list | None:
    """The names of a side, if it is a plain column of them."""
    if isinstance(side, tuple):
        return None
    names = to_list(side)
    return None if any(isinstance(name, (list, dict, set, tuple)) for name in names) else names


def _read_flags(values: Any, label: str, num_rows: int) -> np.ndarray:
    flags = to_floats(values, label, num_rows)
    wrong = ~np.isin(flags, (0.0, 1.0)) & ~np.isnan(flags)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise ValueError(
            f"`{label}` is {flags[row]:g} in row {row}, but must be true (1) on neutral ground and "
            "false (0) elsewhere."
        )
    return flags
