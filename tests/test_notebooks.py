"""The notebooks run from top to bottom, on a part of their data to save time."""

import json
from pathlib import Path

import matplotlib
import numpy as np
import pandas as pd
import pytest

import jaxkick as jk
from jaxkick import datasets
from tests.shared_data import shared_data

FOLDER = Path(__file__).parents[1] / "notebooks"


def _bundesliga():
    """Six seasons, the last of which notebooks predict."""
    matches = datasets.loaders.load_bundesliga()
    last = matches["date"] >= np.datetime64("2003-07-01")
    return {name: column[last] for name, column in matches.items()}


def _nba(path):
    """Every sixteenth game."""
    pd.read_csv(shared_data("nba_games.csv.gz"))[::16].to_csv(path, index=False)


def _formula1(path):
    """Every fourth race, and the last one."""
    results = pd.read_csv(shared_data("formula1.csv.gz"))
    dates = results["date"].unique()
    results[results["date"].isin([*dates[::4], dates[-1]])].to_csv(path, index=False)


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.ipynb")), ids=lambda path: path.stem)
def test_runs(path, tmp_path, monkeypatch):
    cells = json.loads(path.read_text())["cells"]
    code = "\n\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    monkeypatch.chdir(FOLDER)
    monkeypatch.setattr(datasets, "load_bundesliga", _bundesliga)
    if "load_nba" in code:
        _nba(tmp_path / "nba_elo.csv")
        monkeypatch.setenv(datasets.FOLDER_VARIABLE, str(tmp_path))
    if "formula1.csv.gz" in code:
        _formula1(tmp_path / "formula1.csv.gz")
        monkeypatch.setenv(datasets.FOLDER_VARIABLE, str(tmp_path))
    if "jk.discover(" in code:
        few = {"terms": ["Constant", "Wiener"]}
        search = jk.discover
        monkeypatch.setattr(
            jk, "discover", lambda *given, **options: search(*given, **options | few)
        )
    matplotlib.use("Agg")
    exec(compile(code, str(path), "exec"), {"__name__": path.stem})
    matplotlib.pyplot.close("all")
