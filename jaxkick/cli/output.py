"""Print results: as a table for people, as CSV or JSON for scripts."""

import csv
import io
import json
import math
import sys
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any

Format = StrEnum("Format", ["table", "csv", "json"])

_PAIRS = {
    "interval": ("lower", "upper"),
    "ranks": ("rank_lower", "rank_upper"),
    "range": ("points_lower", "points_upper"),
}
_HIDDEN = frozenset({"deviation", "score_mean", "score_deviation", "last_active"})
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_MIN_WIDTH = 120
_DIGITS = 4


def emit(columns: Mapping[str, Any], form: Format, title: str | None = None) -> None:
    """Print a table, given by its columns, to the standard output; JSON and CSV have no title."""
    if form is Format.table:
        _print_table(columns, title)
    elif form is Format.csv:
        sys.stdout.write(_as_csv(columns))
    else:
        records = [dict(zip(columns, row, strict=True)) for row in _rows(columns)]
        sys.stdout.write(json.dumps(records, ensure_ascii=False, indent=1) + "\n")


def write_csv(path: Path, columns: Mapping[str, Any]) -> Path:
    """Write a table to a file atomically, and return the path."""
    from jaxkick.io import atomic_write

    with atomic_write(path) as file:
        file.write(_as_csv(columns).encode())
    return path


def _as_csv(columns: Mapping[str, Any]) -> str:
    text = io.StringIO(newline="")
    rows = [[_harmless(cell) for cell in row] for row in [tuple(columns), *_rows(columns)]]
    # An empty cell stands for `None`.
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def _harmless(cell: Any) -> Any:
    """Quote a text that a spreadsheet would run as a formula, such as `=HYPERLINK(...)`."""
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(_FORMULA) else cell


def _rows(columns: Mapping[str, Any]) -> list[tuple]:
    """The rows of a table, with `None` for numbers that are not finite."""
    lists = [
        [None if isinstance(cell, float) and not math.isfinite(cell) else cell for cell in column]
        for column in map(_values, columns.values())
    ]
    return list(zip(*lists, strict=True))


def _values(column: Any) -> list:
    """Convert to Python values; float32 numbers keep their decimal digits."""
    import numpy as np

    from jaxkick.data.columns import show_time

    array = np.asarray(column)
    if array.dtype == np.float32:
        return [float(str(number)) for number in array]
    if array.dtype.kind == "M":
        texts = [show_time(time).removesuffix(".000") for time in array]
        return [None if text == "NaT" else text for text in texts]
    return array.tolist()


def _print_table(columns: Mapping[str, Any], title: str | None) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    table.padding = (0, 1)
    shown = _for_people({name: _values(column) for name, column in columns.items()})
    for name, values in shown.items():
        # A narrow terminal wraps names, but not numbers.
        firm = name in _PAIRS or not any(isinstance(value, str) for value in values)
        side = "right" if firm else "left"
        short = name.removeprefix("p_") if _is_probability(name) else name
        table.add_column(Text(short.replace("_", " ")), justify=side, no_wrap=firm)
    for row in zip(*shown.values(), strict=True):
        cells = [_cell(name, value) for name, value in zip(shown, row, strict=True)]
        table.add_row(*map(Text, cells))
    # Only a terminal limits the width.
    width = None if sys.stdout.isatty() else max(_MIN_WIDTH, 40 * len(shown))
    Console(width=width, highlight=False).print(table)


def _for_people(columns: dict[str, list]) -> dict[str, list]:
    """Join the ends of intervals and drop standard deviations."""
    hidden = set(_HIDDEN)
    joined: dict[str, tuple[str, list]] = {}
    for name, (low, high) in _PAIRS.items():
        if low in columns and high in columns:
            pairs = zip(columns[low], columns[high], strict=True)
            joined[low] = name, [_span(low, *pair) for pair in pairs]
            hidden.add(high)
    shown = [
        joined.get(name, (name, values)) for name, values in columns.items() if name not in hidden
    ]
    return dict(shown)


def _span(name: str, low: float, high: float) -> str:
    if not (math.isfinite(low) and math.isfinite(high)):
        return ""
    # A dash before a minus sign is hard to read.
    between = "–" if low >= 0 else " to "
    return f"{_cell(name, low)}{between}{_cell(name, high)}"


def _is_probability(name: str) -> bool:
    """Return whether to show a column as percentages; not for numbers of points, such as `p_2`."""
    return name == "best" or (name.startswith("p_") and name[2:3].isalpha())


def _cell(name: str, value: Any) -> str:
    if value is None:
        return ""
    if not isinstance(value, float):
        return str(value)
    if _is_probability(name):
        return f"{value:.1%}"
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.{_DIGITS}g}"
