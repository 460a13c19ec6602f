"""Learning parameters by maximising the log marginal likelihood."""

from jaxkick.learning.learn import History, learn
from jaxkick.learning.optimizers import RunStatus
from jaxkick.learning.suggest import suggest_model

__all__ = ["History", "RunStatus", "learn", "suggest_model"]
