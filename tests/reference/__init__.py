"""Slow, plain NumPy truths that the tests compare against; nothing here imports jaxkick."""

from tests.reference.covariance import (
    Covariance,
    affine,
    constant,
    cosine,
    linear,
    matern12,
    matern32,
    matern52,
    periodic,
    piecewise_constant,
    squared_exponential,
    wiener,
)
from tests.reference.dense import Fit, GaussianPosterior, Sites, feature_posterior, marginals
from tests.reference.ep import dense_ep, ep_log_marginal_likelihood, ep_step
from tests.reference.kalman import Smoothed, kalman_smoother, state_space_covariance
from tests.reference.kickscore_fit import KickscoreFit, kickscore_fit
from tests.reference.kl import dense_kl, elbo, kl_step
from tests.reference.likelihoods import (
    Likelihood,
    gaussian,
    logit,
    negative_binomial,
    ordinal_logit,
    ordinal_probit,
    poisson,
    probit,
    skellam,
    student_t,
)
from tests.reference.problem import SmallProblem, random_league
from tests.reference.quadrature import Derivatives, expectation, log_partition

__all__ = [
    "Covariance",
    "Derivatives",
    "Fit",
    "GaussianPosterior",
    "KickscoreFit",
    "Likelihood",
    "Sites",
    "SmallProblem",
    "Smoothed",
    "affine",
    "constant",
    "cosine",
    "dense_ep",
    "dense_kl",
    "elbo",
    "ep_log_marginal_likelihood",
    "ep_step",
    "expectation",
    "feature_posterior",
    "gaussian",
    "kalman_smoother",
    "kickscore_fit",
    "kl_step",
    "linear",
    "log_partition",
    "logit",
    "marginals",
    "matern12",
    "matern32",
    "matern52",
    "negative_binomial",
    "ordinal_logit",
    "ordinal_probit",
    "periodic",
    "piecewise_constant",
    "poisson",
    "probit",
    "random_league",
    "skellam",
    "squared_exponential",
    "state_space_covariance",
    "student_t",
    "wiener",
]
