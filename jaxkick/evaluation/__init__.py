"""Walk-forward evaluation of models, with metrics and baselines."""

from jaxkick.evaluation.backtest import AbstractForecaster, Refit, split_time, walk_forward
from jaxkick.evaluation.baselines import (
    Elo,
    Random,
    TrueSkill,
    constant_scores,
    trueskill_through_time,
)
from jaxkick.evaluation.comparison import Comparison, compare
from jaxkick.evaluation.forecasts import Forecasts, Summary
from jaxkick.evaluation.metrics import (
    Calibration,
    Estimate,
    accuracy,
    bootstrap_mean,
    brier_score,
    calibration_curve,
    log_loss,
    ranked_probability_score,
)
from jaxkick.evaluation.rank_forecasts import RankForecasts, RankSummary
from jaxkick.evaluation.recalibration import Recalibration

__all__ = [
    "AbstractForecaster",
    "Calibration",
    "Comparison",
    "Elo",
    "Estimate",
    "Forecasts",
    "Random",
    "RankForecasts",
    "RankSummary",
    "Recalibration",
    "Refit",
    "Summary",
    "TrueSkill",
    "accuracy",
    "bootstrap_mean",
    "brier_score",
    "calibration_curve",
    "compare",
    "constant_scores",
    "log_loss",
    "ranked_probability_score",
    "split_time",
    "trueskill_through_time",
    "walk_forward",
]
