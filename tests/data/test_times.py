"""Dates of any kind become the same float64 numbers; numbers stay."""

from datetime import date, datetime, timedelta, timezone

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxkick.data import Dataset
from jaxkick.data.columns import UNITS, TimeScale, read_times

PARIS = timezone(timedelta(hours=1))
YEAR = 1970 + np.array([17890.0, 3652.5]) / 365.25


def aware(values):
    return [datetime.fromisoformat(value).replace(tzinfo=PARIS) for value in values]


@pytest.mark.parametrize(
    "times",
    [
        ["2018-12-25", "1980-01-01T12:00"],
        ["2018-12-25T00:00Z", "1980-01-01T13:00+01:00"],
        ["20181225", "1980-01-01 12:00:00.000"],
        [date(2018, 12, 25), datetime(1980, 1, 1, 12)],
        aware(["2018-12-25T01:00", "1980-01-01T13:00"]),
        [np.datetime64("2018-12-25"), np.datetime64("1980-01-01T12", "ns")],
        np.array(["2018-12-25", "1980-01-01T12"], "datetime64[h]"),
        np.array(["2018-12-25", "1980-01-01T12"], "datetime64[ns]"),
        np.array(["2018-12-25", "1980-01-01T12:00"]),
        pd.Series(pd.to_datetime(["2018-12-25 00:00", "1980-01-01 12:00"])),
        pd.to_datetime(["2018-12-25 00:00", "1980-01-01 12:00"]),
        pd.Series(pd.to_datetime(["2018-12-25 01:00", "1980-01-01 13:00"]).tz_localize(PARIS)),
        pd.to_datetime(["2018-12-25 01:00", "1980-01-01 13:00"]).tz_localize(PARIS),
        pd.Series(["2018-12-25", "1980-01-01T12:00"]),
        pl.Series([datetime(2018, 12, 25), datetime(1980, 1, 1, 12)]),
        pl.Series(aware(["2018-12-25T01:00", "1980-01-01T13:00"])),
        pl.Series(["2018-12-25", "1980-01-01T12:00"]),
        pa.chunked_array([pa.array(aware(["2018-12-25T01:00", "1980-01-01T13:00"]))]),
    ],
)
def test_dates_of_any_kind(times):
    numbers, scale = read_times(times, None, "times")
    assert scale == TimeScale(dates=True, unit="year")
    assert numbers.dtype == np.float64
    assert numbers.tolist() == YEAR.tolist()


@pytest.mark.parametrize("unit", UNITS)
def test_units_count_from_1970(unit):
    numbers, scale = read_times(["1970-01-01", "1972-03-05"], unit, "times")
    days = 794.0
    start = 1970.0 if unit == "year" else 0.0
    assert scale.unit == unit
    assert read_times(["1970-01-01"], f"{unit}s", "times")[1] == scale
    np.testing.assert_allclose(numbers, [start, start + days / UNITS[unit]], rtol=1e-15)
    assert scale.to_user(numbers).astype("datetime64[D]").astype(str).tolist() == [
        "1970-01-01",
        "1972-03-05",
    ]


def test_dates_before_1970():
    numbers, _ = read_times(["1872-11-30", "1969-12-31T18:00"], "day", "times")
    assert numbers.tolist() == [-35460.0, -0.25]


@given(
    milliseconds=st.integers(-(10**13), 10**13),
    unit=st.sampled_from(sorted(UNITS)),
)
def test_dates_come_back_to_the_millisecond(milliseconds, unit):
    moment = np.array([milliseconds]).astype("datetime64[ms]")
    numbers, scale = read_times(moment, unit, "times")
    assert (scale.to_user(numbers) == moment).all()


@pytest.mark.parametrize(
    "times",
    [
        [1, 2.5],
        np.array([1, 2.5]),
        np.array([1, 2.5], object),
        pd.Series([1, 2.5]),
        pl.Series([1.0, 2.5]),
        pa.chunked_array([[1.0, 2.5]]),
    ],
)
def test_numbers_stay(times):
    numbers, scale = read_times(times, "day", "times")
    assert numbers.tolist() == [1.0, 2.5]
    assert scale == TimeScale(dates=False, unit="day")
    assert scale.to_user(numbers).tolist() == [1.0, 2.5]


@pytest.mark.parametrize(
    "times",
    [
        [None, "2018-12-25"],
        [float("nan"), date(2018, 12, 25)],
        ["", "2018-12-25"],
        [pd.NaT, pd.Timestamp("2018-12-25")],
        [pd.NA, "2018-12-25"],
        np.array(["NaT", "2018-12-25"], "datetime64[D]"),
        pd.Series([None, "2018-12-25"]),
        pd.Series(pd.to_datetime([None, "2018-12-25"])),
        pl.Series([None, date(2018, 12, 25)]),
        [None, 3.0],
        pd.Series([None, 3], dtype="Int64"),
        pl.Series([None, 3]),
    ],
)
def test_missing_times_are_nan(times):
    numbers, _ = read_times(times, None, "times")
    assert np.isnan(numbers).tolist() == [True, False]


@pytest.mark.parametrize(
    ("times", "message"),
    [
        (["2018-12-25", "yesterday"], "^Row 1: `times` is 'yesterday', which is not a date"),
        (["2018-12-25", "12/25/2018"], "^Row 1: .* is not a date. .* write dates as '2018-12-25'"),
        (["2018-12-25", "2018"], "^Row 1: `times` is '2018', which"),
        (["2018-12-25", 2018.5], "^Row 1: `times` is 2018.5, which is a number among dates"),
        ([2018.5, date(2018, 1, 1)], "^Row 0: `times` is 2018.5, which is a number among dates"),
        ([b"2018-12-25"], "^Row 0: `times` is b'2018-12-25', which"),
        (np.zeros((2, 2)), r"`times` has the shape \(2, 2\), but must be a vector"),
        ("2018-12-25", "`times` is '2018-12-25', but must hold one value for each observation"),
        (3.0, "`times` is 3.0, but must hold one value for each observation"),
    ],
)
def test_times_that_cannot_be_read(times, message):
    with pytest.raises(ValueError, match=message):
        read_times(times, None, "times")


def test_unknown_unit():
    with pytest.raises(ValueError, match="`unit` is 'fortnight', but must be one of year, month"):
        read_times(["2018-12-25"], "fortnight", "times")
    _, scale = read_times([1.0], "fortnight", "times")
    assert scale.unit == "fortnight"


def test_queries_are_of_the_kind_of_the_data():
    dated = Dataset.from_pairs(["2018-12-25", "1980-01-01T12:00"], list("ab"), list("bc")).index
    assert dated.unit == "year"
    assert dated.to_time("2018-12-25") == dated.to_time(date(2018, 12, 25)) == YEAR[0]
    assert np.ndim(dated.to_time("2018-12-25")) == 0
    assert dated.to_time(["2018-12-25", "1980-01-01T12:00"]).tolist() == YEAR.tolist()
    assert dated.to_time(np.datetime64("2018-12-25")) == YEAR[0]
    assert dated.to_time(pd.Timestamp("2018-12-25 01:00", tz=PARIS)) == YEAR[0]
    with pytest.raises(ValueError, match="holds numbers, but the times of the data are dates"):
        dated.to_time(2018.9)
    with pytest.raises(ValueError, match="Pass a date such as '2018-12-25'"):
        dated.to_time(np.array([2018, 2019]))
    numbered = Dataset.from_pairs([0.0, 1.0], list("ab"), list("bc")).index
    assert numbered.unit is None
    assert numbered.to_time(3) == 3.0
    assert numbered.to_time([3, 4.5]).tolist() == [3.0, 4.5]
    assert numbered.to_time(np.float32(0.5)) == 0.5
    with pytest.raises(ValueError, match="holds dates, but the times of the data are numbers"):
        numbered.to_time("2018-12-25")
