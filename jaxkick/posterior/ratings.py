"""What can be asked of ratings, whether they come from a posterior or from a stream."""

import abc
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import ArrayLike

from jaxkick.competitors import choose_competitors
from jaxkick.counts import CountsPrediction
from jaxkick.dataset.counts import LEVEL
from jaxkick.dataset.directory import Directory
from jaxkick.dataset.query import Query, read_query
from jaxkick.inference.problem import ScoreMoments
from jaxkick.matches import predict_match, read_match, read_matches
from jaxkick.model import Model
from jaxkick.prediction import Prediction
from jaxkick.ranking import Scale, Standing, points_of, points_of_counts, rank
from jaxkick.tables import extend_table, make_table

__all__ = ["AbstractRatings"]


class AbstractRatings(abc.ABC):
    """Scores of features by name and time, and all that follows from them."""

    model: Model

    @property
    @abc.abstractmethod
    def _directory(self) -> Directory:
        """Names, groups and times."""

    @abc.abstractmethod
    def _score_query(self, query: Query) -> ScoreMoments:
        """Means and variances of linear combinations of scores."""

    def combination(self, features: Any, time: Any) -> ScoreMoments:
        """Mean and variance of linear combinations of scores.

        Args:
            features: a name, or a mapping from names to coefficients; or a list of them for
                many combinations.
            time: one time in the user's terms, or one for each combination.

        Returns:
            Means and variances, in the shape of what was asked.
        """
        return self._score_query(
            read_query(self._directory, time, {"features": (features, 1.0)}, {})
        )

    def predict(
        self,
        first: Any,
        second: Any,
        time: Any,
        covariates: Mapping[Hashable, ArrayLike] | None = None,
        home: ArrayLike | None = None,
    ) -> Prediction | CountsPrediction:
        """Outcomes of matches.

        A competitor without matches, also one whose name is misspelt, has the scores of the
        prior.

        Args:
            first: the first side: a name, or a mapping from names to coefficients; or a list
                of them for many matches. A line-up is a mapping, or a list within the list.
            second: the second side, likewise.
            time: one time in the user's terms, or one for each match.
            covariates: further features by name, with one coefficient or one for each match.
            home: who is at home, for data with a home advantage: +1 or `True` the first side,
                -1 the second, 0 nobody, which is the default; one or one for each match.

        Returns:
            The combined scores and the outcomes that follow from them; both counts of every
            match where the data was read with `counts=`.
        """
        match = read_match(self._directory, first, second, covariates, home)
        return predict_match(self._score_query, self.model, self._directory, match, time)

    def forecast(self, matches: Any) -> Any:
        """A table of matches with what is to be expected of them, in the table's own library.

        Args:
            matches: a table with the columns of the one that the data was made of by
                `Dataset.from_frame`; outcomes are not needed and not read.

        Returns:
            The table with further columns: mean and deviation of the combined score, and
            the probabilities `first_wins`, `tie` and `second_wins`, or what else there is to
            say of the outcome.

        Raises:
            ValueError: if the data was not made of a table, or a column is missing.
        """
        match, times = read_matches(self._directory, matches)
        prediction = predict_match(self._score_query, self.model, self._directory, match, times)
        return extend_table(matches, prediction.columns())

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
        """Competitors by their score at a time, the best first.

        Args:
            time: the time in the user's terms; that of the last match if `None`.
            names: whom to compare; if `None` all features of one group.
            group: that group; `"default"` if `None`. Of data that was read with `counts=`,
                teams are compared by the sum of their attack and defence.
            scale: how ratings are shown: `"elo"`, `"trueskill"`, or two numbers: the rating
                of a score of zero, and the points for odds of 10 to 1. Scores if `None`.
            interval: the probability of the intervals of ratings and ranks.
            min_matches: leave out who had fewer matches by then.
            active_within: leave out whose last match was longer ago, in the data's unit.
            seed: of the draws that ranks are counted in.
            library: the library of the table; that of the data if `None`.

        Returns:
            A table with the columns rank, name, rating, deviation, lower, upper, rank_lower,
            rank_upper, best (the probability of having the highest score), matches and
            last_active.
        """
        chosen = choose_competitors(self._directory, time, names, group, min_matches, active_within)
        moments = self.combination(chosen.features, chosen.time)
        mean, variance = (np.asarray(part, np.float64) for part in moments)
        standing = Standing(chosen.names, mean, variance, chosen.matches, chosen.last_active)
        if chosen.by_counts:
            points = points_of_counts(scale, float(self.combination(LEVEL, chosen.time).mean))
        else:
            points = points_of(scale, self.model.likelihood)
        columns = rank(standing, points, interval, seed)
        return make_table(columns, library or self._directory.library)
