"""Termination status of inference, and the error raised without convergence."""

import enum

from jaxkick._typing import Array, Int, Scalar

__all__ = ["InferenceError", "Status", "raise_unless_converged"]


class Status(enum.IntEnum):
    """Termination status of inference."""

    CONVERGED = 0
    MAX_STEPS = 1
    DIVERGED = 2
    INACCURATE = 3


class InferenceError(RuntimeError):
    """Inference did not reach its fixed point."""


def raise_unless_converged(
    status: Int[Array, ""], steps: Int[Array, ""], distance: Scalar, tol: float
) -> None:
    """Raise an error with remedies, unless inference converged."""
    match Status(int(status)):
        case Status.DIVERGED:
            raise InferenceError(
                f"Inference diverged after {int(steps)} steps: some variance became negative or "
                "a number overflowed. Look for extreme parameters or outcomes, try `ReverseKL()` "
                "or float64, or pass `throw=False` to get the last feasible state."
            )
        case Status.INACCURATE:
            raise InferenceError(
                "The likelihood could not be integrated: it has several peaks, too narrow for a "
                "grid of 1025 nodes. Define `log_partition` and `expectation` of the likelihood, "
                "or pass `throw=False` to get the posterior all the same."
            )
        case Status.MAX_STEPS:
            raise InferenceError(
                f"Inference did not converge in {int(steps)} steps: the estimated distance to the "
                f"fixed point is {float(distance):.2g} standard deviations, and `tol` is {tol:g}. "
                "Raise `max_steps` or `tol`, or pass `throw=False` to get the last state."
            )
