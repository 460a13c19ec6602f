"""Numerically stable special functions, Gaussian quadrature, and small matrices."""

from jaxkick._math.grid import Anchor, Local, Precision
from jaxkick._math.logistic import logistic_log_mean
from jaxkick._math.normal import (
    LOG_SQRT_2PI,
    Derivatives,
    bounded_exp,
    exp_limit,
    log,
    log_interval,
    logistic,
    normal_tail,
)
from jaxkick._math.product import pair_expectation, pair_log_partition, pair_mean
from jaxkick._math.quadrature import (
    gaussian_expectation,
    gaussian_mean,
    tilted_log_partition,
    tilted_log_partition_of_two,
)
from jaxkick._math.special import integer_quantile, log_ive, skellam_cdf

__all__ = [
    "LOG_SQRT_2PI",
    "Anchor",
    "Derivatives",
    "Local",
    "Precision",
    "bounded_exp",
    "exp_limit",
    "gaussian_expectation",
    "gaussian_mean",
    "integer_quantile",
    "log",
    "log_interval",
    "log_ive",
    "logistic",
    "logistic_log_mean",
    "normal_tail",
    "pair_expectation",
    "pair_log_partition",
    "pair_mean",
    "skellam_cdf",
    "tilted_log_partition",
    "tilted_log_partition_of_two",
]
