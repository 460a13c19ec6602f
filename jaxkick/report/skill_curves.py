"""Skill curves as knots for linear interpolation."""

from collections.abc import Callable, Hashable, Sequence
from itertools import pairwise
from typing import NamedTuple, TypeAlias

import numpy as np

from jaxkick.posterior import Posterior

__all__ = ["Evaluate", "Knots", "Part", "evaluator", "sample_curves"]

# Largest distance between the posterior and a line through two knots, for means and for standard
# deviations, in standard deviations of the score. A probability moves by at most 0.4 times the
# error of the mean plus 0.25 times that of the deviation, both in units of the deviation, however
# sharp the likelihood is: by less than 0.003 for one score, by 0.005 for three, and in practice by
# ten times less.
_TOLERANCE = 0.004
_CHUNK = 8192
_EVEN_KNOTS = 33
_ROUNDS = 14
# Uneven, so that the two probes of an interval do not both miss a wave.
_PROBES = (0.3, 0.65)

Evaluate: TypeAlias = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]


class Knots(NamedTuple):
    """Scores of features at times, sorted by feature and time.

    Attributes:
        owner: number of the feature.
        time: time in the data's unit.
        mean: posterior mean of the score.
        deviation: posterior standard deviation of the score.
    """

    owner: np.ndarray
    time: np.ndarray
    mean: np.ndarray
    deviation: np.ndarray

    def take(self, places: np.ndarray) -> "Knots":
        """Select knots by position or mask."""
        return Knots(*(part[places] for part in self))


class Part(NamedTuple):
    """A feature of the page.

    Attributes:
        name: name of the feature in the data.
        aspect: the aspect of it; `None` for the general skill, and for covariates.
    """

    name: Hashable
    aspect: str | None = None


def evaluator(posterior: Posterior, parts: Sequence[Part]) -> Evaluate:
    """Make a function from feature numbers and times to means and deviations.

    Features are numbered in the order of `parts`. Queries are sent in batches of one size, so that
    one program is compiled for each group.
    """
    index = posterior.data.index
    names = np.empty(len(parts), object)
    for number, part in enumerate(parts):
        names[number] = part.name
    groups = np.array([f"{index.group_of(part.name)} {part.aspect or ''}" for part in parts])

    def ask(owner: np.ndarray, time: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        padded = np.resize(np.arange(len(owner)), _CHUNK)
        times, aspect = index.scale.to_user(time[padded]), parts[owner[0]].aspect
        moments = posterior.linear_combination(
            names[owner[padded]].tolist(), times, aspects=aspect and {aspect: 1.0}
        )
        mean, variance = (np.asarray(part, np.float64)[: len(owner)] for part in moments)
        return mean, variance

    def evaluate(owner: np.ndarray, time: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        mean, variance = np.empty(len(owner)), np.empty(len(owner))
        for group in np.unique(groups[owner]):
            members = np.flatnonzero(groups[owner] == group)
            for begin in range(0, len(members), _CHUNK):
                part = members[begin : begin + _CHUNK]
                mean[part], variance[part] = ask(owner[part], time[part])
        return mean, np.sqrt(np.maximum(variance, 0.0))

    return evaluate


def sample_curves(
    matches: Sequence[np.ndarray], evaluate: Evaluate, begin: float, end: float
) -> Knots:
    """Choose knots of all features between which means and deviations are nearly linear.

    A score bends at the matches of its feature: these are the first knots. Intervals in which a
    line is not close enough are split, then redundant knots are dropped.

    Args:
        matches: times of the matches of each feature, in the data's unit.
        evaluate: gives means and deviations of features at times; see `evaluator`.
        begin: first time.
        end: last time.
    """
    even = np.linspace(begin, end, _EVEN_KNOTS)
    times = [np.unique(np.concatenate([even, each])) for each in matches]
    owner = np.repeat(np.arange(len(times)), [len(each) for each in times])
    time = np.concatenate(times)
    knots = Knots(owner, time, *evaluate(owner, time))
    floor = 0.1 * float(np.median(knots.deviation))

    def allowed(deviation: np.ndarray) -> np.ndarray:
        return 0.5 * _TOLERANCE * np.maximum(deviation, floor)

    knots = _split(knots, evaluate, allowed, (end - begin) * 2.0**-22)
    bounds = np.searchsorted(knots.owner, np.arange(len(times) + 1))
    kept = [
        first + _needed(knots.take(np.arange(first, last)), allowed)
        for first, last in pairwise(bounds.tolist())
    ]
    return knots.take(np.concatenate(kept))


def _split(
    knots: Knots, evaluate: Evaluate, allowed: Callable[[np.ndarray], np.ndarray], shortest: float
) -> Knots:
    """Split intervals until a line is close enough at their probes."""
    left = np.flatnonzero(knots.owner[1:] == knots.owner[:-1])
    start, stop = knots.take(left), knots.take(left + 1)
    found = [knots]
    for _ in range(_ROUNDS):
        probes = [_between(start, stop, share, evaluate) for share in _PROBES]
        wrong = np.zeros(len(start.owner), bool)
        for share, probe in zip(_PROBES, probes, strict=True):
            wrong |= _distance(start, stop, share, probe) > allowed(probe.deviation)
        cut = np.flatnonzero(wrong & (stop.time - start.time > shortest))
        if not cut.size:
            break
        inner = [probe.take(cut) for probe in probes]
        found += inner
        ends = [start.take(cut), *inner, stop.take(cut)]
        start, stop = _join(ends[:-1]), _join(ends[1:])
    whole = _join(found)
    return whole.take(np.lexsort((whole.time, whole.owner)))


def _between(start: Knots, stop: Knots, share: float, evaluate: Evaluate) -> Knots:
    time = start.time + share * (stop.time - start.time)
    return Knots(start.owner, time, *evaluate(start.owner, time))


def _distance(start: Knots, stop: Knots, share: float | np.ndarray, probe: Knots) -> np.ndarray:
    """Distance of a line from the posterior: the larger of those of mean and deviation."""
    mean = start.mean + share * (stop.mean - start.mean)
    deviation = start.deviation + share * (stop.deviation - start.deviation)
    return np.maximum(np.abs(mean - probe.mean), np.abs(deviation - probe.deviation))


def _join(parts: Sequence[Knots]) -> Knots:
    return Knots(*(np.concatenate(pieces) for pieces in zip(*parts, strict=True)))


def _needed(knots: Knots, allowed: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """Find the knots that linear interpolation needs, including both ends."""
    last = len(knots.time) - 1
    limit = allowed(knots.deviation)
    kept, unchecked = {0, last}, [(0, last)]
    while unchecked:
        begin, end = unchecked.pop()
        if end - begin < 2:
            continue
        inner = np.arange(begin + 1, end)
        start, stop, part = (knots.take(places) for places in (begin, end, inner))
        share = (part.time - start.time) / (stop.time - start.time)
        excess = _distance(start, stop, share, part) / limit[inner]
        worst = int(inner[np.argmax(excess)])
        if excess.max() > 1.0:
            kept.add(worst)
            unchecked += [(begin, worst), (worst, end)]
    return np.array(sorted(kept))
