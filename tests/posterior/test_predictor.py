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
    columns = {"time": "t", "first": "a", "second": "b", "counts": ("x", "y")}
    data = jk.Dataset.from_frame(LEAGUE, **columns, covariates={"cup": "cup"}, row_length=16)
    model = jk.Model(jk.kernels.Constant(0.5), jk.likelihoods.Poisson())
    return {"posterior": jk.infer(model, data), "stream": jk.Stream.start(model, data)}


@pytest.mark.parametrize("kind", ["posterior", "stream"])
def test_teams_are_compared_by_attack_and_defence(kind):
    ratings = of_counts()[kind]
    board = ratings.leaderboard()
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


def test_errors():
    table = LEAGUE | {"here": [1, -1, 0, 1]}
    data = jk.Dataset.from_frame(table, time="t", first="a", second="b", home="here")
    ratings = jk.infer(jk.Model(jk.kernels.Constant(0.5), jk.likelihoods.Probit()), data)
    with pytest.raises(ValueError, match=r"^Row 0: `home` is 2, but must be"):
        ratings.predict("ant", "bee", 1.0, home=2)
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
