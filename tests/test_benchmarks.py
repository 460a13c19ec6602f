"""Quick runs of the benchmark scripts that compare models and rating systems."""

import dataclasses
import importlib
import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.shared_data import shared_data

# The scripts import each other by name, as they do when they are run.
sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))

import rival_systems
import rivals

import jaxkick as jk
from jaxkick.learning.objective import named_values

# The others are not among the development packages.
HERE = [
    "jaxkick", "jaxkick, goals", "kickscore", "TrueSkill Through Time", "TrueSkill", "Elo",
    "shares of results",
]  # fmt: skip


def simulate(count=240, ties=True):
    """Matches of six competitors, the later in the alphabet the better, with a home advantage."""
    rng = np.random.default_rng(0)
    first = rng.integers(0, 6, count)
    second = (first + rng.integers(1, 6, count)) % 6
    home = rng.integers(0, 2, count)
    goals = rng.poisson(np.exp(0.3 + 0.3 * (first - second + 1.5 * home)))
    others = rng.poisson(np.exp(0.3 + 0.3 * (second - first)))
    others = others + (goals == others) * (not ties)
    names = np.array(list("abcdef"))
    return pd.DataFrame(
        {
            "day": np.arange(count) * 3,
            "first": names[first],
            "second": names[second],
            "points": (np.sign(goals - others) + 1.0) / 2.0,
            "home": home,
            "goals1": goals,
            "goals2": others,
        }
    )


@pytest.mark.parametrize("name", HERE)
def test_every_system_predicts_better_than_chance(name):
    matches, kind = simulate(), rival_systems.SYSTEMS[name]
    known, test = matches[:160], matches[160:]
    parameters = {key: values[len(values) // 2] for key, values in kind.GRID.items()}
    system = kind(True, **parameters)
    system.davidson = 0.5
    system.observe(known)
    found = rivals.forecast(system, test, np.array([0, 1]).repeat(40))
    np.testing.assert_allclose(found.sum(axis=1), 1.0, atol=1e-6)
    chance = np.log(3.0)
    assert np.mean(rivals.losses(found, test.points.to_numpy())) < chance - 0.05
    # Home and away change sides.
    turned = test.assign(first=test["second"], second=test["first"], home=0, points=0.5)
    level = test.assign(home=0)
    if name != "shares of results":
        np.testing.assert_allclose(
            system.predict(level), system.predict(turned)[:, ::-1], atol=1e-6
        )
        stronger = np.mean(system.predict(test.assign(home=1))[:, 2])
        assert stronger > np.mean(system.predict(level)[:, 2]) + 0.02


def test_a_file_in_the_format_of_esportsbench(tmp_path):
    matches = simulate()
    dates = np.datetime64("2024-01-01") + matches.day.to_numpy()
    table = {"date": dates, "competitor_1": matches["first"], "competitor_2": matches["second"]}
    table = pd.DataFrame(table | {"outcome": matches.points})
    path = tmp_path / "game.csv"
    table.sample(frac=1.0, random_state=0).to_csv(path, index=False)
    task = rivals.read_file(str(path), "2025-06-01", "2025-11-30", days=7)
    assert task.matches.day.is_monotonic_increasing
    assert np.unique(task.blocks(task.matches), return_counts=True)[1].max() == 3
    stored = tmp_path / "Elo.npz"
    rivals.run_cell(task, "monthly", "Elo", stored)
    found = rivals.measure(task, "monthly", stored, stored)
    tested = (dates >= np.datetime64("2025-06-01")) & (dates <= np.datetime64("2025-11-30"))
    assert found["matches"] == np.sum(tested)
    assert found["log_loss"] < np.log(3.0)
    assert found["difference"][0] == 0.0
    assert found["davidson"] > 0.0
    np.testing.assert_allclose(found["slope"], 1.0, atol=0.8)
    assert found["version"] == "own code"
    # Means over files count those that a system has a result for.
    files = [{"monthly": {"Elo": {"log_loss": loss, "points_loss": loss / 2}}} for loss in (1, 2)]
    files.append({"monthly": {"Elo": {"failure": "more than 5 s of processor time"}}})
    mean = rivals.average(files, "monthly", "Elo")
    assert mean == "log loss 1.5000, of expected points 0.7500, in 2 of 3 files"


def test_failures_are_kept_and_not_run_again(tmp_path, monkeypatch, capsys):
    matches = simulate()
    dates = np.datetime64("2024-01-01") + matches.day.to_numpy()
    table = {"date": dates, "competitor_1": matches["first"], "competitor_2": matches["second"]}
    pd.DataFrame(table | {"outcome": 7.0}).to_csv(tmp_path / "wrong.csv", index=False)
    options = ["run", "--file", str(tmp_path / "wrong.csv"), "--start", "2025-06-01"]
    options += ["--systems", "shares of results", "--protocols", "frozen"]
    monkeypatch.setattr(sys, "argv", ["rivals.py", *options, "--store", str(tmp_path / "store")])
    before = rivals.RESULTS.read_text()
    rivals.main()
    assert "IndexError" in capsys.readouterr().out
    monkeypatch.delattr(rivals, "start_cell")
    rivals.main()
    assert "frozen shares of results no result" in capsys.readouterr().out
    assert rivals.RESULTS.read_text() == before


def test_systems_do_the_tasks_that_they_are_made_for():
    nba = rivals.Task("NBA", simulate(), 500)
    assert rivals.can_do("jaxkick, goals", "nba", nba, "monthly")
    assert rivals.can_do("kickscore", "nba", nba, "frozen")
    assert not rivals.can_do("kickscore", "nba", nba, "monthly")
    assert not rivals.can_do("pi ratings", "nba", nba, "frozen")
    assert rivals.can_do("pi ratings", "football", nba, "frozen")
    games = nba._replace(matches=nba.matches.drop(columns=["goals1", "goals2"]))
    assert not rivals.can_do("jaxkick, goals", "starcraft", games, "frozen")
    assert rivals.can_do("choix", "starcraft", games, "frozen")
    assert not rivals.can_do("choix", "nba", games, "frozen")
    assert not rivals.can_do("Elo", "starcraft", games, "monthly")


CELL = {
    "log_loss": 0.6, "accuracy": 0.6, "rps": 0.2, "slope": 1.0, "matches": 9, "lines": 20,
    "version": "x 1", "machine": "m", "date": "2026-11-18",
    "costs": {"tuning": 1.0, "rest": 1.0, "megabytes": 1.0},
}  # fmt: skip


def test_the_page_names_losses_first():
    cell = CELL
    cells = {
        "jaxkick": cell | {"difference": [0.0, 0.0, 0.0]},
        "better": cell | {"difference": [-0.02, -0.03, -0.01], "log_loss": 0.58},
        "level": cell | {"difference": [0.001, -0.001, 0.003]},
        "lower": cell | {"difference": [-0.001, -0.003, 0.001], "log_loss": 0.599},
        "worse": cell | {"difference": [0.02, 0.01, 0.03]},
        "slow": {
            "failure": "more than 5 s of processor time",
            "version": "y 2",
            "lines": 3,
            "machine": "m",
            "date": "2026-11-19",
        },
    }
    lines = rivals.list_losses({"nba": {"title": "Chess", "frozen": cells}})
    assert len(lines) == 3
    assert "better is better (-0.0200" in lines[0]
    assert "level is not clearly worse" in lines[1]
    assert "lower is better, but not clearly" in lines[2]
    table = rivals.tabulate("nba", "frozen", cells).splitlines()
    assert [row.split(" (")[0] for row in table[2:5]] == ["| better", "| lower", "| jaxkick"]
    assert "more than 5 s" in table[7]
    assert "jaxkick (x 1, 2026-11-18)" in table[4]
    assert "slow (y 2)" in table[7]
    assert table[9] == (
        "9 matches; m, 2026-11-18 to 2026-11-19; "
        "`python benchmarks/rivals.py run --tasks nba --protocols frozen`."
    )


def test_the_page_compares_processor_times():
    tasks = [
        {"frozen": {name: CELL | {"costs": {"tuning": 1.0, "rest": seconds}}
                    for name, seconds in times.items()}}
        for times in ({"jaxkick": 9, "Elo": 1}, {"jaxkick": 7, "Elo": 3, "slow": 8},
                      {"jaxkick": 11, "Elo": 2})
    ]  # fmt: skip
    tasks[2]["frozen"]["failed"] = {"failure": "more than 5 s of processor time"}
    told = rivals.tell_costs(dict(enumerate(tasks)))
    assert "in 1 of 3 tables: 8 to 12 s, and Elo 2 to 4 s" in told


def test_the_page_names_parameters_at_an_end_of_their_grid():
    cells = {
        "Elo": {"parameters": {"rate": 6, "home": 0}},
        "Glicko-2": {"parameters": {"deviation": 150, "volatility": 0.06, "home": 50}},
        "openskill": {"parameters": {"model": "PlackettLuce", "sigma": 3.0, "tau": 0.005}},
        "kickscore": {"failure": "more than 5 s of processor time"},
    }
    assert rivals.list_edges(cells) == [
        "Chosen at an end of the grid: Elo (rate 6), openskill (sigma 3).\n"
    ]
    del cells["Elo"], cells["openskill"]
    assert rivals.list_edges(cells) == []


def test_the_page_names_losses_on_votes():
    measures = ("in_sample", "new_votes", "new_pairs")
    votes = {
        name: dict.fromkeys(measures, loss) | {"seconds": 1.0, "machine": "m", "date": "d"}
        for name, loss in [("jaxkick", 1.03), ("jaxkick, logit", 1.01), ("a", 1.0), ("b", 1.02),
                           ("c", 1.04)]
    }  # fmt: skip
    votes["jaxkick, slow"] = {"failure": "more than 5 s", "machine": "m", "date": "d"}
    votes["mixed"] = votes["a"] | {"new_pairs": 1.05}
    assert rivals.list_vote_losses(votes) == [
        "- Votes on language models: a is better than all models of jaxkick with a result.",
        "- Votes on language models: b is better than *jaxkick*.",
    ]
    table = rivals.tabulate_votes(votes).splitlines()
    assert [row.split(" | ")[0] for row in table[2:4]] == ["| a", "| mixed"]
    assert "more than 5 s" in table[8]


@pytest.mark.parametrize(
    ("name", "file"),
    [("nba", "nba_games"), ("atp", "tennis_atp_matches"), ("football", "football_international")],
)
def test_candidates_of_the_best_models_can_be_built(name, file):
    shared_data(f"{file}.csv.gz")
    contest = importlib.import_module(f"best_{name}").CONTEST
    games = contest.read(contest.validation, contest.test).iloc[:300].reset_index(drop=True)
    assert contest.chosen in contest.ideas
    for make in contest.ideas.values():
        candidate = make(games)
        kernel, groups = candidate.model.kernel, candidate.data.index.groups
        assert set(groups) <= (set(kernel) if isinstance(kernel, dict) else {"skill"})


def test_learnt_models_are_kept_for_others(tmp_path, monkeypatch):
    shared_data("nba_games.csv.gz")
    best_models = importlib.import_module("best_models")
    contest = dataclasses.replace(
        best_models.CONTESTS["nba"], since="1978-07-01", test="1978-12-01"
    )
    monkeypatch.setattr(best_models, "RESULTS", tmp_path / "best_models.json")
    best_models.learn_chosen("nba", contest)
    kept = json.loads((tmp_path / "best_models.json").read_text())["nba"]["learnt"]
    assert kept["first"] >= "1978-07-01"
    assert kept["last"] < "1978-12-01"
    check_learnt(kept)
    start = contest.ideas[contest.chosen](contest.read(contest.since, contest.test)).model
    assert kept["parameters"]["likelihood.variance"] != float(start.likelihood.variance)


def check_learnt(kept):
    """The expression has the parameters of the list."""
    names = {**vars(jk.kernels), **vars(jk.likelihoods), "Model": jk.Model}
    model = eval(kept["model"], names)
    values = named_values(model)
    assert set(values) == set(kept["parameters"])
    for name, value in values.items():
        np.testing.assert_allclose(value, kept["parameters"][name], rtol=0.01)


def test_the_file_of_best_models_has_learnt_models():
    results = json.loads(importlib.import_module("best_models").RESULTS.read_text())
    kept = [sport["learnt"] for sport in results.values() if "learnt" in sport]
    assert kept
    for each in kept:
        check_learnt(each)
