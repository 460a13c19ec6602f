"""The development data: in the folder of JAXKICK_DATA, or beside the repository."""

import os
from pathlib import Path

import pytest

from jaxkick.datasets import FOLDER_VARIABLE

_BESIDE = Path(__file__).resolve().parents[2] / "shared" / "data"


def shared_data(name: str = "") -> Path:
    """The path of a file, or of the folder; skips the test where it is not."""
    path = Path(os.environ.get(FOLDER_VARIABLE) or _BESIDE, name)
    if not path.exists():
        pytest.skip(f"{path} is not there: put the development data there or set {FOLDER_VARIABLE}")
    return path
