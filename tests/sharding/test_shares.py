"""Shares of the rows, sent and joined, are the data set of all rows, bit by bit."""

from datetime import date

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import jaxkick as jk
from jaxkick.dataset.exchange import pack, unpack
from jaxkick.dataset.shares import KINDS, join_shares, share_of
from tests.sharding.league import league

NAMES = ["b", "a", "\udc80", "Ł", "level", "x attack", 7, -(10**30), 2.5, True, ("pair", 1, None)]


def one_mesh() -> jax.sharding.Mesh:
    return jax.sharding.Mesh(np.array(jax.devices()[:1]), ("rows",))


def sent(shares):
    """The shares as the other processes get them."""
    mesh = one_mesh()
    return [unpack(pack(share_of(data, mesh), KINDS), KINDS) for data in shares]


def joined(shares) -> jk.Dataset:
    return jk.Dataset.from_assembled(*join_shares(sent(shares)))


def assert_same(found: jk.Dataset, expected: jk.Dataset) -> None:
    assert found.index == expected.index
    assert list(map(repr, found.names)) == list(map(repr, expected.names))
    assert found.index.row_length == expected.index.row_length
    ours, theirs = jax.tree.leaves(found), jax.tree.leaves(expected)
    for one, other in zip(ours, theirs, strict=True):
        assert one.dtype == other.dtype
        assert one.sharding == other.sharding
        assert np.asarray(one).tobytes() == np.asarray(other).tobytes()
    assert jax.tree.structure(found) == jax.tree.structure(expected)


def pairs(rows, weight=True, **options) -> jk.Dataset:
    """Some rows of a table with ties in time, in no order, and teams that few rows have."""
    rng = np.random.default_rng(1)
    first = rng.integers(0, len(NAMES), 40)
    second = (first + rng.integers(1, len(NAMES), 40)) % len(NAMES)
    times, home = rng.integers(0, 9, 40) / 7.0, rng.choice([0.0, 1.0], 40)
    weights = np.where(np.arange(40) < 20, 1.0, rng.uniform(0.5, 2.0, 40))
    return jk.Dataset.from_pairs(
        times[rows],
        [{NAMES[k]: 1.0} for k in first[rows]],
        [{NAMES[k]: 1.0} for k in second[rows]],
        rng.choice([-1.0, 1.0], 40)[rows],
        weight=weights[rows] if weight else None,
        covariates={"home": home[rows]},
        **options,
    )


@settings(max_examples=25, deadline=None)
@given(st.permutations(range(40)), st.lists(st.integers(0, 40), min_size=1, max_size=4))
def test_any_cut_of_any_rows(rows, cuts):
    parts = np.split(np.array(rows), sorted(cuts))
    options = {"groups": {"home": "advantage"}, "row_length": 7}
    shares = [pairs(part, **options) if len(part) else None for part in parts]
    assert_same(joined(shares), pairs(rows, **options))


def test_times_keep_all_digits_in_32_bits():
    with jax.enable_x64(False):
        found = joined([pairs(range(10)), pairs(range(10, 40))])
        assert_same(found, pairs(range(40)))
        assert found.outcome.dtype == np.float32
    assert (found.index.times != found.index.times.astype(np.float32)).any()


def test_a_share_without_weights_weighs_one():
    shares = [pairs(range(20), weight=False), pairs(range(20, 40))]
    assert_same(joined(shares), pairs(range(40)))


def counts(rows) -> jk.Dataset:
    columns = {
        "date": np.array(["2020-01-03", "2020-01-01", "2019-05-05", "2020-01-01"], "M8[D]"),
        "home": np.array(["a", "c", "b", "a"]),
        "away": np.array(["b", "a", "a", "d"]),
        "goals": np.array([1, 0, 4, 2]),
        "against": np.array([1, 3, 0, 2]),
    }
    return jk.Dataset.from_frame(
        {name: column[rows] for name, column in columns.items()},
        time="date",
        first="home",
        second="away",
        counts=("goals", "against"),
        home=True,
        unit="day",
    )


def test_tables_of_counts():
    shares = [counts([0]), counts([1, 2]), counts([3])]
    found, expected = joined(shares), counts([0, 1, 2, 3])
    assert_same(found, expected)
    assert found.index.recipe == expected.index.recipe
    assert found.index.to_time("2020-01-03") == found.index.times[0]


def test_numbered_features_keep_the_order_of_their_names():
    def arrays(rows):
        features = np.array([[2, 0, -1], [1, -1, -1], [0, 1, 2]])[rows]
        coefficients = np.array([[1.0, -1.0, 0.0], [0.5, 0.0, 0.0], [1.0, 2.0, 3.0]])[rows]
        times, names = np.array([3.0, 1.0, 2.0])[rows], ["z", "y", "x", "never"]
        return jk.Dataset.from_arrays(times, features, coefficients, 1.0, names=names)

    assert_same(joined([arrays([0, 1]), arrays([2])]), arrays([0, 1, 2]))
    assert arrays([0, 1]).slots.shape != arrays([2]).slots.shape


def test_mappings_of_groups_that_add_to_each_other():
    shares = [
        jk.Dataset.from_pairs([0.0], ["a"], ["b"], groups={"a": "left"}),
        jk.Dataset.from_pairs([1.0], ["c"], ["b"], groups={"c": "right"}),
    ]
    whole = jk.Dataset.from_pairs(
        [0.0, 1.0], ["a", "c"], ["b", "b"], groups={"a": "left", "c": "right"}
    )
    assert_same(joined(shares), whole)


def pair(time=0.0, first="a", **options) -> jk.Dataset:
    return jk.Dataset.from_pairs([time], [first], ["b"], **options)


MISFITS = {
    "dates": (pair("2020-01-01"), "process 1 has times as dates in years, but process 0 has times"),
    "unit": (pair(unit="day"), "numbers in days, but process 0 has times as numbers in no unit"),
    "dtype": (pair(dtype="float32"), "process 1 has float32, but process 0 has float64"),
    "row length": (pair(row_length=5), "`row_length=5`, but process 0 has `row_length=None`"),
    "function": (pair(groups=str), "process 1 has a function as `groups`, but process 0 has no"),
    "group": (pair(groups={"b": "x"}), "'default' for the feature 'b' in process 0, but 'x' in"),
}


@pytest.mark.parametrize(("misfit", "text"), MISFITS.values(), ids=MISFITS)
def test_shares_that_do_not_fit(misfit, text):
    with pytest.raises(ValueError, match=text):
        joined([pair(), misfit])


def test_no_rows_anywhere():
    with pytest.raises(ValueError, match="no process has any rows"):
        joined([None, None])


def test_names_that_cannot_be_sent():
    data = pair(first=date(2020, 1, 1))
    with pytest.raises(TypeError, match="sent to other processes: an object of type `date`"):
        sent([data])


def test_one_process_shards():
    mesh = jax.sharding.Mesh(np.array(jax.devices()), ("rows",))
    assert_same(jk.Dataset.from_shares(lambda: league(12), mesh), league(12).shard(mesh))
    by_function = jk.Dataset.from_shares(lambda: pair(groups=lambda name: f"of {name}"), mesh)
    assert by_function.index.groups == ("of a", "of b")
    assert by_function.index.group_of("new") == "of new"


@pytest.mark.parametrize(
    ("read", "error", "text"),
    [
        (lambda: {"time": [0.0]}, TypeError, "`read` returned an object of type dict"),
        (lambda: pair().shard(one_mesh()), ValueError, "already shared out"),
    ],
)
def test_what_read_returns_is_checked(read, error, text):
    with pytest.raises(error, match=text):
        jk.Dataset.from_shares(read, one_mesh())
    with pytest.raises(TypeError, match="`mesh` must be"):
        jk.Dataset.from_shares(read, 2)
