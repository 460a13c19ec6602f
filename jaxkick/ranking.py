"""Who is best, and how sure that is: ratings, ranks and their intervals."""

from collections.abc import Hashable, Sequence
from statistics import NormalDist
from typing import NamedTuple

import jax
import numpy as np

from jaxkick.likelihoods.base import AbstractLikelihood
from jaxkick.likelihoods.count import Skellam
from jaxkick.outcomes import expected_score, has_results
from jaxkick.tables import name_column

__all__ = [
    "AS_SCORES",
    "SCALES",
    "Chances",
    "Points",
    "Scale",
    "Standing",
    "as_scale",
    "points_of",
    "points_of_counts",
    "rank",
    "rank_chances",
]

_MAX_DRAWS = 10_000
_MAX_NUMBERS = 4_000_000
_CHUNK = 1_000_000
_ODDS = 10.0
_POINTS = 33
_ROUNDS = 7


class Scale(NamedTuple):
    """How scores are shown: `centre` for a score of zero, `spread` points for odds of 10 to 1.

    Odds are those of the expected result, a tie as half a win, so that ratings of different
    likelihoods can be compared.
    """

    centre: float = 1500.0
    spread: float = 400.0

    def factor(self, likelihood: AbstractLikelihood) -> float:
        """Points of one unit of score.

        Raises:
            ValueError: if outcomes are no results.
        """
        return self.spread / _score_at_odds(likelihood)


class Points(NamedTuple):
    """Ratings of scores: `centre` for a score of zero, and `factor` for every unit of score."""

    centre: float = 0.0
    factor: float = 1.0


SCALES = {"elo": Scale(), "trueskill": Scale(25.0, 7.868)}
"""Scales by name: Elo's, and the usual one of TrueSkill (β = 25/6)."""


class Standing(NamedTuple):
    """Competitors and what is known of their scores.

    Attributes:
        names: their names.
        mean: means of their scores.
        variance: variances of their scores, which are independent.
        matches: how many matches each of them had.
        last_active: when the last of them was, in the user's terms.
    """

    names: Sequence[Hashable]
    mean: np.ndarray
    variance: np.ndarray
    matches: np.ndarray
    last_active: np.ndarray


class Chances(NamedTuple):
    """Where competitors stand among each other.

    Attributes:
        best: the probability that the competitor's score is the highest.
        lower: the best rank within the interval.
        upper: the worst rank within the interval.
    """

    best: np.ndarray
    lower: np.ndarray
    upper: np.ndarray


def as_scale(scale: "Scale | tuple[float, float] | str | None") -> Scale | None:
    """A scale by its name or its two numbers.

    Raises:
        ValueError: if it is something else.
    """
    if scale is None or isinstance(scale, Scale):
        return scale
    if isinstance(scale, str) and scale in SCALES:
        return SCALES[scale]
    if isinstance(scale, (tuple, list)) and len(scale) == 2:
        return Scale(*map(float, scale))
    known = ", ".join(map(repr, SCALES))
    raise ValueError(
        f"`scale` is {scale!r}, but must be {known}, or two numbers: the rating of a score of "
        "zero and the points for odds of 10 to 1, as in (1500, 400)."
    )


AS_SCORES = Points()
"""Ratings that are the scores themselves."""


def points_of(
    scale: Scale | tuple[float, float] | str | None, likelihood: AbstractLikelihood
) -> Points:
    """How scores are shown on a scale; as they are if it is `None`."""
    chosen = as_scale(scale)
    return AS_SCORES if chosen is None else Points(chosen.centre, chosen.factor(likelihood))


def points_of_counts(scale: Scale | tuple[float, float] | str | None, level: float) -> Points:
    """How sums of attack and defence are shown, where counts are at a level.

    The counts of two teams whose sums differ by d have the rates exp(level ± d/2) on neutral
    ground, so that their difference is Skellam's with a score of d/2.

    Args:
        scale: the scale, if any.
        level: the logarithm of the rate of counts between equals.
    """
    points = points_of(scale, Skellam(level))
    return points if scale is None else points._replace(factor=0.5 * points.factor)


def rank(
    standing: Standing,
    points: Points = AS_SCORES,
    interval: float = 0.9,
    seed: int = 0,
) -> dict[str, np.ndarray]:
    """The columns of a leaderboard, the best first.

    Args:
        standing: the competitors.
        points: how ratings are shown.
        interval: the probability of the intervals.
        seed: of the draws that ranks are counted in.

    Returns:
        Columns by name.

    Raises:
        ValueError: if `interval` is not between zero and one.
    """
    if not 0.0 < interval < 1.0:
        raise ValueError(f"`interval` is {interval!r}, but must be a probability, such as 0.9.")
    order = np.argsort(-standing.mean, kind="stable")
    mean, deviation = standing.mean[order], np.sqrt(standing.variance[order])
    chances = rank_chances(mean, deviation, interval, seed)
    rating, spread = points.centre + points.factor * mean, points.factor * deviation
    reach = NormalDist().inv_cdf(0.5 + 0.5 * interval) * spread
    return {
        "rank": np.arange(1, len(order) + 1),
        "name": name_column([standing.names[place] for place in order]),
        "rating": rating,
        "deviation": spread,
        "lower": rating - reach,
        "upper": rating + reach,
        "rank_lower": chances.lower,
        "rank_upper": chances.upper,
        "best": chances.best,
        "matches": standing.matches[order],
        "last_active": standing.last_active[order],
    }


def rank_chances(
    mean: np.ndarray, deviation: np.ndarray, interval: float, seed: int = 0
) -> Chances:
    """Ranks of independent normal scores, counted in draws.

    Each draw gives every score a rank. It also gives, for every competitor, the highest of
    the other scores, and so the probability of exceeding it, of which `best` is the mean.
    With up to 400 competitors there are 10,000 draws, and the error of a probability has a
    standard deviation below 0.005; with 2,000 of them there are 2,000 draws, and it is below
    0.012.

    Args:
        mean: means of the scores.
        deviation: their standard deviations.
        interval: the probability of the interval of ranks.
        seed: of the draws.
    """
    count = len(mean)
    draws = max(200, min(_MAX_DRAWS, _MAX_NUMBERS // max(count, 1)))
    generator = np.random.default_rng(seed)
    best = np.zeros(count)
    ranks = np.empty((draws, count), np.int32)
    step = max(1, _CHUNK // count)
    for begin in range(0, draws, step):
        part = slice(begin, min(begin + step, draws))
        scores = mean + deviation * generator.standard_normal((part.stop - begin, count))
        ranks[part] = _ranks_of(scores)
        best += _exceeding(scores, mean, deviation)
    tail = 0.5 - 0.5 * interval
    ends = np.quantile(ranks, [tail, 1.0 - tail], axis=0, method="inverted_cdf")
    return Chances(best / draws, ends[0].astype(int), ends[1].astype(int))


def _ranks_of(scores: np.ndarray) -> np.ndarray:
    order = np.argsort(-scores, axis=1)
    ranks = np.empty_like(order)
    np.put_along_axis(ranks, order, np.arange(1, scores.shape[1] + 1)[None, :], axis=1)
    return ranks


def _exceeding(scores: np.ndarray, mean: np.ndarray, deviation: np.ndarray) -> np.ndarray:
    """The probability that a fresh score exceeds all others, summed over draws."""
    if scores.shape[1] == 1:
        return np.full(1, float(len(scores)))
    second, first = np.partition(scores, -2, axis=1)[:, -2:].T
    highest = np.where(scores == first[:, None], second[:, None], first[:, None])
    safe = np.where(deviation > 0, deviation, 1.0)
    chance = np.asarray(jax.scipy.special.ndtr((mean - highest) / safe))
    return np.where(deviation > 0, chance, mean > highest).sum(axis=0)


def _score_at_odds(likelihood: AbstractLikelihood) -> float:
    """The score at which the expected result has odds of 10 to 1, by narrowing an interval."""
    name = type(likelihood).__name__
    if not has_results(likelihood):
        raise ValueError(
            f"`scale` is about the odds of winning, but {name} has no win, tie and loss: its "
            f"outcomes are {likelihood.domain}; leave it out."
        )
    wanted, low, high = _ODDS / (1.0 + _ODDS), 0.0, 2.0
    while expected_score(likelihood, np.linspace(low, high, _POINTS))[-1] < wanted:
        low, high = high, 2.0 * high
        if high > 1e9:
            raise ValueError(
                f"`scale` needs a likelihood of results, but under {name} no score "
                "makes a win ten times as likely as a loss; leave it out."
            )
    for _ in range(_ROUNDS):
        points = np.linspace(low, high, _POINTS)
        place = int(np.sum(expected_score(likelihood, points) < wanted))
        low, high = points[max(place - 1, 0)], points[min(max(place, 1), _POINTS - 1)]
    return 0.5 * (low + high)
