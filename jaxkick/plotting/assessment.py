"""Plots of models: calibration, comparisons, learning, and draws from kernels."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

import jax
import numpy as np
from jaxtyping import ArrayLike

from jaxkick.errors import DataError
from jaxkick.kernels import AbstractKernel, sample_prior
from jaxkick.learning.learn import History
from jaxkick.plotting import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["calibration", "comparisons", "history", "kernel_samples", "model_table"]


class _Curve(Protocol):
    """A calibration curve; see `jaxkick.evaluation.Calibration`."""

    predicted: np.ndarray
    observed: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    counts: np.ndarray


class _Estimate(Protocol):
    """A number and its interval; see `jaxkick.evaluation.Estimate`."""

    @property
    def value(self) -> float: ...
    @property
    def lower(self) -> float: ...
    @property
    def upper(self) -> float: ...


class _Comparison(Protocol):
    """A comparison of forecasts; see `jaxkick.evaluation.Comparison`."""

    @property
    def difference(self) -> _Estimate: ...
    @property
    def probability_better(self) -> float: ...


def calibration(curve: _Curve, *, ax: "Axes | None" = None) -> "Axes":
    """Plot observed frequencies against predicted probabilities.

    Args:
        curve: a calibration curve from `jaxkick.evaluation`.
        ax: the axes to draw on; new ones if `None`.

    Returns:
        The axes.
    """
    ax = style.axes(ax, (4.8, 4.8))
    ax.plot([0, 1], [0, 1], color=style.GREY, lw=1, ls=(0, (4, 3)))
    predicted, observed = np.asarray(curve.predicted), np.asarray(curve.observed)
    errors = np.maximum([observed - curve.lower, curve.upper - observed], 0.0)
    colour = style.line(0).colour
    ax.errorbar(predicted, observed, errors, fmt="none", ecolor=colour, elinewidth=1.4, alpha=0.6)
    counts = np.asarray(curve.counts)
    ax.scatter(
        predicted,
        observed,
        s=25 + 55 * counts / counts.max(),
        color=colour,
        zorder=3,
        clip_on=False,
    )
    ax.set_xlim(0, 1)
    ax.set_ylim(0, 1)
    ax.set_aspect("equal")
    ax.grid(color=style.PALE, lw=0.8)
    ax.set_xlabel("predicted probability", color=style.INK)
    ax.set_ylabel("observed frequency", color=style.INK)
    return ax


def comparisons(
    found: Mapping[str, _Comparison], *, rival: str | None = None, ax: "Axes | None" = None
) -> "Axes":
    """Plot differences of log loss with their intervals; below zero the named model is better.

    Args:
        found: results of `jaxkick.evaluation.compare`, by the name of its first forecasts.
        rival: name of the second forecasts, for the label.
        ax: the axes to draw on; new ones if `None`.

    Returns:
        The axes.

    Raises:
        ValueError: if `found` is empty.
    """
    if not found:
        raise DataError("{argument} is empty", "Pass at least one comparison.", argument="found")
    ax = style.axes(ax, (7.0, 1.0 + 0.36 * len(found)))
    differences = [each.difference for each in found.values()]
    columns = ([getattr(each, end) for each in differences] for end in ("value", "lower", "upper"))
    ax.axvline(0.0, color=style.GREY, lw=1, ls=(0, (4, 3)))
    style.forest(ax, found, *columns)
    other = style.label(rival) if rival else "the rival"
    ax.set_xlabel(f"log loss minus that of {other} (lower is better)", color=style.INK)
    _annotate(ax, [f"better in {each.probability_better:.0%}" for each in found.values()])
    return ax


class _Table(Protocol):
    """A table of models; see `jaxkick.ModelTable`."""

    def columns(self) -> dict[str, np.ndarray]: ...


def model_table(table: _Table, *, top: int | None = 20, ax: "Axes | None" = None) -> "Axes":
    """Plot how far models are behind the best one, which is on top.

    With a backtest: the difference of log loss from the best model with its paired interval.
    Otherwise: the difference of the score, the log evidence with a penalty for parameters.

    Args:
        table: a table from `compare_models` or `discover`.
        top: number of models to show; all if `None`.
        ax: the axes to draw on; new ones if `None`.

    Returns:
        The axes.
    """
    columns = table.columns()
    by_loss = "difference" in columns
    behind = columns["score"] - np.nanmax(columns["score"])
    if by_loss:
        behind = np.append(0.0, columns["difference"][1:])
    shown = np.flatnonzero(np.isfinite(behind))[:top]
    ends = [behind, behind]
    if by_loss:
        ends = [np.append(0.0, columns[end][1:]) for end in ("lower", "upper")]
    ax = style.axes(ax, (7.0, 1.0 + 0.32 * len(shown)))
    ax.axvline(0.0, color=style.GREY, lw=1, ls=(0, (4, 3)))
    style.forest(ax, columns["model"][shown], behind[shown], *(end[shown] for end in ends))
    text = "log loss minus that of the best model" if by_loss else "score minus that of the best"
    ax.set_xlabel(text, color=style.INK)
    counts = columns["parameters"][shown]
    _annotate(ax, [f"{count} parameter{'s' if count > 1 else ''}" for count in counts])
    return ax


def _annotate(ax: "Axes", texts: list[str]) -> None:
    """Write a text to the right of each row."""
    for place, text in enumerate(texts):
        ax.annotate(
            text,
            (1.0, place),
            xycoords=("axes fraction", "data"),
            xytext=(6, 0),
            textcoords="offset points",
            color=style.GREY,
            va="center",
            fontsize=9,
        )


def history(record: History, *, ax: "Axes | None" = None) -> "Axes":
    """Plot the log marginal likelihood by learning step.

    Args:
        record: the history that `learn` returns.
        ax: the axes to draw on; new ones if `None`.

    Returns:
        The axes.
    """
    ax = style.axes(ax)
    values, colour = np.asarray(record.values), style.line(0).colour
    steps = np.arange(len(values))
    ax.plot(steps, values, color=colour, lw=1.8, marker="o", ms=4)
    best = int(np.argmax(values))
    ax.scatter(best, values[best], s=90, facecolor="none", edgecolor=style.line(1).colour, lw=1.8)
    ax.annotate(
        f"{values[best]:,.2f}",
        (best, values[best]),
        xytext=(0, -16),
        textcoords="offset points",
        ha="right" if best > 0.5 * len(steps) else "left",
        color=style.INK,
        fontsize=9,
    )
    ax.grid(axis="y", color=style.PALE, lw=0.8)
    ax.locator_params(axis="x", integer=True)
    ax.set_xlabel("step", color=style.INK)
    ax.set_ylabel("log marginal likelihood", color=style.INK)
    return ax


def kernel_samples(
    kernel: AbstractKernel,
    times: ArrayLike,
    *,
    count: int = 5,
    seed: int = 0,
    unit: str | None = None,
    ax: "Axes | None" = None,
) -> "Axes":
    """Plot skill curves drawn from a kernel's prior.

    Args:
        kernel: the kernel.
        times: increasing times, in the unit of the kernel's lengthscales.
        count: number of curves.
        seed: seed of the random numbers.
        unit: unit of time, for the label.
        ax: the axes to draw on; new ones if `None`.

    Returns:
        The axes.
    """
    ax = style.axes(ax)
    numbers = np.asarray(times, np.float64)
    paths = np.asarray(sample_prior(kernel, numbers, jax.random.key(seed), (count,)))
    for number, path in enumerate(paths):
        colour, dashes = style.line(number)
        ax.plot(numbers, path, color=colour, ls=dashes, lw=1.5)
    ax.axhline(0.0, color=style.GREY, lw=0.8, zorder=0)
    ax.margins(x=0.01)
    ax.grid(axis="y", color=style.PALE, lw=0.8)
    ax.set_xlabel(f"time in {unit}s" if unit else "time", color=style.INK)
    ax.set_ylabel("score", color=style.INK)
    ax.set_title(repr(kernel), fontsize=9, color=style.GREY, loc="left")
    return ax
