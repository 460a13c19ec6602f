"""Results out: tables for people, CSV and JSON for pipes."""

import csv
import io
import json
import math
import sys
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any

__all__ = ["Format", "emit", "show_time", "write_csv"]

_BRIEF = {"first_wins": "win", "second_wins": "loss"}
_CHANCES = frozenset({"best", "win", "tie", "loss"})
_PAIRS = {"interval": ("lower", "upper"), "ranks": ("rank_lower", "rank_upper")}
_LEFT_OUT = frozenset({"deviation", "score_mean", "score_deviation", "last_active"})
_NARROW = 120
_DIGITS = 4


class Format(StrEnum):
    """How results are written to the standard output."""

    table = "table"
    csv = "csv"
    json = "json"


def emit(columns: Mapping[str, Any], form: Format, title: str | None = None) -> None:
    """Write a table to the standard output.

    Args:
        columns: values by column.
        form: how to write them.
        title: what stands above a table for people.
    """
    if form is Format.table:
        _print_table(columns, title)
    elif form is Format.csv:
        sys.stdout.write(_as_csv(columns))
    else:
        rows = zip(*map(_values, columns.values()), strict=True)
        records = [dict(zip(columns, map(_json, row), strict=True)) for row in rows]
        sys.stdout.write(json.dumps(records, ensure_ascii=False, indent=1) + "\n")


def write_csv(path: Path, columns: Mapping[str, Any]) -> Path:
    """Write a table to a file, which appears whole or not at all.

    Args:
        path: the file.
        columns: values by column.

    Returns:
        The file.
    """
    from jaxkick._files import written_whole

    with written_whole(path) as file:
        file.write(_as_csv(columns).encode())
    return path


def _as_csv(columns: Mapping[str, Any]) -> str:
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    rows = zip(*map(_values, columns.values()), strict=True)
    writer.writerows([["" if _json(cell) is None else _json(cell) for cell in row] for row in rows])
    return text.getvalue()


def _values(column: Any) -> list:
    """Plain values: numbers of either precision with as many digits as they have."""
    import numpy as np

    array = np.asarray(column)
    if array.dtype == np.float32:
        return [float(str(number)) for number in array]
    if array.dtype.kind == "M":
        return [show_time(moment) for moment in array]
    return array.tolist()


def show_time(moment: Any) -> str | None:
    """A time as a text, a date without its hours where it has none; nothing for no time.

    Args:
        moment: a number or a `datetime64`.
    """
    import numpy as np

    if not isinstance(moment, np.datetime64):
        return str(moment)
    if np.isnat(moment):
        return None
    day = moment.astype("datetime64[D]")
    return str(day) if day == moment else str(moment.astype("datetime64[s]"))


def _json(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _print_table(columns: Mapping[str, Any], title: str | None) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    table.padding = (0, 1)
    shown = _for_people({name: _values(column) for name, column in columns.items()})
    for name, values in shown.items():
        # Where a terminal is narrow, names give way and numbers do not.
        firm = name in _PAIRS or not any(isinstance(value, str) for value in values)
        side = "right" if firm else "left"
        table.add_column(Text(name.replace("_", " ")), justify=side, no_wrap=firm)
    for row in zip(*shown.values(), strict=True):
        cells = [_cell(name, value) for name, value in zip(shown, row, strict=True)]
        table.add_row(*map(Text, cells))
    # Lines are cut to the width of a terminal, but never in a file or pipe.
    width = None if sys.stdout.isatty() else max(_NARROW, 40 * len(shown))
    Console(width=width, highlight=False).print(table)


def _for_people(columns: dict[str, list]) -> dict[str, list]:
    """Fewer and shorter columns: ends of intervals together, no deviations, brief names."""
    joined = {low: (name, columns.get(high)) for name, (low, high) in _PAIRS.items()}
    upper = {high for low, high in _PAIRS.values() if low in columns}
    shown = {}
    for name, values in columns.items():
        other, ends = joined.get(name, (None, None))
        if other is not None and ends is not None:
            pairs = zip(values, ends, strict=True)
            shown[other] = [_span(name, *pair) for pair in pairs]
        elif name not in upper and name not in _LEFT_OUT:
            shown[_BRIEF.get(name, name)] = values
    return shown


def _span(name: str, low: float, high: float) -> str:
    if not (math.isfinite(low) and math.isfinite(high)):
        return ""
    # A dash before a minus would be hard to read.
    between = "–" if low >= 0 else " to "
    return f"{_cell(name, low)}{between}{_cell(name, high)}"


def _cell(name: str, value: Any) -> str:
    if value is None:
        return ""
    if not isinstance(value, float):
        return str(value)
    if name in _CHANCES:
        return f"{value:.1%}"
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.{_DIGITS}g}"
