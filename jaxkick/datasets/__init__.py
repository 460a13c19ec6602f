"""Public data: one set that comes with the package, others from their sources or a folder."""

from jaxkick.datasets.bundesliga import load_bundesliga
from jaxkick.datasets.public import load_atp, load_football, load_nba, load_starcraft
from jaxkick.datasets.sources import FOLDER_VARIABLE, SOURCES, Source

__all__ = [
    "FOLDER_VARIABLE",
    "SOURCES",
    "Source",
    "load_atp",
    "load_bundesliga",
    "load_football",
    "load_nba",
    "load_starcraft",
]
