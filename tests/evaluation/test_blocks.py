"""Blocks of days, of weeks and by the user's labels."""

import datetime

import numpy as np
import pytest

import jaxkick as jk
from jaxkick import evaluation as ev
from jaxkick.evaluation.backtest import make_blocks

RNG = np.random.default_rng(1)
DATES = np.datetime64("2020-12-01T00:30") + np.sort(RNG.integers(0, 60 * 24, 80)).astype(
    "timedelta64[h]"
)
SHUFFLE = RNG.permutation(80)


def make_data(times, **options):
    names = np.array(["a", "b"])
    return jk.Dataset.from_pairs(times, names[np.zeros(len(times), int)], ["b"] * len(times), 1.0)


DATA = make_data(DATES[SHUFFLE])


def test_days_and_weeks_of_the_calendar():
    days = [stamp.astype(object).date() for stamp in DATES[SHUFFLE].astype("datetime64[s]")]
    labels_by_period = {
        "day": days,
        "week": [day.isocalendar()[:2] for day in days],
        "month": [(day.year, day.month) for day in days],
        "year": [day.year for day in days],
    }
    for every, labels in labels_by_period.items():
        order = {label: place for place, label in enumerate(sorted(set(labels)))}
        blocks = make_blocks(DATA, DATES[0], every)
        np.testing.assert_array_equal(blocks.number, [order[label] for label in labels])


def test_years_of_numbers_with_a_unit():
    times = np.array([1999.5, 2001.0, 2000.999, 1999.0])
    data = jk.Dataset.from_pairs(times, ["a"] * 4, ["b"] * 4, 1.0, unit="year")
    np.testing.assert_array_equal(make_blocks(data, 1999.0, "year").number, [0, 2, 1, 0])


def test_tested_blocks_and_rows():
    start, stop = datetime.datetime(2020, 12, 20, 12), "2021-01-10"
    blocks = make_blocks(DATA, start, "day", stop)
    times = DATES[SHUFFLE][blocks.rows]
    assert (np.diff(times) >= np.timedelta64(0)).all()
    inside = (np.datetime64(start) <= DATES) & (np.datetime64(stop) > DATES)
    np.testing.assert_array_equal(times, DATES[inside])
    np.testing.assert_array_equal(blocks.tested, np.unique(blocks.number[blocks.rows]))


def test_user_labels_of_numbers():
    times = np.array([0.5, 3.2, 0.1, 2.7, 1.5])
    blocks = make_blocks(make_data(times), 1.0, np.floor)
    np.testing.assert_array_equal(blocks.number, [0, 3, 0, 2, 1])
    np.testing.assert_array_equal(blocks.rows, [4, 3, 1])


def test_split_time():
    start = ev.split_time(DATA, 0.7)
    assert start == DATES[56]
    assert len(make_blocks(DATA, start, "day").rows) == 24


@pytest.mark.parametrize(
    ("every", "times", "message"),
    [
        ("hour", DATES, "`every` is 'hour', but must be 'day', 'week', 'month', 'year' or a"),
        ("day", np.arange(5.0), "numbers without a unit"),
        (lambda t: t.astype("datetime64[h]").astype(int) % 2, DATES, "overlap in time"),
        (lambda t: np.arange(len(t)), np.repeat(DATES[:3], 2), "overlap in time"),
        (lambda t: np.where(t < t[9], 0, np.nan), np.arange(80.0), "no label for the time 9.0"),
        (lambda t: t[:2], DATES, "one label for each of the 80 times"),
    ],
)
def test_errors(every, times, message):
    with pytest.raises(ValueError, match=message):
        make_blocks(make_data(times), times[0], every)


@pytest.mark.parametrize("argument", ["start", "stop"])
def test_start_and_stop_are_single_times(argument):
    with pytest.raises(ValueError, match=f"`{argument}` has 2 times, but must be a single time"):
        make_blocks(DATA, **{"start": DATES[0], argument: DATES[:2], "every": "day"})


def test_nothing_to_predict():
    with pytest.raises(ValueError, match="No match is at or after `start`"):
        make_blocks(DATA, "2022-01-01", "day")
