"""`infer` and the evidence."""

from collections.abc import Callable
from typing import Any

from jaxtyping import ArrayLike

from jaxkick._tracing import is_known
from jaxkick._typing import Scalar
from jaxkick.dataset.dataset import Dataset
from jaxkick.inference.ending import raise_unless_converged
from jaxkick.inference.ep import ExpectationPropagation
from jaxkick.inference.loop import ACCELERATION
from jaxkick.inference.method import AbstractMethod
from jaxkick.inference.problem import Sites
from jaxkick.inference.request import (
    check_fit,
    check_kinds,
    check_method,
    read_active,
    read_start,
    reporter,
)
from jaxkick.model import Model
from jaxkick.posterior.posterior import Posterior
from jaxkick.posterior.running import end_line, run

__all__ = ["infer", "log_marginal_likelihood"]


def infer(
    model: Model,
    data: Dataset,
    method: AbstractMethod | None = None,
    *,
    tol: float = 0.05,
    max_steps: int = 1000,
    acceleration: int = ACCELERATION,
    start: Posterior | Sites | None = None,
    active: ArrayLike | None = None,
    throw: bool = True,
    progress: bool | Callable[[int, float], None] = False,
) -> Posterior:
    """Fit the posterior of all scores to the data.

    Pure in its arguments: may be called inside `jit` and `vmap`. There nothing is raised
    when inference fails; look at `result`.

    Args:
        model: kernels and likelihood.
        data: the observations.
        method: how to approximate the posterior: `ExpectationPropagation()`, the default, or
            `ReverseKL()`.
        tol: stop when the estimated distance to the fixed point is below this, as the largest
            over all marginals, in their standard deviations. At the default the evidence is
            usually within a few hundredths of a nat.
        max_steps: stop after so many steps.
        acceleration: how many past steps the acceleration remembers; 0 switches it off.
        start: a posterior, or its sites, of the same data to start from.
        active: booleans, one for each observation: those that count. The others leave no
            trace on the scores, and changing them does not compile anew.
        throw: whether to raise when the fixed point was not reached.
        progress: `True` for a line on the error stream, or a function that is called with the
            number of steps and the distance left.

    Returns:
        The posterior.

    Raises:
        ValueError: if an outcome is outside the likelihood's domain, or an argument does not
            fit the data.
        InferenceError: if the fixed point was not reached and `throw` holds.
    """
    method = ExpectationPropagation() if method is None else method
    check_method(method, acceleration, max_steps)
    check_kinds(model, data)
    active = read_active(active, data)
    check_fit(model, data, active)
    sites = read_start(start.sites if isinstance(start, Posterior) else start, data)
    report = reporter(progress)
    solution = run(model, data, method, sites, active, tol, max_steps, acceleration, report)
    end_line(progress, solution)
    posterior = Posterior(model, data, method, *solution)
    if throw and is_known(solution.result):
        raise_unless_converged(solution.result, solution.steps, solution.distance, tol)
    return posterior


def log_marginal_likelihood(
    model: Model,
    data: Dataset,
    method: AbstractMethod | None = None,
    **options: Any,
) -> Scalar:
    """The log-marginal likelihood of the data, differentiable in the model and the data.

    Its derivative costs about one more step of inference, however many steps were taken,
    because the evidence is stationary in what inference changes. It is as exact as the fixed
    point: pass a smaller `tol` where a gradient needs more digits.

    Args:
        model: kernels and likelihood.
        data: the observations.
        method: how to approximate the posterior; `ExpectationPropagation()` if `None`.
        options: further arguments of `infer`.

    Returns:
        The logarithm of the evidence (EP), or a lower bound of it (reverse KL).
    """
    return infer(model, data, method, **options).log_marginal_likelihood
