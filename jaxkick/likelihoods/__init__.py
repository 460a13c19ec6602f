"""Likelihoods: the distribution of outcomes given scores."""

from jaxkick.likelihoods.likelihood import AbstractLikelihood, Derivatives, Distribution
from jaxkick.likelihoods.numeric import Gaussian, Poisson, Skellam
from jaxkick.likelihoods.ordinal import Logit, OrdinalLogit, OrdinalProbit, Probit

__all__ = [
    "AbstractLikelihood",
    "Derivatives",
    "Distribution",
    "Gaussian",
    "Logit",
    "OrdinalLogit",
    "OrdinalProbit",
    "Poisson",
    "Probit",
    "Skellam",
]
