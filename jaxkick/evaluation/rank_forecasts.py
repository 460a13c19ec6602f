"""Results of a walk-forward evaluation of rankings."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import jax.numpy as jnp
import numpy as np

from jaxkick._xla import call_compiled
from jaxkick.data.dataset import Dataset
from jaxkick.evaluation import metrics
from jaxkick.evaluation.forecasts import AbstractForecasts, PredictedScores
from jaxkick.evaluation.metrics import Estimate
from jaxkick.likelihoods import AbstractLikelihood
from jaxkick.parameters import resolve

__all__ = ["RankForecasts", "RankSummary", "rank_metrics"]

# Events whose probabilities of all places are in memory at once.
_CHUNK = 256
_LEAST = np.finfo(np.float64).tiny


class RankSummary(NamedTuple):
    """Mean metrics over all predicted events, with bootstrap intervals.

    Attributes:
        events: number of events.
        log_loss: −log of the predicted probability that the winner wins.
        rank_log_loss: −log of the probability of a side's place, the mean over the sides of an
            event. Sides without a place are known to be among the last.
        pairwise_accuracy: share of pairs of sides that finished in the predicted order.
        reciprocal_rank: one over the rank of the winner among the favourites.
        unconverged_fits: number of blocks that were predicted from a fit that did not converge.
        unconverged_learning: number of times that learning did not converge.
    """

    events: int
    log_loss: Estimate
    rank_log_loss: Estimate
    pairwise_accuracy: Estimate
    reciprocal_rank: Estimate
    unconverged_fits: int = 0
    unconverged_learning: int = 0

    def __str__(self) -> str:
        return metrics.show_summary(self._asdict())


@dataclass(frozen=True, eq=False, repr=False)
class RankForecasts(AbstractForecasts):
    """Predictions of events, each from events of earlier blocks only.

    Arrays have one row for each predicted event, block by block in time order, and one column
    for each side, in the order of the data. Where an event has fewer sides, `outcome` is -1 and
    other values are NaN.

    Attributes:
        rows: first row of the event in the user's table.
        times: its time, as in the data.
        blocks: number of its block.
        outcome: places as in the data: 1 for the winner, 0 for a side without a place.
        mean: predictive mean of each side's score.
        variance: predictive variance of each side's score.
        p_win: probability that each side wins.
        expected_rank: expected place of each side.
        log_losses: −log of the probability of the winner, for each event.
        rank_log_losses: mean over the sides of −log of the probability of their place.
        pairwise: share of pairs of sides in the predicted order.
        reciprocal_ranks: one over the rank of the winner among the favourites.
        models: the models that predicted, with their parameters: one, or one for each period of
            `relearn`.
        unconverged_fits: number of blocks that were predicted from a fit that did not converge.
        unconverged_learning: number of times that learning did not converge.
    """

    unit: ClassVar[tuple[str, str]] = ("event", "events")
    levels: ClassVar[tuple[float, ...]] = ()

    rows: np.ndarray
    times: np.ndarray
    blocks: np.ndarray
    outcome: np.ndarray
    mean: np.ndarray
    variance: np.ndarray
    p_win: np.ndarray
    expected_rank: np.ndarray
    log_losses: np.ndarray
    rank_log_losses: np.ndarray
    pairwise: np.ndarray
    reciprocal_ranks: np.ndarray
    models: tuple[Any, ...] = ()
    unconverged_fits: int = 0
    unconverged_learning: int = 0

    @staticmethod
    def of(
        data: Dataset,
        blocks: np.ndarray,
        scores: PredictedScores,
        stretches: Sequence[tuple[AbstractLikelihood, np.ndarray]],
        models: tuple[Any, ...],
        unconverged: Sequence[int],
    ) -> "RankForecasts":
        """Turn scores into predictions of places; the arguments are those of `Forecasts.of`."""
        index, outcome = data.index, data.observations.outcome
        user_rows = index.row_numbers
        members, parts = [], []
        for likelihood, rows in stretches:
            for block in _events_by_size(index.events, rows):
                found = _predict(
                    resolve(likelihood, data.outcome.dtype),
                    scores.mean[block],
                    scores.variance[block],
                    data.outcome.dtype,
                )
                members += list(block)
                measured = rank_metrics(outcome[block], found)
                places = np.arange(1.0, found.shape[-1] + 1)
                parts += list(zip(found[..., 0], found @ places, *measured, strict=True))
        first = np.array([block[0] for block in members])
        order = np.lexsort((first, index.times[first], blocks[first]))
        members, parts = [members[k] for k in order], [parts[k] for k in order]
        first = first[order]
        p_win, expected, *measured = zip(*parts, strict=True)
        return RankForecasts(
            rows=user_rows[first],
            times=index.scale.to_user(index.times[first]),
            blocks=blocks[first],
            outcome=_padded([outcome[block] for block in members], -1.0),
            mean=_padded([scores.mean[block] for block in members]),
            variance=_padded([scores.variance[block] for block in members]),
            p_win=_padded(p_win),
            expected_rank=_padded(expected),
            log_losses=np.array(measured[0]),
            rank_log_losses=np.array(measured[1]),
            pairwise=np.array(measured[2]),
            reciprocal_ranks=np.array(measured[3]),
            models=models,
            unconverged_fits=int(unconverged[0]),
            unconverged_learning=int(unconverged[1]),
        )

    @property
    def table(self) -> dict[str, np.ndarray]:
        """One row for each event, by the name of the column, for `pandas.DataFrame` and so on."""
        return {
            "row": self.rows,
            "time": self.times,
            "block": self.blocks,
            "sides": np.sum(self.outcome >= 0, axis=1),
            "log_loss": self.log_losses,
            "rank_log_loss": self.rank_log_losses,
            "pairwise_accuracy": self.pairwise,
            "reciprocal_rank": self.reciprocal_ranks,
        }

    def summary(
        self, *, confidence: float = 0.95, resamples: int = 1000, seed: int = 0
    ) -> RankSummary:
        """Compute mean metrics with bootstrap intervals.

        Args:
            confidence: probability of the intervals.
            resamples: number of resamples of whole blocks, or of events if there are few blocks.
            seed: seed of the random numbers.
        """
        options = {"confidence": confidence, "resamples": resamples, "seed": seed}

        def estimate(values: np.ndarray) -> Estimate:
            return metrics.bootstrap_mean(values, self.blocks, **options)

        return RankSummary(
            len(self),
            estimate(self.log_losses),
            estimate(self.rank_log_losses),
            estimate(self.pairwise),
            estimate(self.reciprocal_ranks),
            self.unconverged_fits,
            self.unconverged_learning,
        )


def rank_metrics(
    outcome: np.ndarray, probabilities: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Compute the metrics of `RankSummary` for events of one size.

    Args:
        outcome: places [E, S]; 0 for a side without a place.
        probabilities: probability [E, S, S] of each side (second axis) for each place.

    Returns:
        Log loss of the winner, log loss of the places, share of pairs in the predicted order,
        and reciprocal rank of the winner.
    """
    key = np.where(outcome > 0, outcome, np.inf)
    ahead = key[:, :, None] < key[:, None, :]
    place = ahead.sum(axis=1)
    # A tie holds the places from its first to its last; sides without a place the last ones.
    last = place + np.sum((key[:, :, None] == key[:, None, :]), axis=1) - 1
    columns = np.arange(outcome.shape[1])
    held = (columns >= place[..., None]) & (columns <= last[..., None])
    chance = np.maximum(np.sum(probabilities * held, axis=-1), _LEAST)
    wins = key == key.min(axis=1, keepdims=True)
    p_win = probabilities[..., 0]
    log_loss = np.sum(-np.log(np.maximum(p_win, _LEAST)) * wins, axis=1) / wins.sum(axis=1)
    # Not a matrix product, which rounds equal rows differently.
    expected = np.sum(probabilities * (columns + 1.0), axis=-1)
    right = np.sign(expected[:, None, :] - expected[:, :, None]) * 0.5 + 0.5
    pairs = ahead.sum(axis=(1, 2))
    # An event in which all tie has no pair to predict.
    pairwise = np.sum(right * ahead, axis=(1, 2)) / np.maximum(pairs, 1)
    pairwise = np.where(pairs == 0, 0.5, pairwise)
    # Equal favourites share the mean of the reciprocals of the ranks that they hold.
    better = np.sum(p_win[:, None, :] > p_win[:, :, None], axis=2)
    equal = np.sum(p_win[:, None, :] == p_win[:, :, None], axis=2)
    harmonic = np.concatenate([[0.0], np.cumsum(1.0 / (columns + 1.0))])
    reciprocal = (harmonic[better + equal] - harmonic[better]) / equal
    reciprocal = np.sum(wins * reciprocal, axis=1) / wins.sum(axis=1)
    return log_loss, np.mean(-np.log(chance), axis=1), pairwise, reciprocal


def _events_by_size(events: np.ndarray, rows: np.ndarray) -> list[np.ndarray]:
    """The rows [E, S] of all events, for each number of sides S."""
    order = rows[np.argsort(events[rows], kind="stable")]
    _, starts, sizes = np.unique(events[order], return_index=True, return_counts=True)
    return [order[starts[sizes == size][:, None] + np.arange(size)] for size in np.unique(sizes)]


def _predict(
    likelihood: AbstractLikelihood, mean: np.ndarray, variance: np.ndarray, dtype: np.dtype
) -> np.ndarray:
    """The probabilities of all places, for events of one size."""
    found = []
    # Full chunks, so that one program serves all of them.
    chunk = min(_CHUNK, 1 << (len(mean) - 1).bit_length())
    for begin in range(0, len(mean), chunk):
        part = np.minimum(np.arange(begin, begin + chunk), len(mean) - 1)
        moments = (jnp.asarray(each[part], dtype) for each in (mean, variance))
        found.append(np.asarray(call_compiled(likelihood.rank_probabilities, *moments), np.float64))
    return np.concatenate(found)[: len(mean)]


def _padded(rows: Sequence[np.ndarray], padding: float = np.nan) -> np.ndarray:
    """Rows of different lengths as one array."""
    table = np.full((len(rows), max(map(len, rows))), padding)
    for place, row in enumerate(rows):
        table[place, : len(row)] = row
    return table
