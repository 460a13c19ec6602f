"""The notebooks run from top to bottom."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "notebooks"
DATA = Path(os.environ.get("JAXKICK_DATA", FOLDER.parents[1] / "shared" / "data"))


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.ipynb")), ids=lambda path: path.stem)
def test_runs(path):
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    cells = json.loads(path.read_text())["cells"]
    code = "\n\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    if "JAXKICK_DATA" in code and not DATA.exists():
        pytest.skip(f"{DATA} is not on this machine; the notebook needs the development data")
    subprocess.run(
        [sys.executable, "-c", code],
        cwd=FOLDER,
        env={**os.environ, "MPLBACKEND": "Agg"},
        check=True,
        stdout=subprocess.DEVNULL,
    )
