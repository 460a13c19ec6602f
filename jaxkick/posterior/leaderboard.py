"""Leaderboards: competitors, rating scales, ranks and their intervals."""

import math
from collections.abc import Hashable, Mapping, Sequence
from contextlib import suppress
from statistics import NormalDist
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import ArrayLike

from jaxkick._xla import call_compiled
from jaxkick.data.directory import AbstractDirectory
from jaxkick.data.queries import read_names, unknown_name
from jaxkick.data.schema import ATTACK, DEFAULT_GROUP, DEFENCE, NO_TABLE, Feature
from jaxkick.data.sides import Vocabulary, read_side
from jaxkick.data.tables import name_column
from jaxkick.errors import DataError, check_probability, invalid
from jaxkick.likelihoods import AbstractLikelihood
from jaxkick.parameters import resolve
from jaxkick.posterior.joint import square_root

__all__ = [
    "SCALES",
    "Anchors",
    "Competitors",
    "Difference",
    "Points",
    "RankIntervals",
    "Scale",
    "Standing",
    "choose_competitors",
    "half_width",
    "hold",
    "points_of",
    "rank",
    "rank_intervals",
    "read_anchors",
    "read_scale",
]

_MAX_DRAWS = 10_000
_MAX_NUMBERS = 4_000_000
_CHUNK = 1_000_000
_ODDS = 10.0
_HIGHEST_SCORE = 1e9


class Competitors(NamedTuple):
    """Competitors at a time.

    Attributes:
        names: their names.
        features: for each competitor, the features with coefficients that sum to its score.
        time: the time, a number or a date as in the data.
        matches: the number of matches of each until then; for a combination, the least number of
            its members.
        last_active: the time of the last match, a number or a date as in the data; for a
            combination, the earliest of its members.
        by_counts: whether scores are sums of attack and defence.
    """

    names: list[Hashable]
    features: list[dict[Hashable, float]]
    time: Any
    matches: np.ndarray
    last_active: np.ndarray
    by_counts: bool


def choose_competitors(
    directory: AbstractDirectory,
    time: Any = None,
    names: Sequence[Hashable] | Mapping[Hashable, Any] | None = None,
    group: str | None = None,
    min_matches: int = 1,
    active_within: float | None = None,
    argument: str = "names",
) -> Competitors:
    """Select the competitors of a leaderboard; `argument` is the user's argument with the names.

    The other arguments and the errors are those of `AbstractPredictor.leaderboard`.
    """
    number = directory.latest if time is None else float(directory.to_time(time, "time"))
    schema = directory.meaning
    by_counts = group is None and schema.counts is not None
    by_roles = by_counts and schema.has_roles
    if names is None:
        names = _all_names(directory, ATTACK if by_roles else group)
    names, features = _read_competitors(names, by_roles, argument)
    members = [feature for each in features for feature in each]
    unknown = np.flatnonzero(directory.feature_ids(members) < 0)
    if unknown.size:
        raise unknown_name(directory, members[unknown[0]], argument, may_be_new=False)
    played = [[directory.played(feature, number) for feature in each] for each in features]
    matches = np.array([min(each.matches for each in members) for members in played], int)
    if by_counts and not by_roles:
        # Attack and defence of a match are two entries of one feature.
        matches //= 2
    last = np.array([min(each.last for each in members) for members in played], float)
    since = -np.inf if active_within is None else number - active_within
    kept = np.flatnonzero((matches >= max(min_matches, 1)) & (last >= since))
    if not kept.size:
        raise DataError(
            "No competitor remains on the leaderboard",
            "Lower {min_matches}, raise {active_within} or choose a later {time}.",
            mentions=["min_matches", "active_within", "time"],
        )
    return Competitors(
        [names[place] for place in kept],
        [features[place] for place in kept],
        directory.scale.to_user(number)[()],
        matches[kept],
        directory.scale.to_user(last[kept]),
        by_counts,
    )


def _read_competitors(
    names: Any, by_counts: bool, argument: str
) -> tuple[list[Hashable], list[dict[Hashable, float]]]:
    """Read names, or combinations by their label, as features with coefficients."""
    sides: list[dict[Hashable, float]]
    given, names = names, read_names(names)
    if len(set(names)) < len(names):
        raise DataError("{argument} has a name twice", "Give each name once.", argument=argument)
    if isinstance(given, Mapping):
        sides = [_read_combination(label, side) for label, side in given.items()]
    else:
        names = [name.name if by_counts and isinstance(name, Feature) else name for name in names]
        sides = [{name: 1.0} for name in names]
    if by_counts:
        roles = (ATTACK, DEFENCE)
        sides = [
            {Feature(name, role): x for name, x in side.items() for role in roles} for side in sides
        ]
    return names, sides


def _read_combination(label: Hashable, side: Any) -> dict[Hashable, float]:
    """Read a name, a list of names, or a mapping from names to coefficients."""
    vocabulary = Vocabulary()
    argument = f"names[{label!r}]"
    features, coefficients, _ = read_side([side], 1.0, vocabulary, argument, 1).compact()
    names = vocabulary.names()
    if (features < 0).any() or not np.isfinite(coefficients).all():
        raise DataError(
            "{argument} has no competitors, or a coefficient that is not finite",
            "Pass a list of names or a mapping from names to coefficients.",
            argument=argument,
        )
    return {names[k]: x for k, x in zip(features[0], coefficients[0].tolist(), strict=True)}


def _all_names(directory: AbstractDirectory, group: str | None) -> list[Hashable]:
    """All features of a group; without a group, all competitors but no covariates."""
    schema = (directory.schema if group is None else None) or NO_TABLE
    if group is None:
        group = directory.groups[0] if len(directory.groups) == 1 else DEFAULT_GROUP
    if group not in directory.groups:
        known = ", ".join(map(repr, directory.groups))
        problem = f"but the groups of the data are {known}"
        raise invalid("group", group, problem, "Choose one of them or pass `names`.")
    return [name for name in directory.members(group) if not schema.is_covariate(name)]


class Scale(NamedTuple):
    """A rating scale: `centre` for a score of zero, `spread` points for odds of 10 to 1.

    The odds are those of the expected result, in which a tie is half a win, so that ratings
    under different likelihoods can be compared.
    """

    centre: float = 1500.0
    spread: float = 400.0

    def factor(self, likelihood: AbstractLikelihood) -> float:
        """Return the points of one unit of score.

        Raises:
            DataError: if the likelihood has no win and loss.
        """
        return self.spread / _score_at_odds(likelihood)


SCALES = {"elo": Scale(), "trueskill": Scale(25.0, 7.868)}
"""Scales by name: Elo's, and the default of TrueSkill (β = 25/6)."""


class Points(NamedTuple):
    """The linear map from scores to ratings: `centre + factor * score`."""

    centre: float = 0.0
    factor: float = 1.0


def read_scale(scale: Scale | tuple[float, float] | str | None) -> Scale | None:
    """Return a scale by its name or its two numbers.

    Raises:
        DataError: if it is neither.
    """
    if scale is None:
        return None
    if isinstance(scale, str) and scale in SCALES:
        return SCALES[scale]
    if isinstance(scale, (tuple, list)) and len(scale) == 2:
        with suppress(ValueError, TypeError):
            centre, spread = map(float, scale)
            if math.isfinite(centre) and 0.0 < spread < math.inf:
                return Scale(centre, spread)
    known = ", ".join(map(repr, SCALES))
    raise invalid(
        "scale",
        scale,
        f"but must be {known} or two numbers",
        "The two numbers are the rating of a score of zero and the points for odds of 10 to 1, "
        "above zero, as in (1500, 400).",
    )


def points_of(
    scale: Scale | tuple[float, float] | str | None,
    likelihood: AbstractLikelihood,
    level: float | None = None,
) -> Points:
    """Return the map from scores to ratings on a scale; the identity if the scale is `None`.

    Args:
        scale: the scale.
        likelihood: the likelihood of an outcome, or of a count.
        level: the logarithm of the rate of counts between equal teams, if scores are sums of
            attack and defence. The counts of two teams whose sums differ by d have the rates
            exp(level ± d/2) on neutral ground, so the score of their difference is d/2; see
            `AbstractLikelihood.difference`.

    Raises:
        DataError: if the scale is unknown, or the likelihood has no win and loss.
    """
    chosen = read_scale(scale)
    if chosen is None:
        return Points()
    difference = None if level is None else likelihood.difference(level)
    if difference is None:
        return Points(chosen.centre, chosen.factor(likelihood))
    return Points(chosen.centre, 0.5 * chosen.factor(difference))


def _score_at_odds(likelihood: AbstractLikelihood) -> float:
    """Find the score at which the expected result has odds of 10 to 1."""
    # Imported where it is needed: SciPy is slow to import.
    from scipy.optimize import brentq

    name = type(likelihood).__name__
    if not likelihood.has_results:
        raise DataError(
            f"{{argument}} needs the odds of a win, but {name} has no win and loss: its outcomes "
            f"are {likelihood.domain}",
            "Leave {argument} out.",
            argument="scale",
        )

    def excess(score: float) -> float:
        """Expected score, with a tie as half a win, minus the wanted one."""
        known = np.asarray(score, jnp.result_type(float))
        method = resolve(likelihood, known.dtype).result_probabilities
        _, tie, win = np.asarray(call_compiled(method, known, np.zeros_like(known)))
        return float(win + 0.5 * tie) - _ODDS / (1.0 + _ODDS)

    low, high = 0.0, 2.0
    while excess(high) < 0 and high < _HIGHEST_SCORE:
        low, high = high, 2.0 * high
    if not excess(low) < 0 <= excess(high):
        raise DataError(
            f"{{argument}} needs the odds of a win, but under {name} no positive score makes a "
            "win ten times as likely as a loss",
            "Leave {argument} out.",
            argument="scale",
        )
    return float(brentq(excess, low, high))


class Standing(NamedTuple):
    """Competitors and the posterior of their ratings.

    Attributes:
        names: their names.
        mean: means of their ratings.
        variance: variances of their ratings.
        matches: the number of matches of each.
        last_active: the time of the last of them, a number or a date as in the data.
        covariance: covariance matrix of their ratings; `None` if they are independent.
    """

    names: Sequence[Hashable]
    mean: np.ndarray
    variance: np.ndarray
    matches: np.ndarray
    last_active: np.ndarray
    covariance: np.ndarray | None = None

    def take(self, places: np.ndarray) -> "Standing":
        """Select competitors, in the order of their places."""
        joint = self.covariance
        return Standing(
            [self.names[place] for place in places],
            *(part[places] for part in self[1:5]),
            covariance=None if joint is None else joint[np.ix_(places, places)],
        )

    def sorted(self) -> "Standing":
        """Sort competitors by their rating, the best first."""
        return self.take(np.argsort(-self.mean, kind="stable"))


def rank(standing: Standing, interval: float = 0.9, seed: int = 0) -> dict[str, np.ndarray]:
    """Return the columns of a leaderboard, the best competitor first."""
    reach = half_width(interval)
    names, mean, variance, matches, last_active, covariance = standing.sorted()
    deviation = np.sqrt(variance)
    ranks = rank_intervals(mean, deviation, interval, seed, covariance)
    return {
        "rank": np.arange(1, len(names) + 1),
        "name": name_column(names),
        "rating": mean,
        "deviation": deviation,
        "lower": mean - reach * deviation,
        "upper": mean + reach * deviation,
        "rank_lower": ranks.lower,
        "rank_upper": ranks.upper,
        "best": ranks.best,
        "matches": matches,
        "last_active": last_active,
    }


class Anchors(NamedTuple):
    """Known ratings: weighted means of competitors' ratings, with their uncertainty.

    Attributes:
        names: the competitors.
        weights: weights [anchors, names] that sum to one.
        rating: the known rating of each anchor.
        deviation: its standard deviation; 0 if it is exact.
    """

    names: list[Hashable]
    weights: np.ndarray
    rating: np.ndarray
    deviation: np.ndarray


def read_anchors(anchors: Any, centre: float) -> Anchors | None:
    """Read known ratings.

    Args:
        anchors: a mapping from names to ratings, or to ratings with their standard deviations;
            or names whose mean rating is `centre`.
        centre: the centre of the scale.

    Raises:
        DataError: if a rating is not a finite number, a deviation is negative, or there is none.
    """
    if anchors is None:
        return None
    if isinstance(anchors, (int, float)):
        problem = "but must be names, or a mapping from names to ratings"
        raise invalid("anchors", anchors, problem, "For example, {'Stockfish': 3500}.")
    if not len(anchors):
        raise DataError("{argument} has no names", "Leave it out.", argument="anchors")
    names = read_names(anchors)
    if not isinstance(anchors, Mapping):
        weights = np.full((1, len(names)), 1.0 / len(names))
        return Anchors(names, weights, np.array([centre]), np.zeros(1))
    values = []
    for name, value in anchors.items():
        pair = value if isinstance(value, tuple | list) else (value, 0.0)
        with suppress(ValueError, TypeError):
            rating, deviation = map(float, pair)
            if math.isfinite(rating) and 0.0 <= deviation < math.inf:
                values.append((rating, deviation))
                continue
        problem = "but must be a rating, or a rating and its standard deviation"
        remedy = "Pass 3500 or (3500, 20), for example."
        raise invalid(f"anchors[{name!r}]", value, problem, remedy)
    rating, deviation = np.array(values).T
    return Anchors(names, np.eye(len(names)), rating, deviation)


def hold(
    mean: np.ndarray, covariance: np.ndarray, design: np.ndarray, anchors: Anchors
) -> tuple[np.ndarray, np.ndarray]:
    """Condition ratings on known ones; the level of the scale is free.

    Matches determine differences of ratings. The common level has a flat prior and is estimated
    from the anchors, together with the differences between them: universal kriging.

    Args:
        mean: posterior means of ratings.
        covariance: their covariance matrix.
        design: weights [anchors, ratings] of each anchor.
        anchors: the known ratings.

    Returns:
        Means and covariance matrix of the ratings.
    """
    across = covariance @ design.T
    within = design @ across + np.diag(anchors.deviation**2)
    inverse = np.linalg.pinv(within, hermitian=True)
    # The precision of the level.
    total = inverse.sum()
    wrong = anchors.rating - design @ mean
    level = (inverse @ wrong).sum() / total if total > 0 else wrong.mean()
    gain = across @ inverse
    left = 1.0 - gain.sum(axis=1)
    spread = 1.0 / total if total > 0 else 0.0
    held = covariance - gain @ across.T + spread * np.outer(left, left)
    return mean + level + gain @ (wrong - level), held


def half_width(interval: float) -> float:
    """Return the half-width of a central normal interval, in standard deviations.

    Raises:
        DataError: if the probability is not between zero and one.
    """
    check_probability("interval", interval)
    return NormalDist().inv_cdf(0.5 + 0.5 * interval)


class RankIntervals(NamedTuple):
    """Ranks of competitors, with their uncertainty.

    Attributes:
        best: the probability that the competitor has the highest score.
        lower: the best rank within the interval.
        upper: the worst rank within the interval.
    """

    best: np.ndarray
    lower: np.ndarray
    upper: np.ndarray


class Difference(NamedTuple):
    """The difference of two scores or ratings; numbers for one pair, arrays for many.

    Attributes:
        mean: the posterior mean of first minus second.
        deviation: its posterior standard deviation.
        lower: the lower end of its interval.
        upper: the upper end of its interval.
        probability: the probability that the first is higher.
    """

    mean: float | np.ndarray
    deviation: float | np.ndarray
    lower: float | np.ndarray
    upper: float | np.ndarray
    probability: float | np.ndarray

    @staticmethod
    def of(mean: ArrayLike, variance: ArrayLike, factor: float, interval: float) -> "Difference":
        """Describe a normal difference of scores, in ratings of `factor` points each.

        Raises:
            DataError: if `interval` is not between zero and one.
        """
        # Imported where it is needed: SciPy is slow to import.
        from scipy.special import ndtr

        middle = factor * np.asarray(mean, np.float64)
        deviation = factor * np.sqrt(np.asarray(variance, np.float64))
        reach = half_width(interval) * deviation
        known = deviation == 0.0
        chance = np.where(
            known, 0.5 + 0.5 * np.sign(middle), ndtr(middle / np.where(known, 1.0, deviation))
        )
        parts = (middle, deviation, middle - reach, middle + reach, chance)
        return Difference(*(part if np.ndim(part) else float(part) for part in parts))


def rank_intervals(
    mean: np.ndarray,
    deviation: np.ndarray,
    interval: float,
    seed: int = 0,
    covariance: np.ndarray | None = None,
) -> RankIntervals:
    """Estimate the ranks of normal scores by Monte Carlo.

    Each draw gives every score a rank. If scores are independent, it also gives, for every
    competitor, the highest of the other scores, and so the probability of exceeding it; `best`
    is the mean of these, and otherwise the share of draws in which a score is highest. With up
    to 400 competitors there are 10,000 draws, and the standard error of a probability is
    below 0.005; with 2,000 competitors there are 2,000 draws, and it is below 0.012.

    Args:
        mean: means of the scores.
        deviation: their standard deviations.
        interval: the probability of the interval of ranks.
        seed: the seed of the draws.
        covariance: their covariance matrix; `None` if they are independent.
    """
    count, root = len(mean), None if covariance is None else square_root(covariance)
    draws = max(200, min(_MAX_DRAWS, _MAX_NUMBERS // max(count, 1)))
    generator = np.random.default_rng(seed)
    best = np.zeros(count)
    ranks = np.empty((draws, count), np.int32)
    step = max(1, _CHUNK // count)
    for begin in range(0, draws, step):
        part = slice(begin, min(begin + step, draws))
        draw = generator.standard_normal((part.stop - begin, count))
        scores = mean + (deviation * draw if root is None else draw @ root.T)
        order = np.argsort(-scores, axis=1)
        np.put_along_axis(ranks[part], order, np.arange(1, count + 1, dtype=np.int32)[None], axis=1)
        if root is None:
            best += _exceeding(scores, mean, deviation)
        else:
            best += np.bincount(order[:, 0], minlength=count)
    tail = 0.5 - 0.5 * interval
    ends = np.quantile(ranks, [tail, 1.0 - tail], axis=0, method="inverted_cdf")
    return RankIntervals(best / draws, ends[0].astype(int), ends[1].astype(int))


def _exceeding(scores: np.ndarray, mean: np.ndarray, deviation: np.ndarray) -> np.ndarray:
    """Sum over draws the probability that a fresh score exceeds all other scores."""
    # Imported where it is needed: SciPy is slow to import.
    from scipy.special import ndtr

    if scores.shape[1] == 1:
        return np.full(1, float(len(scores)))
    second, first = np.partition(scores, -2, axis=1)[:, -2:].T
    highest = np.where(scores == first[:, None], second[:, None], first[:, None])
    safe = np.where(deviation > 0, deviation, 1.0)
    return np.where(deviation > 0, ndtr((mean - highest) / safe), mean > highest).sum(axis=0)
