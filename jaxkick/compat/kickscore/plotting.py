"""Scores over time, as kickscore draws them."""

from datetime import datetime
from typing import Any

import numpy as np

__all__ = ["plot_scores"]


def plot_scores(
    model: Any, items, resolution=None, figsize=None, timestamps=False
) -> tuple[Any, Any]:
    """A line for each item's mean in a band of one standard deviation; needs matplotlib.

    Args:
        model: a fitted model.
        items: names.
        resolution: points per unit of time; 100 over the whole data if `None`.
        figsize: width and height in inches.
        timestamps: whether times are seconds since 1970, to be shown as dates.

    Returns:
        The figure and its axes.
    """
    import matplotlib.pyplot as plt

    times = [observation.t for observation in model.observations]
    resolution = resolution or 100 / max(max(times) - min(times), 1e-9)
    figure, axes = plt.subplots(figsize=figsize)
    for name in items:
        own, _, _ = model.item[name].scores
        grid = np.linspace(own[0], own[-1], max(int(resolution * np.ptp(own)), 1))
        means, variances = model.item[name].predict(grid)
        low, high = means - np.sqrt(variances), means + np.sqrt(variances)
        where = [datetime.fromtimestamp(t) for t in grid] if timestamps else grid
        (line,) = axes.plot(where, means, label=name)
        axes.fill_between(where, low, high, color=line.get_color(), alpha=0.1)
    axes.spines[:].set_visible(False)
    axes.grid(axis="x", alpha=0.5)
    axes.legend()
    return figure, axes
