"""Commands give the same results as the Python interface."""

import csv
import io
import json
import shutil
import sys

import jax
import numpy as np
import pandas as pd
import pytest

import jaxkick as jk
from jaxkick import evaluation as ev
from jaxkick.cli.comparison import model_before

from .conftest import OPTIONS, SIZE, play, run, write


@pytest.fixture(scope="module")
def posterior(league):
    data = jk.Dataset.from_frame(
        pd.read_csv(league.results),
        time="date",
        first="home",
        second="away",
        result=("home_goals", "away_goals"),
        home=True,
    )
    model, _ = jk.learn(None, data)
    return jk.infer(model, data)


def agree(records, frame):
    """Records of JSON equal a table, column by column."""
    assert list(records[0]) == list(frame.columns)
    for name in frame.columns:
        found = [record[name] for record in records]
        if pd.api.types.is_float_dtype(frame[name]):
            np.testing.assert_allclose(found, frame[name], rtol=1e-9)
        elif pd.api.types.is_datetime64_any_dtype(frame[name]):
            assert found == [str(date.date()) for date in frame[name]]
        else:
            assert found == frame[name].tolist()


def test_fit_agrees_with_learn_and_infer(league, posterior):
    assert league.ran.code == 0, league.ran.err
    board = posterior.leaderboard(scale="elo")
    agree(json.loads(league.ran.out), board)
    assert {path.name for path in league.folder.iterdir()} == {
        *("model.jaxkick", "leaderboard.csv", "forecasts.csv", "scores.png", "report.html")
    }
    written = pd.read_csv(league.folder / "leaderboard.csv")
    np.testing.assert_allclose(written["rating"], board["rating"], rtol=1e-9)
    saved = jk.load(league.folder / "model.jaxkick")
    assert float(saved.log_marginal_likelihood) == pytest.approx(
        float(posterior.log_marginal_likelihood), abs=1e-6
    )
    forecasts = pd.read_csv(league.folder / "forecasts.csv")
    assert len(forecasts) == 12
    row = forecasts.iloc[5]
    match = posterior.predict(row["first"], row["second"], row["time"], home=1)
    chances = [match.p_loss, match.p_tie, match.p_win]
    np.testing.assert_allclose(row[["p_loss", "p_tie", "p_win"]].astype(float), chances)
    assert league.folder.joinpath("scores.png").read_bytes().startswith(b"\x89PNG")


def test_leaderboard(league, posterior):
    options = ("--time", "2020-09-01", "--scale", "100/20", "--min-matches", 3, "--top", 2)
    ran = run("leaderboard", league.folder, *options, "--interval", 0.5, "--format", "json")
    board = posterior.leaderboard("2020-09-01", scale=(100, 20), min_matches=3, interval=0.5)
    agree(json.loads(ran.out), board.head(2))
    shown = run("leaderboard", league.folder / "model.jaxkick").out
    best = posterior.leaderboard(scale="elo").iloc[0]
    interval, ranks = (f"{best[f'{n}lower']:.0f}–{best[f'{n}upper']:.0f}" for n in ("", "rank_"))
    cells = ["1", best["name"], f"{best['rating']:.0f}", interval, ranks]
    assert shown.split("\n")[3].split()[:5] == cells


@pytest.mark.parametrize(("flags", "home"), [((), None), (("--home",), 1), (("--away",), -1)])
def test_predict_one_match(league, posterior, flags, home):
    sides = ("--first", "Köln, 1. FC", "--second", "Ada", "--time", "2021-06-01")
    ran = run("predict", league.folder, *sides, *flags, "--format", "csv")
    (record,) = csv.DictReader(io.StringIO(ran.out))
    expected = posterior.predict("Köln, 1. FC", "Ada", "2021-06-01", home=home)
    assert float(record["score_mean"]) == pytest.approx(float(expected.mean), rel=1e-9)
    chances = [float(record[name]) for name in ("p_loss", "p_tie", "p_win")]
    np.testing.assert_allclose(
        chances, [expected.p_loss, expected.p_tie, expected.p_win], rtol=1e-9
    )
    assert record["time"] == "2021-06-01"
    assert record.get("home") == {None: None, 1: "Köln, 1. FC", -1: "Ada"}[home]


def test_predict_a_file(league, posterior, tmp_path):
    names = ("date", "home", "away")
    rows = [("01.06.2021", "Ada", "Ben"), ("30.06.2021", "Köln, 1. FC", "Zoë")]
    fixtures = write(tmp_path / "fixtures.csv", rows, names)
    refused = run("predict", league.folder, "--fixtures", fixtures)
    assert refused.code == 2
    assert "Line 3 of 'fixtures.csv': `--second` (column 'away') is 'Zoë'" in refused.err
    ran = run(
        "predict", league.folder, "--fixtures", fixtures, "--allow-unknown", "--format", "json"
    )
    plain = {
        "date": ["2021-06-01", "2021-06-30"],
        **{n: [row[k] for row in rows] for k, n in ((1, "home"), (2, "away"))},
    }
    expected = posterior.forecast(pd.DataFrame(plain), allow_unknown=True)
    for record, chance in zip(json.loads(ran.out), expected["p_win"], strict=True):
        assert record["p_win"] == pytest.approx(chance, rel=1e-9)


def test_update_overwrites_and_refuses_repeats(league, posterior, tmp_path):
    model = shutil.copy(league.folder / "model.jaxkick", tmp_path)
    ran = run("update", model, league.later, "--format", "json")
    expected = posterior.update(pd.read_csv(league.later, sep=";")).leaderboard(scale="elo")
    agree(json.loads(ran.out), expected)
    before = (tmp_path / "model.jaxkick").read_bytes()
    again = run("update", model, league.later)
    assert again.code == 2
    assert "6 of the 6 observations in 'later.csv' are in the model already" in again.err
    assert (tmp_path / "model.jaxkick").read_bytes() == before


def test_failed_update_changes_nothing(league, tmp_path):
    model = shutil.copy(league.folder / "model.jaxkick", tmp_path)
    before = (tmp_path / "model.jaxkick").read_bytes()
    refused = run("update", model, league.later, "--scale", "abc")
    assert (refused.code, refused.out) == (2, "")
    nowhere = run("update", model, league.later, "-o", tmp_path / "none" / "x.jaxkick")
    assert nowhere.code == 2
    assert "--output is" in nowhere.err
    assert "updating" not in refused.err + nowhere.err
    (tmp_path / "next").mkdir()
    assert run("update", model, league.later, "-o", tmp_path / "next").code == 0
    assert (tmp_path / "model.jaxkick").read_bytes() == before
    grown = jk.load(tmp_path / "next" / "model.jaxkick")
    assert grown.data.num_observations == SIZE + 6


def _suggested_before(results, start):
    frame = pd.read_csv(results)
    earlier = jk.Dataset.from_frame(
        frame[frame["date"] < start], time="date", first="home", second="away",
        result=("home_goals", "away_goals"), home=True,
    )  # fmt: skip
    return jk.suggest_model(earlier)


def test_evaluate(league):
    ran = run("evaluate", league.results, *OPTIONS, "--start", "2020-12-01", "--format", "json")
    found = {(row["model"], row["metric"]): row["value"] for row in json.loads(ran.out)}
    data = jk.Dataset.from_frame(
        pd.read_csv(league.results), time="date", first="home", second="away",
        result=("home_goals", "away_goals"), home=True,
    )  # fmt: skip
    options = {"start": "2020-12-01", "every": "week", "relearn": "start"}
    own = ev.walk_forward(_suggested_before(league.results, "2020-12-01"), data, **options)
    rates = {"skill": 0.1, "home": 0.01}
    elo = ev.Elo(rates, jk.likelihoods.OrdinalLogit(margin=0.5))
    other = ev.walk_forward(elo, data, **options)
    for name, each in {"jaxkick": own, "elo": other}.items():
        assert found[name, "log_loss"] == pytest.approx(each.log_losses.mean(), rel=1e-9)
        right = each.probabilities.argmax(axis=1) == each.labels
        assert found[name, "accuracy"] == pytest.approx(right.mean())
    difference = np.mean(own.log_losses - other.log_losses)
    assert found["difference", "log_loss"] == pytest.approx(difference, rel=1e-9)
    dates = pd.read_csv(league.results)["date"]
    assert found["difference", "matches"] == (dates >= "2020-12-01").sum() > 5


def test_evaluate_reports_missing_convergence(league):
    options = ("--start", "2020-12-01", "--max-steps", 1, "--format", "json")
    ran = run("evaluate", league.results, *OPTIONS, *options)
    assert ran.code == 3
    assert "has not converged after 1 steps. Raise --max-steps" in ran.err
    assert json.loads(ran.out)


def test_starting_model_depends_only_on_earlier_matches():
    sides = {"time": [0.0, 1.0, 2.0, 3.0, 9.0], "first": list("ABCAD"), "second": list("BCABC")}
    ground = {"home": [0, 0, 0, 0, 1]}
    read = {"time": "time", "first": "first", "second": "second", "home": "home"}

    def suggested(outcome):
        table = {**sides, **ground, "outcome": outcome}
        data = jk.Dataset.from_frame(table, outcome="outcome", **read)
        return model_before(data, 3.0)

    first, second = suggested([1.0, -2.0, 1.0, 3.0, 4.0]), suggested([1.0, -2.0, 1.0, 90.0, -70.0])
    assert first.describe() == second.describe()
    assert float(first.likelihood.variance.value) == pytest.approx(0.5 * np.var([1.0, -2.0, 1.0]))
    assert type(suggested([1, -1, 1, 0, 1]).likelihood) is jk.likelihoods.OrdinalProbit


def test_demo_on_a_small_league(league, posterior, tmp_path, monkeypatch):
    table = {name: column.to_numpy() for name, column in pd.read_csv(league.results).items()}
    table["date"] = table["date"].astype("datetime64[D]")
    monkeypatch.setattr(jk.datasets, "load_bundesliga", lambda: table)
    ran = run("demo", "--output", tmp_path / "demo")
    assert ran.code == 0
    assert "learning: step" in ran.err
    peaks = pd.read_csv(tmp_path / "demo" / "peaks.csv")
    factor = jk.Scale().factor(posterior.model.likelihood)
    for _, row in peaks.iterrows():
        scores = posterior.scores(row["name"])
        place = int(np.argmax(scores.mean))
        assert row["rating"] == pytest.approx(1500 + factor * float(scores.mean[place]), rel=1e-6)
        reach = 1.6448536 * factor * float(np.sqrt(scores.variance[place]))
        assert row["upper"] - row["rating"] == pytest.approx(reach, rel=1e-5)
    assert peaks["rating"].is_monotonic_decreasing
    assert (tmp_path / "demo" / "report.html").stat().st_size > 0


def test_missing_extras_are_noted_and_the_rest_is_written(league, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "jaxkick.report", None)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    ran = run("fit", league.results, *OPTIONS, "-o", tmp_path, "--max-steps", 1)
    assert ran.code == 3
    assert "has not converged" in ran.err
    assert 'pip install "jaxkick[report]"' in ran.err
    assert 'pip install "jaxkick[plot]"' in ran.err
    written = {path.name for path in tmp_path.iterdir()}
    assert written == {"model.jaxkick", "leaderboard.csv", "forecasts.csv"}


def test_winners_and_losers_in_parquet_and_single_precision(tmp_path):
    rows = [row for row in play(40) if row[3] != row[4]]
    pairs = [(row[1], row[2]) if row[3] > row[4] else (row[2], row[1]) for row in rows]
    frame = pd.DataFrame(pairs, columns=["winner", "loser"])
    frame["date"] = pd.to_datetime([row[0] for row in rows])
    frame.to_parquet(tmp_path / "matches.parquet")
    columns = ("--time", "date", "--first", "winner", "--second", "loser", "--first-won")
    options = ("--float32", "--format", "json", "--top", 1)
    ran = run("fit", tmp_path / "matches.parquet", *columns, *options, "-o", tmp_path)
    assert ran.code == 0, ran.err
    with jax.enable_x64(False):
        saved = jk.load(tmp_path / "model.jaxkick")
        data = jk.Dataset.from_frame(frame, time="date", first="winner", second="loser")
        expected = jk.infer(saved.model, data).leaderboard(scale="elo").iloc[0]
    assert saved.data.outcome.dtype == np.float32
    (record,) = json.loads(ran.out)
    assert record["name"] == expected["name"]
    assert record["rating"] == pytest.approx(expected["rating"], abs=0.5)
