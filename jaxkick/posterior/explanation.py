"""Explanations: the contribution of every match to a rating, or to its change.

At the fixed point every observation has a Gaussian factor on its score f = X s, with precisions W,
mean m̃ and pull p = W (m̃ − f). With f₀ the prior mean of f, the posterior mean of a score c, less
its prior mean, is

    cᵀA⁻¹Xᵀ b = Σₙ uₙ bₙ      with u = X A⁻¹c and b = W (m̃ − f₀) = p + W (f − f₀),

so one solve splits it into a sum over matches. The influence of a match is the part of the mean
that would be missing without it, pᵀ(I − VW)⁻¹u over its observations, with V the joint covariance
of their scores. That takes a solve for each observation, so it is computed for the most influential
matches only. The others have uₙ pₙ (1 + wₙ vₙ), with vₙ the variance of the score without the
observation if competitors were independent.
"""

import functools
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxkick._typing import Array, Float
from jaxkick._xla import jit_by_size
from jaxkick.data.dataset import Dataset
from jaxkick.data.observations import Observations
from jaxkick.data.queries import Query
from jaxkick.data.schema import NO_TABLE, Feature
from jaxkick.data.tables import AbstractTable, name_column
from jaxkick.errors import DataError, invalid, plain
from jaxkick.inference.methods import Linearization
from jaxkick.inference.problem import make_problem
from jaxkick.model import Model
from jaxkick.posterior.joint import is_affordable, reach_of
from jaxkick.posterior.leaderboard import Points, Scale, choose_competitors
from jaxkick.posterior.predictor import score_points
from jaxkick.posterior.scores import score_combinations

if TYPE_CHECKING:
    from jaxkick.posterior.posterior import Posterior

__all__ = ["Explanation", "explain"]

# The error of the solve: one right-hand side is cheap, and contributions should add up.
_TOLERANCE = {"float64": 1e-8, "float32": 1e-4}
_SHOWN = 5
_SIDES = 3
# The number of solves for the influences of the strongest matches.
_SOLVES = 16


@dataclass(frozen=True, eq=False, repr=False)
class Explanation(AbstractTable):
    """The contributions of all matches to a rating, or to its change.

    The contributions, `baseline` and `rest` sum to `rating`. The table has one row for each match,
    the largest contribution first.

    Attributes:
        name: the name of the competitor.
        rating: the rating, or its change.
        baseline: the rating without any match: the scale's centre and the prior mean.
        rest: what is left because inference stops at a tolerance.
        row: the row of each match in the data; of a ranking, that of its first side.
        time: the time of each match, as in the data.
        match: the sides of each match as text.
        outcome: the outcome of each match; not a number for rankings.
        own: whether the competitor took part.
        contribution: the contribution of each match.
        influence: the part of the rating, or of its change, that would be missing without the
            match. Unlike contributions, influences have no meaningful sum. The largest are
            computed from the joint posterior. The others (all of them in data with millions of
            entries) may be off by several per cent.
        change: a phrase for the change that is explained, such as "since 2009-01-01"; `None` for
            a rating.
        new: whether each match is after the earlier time of a change, or missing in its earlier
            posterior; `None` for a rating.
        result: +1 if the competitor won the match, 0 for a tie, -1 if it lost; not a number for
            matches of others, those after the time of the rating, and outcomes without a winner.
        library: the library of the user's tables.
    """

    name: Hashable
    rating: float
    baseline: float
    rest: float
    row: np.ndarray
    time: np.ndarray
    match: np.ndarray
    outcome: np.ndarray
    own: np.ndarray
    contribution: np.ndarray
    influence: np.ndarray
    change: str | None = None
    new: np.ndarray | None = None
    result: np.ndarray | None = None
    library: str | None = None

    def columns(self) -> dict[str, np.ndarray]:
        order = self._order
        names = ("row", "time", "match", "outcome", "own", "contribution", "influence")
        columns = {name: getattr(self, name)[order] for name in names}
        if self.new is not None:
            columns["new"] = self.new[order]
        return columns

    def summary(self) -> str:
        """Explain the rating, or its change, in a few sentences.

        If the rating moved against the competitor's own results, the first one gives the reasons.
        """
        parts = [self._opening(), self._sources()]
        if self.new is not None and self._is_puzzle:
            parts = [self._puzzle(self.new)]
        shown = self._order[:_SHOWN]
        largest = [f"{self.match[k]} ({self.contribution[k]:+{self._format}})" for k in shown]
        parts.append(f"The largest contributions: {', '.join(largest)}.")
        return " ".join(part for part in parts if part)

    @property
    def _order(self) -> np.ndarray:
        """Matches by the size of their contribution."""
        return np.argsort(-np.abs(self.contribution), kind="stable")

    def _total(self, chosen: np.ndarray) -> str:
        """The sum of some contributions as text."""
        return f"{self.contribution[chosen].sum():+{self._format}}"

    @property
    def _moved(self) -> bool:
        """True if a change is not zero as shown."""
        return f"{abs(self.rating):{self._format}}" != f"{0:{self._format}}"

    @property
    def _format(self) -> str:
        """The format of numbers: whole points on scales like Elo's."""
        largest = np.abs(self.contribution).max(initial=abs(self.rating))
        return ".0f" if largest >= 20 else ".1f" if largest >= 2 else ".2f"

    @property
    def _own_results(self) -> np.ndarray:
        """Results of the competitor's matches since the beginning of a change."""
        if self.new is None or self.result is None:
            return np.zeros(0)
        results = self.result[self.new & self.own]
        return results[np.isfinite(results)]

    @property
    def _is_puzzle(self) -> bool:
        """True if more wins than losses lowered the rating, or the other way round."""
        return self._moved and float(self._own_results.sum()) * self.rating < 0

    def _puzzle(self, new: np.ndarray) -> str:
        """Explain in one sentence why a rating moved against the competitor's results."""
        results, digits = self._own_results, self._format
        wanted = 1 if results.sum() > 0 else -1
        word = "won" if wanted > 0 else "lost"
        count = f"{int(np.sum(results == wanted))} of {len(results)} matches"
        did = f"{word} {'the only match' if len(results) == 1 else count} {self.change}"
        moved = f"{'fell' if self.rating < 0 else 'rose'} by {abs(self.rating):{digits}}"
        own, others = new & self.own, new & ~self.own
        surprise = float(self.influence[own].sum()) * wanted
        less = f" ({'below' if wanted > 0 else 'above'} expectation)" if surprise <= 0 else ""
        reasons = [f"own results{less} {self._total(own)}"]
        if others.any():
            strongest = np.argmin(np.where(others, self.contribution * wanted, np.inf))
            most = f"{self.match[strongest]}, {self.contribution[strongest]:+{digits}}"
            reasons.append(f"results of others {self._total(others)} (most of all {most})")
        reasons.append(f"earlier matches {self._total(~new)}")
        return f"{self.name} {did}, but the rating {moved}: {', '.join(reasons)}."

    def _opening(self) -> str:
        digits = self._format
        if self.change is None:
            return f"{self.name} is rated {self.rating:{digits}}."
        if not self._moved:
            return f"The rating of {self.name} has hardly changed {self.change}."
        verb = "risen" if self.rating > 0 else "fallen"
        return f"The rating of {self.name} has {verb} by {abs(self.rating):{digits}} {self.change}."

    def _sources(self) -> str:
        own, new, total = self.own, self.new, self._total
        if new is not None:
            return (
                f"Matches since then contribute {total(new & own)} (own matches: "
                f"{int((new & own).sum())}) and {total(new & ~own)} (those of others), earlier "
                f"ones {total(~new)}."
            )
        return (
            f"Own matches ({int(own.sum())}) contribute {total(own)}, those of others "
            f"({int((~own).sum())}) {total(~own)}, on top of a baseline of "
            f"{self.baseline:{self._format}}."
        )

    def __repr__(self) -> str:
        return f"Explanation({self.summary()!r})"


def explain(
    posterior: "Posterior",
    name: Hashable,
    time: Any,
    since: Any,
    before: "Posterior | None",
    scale: Scale | tuple[float, float] | str | None,
    aspects: Mapping[str, float] | None,
) -> Explanation:
    """Split a rating, or its change, into contributions; see `Posterior.explain`."""
    if since is not None and before is not None:
        raise DataError(
            "{argument} and {before} are both given",
            "Pass one of them.",
            argument="since",
            mentions=["before"],
        )
    directory = posterior.data.index
    if before is not None:
        _check_earlier(before, posterior)
        time = directory.scale.to_user(directory.latest)[()] if time is None else time
        options = {"scale": scale, "aspects": aspects}
        old, new = (each.explain(name, time, **options) for each in (before, posterior))
        return _subtract(new, old)
    chosen = choose_competitors(directory, names=[name], argument="name")
    times = [directory.to_time(chosen.time if time is None else time, "time")]
    change = None
    if since is not None:
        times.insert(0, directory.to_time(since, "since"))
        if times[0] >= times[1]:
            problem, remedy = "which is not before {time}", "Pass an earlier time."
            raise invalid("since", since, problem, remedy, mentions=["time"])
        shown = str(directory.scale.to_user(times[0])[()])
        change = f"since {shown.removesuffix('T00:00:00.000')}"
    asked = directory.scale.to_user(np.array(times, np.float64))
    query = posterior._alone(chosen.features * len(times), asked, aspects)
    points = score_points(posterior, scale, asked[-1] if chosen.by_counts else None)
    return _explain_combination(posterior, query, points, plain(name), change)


def _explain_combination(
    posterior: "Posterior",
    query: Query,
    points: Points,
    name: Hashable,
    change: str | None,
) -> Explanation:
    """Explain a combination of scores: one row of a query, or the last minus the first of two."""
    data, count = posterior.data, len(posterior.data)
    dtype = np.dtype(data.coefficients.dtype)
    reach = reach_of(posterior, query, _TOLERANCE[dtype.name])
    mean = np.asarray(posterior._score_query(query).mean)
    if change is not None:
        reach, mean = reach[1:] - reach[:1], mean[1:] - mean[:1]
    factors = posterior.factors.linear
    strength = _strength(posterior.model, data.without_index(), factors)
    reach = points.factor * reach[0, :count]
    pull, curvature, variance = (
        np.asarray(part, np.float64)[:count]
        for part in (factors.pull, factors.curvature, factors.variance)
    )
    contribution = reach * np.asarray(strength, np.float64)[:count]
    single = reach * pull * (1.0 + curvature * variance)
    rating = points.factor * float(mean[0])
    prior = np.asarray(score_combinations(posterior.model, data, None, query).mean)
    prior = points.factor * float(prior[0] if change is None else prior[1] - prior[0])
    rows = _rows(data.observations)
    matches = _describe_matches(data.observations, rows, query, posterior.model)
    begin, end = query.times[0], query.times[-1]
    times = data.observations.times[matches.first]
    return Explanation(
        name=name,
        rating=rating if change else points.centre + rating,
        baseline=prior if change else points.centre + prior,
        rest=rating - prior - float(contribution.sum()),
        row=data.observations.row_numbers[matches.first],
        time=data.index.scale.to_user(data.observations.times)[matches.first],
        match=matches.labels,
        outcome=matches.outcome,
        own=np.bincount(rows, matches.own) > 0,
        contribution=np.bincount(rows, contribution),
        influence=_refine(posterior, np.bincount(rows, single), rows, reach, pull),
        change=change,
        new=None if change is None else times > begin,
        result=np.where(times > end, np.nan, matches.result),
        library=data.index.library,
    )


def _check_earlier(before: "Posterior", now: "Posterior") -> None:
    """Refuse a posterior whose matches are not the first ones of another."""
    old, new = before.data.observations, now.data.observations
    count = len(old.times)
    same = count <= len(new.times) and all(
        np.array_equal(getattr(old, name), getattr(new, name)[:count])
        for name in ("times", "outcome")
    )
    if not same:
        raise DataError(
            "{argument} is a posterior of other matches",
            "Pass the posterior that was updated to this one, or fit the first matches alone.",
            argument="before",
        )


def _subtract(now: Explanation, before: Explanation) -> Explanation:
    """Explain the change between two posteriors, the earlier one of the first matches only."""
    count = len(before.row)

    def less(name: str) -> np.ndarray:
        values = getattr(now, name).copy()
        values[:count] -= getattr(before, name)
        return values

    return replace(
        now,
        rating=now.rating - before.rating,
        baseline=now.baseline - before.baseline,
        rest=now.rest - before.rest,
        contribution=less("contribution"),
        influence=less("influence"),
        change="since the earlier posterior",
        new=np.arange(len(now.row)) >= count,
    )


def _refine(
    posterior: "Posterior",
    influence: np.ndarray,
    rows: np.ndarray,
    reach: np.ndarray,
    pull: np.ndarray,
) -> np.ndarray:
    """Compute the largest influences with the joint covariance of each match's scores.

    Args:
        posterior: a fit.
        influence: the influence of every match, with variances of independent competitors.
        rows: the number of each observation's match.
        reach: the covariance of the rating with the score of each observation.
        pull: the pull of each observation's factor.
    """
    data = posterior.data
    if not is_affordable(data, _SOLVES):
        return influence
    order = np.argsort(-np.abs(influence), kind="stable")
    sizes = np.cumsum(np.bincount(rows)[order])
    chosen = order[: max(np.searchsorted(sizes, _SOLVES, side="right"), 1)]
    places = np.flatnonzero(np.isin(rows, chosen))
    spread = reach_of(posterior, _scores_of(data, places))
    # Full chunks, so that one program serves all explanations.
    room = [(0, -len(places) % _SOLVES), (0, len(posterior.factors.linear.curvature) - len(data))]
    spread = np.pad(spread, room)
    curved = np.asarray(
        _curve(posterior.model, data.without_index(), posterior.factors.linear, spread)
    )
    influence = influence.copy()
    for match in chosen:
        here = np.flatnonzero(rows[places] == match)
        own = places[here]
        without = np.eye(len(own)) - curved[np.ix_(here, own)]
        influence[match] = pull[own] @ np.linalg.solve(without, reach[own])
    return influence


def _scores_of(data: Dataset, places: np.ndarray) -> Query:
    """The combined scores of some observations."""
    observations, index = data.observations, data.index
    features = observations.features[places]
    groups = np.array([*index.groups, ""], dtype=object)
    group = np.where(features < 0, -1, index.feature_group[features])
    aspects = observations.aspects
    return Query(
        (len(places),),
        observations.times[places],
        features,
        groups[group],
        observations.coefficients[places],
        features,
        None if aspects is None else index.known_aspects.by_name(aspects[places]),
    )


@jit_by_size
def _curve(
    model: Model, data: Dataset, factors: Linearization, scores: Float[Array, "Q N"]
) -> Float[Array, "Q N"]:
    """The precisions W of all factors times vectors of scores."""
    problem = make_problem(model, data)
    return jax.vmap(functools.partial(problem.curve, factors.curvature))(jnp.asarray(scores))


@jit_by_size
def _strength(model: Model, data: Dataset, factors: Linearization) -> Float[Array, " N"]:
    """The precision-means b of all factors, on scores less their prior means."""
    problem = make_problem(model, data)
    offset = 0.0 if problem.offset is None else problem.offset
    return factors.pull + problem.curve(factors.curvature, factors.score - offset)


class _Matches(NamedTuple):
    """Matches: first observations, labels, outcomes, own results; and all own observations."""

    first: np.ndarray
    labels: np.ndarray
    outcome: np.ndarray
    result: np.ndarray
    own: np.ndarray


def _rows(observations: Observations) -> np.ndarray:
    """The number of each observation's match: both counts of a match, all sides of an event."""
    if observations.events is not None:
        _, first, number = np.unique(observations.events, return_index=True, return_inverse=True)
        return np.argsort(np.argsort(first))[number]
    rows = observations.row_numbers
    return np.cumsum(np.append(False, rows[1:] != rows[:-1]))


def _describe_matches(
    observations: Observations, rows: np.ndarray, query: Query, model: Model
) -> _Matches:
    _, first, sizes = np.unique(rows, return_index=True, return_counts=True)
    schemas = [each for each in (observations.schema, *observations.kind_schemas) if each]
    names = [
        None
        if any(schema.is_covariate(name) for schema in schemas)
        else str(name.name if isinstance(name, Feature) else name)
        for name in observations.names
    ]

    def side(number: int, sign: float) -> str:
        slots = np.flatnonzero(observations.coefficients[number] * sign > 0)
        found = (names[k] for k in observations.features[number, slots])
        return " and ".join(dict.fromkeys(name for name in found if name is not None))

    places = np.where(observations.outcome > 0, observations.outcome, np.inf)
    order, begins = np.lexsort((places, rows)), np.cumsum(sizes) - sizes
    labels, ranked = [], np.zeros(len(sizes), bool)
    for match, (number, size, begin) in enumerate(zip(first, sizes, begins, strict=True)):
        one, other = side(number, 1.0), side(number, -1.0)
        ranked[match] = size > 1 and not other
        if ranked[match]:
            sides = [side(k, 1.0) for k in order[begin : begin + min(size, _SIDES)]]
            labels.append(", ".join(sides) + (", …" if size > _SIDES else ""))
        else:
            labels.append(" – ".join(filter(None, (one, other))))
    asked = np.isin(observations.features, query.features[query.features >= 0])
    side_of_own = np.sign(np.sum(asked * observations.coefficients, axis=1)[first])
    outcome = np.where(ranked, np.nan, observations.outcome[first])
    lead = np.full(len(first), np.nan)
    if (observations.schema or NO_TABLE).counts is not None:
        lead = outcome - observations.outcome[first + 1]
    elif observations.kinds is None and model.duel.has_results:
        lead = outcome
    result = np.where(side_of_own == 0, np.nan, side_of_own * np.sign(lead))
    return _Matches(first, name_column(labels), outcome, result, asked.any(axis=1))
