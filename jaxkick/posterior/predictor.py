"""Queries shared by `Posterior` and `Stream`: predictions and leaderboards."""

import abc
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import ArrayLike

from jaxkick.data.aspect_columns import SideAspects, aspect_vector
from jaxkick.data.directory import AbstractDirectory
from jaxkick.data.queries import (
    Match,
    Query,
    read_covariates,
    read_field,
    read_match,
    read_matches,
    read_query,
    read_ranking,
    read_side_aspects,
    split_aspects,
)
from jaxkick.data.reading import naming_columns
from jaxkick.data.schema import ATTACK, DEFENCE, LEVEL, NOISE, TIE, read_mapping, with_role
from jaxkick.data.tables import extend_table, make_table
from jaxkick.errors import DataError
from jaxkick.inference.problem import ScoreMoments
from jaxkick.likelihoods import AbstractLikelihood
from jaxkick.likelihoods.likelihood import refuse_own_numbers
from jaxkick.model import Model
from jaxkick.parameters import resolve
from jaxkick.posterior.leaderboard import (
    Difference,
    Points,
    Scale,
    Standing,
    choose_competitors,
    hold,
    points_of,
    rank,
    read_anchors,
)
from jaxkick.posterior.prediction import CountsPrediction, Prediction, RankPrediction

__all__ = [
    "AbstractPredictor",
    "counted_sides",
    "make_query",
    "read_combination",
    "read_ties",
    "score_points",
]


class AbstractPredictor(abc.ABC):
    """Base of `Posterior` and `Stream`: everything that follows from scores by name and time."""

    model: Model

    @property
    @abc.abstractmethod
    def _directory(self) -> AbstractDirectory:
        """Names, groups and times of the features."""

    @abc.abstractmethod
    def _score_query(self, query: Query) -> ScoreMoments:
        """Compute means and variances of linear combinations of scores."""

    @abc.abstractmethod
    def _covariance_query(self, query: Query, joint: bool | None) -> np.ndarray | None:
        """Compute the joint covariance of combinations; `None` if they count as independent."""

    @abc.abstractmethod
    def _variance_query(self, query: Query, joint: bool | None) -> np.ndarray | None:
        """Compute the joint variances of combinations; `None` for those of `_score_query`."""

    def linear_combination(
        self,
        features: Any,
        time: Any,
        *,
        aspects: Mapping[str, float] | None = None,
        allow_unknown: bool = False,
    ) -> ScoreMoments:
        """Return mean and variance of linear combinations of scores.

        Variances are those of independent features, which is fast, and about right for the
        scores of matches; see `Posterior.covariance` for the joint posterior.

        Args:
            features: a name, or a mapping from names to coefficients; or a list of them for
                many combinations.
            time: one number or date as in the data, or one for each combination.
            aspects: coefficients of the aspects of competitors, for data with aspects:
                `{"clay": 1}` is the general skill plus that on clay, `{"skill": 0, "clay": 1}`
                the latter alone. The general skill if `None`; if attack and defence are
                aspects, their sum.
            allow_unknown: as in `predict`.

        Returns:
            Means and variances; scalars for one combination at one time.
        """
        own = {"features": read_combination(self, aspects)}
        return _combine(self, time, {"features": (features, 1.0)}, {}, allow_unknown, own)

    def predict(
        self,
        first: Any,
        second: Any,
        time: Any,
        covariates: Mapping[Hashable, ArrayLike] | None = None,
        home: ArrayLike | None = None,
        *,
        joint: bool = False,
        allow_unknown: bool = False,
    ) -> Prediction | CountsPrediction:
        """Predict the outcomes of one match or many.

        A list has one element for each match, and all lists have one length. A single value
        is used for all matches. The line-up of a side is a mapping from names to coefficients,
        or, within a list, a list or tuple of names::

            predict("Ann", "Ben", time)                       # one match
            predict(["Ann", "Cid"], ["Ben", "Dan"], time)     # two matches
            predict([["Ann", "Cid"]], [["Ben", "Dan"]], time) # one match, two against two
            predict({"Ann": 0.5, "Cid": 0.5}, "Ben", time)    # one match, halves of two

        Args:
            first: the first side: a name or a mapping from names to coefficients; or a list of
                names, lists, tuples and mappings for many matches. A bare tuple is refused.
            second: the second side, in the same form.
            time: one number or date as in the data, or one for each match.
            covariates: further features by name, with one coefficient or one for each match. For
                data with aspects also their values: `{"surface": "clay"}`, or a tuple with one
                value for each side. An aspect without a value does not count.
            home: the side at home, for data with a home advantage: +1 or `True` for the first
                side, -1 for the second, 0 (the default) for neutral ground; one value or one
                for each match.
            joint: whether the variance of the score is that of the joint posterior of all
                competitors. The default treats them as independent, which is fast and about
                right for sides that have played each other or common opponents; the joint one
                takes a solve over all matches, and is right for any sides, such as new line-ups
                of players who always played together. A `Stream` has only the default.
            allow_unknown: whether to accept names that are not in the data. Such a newcomer has
                the prior variance and the prior mean of its group (`Model.mean`), or
                `Model.newcomer_mean` if each feature has its own mean.

        Returns:
            The prediction, with `p_win`, `p_tie` and `p_loss`; of both sides' counts if the
            data was read with `counts=`.

        Raises:
            DataError: if a name is unknown, lengths differ, or both sides are the same.
        """
        match = read_match(self._directory, first, second, covariates, home)
        return _predict(self, match, time, allow_unknown, joint)

    def predict_ranking(
        self,
        competitors: Sequence[Any],
        time: Any,
        features: Mapping[Hashable, Any] | None = None,
        *,
        joint: bool = False,
        allow_unknown: bool = False,
    ) -> RankPrediction:
        """Predict the places of all sides of one event, such as a race.

        Args:
            competitors: the sides: names; a list of names or a mapping from names to
                coefficients for a team.
            time: a number or date as in the data.
            features: further features and values of aspects by name, as in
                `Dataset.from_rankings`: for each a label or a number for each side, or one for
                all.
            joint: as in `predict`, here for the covariance of all sides.
            allow_unknown: as in `predict`.

        Returns:
            The prediction, with `p_win`, `p_podium`, `expected_rank` and the `probabilities` of
            all places.

        Raises:
            DataError: if a name is unknown, a competitor is named twice, or the model has no
                likelihood of rankings.
        """
        sides, labels = read_field(competitors)
        directory = self._directory
        given, others = split_aspects(directory, read_mapping("features", features))
        extra = read_covariates(directory, others, "features")
        aspects = read_side_aspects(directory, given, 1, "features")
        own = aspects and {"competitors": aspects.sides[0]}
        likelihood = _ranking_of(self.model)
        query = make_query(self, time, {"competitors": (sides, 1.0)}, extra, allow_unknown, own)
        return _rank_prediction(self, query, likelihood, labels, joint)

    def forecast(self, matches: Any, *, joint: bool = False, allow_unknown: bool = False) -> Any:
        """Add predictions to a table of matches.

        Args:
            matches: a table with the columns of the table that `Dataset.from_frame` or
                `Dataset.from_rankings` read. Outcomes are not needed and not read.
            joint: as in `predict`, with one solve for each match, or for each side of a ranking.
            allow_unknown: as in `predict`.

        Returns:
            The table, in its own library, with further columns: mean and deviation of the
            combined score, and `p_win`, `p_tie` and `p_loss`, or the expected outcome where
            outcomes are numbers. For rankings, those of each row's side: `p_win`, `p_podium`
            and `expected_rank`; if each row is an event, for each column of competitors, such as
            `p_win[gold]`, whatever the order in which they are named.

        Raises:
            DataError: if the data was not read from a table, a column is missing, or a name is
                unknown.
        """
        if self._directory.meaning.is_ranking:
            return _forecast_rankings(self, matches, allow_unknown, joint)
        match, times = read_matches(self._directory, matches)
        with naming_columns(self._directory.schema):
            prediction = _predict(self, match, times, allow_unknown, joint)
        return extend_table(matches, prediction.columns())

    def compare(
        self,
        first: Any,
        second: Any,
        time: Any,
        *,
        scale: Scale | tuple[float, float] | str | None = None,
        interval: float = 0.9,
        joint: bool | None = None,
        aspects: Mapping[str, float] | None = None,
        allow_unknown: bool = False,
    ) -> Difference:
        """Compare two scores: their difference, its interval, and the probability of the order.

        The probability is that the first score is higher, not that it wins the next match.

        Args:
            first: the first competitors, in the forms of `predict`. If the data was read with
                `counts=`, teams are compared by the sum of their attack and defence.
            second: the second competitors.
            time: one number or date as in the data, or one for each pair.
            scale: the rating scale, as in `leaderboard`.
            interval: the probability of the interval.
            joint: as in `leaderboard`.
            aspects: coefficients of the aspects of both sides, as in `linear_combination`.
            allow_unknown: as in `predict`.

        Returns:
            The difference, first minus second.

        Raises:
            DataError: if a name or the scale is unknown, or both sides are the same.
        """
        first, second, *_ = read_match(self._directory, first, second, None, None)
        sides = {"first": (first, 1.0), "second": (second, -1.0)}
        schema, counted = self._directory.meaning, None
        if schema.has_roles:
            sides = {
                argument if role == ATTACK else f"{argument} {role}": (with_role(side, role), sign)
                for argument, (side, sign) in sides.items()
                for role in (ATTACK, DEFENCE)
            }
        if schema.counts is not None:
            numbers = self._directory.to_time(time, "time")
            counted = self._directory.scale.to_user(np.max(numbers))[()]
        own = dict.fromkeys(sides, read_combination(self, aspects))
        query = make_query(self, time, sides, {}, allow_unknown, own)
        mean, variance = self._score_query(query)
        together = self._variance_query(query, joint)
        if together is not None:
            variance = together.reshape(query.shape)
        return Difference.of(mean, variance, score_points(self, scale, counted).factor, interval)

    def leaderboard(
        self,
        time: Any = None,
        *,
        names: Sequence[Hashable] | Mapping[Hashable, Any] | None = None,
        group: str | None = None,
        scale: Scale | tuple[float, float] | str | None = None,
        interval: float = 0.9,
        min_matches: int = 1,
        active_within: float | None = None,
        aspects: Mapping[str, float] | None = None,
        seed: int = 0,
        library: str | None = None,
        joint: bool | None = None,
        anchors: Mapping[Hashable, Any] | Sequence[Hashable] | None = None,
    ) -> Any:
        """Rank competitors by their score at a time, the best first.

        Args:
            time: a number or date as in the data; the time of the last match if `None`.
            names: the competitors to compare; all features of one group if `None`. Or a mapping
                from labels to combinations, each a list of names or a mapping from names to
                coefficients, such as `{"Ann and Ben": ["Ann", "Ben"]}`.
            group: the group to compare; `"skill"` if `None`. If the data was read with
                `counts=`, teams are compared by the sum of their attack and defence.
            scale: the rating scale: `"elo"`, `"trueskill"`, or two numbers, the rating of a
                score of zero and the points for odds of 10 to 1. Scores if `None`.
            interval: the probability of the intervals of ratings and ranks.
            min_matches: exclude competitors with fewer than this many matches by then.
            active_within: exclude competitors whose last match was longer ago, in the data's
                unit of time.
            aspects: coefficients of aspects, as in `linear_combination`: `{"clay": 1}` ranks
                competitors by their skill on clay.
            seed: the seed of the random draws that ranks are estimated from.
            library: the library of the table; that of the data if `None`.
            joint: whether intervals and ranks are those of the joint posterior of all
                competitors; otherwise they are those of independent competitors, which are
                computed faster and are too narrow. If `None`, joint unless that would take
                long, with a warning. A `Stream` has only independent ones.
            anchors: known ratings, on the scale: a mapping from names to ratings, or to ratings
                with their standard deviations, such as `{"Stockfish": (3500, 20)}`; or names
                whose mean rating is the centre of the scale. Matches determine differences of
                ratings only: anchors determine their level, and intervals become those of
                differences to the anchors.

        Returns:
            A table with the columns rank, name, rating, deviation, lower, upper, rank_lower,
            rank_upper, best (the probability of having the highest score), matches and
            last_active. Those of a combination are of its least active member.

        Raises:
            DataError: if a name, a group or the scale is unknown, or no competitor remains.
        """
        chosen = choose_competitors(self._directory, time, names, group, min_matches, active_within)
        points = score_points(self, scale, chosen.time if chosen.by_counts else None)
        known = read_anchors(anchors, points.centre)
        features = list(chosen.features)
        if known is not None:
            held = choose_competitors(self._directory, chosen.time, known.names, argument="anchors")
            late = [name for name in known.names if name not in held.names]
            if late:
                raise DataError(
                    f"{late[0]!r} in {{argument}} has no matches by then",
                    "Leave it out, or choose a later {time}.",
                    argument="anchors",
                    mentions=["time"],
                )
            features += held.features
        own = {"features": read_combination(self, aspects)}
        query = make_query(self, chosen.time, {"features": (features, 1.0)}, {}, False, own)
        mean, variance = (np.asarray(part, np.float64) for part in self._score_query(query))
        covariance = self._covariance_query(query, joint)
        if covariance is None and (known is not None or isinstance(names, Mapping)):
            covariance = _covariance(self, features, chosen.time, aspects)
        rating = points.centre + points.factor * mean
        if covariance is not None:
            covariance = points.factor**2 * covariance
        if known is not None and covariance is not None:
            count = len(chosen.names)
            design = np.pad(known.weights, ((0, 0), (count, 0)))
            rating, covariance = hold(rating, covariance, design, known)
            rating, covariance = rating[:count], covariance[:count, :count]
        variance = points.factor**2 * variance if covariance is None else np.diagonal(covariance)
        standing = Standing(
            chosen.names, rating, variance, chosen.matches, chosen.last_active, covariance
        )
        columns = rank(standing, interval, seed)
        return make_table(columns, library or self._directory.library)


# Functions rather than methods: Equinox wraps each access to a method, which takes 0.1 ms.
def _combine(
    predictor: AbstractPredictor,
    time: Any,
    sides: Mapping[str, tuple[Any, float]],
    covariates: Mapping[Hashable, Any],
    allow_unknown: bool,
    aspects: Mapping[str, np.ndarray | None] | None,
    joint: bool = False,
) -> ScoreMoments:
    query = make_query(predictor, time, sides, covariates, allow_unknown, aspects)
    return _moments(predictor, query, joint)


def _moments(predictor: AbstractPredictor, query: Query, joint: bool) -> ScoreMoments:
    moments = predictor._score_query(query)
    together = predictor._variance_query(query, joint)
    if together is None:
        return moments
    variance = jnp.asarray(together.reshape(query.shape), moments.mean.dtype)
    return moments._replace(variance=variance)


def make_query(
    predictor: AbstractPredictor,
    time: Any,
    sides: Mapping[str, tuple[Any, float]],
    covariates: Mapping[Hashable, Any],
    allow_unknown: bool,
    aspects: Mapping[str, np.ndarray | None] | None = None,
) -> Query:
    """Read combinations of features at times; see `read_query`."""
    query = read_query(predictor._directory, time, sides, covariates, allow_unknown, aspects)
    if np.any((query.features < 0) & (query.groups != "")):
        predictor.model.check_newcomers()
    return query


def read_combination(
    predictor: AbstractPredictor, aspects: Mapping[str, float] | None
) -> np.ndarray | None:
    """The coefficients of a combination of aspects; `None` in data without aspects."""
    directory = predictor._directory
    return aspect_vector(directory.known_aspects, aspects, directory.meaning.counts is not None)


def _ranking_of(model: Model) -> AbstractLikelihood:
    """The model's likelihood of rankings."""
    for likelihood in model.likelihoods.values():
        if likelihood.num_predictors is None:
            return likelihood
    raise DataError(
        "The model has no likelihood of rankings",
        "Use `predict(first, second, time)`, or a model with `likelihoods.Ranking()`.",
    )


def _rank_prediction(
    predictor: AbstractPredictor,
    query: Query,
    likelihood: AbstractLikelihood,
    labels: Sequence[str],
    joint: bool,
) -> RankPrediction:
    """Predict one event, whose sides are the combinations of a query."""
    mean, variance = predictor._score_query(query)
    likelihood = resolve(likelihood, mean.dtype)
    library = predictor._directory.library
    covariance = predictor._covariance_query(query, joint)
    if covariance is not None:
        covariance = jnp.asarray(covariance, mean.dtype)
        variance = jnp.diagonal(covariance)
    return RankPrediction(mean, variance, likelihood, tuple(labels), library, covariance)


def _forecast_rankings(
    predictor: AbstractPredictor, table: Any, allow_unknown: bool, joint: bool
) -> Any:
    """Add the probabilities of places to a table of events."""
    likelihood, directory = _ranking_of(predictor.model), predictor._directory
    fields = read_ranking(directory, table)
    with naming_columns(directory.schema):
        sides = {"competitor": (fields.sides, 1.0)}
        own = fields.aspects and {"competitor": fields.aspects.sides[0]}
        query = make_query(predictor, fields.times, sides, fields.covariates, allow_unknown, own)
    columns: dict[str, np.ndarray] = {}
    for event in np.unique(fields.events):
        here = np.flatnonzero(fields.events == event)
        part = Query((len(here),), *jax.tree.map(lambda x, here=here: x[here], query[1:]))
        found = _rank_prediction(predictor, part, likelihood, [""] * len(here), joint).columns()
        for name, values in found.items():
            if name != "name":
                columns.setdefault(name, np.zeros(len(fields.sides)))[here] = values
    if fields.rows is not None:
        return extend_table(table, {name: values[fields.rows] for name, values in columns.items()})
    # One row for each event: a column for each side.
    place = np.arange(len(fields.events)) - np.searchsorted(fields.events, fields.events)
    wide = {}
    for number, side in enumerate(directory.schema.places):
        for name, values in columns.items():
            cells = np.full(fields.events[-1] + 1, np.nan)
            cells[fields.events[place == number]] = values[place == number]
            wide[f"{name}[{side}]"] = cells
    return extend_table(table, wide)


def score_points(predictor: AbstractPredictor, scale: Any, counted: Any) -> Points:
    """The map from scores to ratings; `counted` is the time of the level of counts, if any."""
    level = None if counted is None else float(predictor.linear_combination(LEVEL, counted).mean)
    return points_of(scale, predictor.model.duel, level)


def _covariance(
    predictor: AbstractPredictor,
    features: list[dict[Hashable, float]],
    time: Any,
    aspects: Mapping[str, float] | None,
) -> np.ndarray:
    """The covariance of combinations of independent features, which they may share."""
    places = {name: None for each in features for name in each}
    moments = predictor.linear_combination(list(places), time, aspects=aspects)
    x = np.array([[each.get(name, 0.0) for name in places] for each in features])
    return (x * np.asarray(moments.variance, np.float64)) @ x.T


def _predict(
    predictor: AbstractPredictor, match: Match, time: Any, allow_unknown: bool, joint: bool
) -> Prediction | CountsPrediction:
    refuse_own_numbers(predictor.model.duel)
    if predictor._directory.meaning.counts is not None:
        return _predict_counts(predictor, match, time, allow_unknown, joint)
    first, second, favour, aspects = match
    sides = {"first": (first, 1.0), "second": (second, -1.0)}
    own = aspects and dict(zip(sides, aspects.sides, strict=True))
    score = _combine(predictor, time, sides, favour, allow_unknown, own, joint)
    likelihood = predictor.model.duel
    query = _second_query(predictor, match, time, allow_unknown)
    if query is not None:
        varying: Any = predictor.model.likelihood_of("")
        likelihood = varying.given_second(*_moments(predictor, query, joint))
    return _prediction(predictor, score, likelihood)


def _second_query(
    predictor: AbstractPredictor, match: Match, time: Any, allow_unknown: bool
) -> Query | None:
    """Read the second score of matches, for ties or for the noise; `None` if there is none."""
    schema = predictor._directory.meaning
    if schema.tie_effects:
        return read_ties(predictor._directory, time, match.first, match.second, allow_unknown)
    if schema.noise_effects:
        return make_query(predictor, time, {"features": (NOISE, 1.0)}, {}, allow_unknown=False)
    return None


def _predict_counts(
    predictor: AbstractPredictor, match: Match, time: Any, allow_unknown: bool, joint: bool
) -> CountsPrediction:
    first, second, favour, aspects = match
    one, two, own = counted_sides(first, second, aspects)
    against = {name: -np.asarray(value, np.float64)[()] for name, value in favour.items()}
    rest = (allow_unknown, own, joint)
    score_one = _combine(predictor, time, one, {**favour, LEVEL: 1.0}, *rest)
    score_two = _combine(predictor, time, two, {**against, LEVEL: 1.0}, *rest)
    # In the sum of both, shared features have twice their coefficient, and covariates with
    # opposite signs cancel: var(one + two) = var(one) + var(two) + 2 cov(one, two).
    both = _combine(predictor, time, {**one, **two}, {LEVEL: 2.0}, *rest)
    duel = predictor.model.duel
    return CountsPrediction(
        first=_prediction(predictor, score_one, duel),
        second=_prediction(predictor, score_two, duel),
        covariance=0.5 * (both.variance - score_one.variance - score_two.variance),
        library=predictor._directory.library,
        likelihood=resolve(duel, both.mean.dtype),
    )


def _prediction(
    predictor: AbstractPredictor, score: ScoreMoments, likelihood: AbstractLikelihood
) -> Prediction:
    """The outcomes that follow from a score; for likelihoods of two counts, one of them."""
    likelihood = resolve(likelihood, score.mean.dtype).count()
    return Prediction(score.mean, score.variance, likelihood, predictor._directory.library)


def read_ties(
    directory: AbstractDirectory, times: Any, first: Any, second: Any, allow_unknown: bool
) -> Query:
    """Read the sums of both sides' tie effects."""
    # One side at a time: two sides would have a skill as a pair.
    sides = {"first": (with_role(first, TIE), 1.0)}, {"second": (with_role(second, TIE), 1.0)}
    one, two = (read_query(directory, times, side, {}, allow_unknown) for side in sides)
    # The features of both sides differ, and so do their codes.
    codes = np.where(two.codes < 0, -1, two.codes + one.codes.max(initial=-1) + 1)
    parts = one[2:], two._replace(codes=codes)[2:]

    def join(*values: np.ndarray) -> np.ndarray:
        # One side may be a single one, for all matches.
        count = max(map(len, values))
        return np.hstack([np.broadcast_to(x, (count, x.shape[1])) for x in values])

    longer = max(one, two, key=lambda each: (len(each.times), len(each.shape)))
    return Query(longer.shape, longer.times, *jax.tree.map(join, *parts))


def counted_sides(
    first: Any, second: Any, aspects: SideAspects | None
) -> tuple[dict, dict, dict[str, np.ndarray] | None]:
    """The sides of the first and of the second count of a match, and their aspects."""
    if aspects is None:
        one = {
            "first": (with_role(first, ATTACK), 1.0),
            "second": (with_role(second, DEFENCE), -1.0),
        }
        two = {
            "other": (with_role(second, ATTACK), 1.0),
            "own": (with_role(first, DEFENCE), -1.0),
        }
        return one, two, None
    attack, defence = (aspects.with_role(role).sides for role in (ATTACK, DEFENCE))
    own = {"first": attack[0], "second": defence[1], "other": attack[1], "own": defence[0]}
    one = {"first": (first, 1.0), "second": (second, -1.0)}
    return one, {"other": (second, 1.0), "own": (first, -1.0)}, own
