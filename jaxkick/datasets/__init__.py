"""Public data sets: Bundesliga results in the package, others from a folder or by download."""

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
