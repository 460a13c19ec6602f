"""The record of a climb."""

from typing import NamedTuple

import numpy as np

__all__ = ["History"]


class History(NamedTuple):
    """How learning went, step by step from the start; of several climbs, the best one.

    Attributes:
        values: the log-marginal likelihood, plus the log-prior if there is one.
        gradient_norms: the length of its gradient in the unconstrained parameters.
        seconds: time since the start, in total over all climbs and interruptions.
        inference_steps: how many steps of inference the value took.
        parameters: the values of every parameter by where it stands in the model, such as
            `"kernel.terms[1].lengthscale"`, with one row for each step.
        converged: whether the climb ended because there was nothing more to gain.
        climbs: the best value of every climb: that from the given start first, then the
            restarts.
    """

    values: np.ndarray
    gradient_norms: np.ndarray
    seconds: np.ndarray
    inference_steps: np.ndarray
    parameters: dict[str, np.ndarray]
    converged: bool
    climbs: np.ndarray

    def __repr__(self) -> str:
        ended = "converged" if self.converged else "stopped"
        return (
            f"History({len(self.values) - 1} steps, log-marginal likelihood "
            f"{self.values[0]:.2f} to {self.values.max():.2f}, {self.seconds[-1]:.1f} s, {ended})"
        )
