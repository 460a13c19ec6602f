"""Who predicts better, and how sure that is."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

import numpy as np

from jaxkick.plotting import _style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["comparisons"]


class _Estimate(Protocol):
    """A number and its interval; see `jaxkick.evaluation.Estimate`."""

    @property
    def value(self) -> float: ...
    @property
    def lower(self) -> float: ...
    @property
    def upper(self) -> float: ...


class _Comparison(Protocol):
    """What a comparison has; see `jaxkick.evaluation.Comparison`."""

    @property
    def difference(self) -> _Estimate: ...
    @property
    def probability_better(self) -> float: ...


def comparisons(
    found: Mapping[str, _Comparison], *, rival: str | None = None, ax: "Axes | None" = None
) -> "Axes":
    """Differences of log loss with their intervals, left of zero where the named one is better.

    Args:
        found: what `jaxkick.evaluation.compare` returned, by the name of its first forecasts.
        rival: the name of the second forecasts, for the label.
        ax: the axes to draw on.

    Returns:
        The axes.

    Raises:
        ValueError: if there are none.
    """
    if not found:
        raise ValueError("`found` is empty; compare at least one model.")
    ax = _style.axes(ax, (7.0, 1.0 + 0.36 * len(found)))
    places = np.arange(len(found))
    colour = _style.line(0).colour
    value, lower, upper = (
        np.array([getattr(each.difference, end) for each in found.values()])
        for end in ("value", "lower", "upper")
    )
    ax.axvline(0.0, color=_style.GREY, lw=1, ls=(0, (4, 3)))
    ax.hlines(places, lower, upper, color=colour, lw=2.2, alpha=0.45)
    ax.scatter(value, places, color=colour, s=34, zorder=3)
    ax.set_yticks(places, list(found))
    ax.set_ylim(len(found) - 0.5, -0.5)
    ax.tick_params(axis="y", length=0)
    ax.spines["left"].set_visible(False)
    ax.grid(axis="x", color=_style.PALE, lw=0.8)
    against = f"that of {rival}" if rival else "the rival's"
    ax.set_xlabel(f"log loss less {against}: better on the left", color=_style.INK)
    _write_chances(ax, [each.probability_better for each in found.values()])
    return ax


def _write_chances(ax: "Axes", chances: list[float]) -> None:
    """In how many resamples each was better, at the right end."""
    for place, chance in enumerate(chances):
        ax.annotate(
            f"better in {chance:.0%}",
            (1.0, place),
            xycoords=("axes fraction", "data"),
            xytext=(6, 0),
            textcoords="offset points",
            color=_style.GREY,
            va="center",
            fontsize=9,
        )
