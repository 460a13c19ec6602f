"""Diagnostics: common problems of a fit, each with a remedy."""

from collections.abc import Hashable, Iterator, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxkick._typing import Array
from jaxkick._xla import call_compiled, is_known, jit_once
from jaxkick.data.columns import look_like_dates
from jaxkick.data.dataset import Dataset
from jaxkick.data.encoding import Index
from jaxkick.data.schema import Feature
from jaxkick.errors import did_you_mean, warn_caller
from jaxkick.inference.problem import ScoreMoments
from jaxkick.kernels import AbstractKernel, Epoch, Instant
from jaxkick.model import Model
from jaxkick.parameters import resolve

__all__ = ["Diagnostic", "diagnose", "warn_of_new_names"]

# The data does not determine a lengthscale of more than this multiple of its span, or of less than
# this share of the time between two matches.
_LONGEST = 10.0
_SHORTEST = 0.1
# Smaller changes over the data, in posterior standard deviations, count as none: of a part of the
# prior, and of posterior means where the lengthscale is `_LONG` times the span of the data.
_NO_DRIFT = 0.1
_NO_CHANGE = 0.5
_LONG = 3.0
# The largest rounding error of a score, in standard deviations, that is not reported.
_ROUNDING = 0.05
# Features with fewer matches are not compared; the diagnostic of single matches covers them.
_FEWEST = 2
_SHOWN = 3
# The least number of new names in an update that is reported, if they outnumber the known ones.
_NEW_NAMES = 3
# Larger times are probably seconds since 1970, or finer.
_LARGEST_TIME = 1e8


class Diagnostic(NamedTuple):
    """A possible problem of a fit.

    Attributes:
        kind: `"convergence"`, `"comparability"`, `"separability"`, `"lengthscale"`, `"unit"`,
            `"margin"`, `"single matches"`, `"precision"`, or a kind of the likelihood's own.
        message: the problem and its remedy.
    """

    kind: str
    message: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.message}"


def diagnose(
    model: Model,
    data: Dataset,
    entries: Sequence[ScoreMoments],
    converged: bool,
    distance: float,
) -> tuple[Diagnostic, ...]:
    """Check a fit for common problems; the arguments are attributes of `Posterior`."""
    found, index = [], data.index
    if not converged:
        found.append(
            Diagnostic(
                "convergence",
                f"Inference stopped {distance:.2g} standard deviations from its fixed point. "
                "Raise `max_steps`, or look for extreme parameters and outcomes.",
            )
        )
    found += [*_separate_pools(index), *_inseparable(model, data)]
    found += [*_lengthscales(model, index, entries), *_unit(index)]
    found += _precision(model, index, entries)
    for likelihood in model.likelihoods.values():
        found += [Diagnostic(*warning) for warning in likelihood.warnings()]
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
    # All sides of an event meet.
    events = np.arange(len(index.times)) if index.events is None else index.events
    meeting = np.unique(events, return_inverse=True)[1][index.entry_observations]
    ends = entries[kept], len(index.counts) + meeting[kept]
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
        # A competitor in most matches is not a shared feature: without it, a match would have only
        # one side.
        if entries[there].min() > 2:
            shared[feature] = True
            entries[there] -= 1
    return shared


def _inseparable(model: Model, data: Dataset) -> Iterator[Diagnostic]:
    """Find features that always occur together, so that only a combination is determined.

    Each observation gets a random number. The key of a feature is the sum of the numbers of its
    observations, times its coefficients relative to the first. Features with equal keys always
    occur together, with coefficients in proportion.
    """
    index = data.index
    filled = index.features >= 0
    rows, features = np.nonzero(filled)[0], index.features[filled]
    x = np.asarray(data.observations.coefficients, np.float64)[filled]
    order = np.lexsort((rows, features))
    rows, features, x = rows[order], features[order], x[order]
    seen, begins, counts = np.unique(features, return_index=True, return_counts=True)
    noise = np.random.default_rng(0).standard_normal(len(index.times))
    sums = np.add.reduceat(noise[rows] * x, begins) / x[begins]
    key = (sums, rows[begins], counts)
    order = np.lexsort(key)
    same = [np.diff(part[order]) == 0 for part in key[1:]]
    together = same[0] & same[1] & (np.abs(np.diff(sums[order])) < 1e-4)
    together &= counts[order][1:] >= _FEWEST
    starts = np.flatnonzero(np.append(True, ~together))
    groups = [
        part
        for part in (np.split(order, starts[1:]) if together.any() else [])
        if len(part) > 1 and not _is_pair(index, seen[part], x[begins[part]])
    ]
    if groups:
        part = groups[0]
        names = _listed([index.names[feature] for feature in seen[part]])
        alike = np.ptp(np.sign(x[begins[part]])) == 0
        what = "sum" if alike else "difference"
        more = f" ({len(groups) - 1:,} more such groups)" if len(groups) > 1 else ""
        yield Diagnostic(
            "separability",
            f"{names} occur in the same {counts[part[0]]:,} observations and in no other{more}: "
            f"only the {what} of their scores is known, and its division among them is the "
            "prior's. Give them one name, or rank combinations with "
            "`leaderboard(names={label: [...]})`.",
        )
    constant = np.maximum.reduceat(x, begins) == np.minimum.reduceat(x, begins)
    always = seen[(counts == len(index.times)) & constant]
    free = [each for each in model.likelihoods.values() if each.has_free_level]
    if free and always.size:
        yield Diagnostic(
            "separability",
            f"{_listed([index.names[feature] for feature in always])} has the same coefficient in "
            f"all observations, and {type(free[0]).__name__} has a level of its own: "
            "only their sum is known, and learning may not converge. Leave the feature out, or "
            "put `Fixed` around the likelihood's parameter.",
        )


def _is_pair(index: Index, features: np.ndarray, signs: np.ndarray) -> bool:
    """Return whether two features only meet each other, so that only their difference matters."""
    if len(features) != 2 or signs[0] * signs[1] > 0:
        return False
    begin = index.begins[features[0]]
    there = index.entry_observations[begin : begin + index.counts[features[0]]]
    others = np.setdiff1d(index.features[there], [-1, *features])
    # Features of most observations are covariates, such as a home advantage.
    return bool((index.counts[others] > 0.5 * len(index.times)).all())


def _listed(names: Sequence[Hashable]) -> str:
    """The first names, and the number of the others."""
    shown = [repr(str(name) if isinstance(name, Feature) else name) for name in names]
    if len(shown) > _SHOWN:
        shown = [*shown[:_SHOWN], f"{len(shown) - _SHOWN:,} others"]
    return " and ".join(filter(None, [", ".join(shown[:-1]), shown[-1]]))


@jit_once
def _change_variance(kernel: AbstractKernel, first: Instant, last: Instant) -> Array:
    """The prior variance of the change of a score between two times."""
    kernel = resolve(kernel, first.offset.dtype)
    ends = kernel.covariance(first, first) + kernel.covariance(last, last)
    return ends - 2.0 * kernel.covariance(first, last)


def _lengthscales(
    model: Model, index: Index, entries: Sequence[ScoreMoments]
) -> Iterator[Diagnostic]:
    """Find parts of kernels that do not change over the data, or forget every match."""
    span, unit = float(np.ptp(index.times)), f"{index.unit or 'unit'}s"
    if not span:
        return
    dtype = jnp.result_type(float)
    begin, epoch = float(index.times.min()) - index.epoch, Epoch.at(index.epoch, dtype)
    first, last = (
        Instant(
            jax.device_put(np.asarray(begin + age, dtype)),
            jax.device_put(np.asarray(age, dtype)),
            epoch,
        )
        for age in (0.0, span)
    )
    for number, (group, (mean, variance)) in enumerate(zip(index.groups, entries, strict=True)):
        if not is_known(variance):
            continue
        kernel, gap = model.kernel_of(group), _typical_gap(index, number)
        change, deviation = _typical_change(index, number, np.asarray(mean), np.asarray(variance))
        for path, (part, value) in kernel.timescales().items():
            drift = np.sqrt(max(float(_change_variance(part, first, last)), 0.0))
            name, kind = f"{path} of the group {group!r}", type(part).__name__
            # The prior expects a drift that the data would show.
            visible = value > _LONG * span and drift > deviation
            if (visible and change < _NO_CHANGE * deviation) or drift < _NO_DRIFT * deviation:
                drop = f"drop {kind} from the sum" if path != "lengthscale" else "use Constant"
                text = (
                    f"{name} is {value:.3g}, and over the {span:.3g} {unit} of the data scores "
                    f"hardly change: by {change:.1g}, with an uncertainty of {deviation:.1g}. If "
                    f"it was learnt, the data shows no drift: {drop}."
                )
            elif value > _LONGEST * span:
                text = (
                    f"{name} is {value:.3g}, but the data spans {span:.3g} {unit}: {kind} is a "
                    "random walk here. If it was learnt, use Wiener, which has no lengthscale."
                )
            elif gap > 0 and value < _SHORTEST * gap:
                text = (
                    f"{name} is {value:.3g}, but the matches of a competitor are {gap:.3g} {unit} "
                    f"apart: {kind} forgets each match before the next. If it was learnt, it is "
                    "noise: drop it."
                )
            else:
                continue
            yield Diagnostic(
                "lengthscale", f"{text} If you chose it, check that it is in {unit} (`unit=`)."
            )


def _typical_change(
    index: Index, group: int, mean: np.ndarray, variance: np.ndarray
) -> tuple[float, float]:
    """Compute the medians of the range of a feature's means, and of deviations."""
    features = np.flatnonzero((index.feature_group == group) & (index.counts > 0))
    counts = index.counts[features]
    starts = np.cumsum(counts) - counts
    ranks = np.arange(counts.sum()) - np.repeat(starts, counts)
    places = index.positions(np.repeat(features, counts), ranks) - index.bases[group]
    means = mean.ravel()[places]
    ranges = np.maximum.reduceat(means, starts) - np.minimum.reduceat(means, starts)
    return float(np.median(ranges)), float(np.sqrt(np.median(variance.ravel()[places])))


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
    """Find groups whose scores have relevant rounding errors."""
    last = Instant.at(float(index.times.max()), float(index.times.min()))
    for group, (mean, variance) in zip(index.groups, entries, strict=True):
        if not is_known(mean):
            continue
        mean, variance = np.asarray(mean), np.asarray(variance)
        known = variance > 0
        kernel = resolve(model.process_of(group), last.offset.dtype)
        prior = np.sqrt(float(call_compiled(kernel.covariance, last, last)))
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


def warn_of_new_names(known: Sequence[Hashable], given: Sequence[Hashable]) -> None:
    """Warn if most names of further matches are new, as after competitors were renamed."""
    old, names = (
        dict.fromkeys(name.name if isinstance(name, Feature) else name for name in part)
        for part in (known, given)
    )
    new = [name for name in names if name not in old]
    if len(new) < _NEW_NAMES or 2 * len(new) <= len(names):
        return
    warn_caller(
        UserWarning(
            f"{len(new):,} of the {len(names):,} names in the new matches are not in the data, "
            f"such as {new[0]!r}. {did_you_mean(new[0], old)} They start from the "
            "prior: if competitors were renamed, use their old names."
        )
    )
