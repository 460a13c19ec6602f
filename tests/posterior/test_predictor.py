"""Questions to posteriors and streams, against answers computed from single scores."""

import functools

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import stats

import jaxkick as jk

LEAGUE = {
    "t": [0.0, 1.0, 2.0, 3.0],
    "a": ["ant", "bee", "cat", "ant"],
    "b": ["bee", "cat", "ant", "cat"],
    "x": [3, 1, 0, 2],
    "y": [1, 1, 2, 0],
    "cup": [0.0, 1.0, 0.0, 1.0],
}
LINEUPS = {
    "t": [0.0, 1.0, 2.0, 2.5],
    "p": ["ann", "ben", "cid", "ann"],
    "q": ["ben", "", None, "ann"],
    "f": [0.5, 1.0, 0.25, 0.25],
    "g": [0.5, 9.0, 9.0, 0.75],
    "r": ["cid", "ann", "dan", "dan"],
}


@functools.cache
def of_counts():
    columns = {"time": "t", "first": "a", "second": "b", "counts": ("x", "y"), "aspects": False}
    data = jk.Dataset.from_frame(LEAGUE, **columns, covariates={"cup": "cup"}, row_length=16)
    model = jk.Model(jk.kernels.Constant(0.5), jk.likelihoods.Poisson())
    return {"posterior": jk.infer(model, data), "stream": jk.Stream.start(model, data)}


@pytest.mark.parametrize("kind", ["posterior", "stream"])
def test_teams_are_compared_by_attack_and_defence(kind):
    ratings = of_counts()[kind]
    board = ratings.leaderboard(joint=False)
    assert sorted(board["name"]) == ["ant", "bee", "cat"]
    assert dict(zip(board["name"], board["matches"], strict=True))["bee"] == 2
    for name, rating, deviation in zip(
        board["name"], board["rating"], board["deviation"], strict=True
    ):
        parts = [
            ratings.linear_combination(jk.Feature(name, role), 3.0)
            for role in ("attack", "defence")
        ]
        assert rating == pytest.approx(float(sum(part.mean for part in parts)))
        assert deviation**2 == pytest.approx(float(sum(part.variance for part in parts)))
    assert sorted(ratings.leaderboard(min_matches=3)["name"]) == ["ant", "cat"]
    elo = ratings.leaderboard(scale="elo")
    level = float(ratings.linear_combination("level", 3.0).mean)
    # The difference in score of two teams that differ by 400 points, and the expected result.
    apart = 400 / (
        (elo["rating"][0] - elo["rating"][1]) / (board["rating"][0] - board["rating"][1])
    )
    rates = np.exp(level + 0.5 * apart), np.exp(level - 0.5 * apart)
    win, tie = stats.skellam.sf(0, *rates), stats.skellam.pmf(0, *rates)
    assert win + 0.5 * tie == pytest.approx(10 / 11, abs=1e-5)


@functools.cache
def of_lineups():
    columns = {"time": "t", "first": {"p": "f", "q": "g"}, "second": "r", "row_length": 16}
    data = jk.Dataset.from_frame(LINEUPS, **columns)
    model = jk.Model(jk.kernels.Matern12(1.0, 2.0), jk.likelihoods.Probit())
    return jk.infer(model, data)


@pytest.mark.parametrize("table", [dict, pd.DataFrame, pl.DataFrame])
def test_line_ups_of_a_table(table):
    posterior = of_lineups()
    found = posterior.forecast(table(LINEUPS))
    # A player who is named twice has the sum of both shares; empty cells are ignored.
    sides = [{"ann": 0.5, "ben": 0.5}, {"ben": 1.0}, {"cid": 0.25}, {"ann": 1.0}]
    asked = posterior.predict(sides, LINEUPS["r"], LINEUPS["t"])
    np.testing.assert_allclose(found["score_mean"], asked.mean, rtol=1e-12)
    np.testing.assert_allclose(asked.mean, posterior.observations.mean, rtol=1e-9)
    np.testing.assert_allclose(found["p_win"], asked.probabilities[:, 1], rtol=1e-12)


def test_forecast_of_an_empty_table():
    none = {name: column[:0] for name, column in LINEUPS.items()}
    assert of_lineups().forecast(none)["p_win"].shape == (0,)
    assert of_counts()["posterior"].forecast(pl.DataFrame(LEAGUE)[:0])["p_tie"].len() == 0


def test_repr_of_predictions():
    one = repr(of_lineups().predict("ann", "ben", 3.0)).splitlines()
    assert one[0] == "Prediction of 1 match"
    assert one[1].split() == ["score_mean", "score_deviation", "p_win", "p_loss"]
    chances = [float(cell) for cell in one[2].split()[2:]]
    assert sum(chances) == pytest.approx(1, abs=2e-4)
    two = repr(of_counts()["stream"].predict(["ant", "bee"], "cat", 9.0)).splitlines()
    assert two[0] == "CountsPrediction of 2 matches"
    assert len(two) == 4


@pytest.mark.parametrize("kind", ["posterior", "stream"])
def test_compare_teams_by_attack_and_defence(kind):
    ratings = of_counts()[kind]
    found = ratings.compare("ant", "bee", 3.0, interval=0.5, joint=False)
    board = ratings.leaderboard(3.0, joint=False)
    rows = {name: row for row, name in enumerate(board["name"])}
    ant, bee = rows["ant"], rows["bee"]
    mean = board["rating"][ant] - board["rating"][bee]
    deviation = np.hypot(board["deviation"][ant], board["deviation"][bee])
    truth = stats.norm(mean, deviation)
    expected = (mean, deviation, truth.ppf(0.25), truth.ppf(0.75), truth.sf(0.0))
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    elo, rated = (
        ratings.leaderboard(3.0, scale="elo", joint=False),
        ratings.compare("ant", "bee", 3.0, scale="elo", joint=False),
    )
    np.testing.assert_allclose(rated.mean, elo["rating"][ant] - elo["rating"][bee], rtol=1e-6)
    np.testing.assert_allclose(rated.probability, found.probability)


def test_compare_line_ups_and_many():
    posterior = of_lineups()
    found = posterior.compare([{"ann": 0.5, "ben": 0.5}, "cid"], "dan", [2.0, 3.0], joint=False)
    prediction = posterior.predict([{"ann": 0.5, "ben": 0.5}, "cid"], "dan", [2.0, 3.0])
    np.testing.assert_allclose(found.mean, prediction.mean)
    np.testing.assert_allclose(found.deviation**2, prediction.variance)
    truth = stats.norm.cdf(np.asarray(prediction.mean) / np.sqrt(prediction.variance))
    np.testing.assert_allclose(found.probability, truth)
    certain = jk.Difference.of([1.0, 0.0, -1.0], np.zeros(3), 1.0, 0.9)
    assert certain.probability.tolist() == [1.0, 0.5, 0.0]
    with pytest.raises(
        ValueError, match=r"'and' in `second` is not in the data. Did you mean 'dan'"
    ):
        posterior.compare("ann", "and", 2.0)
    with pytest.raises(ValueError, match="`second` is 'ann', which is also the first side"):
        posterior.compare("ann", "ann", 2.0)


def test_leaderboard_of_combinations():
    """Two pairs share a player, whose score is the same in both."""
    posterior = of_lineups()
    pairs = {"one": ["ann", "ben"], "two": {"ann": 1.0, "cid": 1.0}, "half": {"dan": 0.5}}
    board = posterior.leaderboard(3.0, names=pairs, active_within=9.0, joint=False)
    rows = {name: row for row, name in enumerate(board["name"])}
    moments = posterior.linear_combination([{"ann": 1.0, "ben": 1.0}, {"dan": 0.5}], 3.0)
    found = board["rating"][[rows["one"], rows["half"]]]
    np.testing.assert_allclose(found, moments.mean, rtol=1e-6)
    deviation = board["deviation"][[rows["one"], rows["half"]]]
    np.testing.assert_allclose(deviation**2, moments.variance, rtol=1e-6)
    # Ben was in two matches, and Cid last in one at 2.
    assert board["matches"][rows["one"]] == 2
    assert board["last_active"][rows["two"]] == 2.0
    two = posterior.leaderboard(3.0, names={name: pairs[name] for name in ("one", "two")})
    better = posterior.compare("ben", "cid", 3.0).probability
    chance = two["best"][two["name"].tolist().index("one")]
    # Four standard errors of a share of 10,000 draws.
    assert chance == pytest.approx(better, abs=0.02)
    with pytest.raises(ValueError, match="'eve' in `names` is not in the data"):
        posterior.leaderboard(names={"one": ["ann", "eve"]})
    with pytest.raises(ValueError, match=r"`names\['none'\]` has no competitors"):
        posterior.leaderboard(names={"none": []})


def test_names_of_counts_are_known_with_and_without_their_roles():
    posterior = of_counts()["posterior"]
    with pytest.raises(ValueError, match=r"'anr' in `first` is not .* Did you mean 'ant'"):
        posterior.predict("anr", "bee", 3.0)
    with pytest.raises(ValueError, match=r"'ant' in `name` is not .* Feature\('ant', 'att"):
        posterior.scores("ant")


def test_both_sides_differ():
    posterior = of_counts()["posterior"]
    with pytest.raises(ValueError, match="`second` is 'ant', which is also the first side"):
        posterior.predict("ant", "ant", 3.0)
    with pytest.raises(ValueError, match=r"Row 2: `second` \(column 'b'\) is 'ant', which is also"):
        posterior.forecast(LEAGUE | {"a": [*LEAGUE["a"][:2], "ant", "ant"]})


def test_errors():
    table = LEAGUE | {"here": [1, -1, 0, 1]}
    data = jk.Dataset.from_frame(table, time="t", first="a", second="b", home="here")
    ratings = jk.infer(jk.Model(jk.kernels.Constant(0.5), jk.likelihoods.Probit()), data)
    with pytest.raises(ValueError, match=r"^Row 0: `home` is 2, but must be"):
        ratings.predict("ant", "bee", 1.0, home=2)
    with pytest.raises(jk.DataError, match=r"^`home` is 'ant', but must be \+1 \(first at home\)"):
        ratings.predict("ant", "bee", 1.0, home="ant")
    with pytest.raises(ValueError, match=r"^Row 2: a coefficient is missing or infinite"):
        ratings.forecast(table | {"here": [1, 1, np.nan, 1]})
    with pytest.raises(ValueError, match=r"^Row 0: a name is missing \(2 rows"):
        ratings.forecast(table | {"a": [None, "bee", "cat", ""]})
    with pytest.raises(ValueError, match="`time` holds dates, but the times of the data are"):
        ratings.leaderboard("2001-01-01")
    stream = of_counts()["stream"]
    with pytest.raises(
        ValueError, match=r"`time` is before the last match of Feature\('ant', 'attack'\)"
    ):
        stream.leaderboard(1.0)
