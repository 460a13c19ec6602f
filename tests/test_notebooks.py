"""The notebooks run from top to bottom."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from jaxkick.datasets import FOLDER_VARIABLE
from tests.shared_data import shared_data

FOLDER = Path(__file__).parents[1] / "notebooks"


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.ipynb")), ids=lambda path: path.stem)
def test_runs(path, tmp_path):
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    cells = json.loads(path.read_text())["cells"]
    code = "\n\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    environment = {**os.environ, "MPLBACKEND": "Agg"}
    if "load_nba" in code:
        (tmp_path / "nba_elo.csv.gz").symlink_to(shared_data("nba_games.csv.gz"))
        environment[FOLDER_VARIABLE] = str(tmp_path)
    if "formula1.csv.gz" in code:
        environment[FOLDER_VARIABLE] = str(shared_data("formula1.csv.gz").parent)
    subprocess.run(
        [sys.executable, "-c", code],
        cwd=FOLDER,
        env=environment,
        check=True,
        stdout=subprocess.DEVNULL,
    )
