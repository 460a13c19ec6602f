"""Outcomes as functions of a normal score, tabulated for the page.

The page does not know likelihoods. For a combined score f ~ N(mean, deviation²) it interpolates
bilinearly in a table computed by the likelihood, so any likelihood works.
"""

import base64
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import jax.numpy as jnp
import numpy as np

from jaxkick._xla import call_compiled
from jaxkick.likelihoods import AbstractLikelihood, BivariatePoisson, DixonColes, Poisson
from jaxkick.parameters import resolve
from jaxkick.posterior.prediction import Prediction

__all__ = ["Range", "pack", "tabulate_counts", "tabulate_outcomes"]

# Allowed errors of interpolation: of probabilities, of cumulative probabilities of counts, and of
# the expected outcome and the ends of its interval in widths of that interval.
_PROBABILITY = 2e-4
_CUMULATIVE = 3e-4
_EXPECTED = 1e-3
_END = 4e-3

_FIRST_KNOTS = (17, 5)
_ROUNDS = 7
_MOST_KNOTS = 400
# Off the middle, so that a step in the middle of an interval is noticed.
_PROBE = 0.45
_CHUNK = 512
# More whole numbers than this are put into classes; beyond the second number they are treated as
# continuous.
_MOST_CLASSES = 600
_WIDEST_RANGE = 20_000
_TAIL = 1e-5
# Nodes for the integral over the shared part of the scores of two counts.
_SHARED_NODES = 20

Columns: TypeAlias = Callable[[Prediction], np.ndarray]
Tolerance: TypeAlias = Callable[[np.ndarray], np.ndarray]


class Range(NamedTuple):
    """The scores that a table covers: lowest and highest mean, least and greatest deviation."""

    mean: tuple[float, float]
    deviation: tuple[float, float]


def pack(values: np.ndarray) -> str:
    """Numbers as text: 32-bit floats in base64."""
    return base64.b64encode(values.astype("<f4").tobytes()).decode("ascii")


def tabulate_outcomes(
    likelihood: AbstractLikelihood, interval: float, scores: Range
) -> dict[str, Any]:
    """Tabulate the outcomes of one score: results, levels, or numbers with an interval.

    The result is in the form that the page reads. The table is `None` for a likelihood whose
    outcomes have no proper distribution.
    """
    likelihood = resolve(likelihood)
    levels, results, whole = likelihood.levels, likelihood.has_results, likelihood.is_discrete
    names = ["loss", "tie", "win"] if results else [f"level {level:g}" for level in levels]
    description = {
        "columns": names if levels else [*names, "expected", "lower", "upper"],
        "levels": None if results or not levels else list(levels),
        "ties": likelihood.has_ties,
        "whole": whole,
        "signed": not np.any(likelihood.check(np.array([-1.0]))),
    }
    if likelihood.num_predictors != 1:
        return {**description, "table": None}  # the page knows one score
    classes = _classes(likelihood, scores) if whole and not levels else None
    tails = 0.5 - 0.5 * interval, 0.5 + 0.5 * interval

    def columns(found: Prediction) -> np.ndarray:
        parts, chances = [], None if classes is None else classes.chances(found)
        if results:
            parts.append(found.results if chances is None else classes.by_sign(chances))
        elif levels:
            parts.append(found.probabilities)
        if not levels:
            ends = (
                [_quantile(found, tail) for tail in tails]
                if chances is None
                else [classes.quantile(chances, tail) for tail in tails]
            )
            parts.append(np.stack([found.outcome_mean, *ends], axis=-1))
        return np.concatenate(parts, axis=-1)

    def tolerance(values: np.ndarray) -> np.ndarray:
        allowed = np.full(values.shape, _PROBABILITY)
        if not levels:
            width = np.maximum(values[..., -1] - values[..., -2], 1e-9)
            allowed[..., -3:] = width[..., None] * [_EXPECTED, _END, _END]
        return allowed

    return {**description, "table": _tabulate(likelihood, columns, tolerance, scores)}


def tabulate_counts(likelihood: AbstractLikelihood, scores: Range) -> dict[str, Any]:
    """Tabulate the count of one side by its score; the page joins the counts of two sides.

    The columns are the expected count and the cumulative probabilities of classes of counts. The
    table is `None` if outcomes are not counts.

    `common` has the probabilities of 0, 1, 2, … counts that both sides share. `moved`, times the
    probability of one count of either side, is moved from 0–0 and 1–1 to 0–1 and 1–0.
    """
    likelihood = resolve(likelihood)
    common, moved, both = np.ones(1), 0.0, likelihood.num_predictors == 2
    if isinstance(likelihood, BivariatePoisson):
        rate = float(likelihood.shared.value)
        found = _predict(Poisson(), np.log([rate]), np.zeros(1))
        counts = np.arange(2.0 + _quantile(found, 1.0 - _TAIL)[0])
        common = np.asarray(found.distribution(counts).probabilities)[0]
    elif isinstance(likelihood, DixonColes):
        moved = float(likelihood.correlation.value)
    elif both:
        return {"table": None}
    likelihood = Poisson() if both else likelihood
    refuses_negative = np.all(likelihood.check(np.array([-1.0])))
    if likelihood.levels or not (likelihood.is_discrete and refuses_negative):
        return {"table": None}
    classes = _classes(likelihood, scores)
    if classes is None or (both and (len(classes.widths) < 2 or np.any(classes.widths > 1))):
        return {"table": None}
    nodes, weights = np.polynomial.hermite_e.hermegauss(_SHARED_NODES)

    def columns(found: Prediction) -> np.ndarray:
        expected = np.asarray(found.outcome_mean)[:, None]
        return np.concatenate([expected, np.cumsum(classes.chances(found), axis=-1)], axis=-1)

    def tolerance(values: np.ndarray) -> np.ndarray:
        allowed = np.full(values.shape, _CUMULATIVE)
        allowed[..., 0] = _EXPECTED * np.maximum(values[..., 0], 1.0)
        return allowed

    return {
        "widths": classes.widths.tolist(),
        "nodes": nodes.tolist(),
        "weights": (weights / weights.sum()).tolist(),
        "common": common.tolist(),
        "moved": moved,
        "table": _tabulate(likelihood, columns, tolerance, scores),
    }


def _predict(likelihood: AbstractLikelihood, mean: np.ndarray, deviation: np.ndarray) -> Prediction:
    dtype = jnp.result_type(float)
    moments = jnp.asarray(mean, dtype), jnp.asarray(deviation**2, dtype)
    return Prediction(*moments, likelihood)  # pyright: ignore[reportCallIssue]


def _quantile(found: Prediction, tail: float) -> np.ndarray:
    wanted = jnp.asarray(tail, found.mean.dtype)
    method = found.likelihood.predictive_quantile
    return np.asarray(call_compiled(method, wanted, found.mean, found.variance))


class _Classes(NamedTuple):
    """Classes of consecutive whole numbers, each with its middle and its width, which is odd."""

    middles: np.ndarray
    widths: np.ndarray

    def chances(self, found: Prediction) -> np.ndarray:
        """Probabilities of the classes: that of the middle number times the width."""
        chances = self.widths * np.asarray(found.distribution(self.middles).probabilities)
        return chances / chances.sum(axis=-1, keepdims=True)

    def by_sign(self, chances: np.ndarray) -> np.ndarray:
        """Probabilities of loss, tie and win; zero is a class of its own."""
        return chances @ (np.sign(self.middles)[:, None] == [-1.0, 0.0, 1.0])

    def quantile(self, chances: np.ndarray, tail: float) -> np.ndarray:
        """The quantile if each number were spread evenly over half a unit on either side.

        It is continuous in the score, so the page can interpolate it, and rounds to the quantile.
        """
        cumulative = np.cumsum(chances, axis=-1)
        place = np.sum(cumulative[:, :-1] < tail, axis=-1, keepdims=True)
        above = np.take_along_axis(cumulative, place, axis=-1) - tail
        share = (above / np.take_along_axis(chances, place, axis=-1))[:, 0]
        return self.middles[place[:, 0]] + (0.5 - share) * self.widths[place[:, 0]]


def _classes(likelihood: AbstractLikelihood, scores: Range) -> _Classes | None:
    """Classify the relevant whole numbers; in a wide range, widths grow with their square root."""
    mean, deviation = np.meshgrid(scores.mean, scores.deviation)
    # Outcomes are most extreme at the corners.
    corners = _predict(likelihood, mean.ravel(), deviation.ravel())
    low = min(_quantile(corners, _TAIL).min(), 0.0)
    high = max(_quantile(corners, 1.0 - _TAIL).max(), 0.0)
    if high - low > _WIDEST_RANGE:
        return None
    few = high - low < _MOST_CLASSES
    growth = 0.0 if few else (np.sqrt(-low) + np.sqrt(high)) / _MOST_CLASSES
    below, above = _half_axis(-low, growth), _half_axis(high, growth)
    middles, widths = np.concatenate([below[::-1] * [-1.0, 1.0], [[0.0, 1.0]], above]).T
    return _Classes(middles, widths)


def _half_axis(end: float, growth: float) -> np.ndarray:
    """Middles and widths of classes from 1 to at least `end`."""
    classes, first = [], 1
    while first <= end:
        half = int(growth * np.sqrt(first))
        classes.append((first + half, 2 * half + 1))
        first += 2 * half + 1
    return np.array(classes, float).reshape(-1, 2)


def _tabulate(
    likelihood: AbstractLikelihood, columns: Columns, tolerance: Tolerance, scores: Range
) -> dict[str, str] | None:
    """Place knots along means, then along deviations, until interpolation is good enough."""

    def on_grid(mean: np.ndarray, deviation: np.ndarray) -> np.ndarray:
        grid = np.stack(np.meshgrid(mean, deviation, indexing="ij")).reshape(2, -1)
        parts = []
        for begin in range(0, grid.shape[1], _CHUNK):
            part = grid[:, begin : begin + _CHUNK]
            # Chunks of one size, so that one program is compiled.
            padded = np.pad(part, ((0, 0), (0, _CHUNK - part.shape[1])), mode="edge")
            parts.append(columns(_predict(likelihood, *padded))[: part.shape[1]])
        return np.concatenate(parts).reshape(len(mean), len(deviation), -1)

    rows, across = _FIRST_KNOTS
    coarse = np.linspace(*scores.deviation, across)
    means, _ = _split(np.linspace(*scores.mean, rows), lambda x: on_grid(x, coarse), tolerance)
    deviations, values = _split(coarse, lambda x: on_grid(means, x).swapaxes(0, 1), tolerance)
    if not np.all(np.isfinite(values)):
        return None
    return {
        "means": pack(means),
        "deviations": pack(deviations),
        "values": pack(values.swapaxes(0, 1)),
    }


def _split(
    knots: np.ndarray, evaluate: Callable[[np.ndarray], np.ndarray], tolerance: Tolerance
) -> tuple[np.ndarray, np.ndarray]:
    """Split intervals until a line is within the tolerance at their probes.

    Returns:
        All knots and the values there.
    """
    values, unchecked = evaluate(knots), np.arange(len(knots) - 1)
    for _ in range(_ROUNDS):
        probes = knots[unchecked] + _PROBE * (knots[unchecked + 1] - knots[unchecked])
        found = evaluate(probes)
        line = values[unchecked] + _PROBE * (values[unchecked + 1] - values[unchecked])
        error = np.max(np.abs(found - line) / tolerance(found), axis=(1, 2))
        wrong = error > 1.0
        places = unchecked[wrong] + 1
        if not places.size or len(knots) + len(places) > _MOST_KNOTS:
            break
        knots = np.insert(knots, places, probes[wrong])
        values = np.insert(values, places, found[wrong], axis=0)
        inserted = places + np.arange(len(places))
        unchecked = np.union1d(inserted - 1, inserted)
    return knots, values
