"""What a walk-forward evaluation returns: a table of predictions, and what to make of it."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from jaxkick.evaluation import metrics
from jaxkick.evaluation.bootstrap import (
    Estimate,
    check_options,
    estimate_mean,
    interval,
    resampled_means,
)
from jaxkick.evaluation.calibration import Calibration, calibrate

__all__ = ["Comparison", "Forecasts", "Summary", "compare"]


class Summary(NamedTuple):
    """Mean losses over all predicted matches, with bootstrap intervals.

    Attributes:
        matches: number of matches.
        log_loss: −log of the probability of what happened; of its density or probability
            under the likelihood where outcomes have no levels, as for counts.
        accuracy: how often the most probable level was right.
        brier_score: ½ Σ (p − y)² over the levels.
        ranked_probability_score: mean squared error of cumulative probabilities.
        calibration_error: mean distance between probability and frequency.
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
    """Predictions of matches, each from all that came strictly before its block.

    One element for each predicted match, block by block in the order of time.

    Attributes:
        rows: the row of the match in the user's table.
        times: its time in the user's terms.
        blocks: the number of its block.
        outcome: what happened, as the data has it.
        mean: predictive mean of the combined score.
        variance: predictive variance of the combined score.
        levels: the outcomes that have a probability, in increasing order.
        probabilities: the probability of each level.
        places: which of the levels happened.
        log_prob: logarithm of the probability, or density, of `outcome` under the likelihood.
    """

    rows: np.ndarray
    times: np.ndarray
    blocks: np.ndarray
    outcome: np.ndarray
    mean: np.ndarray
    variance: np.ndarray
    levels: tuple[float, ...]
    probabilities: np.ndarray
    places: np.ndarray
    log_prob: np.ndarray

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        return f"Forecasts of {len(self):,} matches in {len(np.unique(self.blocks)):,} blocks"

    @property
    def log_losses(self) -> np.ndarray:
        """One log loss for each match."""
        if not self.levels:
            return -self.log_prob
        return metrics.log_loss(self.probabilities, self.places)

    @property
    def table(self) -> dict[str, np.ndarray]:
        """Columns by name, as any library for tables takes them."""
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
        self, *, level: float = 0.95, resamples: int = 1000, seed: int = 0, bins: int = 10
    ) -> Summary:
        """Mean losses with bootstrap intervals.

        Args:
            level: probability of the intervals.
            resamples: number of resamples of whole blocks.
            seed: of the random numbers.
            bins: number of bins of the calibration error.
        """
        options = {"level": level, "resamples": resamples, "seed": seed}

        def estimate(values: np.ndarray) -> Estimate:
            return estimate_mean(values, self.blocks, **options)

        if not self.levels:
            return Summary(len(self), estimate(self.log_losses), None, None, None, None)
        happened = (self.probabilities, self.places)
        return Summary(
            len(self),
            estimate(self.log_losses),
            estimate(metrics.accuracy(*happened)),
            estimate(metrics.brier_score(*happened)),
            estimate(metrics.ranked_probability_score(*happened)),
            self.calibration(bins=bins, **options).error,
        )

    def calibration(
        self, *, bins: int = 10, level: float = 0.95, resamples: int = 1000, seed: int = 0
    ) -> Calibration:
        """The calibration curve; see `jaxkick.evaluation.calibrate` for the arguments.

        Raises:
            ValueError: if outcomes have no levels.
        """
        if not self.levels:
            raise ValueError("outcomes without levels, such as counts, have no calibration curve.")
        return calibrate(
            self.probabilities,
            self.places,
            self.blocks,
            bins=bins,
            level=level,
            resamples=resamples,
            seed=seed,
        )


class Comparison(NamedTuple):
    """The log loss of one model less that of another, on the same matches.

    Attributes:
        difference: mean of the first's log loss less the second's; below zero where the first
            is better.
        probability_better: share of bootstrap resamples in which the first is better.
        wins: share of matches on which the first had the smaller loss.
    """

    difference: Estimate
    probability_better: float
    wins: float


def compare(
    first: Forecasts,
    second: Forecasts,
    *,
    level: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> Comparison:
    """Compare two models match by match.

    What makes a match hard is hard for both, so that the difference is known far better than
    either loss.

    Args:
        first: forecasts of one model.
        second: forecasts of another model of the same matches.
        level: probability of the interval.
        resamples: number of resamples of whole blocks of the first.
        seed: of the random numbers.

    Raises:
        ValueError: if the matches differ, or what the probabilities are of, or an argument is
            outside its range.
    """
    check_options(level, resamples)
    one, two = np.argsort(first.rows), np.argsort(second.rows)
    if not np.array_equal(first.rows[one], second.rows[two]):
        raise ValueError(
            f"the two forecasts are of different matches ({len(first):,} and {len(second):,}); "
            "use the same data, `start` and `stop` for both."
        )
    if first.levels != second.levels:
        raise ValueError(
            f"the two forecasts have different levels, {first.levels} and {second.levels}; "
            "compare probabilities of the same outcomes."
        )
    difference = first.log_losses[one] - second.log_losses[two]
    means = resampled_means(difference, first.blocks[one], resamples, seed)
    return Comparison(
        interval(float(np.mean(difference)), means, level),
        float(np.mean(means < 0)),
        float(np.mean(difference < 0)),
    )
