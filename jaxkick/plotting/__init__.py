"""Pictures with matplotlib, which is imported when the first of them is drawn.

Every function takes the `Axes` to draw on, makes one if there is none, and returns it. Lines
differ in brightness and in dashes, so that pictures can be read in grey.
"""

from jaxkick.plotting.comparisons import comparisons
from jaxkick.plotting.counts import goal_differences, goal_grid
from jaxkick.plotting.curves import calibration, history, kernel_samples
from jaxkick.plotting.scores import scores
from jaxkick.plotting.standings import leaderboard, win_probabilities

__all__ = [
    "calibration",
    "comparisons",
    "goal_differences",
    "goal_grid",
    "history",
    "kernel_samples",
    "leaderboard",
    "scores",
    "win_probabilities",
]
