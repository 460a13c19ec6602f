"""All that a page shows, as JSON can hold it."""

import base64
from collections.abc import Mapping
from typing import Any

import narwhals as nw
import numpy as np

from jaxkick.dataset.index import Index
from jaxkick.likelihoods import Poisson
from jaxkick.outcomes import has_results
from jaxkick.posterior import Posterior
from jaxkick.ranking import Points, Standing, points_of, points_of_counts, rank
from jaxkick.report.cast import Cast, Span, assemble_cast, time_span
from jaxkick.report.curves import Evaluate, Knots, evaluator, sample_curves
from jaxkick.report.formula import describe_outcome

__all__ = ["gather_content"]

_INTERVAL = 0.9
_RANKS = ("rank", "rank_lower", "rank_upper", "best")


def gather_content(posterior: Posterior, title: str, forecasts: Any = None) -> dict[str, Any]:
    """Everything that the page's program reads.

    Competitors come in the order of their rating at the last match. Their features have the
    first numbers, then follow the home advantage, the level of counts and the covariates.

    Args:
        posterior: the fitted posterior.
        title: the heading.
        forecasts: a table of forecasts to show, or `None`.
    """
    index = posterior.data.index
    cast, span = assemble_cast(index), time_span(index)
    standing, cast = _sort(cast, evaluator(posterior, cast.features), span)
    features = cast.features
    matches = [index.entries(name).times for name in features]
    evaluate = evaluator(posterior, features)
    knots = sample_curves(matches, evaluate, span.begin, span.end)
    scale = _scale(posterior, cast, evaluate, span)
    return {
        "title": title,
        "matches": int(len(np.unique(index.rows)) if index.rows is not None else len(index.times)),
        "interval": _INTERVAL,
        "time": _times(index, span),
        "outcome": describe_outcome(posterior.model.likelihood, cast.level is not None),
        "scale": None if scale is None else scale._asdict(),
        "names": [_label(name) for name in standing.names],
        "parts": len(cast.competitors.features[0]),
        "home": None if cast.home is None else features.index(cast.home),
        "level": None if cast.level is None else features.index(cast.level),
        "covariates": [
            {"name": _label(name), "feature": features.index(name), "value": value}
            for name, value in cast.covariates
        ],
        "left_out": cast.left_out,
        "curves": _pack_curves(knots, len(features), span),
        "board": _board(posterior, standing, cast, span),
        "forecasts": None if forecasts is None else _plain_table(forecasts),
        "description": posterior.describe(),
    }


def _sort(cast: Cast, evaluate: Evaluate, span: Span) -> tuple[Standing, Cast]:
    """Competitors with their scores at the last match, the best first."""
    competitors = cast.competitors
    parts = len(competitors.features[0])
    owner = np.arange(parts * len(competitors.names))
    mean, deviation = evaluate(owner, np.full(len(owner), span.last))
    mean = mean.reshape(-1, parts).sum(axis=1)
    variance = (deviation**2).reshape(-1, parts).sum(axis=1)
    order = np.argsort(-mean, kind="stable")
    competitors = competitors._replace(
        names=[competitors.names[place] for place in order],
        features=[competitors.features[place] for place in order],
        matches=competitors.matches[order],
        last_active=competitors.last_active[order],
    )
    standing = Standing(
        competitors.names,
        mean[order],
        variance[order],
        competitors.matches,
        competitors.last_active,
    )
    return standing, cast._replace(competitors=competitors)


def _board(posterior: Posterior, standing: Standing, cast: Cast, span: Span) -> dict[str, Any]:
    """The columns of the leaderboard, ranks among all and among those who still play."""
    index = posterior.data.index
    first = [index.entries(next(iter(each))).times[0] for each in cast.competitors.features]
    played = np.asarray(index.to_time(standing.last_active))
    active = np.flatnonzero(played >= span.recent)
    everybody = np.arange(len(standing.names))
    some = 1 < len(active) < len(everybody)
    return {
        "mean": standing.mean.tolist(),
        "deviation": np.sqrt(standing.variance).tolist(),
        "matches": standing.matches.tolist(),
        "first": _user_times(index, np.array(first)),
        "last": _user_times(index, played),
        "all": _ranks(posterior, standing, everybody),
        "active": _ranks(posterior, standing, active) if some else None,
    }


def _ranks(posterior: Posterior, standing: Standing, members: np.ndarray) -> dict[str, list]:
    """Ranks among some competitors, who are given by their place."""
    part = Standing(
        members.tolist(),
        standing.mean[members],
        standing.variance[members],
        standing.matches[members],
        standing.last_active[members],
    )
    columns = rank(part, interval=_INTERVAL)
    chosen = {name: columns[name].tolist() for name in _RANKS}
    return {"member": columns["name"].tolist(), **chosen}


def _scale(posterior: Posterior, cast: Cast, evaluate: Evaluate, span: Span) -> Points | None:
    """Elo's scale, where outcomes say who won."""
    likelihood = posterior.model.likelihood
    if cast.level is not None and isinstance(likelihood, Poisson):
        level, _ = evaluate(np.array([cast.features.index(cast.level)]), np.array([span.last]))
        return points_of_counts("elo", float(level[0]))
    return points_of("elo", likelihood) if has_results(likelihood) else None


def _times(index: Index, span: Span) -> dict[str, Any]:
    begin, last, end, recent = _user_times(index, np.array(span))
    named = {"begin": begin, "last": last, "end": end, "recent": recent}
    return {"dates": index.scale.dates, "unit": index.unit, **named}


def _user_times(index: Index, times: np.ndarray) -> list[float]:
    """Milliseconds since 1970 where the data has dates, else numbers as they are."""
    shown = index.scale.to_user(times)
    return (shown.astype(np.int64) if index.scale.dates else shown).tolist()


def _pack_curves(knots: Knots, count: int, span: Span) -> dict[str, Any]:
    """Knots as text: 32-bit numbers, times as shares of the whole span."""
    length = span.end - span.begin
    share = (knots.time - span.begin) / (length if length > 0 else 1.0)
    return {
        "counts": np.bincount(knots.owner, minlength=count).tolist(),
        "times": _pack(share),
        "means": _pack(knots.mean),
        "deviations": _pack(knots.deviation),
    }


def _pack(values: np.ndarray) -> str:
    return base64.b64encode(values.astype("<f4").tobytes()).decode("ascii")


def _plain_table(table: Any) -> dict[str, Any]:
    """A table of any library as names and lists of numbers and texts."""
    if not isinstance(table, Mapping):
        table = nw.from_native(table, eager_only=True).to_dict(as_series=False)
    return {
        "columns": [_label(name) for name in table],
        "values": [[_cell(value) for value in _as_list(column)] for column in table.values()],
    }


def _as_list(column: Any) -> list:
    array = np.asarray(column)
    if array.dtype.kind == "M":
        return [str(value).removesuffix("T00:00:00.000") for value in array.astype("M8[ms]")]
    return array.tolist()


def _cell(value: Any) -> float | str | None:
    if value is None or value != value:
        return None
    if isinstance(value, bool | int | float):
        return value if abs(value) < 1e300 else str(value)
    return str(value).removesuffix(" 00:00:00")


def _label(name: Any) -> str:
    return str(name) or "(no name)"
