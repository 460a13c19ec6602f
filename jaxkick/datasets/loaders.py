"""Loaders of public data, as columns for `Dataset.from_frame`.

Files are read from a folder, or downloaded once into a cache. The sources publish no checksums, so
the checksum of the first download is stored next to the file and verified on every later use.
"""

import csv
import gzip
import os
import sys
from collections.abc import Callable, Iterable
from importlib import resources
from pathlib import Path
from typing import NamedTuple

import numpy as np

from jaxkick.errors import DataError, check_choice

__all__ = [
    "FOLDER_VARIABLE", "SOURCES", "Source", "load_atp", "load_bundesliga", "load_football",
    "load_nba", "load_starcraft",
]  # fmt: skip

FOLDER_VARIABLE = "JAXKICK_DATA"
"""The environment variable with the path of a folder that contains the files."""

_ATP_LEVELS = {"tour": "", "qual_chall": "qual_chall_", "futures": "futures_"}


class Source(NamedTuple):
    """Title, licence, citation and base URL of a public data set."""

    title: str
    licence: str
    citation: str
    url: str

    def __repr__(self) -> str:
        return f"{self.title}\nlicence: {self.licence}\nsource: {self.citation}, {self.url}"


SOURCES = {
    "nba": Source(
        "Games of the NBA and its predecessors since 1946",
        "CC BY 4.0",
        "FiveThirtyEight, NBA Elo",
        "https://projects.fivethirtyeight.com/nba-model/",
    ),
    "atp": Source(
        "Men's tennis matches: tour, qualifying and challengers, futures",
        "CC BY-NC-SA 4.0",
        "Jeff Sackmann, Tennis Abstract",
        "https://raw.githubusercontent.com/JeffSackmann/tennis_atp/master/",
    ),
    "football": Source(
        "International football matches since 1872",
        "CC0 1.0",
        "Mart Jürisoo, international_results",
        "https://raw.githubusercontent.com/martj42/international_results/master/",
    ),
    "starcraft": Source(
        "Games of StarCraft II, Wings of Liberty and Heart of the Swarm",
        "not stated",
        "S. Chen and T. Joachims, Modeling Intransitivity in Matchup Data, WSDM 2016",
        "https://raw.githubusercontent.com/csinpi/blade_chest/"
        "adb65d359e6a2ad1296cc7adfd51d852e9fb8443/datasets/starcraft/",
    ),
}
"""The sources by name, as in `load_nba` for `"nba"`."""


def load_bundesliga() -> dict[str, np.ndarray]:
    """Load all 14,018 matches of the German football league from August 1963 to May 2009.

    The results are those of the data set `Bundesliga` in the R package vcd, collected by
    D. Dekic, T. Hothorn and A. Zeileis from the web site of the German Football Association. Two
    matches of December 1998 have no date in the source; they get the last date of their round.

    Returns:
        Columns `date`, `home`, `away`, `home_goals`, `away_goals` and `result` (+1 home win,
        0 tie, -1 away win), oldest first.
    """
    packed = resources.files("jaxkick.datasets").joinpath("bundesliga.csv.gz").read_bytes()
    rows = _rows(gzip.decompress(packed).decode())
    columns = _columns(rows, date=np.datetime64, home=str, away=str, home_goals=int, away_goals=int)
    return {**columns, "result": np.sign(columns["home_goals"] - columns["away_goals"])}


def load_nba(folder: str | os.PathLike | None = None) -> dict[str, np.ndarray]:
    """Load games of the NBA and its predecessors; see `SOURCES["nba"]`.

    Args:
        folder: a folder with `nba_elo.csv`; the default is `$JAXKICK_DATA`, or a download.

    Returns:
        Columns `date`, `season`, `neutral`, `team1` (at home unless neutral), `team2`, `score1`,
        `score2` (points), `playoff` and `elo_prob1` (FiveThirtyEight's probability that `team1`
        wins), oldest first, without future games.
    """
    rows = _rows(_read_text("nba", "nba_elo.csv", folder))
    rows = [row for row in rows if row["score1"] and row["score2"]]
    columns = _columns(
        rows, date=np.datetime64, season=int, neutral=_is_true, team1=str, team2=str,
        score1=float, score2=float, playoff=lambda text: text not in ("", "0"), elo_prob1=float,
    )  # fmt: skip
    scores = {name: columns[name].astype(np.int64) for name in ("score1", "score2")}
    return _by_date({**columns, **scores})


def load_football(folder: str | os.PathLike | None = None) -> dict[str, np.ndarray]:
    """Load international football matches; see `SOURCES["football"]`.

    Args:
        folder: a folder with `results.csv`; the default is `$JAXKICK_DATA`, or a download.

    Returns:
        Columns `date`, `home_team`, `away_team`, `home_score`, `away_score`, `tournament` and
        `neutral`, oldest first, without matches that have no result.
    """
    rows = _rows(_read_text("football", "results.csv", folder))
    rows = [row for row in rows if row["home_score"].isdigit() and row["away_score"].isdigit()]
    columns = _columns(
        rows, date=np.datetime64, home_team=str, away_team=str, home_score=int, away_score=int,
        tournament=str, neutral=_is_true,
    )  # fmt: skip
    return _by_date(columns)


def load_atp(
    folder: str | os.PathLike | None = None,
    years: Iterable[int] = range(1991, 2018),
    levels: Iterable[str] = ("tour", "qual_chall", "futures"),
) -> dict[str, np.ndarray]:
    """Load men's tennis matches; see `SOURCES["atp"]`. The licence forbids commercial use.

    Args:
        folder: a folder with files such as `atp_matches_2017.csv`; the default is
            `$JAXKICK_DATA`, or a download.
        years: the years; default: 1991 to 2017.
        levels: `"tour"`, `"qual_chall"` or `"futures"`, or several; default: all.

    Returns:
        Columns `date` (the first day of the tournament), `winner_id`, `loser_id`, `winner`,
        `loser`, `surface` and `level`, oldest first.

    Raises:
        DataError: if a level is unknown.
    """
    rows = []
    for level in levels:
        if level not in _ATP_LEVELS:
            raise DataError(
                "{argument} has {value}, but must be among 'tour', 'qual_chall' and 'futures'",
                argument="levels",
                value=level,
            )
        for year in years:
            file = f"atp_matches_{_ATP_LEVELS[level]}{year}.csv"
            rows += [{**row, "level": level} for row in _rows(_read_text("atp", file, folder))]
    columns = _columns(
        rows, tourney_date=lambda day: np.datetime64(f"{day[:4]}-{day[4:6]}-{day[6:8]}"),
        winner_id=int, loser_id=int, winner_name=str, loser_name=str, surface=str, level=str,
    )  # fmt: skip
    renamed = {"tourney_date": "date", "winner_name": "winner", "loser_name": "loser"}
    return _by_date({renamed.get(name, name): column for name, column in columns.items()})


def load_starcraft(
    folder: str | os.PathLike | None = None, version: str = "WoL"
) -> dict[str, np.ndarray]:
    """Load games of StarCraft II, which have no times; see `SOURCES["starcraft"]`.

    Args:
        folder: a folder with `WoL.txt` and `HotS.txt`; the default is `$JAXKICK_DATA`, or a
            download.
        version: `"WoL"` (Wings of Liberty) or `"HotS"` (Heart of the Swarm).

    Returns:
        Columns `winner` and `loser` with the names of players.

    Raises:
        DataError: if the version is unknown.
    """
    check_choice("version", version, ("WoL", "HotS"))
    names: dict[str, str] = {}
    games = []
    for line in _read_text("starcraft", f"{version}.txt", folder).splitlines():
        if line.startswith("Player"):
            number, _, name = line.removeprefix("Player").partition(": ")
            names[number] = name
        elif line and line[0].isdigit():
            sides, _, result = line.partition(" ")
            first, second = sides.split(":")
            won, lost = (int(part) for part in result.split(":"))
            games += [(first, second)] * won + [(second, first)] * lost
    winners, losers = np.array([[names.get(side, side) for side in game] for game in games]).T
    return {"winner": winners, "loser": losers}


def _rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(text.splitlines()))


def _columns(rows: list[dict[str, str]], **convert: Callable) -> dict[str, np.ndarray]:
    """Convert rows to columns; each column has a function that parses its cells."""
    return {name: np.array([read(row[name]) for row in rows]) for name, read in convert.items()}


def _is_true(text: str) -> bool:
    return text.upper() in ("TRUE", "1")


def _by_date(columns: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    order = np.argsort(columns["date"], kind="stable")
    return {name: column[order] for name, column in columns.items()}


def _read_text(source: str, file: str, folder: str | os.PathLike | None) -> str:
    folder = os.environ.get(FOLDER_VARIABLE) if folder is None else folder
    if not folder:
        return _download(SOURCES[source], file).read_text(encoding="utf-8")
    plain, packed = Path(folder, file), Path(folder, f"{file}.gz")
    if packed.exists():
        return gzip.decompress(packed.read_bytes()).decode()
    if plain.exists():
        return plain.read_text(encoding="utf-8")
    raise FileNotFoundError(
        f"The folder {str(folder)!r} has neither {file!r} nor '{file}.gz'. Put it there, or leave "
        f"out `folder` and unset {FOLDER_VARIABLE} to download it."
    )


def _download(source: Source, file: str) -> Path:
    try:
        import pooch
    except ImportError as error:
        raise ImportError(
            "Downloads need pooch. Install it with `pip install 'jaxkick[datasets]'`, or pass "
            "`folder`."
        ) from error
    cache = Path(pooch.os_cache("jaxkick"))
    path, mark = cache / file, cache / f"{file}.sha256"
    if not (path.exists() and mark.exists()):
        sys.stderr.write(f"{source!r}\n")
        pooch.retrieve(source.url + file, known_hash=None, fname=file, path=cache)
        mark.write_text(pooch.file_hash(str(path)))
    if pooch.file_hash(str(path)) != mark.read_text().strip():
        raise ValueError(
            f"{str(path)!r} has changed since it was downloaded: its checksum differs from "
            f"{mark.name!r}. Remove both files to download it again."
        )
    return path
