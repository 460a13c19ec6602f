"""Paired comparisons of forecasts."""

from typing import Any, NamedTuple

import numpy as np

from jaxkick.errors import DataError
from jaxkick.evaluation import metrics
from jaxkick.evaluation.forecasts import Forecasts
from jaxkick.evaluation.metrics import Estimate
from jaxkick.evaluation.rank_forecasts import RankForecasts

__all__ = ["Comparison", "compare"]


class Comparison(NamedTuple):
    """A paired comparison of the log losses of two models.

    Attributes:
        difference: mean log loss of the first model minus that of the second; negative if the
            first is better.
        probability_better: share of bootstrap resamples in which the first is better.
        wins: share of matches on which the first has the smaller loss.
    """

    difference: Estimate
    probability_better: float
    wins: float


def compare(
    first: Forecasts | RankForecasts | dict[str, Forecasts | RankForecasts],
    second: Forecasts | RankForecasts | dict[str, Forecasts | RankForecasts],
    *,
    confidence: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> Any:
    """Compare two models on the same matches, with a paired bootstrap interval.

    A match that is hard to predict is hard for both models, so that the interval of the
    difference is much narrower than those of the two losses. Models of results, differences
    and counts are compared by the probability of the result.

    Args:
        first: forecasts of one model.
        second: forecasts of another model, of the same matches: the same rows of one table.
        confidence: probability of the interval.
        resamples: number of resamples of whole blocks of the first, or of matches if there
            are few blocks.
        seed: seed of the random numbers.

    Returns:
        A `Comparison`; a dictionary of them if the forecasts are of several kinds.

    Raises:
        DataError: if kinds, matches, outcomes or levels differ, or an argument is outside its
            range.
    """
    metrics.check_options(confidence, resamples)
    if isinstance(first, dict) or isinstance(second, dict):
        kinds = [list(each) if isinstance(each, dict) else [] for each in (first, second)]
        if not isinstance(first, dict) or not isinstance(second, dict) or set(first) != set(second):
            shown = [", ".join(map(repr, each)) or "none" for each in kinds]
            raise DataError(
                f"The forecasts are of different kinds ({shown[0]} and {shown[1]})",
                "Choose one kind of each, such as `forecasts['races']`.",
            )
        options = {"confidence": confidence, "resamples": resamples, "seed": seed}
        return {kind: compare(first[kind], second[kind], **options) for kind in first}
    one, two = np.argsort(first.rows), np.argsort(second.rows)
    same = np.array_equal(first.rows[one], second.rows[two])
    if not (same and np.array_equal(first.times[one], second.times[two])):
        raise DataError(
            f"The forecasts are of different matches ({len(first):,} and {len(second):,})",
            "Use the same table, `start` and `stop` for both.",
        )
    if first.levels != second.levels and not (_are_results(first) and _are_results(second)):
        raise DataError(
            f"The forecasts have different levels, {first.levels} and {second.levels}",
            "Compare probabilities of the same outcomes.",
        )
    happened = [_happened(first), _happened(second)]
    differ = np.any(np.atleast_2d((happened[0][one] != happened[1][two]).T), axis=0)
    if differ.any():
        raise DataError(
            "The forecasts are of different outcomes",
            "Use the same table for both.",
            row=int(first.rows[one][np.argmax(differ)]),
            count=int(differ.sum()),
        )
    difference = first.log_losses[one] - second.log_losses[two]
    means = metrics.resampled_means(difference, first.blocks[one], resamples, seed)
    return Comparison(
        metrics.interval(float(np.mean(difference)), means, confidence),
        float(np.mean(means < 0)),
        float(np.mean(difference < 0)),
    )


def _happened(forecasts: Forecasts | RankForecasts) -> np.ndarray:
    if isinstance(forecasts, RankForecasts) or not forecasts.levels:
        return forecasts.outcome
    return np.array(forecasts.levels)[forecasts.labels]


def _are_results(forecasts: Forecasts | RankForecasts) -> bool:
    return bool(forecasts.levels) and forecasts.levels[0] < 0
