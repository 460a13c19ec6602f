"""Length, subsets, concatenation, tables out, feature keys and padded sizes."""

import dataclasses

import jax
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import jaxkick as jk
from jaxkick.data.encoding import padded_size
from tests.data.test_constructors import same

TABLE = {
    "t": np.array(["2001-01-01", "2001-03-01", "2001-02-01T18:30", "2002-01-01"], "datetime64[ms]"),
    "a": ["ant", "bee", "cat", "ant"],
    "b": ["bee", "cat", "ant", "cat"],
    "x": [3.0, 1.0, 0.0, 2.0],
    "y": [1.0, 1.0, 2.0, 0.0],
    "where": [1, -1, 0, 1],
    "neutral": [False, True, False, False],
    "w": [1.0, 0.5, 2.0, 1.0],
    "rain": [0.0, 0.25, 0.0, 1.5],
    "ground": ["Wembley", "Anfield", "Wembley", "Wembley"],
    "surface": ["clay", "grass", "clay", "clay"],
    "first two": [["ann", "bob"], ["cid"], ["ann", "ann"], ["dan"]],
    "p1": ["eve", "eve", None, "fay"],
    "p2": ["fay", None, "eve", None],
    "f1": [0.25, 1.0, 0.0, 1.0],
    "f2": [0.75, 0.0, 1.0, 0.0],
}
COLUMNS = {"time": "t", "first": "a", "second": "b"}
SCHEMAS = {
    "winner": {},
    "outcome": {"outcome": "x", "weight": "w", "covariates": {"rain": "rain", "bias": 0.5}},
    "result": {"result": ("x", "y"), "home": True, "neutral": "neutral"},
    "difference": {"difference": ("x", "y"), "home": "where"},
    "home and neutral": {"outcome": "x", "home": "where", "neutral": "neutral"},
    "counts": {"counts": ("x", "y"), "home": "where", "covariates": {"rain": "rain"}},
    "labels": {"outcome": "x", "covariates": {"stadium": "ground"}, "interactions": "surface"},
    "labels of counts": {"counts": ("x", "y"), "covariates": {"stadium": "ground"}},
    "pairs": {"result": ("x", "y"), "interactions": ["surface", "ground"], "pairs": True},
    "line-ups": {"first": "first two", "second": {"p1": "f1", "p2": "f2"}},
    "a list of columns": {"first": ["p1", "p2"], "second": "b"},
}


@pytest.mark.parametrize("schema", SCHEMAS.values(), ids=SCHEMAS)
@pytest.mark.parametrize("make", [dict, pd.DataFrame, pl.DataFrame, pa.table])
def test_a_table_is_read_back_as_the_same_data(make, schema):
    arguments = COLUMNS | schema
    data = jk.Dataset.from_frame(make(TABLE), **arguments)
    table = data.to_frame()
    assert isinstance(table, make if isinstance(make, type) else pa.Table)
    assert same(jk.Dataset.from_frame(table, **arguments), data)


def test_one_of_two_counts_is_read_back():
    arguments = COLUMNS | {"counts": ("x", "y"), "home": "where"}
    data = jk.Dataset.from_frame(TABLE, **arguments).subset([0, 1, 3, 4])
    with pytest.warns(UserWarning, match="Dropped 2 of 6 observations"):
        again = jk.Dataset.from_frame(data.to_frame(), **arguments, on_invalid="drop")
    for kept in ("features", "coefficients", "outcome"):
        found = [getattr(each.observations, kept) for each in (data, again)]
        np.testing.assert_array_equal(*found)


def test_other_data_has_a_row_for_each_feature():
    data = jk.Dataset.from_mappings([2.0, 1.0], [{"a": 1.0, "b": -0.5}, "c"], [1, -1], weight=2.0)
    table = data.to_frame("pandas")
    assert table["observation"].tolist() == [0, 0, 1]
    assert table["time"].tolist() == [2.0, 2.0, 1.0]
    assert table["feature"].tolist() == ["a", "b", "c"]
    assert table["coefficient"].tolist() == [1.0, -0.5, 1.0]
    assert table["outcome"].tolist() == [1, 1, -1]
    assert table["weight"].tolist() == [2.0] * 3


def league(count, seed=0, **options):
    rng = np.random.default_rng(seed)
    first = rng.integers(0, 5, count)
    second = (first + rng.integers(1, 5, count)) % 5
    return jk.Dataset.from_pairs(
        rng.uniform(0, 9, count), first, second, rng.choice([-1.0, 1.0], count), **options
    )


def test_subsets():
    data = league(30, weight=np.arange(30.0))
    assert len(data) == 30
    late = data.index.times > 4.0
    by_mask, by_number = data.subset(late), data.subset(np.flatnonzero(late))
    assert same(by_mask, by_number)
    assert len(by_mask) == late.sum()
    assert by_mask.names == data.names
    np.testing.assert_array_equal(by_mask.index.rows, np.flatnonzero(late))
    np.testing.assert_array_equal(by_mask.observations.weight, np.arange(30.0)[late])
    assert data.subset(slice(3, 5)).index.rows.tolist() == [3, 4]
    with pytest.raises(jk.DataError, match=r"`chosen` must be a mask of 30 booleans"):
        data.subset([True, False, True])
    with pytest.raises(jk.DataError, match="No observation is chosen"):
        data.subset(np.zeros(30, bool))


def test_parts_joined_again_are_the_whole():
    data = league(30)
    parts = [data.subset(slice(0, 11)), data.subset(slice(11, 13)), data.subset(slice(13, None))]
    whole = jk.concat(parts)
    for field in ("times", "features", "coefficients", "outcome"):
        found = [getattr(each.observations, field) for each in (whole, data)]
        np.testing.assert_array_equal(*found)
    assert jk.concat([data]).names == data.names
    wide = jk.Dataset.from_pairs([0.0], [["x", "y"]], [4], weight=3.0)
    joined = jk.concat([data, wide]).observations
    assert joined.names == (0, 1, 2, 3, 4, "x", "y")
    assert joined.features[-1].tolist() == [5, 6, 4]
    assert joined.weight.tolist() == [1.0] * 30 + [3.0]
    with pytest.raises(jk.DataError, match="Use the same kind of times"):
        jk.concat([data, jk.Dataset.from_pairs(["2001-01-01"], ["a"], ["b"])])
    with pytest.raises(jk.DataError, match="`parts` must be a list of data sets"):
        jk.concat([])


def test_replaced_outcomes_are_kept():
    data = league(30)
    flipped = dataclasses.replace(data, outcome=-data.outcome)
    assert (flipped.observations.outcome == -data.observations.outcome).all()
    assert (flipped.subset([3, 4]).observations.outcome == -data.observations.outcome[3:5]).all()


def test_data_of_similar_size_has_one_shape():
    def shapes(count):
        return jax.tree.map(np.shape, league(count, 1).without_index())

    # The sizes of small data are powers of two.
    assert shapes(33).outcome == shapes(64).outcome != shapes(65).outcome
    data = league(33, 2)
    grown = jk.concat([data, league(5, 3)])
    assert jax.tree.map(np.shape, grown.without_index()) == jax.tree.map(
        np.shape, data.without_index()
    )


def test_shapes_of_growing_data_change_rarely():
    data = league(6_000)
    # Once when the room of the first data is used up, and once for each quarter.
    shapes = [jax.tree.map(np.shape, data.without_index())]
    for month in range(40):
        data = data.extended(league(100, month + 1).observations)
        found = jax.tree.map(np.shape, data.without_index())
        shapes += [found] * (found != shapes[-1])
        assert len(data) <= len(data.outcome) <= 1.25 * 1.5 * len(data)
    assert len(data) == 10_000
    assert len(shapes) <= 4
    # A large addition gets no further room.
    whole = jk.concat([data, league(30_000, 50)])
    assert len(whole.outcome) == padded_size(40_000, 40_000)


@given(st.integers(1, 10**8))
def test_padding_is_small_for_large_data(number):
    size = padded_size(number, number)
    bits = number.bit_length()
    assert number <= size < 2 * number
    if bits > 16:
        assert size <= number * (1 + 2.0 ** -(bits // 3))
    assert padded_size(size, number) == size


def test_padding_changes_nothing():
    kernel = jk.kernels.Constant(1.0) + jk.kernels.Wiener(0.1)
    model = jk.Model(kernel, jk.likelihoods.Probit())
    # The same observations with and without padding.
    exact = jk.infer(model, league(32), tol=1e-9)
    padded = jk.infer(model, jk.concat([league(33), league(33)]).subset(slice(0, 33)), tol=1e-9)
    wide = jk.Dataset.from_observations(league(32).observations, like=padded.data)
    assert len(wide.outcome) == 64
    found = jk.infer(model, wide, tol=1e-9)
    assert found.observations.mean.shape == (32,)
    np.testing.assert_allclose(found.observations, exact.observations, atol=1e-8)
    np.testing.assert_allclose(
        found.log_marginal_likelihood, exact.log_marginal_likelihood, rtol=1e-10
    )


def test_feature_keys_are_not_line_ups():
    attack = jk.Feature("ant", "attack")
    data = jk.Dataset.from_pairs([0.0, 1.0], [attack, "bee"], ["bee", attack])
    assert data.names == ("bee", attack)
    assert data.index.groups == ("attack", "skill")
    assert data.index.group_of(jk.Feature("new", "defence")) == "defence"
    own = jk.Dataset.from_pairs([0.0], [attack], ["bee"], groups={attack: "mine"})
    assert own.index.groups == ("mine", "skill")
    model = jk.Model(jk.kernels.Constant(1.0), jk.likelihoods.Probit())
    posterior = jk.infer(model, data)
    assert posterior.linear_combination(attack, 2.0).mean.shape == ()
    assert posterior.predict(attack, "bee", 2.0).mean.shape == ()


def test_integers_stay_integers_under_counts():
    table = {"t": [0.0, 1.0], "a": [7, 8], "b": [8, 9], "x": [1, 2], "y": [0, 2], "z": [1.0, 2.0]}
    data = jk.Dataset.from_frame(
        table,
        time="t",
        first="a",
        second="b",
        counts=("x", "y"),
        aspects=False,
        covariates={"x attack": "z"},
    )
    assert data.names[:2] == ("level", "x attack")
    assert data.names[2:4] == (jk.Feature(7, "attack"), jk.Feature(7, "defence"))
    assert data.index.group_of("x attack") == "skill"
    model = jk.Model(jk.kernels.Constant(0.1), jk.likelihoods.Poisson())
    board = jk.infer(model, data).leaderboard()
    assert sorted(board["name"].tolist()) == [7, 8, 9]


@pytest.mark.filterwarnings("ignore:Explicitly requested dtype float64")
def test_data_of_64_bits_is_refused_under_32_bits():
    data = league(5)
    model = jk.Model(jk.kernels.Constant(1.0), jk.likelihoods.Probit())
    message = r"^`data` holds float64 numbers, but JAX is set to 32 bits now. Call `jax.config"
    with jax.enable_x64(False):
        for use in (
            lambda: jk.infer(model, data),
            lambda: jk.learn(model, data),
            lambda: jk.Stream.start(model, data),
            lambda: data.subset([0, 1]),
            lambda: jk.concat([data, data]),
        ):
            with pytest.raises(jk.DataError, match=message):
                use()


@pytest.mark.parametrize(("make", "table"), [(pd.Series, pd.DataFrame), (pl.Series, pl.DataFrame)])
def test_columns_of_a_library_give_tables_of_that_library(make, table):
    times, first, second = make([0.0, 1.0]), make(["a", "b"]), make(["b", "a"])
    pairs = jk.Dataset.from_pairs(times, first, second)
    mappings = jk.Dataset.from_mappings(times, [{"a": 1.0, "b": -1.0}] * 2, [1, -1])
    arrays = jk.Dataset.from_arrays(times, [[0, 1]] * 2, [[1.0, -1.0]] * 2, [1, -1])
    posterior = jk.infer(jk.Model(jk.kernels.Constant(1.0), jk.likelihoods.Probit()), pairs)
    for data in (pairs, mappings, arrays, pairs.subset([0]), jk.concat([mappings, mappings])):
        assert isinstance(data.to_frame(), table)
    assert isinstance(posterior.leaderboard(), table)
    assert isinstance(
        posterior.update(jk.Dataset.from_pairs([2.0], ["a"], ["b"])).leaderboard(), table
    )


@pytest.mark.parametrize("chosen", [[9], ["a"], [0.0, 1.0], 1, [True, False], [[0, 1]], [-6]])
def test_observations_that_do_not_exist_are_refused(chosen):
    message = r"`chosen` must be a mask of 5 booleans, a slice, or numbers of observations from 0"
    with pytest.raises(jk.DataError, match=message):
        league(5).subset(chosen)


def test_points_that_were_read_in_another_way_are_not_joined():
    one, two = (jk.Dataset.from_frame(TABLE, **COLUMNS, **SCHEMAS[n]) for n in ("result", "counts"))
    with pytest.raises(jk.DataError, match="read with `counts=`, but the data with `result=`"):
        jk.concat([one, two])
    with pytest.raises(jk.DataError, match="`parts` must be a list of data sets"):
        jk.concat([one, TABLE])
    assert len(jk.concat(one)) == 4
