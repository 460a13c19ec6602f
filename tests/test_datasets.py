"""The data that comes with the package."""

import numpy as np

from jaxkick.datasets import load_bundesliga


def test_all_matches_of_the_bundesliga_are_there():
    matches = load_bundesliga()
    assert {len(column) for column in matches.values()} == {14_018}
    assert str(matches["date"][0]) == "1963-08-24"
    assert str(matches["date"][-1]) == "2009-05-23"
    assert np.all(np.diff(matches["date"]) >= np.timedelta64(0, "D"))
    assert len(np.unique(matches["home"])) == len(np.unique(matches["away"])) == 52
    assert np.all(matches["result"] == np.sign(matches["home_goals"] - matches["away_goals"]))
