"""Tables with home sides, points, line-ups: the same data set as spelt out by hand."""

import dataclasses

import jax
import numpy as np
import pandas as pd
import polars as pl
import pytest

import jaxkick as jk
from jaxkick.data import Dataset, Feature
from jaxkick.datasets import load_bundesliga

MATCHES = {
    "t": [0.0, 1.0, 2.0, 3.0],
    "a": ["ant", "bee", "cat", "ant"],
    "b": ["bee", "cat", "ant", "cat"],
    "x": [3, 1, 0, 2],
    "y": [1, 1, 2, 0],
    "where": [1, -1, 0, 1],
    "host": ["ant", "cat", None, "ant"],
    "neutral": [False, True, False, False],
}
COLUMNS = {"time": "t", "first": "a", "second": "b"}


def same(one, other):
    assert one.names == other.names
    assert one.index.groups == other.index.groups
    for left, right in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        np.testing.assert_array_equal(left, right)
    return True


def by_hand(outcome, home=None, **options):
    rows = []
    for row, (a, b) in enumerate(zip(MATCHES["a"], MATCHES["b"], strict=True)):
        rows.append({a: 1.0, b: -1.0} | ({} if home is None else {"home": home[row]}))
    groups = {"home": "home"}
    return Dataset.from_mappings(MATCHES["t"], rows, outcome, groups=groups, **options)


@pytest.mark.parametrize(
    ("arguments", "outcome"),
    [
        ({"result": ("x", "y")}, [1, 0, -1, 1]),
        ({"difference": ["x", "y"]}, [2, 0, -2, 2]),
        ({"outcome": "x"}, [3, 1, 0, 2]),
    ],
)
def test_points(arguments, outcome):
    assert same(Dataset.from_frame(MATCHES, **COLUMNS, **arguments), by_hand(outcome))


@pytest.mark.parametrize(
    ("arguments", "home"),
    [
        ({"home": True}, [1, 1, 1, 1]),
        ({"neutral": "neutral"}, [1, 0, 1, 1]),
        ({"home": True, "neutral": "neutral"}, [1, 0, 1, 1]),
        ({"home": "where"}, [1, -1, 0, 1]),
        ({"home": "host"}, [1, -1, 0, 1]),
        ({"home": "host", "neutral": "neutral"}, [1, 0, 0, 1]),
    ],
)
@pytest.mark.parametrize("table", [dict, pd.DataFrame, pl.DataFrame])
def test_home(table, arguments, home):
    data = Dataset.from_frame(table(MATCHES), **COLUMNS, outcome="x", **arguments)
    assert same(data, by_hand([3, 1, 0, 2], home))
    own = Dataset.from_frame(
        table(MATCHES), **COLUMNS, outcome="x", **arguments, groups={"home": "mine"}
    )
    assert own.index.groups == ("mine", "skill")


def test_two_counts():
    data = Dataset.from_frame(
        MATCHES,
        **COLUMNS,
        counts=("x", "y"),
        home="where",
        weight=2.0,
        covariates={"derby": "x"},
        aspects=False,
    )
    rows, points = [], []
    for row, (a, b) in enumerate(zip(MATCHES["a"], MATCHES["b"], strict=True)):
        home, derby = MATCHES["where"][row], MATCHES["x"][row]
        shared = {"home": home, "derby": derby}
        plus = {Feature(a, "attack"): 1, Feature(b, "defence"): -1, **shared, "level": 1}
        against = {name: -x for name, x in shared.items()}
        minus = {Feature(b, "attack"): 1, Feature(a, "defence"): -1, **against, "level": 1}
        rows += [plus, minus]
        points += [MATCHES["x"][row], MATCHES["y"][row]]
    groups = {"home": "home", "level": "level"}
    expected = Dataset.from_mappings(
        np.repeat(MATCHES["t"], 2), rows, points, weight=2.0, groups=groups
    )
    assert same(dataclasses.replace(data, events=None), expected)
    assert data.index.rows.tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    # Both counts of a match are one event, for likelihoods of both.
    assert data.events.blocks[0].members.tolist() == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert data.index.group_of(Feature("dog", "attack")) == "attack"
    assert data.index.group_of("dog attack") == "skill"


def test_a_missing_count_costs_one_observation():
    matches = MATCHES | {"y": [1, np.nan, 2, 0]}
    with pytest.raises(ValueError, match=r"^Row 1: `counts` \(columns 'x' and 'y'\) is missing"):
        Dataset.from_frame(matches, **COLUMNS, counts=("x", "y"))
    with pytest.warns(UserWarning, match="Dropped 1 of 8 observations: .*row 1") as caught:
        data = Dataset.from_frame(matches, **COLUMNS, counts=("x", "y"), on_invalid="drop")
    assert caught[0].filename == __file__
    assert data.index.rows.tolist() == [0, 0, 1, 2, 2, 3, 3]


def test_line_ups_over_columns():
    table = {
        "t": [0.0, 1.0],
        "p1": ["ann", "ben"],
        "p2": ["ben", None],
        "f1": [0.25, 0.5],
        "f2": [0.75, 9.0],
        "q": [["cid", "dan"], ["ann"]],
    }
    data = Dataset.from_frame(
        pl.DataFrame(table), time="t", first={"p1": "f1", "p2": "f2"}, second="q"
    )
    expected = Dataset.from_mappings(
        [0.0, 1.0],
        [{"ann": 0.25, "ben": 0.75, "cid": -1, "dan": -1}, {"ben": 0.5, "ann": -1}],
        1.0,
    )
    assert same(data, expected)
    equal = Dataset.from_frame(table, time="t", first=["p1", "p2"], second="q")
    assert equal.observations.coefficients.tolist() == [[1, 1, -1, -1], [1, -1, 0, 0]]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"result": "x"}, "`result` is 'x', but must be the names of two columns"),
        ({"result": ("x", "z")}, r"`result` \(column 'z'\) is not in the table"),
        ({"outcome": "x", "counts": ("x", "y")}, "`outcome` and `counts` each define"),
        ({"home": "neutral"}, r"`home` \(column 'neutral'\) holds booleans, which do not"),
        ({"home": "b2"}, r"`home` \(column 'b2'\) is not in the table. Did you mean 'b'"),
        ({"home": "wrong"}, r"^Row 2: `home` \(column 'wrong'\) is 'dog', which is neither side"),
        ({"neutral": "x"}, r"^Row 0: `neutral` \(column 'x'\) is 3, but must be true"),
        ({"home": True, "covariates": {"home": 1.0}}, "the name 'home', which is reserved"),
        (
            {"counts": ("x", "y"), "covariates": {"level": 1.0}},
            "the name 'level', which is reserved",
        ),
        ({"result": ("x", "x")}, r"`result` is \('x', 'x'\), but must be the names of two columns"),
        ({"home": True}, "^Without outcomes the first side won .* puts every winner at home"),
        ({"home": 1}, "`home` is 1, but must be True if the first side is at home"),
        ({"interactions": {"a": "b"}}, "`interactions` is .*, but must be the name of a column"),
        ({"interactions": "home"}, "`interactions` is 'home', .* names of other groups. Rename"),
        (
            {"interactions": "x", "covariates": {"x": "y"}},
            "`interactions` and `covariates` both have the name 'x'",
        ),
        ({"first": 3}, "`first` is 3, but must be the name of a column, a list of columns"),
        ({"home": "unsure"}, r"^Row 1: .* \(column 'unsure'\) has a coefficient that is missing"),
    ],
)
def test_refusals(changes, message):
    table = MATCHES | {"wrong": ["ant", "bee", "dog", "cat"], "unsure": [1, np.nan, 0, 1]}
    with pytest.raises(ValueError, match=message):
        Dataset.from_frame(table, **(COLUMNS | changes))


def test_the_repr_says_what_was_understood():
    matches = load_bundesliga()
    data = Dataset.from_frame(
        matches,
        time="date",
        first="home",
        second="away",
        result=("home_goals", "away_goals"),
        home=True,
    )
    assert repr(data).splitlines()[:3] == [
        "Dataset of 14,018 observations and 53 features",
        "  read     first 'home', second 'away', result of 'home_goals' and 'away_goals', first "
        "at home",
        "  time     1963-08-24 to 2009-05-23, in years",
    ]
    assert "'skill': 52 features (0 seen once), 28,036 entries" in repr(data)
    assert "'home': 1 feature (0 seen once), 14,018 entries" in repr(data)
    won, tied, lost = ((matches["result"] == result).sum() for result in (1, 0, -1))
    assert f"outcome  +1 ({won:,}), 0 ({tied:,}), -1 ({lost:,})" in repr(data)


def test_counts_suggest_a_poisson_model():
    data = Dataset.from_frame(MATCHES, **COLUMNS, counts=("x", "y"), home=True)
    model = jk.suggest_model(data)
    assert isinstance(model.likelihood, jk.likelihoods.Poisson)
    assert set(model.kernel) == {"skill", "home", "level"}
    assert isinstance(model.kernel["skill"], jk.kernels.CorrelatedAspects)
    apart = Dataset.from_frame(MATCHES, **COLUMNS, counts=("x", "y"), home=True, aspects=False)
    assert set(jk.suggest_model(apart).kernel) == {"attack", "defence", "home", "level"}


def test_numbers_that_name_no_side_are_refused():
    table = {"t": [0.0, 1.0], "a": ["x", "y"], "b": ["y", "z"], "goals": [1, 3]}
    with pytest.raises(
        ValueError, match=r"^Row 1: `home` \(column 'goals'\) is 3, but must be \+1"
    ):
        jk.Dataset.from_frame(table, time="t", first="a", second="b", home="goals")


LABELS = MATCHES | {
    "surface": ["clay", "grass", "clay", "clay"],
    "ground": ["Wembley", "Anfield", "Wembley", "Anfield"],
    "outcome": [1, -1, 1, 1],
}
FURTHER = {"interactions": "surface", "pairs": True, "covariates": {"stadium": "ground"}}


def spelt_out(row):
    """The features of a match of `LABELS`, by hand."""
    a, b, surface, ground = (LABELS[name][row] for name in ("a", "b", "surface", "ground"))
    low, high = sorted((a, b))
    return {
        a: 1.0,
        b: -1.0,
        Feature(ground, "stadium"): 1.0,
        Feature(a, "surface", surface): 1.0,
        Feature(b, "surface", surface): -1.0,
        Feature(low, "pair", high): 1.0 if low == a else -1.0,
    }


@pytest.mark.parametrize("table", [dict, pd.DataFrame, pl.DataFrame])
def test_skills_by_label_and_pair(table):
    data = Dataset.from_frame(table(LABELS), **COLUMNS, outcome="outcome", **FURTHER)
    expected = [spelt_out(row) for row in range(4)]
    assert same(data, Dataset.from_mappings(LABELS["t"], expected, LABELS["outcome"]))
    assert data.index.groups == ("pair", "skill", "stadium", "surface")
    assert "skills by 'surface', skills by pair" in repr(data)


def test_predictions_with_labels_and_pairs(tmp_path):
    data = Dataset.from_frame(pd.DataFrame(LABELS), **COLUMNS, outcome="outcome", **FURTHER)
    kernels = {group: jk.kernels.Constant(1.0) for group in data.index.groups}
    posterior = jk.infer(jk.Model(kernels, jk.likelihoods.Probit()), data)
    # By hand: the same match as a linear combination of its features.
    wanted = posterior.linear_combination([spelt_out(0), spelt_out(1)], [4.0, 5.0])
    fixtures = pd.DataFrame(LABELS).head(2).assign(t=[4.0, 5.0]).drop(columns="outcome")
    jk.save(tmp_path / "model.jaxkick", posterior)
    stream = jk.Stream.start(posterior.model, data)
    for each in (posterior, jk.load(tmp_path / "model.jaxkick")):
        forecast = each.forecast(fixtures)
        np.testing.assert_allclose(forecast["score_mean"], wanted.mean, rtol=1e-12)
        np.testing.assert_allclose(forecast["score_deviation"] ** 2, wanted.variance, rtol=1e-9)
    given = {"surface": "clay", "stadium": "Wembley"}
    match = posterior.predict("ant", "bee", 4.0, covariates=given)
    np.testing.assert_allclose(match.mean, wanted.mean[0], rtol=1e-12)
    both = {"surface": ["clay", "grass"], "stadium": ["Wembley", "Anfield"]}
    matches = posterior.predict(["ant", "bee"], ["bee", "cat"], [4.0, 5.0], covariates=both)
    np.testing.assert_allclose(matches.variance, wanted.variance, rtol=1e-12)
    assert stream.predict("ant", "bee", 4.0, covariates=given).p_win > 0.5
    # A label that the data does not have has the prior's score; so have new competitors.
    given = {"surface": "ice", "stadium": "Wembley"}
    new = posterior.predict("ant", "dog", 4.0, covariates=given, allow_unknown=True)
    plain = {"ant": 1.0, "dog": -1.0, Feature("Wembley", "stadium"): 1.0}
    expected = posterior.linear_combination(plain, 4.0, allow_unknown=True)
    assert float(new.variance) == pytest.approx(float(expected.variance) + 3.0)
    with pytest.raises(jk.DataError, match=r"^`covariates\['surface'\]` is 'ice'.*'clay', 'grass'"):
        posterior.predict("ant", "bee", 4.0, covariates=given)
    with pytest.raises(jk.DataError, match=r"^Row 1: .*'gras', .* Did you mean 'grass'\?"):
        posterior.forecast(fixtures.assign(surface=["clay", "gras"]))
    with pytest.raises(jk.DataError, match=r"'Surface', which the data .* mean 'surface'\?"):
        posterior.predict("ant", "bee", 4.0, covariates={"Surface": "clay"})
    # A competitor may meet a known label for the first time.
    posterior.predict("cat", "bee", 4.0, covariates={"surface": "clay"})
    board = posterior.leaderboard(group="surface")
    assert "ant surface clay" in set(board["name"])
    assert set(posterior.leaderboard()["name"]) == {"ant", "bee", "cat"}
    updated = posterior.update(fixtures.assign(outcome=1).assign(surface="ice"))
    assert Feature("ant", "surface", "ice") in updated.data.names


def test_labels_and_unknown_covariates_are_refused():
    arguments = {**COLUMNS, "outcome": "outcome"}
    with pytest.raises(jk.DataError, match=r"^Row 1: `interactions\['surface'\]` .* missing label"):
        Dataset.from_frame(
            LABELS | {"surface": ["clay", None, "clay", ""]}, **arguments, interactions="surface"
        )
    with pytest.raises(
        jk.DataError, match="`counts` cannot be combined with `interactions` or `pairs`"
    ):
        Dataset.from_frame(LABELS, **COLUMNS, counts=("x", "y"), pairs=True)
    with pytest.raises(jk.DataError, match=r"`pairs` needs one name on each side"):
        Dataset.from_frame(LABELS, time="t", first=["a", "host"], second="b", pairs=True)
    table = LABELS | {"ground": ["1.5", "x", "2", "3"]}
    with pytest.raises(jk.DataError, match=r"^Row 0: .* is '1.5', but must be a number"):
        Dataset.from_frame(table, **arguments, covariates={"stadium": "ground"})
    data = Dataset.from_frame(LABELS, **arguments, covariates={"rest": "x"})
    posterior = jk.infer(jk.Model(jk.kernels.Constant(1.0), jk.likelihoods.Probit()), data)
    with pytest.raises(
        jk.DataError, match=r"has the name 'rset', which the data does not .*'rest'"
    ):
        posterior.predict("ant", "bee", 4.0, covariates={"rset": 1.0})
    with pytest.raises(
        jk.DataError, match=r"`covariates\['rest'\]` is 'long', but must be a number"
    ):
        posterior.predict("ant", "bee", 4.0, covariates={"rest": "long"})
