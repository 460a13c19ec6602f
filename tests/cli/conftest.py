"""A small league in a file, and one fit of it that all tests of commands share."""

import csv
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from typer.testing import CliRunner

from jaxkick.cli.app import app

COLUMNS = ("date", "home", "away", "home_goals", "away_goals")
OPTIONS = (
    *("--time", "date", "--first", "home", "--second", "away"),
    *("--score-first", "home_goals", "--score-second", "away_goals", "--home"),
)
# With all later matches still at most 64, so that updates use the programs of the fit.
SIZE = 48


class Ran(NamedTuple):
    """The exit code and output of a command."""

    code: int
    out: str
    err: str


def run(*arguments: object) -> Ran:
    """Run a command in this process."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Ran(result.exit_code, result.stdout, result.stderr)


def write(path: Path, rows: list, header: tuple = COLUMNS, delimiter: str = ",") -> Path:
    """A table as a file."""
    with open(path, "w", newline="", encoding="utf-8") as file:
        csv.writer(file, delimiter=delimiter).writerows([header, *rows])
    return path


def play(count: int) -> list[list]:
    """Matches of five teams, one every nine days."""
    random = np.random.default_rng(7)
    teams, skill = ["Ada", "Ben", "Cleo", "Dan", "Köln, 1. FC"], [0.6, 0.3, 0.0, -0.3, -0.6]
    rows = []
    for number in range(count):
        one, other = random.choice(5, 2, replace=False)
        edge = skill[one] - skill[other] + 0.2
        goals = random.poisson(1.5 * np.exp([0.5 * edge, -0.5 * edge]))
        date = np.datetime64("2020-01-04") + 9 * number
        rows.append([str(date), teams[one], teams[other], *map(int, goals)])
    return rows


class League(NamedTuple):
    """A league on the disk: its first matches, those after them, and the fit of the first."""

    results: Path
    later: Path
    folder: Path
    ran: Ran


@pytest.fixture(scope="session")
def league(tmp_path_factory) -> League:
    place = tmp_path_factory.mktemp("league")
    rows = play(SIZE + 6)
    results = write(place / "results.csv", rows[:SIZE])
    later = write(place / "later.csv", rows[SIZE:], delimiter=";")
    ran = run("fit", results, *OPTIONS, "-o", place / "fit", "--format", "json")
    return League(results, later, place / "fit", ran)
