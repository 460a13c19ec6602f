"""The posterior distribution of all scores and what can be asked of it."""

from jaxkick.posterior.posterior import Posterior

__all__ = ["Posterior"]
