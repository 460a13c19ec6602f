"""Public data: the set in the package, files of the sources, folders and the download cache."""

import gzip

import numpy as np
import pooch
import pytest

import jaxkick as jk
from jaxkick import datasets

NBA = """date,season,neutral,playoff,team1,team2,elo1_pre,elo_prob1,score1,score2
1946-11-02,1947,0,,DTF,WSC,1300.0,0.64,33,50
1946-11-01,1947,1,q,TRH,NYK,1300.0,0.50,66.0,68.0
2030-01-01,2030,0,,LAL,BOS,1500.0,0.55,,
"""
FOOTBALL = """date,home_team,away_team,home_score,away_score,tournament,city,country,neutral
1872-11-30,Scotland,England,0,0,Friendly,Glasgow,Scotland,FALSE
1873-03-08,England,"Wales, too",4,2,Friendly,London,England,TRUE
2030-06-11,Brazil,Chile,NA,NA,FIFA World Cup,Rio,Brazil,FALSE
"""
ATP = """tourney_id,surface,tourney_date,winner_id,winner_name,loser_id,loser_name
1,Hard,{year}0115,1,Ann,2,Ben
1,Clay,{year}0101,2,Ben,3,Cid
"""
STARCRAFT = """numPlayers: 3
Player0: sOs
Player1: a: b
Player2: qxc
numGames: 3
0:1 0:1
1:2 1:0
0:2 2:1
"""


@pytest.mark.quick
def test_bundesliga_is_complete():
    matches = datasets.load_bundesliga()
    assert {len(column) for column in matches.values()} == {14_018}
    assert str(matches["date"][0]) == "1963-08-24"
    assert str(matches["date"][-1]) == "2009-05-23"
    assert np.all(np.diff(matches["date"]) >= np.timedelta64(0, "D"))
    assert len(np.unique(matches["home"])) == len(np.unique(matches["away"])) == 52
    assert np.all(matches["result"] == np.sign(matches["home_goals"] - matches["away_goals"]))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.delenv(datasets.FOLDER_VARIABLE, raising=False)
    (tmp_path / "nba_elo.csv").write_text(NBA)
    (tmp_path / "results.csv.gz").write_bytes(gzip.compress(FOOTBALL.encode()))
    (tmp_path / "atp_matches_2001.csv").write_text(ATP.format(year=2001))
    (tmp_path / "atp_matches_futures_2000.csv").write_text(ATP.format(year=2000))
    (tmp_path / "WoL.txt").write_text(STARCRAFT)
    return tmp_path


@pytest.mark.quick
def test_formats_of_the_sources(folder):
    nba = datasets.load_nba(folder)
    assert nba["team1"].tolist() == ["TRH", "DTF"]
    assert nba["neutral"].tolist() == nba["playoff"].tolist() == [True, False]
    assert nba["score2"].tolist() == [68, 50]
    football = datasets.load_football(str(folder))
    assert football["away_team"].tolist() == ["England", "Wales, too"]
    assert football["neutral"].tolist() == [False, True]
    tour = datasets.load_atp(folder, years=[2001], levels=["tour"])
    assert tour["date"].astype(str).tolist() == ["2001-01-01", "2001-01-15"]
    assert tour["winner"].tolist() == ["Ben", "Ann"]
    assert datasets.load_atp(folder, [2000], ["futures"])["level"].tolist() == ["futures"] * 2
    starcraft = datasets.load_starcraft(folder)
    assert starcraft["winner"].tolist() == ["a: b", "a: b", "sOs", "sOs", "qxc"]
    assert starcraft["loser"].tolist() == ["sOs", "qxc", "qxc", "qxc", "sOs"]


def test_loaders_match_from_frame(folder):
    data = jk.Dataset.from_frame(
        datasets.load_football(folder),
        time="date",
        first="home_team",
        second="away_team",
        result=("home_score", "away_score"),
        neutral="neutral",
    )
    assert data.observations.outcome.tolist() == [0, 1]
    assert len(data.entries("home").times) == 1


def test_folder_from_the_environment(folder, monkeypatch):
    monkeypatch.setenv(datasets.FOLDER_VARIABLE, str(folder))
    assert len(datasets.load_nba()["date"]) == 2
    with pytest.raises(
        FileNotFoundError, match=r"has neither 'HotS\.txt' nor 'HotS\.txt\.gz'\. Put"
    ):
        datasets.load_starcraft(version="HotS")
    with pytest.raises(ValueError, match="`version` is 'LotV', but must be 'WoL' or 'HotS'"):
        datasets.load_starcraft(version="LotV")
    with pytest.raises(ValueError, match="`levels` has 'davis', but must be among 'tour', 'qual"):
        datasets.load_atp(levels=["davis"])


def test_downloads_are_cached_and_checked(tmp_path, monkeypatch, capsys):
    monkeypatch.delenv(datasets.FOLDER_VARIABLE, raising=False)
    asked = []

    def retrieve(url, known_hash, fname, path):
        asked.append(url)
        path.mkdir(exist_ok=True)
        (path / fname).write_text(NBA)

    monkeypatch.setattr(pooch, "retrieve", retrieve)
    monkeypatch.setattr(pooch, "os_cache", lambda name: tmp_path / name)
    for _ in range(2):
        assert len(datasets.load_nba()["date"]) == 2
    assert asked == [datasets.SOURCES["nba"].url + "nba_elo.csv"]
    assert "licence: CC BY 4.0\nsource: FiveThirtyEight" in capsys.readouterr().err
    (tmp_path / "jaxkick" / "nba_elo.csv").write_text(NBA.replace("33", "34"))
    with pytest.raises(ValueError, match=r"has changed since it was .* its checksum differs"):
        datasets.load_nba()
