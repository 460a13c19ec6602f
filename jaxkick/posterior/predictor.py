"""Questions that a posterior and a stream answer alike: predictions and leaderboards."""

import abc
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import ArrayLike

from jaxkick.data.queries import Directory, Match, Query, read_match, read_matches, read_query
from jaxkick.data.schema import ATTACK, DEFENCE, LEVEL, with_role
from jaxkick.data.tables import extend_table, make_table
from jaxkick.inference.problem import ScoreMoments
from jaxkick.model import Model
from jaxkick.parameters import resolve
from jaxkick.posterior.leaderboard import (
    Scale,
    Standing,
    choose_competitors,
    points_of,
    points_of_counts,
    rank,
)
from jaxkick.posterior.prediction import CountsPrediction, Prediction

__all__ = ["AbstractPredictor"]


class AbstractPredictor(abc.ABC):
    """Base of `Posterior` and `Stream`: everything that follows from scores by name and time."""

    model: Model

    @property
    @abc.abstractmethod
    def _directory(self) -> Directory:
        """Names, groups and times of the features."""

    @abc.abstractmethod
    def _score_query(self, query: Query) -> ScoreMoments:
        """Compute means and variances of linear combinations of scores."""

    def linear_combination(self, features: Any, time: Any) -> ScoreMoments:
        """Return mean and variance of linear combinations of scores.

        Args:
            features: a name, or a mapping from names to coefficients; or a list of them for
                many combinations.
            time: one number or date as in the data, or one for each combination.

        Returns:
            Means and variances; scalars for one combination at one time.
        """
        return _combine(self, time, {"features": (features, 1.0)}, {})

    def predict(
        self,
        first: Any,
        second: Any,
        time: Any,
        covariates: Mapping[Hashable, ArrayLike] | None = None,
        home: ArrayLike | None = None,
    ) -> Prediction | CountsPrediction:
        """Predict the outcomes of matches.

        A competitor without matches, and so also a misspelt name, has the prior's score.

        Args:
            first: the first side: a name, or a mapping from names to coefficients; or a list
                of them for many matches. A line-up is a mapping, or a list within the list.
            second: the second side, in the same form.
            time: one number or date as in the data, or one for each match.
            covariates: further features by name, with one coefficient or one for each match.
            home: the side at home, for data with a home advantage: +1 or `True` for the first
                side, -1 for the second, 0 (the default) for neutral ground; one value or one
                for each match.

        Returns:
            The prediction, with `p_win`, `p_tie` and `p_loss`; of both sides' counts if the
            data was read with `counts=`.
        """
        match = read_match(self._directory, first, second, covariates, home)
        return _predict(self, match, time)

    def forecast(self, matches: Any) -> Any:
        """Add predictions to a table of matches.

        Args:
            matches: a table with the columns of the table that `Dataset.from_frame` read.
                Outcomes are not needed and not read.

        Returns:
            The table, in its own library, with further columns: mean and deviation of the
            combined score, and `p_win`, `p_tie` and `p_loss`, or the expected outcome where
            outcomes are numbers.

        Raises:
            DataError: if the data was not read from a table, or a column is missing.
        """
        match, times = read_matches(self._directory, matches)
        return extend_table(matches, _predict(self, match, times).columns())

    def leaderboard(
        self,
        time: Any = None,
        *,
        names: Sequence[Hashable] | None = None,
        group: str | None = None,
        scale: Scale | tuple[float, float] | str | None = None,
        interval: float = 0.9,
        min_matches: int = 1,
        active_within: float | None = None,
        seed: int = 0,
        library: str | None = None,
    ) -> Any:
        """Rank competitors by their score at a time, the best first.

        Args:
            time: a number or date as in the data; the time of the last match if `None`.
            names: the competitors to compare; all features of one group if `None`.
            group: the group to compare; `"skill"` if `None`. If the data was read with
                `counts=`, teams are compared by the sum of their attack and defence.
            scale: the rating scale: `"elo"`, `"trueskill"`, or two numbers, the rating of a
                score of zero and the points for odds of 10 to 1. Scores if `None`.
            interval: the probability of the intervals of ratings and ranks.
            min_matches: exclude competitors with fewer than this many matches by then.
            active_within: exclude competitors whose last match was longer ago, in the data's
                unit of time.
            seed: the seed of the random draws that ranks are estimated from.
            library: the library of the table; that of the data if `None`.

        Returns:
            A table with the columns rank, name, rating, deviation, lower, upper, rank_lower,
            rank_upper, best (the probability of having the highest score), matches and
            last_active.

        Raises:
            DataError: if a name, a group or the scale is unknown, or no competitor remains.
        """
        chosen = choose_competitors(self._directory, time, names, group, min_matches, active_within)
        moments = self.linear_combination(chosen.features, chosen.time)
        mean, variance = (np.asarray(part, np.float64) for part in moments)
        standing = Standing(chosen.names, mean, variance, chosen.matches, chosen.last_active)
        if chosen.by_counts:
            level = float(self.linear_combination(LEVEL, chosen.time).mean)
            points = points_of_counts(scale, self.model.likelihood, level)
        else:
            points = points_of(scale, self.model.likelihood)
        columns = rank(standing, points, interval, seed)
        return make_table(columns, library or self._directory.library)


# Functions rather than methods: Equinox wraps each access to a method, which takes 0.1 ms.
def _combine(
    predictor: AbstractPredictor,
    time: Any,
    sides: Mapping[str, tuple[Any, float]],
    covariates: Mapping[Hashable, Any],
) -> ScoreMoments:
    return predictor._score_query(read_query(predictor._directory, time, sides, covariates))


def _predict(
    predictor: AbstractPredictor, match: Match, time: Any
) -> Prediction | CountsPrediction:
    directory = predictor._directory

    def prediction(moments: ScoreMoments) -> Prediction:
        likelihood = resolve(predictor.model.likelihood, moments.mean.dtype)
        return Prediction(moments.mean, moments.variance, likelihood, directory.library)

    first, second, favour = match
    if directory.schema is None or directory.schema.counts is None:
        sides = {"first": (first, 1.0), "second": (second, -1.0)}
        return prediction(_combine(predictor, time, sides, favour))
    attack, defence = with_role(first, ATTACK), with_role(second, DEFENCE)
    own = {"first": (attack, 1.0), "second": (defence, -1.0)}
    attack, defence = with_role(second, ATTACK), with_role(first, DEFENCE)
    other = {"other": (attack, 1.0), "own": (defence, -1.0)}
    against = {name: -np.asarray(value, np.float64)[()] for name, value in favour.items()}
    one = _combine(predictor, time, own, {**favour, LEVEL: 1.0})
    two = _combine(predictor, time, other, {**against, LEVEL: 1.0})
    # In the sum of both, shared features have twice their coefficient, and covariates with
    # opposite signs cancel: var(one + two) = var(one) + var(two) + 2 cov(one, two).
    both = _combine(predictor, time, {**own, **other}, {LEVEL: 2.0})
    covariance = 0.5 * (both.variance - one.variance - two.variance)
    return CountsPrediction(prediction(one), prediction(two), covariance, directory.library)
