"""The examples of the migration page run and give the results on the page."""

import math

import numpy as np
import pytest

from tests.docs.pages import GUIDE, run_page


def test_the_examples_run():
    names = run_page(GUIDE / "migration.md")
    assert names["converged"]
    assert 0.5 < names["p_win"] < 1.0
    assert len(names["times"]) == 3
    assert len(names["history"].learning_curves()) == 4
    for place, (time, skill) in enumerate(names["curve"]):
        assert names["ben"].times[place] == time
        assert names["ben"].mean[place] == pytest.approx(skill.mu, abs=1e-3)
        assert math.sqrt(names["ben"].variance[place]) == pytest.approx(skill.sigma, abs=1e-3)
    assert names["parameters"]["p_draw"] == pytest.approx(0.1)
    assert names["ratings"]["a"] > 1000 > names["ratings"]["b"]
    np.testing.assert_allclose(names["elo"], 400 / math.log(10), rtol=1e-6)
