"""The style that all plots share, set on their own axes only."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import LinearSegmentedColormap

__all__ = [
    "GREY",
    "INK",
    "PALE",
    "Line",
    "axes",
    "beside",
    "date_ticks",
    "forest",
    "label",
    "label_ends",
    "line",
    "matrix",
    "note",
    "places",
    "spread",
]

INK = "#1f2a37"
GREY = "#8a93a0"
PALE = "#e6e9ee"

# Smaller probabilities of places are left blank.
_SMALL_CHANCE = 0.005

_COLOURS = ("#14405e", "#d1663a", "#4f9d8f", "#8c5a9e", "#cc9416", "#7a8fb0")
# One fewer than colours, so that no pair of colour and dashes repeats within thirty lines.
_DASHES: tuple[Any, ...] = (
    "-",
    (0, (5, 2)),
    (0, (1.2, 1.2)),
    (0, (6, 2, 1.2, 2)),
    (0, (9, 1.5, 1.2, 1.5, 1.2, 1.5)),
)


class Line(NamedTuple):
    """Colour and dashes of a line."""

    colour: str
    dashes: Any


def line(number: int) -> Line:
    """Style of a line by its number; neighbours differ in colour and in dashes."""
    return Line(_COLOURS[number % len(_COLOURS)], _DASHES[number % len(_DASHES)])


def label(name: Any) -> str:
    """A name as text that matplotlib does not read as mathematics."""
    return str(name).replace("$", r"\$")


def axes(
    ax: "Axes | None",
    size: tuple[float, float] = (7.5, 4.2),
    *,
    grid: Literal["x", "y", "both"] | None = None,
    x: str = "",
    y: str = "",
) -> "Axes":
    """Return the axes to draw on, new ones if `ax` is `None`, without the box around them.

    Args:
        ax: the user's axes.
        size: width and height of a new figure, in inches.
        grid: direction of the grid lines.
        x: label of the x-axis.
        y: label of the y-axis.

    Raises:
        ImportError: if matplotlib is not installed.
    """
    if ax is None:
        try:
            from matplotlib import pyplot
        except ImportError as error:
            raise ImportError(
                "Plots require matplotlib. Install it with `pip install 'jaxkick[plot]'`."
            ) from error
        _, ax = pyplot.subplots(figsize=size, layout="constrained")
    ax.spines[["top", "right"]].set_visible(False)
    ax.spines[["left", "bottom"]].set_color(GREY)
    ax.tick_params(colors=INK, length=3, labelsize=9)
    ax.set_axisbelow(True)
    if grid is not None:
        ax.grid(axis=grid, color=PALE, lw=0.8)
    ax.set_xlabel(x, color=INK)
    ax.set_ylabel(y, color=INK)
    return ax


def note(
    ax: "Axes", text: str, place: tuple[float, float], *, size: int = 9, **options: Any
) -> None:
    """Write a text beside a point, at an offset in points if `xytext` is given."""
    offset = {"textcoords": "offset points"} if "xytext" in options else {}
    ax.annotate(text, place, **{"color": INK, "fontsize": size, "va": "center"} | offset | options)


def beside(ax: "Axes", texts: Iterable[str], at: float = 1.01, **options: Any) -> None:
    """Write a text to the right of each row."""
    for row, text in enumerate(texts):
        frame = {"xycoords": ("axes fraction", "data"), "annotation_clip": False}
        note(ax, text, (at, row), **frame | options)


def date_ticks(ax: "Axes") -> None:
    """Put a few short dates along the x-axis."""
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

    locator = AutoDateLocator(minticks=3, maxticks=8)
    ax.xaxis.set_major_locator(locator)
    ax.xaxis.set_major_formatter(ConciseDateFormatter(locator))


def forest(ax: "Axes", names: Iterable, value: Any, lower: Any, upper: Any) -> None:
    """Draw values with their intervals, one row for each name, the first on top."""
    labels = [label(name) for name in names]
    places, colour = np.arange(len(labels)), line(0).colour
    ax.hlines(places, lower, upper, color=colour, lw=2.2, alpha=0.45)
    ax.scatter(value, places, color=colour, s=34, zorder=3)
    ax.set_yticks(places, labels)
    ax.set_ylim(len(labels) - 0.5, -0.5)
    ax.tick_params(axis="y", length=0)
    ax.spines["left"].set_visible(False)
    ax.grid(axis="x", color=PALE, lw=0.8)


def matrix(ax: "Axes", values: np.ndarray, digits: int, dark: float, **image: Any) -> None:
    """Draw probabilities as shaded cells with their percentages.

    Args:
        ax: the axes.
        values: probabilities of shape (rows, columns); cells that are NaN stay empty.
        digits: decimals of the percentages.
        dark: above this probability the text is white.
        **image: further arguments of `imshow`.
    """
    ax.imshow(values, cmap=_shades(), vmin=0.0, aspect="auto", **image)
    for (row, column), value in np.ndenumerate(values):
        if np.isfinite(value):
            colour, text = "white" if value > dark else INK, f"{100 * value:.{digits}f}"
            ax.text(column, row, text, color=colour, ha="center", va="center")
    ax.tick_params(length=0)
    ax.spines[["left", "bottom"]].set_visible(False)


def places(
    ax: "Axes", chances: np.ndarray, names: Iterable, texts: Sequence[str], title: str
) -> None:
    """Draw the probabilities of places, one row for each name, with a column of texts beside.

    Args:
        ax: the axes.
        chances: probabilities of shape (names, places).
        names: the name of each row.
        texts: a text beside each row.
        title: the title of the texts.
    """
    # One certain place must not make all others pale.
    most = min(chances.max(), 2.0 * np.median(chances.max(axis=1)))
    matrix(ax, np.where(chances < _SMALL_CHANCE, np.nan, chances), 0, 0.6 * most, vmax=most)
    ax.set_facecolor(ax.images[-1].get_cmap()(0.0))
    columns = range(chances.shape[1])
    ax.set_xticks(columns, [str(place + 1) for place in columns])
    ax.set_yticks(range(len(chances)), [label(name) for name in names])
    ax.xaxis.tick_top()
    ax.set_xlabel("probability in % of each place", color=GREY, fontsize=9)
    beside(ax, texts, 1.02)
    frame = {"xycoords": "axes fraction", "annotation_clip": False}
    note(ax, title, (1.02, 1.02), color=GREY, va="bottom", size=8, **frame)


def label_ends(ax: "Axes", names: Sequence, ends: list[tuple]) -> None:
    """Write names at the ends of their lines, in place of a legend."""
    low, high = ax.get_ylim()
    height = ax.get_window_extent().height or 300.0
    gap = 14.0 * ax.figure.dpi / 100.0 / height * (high - low)
    places = spread(np.array([end for _, end, _ in ends]), gap)
    for name, (last, _, colour), place in zip(names, ends, places, strict=True):
        options = {"color": colour, "fontweight": "bold", "annotation_clip": False}
        note(ax, label(name), (last, place), xytext=(6, 0), **options)


def _shades() -> "LinearSegmentedColormap":
    """A colour map from pale to dark with decreasing brightness."""
    from matplotlib.colors import LinearSegmentedColormap

    colours = ["#f6f4ee", "#cfdfd9", "#7fb0ad", "#357390", "#14304e"]
    return LinearSegmentedColormap.from_list("jaxkick", colours)


def spread(wanted: np.ndarray, gap: float) -> np.ndarray:
    """Move positions apart as little as possible, until all are at least a gap apart.

    Args:
        wanted: positions in any order.
        gap: smallest distance.
    """
    order = np.argsort(wanted)
    # Runs of positions that push each other, as [centre, size].
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
    """The first free position after a run."""
    centre, size = run
    return centre + 0.5 * gap * (size - 1) + gap
