"""Curves: calibration, learning, and what a kernel looks like."""

from typing import TYPE_CHECKING, Protocol

import jax
import numpy as np
from jaxtyping import ArrayLike

from jaxkick.kernels import AbstractKernel, sample_prior
from jaxkick.learning.history import History
from jaxkick.plotting import _style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["calibration", "history", "kernel_samples"]


class _Curve(Protocol):
    """What a calibration curve has; see `jaxkick.evaluation.Calibration`."""

    predicted: np.ndarray
    observed: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    counts: np.ndarray


def calibration(curve: _Curve, *, ax: "Axes | None" = None) -> "Axes":
    """How often events happened against the probability that they were given.

    Args:
        curve: as `jaxkick.evaluation` computes it.
        ax: the axes to draw on.

    Returns:
        The axes.
    """
    ax = _style.axes(ax, (4.8, 4.8))
    ax.plot([0, 1], [0, 1], color=_style.GREY, lw=1, ls=(0, (4, 3)))
    predicted, observed = np.asarray(curve.predicted), np.asarray(curve.observed)
    errors = np.maximum([observed - curve.lower, curve.upper - observed], 0.0)
    colour = _style.line(0).colour
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
    ax.grid(color=_style.PALE, lw=0.8)
    ax.set_xlabel("predicted probability", color=_style.INK)
    ax.set_ylabel("observed frequency", color=_style.INK)
    return ax


def history(record: History, *, ax: "Axes | None" = None) -> "Axes":
    """The log-marginal likelihood, step by step of learning.

    Args:
        record: what `learn` returned beside the model.
        ax: the axes to draw on.

    Returns:
        The axes.
    """
    ax = _style.axes(ax)
    values, colour = np.asarray(record.values), _style.line(0).colour
    steps = np.arange(len(values))
    ax.plot(steps, values, color=colour, lw=1.8, marker="o", ms=4)
    best = int(np.argmax(values))
    ax.scatter(best, values[best], s=90, facecolor="none", edgecolor=_style.line(1).colour, lw=1.8)
    ax.annotate(
        f"{values[best]:,.2f}",
        (best, values[best]),
        xytext=(0, -16),
        textcoords="offset points",
        ha="right" if best > 0.5 * len(steps) else "left",
        color=_style.INK,
        fontsize=9,
    )
    ax.grid(axis="y", color=_style.PALE, lw=0.8)
    ax.locator_params(axis="x", integer=True)
    ax.set_xlabel("step", color=_style.INK)
    ax.set_ylabel("log-marginal likelihood", color=_style.INK)
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
    """Score paths as a kernel draws them, before any match.

    Args:
        kernel: the kernel.
        times: numbers in the unit of the kernel's lengthscales, increasing.
        count: how many paths.
        seed: of the random numbers.
        unit: the unit of time, for the label.
        ax: the axes to draw on.

    Returns:
        The axes.
    """
    ax = _style.axes(ax)
    numbers = np.asarray(times, np.float64)
    paths = np.asarray(sample_prior(kernel, numbers, jax.random.key(seed), (count,)))
    for number, path in enumerate(paths):
        colour, dashes = _style.line(number)
        ax.plot(numbers, path, color=colour, ls=dashes, lw=1.5)
    ax.axhline(0.0, color=_style.GREY, lw=0.8, zorder=0)
    ax.margins(x=0.01)
    ax.grid(axis="y", color=_style.PALE, lw=0.8)
    ax.set_xlabel(f"time in {unit}s" if unit else "time", color=_style.INK)
    ax.set_ylabel("score", color=_style.INK)
    ax.set_title(repr(kernel), fontsize=9, color=_style.GREY, loc="left")
    return ax
