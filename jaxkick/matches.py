"""Matches to predict: two sides, who is at home, and what the data makes of them."""

from collections.abc import Callable, Hashable, Mapping
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import ArrayLike

from jaxkick._parameters import resolve
from jaxkick.counts import CountsPrediction
from jaxkick.dataset.columns import to_floats, to_list
from jaxkick.dataset.counts import LEVEL, attack_of, defence_of
from jaxkick.dataset.directory import Directory
from jaxkick.dataset.features import Lineup, compact, read_side
from jaxkick.dataset.frames import read_frame
from jaxkick.dataset.home import HOME, check_sides
from jaxkick.dataset.names import Vocabulary
from jaxkick.dataset.query import Query, read_query
from jaxkick.inference.problem import ScoreMoments
from jaxkick.model import Model
from jaxkick.prediction import Prediction

__all__ = ["Match", "predict_match", "read_match", "read_matches"]


class Match(NamedTuple):
    """One match or many.

    Attributes:
        first: the first side of each, as `read_query` takes it.
        second: the second side of each.
        covariates: coefficients of further features by name, the home advantage among them.
    """

    first: Any
    second: Any
    covariates: dict[Hashable, Any]


def read_match(
    directory: Directory,
    first: Any,
    second: Any,
    covariates: Mapping[Hashable, ArrayLike] | None,
    home: ArrayLike | None,
) -> Match:
    """Matches by name.

    Args:
        directory: names, groups and times.
        first: the first side.
        second: the second side.
        covariates: coefficients of further features by name.
        home: who is at home: +1 the first side, -1 the second, 0 nobody.

    Raises:
        ValueError: if `home` is no side, or the data has no home advantage.
    """
    extra = dict(covariates or {})
    if home is not None:
        if HOME not in directory.names:
            raise ValueError(
                "`home` says who is at home, but the data has no home advantage; build it with "
                "`Dataset.from_frame(..., home=...)`, or leave `home` out."
            )
        sides = np.asarray(home, np.float64)
        extra[HOME] = check_sides(np.atleast_1d(sides), "home").reshape(sides.shape)[()]
    return Match(first, second, extra)


def read_matches(directory: Directory, frame: Any) -> tuple[Match, Any]:
    """Matches of a table with the columns of the one that the data was made of.

    Args:
        directory: names, groups and times.
        frame: the table.

    Returns:
        The matches and their times.

    Raises:
        ValueError: if the data was not made of a table, or this one lacks a column.
    """
    if directory.recipe is None:
        raise ValueError(
            "the data was not made of a table by `Dataset.from_frame`, so that it is not known "
            "what the columns mean; use `predict(first, second, time)`."
        )
    columns = read_frame(frame, directory.recipe, with_outcome=False)
    num_rows = len(columns.times)
    first = _side_cells(columns.first, "first", num_rows)
    second = _side_cells(columns.second, "second", num_rows)
    covariates = {
        name: to_floats(values, f"covariates[{name!r}]", num_rows)
        for name, values in columns.covariates.items()
    }
    return Match(first, second, covariates), columns.times


def predict_match(
    score: Callable[[Query], ScoreMoments],
    model: Model,
    directory: Directory,
    match: Match,
    time: Any,
) -> Prediction | CountsPrediction:
    """Outcomes of matches.

    Args:
        score: answers queries of scores.
        model: the fitted model.
        directory: names, groups and times.
        match: the matches.
        time: one time for all or one for each.

    Returns:
        The outcome of each match; both counts where the data has counts.
    """

    def ask(
        sides: dict[str, tuple[Any, float]], covariates: Mapping[Hashable, Any]
    ) -> ScoreMoments:
        return score(read_query(directory, time, sides, covariates))

    def predict(moments: ScoreMoments) -> Prediction:
        likelihood = resolve(model.likelihood, moments.mean.dtype)
        return Prediction(moments.mean, moments.variance, likelihood, directory.library)

    first, second, favour = match
    if directory.recipe is None or directory.recipe.counts is None:
        return predict(ask({"first": (first, 1.0), "second": (second, -1.0)}, favour))
    own = {"first": (attack_of(first), 1.0), "second": (defence_of(second), -1.0)}
    other = {"other": (attack_of(second), 1.0), "own": (defence_of(first), -1.0)}
    against = {name: -np.asarray(value, np.float64)[()] for name, value in favour.items()}
    one = ask(own, {**favour, LEVEL: 1.0})
    two = ask(other, {**against, LEVEL: 1.0})
    # Features that both share have their coefficients added: twice the covariance more.
    both = ask({**own, **other}, {LEVEL: 2.0})
    covariance = 0.5 * (both.variance - one.variance - two.variance)
    return CountsPrediction(predict(one), predict(two), covariance, directory.library)


def _side_cells(side: Any, argument: str, num_rows: int) -> list:
    """One name, list or mapping for each match."""
    if not isinstance(side, Lineup):
        return to_list(side)
    vocabulary = Vocabulary()
    block = compact(read_side(side, 1.0, vocabulary, argument, num_rows))
    names = vocabulary.names()
    return [
        {names[code]: part for code, part in zip(codes, parts, strict=True) if code >= 0}
        for codes, parts in zip(*map(np.ndarray.tolist, block), strict=True)
    ]
