"""Seasons and tournaments by simulation: league tables, knock-out brackets, title races.

`Posterior.simulate` plays fixtures many times. `league_table` adds the matches that were played,
and counts how often each team finishes in each place. `knockout` plays a bracket. `title_race`
repeats the simulation of a season before each of its weeks.
"""

from jaxkick.posterior.simulated import Simulated
from jaxkick.simulation.knockout import Knockout, knockout
from jaxkick.simulation.league import LeagueTable, league_table
from jaxkick.simulation.race import TitleRace, title_race

__all__ = [
    "Knockout",
    "LeagueTable",
    "Simulated",
    "TitleRace",
    "knockout",
    "league_table",
    "title_race",
]
