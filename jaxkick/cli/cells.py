"""Convert columns of cells to names, numbers, flags, outcomes and times.

Ambiguous cells raise a `DataError` that names the row: dates such as 03/04/2020, decimal commas,
dates in several formats. `datetime` parses dates, because
`pyarrow.compute.strptime` reads 2020-02-30 as 2020-03-01.
"""

import math
import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple, NoReturn

import numpy as np

from jaxkick.cli.console import UsageError
from jaxkick.cli.files import FileTable
from jaxkick.data.columns import NUMBER
from jaxkick.errors import DataError

_MISSING = frozenset({"", "na", "n/a", "nan", "null", "none"})
_FLAGS = {
    **dict.fromkeys(("true", "t", "yes", "y", "1"), 1.0),
    **dict.fromkeys(("false", "f", "no", "n", "0"), 0.0),
}
_DAYS = ("%Y/%m/%d", "%Y.%m.%d", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%m-%d-%Y")
_SHORT_DAYS = ("%d.%m.%y", "%d/%m/%y", "%m/%d/%y")
_WORDY_DAYS = ("%d %B %Y", "%d %b %Y", "%B %d, %Y", "%b %d, %Y")
_HOURS = ("", " %H:%M", " %H:%M:%S")
_ISO = "ISO 8601"
_FORMATS = [
    _ISO, *(day + hour for day in (*_DAYS, *_SHORT_DAYS, *_WORDY_DAYS) for hour in _HOURS)
]  # fmt: skip
_EIGHT_DIGITS = re.compile(r"(1[89]|20)\d\d(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])")


class Cells(NamedTuple):
    """A column of a file, and the option that names it."""

    table: FileTable
    name: str
    option: str

    @property
    def values(self) -> Any:
        """The cells: a tuple of texts, or an arrow array."""
        return self.table.columns[self.name]

    @property
    def texts(self) -> tuple[str, ...] | None:
        """The cells if they are texts."""
        return self.values if isinstance(self.values, tuple) else None

    def refuse(self, cell: str | int, problem: str, remedy: str) -> NoReturn:
        """Raise an error about a cell, given by its text or row.

        `problem` continues "`--option` is 'value'".
        """
        row = self.values.index(cell) if isinstance(cell, str) else cell
        value = cell if isinstance(cell, str) else self.values[row]
        raise DataError(
            f"{{argument}} is {{value}}{problem}",
            remedy,
            argument=self.option,
            column=self.name,
            row=row,
            value=value if isinstance(value, str) else value.as_py(),
        )

    def refuse_all(self, problem: str) -> NoReturn:
        """Raise an error about the column; `problem` continues "`--option`"."""
        raise DataError(
            f"{{argument}} {problem}",
            "Choose another column.",
            argument=self.option,
            column=self.name,
        )


def parse_names(cells: Cells) -> list[str | None]:
    """Parse names as texts, also whole numbers; `None` where missing."""
    if cells.texts is not None:
        return [text or None for text in cells.texts]
    values = cells.values.to_pylist()
    for row, value in enumerate(values):
        if isinstance(value, (list, dict, bytes)):
            cells.refuse(row, ", which is not a name", "Give texts or whole numbers.")
    whole = (int(v) if isinstance(v, float) and v.is_integer() else v for v in values)
    return [None if value is None else str(value) for value in whole]


def parse_numbers(cells: Cells) -> np.ndarray:
    """Parse numbers as float64; NaN where missing."""
    return _convert(
        cells,
        _number,
        ", which is not a number",
        "Write decimals with a point, leave the cell empty, or choose another column.",
    )


def parse_flags(cells: Cells) -> np.ndarray:
    """Parse true and false as 1 and 0; NaN where missing."""
    return _convert(
        cells,
        lambda text: math.nan if _is_missing(text) else _FLAGS.get(text.casefold()),
        ", which is neither true nor false",
        "Write 1 and 0, or yes and no.",
    )


def _convert(
    cells: Cells, convert: Callable[[str], float | None], problem: str, remedy: str
) -> np.ndarray:
    """Convert each distinct text once; Arrow columns are converted by Arrow."""
    if cells.texts is None:
        return _arrow_numbers(cells)
    known = {text: convert(text) for text in dict.fromkeys(cells.texts)}
    for text, number in known.items():
        if number is None:
            cells.refuse(text, problem, remedy)
    return np.array([known[text] for text in cells.texts], np.float64)


def parse_sides(cells: Cells) -> Any:
    """Parse the sides at home: numbers if all cells are numbers, otherwise names."""
    if cells.texts is None:
        return cells.values
    numbers = all(_number(text) is not None for text in set(cells.texts))
    return parse_numbers(cells) if numbers else parse_names(cells)


def parse_outcomes(cells: Cells, coded: bool) -> Any:
    """Parse outcomes as numbers if all cells are numbers, else as texts, with `None` if missing.

    If the user has `coded` the meaning of the values, numbers stay texts.
    """
    if cells.texts is None:
        return cells.values
    if not coded and all(_number(text) is not None for text in set(cells.texts)):
        return parse_numbers(cells)
    return [None if _is_missing(text) else text for text in cells.texts]


def parse_times(cells: Cells, date_format: str | None = None) -> np.ndarray:
    """Parse times as float64 numbers or as `datetime64`; NaN or NaT where missing.

    Texts are dates if most of them are eight digits such as 20180131. The format of dates, as for
    `strptime`, is detected unless it is given.
    """
    if cells.texts is None:
        return _arrow_times(cells, date_format)
    distinct = [text for text in dict.fromkeys(cells.texts) if not _is_missing(text)]
    if not distinct:
        cells.refuse_all(f"is empty in {cells.table.source!r}")
    if date_format is None and all(map(NUMBER.fullmatch, distinct)):
        # A majority is enough: one day that does not exist must not turn all dates into numbers.
        if 2 * sum(map(bool, map(_EIGHT_DIGITS.fullmatch, distinct))) <= len(distinct):
            return parse_numbers(cells)
        date_format = "%Y%m%d"
    date_format = date_format or _find_format(cells, distinct)
    parsed = {text: _parse(text, date_format) for text in distinct}
    dates = {text: date for text, date in parsed.items() if date is not None}
    if not dates:
        raise UsageError(
            f"--date-format {date_format!r} does not fit any date in the column {cells.name!r}. "
            f"Its first date is {distinct[0]!r}."
        )
    example, first = next(iter(dates.items()))
    for text in distinct:
        if text not in dates:
            problem = f", which is not a date of the same format as {example!r}"
            cells.refuse(text, problem, "Write all dates in one format, such as 2018-12-25.")
        if (dates[text].tzinfo is None) != (first.tzinfo is None):
            problem = ", but only some dates have a time zone"
            cells.refuse(text, problem, "Give a time zone to all dates or to none.")
    known = {text: _in_utc(date) for text, date in dates.items()}
    return np.array([known.get(text) for text in cells.texts], "datetime64[us]")


def _find_format(cells: Cells, distinct: Sequence[str]) -> str:
    """Find the only format that fits all dates, or else the one that fits most."""
    sample = distinct[:: max(1, len(distinct) // 50)]
    possible = [form for form in _FORMATS if any(_parse(text, form) for text in sample)]
    if not possible:
        remedy = "Write 2018-12-25, or give the format, as in --date-format %d.%m.%Y."
        cells.refuse(distinct[0], ", which is not a date", remedy)
    dates = {form: [_parse(text, form) for text in distinct] for form in possible}
    best = min(possible, key=lambda form: dates[form].count(None))
    for other in possible:
        if other == best or None in dates[other]:
            continue
        for text, one, two in zip(distinct, dates[best], dates[other], strict=True):
            if one != two:
                cells.refuse(
                    text,
                    ", which can be read in two ways",
                    f"Give the format: --date-format '{best}' or --date-format '{other}'.",
                )
    return best


def _parse(text: str, date_format: str) -> datetime | None:
    """The date, or `None` if the text does not have the format."""
    try:
        iso = date_format == _ISO
        date = datetime.fromisoformat(text) if iso else datetime.strptime(text, date_format)
        _in_utc(date)
    except (ValueError, OverflowError, re.error):
        return None
    return date


def _in_utc(date: datetime) -> datetime:
    return date if date.tzinfo is None else date.astimezone(UTC).replace(tzinfo=None)


def _arrow_times(cells: Cells, date_format: str | None) -> np.ndarray:
    import pyarrow as pa

    kind = cells.values.type
    if date_format is not None:
        raise UsageError(
            f"--date-format is for texts, but the column {cells.name!r} of "
            f"{cells.table.source!r} holds {kind}. Leave the option out."
        )
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        return cells.values.to_numpy(zero_copy_only=False).astype("datetime64[us]")
    return parse_numbers(cells)


def _arrow_numbers(cells: Cells) -> np.ndarray:
    import pyarrow as pa

    try:
        column = cells.values.cast(pa.float64())
    except pa.ArrowException:
        cells.refuse_all(f"holds {cells.values.type} in {cells.table.source!r}, but needs numbers")
    return column.to_numpy(zero_copy_only=False).astype(np.float64)


def _is_missing(text: str) -> bool:
    return text.casefold() in _MISSING


def _number(text: str) -> float | None:
    """The number, NaN for a missing cell, `None` for any other text."""
    if _is_missing(text):
        return math.nan
    try:
        # Python accepts underscores between digits, but in a table they are a mistake.
        return None if "_" in text else float(text)
    except ValueError:
        return None
