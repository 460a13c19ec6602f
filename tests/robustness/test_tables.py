"""Tables as they come: what cannot be read is refused with its row, and the rest is read right."""

import datetime
import io

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest

import jaxkick as jk

DAYS = ["2001-01-01", "2001-02-01", "2001-03-01", "2001-04-01"]
TABLE = {"t": DAYS, "a": list("abca"), "b": list("bcab"), "y": [1, -1, 1, 1], "w": [1.0, 1, 2, 1]}


def read(frame, **options):
    columns = {"time": "t", "first": "a", "second": "b", "outcome": "y", "weight": "w"}
    return jk.Dataset.from_frame(frame, **{**columns, **options})


def parquet(table):
    """The table after a way through a file."""
    file = io.BytesIO()
    pyarrow.parquet.write_table(pa.table(table), file)
    return pyarrow.parquet.read_table(io.BytesIO(file.getvalue()))


def pandas(**columns):
    return pd.DataFrame({**TABLE, **columns})


def polars(**columns):
    return pl.DataFrame({**TABLE, **columns})


def arrow(**columns):
    return parquet({**TABLE, **columns})


def mapping(**columns):
    return {**TABLE, **columns}


GAP = ["a", None, "c", "a"]
DATES = [datetime.date.fromisoformat(day) for day in DAYS]
TIME = r"`time` \(column 't'\) is missing or infinite"
NAME = r"`first` \(column 'a'\) has a missing name"
OUTCOME = r"`outcome` \(column 'y'\) is missing or infinite"
FOUR = r" \(4 rows affected\)"

REFUSED = {
    "pandas NaT": (pandas(t=pd.to_datetime(pd.Series([None, *DAYS[1:]]))), f"^Row 0: {TIME}"),
    "pandas None": (pandas(a=GAP), f"^Row 1: {NAME}"),
    "pandas category": (pandas(a=pd.Categorical(GAP)), f"^Row 1: {NAME}"),
    "pandas string": (pandas(a=pd.array(GAP, "string")), f"^Row 1: {NAME}"),
    "pandas arrow": (
        pandas(a=GAP).convert_dtypes(dtype_backend="pyarrow"),
        f"^Row 1: {NAME}",
    ),
    "pandas objects": (pandas(y=[1, "-1", 1, 1]), "^Row 1: .* is '-1', but must be a number"),
    "pandas empty times": (pandas(t=[None] * 4), f"^Row 0: {TIME}{FOUR}"),
    "pandas empty names": (pandas(a=[None] * 4), f"^Row 0: {NAME}{FOUR}"),
    "pandas empty outcomes": (pandas(y=[np.nan] * 4), f"^Row 0: {OUTCOME}{FOUR}"),
    "pandas no rows": (pandas().iloc[:0], "The table is empty"),
    "pandas columns twice": (
        pandas().set_axis(["t", "a", "b", "y", "a"], axis=1),
        "`frame` has several columns with the same name .*'a' 2 times.*. Rename them",
    ),
    "pandas mixed dates": (
        pandas(t=["2001-01-01", "02/01/2001", *DAYS[2:]]),
        "^Row 1: .* is '02/01/2001', which is not a date",
    ),
    "pandas dates and numbers": (
        pandas(t=["2001-01-01", 2001.5, *DAYS[2:]]),
        "^Row 1: .* is 2001.5, which is a number among dates",
    ),
    "pandas booleans as times": (
        pandas(t=[True, False, True, True]),
        "^Row 0: .* is True, which is",
    ),
    "pandas durations": (
        pandas(t=pd.to_timedelta([1, 2, 3, 4], "D")),
        "^Row 0: .* is not a date",
    ),
    "polars null": (polars(a=GAP), f"^Row 1: {NAME}"),
    "polars null times": (polars(t=[*DATES[:3], None]), f"^Row 3: {TIME}"),
    "polars null outcomes": (
        polars(y=[1, None, 1, None]),
        rf"^Row 1: {OUTCOME} \(2 rows",
    ),
    "polars nothing": (polars(y=[None] * 4), f"^Row 0: {OUTCOME}{FOUR}"),
    "polars lazy": (polars().lazy(), "Collect a lazy table first"),
    "arrow null": (arrow(a=GAP), f"^Row 1: {NAME}"),
    "arrow null outcomes": (arrow(y=[1, None, 1, 1]), f"^Row 1: {OUTCOME}"),
    "arrow dictionary": (arrow(a=pa.array(GAP).dictionary_encode()), f"^Row 1: {NAME}"),
    "arrow null type": (arrow(t=pa.nulls(4)), f"^Row 0: {TIME}{FOUR}"),
    "arrow columns twice": (
        pa.table(list(map(pa.array, TABLE.values())), names=["t", "a", "b", "y", "a"]),
        "`frame` has several columns with the same name",
    ),
    "masked outcomes": (
        mapping(y=np.ma.array([1, -1, 1, 1], mask=[0, 0, 1, 0])),
        f"^Row 2: {OUTCOME}",
    ),
    "masked times": (
        mapping(t=np.ma.array([1.0, 2, 3, 4], mask=[0, 1, 0, 0])),
        f"^Row 1: {TIME}",
    ),
    "a set": (
        mapping(y={1, 2, 3, 4}),
        r"\(column 'y'\) is {1, 2, 3, 4}, but must hold one value for",
    ),
    "huge integers": (mapping(y=[1, 10**400, 1, 1]), "^Row 1: `outcome` .* is an integer of"),
    "huge times": (mapping(t=[1, 2, 10**400, 1]), "^Row 2: `time` .* is an integer of"),
    "lengths": (mapping(y=[1, 2]), r"`outcome` \(column 'y'\) has 2 values for 4 observations"),
    "a text": (
        mapping(a="abca"),
        r"`first` \(column 'a'\) is 'abca', but must hold one value",
    ),
    "no table": ("matches.csv", "`frame` is a str, but must be a pandas"),
}


@pytest.mark.parametrize(("frame", "message"), REFUSED.values(), ids=REFUSED)
def test_refused_with_the_row(frame, message):
    with pytest.raises(ValueError, match=message):
        read(frame)


READ = {
    "pandas": pandas(),
    "pandas index twice": pandas().set_axis([7, 7, 7, 7]),
    "pandas category": pandas(a=pd.Categorical(list("abca"), list("xcba")), t=pd.Categorical(DAYS)),
    "pandas objects": pandas(t=[DATES[0], DAYS[1], pd.Timestamp(DAYS[2]), np.datetime64(DAYS[3])]),
    "pandas arrow": pandas().convert_dtypes(dtype_backend="pyarrow"),
    "pandas sparse": pandas(y=pd.arrays.SparseArray(TABLE["y"])),
    "polars": polars(t=DATES),
    "polars enum": polars().with_columns(pl.col("a").cast(pl.Enum(["c", "b", "a"]))),
    "arrow": arrow(t=pa.array(DATES)),
    "arrow dictionary": arrow(a=pa.array(list("abca"), pa.large_string()).dictionary_encode()),
    "mapping": mapping(y=np.ma.array(TABLE["y"])),
}


@pytest.mark.parametrize("frame", READ.values(), ids=READ)
def test_read_alike(frame):
    data, plain = read(frame), read(TABLE)
    assert data.names == plain.names == ("a", "b", "c")
    np.testing.assert_array_equal(data.index.times, plain.index.times)
    for part in ("outcome", "weight", "coefficients", "slots"):
        np.testing.assert_array_equal(getattr(data, part), getattr(plain, part))


def test_rows_that_are_there_twice_are_two_matches():
    assert len(read(pd.concat([pandas(), pandas()]))) == 8


def test_a_feature_beyond_the_names_is_dropped_with_its_row():
    features = np.array([[0, 1], [1, 7], [1, 0], [-9, 1]])
    arguments = [0.0, 1.0, 2.0, 3.0], features, np.array([[1.0, -1.0]] * 4), [1.0] * 4
    with pytest.warns(
        UserWarning, match="Dropped 2 of 4 rows: .* not between -1 and 1 .rows 1 and 3"
    ):
        data = jk.Dataset.from_arrays(*arguments, names=["a", "b"], on_invalid="drop")
    np.testing.assert_array_equal(data.index.rows, [0, 2])
    with pytest.raises(ValueError, match=r"^Row 1: `features` is not between -1 and 1 \(2 rows"):
        jk.Dataset.from_arrays(*arguments, names=["a", "b"])
