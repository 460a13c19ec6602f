"""The posterior distribution of all scores and its queries."""

from jaxkick.posterior.posterior import Posterior

__all__ = ["Posterior"]
