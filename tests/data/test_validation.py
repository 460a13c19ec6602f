"""Invalid input is refused with argument, row and remedy, or dropped and counted."""

import datetime
import pickle
import re
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from jaxkick.data import Dataset
from jaxkick.errors import DataError, DroppedWarning

N = 8
TIMES = np.arange(8.0)
FIRST = list("abcdabcd")
SECOND = list("bcdacdab")
NAN, INF = float("nan"), float("inf")


class Duel:
    """A stand-in for a likelihood: wins and losses."""

    domain = "+1 (first wins) or -1 (second wins)"

    def check(self, outcome):
        """The outcomes that are neither."""
        return ~np.isin(outcome, (1.0, -1.0))


def replaced(values, **cells):
    values = list(values)
    for place, value in cells.items():
        values[int(place.removeprefix("row"))] = value
    return values


def pairs(**changes):
    arguments = {"times": TIMES, "first": FIRST, "second": SECOND, **changes}
    return Dataset.from_pairs(**arguments)


TIME = "`times` is missing or infinite"
NAME = "`second` has a missing name"
LINE_UP = "`first` has a missing name"
COEFFICIENT = "`first` has a coefficient that is missing or infinite"
ITSELF = "the same competitor is on both sides"
OUTCOME = "`outcome` is missing or infinite"

ROWS = [
    ({"times": replaced(TIMES, row2=NAN)}, TIME, "row 2"),
    ({"times": replaced(TIMES, row2=None, row5=INF)}, TIME, "rows 2 and 5"),
    ({"times": np.array(["NaT"] + ["2001-01-01"] * 7, "datetime64[D]")}, TIME, "row 0"),
    ({"second": replaced(SECOND, row3=None)}, NAME, "row 3"),
    ({"second": replaced(SECOND, row3=NAN)}, NAME, "row 3"),
    ({"second": replaced(SECOND, row3="")}, NAME, "row 3"),
    ({"second": pd.Series(replaced(SECOND, row7=None))}, NAME, "row 7"),
    ({"second": pd.Series(replaced(SECOND, row7=None), dtype="category")}, NAME, "row 7"),
    ({"second": pd.Series(replaced(SECOND, row7=None), dtype="string")}, NAME, "row 7"),
    ({"second": pl.Series(replaced(SECOND, row7=None))}, NAME, "row 7"),
    ({"second": pl.Series(replaced(SECOND, row1=""))}, NAME, "row 1"),
    ({"second": pl.Series(replaced(SECOND, row7=None), dtype=pl.Categorical)}, NAME, "row 7"),
    ({"second": pa.chunked_array([replaced(SECOND, row7=None)])}, NAME, "row 7"),
    ({"second": pl.Series([9, 9, 9, 9, 9, 9, 9, None])}, NAME, "row 7"),
    ({"second": pd.Series([9, 9, 9, 9, 9, 9, 9, None], dtype="Int64")}, NAME, "row 7"),
    ({"second": np.array([9, 9, NAN, 9, 9, 9, 9, 9])}, NAME, "row 2"),
    ({"first": replaced(FIRST, row1=["x", None])}, LINE_UP, "row 1"),
    ({"first": replaced(FIRST, row1={"x": 1.0, "": 1.0})}, LINE_UP, "row 1"),
    ({"first": replaced(FIRST, row1={"x": NAN})}, COEFFICIENT, "row 1"),
    ({"first": replaced(FIRST, row1={"x": None})}, COEFFICIENT, "row 1"),
    ({"first": replaced(FIRST, row4="c")}, ITSELF, "row 4"),
    ({"first": replaced(FIRST, row4=["x", "c"])}, ITSELF, "row 4"),
    ({"first": replaced(FIRST, row4={"x": 1.0, "c": 2.0})}, ITSELF, "row 4"),
    ({"outcome": replaced([1.0] * N, row6=NAN)}, OUTCOME, "row 6"),
    ({"outcome": replaced([True] * N, row6=None)}, OUTCOME, "row 6"),
    ({"outcome": pd.Series(replaced([1] * N, row6=None), dtype="Int64")}, OUTCOME, "row 6"),
    (
        {"outcome": replaced([1] * N, row6=0, row7=0.5), "likelihood": Duel()},
        "outcome 0 is not valid for Duel, which needs +1 (first wins) or -1 (second wins)",
        "rows 6 and 7",
    ),
    (
        {"weight": replaced([1.0] * N, row1=-2.0)},
        "`weight` is -2, but must not be negative",
        "row 1",
    ),
    ({"weight": replaced([1.0] * N, row1=INF)}, "`weight` is missing or infinite", "row 1"),
    (
        {"covariates": {"home": [1, 1, 1, NAN, 0, 0, 0, 1]}},
        "`covariates['home']` has a coefficient that is missing or infinite",
        "row 3",
    ),
]


@pytest.mark.parametrize(("changes", "problem", "rows"), ROWS)
def test_bad_rows_are_refused(changes, problem, rows):
    numbers = [int(number) for number in re.findall(r"\d+", rows)]
    many = f" ({len(numbers)} rows affected)" if len(numbers) > 1 else ""
    message = re.escape(f"Row {numbers[0]}: {problem}{many}. ") + ".*, or pass `on_invalid='drop'`"
    with pytest.raises(DataError, match=message) as caught:
        pairs(**changes)
    assert (caught.value.row, caught.value.count) == (numbers[0], len(numbers))
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


@pytest.mark.parametrize(("changes", "problem", "rows"), ROWS)
def test_bad_rows_can_be_dropped(changes, problem, rows):
    count = 2 if " and " in rows else 1
    report = f"Dropped {count} of 8 rows: {count} because {problem} ({rows})."
    arguments = {"times": TIMES, "first": FIRST, "second": SECOND, **changes}
    with pytest.warns(UserWarning, match=re.escape(report)) as caught:
        data = Dataset.from_pairs(**arguments, on_invalid="drop")
    assert [warning.filename for warning in caught] == [__file__]
    assert len(data) == len(data.observations.outcome) == N - count
    bad = [int(number) for number in re.findall(r"\d+", rows)]
    assert data.index.rows.tolist() == [row for row in range(N) if row not in bad]


def test_refused_outcomes_are_shown_with_the_domain():
    message = r"^Row 6: outcome 0 is not valid for Duel, which needs \+1 \(first wins\) or -1 \(sec"
    with pytest.raises(DataError, match=message):
        pairs(outcome=replaced([1] * N, row6=0), likelihood=Duel())
    with pytest.raises(DataError, match=r"^Row 1: `weight` is -2, but must not be negative"):
        pairs(weight=replaced([1.0] * N, row1=-2.0))


def test_warnings_of_every_constructor_point_at_the_caller():
    outcome = replaced([1.0] * N, row6=NAN)
    features = [[0, 1]] * N
    makers = [
        lambda: Dataset.from_arrays(TIMES, features, features, outcome, on_invalid="drop"),
        lambda: Dataset.from_mappings(TIMES, FIRST, outcome, on_invalid="drop"),
        lambda: Dataset.from_frame(
            {"t": TIMES, "a": FIRST, "b": SECOND, "y": outcome},
            time="t",
            first="a",
            second="b",
            outcome="y",
            on_invalid="drop",
        ),
    ]
    for make in makers:
        with pytest.warns(UserWarning, match="Dropped 1 of 8 rows") as caught:
            make()
        assert [warning.filename for warning in caught] == [__file__]


def test_dropping_equals_leaving_out():
    times = replaced(TIMES, row2=None)
    first = replaced(FIRST, row5="d", row7="only here")
    outcome = replaced([1.0] * N, row0=NAN, row7=NAN)
    message = (
        r"Dropped 4 of 8 rows: 1 because `times` is missing or infinite \(row 2\); "
        r"1 because the same competitor is on both sides \(row 5\); "
        r"2 because `outcome` is missing or infinite \(rows 0 and 7\)\."
    )
    with pytest.warns(UserWarning, match=message):
        data = Dataset.from_pairs(times, first, SECOND, outcome, on_invalid="drop")
    kept = [1, 3, 4, 6]
    plain = Dataset.from_pairs(
        [TIMES[n] for n in kept], [FIRST[n] for n in kept], [SECOND[n] for n in kept]
    )
    assert data.index.rows.tolist() == kept
    assert data.names == plain.names
    np.testing.assert_array_equal(data.slots, plain.slots)
    np.testing.assert_array_equal(data.chains[0].gap, plain.chains[0].gap)


def test_dropping_narrows_the_slots():
    observations = [{"a": 1.0, "b": 1.0, "c": NAN}, {"a": 1.0}]
    with pytest.warns(UserWarning, match="Dropped 1 of 2 rows"):
        data = Dataset.from_mappings([0.0, 1.0], observations, [1, 1], on_invalid="drop")
    assert data.observations.features.shape == data.slots.shape == (1, 1)
    assert data.names == ("a",)


def test_a_row_with_two_faults_counts_once():
    with pytest.warns(UserWarning, match=r"Dropped 1 of 8 rows: 1 because `times`[^;]*$"):
        pairs(
            times=replaced(TIMES, row2=None),
            first=replaced(FIRST, row2=None),
            on_invalid="drop",
        )


def test_clean_rows_are_dropped_without_a_word():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        data = pairs(on_invalid="drop")
    assert data.index.rows is None


def test_nothing_left():
    with pytest.raises(DataError, match="No observation is left after dropping 8 of 8 rows: 8 be"):
        pairs(outcome=[NAN] * N, on_invalid="drop")


def test_many_bad_rows_are_counted():
    outcome = np.where(np.arange(1000) % 2 == 0, NAN, 1.0)
    with pytest.raises(DataError, match=r"^Row 0: .* \(500 rows affected\). Give"):
        Dataset.from_pairs(np.arange(1000), ["a"] * 1000, ["b"] * 1000, outcome)


@pytest.mark.parametrize(
    "observation", [{}, [], {"a": 0.0}, {"a": 0, "b": 0.0}], ids=["none", "list", "zero", "zeros"]
)
def test_observation_without_features(observation):
    message = "^Row 1: no feature has a coefficient other than zero. Name at least one feature"
    with pytest.raises(DataError, match=message):
        Dataset.from_mappings([0.0, 1.0], [{"a": 1.0}, observation], [1, 1])


@pytest.mark.parametrize("times", [[], np.array([]), pd.Series([], dtype=float)])
def test_empty_table(times):
    with pytest.raises(DataError, match="The table is empty"):
        Dataset.from_pairs(times, [], [])
    with pytest.raises(DataError, match="The table is empty"):
        Dataset.from_frame({"t": times, "a": [], "b": []}, time="t", first="a", second="b")


FRAME = pd.DataFrame({"date": TIMES, "winner": FIRST, "loser": SECOND, "Score": TIMES})
FRAME["kind"] = "x"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"time": "data"}, r"`time` \(column 'data'\) is not in the table. .* 'date'"),
        ({"first": "winners"}, r"`first` \(column 'winners'\) .* mean 'winner'"),
        ({"outcome": "score"}, r"`outcome` \(column 'score'\) .* mean 'Score'"),
        (
            {"weight": "zzz"},
            "`weight` .* not in the table. Its columns are date, winner, loser, Score, kind",
        ),
        ({"covariates": {"x": "los"}}, r"`covariates\['x'\]` \(column 'los'\) .* 'loser'"),
        ({"first": None}, "`first` is None, but must be the name of a column"),
        ({"first": 3}, "`first` is 3, but must be the name of a column"),
        ({"time": None}, "`time` is None, but must be the name of a column"),
        ({"time": "winner"}, r"^Row 0: `time` \(column 'winner'\) is 'a', which is not a date"),
        ({"outcome": "kind"}, r"^Row 0: `outcome` \(column 'kind'\) is 'x', which is not an out"),
        ({"second": "winner"}, r"^Row 0: the same competitor is on both sides \(8 rows affected\)"),
    ],
)
def test_columns(changes, message):
    arguments = {"time": "date", "first": "winner", "second": "loser", **changes}
    with pytest.raises(DataError, match=message):
        Dataset.from_frame(FRAME, **arguments)


def test_errors_name_column_and_argument():
    frame = FRAME.assign(date=replaced(TIMES, row4=None))
    with pytest.raises(DataError, match=r"^Row 4: `time` \(column 'date'\) is missing or"):
        Dataset.from_frame(frame, time="date", first="winner", second="loser")


@pytest.mark.parametrize("frame", [pl.LazyFrame({"t": [1]}), [1, 2], np.ones(3)])
def test_tables_of_unknown_kind(frame):
    with pytest.raises(DataError, match=r"`frame` is a .* but must be a pandas, polars"):
        Dataset.from_frame(frame, time="t", first="a", second="b")


@pytest.mark.parametrize("argument", ["first", "second", "outcome", "weight"])
def test_lengths(argument):
    with pytest.raises(DataError, match=f"`{argument}` has 3 values for 8 observations. Pass"):
        pairs(**{argument: [1, 2, 3]})
    table = {"t": TIMES, "a": FIRST, "b": SECOND, "h": ["a", "c"]}
    with pytest.raises(DataError, match=r"`home` \(column 'h'\) has 2 values for 8 observations"):
        Dataset.from_frame(table, time="t", first="a", second="b", outcome=1.0, home="h")
    with pytest.raises(DataError, match=r"`covariates\['h'\]` has 2 values for 8 observations"):
        pairs(covariates={"h": [1, 2]})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"first": "abc"}, "`first` is 'abc', but must hold one value for each observation"),
        ({"outcome": ["1"] * N}, "^Row 0: `outcome` is '1', .* Convert the values to numbers"),
        ({"outcome": np.array(["x"] * N)}, "^Row 0: `outcome` is 'x', which is not an outcome"),
        ({"outcome": pl.Series(["x"] * N)}, "^Row 0: `outcome` is 'x', which is not an outcome"),
        ({"outcome": np.ones((N, 2))}, "^Row 0: `outcome` is .*, but must be a number"),
        ({"weight": [datetime.date(2001, 1, 1)] * N}, "^Row 0: `weight` is datetime.date"),
        (
            {"first": replaced(FIRST, row5={"x": "1"})},
            "^Row 5: `first` has the coefficient '1' for 'x'. Coeff",
        ),
        ({"first": replaced(FIRST, row5=[{"x": 1}])}, "`first` holds {'x': 1}, which cannot be a"),
        ({"covariates": {"a": 1.0}}, "`covariates` has the name 'a', which is also the name of a"),
        ({"covariates": {"": 1.0}}, "`covariates` has a missing name"),
        ({"groups": {"a": 3}}, "`groups` gives 3 for the feature 'a'. Group names are strings"),
        ({"groups": lambda name: None}, "`groups` gives None for the feature 'a'"),
        ({"groups": ["a"]}, "`groups` is a list, but must be a mapping .* or None"),
        ({"on_invalid": "ignore"}, "`on_invalid` is 'ignore', but must be 'raise' or 'drop'"),
        ({"likelihood": Duel}, r"`likelihood` is the class Duel. Pass an object"),
        ({"covariates": ["x"]}, r"`covariates` is \['x'\], but must be a mapping"),
        ({"first": replaced(FIRST, row0="a ")}, "The names 'a' and 'a ' look alike. Strip"),
        ({"first": replaced(FIRST, row0="\u00e9", row1="e\u0301")}, "look alike. .* normalise"),
        ({"row_length": 0}, "`row_length` is 0, but must be a positive integer"),
    ],
)
def test_arguments(changes, message):
    with pytest.raises(DataError, match=message):
        pairs(**changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"features": [[0, 1]]},
            r"`features` has the shape \(1, 2\) .* each of the 2 observations",
        ),
        ({"features": [0, 1]}, "`features` has the shape"),
        ({"features": [[0.0, 1.0], [1.0, 2.0]]}, "type float64, but must be an array of integers"),
        ({"features": [[0, 1], [1, -2]]}, "^Row 1: `features` is not between -1 and .* Number"),
        (
            {"features": [[0, 1], [1, 3]], "names": "abc"},
            "^Row 1: `features` is not between -1 and 2. Number",
        ),
        ({"features": [[0, 1], [1, 2**40]]}, "^Row 1: `features` is not between -1 and 2147483646"),
        ({"features": [[0, 1], [1, 10**9]]}, "counts up to 1,000,000,000 with 4 slots. Number"),
        ({"features": [[-1, -1], [1, 0]]}, "^Row 0: no feature has"),
        (
            {"coefficients": [[1.0], [1.0]]},
            r"`coefficients` has the shape \(2, 1\), but `features`",
        ),
        ({"coefficients": [[1, 1], [NAN, 1]]}, "^Row 1: `coefficients` has a coefficient"),
        ({"names": ["a", None, "c"]}, "`names` is missing for feature 1. Name every feature"),
        ({"names": ["a", "b", "a"]}, "`names` has 'a' twice. Give every feature its own name"),
        ({"outcome": [1.0]}, "`outcome` has 1 values for 2 observations"),
        ({"times": [0.0, INF]}, "^Row 1: `times` is missing or infinite"),
    ],
)
def test_arrays(changes, message):
    arguments = {
        "times": [0.0, 1.0],
        "features": [[0, 1], [1, 2]],
        "coefficients": [[1.0, -1.0], [1.0, -1.0]],
        "outcome": [1.0, 1.0],
        **changes,
    }
    with pytest.raises(DataError, match=message):
        Dataset.from_arrays(**arguments)


def test_warning_about_dropped_rows_survives_pickling():
    table = {"t": [0.0, np.nan], "a": ["x", "x"], "b": ["y", "y"]}
    with pytest.warns(DroppedWarning, match=r"Dropped 1 of 2 rows: .*\(row 1\)") as caught:
        Dataset.from_frame(table, time="t", first="a", second="b", on_invalid="drop")
    copy = pickle.loads(pickle.dumps(caught[0].message))
    assert str(copy) == str(caught[0].message)
    assert copy.described(name=str.upper, places=lambda rows: "here").endswith("(here)")
