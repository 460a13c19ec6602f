"""One-dimensional integrals of a likelihood under a Gaussian, by brute force.

The trapezoidal rule converges exponentially for smooth integrands that decay on both sides, so:
find where the integrand lives, then double the number of nodes until nothing changes.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

__all__ = ["Derivatives", "expectation", "log_partition"]

_DEPTH = 50.0  # What lies e⁻⁵⁰ below the peak is cut off.
_REACH = np.sinh(np.linspace(-14.0, 14.0, 161))  # Out to ±6e5, with steps of 0.2 around zero.
_MOST_NODES = 2**19
_TOLERANCE = 1e-12


class Derivatives(NamedTuple):
    """A function of the Gaussian's mean and its first and second derivative."""

    value: np.ndarray
    first: np.ndarray
    second: np.ndarray


class _Case(NamedTuple):
    """One integral a row: outcome, Gaussian and weight, each [rows, 1]."""

    outcome: np.ndarray
    mean: np.ndarray
    deviation: np.ndarray
    weight: np.ndarray

    @staticmethod
    def of(outcome, mean, variance, weight=1.0) -> "_Case":
        arrays = np.broadcast_arrays(outcome, mean, np.sqrt(variance), weight)
        return _Case(*(np.reshape(array, (-1, 1)).astype(float) for array in arrays))

    def rows(self, which: np.ndarray) -> "_Case":
        return _Case(*(array[which] for array in self))

    def score(self, z: np.ndarray) -> np.ndarray:
        return self.mean + self.deviation * z


def _support(height: Callable, case: _Case) -> tuple[np.ndarray, np.ndarray]:
    """The range in deviations from the mean where exp(height) is within e⁻⁵⁰ of its peak.

    The first look has points dense around the Gaussian's mean and around zero scores, wide
    enough for both; each further look spreads points over what the previous one kept.
    """
    near_zero = (_REACH - case.mean) / np.maximum(case.deviation, 1e-100)
    near_mean = np.broadcast_to(_REACH, near_zero.shape)
    z = np.concatenate([near_mean, np.clip(near_zero, _REACH[0], _REACH[-1])], axis=1)
    z = np.sort(z, axis=1)
    rows = np.arange(len(z))
    for _ in range(6):
        raw = height(case, z)
        # An overflow far outside is no peak; one that stays at the edge is refused below.
        heights = np.where(np.isfinite(raw), raw, -np.inf)
        peak = heights.max(axis=1, keepdims=True)
        kept = heights > peak - _DEPTH
        first = np.maximum(kept.argmax(axis=1) - 1, 0)
        last = z.shape[1] - 1 - np.maximum(kept[:, ::-1].argmax(axis=1) - 1, 0)
        edges = np.stack([raw[rows, first], raw[rows, last]], axis=1)
        low, high = z[rows, first], z[rows, last]
        z = np.linspace(low, high, 129, axis=1)
    if not np.all(edges < peak - 0.5 * _DEPTH):
        raise ValueError("The integrand does not decay inside the range of the numbers.")
    return low, high


def _integrate(rule: Callable, height: Callable, case: _Case) -> Derivatives:
    """Apply `rule` on ever finer grids until no answer moves.

    `rule(case, z, step)` returns the three answers and the sizes of the terms that they sum,
    which say how much of a change is rounding.
    """
    low, high = _support(height, case)
    answers = np.full((3, len(low)), np.nan)
    open_rows, nodes = np.arange(len(low)), 128
    while open_rows.size and nodes <= _MOST_NODES:
        start, stop = low[open_rows], high[open_rows]
        z = np.linspace(start, stop, nodes + 1, axis=1)
        new, scales = rule(case.rows(open_rows), z, (stop - start) / nodes)
        change = np.abs(np.stack(new) - answers[:, open_rows])
        settled = np.all(change <= _TOLERANCE * np.stack(scales), axis=0)
        answers[:, open_rows] = new
        open_rows, nodes = open_rows[~settled], 2 * nodes
    if open_rows.size:
        raise ValueError(f"The integrals {open_rows.tolist()} did not settle.")
    return Derivatives(*answers)


def log_partition(log_prob: Callable, outcome, mean, variance, weight=1.0) -> Derivatives:
    """Log Z = log ∫ p(y|f)ʷ N(f; mean, variance) df and its derivatives in `mean`.

    The derivatives come from the moments of the tilted density, δ1 = (E f − mean)/variance and
    δ2 = (Var f − variance)/variance². Where that cancels (a likelihood wider than the Gaussian)
    and `log_prob` has `slope` and `curvature`, δ1 = w E[slope] and
    δ2 = w E[curvature] + w² Var[slope] under the same density.

    Args:
        log_prob: function of (outcome, score), or a `Likelihood`.
        outcome: outcomes, one-dimensional after broadcasting with the other arguments.
        mean: means of the Gaussian.
        variance: variances of the Gaussian.
        weight: powers w on the likelihood.

    Raises:
        ValueError: if an integral does not exist in floating point or does not settle.
    """

    def height(case, z):
        likelihood = log_prob(case.outcome, case.score(z))
        # A weight of zero must win over a log-probability of −∞.
        return np.where(case.weight == 0, 0.0, case.weight * likelihood) - 0.5 * z**2

    def rule(case, z, step):
        heights = height(case, z)
        peak = heights.max(axis=1, keepdims=True)
        density = np.exp(heights - peak)
        total = density.sum(axis=1)
        density = density / total[:, None]
        value = peak[:, 0] + np.log(total * step / np.sqrt(2.0 * np.pi))
        first, second, scale = _from_moments(case, z, density)
        if hasattr(log_prob, "slope"):
            slope_first, slope_second, slope_scale = _from_slopes(log_prob, case, z, density)
            wide = slope_scale * case.deviation[:, 0] ** 2 < 1.0
            first = np.where(wide, slope_first, first)
            second = np.where(wide, slope_second, second)
            scale = np.where(wide, slope_scale, scale)
        # Far out in the Gaussian's tail its exponent is large and rounds coarsely.
        rounding = 1.0 + 1e-3 * (np.abs(peak[:, 0]) + 0.5 * (z**2).min(axis=1))
        scales = (1.0 + np.abs(value), 1.0 + np.sqrt(scale) + np.abs(first), 1.0 + scale)
        return (value, first, second), tuple(rounding * scale for scale in scales)

    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        return _integrate(rule, height, _Case.of(outcome, mean, variance, weight))


def _from_moments(case: _Case, z, density):
    """Derivatives of log Z by the tilted mean and variance, and the size of what cancels."""
    deviation = case.deviation[:, 0]
    shift = (density * z).sum(axis=1)
    spread = (density * (z - shift[:, None]) ** 2).sum(axis=1)
    return shift / deviation, (spread - 1.0) / deviation**2, (spread + 1.0) / deviation**2


def _from_slopes(log_prob, case: _Case, z, density):
    """Derivatives of log Z by averages of the log-probability's, and the size of what cancels."""
    slope = case.weight * log_prob.slope(case.outcome, case.score(z))
    curvature = case.weight * log_prob.curvature(case.outcome, case.score(z))
    # Where the density is zero, a derivative may be infinite.
    slope, curvature = (np.where(density > 0, part, 0.0) for part in (slope, curvature))
    average = (density * slope).sum(axis=1)
    variance = (density * (slope - average[:, None]) ** 2).sum(axis=1)
    mean_curvature = (density * curvature).sum(axis=1)
    return average, mean_curvature + variance, np.abs(mean_curvature) + variance


def expectation(log_prob: Callable, outcome, mean, variance) -> Derivatives:
    """E[log p(y|f)] under N(f; mean, variance) and its derivatives in `mean`.

    The derivatives are E[slope] and E[curvature] where `log_prob` has them, otherwise
    E[z log p]/σ and E[(z² − 1) log p]/σ² with z the standardised score.

    Args:
        log_prob: function of (outcome, score), or a `Likelihood`.
        outcome: outcomes, one-dimensional after broadcasting with the other arguments.
        mean: means of the Gaussian.
        variance: variances of the Gaussian.

    Raises:
        ValueError: if an integral does not exist in floating point or does not settle.
    """

    def terms(case, z):
        f = case.score(z)
        values = log_prob(case.outcome, f)
        if hasattr(log_prob, "slope"):
            return values, log_prob.slope(case.outcome, f), log_prob.curvature(case.outcome, f)
        # A constant has no derivative, and taking it away first saves digits.
        moved = values - log_prob(case.outcome, case.mean)
        return values, z * moved / case.deviation, (z**2 - 1.0) * moved / case.deviation**2

    def height(case, z):
        return np.log(sum(np.abs(term) for term in terms(case, z))) - 0.5 * z**2

    def rule(case, z, step):
        density = np.exp(-0.5 * z**2) * step[:, None] / np.sqrt(2.0 * np.pi)
        parts = [density * part for part in terms(case, z)]
        scales = tuple(1.0 + np.abs(part).sum(axis=1) for part in parts)
        return tuple(part.sum(axis=1) for part in parts), scales

    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        return _integrate(rule, height, _Case.of(outcome, mean, variance))
