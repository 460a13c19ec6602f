"""Stable special functions, and quadrature of a likelihood against a Gaussian."""

from jaxkick._numerics.bessel import log_ive
from jaxkick._numerics.counts import integer_quantile, skellam_cdf
from jaxkick._numerics.elementary import bounded_exp, exp_limit, logistic
from jaxkick._numerics.grid import Anchor, Precision
from jaxkick._numerics.local import Derivatives, Local
from jaxkick._numerics.normal import log_interval, normal_tail
from jaxkick._numerics.quadrature import gaussian_expectation, gaussian_mean
from jaxkick._numerics.tilted import tilted_log_partition

__all__ = [
    "Anchor",
    "Derivatives",
    "Local",
    "Precision",
    "bounded_exp",
    "exp_limit",
    "gaussian_expectation",
    "gaussian_mean",
    "integer_quantile",
    "log_interval",
    "log_ive",
    "logistic",
    "normal_tail",
    "skellam_cdf",
    "tilted_log_partition",
]
