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

_CHANCES = frozenset({"best", "first_wins", "tie", "second_wins"})
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
    shown = {name: _values(column) for name, column in columns.items()}
    for name, values in shown.items():
        numeric = all(isinstance(value, (int, float)) for value in values)
        table.add_column(
            Text(name.replace("_", " ")), justify="right" if numeric else "left", no_wrap=True
        )
    for row in zip(*shown.values(), strict=True):
        cells = [_cell(name, value) for name, value in zip(shown, row, strict=True)]
        table.add_row(*map(Text, cells))
    # Lines are cut to the width of a terminal, but never in a file or pipe.
    width = None if sys.stdout.isatty() else max(_NARROW, 40 * len(shown))
    Console(width=width, highlight=False).print(table)


def _cell(name: str, value: Any) -> str:
    if value is None:
        return ""
    if not isinstance(value, float):
        return str(value)
    if name in _CHANCES:
        return f"{value:.1%}"
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.{_DIGITS}g}"
