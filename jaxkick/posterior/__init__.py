"""The posterior of all scores, and how it is made."""

from jaxkick.posterior.fitting import infer, log_marginal_likelihood
from jaxkick.posterior.posterior import Posterior

__all__ = ["Posterior", "infer", "log_marginal_likelihood"]
