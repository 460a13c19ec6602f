"""Who stands where, and who would beat whom."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np

from jaxkick.plotting import _style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["leaderboard", "win_probabilities"]


def leaderboard(table: Any, *, top: int | None = 20, ax: "Axes | None" = None) -> "Axes":
    """Ratings with their intervals, the best on top.

    Args:
        table: what `Posterior.leaderboard` returned, or a posterior or stream to ask for one.
        top: how many to show; all if `None`.
        ax: the axes to draw on.

    Returns:
        The axes.
    """
    columns = _columns_of(table.leaderboard() if hasattr(table, "leaderboard") else table)
    columns = {name: column[:top] for name, column in columns.items()}
    count = len(columns["name"])
    ax = _style.axes(ax, (7.0, 1.0 + 0.27 * count))
    places = np.arange(count)
    for place in places[1::2]:
        ax.axhspan(place - 0.5, place + 0.5, color=_style.PALE, alpha=0.45, lw=0)
    rating, colour = columns["rating"], _style.line(0).colour
    ax.hlines(places, columns["lower"], columns["upper"], color=colour, lw=2.2, alpha=0.45)
    ax.scatter(rating, places, color=colour, s=34, zorder=3)
    ax.set_yticks(places, [str(name) for name in columns["name"]])
    ax.set_ylim(count - 0.5, -0.5)
    ax.tick_params(axis="y", length=0)
    ax.spines["left"].set_visible(False)
    ax.grid(axis="x", color=_style.PALE, lw=0.8)
    ax.set_xlabel("rating", color=_style.INK)
    _write_chances(ax, columns["best"])
    return ax


def win_probabilities(
    posterior: Any,
    names: Sequence[Hashable],
    time: Any,
    *,
    home: float | None = None,
    features: Callable[[Any, Any], Mapping[Hashable, float]] | None = None,
    ax: "Axes | None" = None,
) -> "Axes":
    """A matrix of the probabilities that the row's side beats the column's.

    Args:
        posterior: a posterior or a stream.
        names: of the competitors.
        time: when they meet, in the user's terms.
        home: 1 if the row's side is at home; see `Posterior.predict`.
        features: what the row's side has against the column's, with coefficients, such as a
            feature of the pair beside its own; its name alone if `None`.
        ax: the axes to draw on.

    Returns:
        The axes.

    Raises:
        ValueError: if there are less than two names.
    """
    count = len(names)
    if count < 2:
        raise ValueError("`names` has too few for a matrix; name at least two.")
    pairs = [(first, second) for first in names for second in names if first != second]
    first = [row if features is None else features(row, column) for row, column in pairs]
    prediction = posterior.predict(first, [column for _, column in pairs], time, home=home)
    chances = np.full((count, count), np.nan)
    chances[~np.eye(count, dtype=bool)] = np.asarray(prediction.result)[:, 2]
    ax = _style.axes(ax, (max(4.4, 1.8 + 0.52 * count), 1.2 + 0.46 * count))
    ax.imshow(chances, cmap=_style.shades(), vmin=0.0, vmax=1.0, aspect="auto")
    for (row, column), chance in np.ndenumerate(chances):
        if np.isfinite(chance):
            colour = "white" if chance > 0.6 else _style.INK
            ax.text(column, row, f"{100 * chance:.0f}", color=colour, ha="center", va="center")
    labels = [str(name) for name in names]
    ax.set_xticks(range(count), labels, rotation=40, ha="left", rotation_mode="anchor")
    ax.set_yticks(range(count), labels)
    ax.xaxis.tick_top()
    ax.tick_params(length=0)
    ax.spines[["left", "bottom"]].set_visible(False)
    place = {1.0: ", at home,", -1.0: ", away,"}.get(home or 0.0, "")
    caption = f"probability in % that the row{place} beats the column"
    ax.set_xlabel(caption, color=_style.GREY, fontsize=9)
    ax.xaxis.set_label_position("bottom")
    return ax


def _columns_of(table: Any) -> dict[str, np.ndarray]:
    if isinstance(table, Mapping):
        return {str(name): np.asarray(column) for name, column in table.items()}
    frame = nw.from_native(table, eager_only=True)
    return {name: frame[name].to_numpy() for name in frame.columns}


def _write_chances(ax: "Axes", best: np.ndarray) -> None:
    """The probability of being best, to the right of every row."""
    frame = {"xycoords": ("axes fraction", "data"), "va": "center", "fontsize": 8}
    ax.annotate("best", (1.01, -0.95), color=_style.GREY, annotation_clip=False, **frame)
    for place, chance in enumerate(best):
        text = f"{chance:.0%}" if chance >= 0.005 else "–"
        ax.annotate(text, (1.01, place), color=_style.INK, annotation_clip=False, **frame)
