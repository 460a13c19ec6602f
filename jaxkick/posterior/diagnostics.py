"""Diagnostics: common problems of a fit, each with a remedy."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from jaxkick._xla import is_known
from jaxkick.data.columns import look_like_dates
from jaxkick.data.encoding import Index
from jaxkick.inference.problem import ScoreMoments
from jaxkick.kernels import Instant
from jaxkick.model import Model
from jaxkick.parameters import resolve

__all__ = ["Diagnostic", "diagnose"]

# A lengthscale beyond so many times the span of the data, or below this share of the time
# between two matches, says more about the unit of time than about skill.
_LONGEST = 10.0
_SHORTEST = 0.1
# The largest rounding error of a score, in standard deviations, that is not reported.
_ROUNDING = 1e-3
# Larger times are seconds since 1970, or finer.
_LARGEST_TIME = 1e8


class Diagnostic(NamedTuple):
    """A possible problem of a fit.

    Attributes:
        kind: `"convergence"`, `"comparability"`, `"lengthscale"`, `"unit"`, `"margin"`,
            `"single matches"`, `"precision"`, or a kind of the likelihood's own.
        message: the problem and its remedy.
    """

    kind: str
    message: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.message}"


def diagnose(
    model: Model,
    index: Index,
    entries: Sequence[ScoreMoments],
    converged: bool,
    distance: float,
) -> tuple[Diagnostic, ...]:
    """Check a fit for common problems.

    Args:
        model: the fitted model.
        index: the index of the data.
        entries: posterior mean and variance of every entry's score, chain by chain.
        converged: whether inference reached its fixed point.
        distance: the distance that was left, in posterior standard deviations.
    """
    found = []
    if not converged:
        found.append(
            Diagnostic(
                "convergence",
                f"Inference stopped {distance:.2g} standard deviations from its fixed point. "
                "Raise `max_steps`, or look for extreme parameters and outcomes.",
            )
        )
    found += [*_separate_pools(index), *_lengthscales(model, index), *_unit(index)]
    found += _precision(model, index, entries)
    found += [Diagnostic(*warning) for warning in model.likelihood.warnings()]
    return (*found, *_single_matches(index))


def _separate_pools(index: Index) -> Iterator[Diagnostic]:
    """Find competitors that no chain of matches connects."""
    # Imported where they are needed: SciPy is slow to import.
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    features = np.flatnonzero(index.counts > 0)
    features = features[np.argsort(index.begins[features])]
    entries = np.repeat(features, index.counts[features])
    kept = ~_shared_features(index)[entries]
    size = len(index.counts) + len(index.times)
    ends = entries[kept], len(index.counts) + index.entry_observations[kept]
    graph = coo_array((np.ones(kept.sum(), np.int8), ends), shape=(size, size))
    _, labels = connected_components(graph, directed=False)
    pools = np.unique(labels[np.unique(ends[0])], return_counts=True)[1]
    if len(pools) > 1:
        yield Diagnostic(
            "comparability",
            f"The competitors form {len(pools):,} pools without matches between them; the "
            f"largest has {pools.max():,} competitors and the smallest {pools.min():,}. Compare "
            "scores only within a pool, or add matches between pools.",
        )


def _shared_features(index: Index) -> np.ndarray:
    """Mark features that most matches share besides two others, such as a home advantage."""
    entries = np.bincount(index.entry_observations, minlength=len(index.times))
    shared = np.zeros(len(index.counts), bool)
    often = np.flatnonzero(index.counts > 0.5 * len(index.times))
    for feature in often[np.argsort(-index.counts[often], kind="stable")]:
        begin = index.begins[feature]
        there = index.entry_observations[begin : begin + index.counts[feature]]
        # A competitor who plays in most matches is not shared: without it, a match would have
        # one side only.
        if entries[there].min() > 2:
            shared[feature] = True
            entries[there] -= 1
    return shared


def _lengthscales(model: Model, index: Index) -> Iterator[Diagnostic]:
    span = float(np.ptp(index.times))
    for number, group in enumerate(index.groups):
        gap = _typical_gap(index, number)
        for name, value in model.kernel_of(group).timescales().items():
            if span > 0 and value > _LONGEST * span:
                problem = f"but the data spans {span:.3g}: such a score hardly changes"
            elif gap > 0 and value < _SHORTEST * gap:
                problem = (
                    f"but the matches of a competitor are {gap:.3g} apart: such a score forgets "
                    "each match before the next"
                )
            else:
                continue
            yield Diagnostic(
                "lengthscale",
                f"{name} of the group {group!r} is {value:.3g}, {problem}. Check the unit of time "
                "(`unit=` of the data set).",
            )


def _typical_gap(index: Index, group: int) -> float:
    """Compute the median time between two matches of one feature."""
    features = np.flatnonzero((index.feature_group == group) & (index.counts > 1))
    if not len(features):
        return 0.0
    times = index.times[index.entry_observations]
    first = times[index.begins[features]]
    last = times[index.begins[features] + index.counts[features] - 1]
    gaps = (last - first) / (index.counts[features] - 1)
    return float(np.median(np.repeat(gaps, index.counts[features])))


def _unit(index: Index) -> Iterator[Diagnostic]:
    if not index.scale.dates and look_like_dates(index.times):
        yield Diagnostic(
            "unit",
            f"Times are numbers such as {index.times[0]:.0f}, which look like dates. As numbers, "
            "the last day of a month and the first of the next are about 70 apart. Pass dates, or "
            "strings such as '2018-12-25'.",
        )
    if index.unit is None and float(np.max(np.abs(index.times))) > _LARGEST_TIME:
        yield Diagnostic(
            "unit",
            "Times are numbers above a hundred million, like seconds since 1970. Pass dates, so "
            "that lengthscales are in years, or name the unit with `unit=`.",
        )


def _precision(model: Model, index: Index, entries: Sequence[ScoreMoments]) -> Iterator[Diagnostic]:
    """Find groups with rounding errors that matter."""
    last = Instant.at(float(index.times.max()), float(index.times.min()))
    for group, (mean, variance) in zip(index.groups, entries, strict=True):
        if not is_known(mean):
            continue
        mean, variance = np.asarray(mean), np.asarray(variance)
        known = variance > 0
        kernel = resolve(model.kernel_of(group), last.offset.dtype)
        prior = np.sqrt(float(kernel.covariance(last, last)))
        deviation = np.sqrt(variance[known])
        lost = np.abs(mean[known]) / deviation + (prior / deviation) ** 2
        error = float(np.finfo(mean.dtype).eps * np.max(lost, initial=0.0))
        if error > _ROUNDING:
            yield Diagnostic(
                "precision",
                f"Rounding errors of scores of the group {group!r} may reach {error:.1g} standard "
                f"deviations, because {mean.dtype} has too few digits: scores are far from zero, "
                "or the prior is far wider than the posterior. Use float64, or subtract a level "
                "from outcomes.",
            )


def _single_matches(index: Index) -> Iterator[Diagnostic]:
    once, seen = int((index.counts == 1).sum()), int((index.counts > 0).sum())
    if once:
        yield Diagnostic(
            "single matches",
            f"{once:,} of {seen:,} features have only one match, so their scores are mostly the "
            "prior's. Exclude them with `leaderboard(min_matches=)`.",
        )
