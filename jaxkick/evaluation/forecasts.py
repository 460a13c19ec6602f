"""Results of a walk-forward evaluation: predictions, their summary, and paired comparisons."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from jaxkick._typing import Array, Float
from jaxkick.data.dataset import Dataset
from jaxkick.errors import DataError
from jaxkick.evaluation import metrics
from jaxkick.evaluation.metrics import Calibration, Estimate
from jaxkick.inference.problem import ScoreMoments
from jaxkick.likelihoods import AbstractLikelihood
from jaxkick.parameters import resolve

__all__ = ["Comparison", "Forecasts", "Summary", "compare"]


class Summary(NamedTuple):
    """Mean metrics over all predicted matches, with bootstrap intervals.

    Attributes:
        matches: number of matches.
        log_loss: −log of the probability of what happened; of its probability or density under
            the likelihood if outcomes have no levels, as for counts.
        accuracy: share of matches in which the most probable level happened.
        brier_score: ½ Σ (p − y)² over the levels.
        ranked_probability_score: mean squared error of the cumulative probabilities (RPS).
        calibration_error: expected calibration error.
    """

    matches: int
    log_loss: Estimate
    accuracy: Estimate | None
    brier_score: Estimate | None
    ranked_probability_score: Estimate | None
    calibration_error: Estimate | None

    def __str__(self) -> str:
        lines = [f"{'matches':26s} {self.matches:,}"]
        for name, value in zip(self._fields[1:], self[1:], strict=True):
            if value is not None:
                lines.append(f"{name.replace('_', ' '):26s} {value}")
        return "\n".join(lines)


@dataclass(frozen=True, eq=False, repr=False)
class Forecasts:
    """Predictions of matches, each from matches of earlier blocks only.

    Arrays have one element for each predicted match, block by block in time order.

    Attributes:
        rows: row of the match in the user's table.
        times: its time, as in the data.
        blocks: number of its block.
        outcome: what happened, as in the data.
        mean: predictive mean of the score.
        variance: predictive variance of the score.
        levels: the outcomes that have a probability, in increasing order; differences of points
            are reduced to their sign. Empty for counts.
        probabilities: probability of each level.
        labels: number of the level that happened.
        log_prob: logarithm of the probability or density of `outcome` under the likelihood.
    """

    rows: np.ndarray
    times: np.ndarray
    blocks: np.ndarray
    outcome: np.ndarray
    mean: np.ndarray
    variance: np.ndarray
    levels: tuple[float, ...]
    probabilities: np.ndarray
    labels: np.ndarray
    log_prob: np.ndarray

    @staticmethod
    def of(
        data: Dataset,
        rows: np.ndarray,
        blocks: np.ndarray,
        moments: ScoreMoments,
        stretches: Sequence[tuple[AbstractLikelihood, np.ndarray]],
        ties: bool,
    ) -> "Forecasts":
        """Turn scores into predictions of outcomes.

        Args:
            data: the matches.
            rows: the observations that were predicted, in the order of the result.
            blocks: block of each observation of the data.
            moments: predictive mean and variance of the score of each observation of the data.
            stretches: likelihoods, each with the observations that it predicts.
            ties: whether a difference of points may be zero.
        """
        index, outcome = data.index, data.observations.outcome
        user_rows = np.arange(len(outcome)) if index.rows is None else index.rows
        levels = outcome_levels(stretches[0][0], ties)
        probabilities = np.empty((len(outcome), len(levels)))
        log_prob = np.empty(len(outcome))
        labels = np.zeros(len(outcome), np.int64)
        for likelihood, part in stretches:
            mean, variance = (jnp.asarray(each[part], data.outcome.dtype) for each in moments)
            happened = jnp.asarray(outcome[part], data.outcome.dtype)
            probabilities[part], log_prob[part] = _predict_outcomes(
                likelihood, happened, mean, variance, ties
            )
            if levels:
                labels[part] = outcome_labels(likelihood, outcome[part], ties, user_rows[part])
        return Forecasts(
            rows=user_rows[rows],
            times=index.scale.to_user(index.times[rows]),
            blocks=blocks[rows],
            outcome=outcome[rows],
            mean=moments.mean[rows],
            variance=moments.variance[rows],
            levels=levels,
            probabilities=probabilities[rows],
            labels=labels[rows],
            log_prob=log_prob[rows],
        )

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        return f"Forecasts of {len(self):,} matches in {len(np.unique(self.blocks)):,} blocks"

    @property
    def log_losses(self) -> np.ndarray:
        """Log loss of each match."""
        if not self.levels:
            return -self.log_prob
        return metrics.log_loss(self.probabilities, self.labels)

    @property
    def table(self) -> dict[str, np.ndarray]:
        """Columns by name, for `pandas.DataFrame` and the like."""
        columns = {
            "row": self.rows,
            "time": self.times,
            "block": self.blocks,
            "outcome": self.outcome,
            "score_mean": self.mean,
            "score_variance": self.variance,
        }
        for place, level in enumerate(self.levels):
            label = f"{level:+g}" if level else "0"
            columns[f"probability[{label}]"] = self.probabilities[:, place]
        return {**columns, "log_prob": self.log_prob, "log_loss": self.log_losses}

    def summary(
        self, *, confidence: float = 0.95, resamples: int = 1000, seed: int = 0, bins: int = 10
    ) -> Summary:
        """Compute mean metrics with bootstrap intervals.

        Args:
            confidence: probability of the intervals.
            resamples: number of resamples of whole blocks.
            seed: seed of the random numbers.
            bins: number of bins of the calibration error.
        """
        options = {"confidence": confidence, "resamples": resamples, "seed": seed}

        def estimate(values: np.ndarray) -> Estimate:
            return metrics.bootstrap_mean(values, self.blocks, **options)

        if not self.levels:
            return Summary(len(self), estimate(self.log_losses), None, None, None, None)
        predicted = (self.probabilities, self.labels)
        return Summary(
            len(self),
            estimate(self.log_losses),
            estimate(metrics.accuracy(*predicted)),
            estimate(metrics.brier_score(*predicted)),
            estimate(metrics.ranked_probability_score(*predicted)),
            self.calibration(bins=bins, **options).error,
        )

    def calibration(self, **options: Any) -> Calibration:
        """Compute the calibration curve; see `calibration_curve` for the options.

        Raises:
            DataError: if outcomes have no levels.
        """
        if not self.levels:
            raise DataError(
                "The outcomes have no levels, as for counts, and so no calibration curve"
            )
        return metrics.calibration_curve(self.probabilities, self.labels, self.blocks, **options)


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
    first: Forecasts,
    second: Forecasts,
    *,
    confidence: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> Comparison:
    """Compare two models on the same matches, with a paired bootstrap interval.

    A match that is hard to predict is hard for both models, so that the interval of the
    difference is much narrower than those of the two losses.

    Args:
        first: forecasts of one model.
        second: forecasts of another model, of the same matches.
        confidence: probability of the interval.
        resamples: number of resamples of whole blocks of the first.
        seed: seed of the random numbers.

    Raises:
        DataError: if matches or levels differ, or an argument is outside its range.
    """
    metrics.check_options(confidence, resamples)
    one, two = np.argsort(first.rows), np.argsort(second.rows)
    if not np.array_equal(first.rows[one], second.rows[two]):
        raise DataError(
            f"The forecasts are of different matches ({len(first):,} and {len(second):,})",
            "Use the same data, `start` and `stop` for both.",
        )
    if first.levels != second.levels:
        raise DataError(
            f"The forecasts have different levels, {first.levels} and {second.levels}",
            "Compare probabilities of the same outcomes.",
        )
    difference = first.log_losses[one] - second.log_losses[two]
    means = metrics.resampled_means(difference, first.blocks[one], resamples, seed)
    return Comparison(
        metrics.interval(float(np.mean(difference)), means, confidence),
        float(np.mean(means < 0)),
        float(np.mean(difference < 0)),
    )


def outcome_levels(likelihood: AbstractLikelihood, ties: bool) -> tuple[float, ...]:
    """List the outcomes that have a probability: levels, or signs of differences of points."""
    if likelihood.levels:
        return likelihood.levels
    if not likelihood.has_results:
        return ()
    return (-1.0, 0.0, 1.0) if ties else (-1.0, 1.0)


def outcome_labels(
    likelihood: AbstractLikelihood, outcome: np.ndarray, ties: bool, rows: np.ndarray
) -> np.ndarray:
    """Number the levels that happened; `rows` are the user's rows, for the error."""
    if not likelihood.levels:
        outcome = np.sign(outcome)
        tied = outcome == 0
        if tied.any() and not ties:
            raise DataError(
                "{argument} is a tie, but no match before `start` was one",
                "Pass `ties=True`.",
                argument="outcome",
                row=int(rows[np.argmax(tied)]),
                count=int(tied.sum()),
            )
    return np.searchsorted(np.array(outcome_levels(likelihood, ties)), outcome)


def outcome_probabilities(
    likelihood: AbstractLikelihood,
    mean: Float[Array, " n"],
    variance: Float[Array, " n"],
    ties: bool,
) -> Float[Array, "n levels"]:
    """Compute the probability of each of the `outcome_levels`."""
    if likelihood.levels:
        return likelihood.probabilities(mean, variance)
    if not likelihood.has_results:
        return jnp.zeros((*mean.shape, 0), mean.dtype)
    chances = likelihood.result_probabilities(mean, variance, ties)
    return chances if ties else chances[..., ::2]


@eqx.filter_jit
def _predict_outcomes(
    likelihood: AbstractLikelihood,
    outcome: Float[Array, " n"],
    mean: Float[Array, " n"],
    variance: Float[Array, " n"],
    ties: bool,
) -> tuple[Float[Array, "n levels"], Float[Array, " n"]]:
    """Probabilities of all levels, and the log-probability of what happened."""
    likelihood = resolve(likelihood, mean.dtype)
    return (
        outcome_probabilities(likelihood, mean, variance, ties),
        likelihood.predictive_log_prob(outcome, mean, variance),
    )
