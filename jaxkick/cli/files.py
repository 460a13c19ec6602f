"""Files in: CSV and Parquet as columns, with the line that every row stands on."""

import csv
import gzip
import io
import unicodedata
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jaxkick.cli.encodings import decode
from jaxkick.cli.errors import UsageError
from jaxkick.cli.names import suggest

__all__ = ["FileTable", "read_table"]

_DELIMITERS = ",;\t|"
_SAMPLE = 20
_SHOWN = 5
_FIELD_LIMIT = 1 << 20


@dataclass(frozen=True)
class FileTable:
    """A table as a file has it.

    Attributes:
        source: the name of the file.
        columns: cells by the name of their column: texts without space around them, empty
            where nothing stands; from Parquet also numbers, truths and times as arrow arrays.
        lines: the line of the file on which each row begins, from 1; `None` for Parquet.
    """

    source: str
    columns: Mapping[str, Any]
    lines: Sequence[int] | None

    @property
    def num_rows(self) -> int:
        """The number of rows."""
        return len(next(iter(self.columns.values())))

    def place(self, row: int) -> str:
        """Where a row is, in the words of an error."""
        return f"row {row}" if self.lines is None else f"line {self.lines[row]}"

    def column(self, name: str, option: str) -> Any:
        """A column by its name.

        Args:
            name: the name.
            option: the option that asks for it, for the error.

        Raises:
            UsageError: if there is none.
        """
        if name not in self.columns:
            raise UsageError(
                f"{option} names the column {name!r}, which {self.source!r} lacks; "
                f"{suggest(name, self.columns, 'columns')}"
            )
        return self.columns[name]

    def repeated(self, names: Iterable[str]) -> list[int]:
        """The rows that are the same as an earlier one in these columns."""
        columns = [_as_list(self.columns[name]) for name in names]
        seen: set[tuple] = set()
        rows = enumerate(zip(*columns, strict=True))
        return [row for row, cells in rows if cells in seen or seen.add(cells)]

    def places(self, rows: Sequence[int]) -> str:
        """Where some rows are, in words; the first few of them."""
        shown = ", ".join(map(self.place, rows[:_SHOWN]))
        return f"{shown} and {len(rows) - _SHOWN:,} more" if len(rows) > _SHOWN else shown


def read_table(path: Path, encoding: str | None = None, delimiter: str | None = None) -> FileTable:
    """Read a file of comma-separated values, which may be gzipped, or of Parquet.

    Args:
        path: the file; what it is is seen in its content.
        encoding: the encoding of its text; if `None` UTF-8, or UTF-16 with its mark.
        delimiter: what stands between cells; if `None` the one of comma, semicolon, tabulator
            and bar that divides the first lines alike.

    Returns:
        The table, with at least one row.

    Raises:
        UsageError: if there is no such file, or no such encoding.
        ValueError: if the file cannot be read, with the line.
    """
    content = _content_of(path)
    if content[:4] == b"PAR1":
        from jaxkick.cli.parquet import read_parquet

        return _checked(path.name, *read_parquet(content, path.name))
    if content[:2] == b"\x1f\x8b":
        content = _unpacked(content, path.name)
    _refuse_other_kinds(content, path)
    text = decode(content, encoding, path.name)
    if not text.strip():
        raise ValueError(f"{path.name!r} is empty; a table needs a header and rows.")
    return _checked(path.name, *_read_csv(unicodedata.normalize("NFC", text), delimiter, path.name))


def _content_of(path: Path) -> bytes:
    if path.is_dir():
        raise UsageError(f"{str(path)!r} is a folder; give a file of CSV or Parquet.")
    try:
        return path.read_bytes()
    except FileNotFoundError:
        folder = path.parent
        others = [each.name for each in folder.iterdir()] if folder.is_dir() else []
        hint = suggest(path.name, others, "files there") if others else "check its folder."
        raise UsageError(f"there is no file {str(path)!r}; {hint}") from None


def _unpacked(content: bytes, source: str) -> bytes:
    try:
        return gzip.decompress(content)
    except (OSError, EOFError, zlib.error) as error:
        raise ValueError(f"{source!r} is gzipped but damaged ({error}).") from error


def _refuse_other_kinds(content: bytes, path: Path) -> None:
    if content[:4] == b"PK\x03\x04" or content[:4] == b"\xd0\xcf\x11\xe0":
        raise ValueError(
            f"{path.name!r} is a workbook or an archive, not text; save the sheet as CSV (UTF-8)."
        )
    if path.suffix.lower() == ".parquet":
        raise ValueError(f"{path.name!r} is not a Parquet file: it does not begin as one.")


def _read_csv(text: str, delimiter: str | None, source: str) -> tuple[dict[str, Any], list[int]]:
    if delimiter is not None and len(delimiter) != 1:
        raise UsageError(f"--delimiter is {delimiter!r}, but must be one character.")
    rows, lines = _split(text, delimiter or _find_delimiter(text), source)
    if not rows:
        raise ValueError(f"{source!r} holds nothing but empty cells.")
    header, *body = rows
    width = len(header)
    for number, (row, line) in enumerate(zip(body, lines[1:], strict=True)):
        if len(row) != width:
            if len(row) < width or any(row[width:]):
                raise ValueError(
                    f"line {line} of {source!r} has {len(row)} cells, but the header has {width}; "
                    "quote cells that hold the delimiter, or name it with --delimiter."
                )
            body[number] = row[:width]
    columns = list(zip(*body, strict=True)) or [()] * width
    return _named(header, columns, source), lines[1:]


def _split(text: str, delimiter: str, source: str) -> tuple[list[list[str]], list[int]]:
    """Rows that hold something, and the line that each begins on."""
    csv.field_size_limit(_FIELD_LIMIT)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    rows, lines, begin = [], [], 1
    # Names and dates come again and again: one text for all of them saves a third of the memory.
    shared: dict[str, str] = {}
    try:
        for cells in reader:
            stripped = [shared.setdefault(text, text) for text in map(str.strip, cells)]
            if any(stripped):
                rows.append(stripped)
                lines.append(begin)
            begin = reader.line_num + 1
    except csv.Error as error:
        raise ValueError(
            f"{source!r} cannot be read from line {begin} on ({error}); look for a quotation mark "
            "without its partner."
        ) from None
    return rows, lines


def _find_delimiter(text: str) -> str:
    """The delimiter that divides the first lines into the most cells, all of them alike."""

    def score(delimiter: str) -> tuple[bool, int]:
        widths = []
        try:
            for cells in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter):
                widths += [len(cells)] if any(cells) else []
                if len(widths) == _SAMPLE:
                    break
        except csv.Error:
            return False, 0
        if not widths:
            return False, 0
        alike = widths[0] > 1 and widths.count(widths[0]) > len(widths) // 2
        return alike, widths[0]

    return max(_DELIMITERS, key=score)


def _named(header: list[str], columns: Sequence[Any], source: str) -> dict[str, Any]:
    """Columns by name; those without a name are left out."""
    named: dict[str, Any] = {}
    for name, column in zip(header, columns, strict=True):
        if name in named:
            raise ValueError(f"{source!r} has the column {name!r} twice; rename one of them.")
        if name:
            named[name] = column
    return named


def _checked(source: str, columns: dict[str, Any], lines: list[int] | None) -> FileTable:
    if not columns:
        raise ValueError(f"{source!r} has no columns with a name in its first line.")
    table = FileTable(source, columns, lines)
    if not table.num_rows:
        raise ValueError(f"{source!r} has a header but no rows.")
    return table


def _as_list(column: Any) -> Sequence:
    return column.to_pylist() if hasattr(column, "to_pylist") else column
