"""The same content from any kind of table gives the same data set."""

import jax
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from jaxkick.data import Dataset

TIMES = [2001.5, 2000.0, 2001.5, 2003.25, 2002.0]
FIRST = ["ant", "bee", "cat", "ant", "bee"]
SECOND = ["bee", "cat", "ant", "cat", "ant"]
OUTCOME = [1.0, -1.0, 1.0, 1.0, -1.0]
WEIGHT = [1.0, 0.5, 0.0, 2.0, 1.0]
HOME = [1.0, 0.0, 1.0, 1.0, 0.0]
NAMES = ["ant", "bee", "cat", "home"]
GROUPS = {"home": "home"}


def same(one, other):
    """Return whether two data sets agree in every array and in the index."""
    assert jax.tree.structure(one) == jax.tree.structure(other)
    assert one.index == other.index
    for left, right in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        assert left.dtype == right.dtype
        np.testing.assert_array_equal(left, right)
    return True


@pytest.fixture
def expected():
    numbers = {name: number for number, name in enumerate(NAMES)}
    features = [
        [numbers[a], numbers[b], 3 if home else -1]
        for a, b, home in zip(FIRST, SECOND, HOME, strict=True)
    ]
    coefficients = [[1.0, -1.0, home] for home in HOME]
    return Dataset.from_arrays(
        TIMES, features, coefficients, OUTCOME, WEIGHT, names=NAMES, groups=GROUPS
    )


def test_from_mappings(expected):
    observations = [
        {a: 1.0, b: -1.0, "home": home} for a, b, home in zip(FIRST, SECOND, HOME, strict=True)
    ]
    data = Dataset.from_mappings(TIMES, observations, OUTCOME, weight=WEIGHT, groups=GROUPS)
    assert same(data, expected)


def lists(values):
    return [[value] for value in values]


def mappings(values):
    return [{value: 1.0} for value in values]


def mixed(values):
    return [values[0], (values[1],), {values[2]: 1}, np.array([values[3]]), {values[4]}]


@pytest.mark.parametrize(
    "column",
    [
        list,
        tuple,
        iter,
        np.array,
        lambda values: np.array(values, object),
        lambda values: np.array(values, np.dtypes.StringDType()),
        lambda values: np.array(values)[:, None],
        pd.Series,
        pd.Index,
        lambda values: pd.Series(values, dtype="category"),
        lambda values: pd.Series(values, dtype=object),
        pl.Series,
        lambda values: pl.Series(values, dtype=pl.Categorical),
        lambda values: pl.Series(lists(values)),
        lambda values: pa.chunked_array([values[:2], values[2:]]),
        lists,
        mappings,
        mixed,
        lambda values: pd.Series(mixed(values)),
    ],
)
def test_from_pairs(column, expected):
    data = Dataset.from_pairs(
        TIMES,
        column(FIRST),
        column(SECOND),
        OUTCOME,
        weight=WEIGHT,
        covariates={"home": HOME},
        groups=lambda name: "home" if name == "home" else "skill",
    )
    assert data.index.groups == expected.index.groups
    as_mapping = Dataset.from_pairs(
        TIMES, FIRST, SECOND, OUTCOME, weight=WEIGHT, covariates={"home": HOME}, groups=GROUPS
    )
    assert same(as_mapping, expected)
    for left, right in zip(jax.tree.leaves(data), jax.tree.leaves(expected), strict=True):
        np.testing.assert_array_equal(left, right)


TABLE = {"t": TIMES, "w": FIRST, "l": SECOND, "y": OUTCOME, "v": WEIGHT, "h": HOME}


@pytest.mark.parametrize(
    "frame",
    [
        TABLE,
        {name: np.array(column) for name, column in TABLE.items()},
        pd.DataFrame(TABLE),
        pd.DataFrame(TABLE, index=[9, 9, 3, 2, 1]),
        pl.DataFrame(TABLE),
        pa.table(TABLE),
    ],
    ids=["lists", "arrays", "pandas", "pandas-index", "polars", "pyarrow"],
)
def test_from_frame(frame, expected):
    data = Dataset.from_frame(
        frame,
        time="t",
        first="w",
        second="l",
        outcome="y",
        weight="v",
        covariates={"home": "h"},
        groups=GROUPS,
    )
    assert same(data, expected)


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table, dict])
def test_integer_names_and_dates(make):
    dates = np.array(["2001-05-01", "2000-01-01", "2001-05-01"], "datetime64[D]")
    frame = make({"t": dates, "w": np.array([900, 7, 12]), "l": np.array([12, 900, 7])})
    if make is pd.DataFrame:
        frame["t"] = frame["t"].astype("datetime64[s]")
    data = Dataset.from_frame(frame, time="t", first="w", second="l")
    plain = Dataset.from_pairs(dates, [900, 7, 12], [12, 900, 7])
    assert same(data, plain)
    assert data.names == (7, 12, 900)
    assert all(type(name) is int for name in data.names)


@pytest.mark.parametrize(
    "column",
    [
        np.array([2**40, 5, -(2**50)]),
        np.array([2**63 + 1, 2**63, 4], np.uint64),
        np.array([2**63 + 1, 2**63, 2**63 + 2], np.uint64),
        np.array([-128, 0, 127], np.int8),
        np.array([1.0, 2.0, 3.0]),
    ],
)
def test_integers_of_any_size_are_names(column):
    data = Dataset.from_pairs([0.0, 1.0, 2.0], column, np.roll(column, 1))
    assert data.names == tuple(sorted(int(name) for name in column.tolist()))
    by_list = Dataset.from_pairs([0.0, 1.0, 2.0], column.tolist(), np.roll(column, 1).tolist())
    assert same(data, by_list)


def test_names_of_several_types_have_one_order():
    one = Dataset.from_pairs([0.0, 1.0], ["b", 3], [("tuple",), 1.5])
    other = Dataset.from_pairs([1.0, 0.0], [3, "b"], [1.5, ("tuple",)])
    assert one.names == other.names == (1.5, 3, "b", "tuple")
    keyed = Dataset.from_mappings([0.0], [{("a", "b"): 1.0, "a": 1.0, 2: 1.0}], [1.0])
    assert keyed.names == (2, "a", ("a", "b"))
    assert keyed.feature_id(("a", "b")) == 2


def test_line_ups_count_every_name():
    data = Dataset.from_pairs(
        [0.0, 1.0], [["a", "b"], {"a": 0.25, "c": 0.75}], [["c"], ["d", "b"]], [1, -1]
    )
    assert data.observations.coefficients.tolist() == [
        [1.0, 1.0, -1.0, 0.0],
        [0.25, 0.75, -1.0, -1.0],
    ]
    uneven = Dataset.from_pairs([0.0, 1.0], [["a"], ["b", "c"]], [["d"], ["e", "f"]])
    assert uneven.observations.coefficients.tolist() == [
        [1.0, -1.0, 0.0, 0.0],
        [1.0, 1.0, -1.0, -1.0],
    ]
    twice = Dataset.from_pairs([0.0], [["a", "a"]], ["b"])
    assert twice.observations.coefficients.tolist() == [[2.0, -1.0]]


def test_outcome_is_a_win_of_the_first_side_by_default():
    assert Dataset.from_pairs(TIMES, FIRST, SECOND).observations.outcome.tolist() == [1.0] * 5
    assert Dataset.from_pairs(TIMES, FIRST, SECOND, -1).observations.outcome.tolist() == [-1.0] * 5
    assert Dataset.from_pairs(TIMES, FIRST, SECOND).weight is None
    assert (
        Dataset.from_pairs(TIMES, FIRST, SECOND, weight=0.5).observations.weight.tolist()
        == [0.5] * 5
    )


@pytest.mark.parametrize(
    "column",
    [list, np.array, pd.Series, pl.Series, lambda values: np.array(values, object)],
)
def test_booleans_say_whether_the_first_side_won(column):
    data = Dataset.from_pairs(TIMES, FIRST, SECOND, column([True, False, True, True, False]))
    assert data.observations.outcome.tolist() == OUTCOME
    assert (
        Dataset.from_pairs(TIMES, FIRST, SECOND, False).observations.outcome.tolist() == [-1.0] * 5
    )


def test_numbers_stand_for_columns_of_a_table():
    data = Dataset.from_frame(
        TABLE, time=0, first="w", second="l", outcome=-1, weight=2.0, covariates={"bias": 0.5}
    )
    assert data.index.times.tolist() == [0.0] * 5
    assert data.observations.outcome.tolist() == [-1.0] * 5
    assert data.observations.weight.tolist() == [2.0] * 5
    assert data.observations.coefficients[:, 2].tolist() == [0.5] * 5
    assert data.entries("bias").observations.tolist() == [0, 1, 2, 3, 4]


def test_groups():
    options = {"covariates": {"home": HOME}}
    alone = Dataset.from_pairs(TIMES, FIRST, SECOND, **options)
    assert alone.index.groups == ("skill",)
    assert alone.index.group_of("anybody") == "skill"
    several = Dataset.from_pairs(
        TIMES, FIRST, SECOND, groups={"ant": "six legs", "bee": "six legs", "cow": "b"}, **options
    )
    assert several.index.groups == ("six legs", "skill")
    assert [chain.group for chain in several.chains] == ["six legs", "skill"]
    assert several.index.feature_group.tolist() == [0, 0, 1, 1]
    assert several.index.group_of("cow") == "b"
    assert several.index.group_ids(["ant", "home", "unseen", "cow"]).tolist() == [0, 1, 1, -1]


def test_features_without_entries_keep_their_numbers():
    data = Dataset.from_arrays(
        [0.0], [[2, 0]], [[1.0, -1.0]], [1.0], names=list("abcd"), groups={"b": "empty"}
    )
    assert data.names == ("a", "b", "c", "d")
    assert data.index.counts.tolist() == [1, 0, 1, 0]
    assert data.index.groups == ("skill",)
    assert data.index.feature_group.tolist() == [0, -1, 0, 0]
    assert data.entries("b").positions.size == 0
    unnamed = Dataset.from_arrays([0.0], [[2, 0]], [[1.0, -1.0]], [1.0])
    assert unnamed.names == (0, 1, 2)


def test_sizes_and_numbers():
    data = Dataset.from_pairs(TIMES, FIRST, SECOND)
    assert (len(data), data.num_features) == (5, 3)
    assert data.names == ("ant", "bee", "cat")
    assert [data.feature_id(name) for name in ("cat", "unseen")] == [2, -1]
    assert data.index.feature_ids(["bee", "unseen", "ant"]).tolist() == [1, -1, 0]
    assert data.index.num_entries == 10


def test_dtype_follows_jax_unless_given():
    assert Dataset.from_pairs(TIMES, FIRST, SECOND).outcome.dtype == np.float64
    with jax.enable_x64(False):
        assert Dataset.from_pairs(TIMES, FIRST, SECOND).outcome.dtype == np.float32
        with pytest.raises(ValueError, match="`dtype` is float64, but JAX is set to 32 bits"):
            Dataset.from_pairs(TIMES, FIRST, SECOND, dtype="float64")
    with pytest.raises(ValueError, match="`dtype` is int32, but must be float32 or float64"):
        Dataset.from_pairs(TIMES, FIRST, SECOND, dtype=np.int32)


def test_repr_says_what_was_understood():
    dates = ["2001-05-01", "2000-01-01", "2001-05-01", "2003-12-31", "2002-01-01T20:15"]
    data = Dataset.from_pairs(
        dates, FIRST, SECOND, OUTCOME, weight=WEIGHT, covariates={"home": HOME}, groups=GROUPS
    )
    assert repr(data).splitlines() == [
        "Dataset of 5 observations and 4 features",
        "  time     2000-01-01 to 2003-12-31, in years",
        "  group    'home': 1 feature (0 seen once), 3 entries in 1 row of 16 steps "
        "(81.2 % padding)",
        "  group    'skill': 3 features (0 seen once), 10 entries in 1 row of 16 steps "
        "(37.5 % padding)",
        "  outcome  +1 (3), -1 (2)",
        "  weight   2 (1), 1 (2), 0.5 (1), 0 (1)",
    ]
    numbers = Dataset.from_pairs([0.5], ["a"], ["b"])
    assert "1 observation and 2 features" in repr(numbers)
    assert "2 features (2 seen once), 2 entries" in repr(numbers)
    assert "time     0.5 to 0.5\n" in repr(numbers)
    many = Dataset.from_pairs(np.arange(20.0), [0] * 20, [1] * 20, np.arange(20.0))
    assert "outcome  0 to 19, mean 9.5" in repr(many)
    assert "outcome  not known here" in repr(jax.eval_shape(lambda data: data, many))
