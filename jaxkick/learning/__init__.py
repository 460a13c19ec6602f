"""Learning parameters by maximising the log marginal likelihood or forecasts."""

from jaxkick.learning.learn import History, learn
from jaxkick.learning.optimizers import RunStatus
from jaxkick.learning.predictive import Predictive
from jaxkick.learning.suggest import suggest_model

__all__ = ["History", "Predictive", "RunStatus", "learn", "suggest_model"]
