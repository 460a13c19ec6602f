"""How inference ended, and the error where that is not good enough."""

import enum

from jaxkick._typing import Array, Int, Scalar

__all__ = ["InferenceError", "Result", "raise_unless_converged"]


class Result(enum.IntEnum):
    """How inference ended."""

    CONVERGED = 0
    MAX_STEPS = 1
    DIVERGED = 2


class InferenceError(RuntimeError):
    """Inference did not reach its fixed point."""


def raise_unless_converged(
    result: Int[Array, ""], steps: Int[Array, ""], distance: Scalar, tol: float
) -> None:
    """Raise an error that says what to try, unless the fixed point was reached."""
    ended = Result(int(result))
    if ended is Result.CONVERGED:
        return
    if ended is Result.DIVERGED:
        raise InferenceError(
            f"inference left the feasible region after {int(steps)} steps and did not "
            "come back with more damping. Look for extreme parameters or outcomes, try "
            "`ReverseKL()` or float64, or pass `throw=False` to look at what there is."
        )
    raise InferenceError(
        f"inference took all of its {int(steps)} steps; the distance left is about "
        f"{float(distance):.2g} standard deviations where {tol:g} was asked. Raise "
        "`max_steps` or `tol`, or pass `throw=False` to take what there is."
    )
