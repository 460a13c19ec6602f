"""Plots of simulated seasons: final places, and chances over the season."""

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from jaxkick.errors import DataError, did_you_mean
from jaxkick.plotting import style
from jaxkick.simulation import LeagueTable, TitleRace

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["final_places", "title_race"]

_CURVES = 6


def final_places(table: LeagueTable, *, top: int | None = None, ax: "Axes | None" = None) -> "Axes":
    """Plot a matrix of the probabilities that each team finishes in each place.

    The team with the best expected place is on top. Expected points are on the right.

    Args:
        table: final tables, from `jaxkick.simulation.league_table`.
        top: number of teams to show; all if `None`.
        ax: the axes to draw on; new ones if `None`.
    """
    chances, points = table.probabilities[:top], table.expected_points[:top]
    ax = style.axes(ax, (2.4 + 0.4 * chances.shape[1], 1.1 + 0.34 * len(chances)))
    style.places(ax, chances, table.names[:top], [f"{each:.0f}" for each in points], "points")
    return ax


def title_race(
    race: TitleRace,
    names: Sequence[Hashable] | None = None,
    *,
    top: int = 1,
    bottom: int | None = None,
    ax: "Axes | None" = None,
) -> "Axes":
    """Plot the chances of teams over a season: of the title, or of other places.

    Args:
        race: chances over a season, from `jaxkick.simulation.title_race`.
        names: the teams to draw; if `None`, the six with the highest chance at any time.
        top: draw the chance of finishing among the first `top`.
        bottom: draw the chance of finishing among the last `bottom` instead.
        ax: the axes to draw on; new ones if `None`.

    Raises:
        DataError: if a team is not in the league.
    """
    chances = race.p_top(top) if bottom is None else race.p_bottom(bottom)
    if names is None:
        best = np.argsort(-chances.max(axis=0), kind="stable")[:_CURVES]
        names = [race.names[place] for place in best]
    places = f"the last {bottom}" if bottom else "the title" if top == 1 else f"the first {top}"
    ax = style.axes(ax, grid="y", y=f"chance of {places}")
    ends = []
    for number, name in enumerate(names):
        if name not in race.names:
            remedy = did_you_mean(name, race.names)
            raise DataError("{value} in {argument} is not in the league", remedy,
                            argument="names", value=name)  # fmt: skip
        own = chances[:, race.names.index(name)]
        colour, dashes = style.line(number)
        ax.plot(race.times, own, color=colour, ls=dashes, lw=1.8, label=style.label(name))
        ends.append((race.times[-1], own[-1], colour))
    ax.set_ylim(-0.02, 1.02)
    ax.margins(x=0.01)
    ax.yaxis.set_major_formatter(lambda chance, _: f"{100 * chance:.0f}%")
    if race.scale.dates:
        style.date_ticks(ax)
    style.label_ends(ax, names, ends)
    return ax
