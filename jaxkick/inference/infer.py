"""`infer` and the log marginal likelihood."""

from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
from jaxtyping import ArrayLike

from jaxkick._typing import Array, Bool, Scalar
from jaxkick._xla import hold_constant, is_known
from jaxkick.data.dataset import Dataset
from jaxkick.inference.checks import check_fit, check_kinds, check_method, read_mask, read_start
from jaxkick.inference.evidence import with_slope
from jaxkick.inference.methods import AbstractMethod, ExpectationPropagation
from jaxkick.inference.problem import Sites, make_problem, restart_ages
from jaxkick.inference.solve import Progress, needs_grid, run
from jaxkick.inference.status import raise_unless_converged
from jaxkick.model import Model
from jaxkick.posterior.posterior import Posterior

__all__ = ["infer", "log_marginal_likelihood"]


def infer(
    model: Model,
    data: Dataset,
    method: AbstractMethod | None = None,
    *,
    tol: float = 0.05,
    max_steps: int = 1000,
    start: Posterior | Sites | None = None,
    mask: ArrayLike | None = None,
    throw: bool = True,
    progress: Progress = False,
) -> Posterior:
    """Fit the posterior of all scores to the data.

    A pure function of its arguments: it may be called inside `jit` and `vmap`. There nothing is
    raised when inference fails; look at `status`. Outside of them, a likelihood of your own on
    which adaptive quadrature fails is integrated over even grids (`method.on_grid`).

    Args:
        model: kernels and likelihood.
        data: the observations.
        method: `ExpectationPropagation()`, the default, or `ReverseKL()`.
        tol: stop when the distance to the fixed point is below this: the largest over all
            marginals, in their standard deviations. At the default the log evidence is usually
            within a hundredth of a nat.
        max_steps: maximum number of iterations; most fits take 6 to 12.
        start: a posterior of the same data, or its sites, for a warm start.
        mask: boolean array of shape (N,); observations where it is False are ignored. A different
            mask does not trigger compilation.
        throw: whether to raise an error when inference does not converge.
        progress: `True` for a line on standard error, or a function that is called with the
            number of steps and the distance.

    Raises:
        DataError: if an outcome is not valid for the likelihood, or an argument does not fit
            the data.
        InferenceError: if inference does not converge and `throw` is true.
    """
    method = ExpectationPropagation() if method is None else method
    check_method(method, max_steps)
    check_kinds(model, data)
    mask = read_mask(mask, data)
    check_fit(model, data, mask)
    data = restart_ages(data, mask)
    sites = read_start(start.sites if isinstance(start, Posterior) else start, data)
    solution = run(model, data, method, sites, mask, tol, max_steps, progress)
    if needs_grid(model, method, solution):
        method = replace(method, on_grid=True)
        solution = run(model, data, method, sites, mask, tol, max_steps, progress)
    if throw and is_known(solution.status):
        raise_unless_converged(solution.status, solution.steps, solution.distance, tol)
    return Posterior(model, data, method, *solution)


def log_marginal_likelihood(
    model: Model,
    data: Dataset,
    method: AbstractMethod | None = None,
    **options: Any,
) -> Scalar:
    """Compute the log marginal likelihood (log evidence), differentiable in model and data.

    The derivative costs about one more smoothing pass, however many iterations inference took,
    because the log evidence is stationary in the sites. It is as exact as the fixed point: pass
    a smaller `tol` where a gradient needs more digits.

    Args:
        model: kernels and likelihood.
        data: the observations.
        method: `ExpectationPropagation()` if `None`.
        **options: further arguments of `infer`.

    Returns:
        The log evidence (EP), or a lower bound on it (reverse KL).
    """
    if all(map(is_known, jax.tree.leaves((model, data)))):
        return infer(model, data, method, **options).log_marginal_likelihood
    # The derivative of the fixed point is not needed, and takes long to trace.
    posterior = infer(*hold_constant((model, data)), method, **options)
    mask = read_mask(options.get("mask"), data)
    return _with_slope(
        posterior.log_marginal_likelihood,
        model,
        data.without_index(),
        mask,
        posterior.method,
        posterior.sites,
    )


@eqx.filter_jit
def _with_slope(
    value: Scalar,
    model: Model,
    data: Dataset,
    mask: Bool[Array, " N"] | None,
    method: AbstractMethod,
    sites: Sites,
) -> Scalar:
    """The log evidence with its derivative in model and data."""
    problem = make_problem(model, restart_ages(data, mask), mask)
    return with_slope(value, problem, method, sites)
