"""Conversion of cells to names, numbers, flags, outcomes and times."""

import datetime as dt

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxkick.cli.cells import (
    Cells,
    parse_flags,
    parse_names,
    parse_numbers,
    parse_outcomes,
    parse_sides,
    parse_times,
)
from jaxkick.cli.console import UsageError
from jaxkick.cli.files import FileTable

NAN = float("nan")


def cells(*values):
    column = values[0] if isinstance(values[0], pa.ChunkedArray) else values
    return Cells(FileTable("x.csv", {"c": column}, range(2, 2 + len(column))), "c", "--option")


def arrow(values, kind=None):
    return cells(pa.chunked_array([pa.array(values, kind)]))


def test_names_are_texts():
    assert parse_names(cells("007", "NA", "")) == ["007", "NA", None]
    assert parse_names(arrow([1, None])) == ["1", None]
    assert parse_names(arrow([1.0, None])) == ["1", None]
    with pytest.raises(ValueError, match="not a name"):
        parse_names(arrow([[1, 2]]))


def test_numbers():
    np.testing.assert_array_equal(
        parse_numbers(cells("1", "-2.5e1", "", "NaN")), [1, -25, NAN, NAN]
    )
    np.testing.assert_array_equal(parse_numbers(arrow([1, None])), [1, NAN])
    with pytest.raises(
        ValueError,
        match=r"^Row 1: `--option` \(column 'c'\) is '1,5', which is not a number\. .* a point",
    ):
        parse_numbers(cells("1", "1,5"))
    with pytest.raises(ValueError, match=r"Row 0: .*'1_000'"):
        parse_numbers(cells("1_000"))
    with pytest.raises(ValueError, match="holds list"):
        parse_numbers(arrow([[1.0]]))


def test_flags_and_sides():
    np.testing.assert_array_equal(parse_flags(cells("Yes", "no", "1", "F", "")), [1, 0, 1, 0, NAN])
    np.testing.assert_array_equal(parse_flags(arrow([True, False])), [1, 0])
    with pytest.raises(ValueError, match=r"Row 1: .*'2'"):
        parse_flags(cells("1", "2"))
    np.testing.assert_array_equal(parse_sides(cells("1", "-1")), [1, -1])
    assert parse_sides(cells("A", "")) == ["A", None]


def test_outcomes_are_numbers_or_texts():
    np.testing.assert_array_equal(parse_outcomes(cells("1", "-12", "NA"), False), [1, -12, NAN])
    assert parse_outcomes(cells("H", "1", "n/a"), False) == ["H", "1", None]
    assert parse_outcomes(cells("1", "0.5", ""), True) == ["1", "0.5", None]
    assert parse_outcomes(arrow([True, None]), False).to_pylist() == [True, None]


FORMATS = ["%Y-%m-%d", "%Y/%m/%d", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%Y%m%d", "%d %B %Y"]


@given(
    dates=st.lists(st.dates(dt.date(1850, 1, 1), dt.date(2090, 1, 1))),
    form=st.sampled_from(FORMATS),
)
def test_unambiguous_date_formats_are_detected(dates, form):
    # A day beyond the twelfth leaves no doubt which number is the month.
    dates = [*dates, dt.date(2001, 5, 25)]
    found = parse_times(cells(*[date.strftime(form) for date in dates]))
    np.testing.assert_array_equal(found, np.array(dates, "datetime64[D]"))


def test_numbers_time_zones_and_given_formats():
    np.testing.assert_array_equal(parse_times(cells("2019", "2020.5", "")), [2019, 2020.5, NAN])
    zoned = parse_times(cells("2020-01-01T01:00+02:00", "2020-01-01T00:00Z"))
    assert [str(each) for each in zoned.astype("datetime64[h]")] == [
        "2019-12-31T23",
        "2020-01-01T00",
    ]
    given_format = parse_times(cells("1.2.20", ""), "%d.%m.%y").astype("datetime64[D]")
    assert str(given_format[0]) == "2020-02-01"
    assert np.isnat(given_format[1])
    days = parse_times(arrow([dt.date(2020, 1, 2), None], pa.date32()))
    assert days[0] == np.datetime64("2020-01-02")
    assert np.isnat(days[1])


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (("01/02/2020", "03/02/2020"), "Row 0.*'01/02/2020'.* two ways.*%d/%m/%Y.*%m/%d/%Y"),
        (("2020-01-01", "2020-01-02", "13/01/2020"), "Row 2.*'13/01/2020'.* same format as '2020"),
        (("13/01/2020", "01/13/2020", "14/01/2020"), "Row 1.*'01/13/2020'"),
        (("2020-01-01", "5"), "Row 1.*'5'"),
        (("2020-01-01T00:00", "2020-01-01T00:00Z"), "Row 1.* time zone"),
        (("soon", "later"), "Row 0.*'soon'.* not a date"),
        (("2020-02-30", "2020-02-31"), "Row 0.*'2020-02-30'"),
        (("20180101", "18510000", "20180102"), "Row 1.*'18510000'.* same format as '20180101'"),
        (("", "NA"), "is empty"),
    ],
)
def test_invalid_and_ambiguous_times_are_refused(texts, message):
    with pytest.raises(ValueError, match=message):
        parse_times(cells(*texts))


def test_eight_digits_are_dates_only_in_texts():
    assert parse_times(cells("20180101"))[0] == np.datetime64("2018-01-01")
    np.testing.assert_array_equal(parse_times(arrow([20180101])), [20180101.0])
    counted = cells("20180131", "20180132", "20180199", "5")
    np.testing.assert_array_equal(parse_times(counted), [20180131, 20180132, 20180199, 5])


@pytest.mark.parametrize(
    ("column", "kind"),
    [(arrow([dt.date(2020, 1, 2)], pa.date32()), "date32"), (arrow([20200102]), "int64")],
)
def test_date_format_is_refused_for_typed_columns(column, kind):
    with pytest.raises(UsageError, match=f"'c' of 'x.csv' holds {kind}.*Leave the option out"):
        parse_times(column, "%Y%m%d")


def test_date_format_that_fits_no_date_is_refused():
    with pytest.raises(UsageError, match="does not fit any date in the column 'c'"):
        parse_times(cells("2020-01-01"), "%d.%m.%Y")
