"""Learning parameters by maximising the log marginal likelihood."""

from jaxkick.learning.learn import History, learn
from jaxkick.learning.suggest import suggest_model

__all__ = ["History", "learn", "suggest_model"]
