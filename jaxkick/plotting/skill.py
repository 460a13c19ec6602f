"""Plots of skill: curves over time, the leaderboard, and probabilities of winning and of places."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np

from jaxkick.data.columns import TimeScale
from jaxkick.data.queries import check_known, read_names
from jaxkick.errors import DataError
from jaxkick.plotting import style
from jaxkick.posterior import Posterior
from jaxkick.posterior.components import Components
from jaxkick.posterior.explanation import Explanation
from jaxkick.posterior.leaderboard import Scale, half_width, points_of
from jaxkick.posterior.posterior import match_times
from jaxkick.posterior.prediction import RankPrediction

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "components",
    "explanation",
    "leaderboard",
    "rank_probabilities",
    "scores",
    "win_probabilities",
]

_POINTS = 300


def scores(
    posterior: Posterior,
    names: Sequence[Hashable],
    *,
    times: Any = None,
    interval: float = 0.9,
    scale: Scale | tuple[float, float] | str | None = None,
    joint: bool | None = None,
    aspects: Mapping[str, float] | None = None,
    allow_unknown: bool = False,
    ax: "Axes | None" = None,
) -> "Axes":
    """Plot skill curves with credible bands, over dates if the data has dates.

    Args:
        posterior: the fitted posterior.
        names: competitors or other features to draw.
        times: times in the units of the data; if `None`, evenly spaced from the first to the
            last match of all of them, where each curve begins with its own first match.
        interval: probability of the bands; 0 draws none.
        scale: scale of the ratings, as in `Posterior.leaderboard`.
        joint: whether bands are those of the joint posterior, as in `Posterior.scores`.
        aspects: coefficients of aspects, as in `Posterior.scores`, such as `{"clay": 1}`.
        allow_unknown: whether to plot the prior of names that are not in the data; needs `times`.
        ax: the axes to draw on; new ones if `None`.

    Raises:
        DataError: if a name is unknown, or has no matches and `times` is `None`.
    """
    names = read_names(names)
    if not allow_unknown:
        check_known(posterior.data.index, names, "names")
    reach = half_width(interval) if interval else 0.0
    ax = style.axes(ax, grid="y")
    index, points = posterior.data.index, points_of(scale, posterior.model.duel)
    debuts = np.full(len(names), -np.inf)
    if times is None:
        played = match_times(index, names, "names")
        debuts = np.array([each[0] for each in played])
        grid = np.linspace(debuts.min(), max(each[-1] for each in played), _POINTS)
        times = index.scale.to_user(grid)
    options = {"joint": joint if interval else False, "aspects": aspects}
    options["allow_unknown"] = allow_unknown
    alpha, ends = _band_alpha(len(names)), []
    for number, name in enumerate(names):
        found = posterior.scores(name, times, **options)
        # The last point is always kept, because it carries the label.
        drawn = found.numbers >= min(debuts[number], np.max(found.numbers))
        mean, deviation = np.asarray(found.mean)[drawn], np.sqrt(found.variance)[drawn]
        middle, width = points.centre + points.factor * mean, points.factor * reach * deviation
        shown = found.times[drawn]
        colour, dashes = style.line(number)
        if interval:
            ax.fill_between(shown, middle - width, middle + width, color=colour, alpha=alpha, lw=0)
        ax.plot(shown, middle, color=colour, ls=dashes, lw=1.8, label=style.label(name))
        ends.append((shown[-1], middle[-1], colour))
    _finish_curves(ax, index.scale, "score" if scale is None else "rating")
    style.label_ends(ax, names, ends)
    return ax


def components(found: Components, *, interval: float = 0.9, ax: "Axes | None" = None) -> "Axes":
    """Plot a skill curve and the parts that sum to it, with credible bands.

    Args:
        found: the parts, from `Posterior.components`.
        interval: probability of the bands; 0 draws none.
        ax: the axes to draw on; new ones if `None`.
    """
    reach = half_width(interval) if interval else 0.0
    ax = style.axes(ax, grid="y")
    curves = {str(found.whole.name): found.whole, **found.parts}
    alpha, ends = _band_alpha(len(curves)), []
    for number, (name, part) in enumerate(curves.items()):
        colour, dashes = style.line(number)
        mean, width = np.asarray(part.mean), reach * np.sqrt(np.asarray(part.variance))
        if interval:
            limits = (mean - width, mean + width)
            ax.fill_between(found.times, *limits, color=colour, alpha=0.6 * alpha, lw=0)
            # Edges tell overlapping bands apart.
            for end in limits:
                ax.plot(found.times, end, color=colour, ls=dashes, lw=0.7, alpha=0.6)
        thickness = 2.4 if number == 0 else 1.6
        label = style.label(name)
        ax.plot(found.times, mean, color=colour, ls=dashes, lw=thickness, label=label)
        ends.append((found.times[-1], mean[-1], colour))
    ax.axhline(0.0, color=style.GREY, lw=0.8, zorder=0)
    _finish_curves(ax, found.whole.scale, "score")
    style.label_ends(ax, list(curves), ends)
    return ax


def _band_alpha(count: int) -> float:
    """The more bands overlap, the paler they are."""
    return min(0.13, 0.45 / max(count, 1))


def _finish_curves(ax: "Axes", scale: TimeScale, quantity: str) -> None:
    """Label the axes of curves over time."""
    ax.margins(x=0.01)
    ax.set_ylabel(quantity, color=style.INK)
    if scale.dates:
        style.date_ticks(ax)
    else:
        ax.set_xlabel(f"time in {scale.unit}s" if scale.unit else "time", color=style.INK)


def leaderboard(
    table: Any, *, top: int | None = 20, ax: "Axes | None" = None, **options: Any
) -> "Axes":
    """Plot ratings with their intervals, best on top.

    Args:
        table: a table from `Posterior.leaderboard`, or a posterior or stream.
        top: number of competitors to show; all if `None`.
        ax: the axes to draw on; new ones if `None`.
        **options: `time`, `scale` and other arguments of `Posterior.leaderboard`, if `table` is
            a posterior or stream.

    Raises:
        TypeError: if there are options for a table, which has its ratings already.
    """
    if hasattr(table, "leaderboard"):
        table = table.leaderboard(**options)
    elif options:
        raise TypeError(
            f"`{next(iter(options))}` needs a posterior or stream. Pass it to `leaderboard` of the "
            "posterior, which makes the table."
        )
    columns = {name: column[:top] for name, column in _columns_of(table).items()}
    count = len(columns["name"])
    ax = style.axes(ax, (7.0, 1.0 + 0.27 * count), x="rating")
    for place in range(1, count, 2):
        ax.axhspan(place - 0.5, place + 0.5, color=style.PALE, alpha=0.45, lw=0)
    style.forest(ax, *(columns[name] for name in ("name", "rating", "lower", "upper")))
    texts = [f"{chance:.0%}" if chance >= 0.005 else "–" for chance in columns["best"]]
    style.beside(ax, texts, size=8)
    frame = {"xycoords": ("axes fraction", "data"), "annotation_clip": False}
    style.note(ax, "best", (1.01, -0.95), color=style.GREY, size=8, **frame)
    return ax


def explanation(explained: Explanation, *, top: int = 10, ax: "Axes | None" = None) -> "Axes":
    """Plot the matches that contribute most to a rating or its change, as a waterfall.

    Args:
        explained: an explanation from `Posterior.explain`.
        top: number of matches to show; the others are one bar.
        ax: the axes to draw on; new ones if `None`.
    """
    order = np.argsort(-np.abs(explained.contribution), kind="stable")
    shown, others = order[:top], order[top:]
    rest = explained.rest + float(explained.contribution[others].sum())
    steps = np.append(explained.contribution[shown], rest)
    labels = [style.label(each) for each in explained.match[shown]]
    if np.issubdtype(explained.time.dtype, np.datetime64):
        days = np.datetime_as_string(explained.time[shown], unit="D")
        labels = [f"{each}, {day}" for each, day in zip(labels, days, strict=True)]
    labels.append(f"{len(others):,} other matches")
    ends = explained.baseline + np.cumsum(steps)
    begins = ends - steps
    title, quantity = style.label(explained.name), "rating"
    if explained.change is not None:
        title, quantity = f"{title}, {explained.change}", "change of the rating"
    ax = style.axes(ax, (7.0, 1.2 + 0.3 * len(steps)), x=quantity)
    places = np.arange(len(steps))
    colours = [style.line(0).colour if step >= 0 else style.line(1).colour for step in steps]
    ax.barh(places, steps, left=begins, color=colours, height=0.65)
    ax.vlines(ends[:-1], places[:-1], places[1:], color=style.GREY, lw=0.8)
    for place, (begin, end) in enumerate(zip(begins, ends, strict=True)):
        text = f"{end - begin:+.3g}" if abs(explained.rating) < 20 else f"{end - begin:+.0f}"
        style.note(ax, text, (max(begin, end), place), xytext=(4, 0), size=8)
    for value in (explained.baseline, explained.rating):
        ax.axvline(value, color=style.GREY, lw=0.8, ls=":")
    ax.use_sticky_edges = False
    ax.margins(x=0.1)
    ax.set_yticks(places, labels)
    ax.set_ylim(len(steps) - 0.5, -0.5)
    ax.tick_params(axis="y", length=0)
    ax.spines["left"].set_visible(False)
    ax.set_title(title, color=style.INK, loc="left", fontsize=11)
    return ax


def win_probabilities(
    posterior: Any,
    names: Sequence[Hashable],
    time: Any,
    *,
    home: float | None = None,
    features: Callable[[Any, Any], Mapping[Hashable, float]] | None = None,
    allow_unknown: bool = False,
    ax: "Axes | None" = None,
) -> "Axes":
    """Plot a matrix of the probabilities that the row's competitor beats the column's.

    Args:
        posterior: a posterior or a stream.
        names: the competitors.
        time: time of the matches, in the units of the data.
        home: 1 if the row's competitor is at home; see `Posterior.predict`.
        features: gives the features of the row's competitor against the column's, with
            coefficients, such as a feature of the pair; by default its name alone.
        allow_unknown: as in `Posterior.predict`.
        ax: the axes to draw on; new ones if `None`.

    Raises:
        DataError: if there are fewer than two names, one of them twice, or an unknown one.
    """
    names = read_names(names)
    count = len(names)
    if len(set(names)) < count:
        raise DataError("{argument} has a name twice", "Pass each name once.", argument="names")
    if count < 2:
        raise DataError(
            "{argument} has fewer than two names", "Pass at least two.", argument="names"
        )
    pairs = [(first, second) for first in names for second in names if first != second]
    first = [row if features is None else features(row, column) for row, column in pairs]
    second = [column for _, column in pairs]
    prediction = posterior.predict(first, second, time, home=home, allow_unknown=allow_unknown)
    chances = np.full((count, count), np.nan)
    chances[~np.eye(count, dtype=bool)] = np.asarray(prediction.p_win)
    ax = style.axes(ax, (max(4.4, 1.8 + 0.52 * count), 1.2 + 0.46 * count))
    style.matrix(ax, chances, 0, 0.6, vmax=1.0)
    labels = [style.label(name) for name in names]
    ax.set_xticks(range(count), labels, rotation=40, ha="left", rotation_mode="anchor")
    ax.set_yticks(range(count), labels)
    ax.xaxis.tick_top()
    place = {1.0: ", at home,", -1.0: ", away,"}.get(home or 0.0, "")
    caption = f"probability in % that the row{place} beats the column"
    ax.set_xlabel(caption, color=style.GREY, fontsize=9)
    ax.xaxis.set_label_position("bottom")
    return ax


def rank_probabilities(
    prediction: RankPrediction, *, top: int | None = None, ax: "Axes | None" = None
) -> "Axes":
    """Plot a matrix of the probabilities that each side of an event finishes in each place.

    The favourite is on top. Expected places are on the right.

    Args:
        prediction: prediction of one event, from `Posterior.predict_ranking`.
        top: number of sides to show; all if `None`.
        ax: the axes to draw on; new ones if `None`.
    """
    columns, chances = prediction.columns(), np.asarray(prediction.probabilities)
    order = np.argsort(columns["expected_rank"], kind="stable")[:top]
    names, expected = columns["name"][order], columns["expected_rank"][order]
    chances = chances[order]
    count, places = chances.shape
    ax = style.axes(ax, (2.2 + 0.44 * places, 1.1 + 0.38 * count))
    style.places(ax, chances, names, [f"{place:.1f}" for place in expected], "expected")
    return ax


def _columns_of(table: Any) -> dict[str, np.ndarray]:
    if isinstance(table, Mapping):
        return {str(name): np.asarray(column) for name, column in table.items()}
    frame = nw.from_native(table, eager_only=True)
    return {name: frame[name].to_numpy() for name in frame.columns}
