"""Rankings on the command line: races in a file, with sides that did not finish."""

import json
import re

import jax
import numpy as np
import pandas as pd
import pytest

import jaxkick as jk
from jaxkick.cli.inputs import read_dataset
from jaxkick.cli.options import Columns, Reading, Unplaced

from .conftest import run, write

HEADER = ("date", "race", "driver", "position", "team")
COLUMNS = ("--time", "date", "--event", "race", "--competitor", "driver", "--rank", "position")
OPTIONS = (*COLUMNS, "--feature", "car=team")
CARS = {"Ada": "Volt", "Ben": "Apex", "Cleo": "Volt", "Dan": "Apex"}


def race(number, order, words=("DNF",)):
    """The rows of a race; drivers who are not in the order did not finish."""
    date = str(np.datetime64("2024-03-02") + 7 * number)
    places = {driver: str(place) for place, driver in enumerate(order, start=1)}
    missing = [driver for driver in CARS if driver not in places]
    places |= dict(zip(missing, words * 4, strict=False))
    return [[date, f"R{number}", *each, CARS[each[0]]] for each in places.items()]


@pytest.fixture(scope="module")
def races(tmp_path_factory):
    place = tmp_path_factory.mktemp("races")
    orders = ["Ada Ben Cleo Dan", "Ben Ada Cleo", "Ada Cleo Ben Dan", "Cleo Ada Dan", "Ada Ben Dan"]
    rows = [row for number in range(10) for row in race(number, orders[number % 5].split())]
    results = write(place / "races.csv", rows, HEADER)
    write(place / "later.csv", race(10, ["Dan", "Ada"], ("", "Ret")), HEADER)
    write(place / "entries.csv", [row[:3] + row[4:] for row in race(11, ["Dan", "Ben", "Ada"])[:3]],
          ("date", "race", "driver", "team"))  # fmt: skip
    ran = run("fit", results, *OPTIONS, "-o", place / "fit", "--format", "json")
    assert ran.code == 0, ran.err
    return place, ran


@pytest.fixture(scope="module")
def posterior(races):
    return jk.load(races[0] / "fit" / "model.jaxkick")


def test_fit(races, posterior):
    place, ran = races
    data = jk.Dataset.from_rankings(
        pd.read_csv(place / "races.csv"),
        time="date", event="race", competitor="driver", rank="position", features={"car": "team"},
    )  # fmt: skip
    for name in ("times", "features", "outcome", "events"):
        found, wanted = (getattr(each.observations, name) for each in (posterior.data, data))
        np.testing.assert_array_equal(found, wanted)
    assert posterior.data.names == data.names
    board = posterior.leaderboard(scale="elo")
    assert [row["name"] for row in json.loads(ran.out)] == list(board["name"])
    assert "Dataset of 40 observations in 10 events and 6 features" in ran.err
    pairs = pd.read_csv(place / "fit" / "forecasts.csv")
    row = pairs.iloc[0]
    with jax.enable_x64(True):
        match = posterior.predict(row["first"], row["second"], row["time"])
    assert row["p_win"] == pytest.approx(float(match.p_win))


def test_report(races):
    page = (races[0] / "fit" / "report.html").read_text()
    content = json.loads(re.search(r'id="data">(.*?)</script>', page, re.DOTALL)[1])
    assert content["ranking"] is True
    assert content["matches"] == 10
    assert sorted(content["names"]) == ["Ada", "Ben", "Cleo", "Dan"]
    # The page compares drivers alone; their cars count as zero.
    assert content["covariates"] == []
    assert content["left_out"] == 2
    assert content["forecasts"]["columns"] == ["time", "first", "second", "p_win", "p_loss"]


def test_predict(races, posterior):
    place, _ = races
    ran = run("predict", place / "fit", "--fixtures", place / "entries.csv", "--format", "json")
    rows = json.loads(ran.out)
    with jax.enable_x64(True):
        wanted = posterior.predict_ranking(
            ["Dan", "Ben", "Ada"], "2024-05-18", {"car": ["Apex", "Apex", "Volt"]}
        )
    for name in ("p_win", "p_podium", "expected_rank"):
        found = [row[name] for row in rows]
        np.testing.assert_allclose(found, getattr(wanted, name), rtol=1e-9)
    shown = run("predict", place / "fit", "--fixtures", place / "entries.csv").out
    assert "expected rank" in shown
    assert "100.0%" in shown
    ran = run("predict", place / "fit", "--first", "Ada", "--second", "Ben", "--format", "json")
    with jax.enable_x64(True):
        match = posterior.predict("Ada", "Ben", "2024-05-04")
    assert json.loads(ran.out)[0]["p_win"] == pytest.approx(float(match.p_win))


def test_predict_refuses_unknown_competitors(races):
    place, _ = races
    entries = write(place / "unknown.csv", [["2024-06-01", "X", "Adda", "Volt"]] * 2,
                    ("date", "race", "driver", "team"))  # fmt: skip
    ran = run("predict", place / "fit", "--fixtures", entries)
    assert ran.code == 2
    assert "Line 2" in ran.err
    assert "`--competitor` (column 'driver') is 'Adda', an unknown competitor" in ran.err


def test_update(races):
    place, _ = races
    options = ("--output", place / "next", "--format", "json")
    ran = run("update", place / "fit", place / "later.csv", *options)
    assert ran.code == 0, ran.err
    updated = jk.load(place / "next" / "model.jaxkick")
    assert updated.data.observations.outcome[-4:].tolist() == [1, 2, 0, 0]
    assert all(row["matches"] == 11 for row in json.loads(ran.out))
    ran = run("update", place / "next", place / "later.csv")
    assert ran.code == 1
    assert "pass `--allow-repeats`" in ran.err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            (*COLUMNS, "--first", "driver"),
            "--first is for matches of two sides, but --event is for",
        ),
        ((*COLUMNS, "--home"), "--home is for matches of two sides, but --event is for rankings"),
        ((*COLUMNS, "--as", "counts"), "--as is for matches of two sides"),
        (COLUMNS[:2], "give --first and --second for matches, or --event, --competitor and --rank"),
        (COLUMNS[:4], "rankings need --competitor"),
        (COLUMNS[:6], r"Pass one of `--rank` \(1 is the best\) and `--points` \(more is better\)"),
        ((*COLUMNS, "--points", "position"), "Pass one of `--rank`"),
        ((*COLUMNS[:2], *COLUMNS[4:]), "`--event` is missing. Name the column of events"),
        ((*COLUMNS, "--feature", "team"), "--feature is 'team'. Write NAME=COLUMN"),
        ((*COLUMNS, "--competitor", "team"), "`--event` is given, but a list of columns"),
        (
            (*COLUMNS, "--team", "crew"),
            "--team names the column 'crew', which 'races.csv' does not have",
        ),
    ],
)
def test_wrong_options(races, options, message):
    ran = run("fit", races[0] / "races.csv", *options, "-o", races[0] / "none")
    assert ran.code == 2
    assert re.search(message, ran.err), ran.err


def test_bad_files(races):
    place = races[0]
    twice = write(place / "twice.csv", race(0, ["Ada", "Ben"]) + race(0, ["Ada", "Ben"]), HEADER)
    ran = run("fit", twice, *COLUMNS, "-o", place / "none")
    assert ran.code == 1
    assert "Line 6" in ran.err
    assert "`--competitor` (column 'driver') has 'Ada' twice in the event 'R0'" in ran.err
    assert "pass `--on-invalid drop`" in ran.err
    odd = [["2024-03-02", "R0", "Ada", "first", "Volt"], ["2024-03-02", "R0", "Ben", "2", "Volt"]]
    ran = run("fit", write(place / "odd.csv", odd, HEADER), *COLUMNS, "-o", place / "none")
    assert "`--rank` (column 'position') is 'first'. Write a number, or DNF" in ran.err


def test_one_row_for_each_event_and_dropped_sides(races):
    place = races[0]
    wide = write(place / "wide.csv", [["2024-03-02", "Ada", "Ben", ""]], ("d", "p1", "p2", "p3"))
    schema = Columns(time="d", competitor=["p1", "p2", "p3"]).schema()
    data = read_dataset(wide, Reading(), schema, None, "raise")
    assert data.observations.outcome.tolist() == [1, 2]
    columns = {"time": "date", "event": "date", "competitor": ["driver"], "rank": "position"}
    schema = Columns(**columns, dnf=Unplaced.drop).schema()
    data = read_dataset(place / "races.csv", Reading(), schema, None, "raise")
    assert len(data) == 34
    assert len(set(data.observations.events.tolist())) == 10


def test_evaluate(races):
    options = ("--start", "2024-04-20", "--max-steps", "1", "--format", "json")
    ran = run("evaluate", races[0] / "races.csv", *COLUMNS, *options)
    assert ran.code in (0, 3), ran.err
    found = {(row["model"], row["metric"]): row["value"] for row in json.loads(ran.out)}
    assert found["difference", "events"] == 3
    np.testing.assert_allclose(found["chance", "log_loss"], np.log(4))
    np.testing.assert_allclose(found["chance", "pairwise_accuracy"], 0.5)
    difference = found["jaxkick", "log_loss"] - found["chance", "log_loss"]
    np.testing.assert_allclose(found["difference", "log_loss"], difference)
