"""The README's examples run as they stand."""

import matplotlib
import pytest

from tests.docs.pages import ROOT, run_page


def test_the_examples_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    matplotlib.use("Agg")
    names = run_page(ROOT / "README.md")
    assert names["win"] > names["loss"]
    assert float(names["win"] + names["tie"] + names["loss"]) == pytest.approx(1.0)
    assert (tmp_path / "scores.png").exists()
