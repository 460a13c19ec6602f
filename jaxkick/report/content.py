"""The content of the report as JSON."""

from collections.abc import Hashable, Mapping
from typing import Any, NamedTuple

import narwhals as nw
import numpy as np

from jaxkick.data.columns import UNITS, show_time
from jaxkick.data.encoding import Index
from jaxkick.data.schema import DEFAULT_GROUP, HOME, LEVEL, NO_TABLE, NOISE, ROLES, TIE, Feature
from jaxkick.posterior import Posterior
from jaxkick.posterior.joint import covariance_of, is_affordable
from jaxkick.posterior.leaderboard import (
    Competitors,
    Points,
    Standing,
    choose_competitors,
    half_width,
    points_of,
    rank,
)
from jaxkick.report.outcome_tables import Range, pack, tabulate_counts, tabulate_outcomes
from jaxkick.report.skill_curves import Evaluate, Knots, Part, evaluator, sample_curves

__all__ = ["Cast", "Span", "assemble_cast", "gather_content", "time_span"]

_INTERVAL = 0.9
_RANKS = ("rank", "rank_lower", "rank_upper", "best")
_DAYS_AHEAD = 365.25
_SHARE_AHEAD = 0.1
_MOST_COVARIATES = 12


class Span(NamedTuple):
    """Times that a report covers, in the data's unit.

    Attributes:
        begin: first match.
        last: last match.
        end: last time of a forecast.
        recent: competitors who played after this time are active.
    """

    begin: float
    last: float
    end: float
    recent: float


class Cast(NamedTuple):
    """Competitors and the other features of matches.

    Attributes:
        competitors: the competitors, each with the features that make up its score.
        home: feature of the home advantage, if there is one.
        level: feature that all counts share, if there is one.
        covariates: further features with initial coefficients, which the reader may change.
        left_out: number of further features that the page does not show; they count as zero.
        roles: the aspects that each feature of a competitor is shown by: attack, defence and
            their sum if they share a state.
    """

    competitors: Competitors
    home: Hashable | None
    level: Hashable | None
    covariates: dict[Hashable, float]
    left_out: int
    roles: tuple[str | None, ...] = (None,)

    @property
    def features(self) -> list[Part]:
        """All features, in the order of their numbers on the page."""
        own = [name for each in self.competitors.features for name in each]
        shared = [name for name in (self.home, self.level) if name is not None]
        shared += self.covariates
        return [*(Part(name, role) for name in own for role in self.roles), *map(Part, shared)]

    @property
    def parts(self) -> int:
        """Number of features of each competitor."""
        return len(self.competitors.features[0]) * len(self.roles)


def gather_content(posterior: Posterior, title: str, forecasts: Any = None) -> dict[str, Any]:
    """Collect everything that the page's program reads.

    Competitors are sorted by their rating at the last match. Their features come first, followed
    by the home advantage, the level of counts and the covariates.
    """
    index = posterior.data.index
    cast, span = assemble_cast(index), time_span(index)
    standing, alone, cast = _sort(posterior, cast, span)
    features = cast.features
    evaluate = evaluator(posterior, features)
    matches = [index.entries(part.name).times for part in features]
    knots = sample_curves(matches, evaluate, span.begin, span.end)
    scale = _scale(posterior, cast, evaluate, span)
    return {
        "title": title,
        "matches": _number_of_matches(index),
        "ranking": (index.schema or NO_TABLE).is_ranking,
        "interval": _INTERVAL,
        "reach": half_width(_INTERVAL),
        "time": _times(index, span),
        "outcome": _outcome(posterior, cast, knots),
        "scale": None if scale is None else scale._asdict(),
        "names": [_label(name) for name in standing.names],
        "parts": cast.parts,
        "home": None if cast.home is None else features.index(Part(cast.home)),
        "level": None if cast.level is None else features.index(Part(cast.level)),
        "covariates": [
            {"name": _label(name), "feature": features.index(Part(name)), "value": value}
            for name, value in cast.covariates.items()
        ],
        "left_out": cast.left_out,
        "curves": _pack_curves(knots, len(features), span),
        "joint": standing.covariance is not None,
        "widen": np.sqrt(standing.variance / np.maximum(alone, 1e-30)).tolist(),
        "board": _board(posterior, standing, cast, span),
        "forecasts": None if forecasts is None else _plain_table(forecasts),
        "description": posterior.describe(),
    }


def time_span(index: Index) -> Span:
    """The times of the data and a tenth more, but at most a year more of dates."""
    begin, last = float(index.times.min()), float(index.times.max())
    ahead = _SHARE_AHEAD * (last - begin)
    recent = last - ahead
    if index.scale.dates:
        year = _DAYS_AHEAD / UNITS[index.unit or "year"]
        ahead, recent = min(ahead, year), last - year
    return Span(begin, last, last + ahead, recent)


def assemble_cast(index: Index) -> Cast:
    """Separate competitors from the other features of a model."""
    schema = index.schema or NO_TABLE
    counts = schema.counts is not None
    group = None if counts or len(index.groups) == 1 else _group_of_competitors(index)
    competitors = choose_competitors(index, group=group)
    known = _constants(index)
    kept = [
        place for place, each in enumerate(competitors.features) if not each.keys() & known.keys()
    ]
    competitors = _select(competitors, kept)
    own = {name for each in competitors.features for name in each}
    home = HOME if HOME in index.names and HOME not in own else None
    level = LEVEL if counts else None
    others = [
        name
        for name, count in zip(index.names, index.counts, strict=True)
        if count and name not in own and name not in (home, level)
        # The page makes no forecasts from them.
        if not (schema.tie_effects and isinstance(name, Feature) and name.role == TIE)
        if not (schema.noise_effects and name == NOISE)
    ]
    # Each side of a ranking has features of its own, which the page cannot set.
    shown = others if len(others) <= _MOST_COVARIATES and not schema.is_ranking else []
    covariates = {name: known.get(name, 0.0) for name in shown}
    roles = (*ROLES, None) if counts and not schema.has_roles else (None,)
    return Cast(competitors, home, level, covariates, len(others) - len(shown), roles)


def _number_of_matches(index: Index) -> int:
    """The number of matches or events, which may have several observations."""
    return len(np.unique(index.row_numbers if index.events is None else index.events))


def _group_of_competitors(index: Index) -> str | None:
    """The default group, or the largest one if the user named all groups."""
    if DEFAULT_GROUP in index.groups:
        return None
    sizes = np.bincount(index.feature_group[index.feature_group >= 0])
    return index.groups[int(np.argmax(sizes))]


def _constants(index: Index) -> dict[Hashable, float]:
    """Covariates of the data with the coefficient that all matches have, or zero."""
    covariates = (index.schema or NO_TABLE).covariates
    return {name: 0.0 if isinstance(value, str) else float(value) for name, value in covariates}


def _select(competitors: Competitors, kept: Any) -> Competitors:
    return competitors._replace(
        names=[competitors.names[place] for place in kept],
        features=[competitors.features[place] for place in kept],
        matches=competitors.matches[kept],
        last_active=competitors.last_active[kept],
    )


def _sort(posterior: Posterior, cast: Cast, span: Span) -> tuple[Standing, np.ndarray, Cast]:
    """Sort competitors by their score at the last match, best first.

    Variances are those of the joint posterior, unless that would take long. The variances of
    independent competitors are also returned.
    """
    own, time = cast.competitors, posterior.data.index.scale.to_user(span.last)[()]
    query = posterior._alone(own.features, time)
    mean, alone = (np.asarray(part, np.float64) for part in posterior._score_query(query))
    covariance = None
    if is_affordable(posterior.data, len(mean)):
        covariance = covariance_of(posterior, query)
    variance = alone if covariance is None else np.diagonal(covariance)
    standing = Standing(own.names, mean, variance, own.matches, own.last_active, covariance)
    order = np.argsort(-mean, kind="stable")
    return standing.take(order), alone[order], cast._replace(competitors=_select(own, order))


def _board(posterior: Posterior, standing: Standing, cast: Cast, span: Span) -> dict[str, Any]:
    """Columns of the leaderboard, with ranks among all and among active competitors."""
    index = posterior.data.index
    first = [index.entries(next(iter(each))).times[0] for each in cast.competitors.features]
    played = np.asarray(index.to_time(standing.last_active))
    active = np.flatnonzero(played >= span.recent)
    everyone = np.arange(len(standing.names))
    some = 1 < len(active) < len(everyone)
    return {
        "mean": standing.mean.tolist(),
        "deviation": np.sqrt(standing.variance).tolist(),
        "matches": standing.matches.tolist(),
        "first": _user_times(index, np.array(first)),
        "last": _user_times(index, played),
        "all": _ranks(standing, everyone),
        "active": _ranks(standing, active) if some else None,
    }


def _ranks(standing: Standing, members: np.ndarray) -> dict[str, list]:
    """Rank some competitors, given by their positions."""
    some = standing.take(members)._replace(names=members.tolist())
    columns = rank(some, interval=_INTERVAL)
    chosen = {name: columns[name].tolist() for name in _RANKS}
    return {"member": columns["name"].tolist(), **chosen}


def _scale(posterior: Posterior, cast: Cast, evaluate: Evaluate, span: Span) -> Points | None:
    """The Elo scale, if outcomes have a winner."""
    likelihood, level = posterior.model.duel, None
    if cast.level is not None and likelihood.difference(0.0) is not None:
        place = cast.features.index(Part(cast.level))
        level = float(evaluate(np.array([place]), np.array([span.last]))[0][0])
    elif not likelihood.has_results:
        return None
    return points_of("elo", likelihood, level)


def _outcome(posterior: Posterior, cast: Cast, knots: Knots) -> dict[str, Any]:
    """The table of outcomes, for all scores that a forecast of the page can have.

    Coefficients of covariates go as far as those of the data.
    """
    likelihood = next(iter(posterior.model.likelihoods.values()))
    likelihood = likelihood if likelihood.num_predictors == 2 else posterior.model.duel
    own = [
        _extremes(knots, np.arange(part, cast.parts * len(cast.competitors.names), cast.parts))
        for part in range(cast.parts)
    ]
    number = {part.name: place for place, part in enumerate(cast.features)}
    shared = [_extremes(knots, [number[cast.home]]).scaled(1.0)] if cast.home is not None else []
    observations = posterior.data.observations
    for name, value in cast.covariates.items():
        own_entries = observations.features == posterior.data.feature_id(name)
        found = np.abs(observations.coefficients[own_entries])
        largest = float(np.max(found, initial=abs(value)))
        shared.append(_extremes(knots, [number[name]]).scaled(largest))
    if cast.level is None:
        scores = sum([each.less(each) for each in own] + shared, _NOTHING)
        outcome = tabulate_outcomes(likelihood, _INTERVAL, scores.to_range())
    else:
        level = _extremes(knots, [number[cast.level]])
        scores = sum([own[0].less(own[1]), level, *shared], _NOTHING)
        mean, deviation = scores.to_range()
        if cast.roles != (None,):
            # Conditional on the teams, which both counts share, scores spread further and have
            # smaller deviations.
            further = 3.0 * deviation[1]
            mean, deviation = (
                (mean[0] - further, mean[1] + further),
                (0.2 * deviation[0], deviation[1]),
            )
        outcome = tabulate_counts(likelihood, Range(mean, deviation))
    return {**outcome, "counts": cast.level is not None}


class _Extremes(NamedTuple):
    """Lowest and highest mean, and least and greatest variance, of a score."""

    mean: tuple[float, float]
    variance: tuple[float, float]

    def __add__(self, other: "_Extremes") -> "_Extremes":
        return _Extremes(*(tuple(np.add(*pair).tolist()) for pair in zip(self, other, strict=True)))

    def less(self, other: "_Extremes") -> "_Extremes":
        """The difference of two independent scores."""
        return self + _Extremes((-other.mean[1], -other.mean[0]), other.variance)

    def scaled(self, largest: float) -> "_Extremes":
        """The score times any coefficient between this number and its negative."""
        most = largest * max(map(abs, self.mean))
        return _Extremes((-most, most), (0.0, largest**2 * self.variance[1]))

    def to_range(self) -> Range:
        """The range of a table, a little wider than the knots of curves."""
        (low, high), deviations = self.mean, np.sqrt(self.variance)
        room = 0.01 * (high - low) + 0.01 * deviations[1]
        return Range((low - room, high + room), (0.7 * deviations[0], 1.01 * deviations[1]))


_NOTHING = _Extremes((0.0, 0.0), (0.0, 0.0))


def _extremes(knots: Knots, owners: Any) -> _Extremes:
    """Extremes over time of the scores of some features."""
    part = knots.take(np.isin(knots.owner, owners))
    mean, variance = part.mean, part.deviation**2
    return _Extremes((mean.min(), mean.max()), (variance.min(), variance.max()))


def _times(index: Index, span: Span) -> dict[str, Any]:
    begin, last, end, recent = _user_times(index, np.array(span))
    named = {"begin": begin, "last": last, "end": end, "recent": recent}
    return {"dates": index.scale.dates, "unit": index.unit, **named}


def _user_times(index: Index, times: np.ndarray) -> list[float]:
    """Milliseconds since 1970 if the data has dates, else the numbers themselves."""
    shown = index.scale.to_user(times)
    return (shown.astype(np.int64) if index.scale.dates else shown).tolist()


def _pack_curves(knots: Knots, count: int, span: Span) -> dict[str, Any]:
    """Knots as text: 32-bit floats, with times as shares of the whole span."""
    length = span.end - span.begin
    share = (knots.time - span.begin) / (length if length > 0 else 1.0)
    return {
        "counts": np.bincount(knots.owner, minlength=count).tolist(),
        "times": pack(share),
        "means": pack(knots.mean),
        "deviations": pack(knots.deviation),
    }


def _plain_table(table: Any) -> dict[str, Any]:
    """A table of any library as column names and lists of numbers and strings."""
    if not isinstance(table, Mapping):
        table = nw.from_native(table, eager_only=True).to_dict(as_series=False)
    return {
        "columns": [_label(name) for name in table],
        "values": [[_cell(value) for value in np.asarray(column)] for column in table.values()],
    }


def _cell(value: Any) -> float | str | None:
    if value is None or value != value:
        return None
    if isinstance(value, np.datetime64):
        return show_time(value)
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, bool | int | float):
        return value if abs(value) < 1e300 else str(value)
    return str(value).removesuffix(" 00:00:00")


def _label(name: Any) -> str:
    return str(name) or "(no name)"
