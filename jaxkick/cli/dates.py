"""Times of a column: numbers, or dates in one format, which is found if it is not told."""

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np

from jaxkick.cli.cells import Cells, is_missing, read_numbers
from jaxkick.cli.errors import UsageError

__all__ = ["read_times"]

_DAYS = ("%Y/%m/%d", "%Y.%m.%d", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%m-%d-%Y")
_SHORT = ("%d.%m.%y", "%d/%m/%y", "%m/%d/%y")
_WORDS = ("%d %B %Y", "%d %b %Y", "%B %d, %Y", "%b %d, %Y")
_HOURS = ("", " %H:%M", " %H:%M:%S")
_FORMATS = [day + hour for day in (*_DAYS, *_SHORT, *_WORDS) for hour in _HOURS]
_ISO = "ISO 8601"
_COMPACT = re.compile(r"(1[89]|20)\d\d(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.IGNORECASE)


def read_times(cells: Cells, date_format: str | None = None) -> Any:
    """Times as float64 numbers or as `datetime64`; NaN or NaT where nothing stands.

    Numbers as texts are dates if most of them are a year, a month and a day in eight digits.

    Args:
        cells: the column.
        date_format: the format of its dates, as `strptime` takes it; found if `None`.

    Raises:
        UsageError: if the format cannot be one, or is given for what is no text.
        ValueError: if dates cannot be read, are of several formats, or may be read in two ways.
    """
    if cells.texts is None:
        return _arrow_times(cells, date_format)
    distinct = [text for text in dict.fromkeys(cells.texts) if not is_missing(text)]
    if not distinct:
        raise ValueError(f"{cells.option} {cells.name!r} of {cells.table.source!r} is empty.")
    if date_format is None and all(map(_NUMBER.fullmatch, distinct)):
        # One day that does not exist must not turn all other dates into numbers.
        if 2 * sum(map(bool, map(_COMPACT.fullmatch, distinct))) <= len(distinct):
            return read_numbers(cells)
        date_format = "%Y%m%d"
    date_format = date_format or _find_format(cells, distinct)
    read = {text: _read(text, date_format) for text in distinct}
    _refuse_unread(cells, read, date_format)
    _refuse_mixed_zones(cells, read)
    known = {text: _without_zone(date) for text, date in read.items()}
    return np.array([known.get(text) for text in cells.texts], "datetime64[us]")


def _find_format(cells: Cells, distinct: Sequence[str]) -> str:
    """The one format that fits all dates; the one that fits the most if there is none."""
    sample = distinct[:: max(1, len(distinct) // 50)]
    hopeful = [form for form in (_ISO, *_FORMATS) if any(_read(text, form) for text in sample)]
    if not hopeful:
        row = cells.texts.index(distinct[0])
        cells.refuse(
            row,
            "which is no date; write 2018-12-25, or give the format, as --date-format %d.%m.%Y.",
        )
    fits = {form: sum(_read(text, form) is not None for text in distinct) for form in hopeful}
    best = max(fits, key=lambda form: fits[form])
    whole = [form for form in hopeful if fits[form] == len(distinct)]
    for other in whole[1:]:
        odd = next((text for text in distinct if _read(text, best) != _read(text, other)), None)
        if odd is not None:
            cells.refuse(
                cells.texts.index(odd),
                f"which may be read in two ways; give the format: --date-format '{best}' or "
                f"--date-format '{other}'.",
            )
    return best


def _read(text: str, date_format: str) -> datetime | None:
    """A date, or `None` if the text is none of the format."""
    try:
        if date_format == _ISO:
            date = datetime.fromisoformat(text)
        else:
            date = datetime.strptime(text, date_format)
        _without_zone(date)
    except (ValueError, OverflowError, re.error):
        return None
    return date


def _refuse_unread(cells: Cells, read: dict[str, datetime | None], date_format: str) -> None:
    unread = [text for text, date in read.items() if date is None]
    if not unread:
        return
    if len(unread) == len(read):
        raise UsageError(
            f"--date-format is {date_format!r}, but no date of {cells.name!r} is of it; the first "
            f"is {unread[0]!r}."
        )
    example = next(text for text, date in read.items() if date is not None)
    row = min(cells.texts.index(text) for text in unread)
    cells.refuse(
        row,
        f"which is no date of the format of the others, such as {example!r}; write all dates "
        "alike, as 2018-12-25.",
    )


def _refuse_mixed_zones(cells: Cells, read: dict[str, datetime | None]) -> None:
    """Refuse dates of which some have a time zone and some have none."""
    plain = [text for text, date in read.items() if date is not None and date.tzinfo is None]
    if plain and len(plain) < len(read):
        zoned = next(text for text in read if text not in plain)
        rows = sorted(cells.texts.index(text) for text in (plain[0], zoned))
        cells.refuse(
            rows[1],
            "but some dates have a time zone and some have none; give one to all or to none.",
        )


def _without_zone(date: datetime | None) -> datetime | None:
    if date is None or date.tzinfo is None:
        return date
    return date.astimezone(UTC).replace(tzinfo=None)


def _arrow_times(cells: Cells, date_format: str | None) -> Any:
    import pyarrow as pa

    kind = cells.values.type
    if date_format is not None:
        raise UsageError(
            f"--date-format is {date_format!r}, but the column {cells.name!r} of "
            f"{cells.table.source!r} holds {kind}, not texts; leave the option out, or write the "
            "column as texts."
        )
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        return cells.values.to_numpy(zero_copy_only=False).astype("datetime64[us]")
    return read_numbers(cells)
