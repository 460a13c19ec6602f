"""The look that all pictures share, set on their own axes and nowhere else."""

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import LinearSegmentedColormap

__all__ = ["GREY", "INK", "PALE", "Line", "axes", "date_ticks", "line", "shades", "spread"]

INK = "#1f2a37"
GREY = "#8a93a0"
PALE = "#e6e9ee"

_COLOURS = ("#14405e", "#d1663a", "#4f9d8f", "#8c5a9e", "#cc9416", "#7a8fb0")
# One less than colours, so that neither repeats together with the other for thirty lines.
_DASHES: tuple[Any, ...] = (
    "-",
    (0, (5, 2)),
    (0, (1.2, 1.2)),
    (0, (6, 2, 1.2, 2)),
    (0, (9, 1.5, 1.2, 1.5, 1.2, 1.5)),
)


class Line(NamedTuple):
    """How a line is drawn."""

    colour: str
    dashes: Any


def line(number: int) -> Line:
    """The style of the line of this number: neighbours differ in colour and in dashes."""
    return Line(_COLOURS[number % len(_COLOURS)], _DASHES[number % len(_DASHES)])


def axes(ax: "Axes | None", size: tuple[float, float] = (7.5, 4.2)) -> "Axes":
    """The axes to draw on, new ones if there are none, without the box around them.

    Raises:
        ImportError: if matplotlib is not installed.
    """
    if ax is None:
        try:
            from matplotlib import pyplot
        except ImportError as error:
            raise ImportError(
                "pictures need matplotlib; install it with `pip install 'jaxkick[plot]'`."
            ) from error
        _, ax = pyplot.subplots(figsize=size, layout="constrained")
    ax.spines[["top", "right"]].set_visible(False)
    ax.spines[["left", "bottom"]].set_color(GREY)
    ax.tick_params(colors=INK, length=3, labelsize=9)
    ax.set_axisbelow(True)
    return ax


def date_ticks(ax: "Axes") -> None:
    """Dates along the x-axis, few and short enough to stand apart."""
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

    locator = AutoDateLocator(minticks=3, maxticks=8)
    ax.xaxis.set_major_locator(locator)
    ax.xaxis.set_major_formatter(ConciseDateFormatter(locator))


def shades() -> "LinearSegmentedColormap":
    """A scale from pale to dark whose brightness falls all the way."""
    from matplotlib.colors import LinearSegmentedColormap

    colours = ["#f6f4ee", "#cfdfd9", "#7fb0ad", "#357390", "#14304e"]
    return LinearSegmentedColormap.from_list("jaxkick", colours)


def spread(wanted: np.ndarray, gap: float) -> np.ndarray:
    """Places as close as possible to those wanted, but at least a gap apart.

    Args:
        wanted: numbers in any order.
        gap: the smallest distance.
    """
    order = np.argsort(wanted)
    # Runs of places that push each other stand around their mean.
    runs: list[list[float]] = []
    for value in wanted[order]:
        runs.append([float(value), 1.0])
        while len(runs) > 1 and _end(runs[-2], gap) > runs[-1][0] - 0.5 * gap * (runs[-1][1] - 1):
            (centre, size), (other, more) = runs[-2], runs[-1]
            joined = (centre * size + other * more) / (size + more)
            runs[-2:] = [[joined, size + more]]
    places = [
        centre + gap * (place - 0.5 * (size - 1))
        for centre, size in runs
        for place in range(int(size))
    ]
    result = np.empty(len(wanted))
    result[order] = places
    return result


def _end(run: list[float], gap: float) -> float:
    """The first place that a run leaves free."""
    centre, size = run
    return centre + 0.5 * gap * (size - 1) + gap
