"""A line search by bracketing, for objectives whose every value comes with its gradient.

The weak Wolfe conditions in the manner of A. S. Lewis and M. L. Overton, "Nonsmooth
optimization via quasi-Newton methods", Mathematical Programming 141 (2013): enough descent,
and a slope that has flattened. Infinite losses count as too far.
"""

from collections.abc import Generator
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from jaxkick.learning.objective import Evaluation

__all__ = ["Search", "inner", "move", "search"]

_DESCENT = 1e-4
_FLATTER = 0.9
_MAX_TRIALS = 12
# Parameters are mostly logarithms: a first trial further than this is seldom meant.
_LONGEST_TRIAL = 2.0


class Search(NamedTuple):
    """What a search found.

    Attributes:
        end: the point and its evaluation; `None` if no trial went down.
        curved: whether the slope has risen on the way there.
    """

    end: tuple[PyTree, Evaluation] | None
    curved: bool


def search(
    point: PyTree, now: Evaluation, direction: PyTree, slope: float
) -> Generator[PyTree, Evaluation, Search]:
    """Look for a lower loss along a direction.

    Args:
        point: where the line starts.
        now: the objective there.
        direction: where the line leads.
        slope: the derivative along it, below zero.

    Yields:
        Points to be evaluated.

    Returns:
        The first point that fulfils both conditions, or else the best one.
    """
    start = float(now.loss)
    best = Search(None, False)
    low, high = 0.0, np.inf
    largest = max(float(jnp.max(jnp.abs(leaf))) for leaf in jax.tree.leaves(direction) if leaf.size)
    size = min(1.0, _LONGEST_TRIAL / largest)
    for _ in range(_MAX_TRIALS):
        trial = move(point, direction, size)
        evaluation = yield trial
        loss = float(evaluation.loss)
        if not loss < start + _DESCENT * size * slope:
            high = size
            size = _shorter(low, high, loss - start, slope)
            continue
        along = inner(evaluation.gradient, direction)
        if best.end is None or loss < float(best.end[1].loss):
            best = Search((trial, evaluation), along > slope)
        if along >= _FLATTER * slope:
            break
        low = size
        size = 2.0 * size if np.isinf(high) else 0.5 * (low + high)
    return best


def move(point: PyTree, direction: PyTree, size: float) -> PyTree:
    """The point at `size` along a direction, in the point's own types."""
    return jax.tree.map(
        lambda p, d: p + jnp.asarray(size, p.dtype) * d.astype(p.dtype), point, direction
    )


def inner(first: PyTree, second: PyTree) -> float:
    """The inner product of two trees."""
    pairs = zip(jax.tree.leaves(first), jax.tree.leaves(second), strict=True)
    return float(sum(np.vdot(np.asarray(a, float), np.asarray(b, float)) for a, b in pairs))


def _shorter(low: float, high: float, rise: float, slope: float) -> float:
    """A size between two others: the minimum of a parabola from the start, kept inside."""
    middle = 0.5 * (low + high)
    curvature = rise - slope * high
    if low > 0.0 or not np.isfinite(rise) or curvature <= 0.0:
        return middle
    return float(np.clip(-0.5 * slope * high * high / curvature, 0.1 * high, middle))
