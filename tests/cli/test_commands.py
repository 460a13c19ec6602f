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
from jaxkick.cli.evaluating import model_before

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


def test_update_rewrites_all_that_fit_wrote(league, posterior, tmp_path):
    folder = shutil.copytree(league.folder, tmp_path / "league")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    ran = run("update", folder, league.later, "--format", "json")
    assert ran.code == 0, ran.err
    updated = posterior.update(pd.read_csv(league.later, sep=";"))
    expected = updated.leaderboard(scale="elo")
    agree(json.loads(ran.out), expected)
    after = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert after.keys() == before.keys()
    assert all(after[name] != before[name] for name in after)
    written = pd.read_csv(folder / "leaderboard.csv")
    np.testing.assert_allclose(written["rating"], expected["rating"], rtol=1e-9)
    row = pd.read_csv(folder / "forecasts.csv").iloc[0]
    match = updated.predict(row["first"], row["second"], row["time"], home=1)
    assert row["p_win"] == pytest.approx(float(match.p_win), rel=1e-9)
    # The same matches again are refused in the words of Python.
    again = run("update", folder, league.later)
    with pytest.raises(jk.DataError, match=r"^Row 0: the data already has a match of the") as error:
        updated.update(pd.read_csv(league.later, sep=";"))
    assert again.code == 1
    words = str(error.value).removeprefix("Row 0").replace("allow_repeats=True", "--allow-repeats")
    assert again.err == f"error: Line 2 of 'later.csv'{words}\n"
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == after
    allowed = run("update", folder, league.later, "--allow-repeats", "--top", 1)
    assert allowed.code == 0
    assert len(jk.load(folder / "model.jaxkick").data) == SIZE + 12


def test_update_writes_to_another_folder_and_changes_nothing_if_it_fails(league, tmp_path):
    model = shutil.copy(league.folder / "model.jaxkick", tmp_path)
    before = (tmp_path / "model.jaxkick").read_bytes()
    refused = run("update", model, league.later, "--scale", "abc")
    assert (refused.code, refused.out) == (2, "")
    file = run("update", model, league.later, "-o", tmp_path / "next.jaxkick")
    assert file.code == 2
    assert "which is a file. Give a folder" in file.err
    assert "updating" not in refused.err + file.err
    fixtures = write(tmp_path / "f.csv", [("2021-06-01", "Ada", "Zoë")], ("date", "home", "away"))
    options = ("-o", tmp_path / "next", "--fixtures", fixtures, "--title", "Next")
    unknown = run("update", model, league.later, *options)
    assert (unknown.code, list((tmp_path / "next").iterdir())) == (2, [])
    assert "`--second` (column 'away') is 'Zoë', an unknown competitor" in unknown.err
    assert run("update", model, league.later, *options, "--allow-unknown").code == 0
    assert (tmp_path / "model.jaxkick").read_bytes() == before
    assert pd.read_csv(tmp_path / "next" / "forecasts.csv")["away"].tolist() == ["Zoë"]
    grown = jk.load(tmp_path / "next" / "model.jaxkick")
    assert len(grown.data) == SIZE + 6


def test_codes_words_and_winners_in_a_file(tmp_path):
    # Of the size and with the columns of the other league, for the same programs.
    sides = [row[:3] for row in play(SIZE)]
    codes = [("1", "0.5", "0")[place % 3] for place in range(SIZE)]
    chess = write(
        tmp_path / "chess.csv",
        [[*side, code] for side, code in zip(sides, codes, strict=True)],
        ("date", "white", "black", "points"),
    )
    columns = ("--time", "date", "--first", "white", "--second", "black", "--outcome", "points")
    refused = run("fit", chess, *columns, "-o", tmp_path / "out")
    assert refused.code == 1
    assert "`--outcome` holds only 0, 0.5 and 1" in refused.err
    assert "what the values mean with `--win 1 --tie 0.5 --loss 0`" in refused.err
    coded = (*columns, "--home", "--win", 1, "--tie", 0.5, "--loss", 0, "--max-steps", 1)
    ran = run("fit", chess, *coded, "-o", tmp_path / "out")
    assert "outcome  +1 (16), 0 (16), -1 (16)" in ran.err
    later = [["2030-01-01", "Ada", "Ben", "1"], ["2030-01-02", "Ada", "Ben", "0"]]
    later = write(tmp_path / "later.csv", later, ("date", "white", "black", "points"))
    assert run("update", tmp_path / "out", later).code == 0
    data = jk.load(tmp_path / "out" / "model.jaxkick").data
    assert data.observations.outcome[-2:].tolist() == [1, -1]


def test_formulas_in_csv_are_harmless_and_a_failed_plot_is_noted(tmp_path, monkeypatch):
    def fail(*args, **options):
        raise ValueError("no such symbol")

    monkeypatch.setattr(jk.plotting, "scores", fail)
    names = {"Ada": '=HYPERLINK("http://x")', "Ben": "@SUM(1)", "Cleo": "-1+2", "Dan": "$x^{$"}
    rows = [[names.get(cell, cell) for cell in row] for row in play(SIZE)]
    results = write(tmp_path / "results.csv", rows)
    ran = run("fit", results, *OPTIONS, "-o", tmp_path / "out", "--max-steps", 1, "--format", "csv")
    assert "note: no plot was written (ValueError: no such symbol)." in ran.err
    assert (tmp_path / "out" / "report.html").stat().st_size > 0
    files = [
        (tmp_path / "out" / f"{name}.csv").read_text() for name in ("leaderboard", "forecasts")
    ]
    for text in (ran.out, *files):
        cells = [cell for row in csv.DictReader(io.StringIO(text)) for cell in row.values()]
        assert not [cell for cell in cells if cell.startswith(("=", "@", "-1+"))]
    assert "'=HYPERLINK" in ran.out
    assert "$x^{$" in ran.out


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


def test_compare(league, posterior):
    options = ("--kernel", "wiener", "--start", "2020-12-01", "--format", "json")
    ran = run("compare", league.results, *OPTIONS, *options)
    assert ran.code == 0, ran.err
    data = posterior.data
    models = {"wiener": jk.suggest_model(data, kernel=jk.kernels.Wiener)}
    (expected,) = jk.compare_models(models, data, start="2020-12-01")
    (record,) = json.loads(ran.out)
    assert record["model"] == "wiener"
    assert record["log_evidence"] == pytest.approx(expected.log_evidence, abs=1e-6)
    assert record["log_loss"] == pytest.approx(expected.log_loss.value, abs=1e-6)


def test_fit_with_a_search(league, tmp_path):
    # The budget is for the first two candidates only.
    options = ("--discover", "--budget", "0.001", "--output", tmp_path / "found")
    ran = run("fit", league.results, *OPTIONS, *options)
    assert ran.code == 0, ran.err
    assert "The search stopped at its budget after 2 candidates" in ran.err
    candidates = pd.read_csv(tmp_path / "found" / "models.csv")
    usual = "Constant + Matern12"
    names = {"skill: Constant; home: Constant", f"skill: {usual}; home: {usual}"}
    assert set(candidates["model"]) == names
    saved = jk.load(tmp_path / "found" / "model.jaxkick")
    constant = isinstance(saved.model.kernel["skill"], jk.kernels.Constant)
    assert constant == (candidates["model"][0] == "skill: Constant; home: Constant")


def test_evaluate_reports_missing_convergence(league):
    options = ("--start", "2020-12-01", "--every", "month", "--max-steps", 1, "--format", "json")
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
        scores = posterior.scores(row["name"], joint=False)
        place = int(np.argmax(scores.mean))
        variance = posterior.covariance([row["name"]], scores.times[place])[0, 0]
        assert row["rating"] == pytest.approx(1500 + factor * float(scores.mean[place]), rel=1e-6)
        reach = 1.6448536 * factor * np.sqrt(variance)
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


def test_simulate_agrees_with_python(league, posterior, tmp_path):
    folder = tmp_path / "season"
    options = ("--since", "2021-01-01", "--draws", 500, "--seed", 3, "--zone", "last=-1")
    command = ("simulate", league.folder, "--fixtures", league.later)
    ran = run(*command, *options, "-o", folder, "--format", "json")
    assert ran.code == 0, ran.err
    assert "equal points are decided by head_to_head, random" in ran.err
    rest = pd.DataFrame(play(SIZE + 6)[SIZE:], columns=["date", "home", "away", "h", "a"])
    played = pd.read_csv(league.results).query("date >= '2021-01-01'")
    saved = jk.load(league.folder / "model.jaxkick")
    simulated = saved.simulate(rest, 500, seed=3)
    expected = jk.simulation.league_table(played, simulated, zones={"last": 5}, seed=3)
    agree(json.loads(ran.out), pd.DataFrame(expected.columns()))
    assert {path.name for path in folder.iterdir()} == {"season.csv", "matches.csv", "places.png"}
    season = pd.read_csv(folder / "season.csv")
    np.testing.assert_allclose(season["place_2"], expected.probabilities[:, 1])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--points", "3/1"), "--points is '3/1'. Write WIN/TIE/LOSS"),
        (("--zone", "last=x"), "--zone is 'last=x'. Write NAME=PLACES"),
        (("--since", "2030-01-01"), "--since is '2030-01-01', but the last match of the model"),
        (("--zone", "last=20-30", "--draws", 1), "`--zone` is (20, 30), but must be a place"),
        (("--tie-breaker", "goals", "--draws", 1), "`--tie-breaker` has 'goals', but"),
    ],
)
def test_simulate_refuses(league, options, message):
    ran = run("simulate", league.folder, "--fixtures", league.later, *options)
    # Options that cannot be read are wrong usage; values that the data refuses are not.
    assert ran.code == (1 if "--draws" in options else 2)
    assert message in ran.err
