"""Plots with matplotlib, which is imported when the first plot is drawn.

Each function takes the `Axes` to draw on, makes them if there are none, and returns them. Lines
differ in brightness and in dashes, so that plots are readable without colours.
"""

from jaxkick.plotting.assessment import (
    calibration,
    comparisons,
    history,
    kernel_samples,
    model_table,
)
from jaxkick.plotting.goals import goal_differences, goal_grid
from jaxkick.plotting.seasons import final_places, title_race
from jaxkick.plotting.skill import (
    components,
    explanation,
    leaderboard,
    rank_probabilities,
    scores,
    win_probabilities,
)

__all__ = [
    "calibration",
    "comparisons",
    "components",
    "explanation",
    "final_places",
    "goal_differences",
    "goal_grid",
    "history",
    "kernel_samples",
    "leaderboard",
    "model_table",
    "rank_probabilities",
    "scores",
    "title_race",
    "win_probabilities",
]
