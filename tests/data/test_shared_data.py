"""The NBA and ATP files, where they are at hand."""

import numpy as np
import pandas as pd
import pytest

from jaxkick.data import Dataset
from tests.shared_data import shared_data


def read(name):
    return pd.read_csv(shared_data(name))


def padding(data):
    return [1 - np.mean(np.asarray(chain.source) < data.slots.size) for chain in data.chains]


def test_nba():
    games = read("nba_games.csv.gz")
    games["won"] = games.score1 > games.score2
    data = Dataset.from_frame(games, time="date", first="team1", second="team2", outcome="won")
    assert (len(data), data.num_features) == (67_642, 102)
    assert data.index.num_entries == 135_284
    (chain,) = data.chains
    assert int(np.sum(np.asarray(chain.source) < data.slots.size)) == 135_284
    assert chain.linked
    assert padding(data)[0] < 0.01
    assert int(chain.first.sum()) - (chain.first.size - 135_284) == 102
    assert "1946-11-01 to 2018-12-31, in years" in repr(data)
    assert "+1 (41,961), -1 (25,681)" in repr(data)
    lakers = data.entries("LAL")
    own = games.index[(games.team1 == "LAL") | (games.team2 == "LAL")]
    np.testing.assert_array_equal(lakers.observations, own)
    assert data.index.to_time("2018-12-25") == 1970 + 17890 / 365.25


def test_nba_with_home_advantage():
    games = read("nba_games.csv.gz")
    games["home"] = 1 - games.neutral
    data = Dataset.from_frame(
        games,
        time="date",
        first="team1",
        second="team2",
        covariates={"home": "home"},
        groups={"home": "home"},
    )
    assert data.index.groups == ("home", "skill")
    assert len(data.entries("home").times) == games.home.sum()
    # Sizes are rounded up, so that data sets of similar sizes share compiled programs.
    assert max(padding(data)) < 0.02


def test_atp():
    matches = read("tennis_atp_matches.csv.gz")
    columns = {"time": "date", "first": "winner_id", "second": "loser_id"}
    message = r"Row 248056: the same competitor is on both sides \(4 rows affected\)"
    with pytest.raises(ValueError, match=message):
        Dataset.from_frame(matches, **columns)
    with pytest.warns(
        UserWarning, match="Dropped 4 of 625,848 rows: 4 because the same competitor"
    ):
        data = Dataset.from_frame(matches, **columns, on_invalid="drop")
    assert (len(data), data.num_features) == (625_844, 20_180)
    assert data.index.num_entries == 1_251_688
    assert not data.chains[0].linked
    assert padding(data)[0] < 0.001
    assert data.index.counts.max() == 1456
