"""Outcomes by words, winners, codes and points, and back into a table."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import jaxkick as jk
from jaxkick.data import Dataset
from tests.data.test_constructors import same

NAN = float("nan")
SIDES = {"t": [0.0, 1.0, 2.0, 3.0], "a": list("PPQR"), "b": list("QRRP")}
COLUMNS = {"time": "t", "first": "a", "second": "b"}
CHESS = {1: 1, 0.5: 0, 0: -1}
ARENA = {"model_a": 1, "tie": 0, "model_b": -1}


def read(values, make=dict, **options):
    return Dataset.from_frame(make({**SIDES, "y": values}), **COLUMNS, outcome="y", **options)


def outcomes(values, **options):
    return read(values, **options).observations.outcome.tolist()


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1, 0, -1, 1], [1, 0, -1, 1]),
        (["H", "D", "A", "h"], [1, 0, -1, 1]),
        (["W", "L", "D", "win"], [1, -1, 0, 1]),
        (["1-0", "½-½", "0-1", "1/2-1/2"], [1, 0, -1, 0]),
        (["P", "R", "draw", "P"], [1, -1, 0, -1]),
        ([True, False, True, True], [1, -1, 1, 1]),
        ([12, -3, 0, 5], [12, -3, 0, 5]),
    ],
)
@pytest.mark.parametrize("make", [dict, pd.DataFrame, pl.DataFrame, pa.table])
def test_numbers_words_and_winners(make, values, expected):
    data = read(values, make)
    assert data.observations.outcome.tolist() == expected
    assert same(read(data.to_frame()["y"], outcomes=data.schema.outcomes or None), data)


@pytest.mark.parametrize(
    ("values", "codes", "expected"),
    [
        ([1, 0.5, 0, 1], CHESS, [1, 0, -1, 1]),
        (["1", "0.5", "0", "1.0"], CHESS, [1, 0, -1, 1]),
        ([1, 0.5, 0, 1], {"1": 1, "0.5": 0, "0": -1}, [1, 0, -1, 1]),
        (["model_a", "tie", "model_b", "tie"], ARENA, [1, 0, -1, 0]),
        (["1", "X", "2", "X"], {"1": 1, "X": 0, "2": -1}, [1, 0, -1, 0]),
        ([1, 2, 1, 2], {1: 1, 2: -1}, [1, -1, 1, -1]),
    ],
)
def test_codes(values, codes, expected):
    data = read(values, pd.DataFrame, outcomes=codes)
    assert data.observations.outcome.tolist() == expected
    assert same(read(data.to_frame()["y"], outcomes=codes), data)


def test_codes_of_missing_outcomes_are_dropped():
    codes = {**ARENA, "both bad": None}
    values = ["model_a", "both bad", "tie", None]
    with pytest.raises(jk.DataError, match=r"Row 1: `outcome` .* is missing"):
        read(values, outcomes=codes)
    with pytest.warns(UserWarning, match="Dropped 2 of 4 rows"):
        assert outcomes(values, outcomes=codes, on_invalid="drop") == [1, 0]


def test_winners_may_be_numbers():
    table = {"t": [0.0, 1.0, 2.0], "a": [10, 20, 30], "b": [20, 30, 10], "y": [10, 30, 10]}
    data = Dataset.from_frame(table, **COLUMNS, outcome="y")
    assert data.observations.outcome.tolist() == [1, -1, -1]
    assert "names of winners" in repr(data)
    texts = table | {"a": ["10", "20", "30"], "b": ["20", "30", "10"]}
    read_texts = Dataset.from_frame(texts, **COLUMNS, outcome="y")
    assert read_texts.observations.outcome.tolist() == [1, -1, -1]
    # Numbers that name no side are outcomes, and so are 1, 0 and -1 whatever the names.
    goals = Dataset.from_frame({**table, "y": [10, 30, 11]}, **COLUMNS, outcome="y")
    assert goals.observations.outcome.tolist() == [10, 30, 11]
    signs = {"t": [0.0, 1.0], "a": [1, 0], "b": [0, 1], "y": [1, 1]}
    assert Dataset.from_frame(signs, **COLUMNS, outcome="y").observations.outcome.tolist() == [1, 1]


@pytest.mark.parametrize(
    ("values", "options", "message"),
    [
        (["W", "maybe", "L", "W"], {}, "^Row 1: `outcome` .column 'y'. is 'maybe'.*outcomes={1: 1"),
        (["P", "draw", "S", "P"], {}, "^Row 2: .* is 'S', which is not an outcome"),
        (["1", "X", "2", "1"], {}, "^Row 0: .* is '1', which is not an outcome.*outcomes={1: 1"),
        (["1", "0", "1", "1"], {}, "^Row 0: .* is '1', but must be a number"),
        ([1, 0.25, 0, 1], {"outcomes": CHESS}, "^Row 1: .* is 0.25, which is not an outcome"),
        ([1, 0, 0, 1], {"outcomes": 3}, "`outcomes` is 3, but must be a mapping"),
        ([1, 0, 0, 1], {"outcomes": {"a": "b"}}, "`outcomes` is .*, but must be a mapping"),
        ([1, 0, 0, 1], {"outcomes": {1: 1, "1": 0}}, "`outcomes` has a value twice"),
    ],
)
def test_refusals(values, options, message):
    with pytest.raises(jk.DataError, match=message):
        read(values, **options)
    with pytest.raises(jk.DataError, match="`outcome` names no column"):
        Dataset.from_frame(SIDES, **COLUMNS, outcomes=CHESS)


@pytest.mark.parametrize(
    "values", [[1, 0.5, 0, 1], [0, 1, 1, 0], [0.5, 1, 1, 0.5], [1, 2, 1, 2], [3, 1, 0, 3], [0] * 4]
)
def test_no_model_is_suggested_for_ambiguous_codes(values):
    message = r"^`outcome` holds only .* Write losses as -1.* with `outcomes={1: 1, 0.5: 0, 0: -1}`"
    with pytest.raises(jk.DataError, match=message):
        jk.suggest_model(read(values))
    with pytest.raises(jk.DataError, match="holds only"):
        jk.suggest_model(Dataset.from_pairs(*SIDES.values(), values))
    assert jk.suggest_model(read(values), jk.likelihoods.Gaussian) is not None


@pytest.mark.parametrize(
    ("values", "options", "likelihood"),
    [
        ([1, 0.5, 0, 1], {"outcomes": CHESS}, jk.likelihoods.OrdinalProbit),
        ([1, 0, 0, 1], {"outcomes": CHESS}, jk.likelihoods.Probit),
        (["W", "D", "W", "D"], {}, jk.likelihoods.OrdinalProbit),
        ([1, 1, 1, 1], {}, jk.likelihoods.Probit),
        ([7, -2, 0, 1], {}, jk.likelihoods.Gaussian),
    ],
)
def test_models_for_outcomes_that_are_told(values, options, likelihood):
    assert type(jk.suggest_model(read(values, **options)).likelihood) is likelihood


def test_codes_that_lack_losses_stay_ambiguous():
    with pytest.raises(jk.DataError, match="holds only 0 and 1"):
        jk.suggest_model(read(["w", "l", "w", "l"], outcomes={"w": 1, "l": 0}))
    wins_and_ties = Dataset.from_frame({**SIDES, "x": [1, 1, 2, 4]}, **COLUMNS, result=("x", "t"))
    assert type(jk.suggest_model(wins_and_ties).likelihood) is jk.likelihoods.OrdinalProbit


def test_later_tables_are_read_alike(tmp_path):
    table = {**SIDES, "winner": ["model_a", "tie", "model_b", "model_a"]}
    data = Dataset.from_frame(pd.DataFrame(table), **COLUMNS, outcome="winner", outcomes=ARENA)
    model = jk.Model(jk.kernels.Constant(1.0), jk.likelihoods.OrdinalProbit(margin=0.3))
    posterior = jk.infer(model, data)
    later = pd.DataFrame({"t": [4.0], "a": ["P"], "b": ["Q"], "winner": ["model_b"]})
    jk.save(tmp_path / "model.jaxkick", posterior)
    for each in (posterior, jk.load(tmp_path / "model.jaxkick")):
        assert each.update(later).data.observations.outcome.tolist() == [1, 0, -1, 1, -1]
        assert list(each.forecast(later)["winner"]) == ["model_b"]
    stream = jk.Stream.start(model, data).observe(later)
    assert stream.num_observations == 5
    with pytest.raises(jk.DataError, match=r"^Row 0: .* is 'model_c', which is not an outcome"):
        posterior.update(later.assign(winner="model_c"))


POINTS = {**SIDES, "x": [3.0, 1.0, 0.0, 2.0], "y": [1.0, 1.0, 2.0, 0.0]}


@pytest.mark.parametrize(
    ("value", "readings"),
    [
        (-2.0, ("result", "difference", "counts")),
        (float("inf"), ("result", "difference", "counts")),
        (NAN, ("result", "difference", "counts")),
        (1.37, ("result", "counts")),
        (2.5, ("counts",)),
    ],
)
@pytest.mark.parametrize("column", ["x", "y"])
def test_impossible_points_are_refused(column, value, readings):
    points = {**POINTS, column: [3.0, 1.0, value, 2.0]}
    for reading in ("result", "difference", "counts"):
        arguments = {**COLUMNS, reading: ("x", "y")}
        if reading not in readings:
            assert len(Dataset.from_frame(points, **arguments)) == 4
            continue
        with pytest.raises(jk.DataError, match=f"^Row 2: `{reading}` .columns 'x' and 'y'.") as no:
            Dataset.from_frame(points, **arguments)
        assert no.value.row == 2
        with pytest.warns(UserWarning, match="Dropped 1 of "):
            data = Dataset.from_frame(points, **arguments, on_invalid="drop")
        assert len(data) == (7 if reading == "counts" else 3)
        assert np.isfinite(data.observations.outcome).all()
