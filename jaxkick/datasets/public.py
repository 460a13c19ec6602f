"""Loaders of public data, as columns that `Dataset.from_frame` takes."""

import csv
import os
from collections.abc import Iterable

import numpy as np

from jaxkick.datasets.sources import open_text

__all__ = ["load_atp", "load_football", "load_nba", "load_starcraft"]

_LEVELS = {"tour": "", "qual_chall": "qual_chall_", "futures": "futures_"}


def load_nba(folder: str | os.PathLike | None = None) -> dict[str, np.ndarray]:
    """Games of the NBA and its forerunners; see `SOURCES["nba"]`.

    Args:
        folder: a folder with `nba_elo.csv`; downloaded if `None`, unless the environment
            variable names one.

    Returns:
        Columns `date`, `season`, `neutral`, `team1` (at home unless neutral), `team2`,
        `score1`, `score2`, `playoff` and `elo_prob1`, oldest first; games yet to be played
        are left out.
    """
    rows = _rows(open_text("nba", "nba_elo.csv", folder))
    rows = [row for row in rows if row["score1"] and row["score2"]]
    columns = _columns(rows, ("date", "season", "neutral", "team1", "team2", "score1", "score2"))
    return _by_date(
        {
            "date": columns["date"].astype("datetime64[D]"),
            "season": columns["season"].astype(np.int64),
            "neutral": columns["neutral"].astype(np.int64) == 1,
            "team1": columns["team1"],
            "team2": columns["team2"],
            "score1": columns["score1"].astype(np.float64).astype(np.int64),
            "score2": columns["score2"].astype(np.float64).astype(np.int64),
            "playoff": np.array([row["playoff"] not in ("", "0") for row in rows]),
            "elo_prob1": np.array([float(row["elo_prob1"]) for row in rows]),
        }
    )


def load_football(folder: str | os.PathLike | None = None) -> dict[str, np.ndarray]:
    """International football matches; see `SOURCES["football"]`.

    Args:
        folder: a folder with `results.csv`; downloaded if `None`, unless the environment
            variable names one.

    Returns:
        Columns `date`, `home_team`, `away_team`, `home_score`, `away_score`, `tournament` and
        `neutral`, oldest first; matches without a score are left out.
    """
    rows = _rows(open_text("football", "results.csv", folder))
    rows = [row for row in rows if row["home_score"].isdigit() and row["away_score"].isdigit()]
    names = ("date", "home_team", "away_team", "home_score", "away_score", "tournament")
    columns = _columns(rows, names)
    columns["date"] = columns["date"].astype("datetime64[D]")
    for name in ("home_score", "away_score"):
        columns[name] = columns[name].astype(np.int64)
    columns["neutral"] = np.array([row["neutral"].upper() in ("TRUE", "1") for row in rows])
    return _by_date(columns)


def load_atp(
    folder: str | os.PathLike | None = None,
    years: Iterable[int] = range(1991, 2018),
    levels: Iterable[str] = ("tour", "qual_chall", "futures"),
) -> dict[str, np.ndarray]:
    """Tennis matches of men; see `SOURCES["atp"]`, whose licence forbids commercial use.

    Args:
        folder: a folder with the files of the source, such as `atp_matches_2017.csv`;
            downloaded if `None`, unless the environment variable names one.
        years: which years.
        levels: which of `"tour"`, `"qual_chall"` and `"futures"`.

    Returns:
        Columns `date` (when the tournament began), `winner_id`, `loser_id`, `winner`,
        `loser`, `surface` and `level`, oldest first.

    Raises:
        ValueError: if a level is unknown.
    """
    parts = []
    for level in levels:
        if level not in _LEVELS:
            known = ", ".join(map(repr, _LEVELS))
            raise ValueError(f"`levels` has {level!r}, but must be among {known}.")
        for year in years:
            file = f"atp_matches_{_LEVELS[level]}{year}.csv"
            parts += [{**row, "level": level} for row in _rows(open_text("atp", file, folder))]
    columns = _columns(parts, ("winner_id", "loser_id", "surface", "level"))
    return _by_date(
        {
            "date": np.array([_compact_date(row["tourney_date"]) for row in parts]),
            "winner_id": columns["winner_id"].astype(np.int64),
            "loser_id": columns["loser_id"].astype(np.int64),
            "winner": np.array([row["winner_name"] for row in parts]),
            "loser": np.array([row["loser_name"] for row in parts]),
            "surface": columns["surface"],
            "level": columns["level"],
        }
    )


def load_starcraft(
    folder: str | os.PathLike | None = None, version: str = "WoL"
) -> dict[str, np.ndarray]:
    """Games of StarCraft II, which have no times; see `SOURCES["starcraft"]`.

    Args:
        folder: a folder with `WoL.txt` and `HotS.txt`; downloaded if `None`, unless the
            environment variable names one.
        version: `"WoL"` (Wings of Liberty) or `"HotS"` (Heart of the Swarm).

    Returns:
        Columns `winner` and `loser` with the names of players.

    Raises:
        ValueError: if the version is unknown.
    """
    if version not in ("WoL", "HotS"):
        raise ValueError(f"`version` is {version!r}, but must be 'WoL' or 'HotS'.")
    names: dict[str, str] = {}
    winners, losers = [], []
    for line in open_text("starcraft", f"{version}.txt", folder).splitlines():
        if line.startswith("Player"):
            number, _, name = line.removeprefix("Player").partition(": ")
            names[number] = name
        elif line and line[0].isdigit():
            sides, _, result = line.partition(" ")
            first, second = sides.split(":")
            won, lost = (int(part) for part in result.split(":"))
            winners += [first] * won + [second] * lost
            losers += [second] * won + [first] * lost
    return {
        "winner": np.array([names.get(number, number) for number in winners]),
        "loser": np.array([names.get(number, number) for number in losers]),
    }


def _rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(text.splitlines()))


def _columns(rows: list[dict[str, str]], names: Iterable[str]) -> dict[str, np.ndarray]:
    return {name: np.array([row[name] for row in rows]) for name in names}


def _by_date(columns: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    order = np.argsort(columns["date"], kind="stable")
    return {name: column[order] for name, column in columns.items()}


def _compact_date(text: str) -> np.datetime64:
    return np.datetime64(f"{text[:4]}-{text[4:6]}-{text[6:8]}", "D")
