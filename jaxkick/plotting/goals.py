"""Plots of one match in goals: their difference, and all pairs of counts."""

from typing import TYPE_CHECKING

import numpy as np

from jaxkick.errors import DataError
from jaxkick.likelihoods import Distribution
from jaxkick.plotting import style
from jaxkick.posterior.prediction import CountsPrediction, Prediction

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["goal_differences", "goal_grid"]

_NAMES = {-1: "second wins", 0: "tie", 1: "first wins"}
_COLOURS = {-1: "#c9703c", 0: "#d5dae2", 1: "#14405e"}


def goal_differences(
    prediction: Prediction | CountsPrediction, *, ax: "Axes | None" = None
) -> "Axes":
    """Plot the distribution of the goal difference of one match, and the probable winner.

    Args:
        prediction: prediction of one match, of a difference or of two counts.
        ax: the axes to draw on; new ones if `None`.

    Raises:
        ValueError: if the prediction is of several matches.
    """
    difference = _differences(prediction)
    chances = np.asarray(difference.probabilities)
    _check_single(chances.ndim == 1)
    kept = chances > 0.002 * chances.max()
    outcomes, chances = difference.outcomes[kept], chances[kept]
    signs = np.sign(outcomes).astype(int)
    ax = style.axes(ax, grid="y", x="goal difference")
    ax.bar(outcomes, chances, 0.86, color=[_COLOURS[sign] for sign in signs])
    result = {-1: prediction.p_loss, 0: prediction.p_tie, 1: prediction.p_win}
    for sign in (-1, 0, 1):
        own = signs == sign
        if own.any() and result[sign] > 0:
            text = f"{_NAMES[sign]}\n{float(result[sign]):.0%}"
            top = np.average(outcomes[own], weights=chances[own]), chances[own].max()
            style.note(ax, text, top, xytext=(0, 5), ha="center", va="baseline")
    ax.set_ylim(0, 1.25 * chances.max())
    ax.locator_params(axis="x", nbins=15, integer=True)
    ax.xaxis.set_major_formatter(lambda outcome, _: f"{outcome:+.0f}" if outcome else "0")
    ax.yaxis.set_major_formatter(lambda chance, _: f"{100 * chance:.3g}%")
    return ax


def goal_grid(
    prediction: CountsPrediction, *, largest: int = 5, ax: "Axes | None" = None
) -> "Axes":
    """Plot the probabilities of all pairs of counts of one match.

    Args:
        prediction: prediction of one match.
        largest: largest count to show.
        ax: the axes to draw on; new ones if `None`.

    Raises:
        ValueError: if the prediction is of several matches.
    """
    grid = np.asarray(prediction.grid(largest))
    _check_single(grid.ndim == 2)
    labels = {"x": "goals of the second side", "y": "goals of the first side"}
    ax = style.axes(ax, (4.6, 4.2), **labels)
    style.matrix(ax, grid, 1, 0.55 * grid.max(), origin="lower")
    ax.set_xticks(range(largest + 1))
    ax.set_yticks(range(largest + 1))
    ax.set_title("probability in %", color=style.GREY, fontsize=9, loc="left")
    return ax


def _differences(prediction: Prediction | CountsPrediction) -> Distribution:
    """The distribution over whole numbers, also if outcomes are continuous."""
    if isinstance(prediction, CountsPrediction):
        return prediction.difference()
    found = prediction.distribution()
    if prediction.likelihood.is_discrete:
        return found
    low, high = np.rint(found.outcomes[[0, -1]])
    return prediction.distribution(np.arange(low, high + 1.0))


def _check_single(single: bool) -> None:
    if not single:
        raise DataError(
            "{argument} has several matches", "Predict one match to plot it.", argument="prediction"
        )
