"""Does it predict well? Walk-forward evaluation without leaks, metrics and baselines."""

from jaxkick.evaluation.baselines import (
    Elo,
    Random,
    TrueSkill,
    constant_scores,
    trueskill_through_time,
)
from jaxkick.evaluation.blocks import split_time
from jaxkick.evaluation.bootstrap import Estimate, estimate_mean
from jaxkick.evaluation.calibration import Calibration, calibrate
from jaxkick.evaluation.forecaster import AbstractForecaster, Refit
from jaxkick.evaluation.forecasts import Comparison, Forecasts, Summary, compare
from jaxkick.evaluation.metrics import (
    accuracy,
    brier_score,
    log_loss,
    ranked_probability_score,
)
from jaxkick.evaluation.walk_forward import walk_forward

__all__ = [
    "AbstractForecaster",
    "Calibration",
    "Comparison",
    "Elo",
    "Estimate",
    "Forecasts",
    "Random",
    "Refit",
    "Summary",
    "TrueSkill",
    "accuracy",
    "brier_score",
    "calibrate",
    "compare",
    "constant_scores",
    "estimate_mean",
    "log_loss",
    "ranked_probability_score",
    "split_time",
    "trueskill_through_time",
    "walk_forward",
]
