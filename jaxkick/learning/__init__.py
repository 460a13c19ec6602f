"""Learning parameters by climbing the log-marginal likelihood."""

from jaxkick.learning.history import History
from jaxkick.learning.learn import learn
from jaxkick.learning.suggest import suggest_model

__all__ = ["History", "learn", "suggest_model"]
