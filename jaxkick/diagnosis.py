"""What may be wrong with a fit, in words that say what to do."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import jax
import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from jaxkick._parameters import AbstractParameter, resolve
from jaxkick._tracing import is_known
from jaxkick.dataset.index import Index
from jaxkick.dataset.times import look_like_dates
from jaxkick.inference.problem import ScoreMoments
from jaxkick.kernels.base import AbstractKernel
from jaxkick.kernels.oscillation import Periodic
from jaxkick.kernels.time import Instant
from jaxkick.likelihoods.base import AbstractLikelihood
from jaxkick.model import Model

__all__ = ["Finding", "diagnose"]

_FAR_BEYOND = 10.0
_FAR_BELOW = 0.1
_NO_MARGIN = 1e-3
_LOST = 1e-3
# Numbers of this size are seconds since 1970, or finer.
_SECONDS_OF_YEARS = 1e8


class Finding(NamedTuple):
    """Something to look at.

    Attributes:
        kind: what it is about: `"convergence"`, `"comparability"`, `"lengthscale"`, `"unit"`,
            `"margin"`, `"single matches"` or `"precision"`.
        message: what was found, and what to do about it.
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
) -> tuple[Finding, ...]:
    """Look at a fit and say what its user should know.

    Args:
        model: the model that was fitted.
        index: the index of the data.
        entries: posterior mean and variance of every entry's score, chain by chain.
        converged: whether inference reached its fixed point.
        distance: how far it was from it, in posterior standard deviations.
    """
    found = []
    if not converged:
        found.append(
            Finding(
                "convergence",
                f"inference ended {distance:.2g} standard deviations from its fixed point; raise "
                "`max_steps`, or look for extreme parameters and outcomes.",
            )
        )
    found += [*_separate_pools(index), *_lengthscales(model, index), *_unit(index)]
    found += _precision(model, index, entries)
    return (*found, *_margin(model.likelihood), *_single_matches(index))


def _separate_pools(index: Index) -> Iterator[Finding]:
    """Competitors that no chain of matches connects."""
    features = np.flatnonzero(index.counts > 0)
    features = features[np.argsort(index.begins[features])]
    entries = np.repeat(features, index.counts[features])
    kept = ~_compare_nobody(index)[entries]
    size = len(index.counts) + len(index.times)
    ends = entries[kept], len(index.counts) + index.observations[kept]
    graph = coo_array((np.ones(kept.sum(), np.int8), ends), shape=(size, size))
    _, labels = connected_components(graph, directed=False)
    pools = np.unique(labels[np.unique(ends[0])], return_counts=True)[1]
    if len(pools) > 1:
        yield Finding(
            "comparability",
            f"the competitors fall into {len(pools):,} pools that never meet, the largest of "
            f"{pools.max():,} and the smallest of {pools.min():,}; scores of different pools "
            "cannot be compared.",
        )


def _compare_nobody(index: Index) -> np.ndarray:
    """Which features most matches share beside two others, as they do a home advantage."""
    entries = np.bincount(index.observations, minlength=len(index.times))
    shared = np.zeros(len(index.counts), bool)
    often = np.flatnonzero(index.counts > 0.5 * len(index.times))
    for feature in often[np.argsort(-index.counts[often], kind="stable")]:
        begin = index.begins[feature]
        there = index.observations[begin : begin + index.counts[feature]]
        # One who plays against everybody is left: without him a match would compare nobody.
        if entries[there].min() > 2:
            shared[feature] = True
            entries[there] -= 1
    return shared


def _lengthscales(model: Model, index: Index) -> Iterator[Finding]:
    span = float(np.ptp(index.times))
    for number, group in enumerate(index.groups):
        gap = _typical_gap(index, number)
        for name, value in _named(model.kernel_of(group), "lengthscale"):
            if span > 0 and value > _FAR_BEYOND * span:
                yield Finding(
                    "lengthscale",
                    f"{name} of the group {group!r} is {value:.3g}, but the data spans {span:.3g}; "
                    "such a score hardly moves. Is the unit of time the one you think of?",
                )
            if gap > 0 and value < _FAR_BELOW * gap:
                yield Finding(
                    "lengthscale",
                    f"{name} of the group {group!r} is {value:.3g}, but matches of one feature lie "
                    f"{gap:.3g} apart; such a score forgets each match before the next. Is the "
                    "unit of time the one you think of?",
                )


def _typical_gap(index: Index, group: int) -> float:
    """The median time between two matches of one feature."""
    features = np.flatnonzero((index.feature_group == group) & (index.counts > 1))
    if not len(features):
        return 0.0
    times = index.times[index.observations]
    first = times[index.begins[features]]
    last = times[index.begins[features] + index.counts[features] - 1]
    gaps = (last - first) / (index.counts[features] - 1)
    return float(np.median(np.repeat(gaps, index.counts[features])))


def _unit(index: Index) -> Iterator[Finding]:
    if not index.scale.dates and look_like_dates(index.times):
        yield Finding(
            "unit",
            f"times are numbers such as {index.times[0]:.0f}, which look like dates; as numbers "
            "the last day of a month and the first of the next are 70 apart. Pass dates, or texts "
            "such as '2018-12-25'.",
        )
    if index.unit is None and float(np.max(np.abs(index.times))) > _SECONDS_OF_YEARS:
        yield Finding(
            "unit",
            "times are numbers beyond a hundred million, as seconds since 1970 are; pass dates, so "
            "that lengthscales are in years, or name the unit with `unit=`.",
        )


def _precision(model: Model, index: Index, entries: Sequence[ScoreMoments]) -> Iterator[Finding]:
    """Scores that are much larger, or were much less certain, than the type has digits for."""
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
        if error > _LOST:
            yield Finding(
                "precision",
                f"scores of the group {group!r} may be off by {error:.1g} standard deviations, "
                f"because {mean.dtype} has no more digits: they are far from zero, or much better "
                "known than before the matches. Use float64, or subtract a level from outcomes.",
            )


def _margin(likelihood: AbstractLikelihood) -> Iterator[Finding]:
    for name, value in _named(likelihood, "margin"):
        if value < _NO_MARGIN:
            yield Finding(
                "margin",
                f"the {name} is {value:.2g}, so that ties are all but impossible; if the data has "
                "none, use a likelihood without them.",
            )


def _single_matches(index: Index) -> Iterator[Finding]:
    once, seen = int((index.counts == 1).sum()), int((index.counts > 0).sum())
    if once:
        yield Finding(
            "single matches",
            f"{once:,} of {seen:,} features take part in one match only; their scores are mostly "
            "the prior's. `leaderboard(min_matches=)` leaves them out.",
        )


def _named(part: AbstractKernel | AbstractLikelihood, name: str) -> Iterator[tuple[str, float]]:
    """Parameters of a name, by where they stand, with their values.

    Without those of `Periodic`, whose lengthscale is a share of the period and no time.
    """
    leaves = jax.tree_util.tree_leaves_with_path(
        part, is_leaf=lambda node: isinstance(node, (AbstractParameter, Periodic))
    )
    for path, node in leaves:
        place = jax.tree_util.keystr(path).removeprefix(".")
        if isinstance(node, AbstractParameter) and place.endswith(name):
            yield place, float(np.asarray(node.value))
