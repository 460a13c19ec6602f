"""Quick runs of the benchmark scripts that compare models and rating systems."""

import importlib
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
    task = rivals.read_file(str(path), "2025-06-01")
    assert task.matches.day.is_monotonic_increasing
    stored = tmp_path / "Elo.npz"
    rivals.run_cell(task, "monthly", "Elo", stored)
    found = rivals.measure(task, "monthly", stored, stored)
    assert found["matches"] == np.sum(dates >= np.datetime64("2025-06-01"))
    assert found["log_loss"] < np.log(3.0)
    assert found["difference"][0] == 0.0
    assert found["davidson"] > 0.0
    np.testing.assert_allclose(found["slope"], 1.0, atol=0.8)


def test_the_page_names_losses_first():
    cell = {"log_loss": 0.6, "accuracy": 0.6, "rps": 0.2, "slope": 1.0, "matches": 9, "lines": 20,
            "version": "x 1", "machine": "m", "date": "d",
            "costs": {"tuning": 1.0, "rest": 1.0, "megabytes": 1.0}}  # fmt: skip
    cells = {
        "jaxkick": cell | {"difference": [0.0, 0.0, 0.0]},
        "better": cell | {"difference": [-0.02, -0.03, -0.01], "log_loss": 0.58},
        "level": cell | {"difference": [0.001, -0.001, 0.003]},
        "worse": cell | {"difference": [0.02, 0.01, 0.03]},
        "slow": {"failure": "more than 5 s of processor time", "version": "y 2"},
    }
    lines = rivals.list_losses({"nba": {"title": "Chess", "frozen": cells}})
    assert len(lines) == 3
    assert "better is better (-0.0200" in lines[0]
    assert "level is not clearly worse" in lines[1]
    table = rivals.tabulate("nba", cells).splitlines()
    assert [row.split(" (")[0] for row in table[2:4]] == ["| better", "| jaxkick"]
    assert "more than 5 s" in table[6]


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
