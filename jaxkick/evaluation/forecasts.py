"""Results of a walk-forward evaluation: predictions and their summary."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from jaxkick._typing import Array, Float
from jaxkick.data.dataset import Dataset
from jaxkick.errors import DataError
from jaxkick.evaluation import metrics
from jaxkick.evaluation.metrics import Calibration, Estimate
from jaxkick.evaluation.recalibration import Recalibration, recalibrate
from jaxkick.likelihoods import AbstractLikelihood
from jaxkick.parameters import resolve
from jaxkick.posterior.prediction import CountsPrediction, Prediction

__all__ = ["AbstractForecasts", "Forecasts", "PredictedScores", "Summary", "match_rows"]

# Matches whose joint distributions of two counts are in memory at once.
_CHUNK = 256


class Summary(NamedTuple):
    """Mean metrics over all predicted matches, with bootstrap intervals.

    Attributes:
        matches: number of matches.
        log_loss: −log of the probability of the actual level; if outcomes have no levels, of their
            probability or density under the likelihood.
        accuracy: share of matches in which the most probable level occurred.
        brier_score: ½ Σ (p − y)² over the levels.
        ranked_probability_score: mean squared error of the cumulative probabilities (RPS).
        calibration_error: expected calibration error.
        unconverged_fits: number of blocks that were predicted from a fit that did not converge.
        unconverged_learning: number of times that learning did not converge.
        original_log_loss: log loss before recalibration; `None` without it.
        recalibration_slope: slope of outcomes on forecast log-odds over all matches: below 1 if
            the forecasts before recalibration were overconfident; `None` without it.
    """

    matches: int
    log_loss: Estimate
    accuracy: Estimate | None
    brier_score: Estimate | None
    ranked_probability_score: Estimate | None
    calibration_error: Estimate | None
    unconverged_fits: int = 0
    unconverged_learning: int = 0
    original_log_loss: Estimate | None = None
    recalibration_slope: float | None = None

    def __str__(self) -> str:
        return metrics.show_summary(self._asdict())


class PredictedScores(NamedTuple):
    """Predictive distribution of the score of each observation.

    Attributes:
        mean: mean.
        variance: variance.
        covariance: covariance with the other count of the same match; 0 for other outcomes.
    """

    mean: np.ndarray
    variance: np.ndarray
    covariance: np.ndarray


class AbstractForecasts:
    """Base of the results of `walk_forward`: predictions, each from earlier blocks only."""

    rows: np.ndarray
    blocks: np.ndarray
    models: tuple[Any, ...]
    unconverged_fits: int
    unconverged_learning: int
    unit: ClassVar[tuple[str, str]]

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        blocks = len(np.unique(self.blocks))
        unit = self.unit[len(self) != 1]
        text = f"Forecasts of {len(self):,} {unit} in {blocks:,} block{'s' * (blocks != 1)}"
        if self.unconverged_fits:
            text += f"; {self.unconverged_fits:,} fits did not converge"
        if self.unconverged_learning:
            times = f"{self.unconverged_learning} of {len(self.models)} times"
            text += f"; learning did not converge {times}"
        return text

    @property
    def model(self) -> Any:
        """The model that predicted the last block, with its parameters."""
        return self.models[-1]


@dataclass(frozen=True, eq=False, repr=False)
class Forecasts(AbstractForecasts):
    """Predictions of matches, each from matches of earlier blocks only.

    Arrays have one element for each predicted match, block by block in time order. For data
    read with `counts=`, `outcome`, `mean` and `variance` have two columns: of the first side's
    count and of the second's.

    Attributes:
        rows: row of the match in the user's table.
        times: its time, as in the data.
        blocks: number of its block.
        outcome: the actual outcome, as in the data.
        mean: predictive mean of the score.
        variance: predictive variance of the score.
        levels: the outcomes that have a probability, in increasing order: loss (-1), tie (0) and
            win (1) of the first side if they follow from the outcome, as from differences
            and counts; else the likelihood's own levels, if there are any.
        probabilities: probability of each level.
        labels: number of the actual level.
        log_prob: logarithm of the probability or density of `outcome` under the likelihood,
            before recalibration.
        models: the models or rating systems that predicted, with their parameters: one, or one
            for each period of `relearn`.
        unconverged_fits: number of blocks that were predicted from a fit that did not converge.
        unconverged_learning: number of times that learning did not converge.
        recalibration: the correction by earlier forecasts; `None` without it.
    """

    unit: ClassVar[tuple[str, str]] = ("match", "matches")

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
    models: tuple[Any, ...] = ()
    unconverged_fits: int = 0
    unconverged_learning: int = 0
    recalibration: Recalibration | None = None

    @staticmethod
    def of(
        data: Dataset,
        blocks: np.ndarray,
        scores: PredictedScores,
        stretches: Sequence[tuple[AbstractLikelihood, np.ndarray]],
        ties: bool,
        models: tuple[Any, ...],
        unconverged: Sequence[int],
    ) -> "Forecasts":
        """Turn scores into predictions of outcomes.

        Args:
            data: the matches.
            blocks: block of each observation of the data.
            scores: predictive distribution of the score of each observation of the data.
            stretches: likelihoods, each with the observations that it predicts, in order.
            ties: whether a tie is possible, where the likelihood does not say so itself.
            models: see the attributes.
            unconverged: numbers of fits and of learning runs that did not converge.
        """
        index, outcome = data.index, data.observations.outcome
        user_rows = index.row_numbers
        parts, counts = [], is_counts(data)
        for likelihood, rows in stretches:
            sides = match_rows(data, rows)
            found, happened = PredictedScores(*(each[sides] for each in scores)), outcome[sides]
            predict = _predict_counts if counts else _predict_outcomes
            probabilities, log_prob = predict(likelihood, happened, found, ties, data.outcome.dtype)
            # The sign of the difference of two counts is the result.
            single = happened[:, 0] - happened[:, 1] if counts else happened[:, 0]
            levels = outcome_levels(likelihood, ties, counts)
            labels = outcome_labels(levels, single, user_rows[sides[:, 0]])
            parts.append((sides, probabilities, log_prob, labels))
        sides, probabilities, log_prob, labels = map(np.concatenate, zip(*parts, strict=True))
        rows = sides[:, 0]
        columns = sides if counts else rows
        return Forecasts(
            rows=user_rows[rows],
            times=index.scale.to_user(index.times[rows]),
            blocks=blocks[rows],
            outcome=outcome[columns],
            mean=scores.mean[columns],
            variance=scores.variance[columns],
            levels=levels,
            probabilities=probabilities,
            labels=labels,
            log_prob=log_prob,
            models=models,
            unconverged_fits=int(unconverged[0]),
            unconverged_learning=int(unconverged[1]),
        )

    @property
    def log_losses(self) -> np.ndarray:
        """Log loss of each match."""
        if not self.levels:
            return -self.log_prob
        return metrics.log_loss(self.probabilities, self.labels)

    @property
    def table(self) -> dict[str, np.ndarray]:
        """Columns by name, for `pandas.DataFrame` and the like."""
        columns = {"row": self.rows, "time": self.times, "block": self.blocks}
        numbers = {
            "outcome": self.outcome,
            "score_mean": self.mean,
            "score_variance": self.variance,
        }
        for name, values in numbers.items():
            if values.ndim == 1:
                columns[name] = values
            else:
                columns |= {f"{name}_first": values[:, 0], f"{name}_second": values[:, 1]}
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
            resamples: number of resamples of whole blocks, or of matches if there are few blocks.
            seed: seed of the random numbers.
            bins: number of bins of the calibration error.
        """
        options = {"confidence": confidence, "resamples": resamples, "seed": seed}

        def estimate(values: np.ndarray) -> Estimate:
            return metrics.bootstrap_mean(values, self.blocks, **options)

        unconverged = (self.unconverged_fits, self.unconverged_learning)
        if not self.levels:
            log_loss = estimate(self.log_losses)
            return Summary(len(self), log_loss, None, None, None, None, *unconverged)
        predicted, before = (self.probabilities, self.labels), self.recalibration
        return Summary(
            len(self),
            estimate(self.log_losses),
            estimate(metrics.accuracy(*predicted)),
            estimate(metrics.brier_score(*predicted)),
            estimate(metrics.ranked_probability_score(*predicted)),
            self.calibration(bins=bins, **options).error,
            *unconverged,
            None if before is None else estimate(metrics.log_loss(before.original, self.labels)),
            None if before is None else before.current[0],
        )

    def recalibrated(self) -> "Forecasts":
        """Recalibrate the forecasts of each block on the outcomes of earlier blocks.

        The log-odds of each forecast are multiplied by a slope, and ties get an offset, both
        fitted to the forecasts of earlier blocks. The first block stays unchanged.

        Raises:
            DataError: if outcomes have no levels.
        """
        if not self.levels:
            raise DataError("The outcomes have no levels and no results to recalibrate")
        original = self.probabilities if self.recalibration is None else self.recalibration.original
        results = self.levels == (-1.0, 0.0, 1.0)
        found, by = recalibrate(original, self.labels, self.blocks, 1 if results else None)
        return replace(self, probabilities=found, recalibration=by)

    def calibration(self, **options: Any) -> Calibration:
        """Compute the calibration curve; see `calibration_curve` for the options.

        Raises:
            DataError: if outcomes have no levels.
        """
        if not self.levels:
            raise DataError("The outcomes have no levels and no results, and so no calibration")
        return metrics.calibration_curve(self.probabilities, self.labels, self.blocks, **options)


def match_rows(data: Dataset, rows: np.ndarray) -> np.ndarray:
    """Group observations by match: [matches, 2] if a match has two of them, else [matches, 1].

    Args:
        data: the matches.
        rows: observations in time order.

    Raises:
        DataError: if one of the two observations of a match is missing.
    """
    if data.index.meaning.copies == 1:
        return rows[:, None]
    user_rows = data.index.rows
    pairs = np.resize(rows, (len(rows) // 2, 2))
    if len(rows) % 2 or user_rows is None or np.any(np.diff(user_rows[pairs], axis=1)):
        raise DataError("The data has only one of the two observations of some match")
    return pairs


def is_counts(data: Dataset) -> bool:
    """Return whether each match is two observations, the counts of both sides."""
    return data.index.meaning.counts is not None


def outcome_levels(
    likelihood: AbstractLikelihood, ties: bool, counts: bool = False
) -> tuple[float, ...]:
    """List the outcomes that have a probability: results if they follow, else levels."""
    if not (likelihood.has_results or counts):
        return likelihood.levels
    if likelihood.levels:
        ties = likelihood.has_ties
    return (-1.0, 0.0, 1.0) if ties else (-1.0, 1.0)


def outcome_labels(levels: tuple[float, ...], outcome: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Number the actual levels; `rows` are the user's rows, for the error."""
    if not levels:
        return np.zeros(len(outcome), np.int64)
    if levels[0] < 0:
        outcome = np.sign(outcome)
    unknown = ~np.isin(outcome, levels)
    if unknown.any():
        raise DataError(
            "{argument} is a tie, but no match before `start` was one",
            "Pass `ties=True`.",
            argument="outcome",
            row=int(rows[np.argmax(unknown)]),
            count=int(unknown.sum()),
        )
    return np.searchsorted(np.array(levels), outcome)


def outcome_probabilities(
    likelihood: AbstractLikelihood,
    mean: Float[Array, "n ..."],
    variance: Float[Array, "n ..."],
    ties: bool,
) -> Float[Array, "n levels"]:
    """Compute the probability of each of the `outcome_levels`."""
    levels = outcome_levels(likelihood, ties)
    if not levels:
        return jnp.zeros((*mean.shape, 0), mean.dtype)
    if not likelihood.has_results:
        return likelihood.probabilities(mean, variance)
    chances = likelihood.result_probabilities(mean, variance, ties)
    return chances if 0.0 in levels else chances[..., ::2]


def _predict_outcomes(
    likelihood: AbstractLikelihood,
    happened: np.ndarray,
    scores: PredictedScores,
    ties: bool,
    dtype: np.dtype,
) -> tuple[np.ndarray, np.ndarray]:
    """Compute the probabilities of all levels, and the log-probability of the outcome."""
    parts = (happened, scores.mean, scores.variance)
    # All scores of a match, or its only one.
    which = 0 if likelihood.num_predictors == 1 else slice(None)
    outcome, mean, variance = (jnp.asarray(part[:, which], dtype) for part in parts)
    probabilities, log_prob = _predict_compiled(likelihood, outcome, mean, variance, ties)
    return np.asarray(probabilities, np.float64), np.asarray(log_prob, np.float64)


@eqx.filter_jit
def _predict_compiled(
    likelihood: AbstractLikelihood,
    outcome: Float[Array, "n ..."],
    mean: Float[Array, "n ..."],
    variance: Float[Array, "n ..."],
    ties: bool,
) -> tuple[Float[Array, "n levels"], Float[Array, " n"]]:
    likelihood = resolve(likelihood, mean.dtype)
    return (
        outcome_probabilities(likelihood, mean, variance, ties),
        likelihood.predictive_log_prob(outcome, mean, variance),
    )


def _predict_counts(
    likelihood: AbstractLikelihood,
    happened: np.ndarray,
    scores: PredictedScores,
    ties: bool,
    dtype: np.dtype,
) -> tuple[np.ndarray, np.ndarray]:
    """Compute the probabilities of results, and the joint log-probability of the two counts."""
    likelihood = resolve(likelihood, dtype)
    probabilities, log_probs = [], []
    for begin in range(0, len(happened), _CHUNK):
        # Full chunks, so that one program serves all of them.
        part = np.minimum(np.arange(begin, begin + _CHUNK), len(happened) - 1)
        mean, variance, covariance = (jnp.asarray(each[part], dtype) for each in scores)
        first, second = (
            Prediction(mean=mean[:, k], variance=variance[:, k], likelihood=likelihood.count())
            for k in (0, 1)
        )
        prediction = CountsPrediction(
            first=first, second=second, covariance=covariance[:, 0], likelihood=likelihood
        )
        probabilities.append(prediction.results)
        log_probs.append(prediction.log_prob(happened[part]))
    found = np.concatenate(probabilities)[: len(happened)].astype(np.float64)
    if not ties:
        found = found[:, ::2] / found[:, ::2].sum(axis=1, keepdims=True)
    return found, np.concatenate(log_probs)[: len(happened)].astype(np.float64)
