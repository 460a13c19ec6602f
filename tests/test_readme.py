"""The README's examples run as they stand."""

import matplotlib
import pytest

from tests.docs.pages import ROOT, run_page


def test_the_examples_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    matplotlib.use("Agg")
    names = run_page(ROOT / "README.md")
    match = names["match"]
    assert match.p_win > match.p_loss
    assert float(match.p_win + match.p_tie + match.p_loss) == pytest.approx(1.0)
    assert (tmp_path / "scores.png").exists()
