"""Plots of models: calibration, comparisons, learning, and draws from kernels."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import jax
import numpy as np
from jaxtyping import ArrayLike

from jaxkick.discovery import ModelTable
from jaxkick.errors import DataError
from jaxkick.evaluation import Calibration, Comparison
from jaxkick.kernels import AbstractKernel, sample_prior
from jaxkick.learning.learn import History
from jaxkick.plotting import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["calibration", "comparisons", "history", "kernel_samples", "model_table"]


def calibration(curve: Calibration, *, ax: "Axes | None" = None) -> "Axes":
    """Plot observed frequencies against predicted probabilities.

    Args:
        curve: a calibration curve from `jaxkick.evaluation`.
        ax: the axes to draw on; new ones if `None`.
    """
    labels = {"x": "predicted probability", "y": "observed frequency"}
    ax = style.axes(ax, (4.8, 4.8), grid="both", **labels)
    ax.plot([0, 1], [0, 1], color=style.GREY, lw=1, ls=(0, (4, 3)))
    predicted, observed = np.asarray(curve.predicted), np.asarray(curve.observed)
    errors = np.maximum([observed - curve.lower, curve.upper - observed], 0.0)
    colour = style.line(0).colour
    ax.errorbar(predicted, observed, errors, fmt="none", ecolor=colour, elinewidth=1.4, alpha=0.6)
    sizes = 25 + 55 * np.asarray(curve.counts) / np.max(curve.counts)
    ax.scatter(predicted, observed, s=sizes, color=colour, zorder=3, clip_on=False)
    ax.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
    return ax


def comparisons(
    found: Mapping[str, Comparison], *, rival: str | None = None, ax: "Axes | None" = None
) -> "Axes":
    """Plot differences of log loss with their intervals; below zero the named model is better.

    Args:
        found: results of `jaxkick.evaluation.compare`, by the name of its first forecasts.
        rival: name of the second forecasts, for the label.
        ax: the axes to draw on; new ones if `None`.

    Raises:
        ValueError: if `found` is empty.
    """
    if not found:
        raise DataError("{argument} is empty", "Pass at least one comparison.", argument="found")
    other = style.label(rival) if rival else "the rival"
    text = f"log loss minus that of {other} (lower is better)"
    ax = style.axes(ax, (7.0, 1.0 + 0.36 * len(found)), x=text)
    differences = [each.difference for each in found.values()]
    columns = ([getattr(each, end) for each in differences] for end in ("value", "lower", "upper"))
    ax.axvline(0.0, color=style.GREY, lw=1, ls=(0, (4, 3)))
    style.forest(ax, found, *columns)
    texts = [f"better in {each.probability_better:.0%}" for each in found.values()]
    style.beside(ax, texts, color=style.GREY)
    return ax


def model_table(table: ModelTable, *, top: int | None = 20, ax: "Axes | None" = None) -> "Axes":
    """Plot how far models are behind the best one, which is on top.

    With a backtest: the difference of log loss from the best model with its paired interval.
    Otherwise: the difference of the score, the log evidence with a penalty for parameters.

    Args:
        table: a table from `compare_models` or `discover`.
        top: number of models to show; all if `None`.
        ax: the axes to draw on; new ones if `None`.
    """
    columns = table.columns()
    if "difference" in columns:
        text = "log loss minus that of the best model"
        ends = (np.append(0.0, columns[end][1:]) for end in ("difference", "lower", "upper"))
    else:
        text = "score minus that of the best"
        ends = [columns["score"] - np.nanmax(columns["score"])] * 3
    behind, lower, upper = ends
    shown = np.flatnonzero(np.isfinite(behind))[:top]
    ax = style.axes(ax, (7.0, 1.0 + 0.32 * len(shown)), x=text)
    ax.axvline(0.0, color=style.GREY, lw=1, ls=(0, (4, 3)))
    style.forest(ax, columns["model"][shown], behind[shown], lower[shown], upper[shown])
    counts = columns["parameters"][shown]
    texts = [f"{count} parameter{'s' if count > 1 else ''}" for count in counts]
    style.beside(ax, texts, color=style.GREY)
    return ax


def history(record: History, *, ax: "Axes | None" = None) -> "Axes":
    """Plot the log marginal likelihood by learning step.

    Args:
        record: the history that `learn` returns.
        ax: the axes to draw on; new ones if `None`.
    """
    ax = style.axes(ax, grid="y", x="step", y="log marginal likelihood")
    values, colour = np.asarray(record.values), style.line(0).colour
    steps = np.arange(len(values))
    ax.plot(steps, values, color=colour, lw=1.8, marker="o", ms=4)
    best = int(np.argmax(values))
    ax.scatter(best, values[best], s=90, facecolor="none", edgecolor=style.line(1).colour, lw=1.8)
    side = {"ha": "right" if best > 0.5 * len(steps) else "left", "va": "baseline"}
    style.note(ax, f"{values[best]:,.2f}", (best, values[best]), xytext=(0, -16), **side)
    ax.locator_params(axis="x", integer=True)
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
    """
    ax = style.axes(ax, grid="y", x=f"time in {unit}s" if unit else "time", y="score")
    numbers = np.asarray(times, np.float64)
    paths = np.asarray(sample_prior(kernel, numbers, jax.random.key(seed), (count,)))
    for number, path in enumerate(paths):
        colour, dashes = style.line(number)
        ax.plot(numbers, path, color=colour, ls=dashes, lw=1.5)
    ax.axhline(0.0, color=style.GREY, lw=0.8, zorder=0)
    ax.margins(x=0.01)
    ax.set_title(repr(kernel), fontsize=9, color=style.GREY, loc="left")
    return ax
