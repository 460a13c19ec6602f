"""Goals: their difference, and all pairs of them."""

from typing import TYPE_CHECKING

import numpy as np

from jaxkick.counts import CountsPrediction
from jaxkick.outcomes import Distribution, is_whole
from jaxkick.plotting import _style
from jaxkick.prediction import Prediction

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["goal_differences", "goal_grid"]

_NAMES = {-1: "second wins", 0: "tie", 1: "first wins"}
_COLOURS = {-1: "#c9703c", 0: "#d5dae2", 1: "#14405e"}


def goal_differences(
    prediction: Prediction | CountsPrediction, *, ax: "Axes | None" = None
) -> "Axes":
    """The distribution of the difference of goals of one match, and who wins.

    Args:
        prediction: of one match, by a likelihood of differences or of two counts.
        ax: the axes to draw on.

    Returns:
        The axes.

    Raises:
        ValueError: if it is a prediction of several matches.
    """
    difference = _differences(prediction)
    chances = np.asarray(difference.probabilities)
    _check_single(chances.ndim == 1)
    kept = chances > 0.002 * chances.max()
    outcomes, chances = difference.outcomes[kept], chances[kept]
    signs = np.sign(outcomes).astype(int)
    ax = _style.axes(ax)
    ax.bar(outcomes, chances, 0.86, color=[_COLOURS[sign] for sign in signs])
    result = np.asarray(prediction.result)
    for sign in (-1, 0, 1):
        own = signs == sign
        if own.any() and result[sign + 1] > 0:
            place = np.average(outcomes[own], weights=chances[own])
            text = f"{_NAMES[sign]}\n{result[sign + 1]:.0%}"
            ax.annotate(
                text,
                (place, chances[own].max()),
                xytext=(0, 5),
                textcoords="offset points",
                ha="center",
                color=_style.INK,
                fontsize=9,
            )
    ax.set_ylim(0, 1.25 * chances.max())
    ax.locator_params(axis="x", nbins=15, integer=True)
    ax.xaxis.set_major_formatter(lambda outcome, _: f"{outcome:+.0f}" if outcome else "0")
    ax.yaxis.set_major_formatter(lambda chance, _: f"{100 * chance:.3g}%")
    ax.grid(axis="y", color=_style.PALE, lw=0.8)
    ax.set_xlabel("difference of goals", color=_style.INK)
    return ax


def goal_grid(
    prediction: CountsPrediction, *, largest: int = 5, ax: "Axes | None" = None
) -> "Axes":
    """The probabilities of all results of one match.

    Args:
        prediction: of one match.
        largest: the largest count to show.
        ax: the axes to draw on.

    Returns:
        The axes.

    Raises:
        ValueError: if it is a prediction of several matches.
    """
    grid = np.asarray(prediction.grid(largest))
    _check_single(grid.ndim == 2)
    ax = _style.axes(ax, (4.6, 4.2))
    ax.imshow(grid, cmap=_style.shades(), vmin=0.0, aspect="auto", origin="lower")
    for (first, second), chance in np.ndenumerate(grid):
        colour = "white" if chance > 0.55 * grid.max() else _style.INK
        ax.text(second, first, f"{100 * chance:.1f}", color=colour, ha="center", va="center")
    ax.set_xticks(range(largest + 1))
    ax.set_yticks(range(largest + 1))
    ax.tick_params(length=0)
    ax.spines[["left", "bottom"]].set_visible(False)
    ax.set_xlabel("goals of the second side", color=_style.INK)
    ax.set_ylabel("goals of the first side", color=_style.INK)
    ax.set_title("probability in %", color=_style.GREY, fontsize=9, loc="left")
    return ax


def _differences(prediction: Prediction | CountsPrediction) -> Distribution:
    """The distribution over whole numbers, also where the likelihood knows of others."""
    if isinstance(prediction, CountsPrediction):
        return prediction.difference()
    found = prediction.distribution()
    if is_whole(prediction.likelihood):
        return found
    low, high = np.rint(found.outcomes[[0, -1]])
    return prediction.distribution(np.arange(low, high + 1.0))


def _check_single(single: bool) -> None:
    if not single:
        raise ValueError("the picture shows one match; predict it alone.")
