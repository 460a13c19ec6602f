"""An item: a score that changes over time."""

from typing import Any, Literal

import jax
import numpy as np

from jaxkick.compat.kickscore.kernel import Kernel

__all__ = ["Item"]


class Item:
    """A team or player; its posterior is that of the model that it belongs to."""

    def __init__(self, kernel: Kernel, fitter: Literal["batch", "recursive"], *owner: Any):
        if fitter not in ("batch", "recursive"):
            raise ValueError(f"invalid fitter type '{fitter}'; it is 'recursive' or 'batch'.")
        self.kernel = kernel
        self.times: list[float] = []
        self.num_fitted = 0
        self._model, self._name = owner or (None, None)

    @property
    def scores(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Times, means and variances at the item's observations, in the order of time."""
        self.check_fitted()
        times = np.sort(np.array(self.times))
        entries = self._model.posterior.data.entries(self._name) if self.times else None
        if entries is None or len(entries.times) != len(times):
            return times, *self.predict(times)
        return times, *(part[entries.positions] for part in self._model.moments)

    def predict(self, ts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Means and variances at any times."""
        self.check_fitted()
        if not self.times or not len(ts):
            return np.zeros(len(ts)), self.kernel.k_diag(ts)
        with jax.enable_x64(True):
            return tuple(map(np.array, self._model.posterior.scores(self._name, ts)[1:]))

    def check_fitted(self) -> None:
        """Raise if observations came after the last fit."""
        if self.num_fitted != len(self.times):
            raise RuntimeError("new data since last call to `fit()`")
