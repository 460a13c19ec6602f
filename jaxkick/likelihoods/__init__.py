"""Likelihoods: the distribution of outcomes given scores."""

from jaxkick.likelihoods.likelihood import AbstractLikelihood, Derivatives, Distribution
from jaxkick.likelihoods.numeric import Gaussian, NegativeBinomial, Poisson, Skellam
from jaxkick.likelihoods.ordinal import Logit, OrdinalLogit, OrdinalProbit, Probit
from jaxkick.likelihoods.ranking import Ranking
from jaxkick.likelihoods.two_scores import BivariatePoisson, DixonColes, VaryingNoise, VaryingTies

__all__ = [
    "AbstractLikelihood",
    "BivariatePoisson",
    "Derivatives",
    "Distribution",
    "DixonColes",
    "Gaussian",
    "Logit",
    "NegativeBinomial",
    "OrdinalLogit",
    "OrdinalProbit",
    "Poisson",
    "Probit",
    "Ranking",
    "Skellam",
    "VaryingNoise",
    "VaryingTies",
]
