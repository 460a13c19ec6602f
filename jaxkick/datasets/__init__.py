"""Public data sets: one that comes with the package, others from their sources or a folder."""

from jaxkick.datasets.loaders import (
    FOLDER_VARIABLE,
    SOURCES,
    Source,
    load_atp,
    load_bundesliga,
    load_football,
    load_nba,
    load_starcraft,
)

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
