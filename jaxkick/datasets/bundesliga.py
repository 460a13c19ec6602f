"""The data that comes with the package."""

import csv
import gzip
from importlib import resources

import numpy as np

__all__ = ["load_bundesliga"]


def load_bundesliga() -> dict[str, np.ndarray]:
    """All 14,018 matches of the German football league, from August 1963 to May 2009.

    Results as facts, as collected in the data set `Bundesliga` of the R package vcd by
    D. Dekic, T. Hothorn and A. Zeileis from the pages of the German Football Association. Two
    matches of December 1998 that have no date there stand at the last date of their round.

    Returns:
        Columns `date`, `home`, `away`, `home_goals`, `away_goals` and `result` (+1 home win,
        0 tie, -1 away win), oldest first.
    """
    packed = resources.files("jaxkick").joinpath("data/bundesliga.csv.gz").read_bytes()
    header, *rows = csv.reader(gzip.decompress(packed).decode().splitlines())
    columns = dict(zip(header, map(np.array, zip(*rows, strict=True)), strict=True))
    goals = {name: columns[name].astype(np.int64) for name in ("home_goals", "away_goals")}
    return {
        "date": columns["date"].astype("datetime64[D]"),
        "home": columns["home"],
        "away": columns["away"],
        **goals,
        "result": np.sign(goals["home_goals"] - goals["away_goals"]),
    }
