"""How outcomes follow from scores."""

from jaxkick.likelihoods.base import AbstractLikelihood, Derivatives
from jaxkick.likelihoods.binary import Logit, Probit
from jaxkick.likelihoods.count import Poisson, Skellam
from jaxkick.likelihoods.gaussian import Gaussian
from jaxkick.likelihoods.ordinal import OrdinalLogit, OrdinalProbit

__all__ = [
    "AbstractLikelihood",
    "Derivatives",
    "Gaussian",
    "Logit",
    "OrdinalLogit",
    "OrdinalProbit",
    "Poisson",
    "Probit",
    "Skellam",
]
