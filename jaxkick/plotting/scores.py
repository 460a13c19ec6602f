"""Scores over time."""

from collections.abc import Hashable, Sequence
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np

from jaxkick.dataset.validation import suggest_names
from jaxkick.plotting import _style
from jaxkick.posterior import Posterior
from jaxkick.ranking import Scale, points_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["scores"]

_POINTS = 300


def scores(
    posterior: Posterior,
    names: Sequence[Hashable],
    *,
    times: Any = None,
    interval: float = 0.9,
    scale: Scale | tuple[float, float] | str | None = None,
    ax: "Axes | None" = None,
) -> "Axes":
    """Curves of scores with bands of uncertainty, and real dates where the data has dates.

    Args:
        posterior: the fitted posterior.
        names: of the features to draw.
        times: times in the user's terms; if `None` evenly from the first to the last match
            of all of them, where a curve begins with the first match of its own.
        interval: the probability of the bands; 0 for none.
        scale: how scores are shown, as in `Posterior.leaderboard`.
        ax: the axes to draw on.

    Returns:
        The axes.

    Raises:
        ValueError: if a feature has no matches and `times` is `None`.
    """
    ax = _style.axes(ax)
    index, points = posterior.data.index, points_of(scale, posterior.model.likelihood)
    debuts = np.full(len(names), -np.inf)
    if times is None:
        played = _played(posterior, names)
        debuts = np.array([each[0] for each in played])
        grid = np.linspace(debuts.min(), max(each[-1] for each in played), _POINTS)
        times = index.scale.to_user(grid)
    reach = NormalDist().inv_cdf(0.5 + 0.5 * interval) if interval else 0.0
    ends = []
    # Where many bands lie on each other, each is paler.
    alpha = min(0.13, 0.45 / max(len(names), 1))
    for number, name in enumerate(names):
        numbers, means, variances = posterior.scores(name, times)
        # The last point always stays, to be labelled.
        drawn = np.asarray(numbers) >= min(debuts[number], np.max(numbers))
        mean, deviation = np.asarray(means)[drawn], np.sqrt(np.asarray(variances)[drawn])
        middle, spread = points.centre + points.factor * mean, points.factor * reach * deviation
        shown = index.scale.to_user(np.asarray(numbers)[drawn])
        colour, dashes = _style.line(number)
        if interval:
            ax.fill_between(
                shown, middle - spread, middle + spread, color=colour, alpha=alpha, lw=0
            )
        ax.plot(shown, middle, color=colour, ls=dashes, lw=1.8, label=str(name))
        ends.append((shown[-1], middle[-1], colour))
    ax.margins(x=0.01)
    ax.grid(axis="y", color=_style.PALE, lw=0.8)
    ax.set_ylabel("score" if scale is None else "rating", color=_style.INK)
    if index.scale.dates:
        _style.date_ticks(ax)
    else:
        ax.set_xlabel(f"time in {index.unit}s" if index.unit else "time", color=_style.INK)
    _label_ends(ax, [str(name) for name in names], ends)
    return ax


def _played(posterior: Posterior, names: Sequence[Hashable]) -> list[np.ndarray]:
    """The times of the matches of each feature."""
    played = [posterior.data.entries(name).times for name in names]
    if not played:
        raise ValueError("`names` is empty; name at least one feature.")
    for name, each in zip(names, played, strict=True):
        if not len(each):
            raise ValueError(
                f"no observation has the feature {name!r}; pass `times` to see its prior, or "
                f"{suggest_names(name, posterior.data.names)}"
            )
    return played


def _label_ends(ax: "Axes", names: list[str], ends: list[tuple]) -> None:
    """Names at the ends of their lines, so that no legend has to be looked up."""
    low, high = ax.get_ylim()
    height = ax.get_window_extent().height or 300.0
    gap = 14.0 * ax.figure.dpi / 100.0 / height * (high - low)
    places = _style.spread(np.array([end for _, end, _ in ends]), gap)
    for name, (last, _, colour), place in zip(names, ends, places, strict=True):
        ax.annotate(
            name,
            (last, place),
            xytext=(6, 0),
            textcoords="offset points",
            color=colour,
            va="center",
            fontsize=9,
            fontweight="bold",
            annotation_clip=False,
        )
