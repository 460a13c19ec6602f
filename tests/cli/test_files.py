"""Reading of CSV and Parquet files: delimiters, encodings, quotes, and errors with lines."""

import csv
import gzip
import io
import tracemalloc
import unicodedata

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxkick.cli.console import UsageError
from jaxkick.cli.files import read_file

CELLS = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), max_size=8)


def saved(tmp_path, content, name="table.csv"):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@given(
    rows=st.lists(st.tuples(CELLS, CELLS, CELLS), min_size=1), delimiter=st.sampled_from(",;\t|")
)
def test_written_rows_are_read_back(rows, delimiter, tmp_path_factory):
    expected = [tuple(unicodedata.normalize("NFC", cell).strip() for cell in row) for row in rows]
    expected = [row for row in expected if any(row)]
    text = io.StringIO(newline="")
    csv.writer(text, delimiter=delimiter).writerows([("a", "b", "c"), *rows])
    path = saved(tmp_path_factory.mktemp("csv"), text.getvalue())
    if not expected:
        with pytest.raises(ValueError, match="no rows"):
            read_file(path, delimiter=delimiter)
        return
    table = read_file(path, delimiter=delimiter)
    assert list(zip(*table.columns.values(), strict=True)) == expected


@pytest.mark.parametrize("delimiter", list(",;\t|"))
def test_delimiter_is_detected(tmp_path, delimiter):
    lines = ["when", "who", "note"], ["2020-01-01", "A", "x"], ["2020-01-02", "B, C; D", "1,5"]
    text = io.StringIO(newline="")
    csv.writer(text, delimiter=delimiter).writerows(lines)
    table = read_file(saved(tmp_path, text.getvalue()))
    assert table.columns["who"] == ("A", "B, C; D")


@pytest.mark.parametrize(
    ("encoding", "told"),
    [("utf-8", None), ("utf-8-sig", None), ("utf-16", None), ("cp1252", "cp1252")],
)
@pytest.mark.parametrize("packed", [False, True])
def test_encodings(tmp_path, encoding, told, packed):
    content = "team,points\nKöln,1\n".encode(encoding)
    path = saved(tmp_path, gzip.compress(content) if packed else content)
    assert read_file(path, told).columns == {"team": ("Köln",), "points": ("1",)}


def test_line_numbers_with_quoted_newlines_and_empty_lines(tmp_path):
    table = read_file(saved(tmp_path, 'a,b\n\n1,"two\nlines"\n,\n3,4\n'))
    assert list(table.lines) == [3, 6]
    assert table.place(1) == "Line 6 of 'table.csv'"


def test_names_are_normalized_to_composed_letters(tmp_path):
    table = read_file(saved(tmp_path, "a,b\nKo\u0308ln,1\nK\u00f6ln,2\n"))
    assert len(set(table.columns["a"])) == 1


def test_unnamed_columns_and_trailing_empty_cells_are_ignored(tmp_path):
    table = read_file(saved(tmp_path, ",a,b,\n0,1,2,,,\n1,3,4,,\n"))
    assert table.columns == {"a": ("1", "3"), "b": ("2", "4")}


def test_parquet_is_detected_by_content(tmp_path):
    path = tmp_path / "table.csv"
    parquet.write_table(pa.table({"a": ["x ", None], "b": [1.5, None]}), path)
    table = read_file(path)
    assert table.columns["a"] == ("x", "")
    assert table.columns["b"].to_pylist() == [1.5, None]
    assert table.place(1) == "Row 1 of 'table.csv'"


def test_repeated_rows_are_found(tmp_path):
    table = read_file(saved(tmp_path, "a,b\n1,2\n1,3\n1,2\n1,2\n"))
    assert table.repeated(["a", "b"]) == [2, 3]
    assert table.places([2, 3]) == "lines 4, 5"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is empty"),
        (" \n\n", "is empty"),
        ('""\n', "only empty cells"),
        ("a,b\n", "no rows"),
        ("a,b\n1,2\n1,2,3\n", "Line 3 .* has 3 cells, but the header has 2"),
        ("a,b\n1\n", "Line 2 .* has 1 cells"),
        ('a,b\n1,2\n"1,2\n', "Line 3 .* from here on"),
        ("a,b,a\n1,2,3\n", "column 'a' twice"),
        ("a,b\nx,Köln\n".encode("latin-1"), "Line 2 .* byte 7"),
        (b"a\0b\n", "zero bytes"),
        (b"PK\x03\x04", "workbook"),
        (b"PAR1", "as Parquet"),
        (b"\x1f\x8b\x08", "gzipped but damaged"),
    ],
)
def test_unreadable_files_are_refused(tmp_path, content, message):
    with pytest.raises(ValueError, match=message):
        read_file(saved(tmp_path, content))


def peak_memory(path, error, message, **options):
    """The memory in bytes that it takes to refuse a file."""
    tracemalloc.start()
    with pytest.raises(error, match=message):
        read_file(path, **options)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak


def test_gzip_bombs_are_refused_in_bounded_memory(tmp_path):
    zeros = saved(tmp_path, gzip.compress(bytes(1 << 28)))
    assert peak_memory(zeros, ValueError, "decompresses to more than 64 MiB") < 1 << 28
    # Many short rows take far more memory as cells than as text.
    rows = saved(tmp_path, gzip.compress(b"a,b\n" + b"1,2\n" * (1 << 21)), "rows.csv")
    wanted = {"wanted": {"c": "--time"}}
    assert peak_memory(rows, UsageError, "names the column 'c'", **wanted) < 1 << 27
    ragged = gzip.compress(b"a,b\n1,2,3\n" + b"1,2\n" * (1 << 21))
    ragged = saved(tmp_path, ragged, "ragged.csv")
    assert peak_memory(ragged, ValueError, "Line 2 .* has 3 cells") < 1 << 27


def test_only_the_wanted_columns_are_kept(tmp_path):
    path = saved(tmp_path, "a,b,c\n1,2,3\n4,5,6\n")
    assert read_file(path, wanted={"b": "--time"}).columns == {"b": ("2", "5")}
    parquet.write_table(pa.table({"a": ["x"], "b": ["y"]}), tmp_path / "t.parquet")
    assert read_file(tmp_path / "t.parquet", wanted={"b": "--x"}).columns == {"b": ("y",)}


def test_unknown_names_come_with_suggestions(tmp_path):
    path = saved(tmp_path, "Date,home_team\n1,2\n", "results.csv")
    with pytest.raises(UsageError, match=r"Did you mean 'results.csv'"):
        read_file(tmp_path / "result.csv")
    with pytest.raises(UsageError, match=r"--time names the column 'date'.* mean 'Date'"):
        read_file(path, wanted={"date": "--time"})
    with pytest.raises(UsageError, match="mean 'home_team'"):
        read_file(path, wanted={"home": "--first"})
    with pytest.raises(UsageError, match="'klingon' is unknown"):
        read_file(path, "klingon")
