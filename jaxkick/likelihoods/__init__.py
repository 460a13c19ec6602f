"""Likelihoods: the distribution of outcomes given scores."""

from jaxkick.likelihoods.likelihood import AbstractLikelihood, Derivatives, Distribution
from jaxkick.likelihoods.numeric import Gaussian, Poisson, Skellam
from jaxkick.likelihoods.ordinal import Logit, OrdinalLogit, OrdinalProbit, Probit
from jaxkick.likelihoods.ranking import Ranking

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
    "Ranking",
    "Skellam",
]
