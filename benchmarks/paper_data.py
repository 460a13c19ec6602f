"""Data of the paper's experiments, from the folder in JAXKICK_DATA or ../shared/data."""

import os
from pathlib import Path

import numpy as np
import pandas as pd

import jaxkick as jk

FOLDER = Path(
    os.environ.get("JAXKICK_DATA", Path(__file__).resolve().parents[2] / "shared" / "data")
)


def read_nba() -> pd.DataFrame:
    """Read columns date, first, second, points1, points2, difference, home and more."""
    games = pd.read_csv(FOLDER / "nba_games.csv.gz")
    games = games.rename(
        columns={"team1": "first", "team2": "second", "score1": "points1", "score2": "points2"}
    )
    games["home"] = 1.0 - games.neutral
    games["difference"] = (games.points1 - games.points2).astype(float)
    return games


def read_football() -> pd.DataFrame:
    """Read the same columns for international football."""
    games = pd.read_csv(FOLDER / "football_international.csv.gz").dropna()
    games = games.rename(
        columns={
            "home_team": "first",
            "away_team": "second",
            "home_score": "points1",
            "away_score": "points2",
        }
    ).reset_index(drop=True)
    games["home"] = 1.0 - games.neutral.astype(float)
    games["difference"] = (games.points1 - games.points2).astype(float)
    return games


def read_atp() -> pd.DataFrame:
    """Read tennis matches; the winner is first, so the difference is one."""
    games = pd.read_csv(FOLDER / "tennis_atp_matches.csv.gz")
    games = games[games.winner_id != games.loser_id].reset_index(drop=True)
    games = games.rename(columns={"winner_id": "first", "loser_id": "second"})
    games["difference"] = 1.0
    return games


READERS = {"nba": read_nba, "football": read_football, "atp": read_atp}


def as_pairs(games: pd.DataFrame, points: bool = False, home: bool = False) -> jk.Dataset:
    """Return matches of two sides with results, or with differences of points."""
    extra = {}
    if home:
        extra = {"covariates": {"home": games.home}, "groups": {"home": "advantage"}}
    return jk.Dataset.from_pairs(
        games.date.to_numpy(str),
        games["first"].to_list(),
        games["second"].to_list(),
        (games.difference if points else np.sign(games.difference)).to_numpy(float),
        **extra,
    )


def as_counts(games: pd.DataFrame) -> jk.Dataset:
    """Return two counts per match: the attack of one side minus the defence of the other."""
    codes = pd.factorize(np.concatenate([games["first"], games["second"]]))[0]
    first, second = codes.reshape(2, -1)
    features = np.stack([2 * first, 2 * second + 1, 2 * second, 2 * first + 1], axis=1)
    return jk.Dataset.from_arrays(
        np.repeat(games.date.to_numpy(str), 2),
        features.reshape(-1, 2),
        np.tile([1.0, -1.0], (2 * len(games), 1)),
        games[["points1", "points2"]].to_numpy(float).ravel(),
    )
