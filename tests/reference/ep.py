"""Mean-field expectation propagation (the paper's appendix A), dense and unaccelerated."""

import numpy as np

from tests.reference.dense import Fit, Sites, chain_log_normaliser, iterate, marginals
from tests.reference.problem import SmallProblem
from tests.reference.quadrature import Derivatives, log_partition

__all__ = ["dense_ep", "ep_log_marginal_likelihood", "ep_step"]


def _cavity(problem: SmallProblem, sites: Sites) -> tuple[np.ndarray, np.ndarray]:
    """Means and variances by (observation, slot) without the entry's own site."""
    mean, variance = marginals(problem, sites)
    share = 1.0 - sites.precision * variance
    if np.any(share <= 0):
        raise ValueError("A cavity has no positive variance; use more damping.")
    return (mean - sites.precision_mean * variance) / share, variance / share


def _tilt(problem: SmallProblem, mean: np.ndarray, variance: np.ndarray) -> Derivatives:
    """Log Z of each observation under its cavity, with derivatives."""
    x = problem.coefficients
    return log_partition(
        problem.likelihood,
        problem.outcomes,
        (x * mean).sum(axis=1),
        (x**2 * variance).sum(axis=1),
        problem.weights,
    )


def ep_step(problem: SmallProblem, sites: Sites) -> Sites:
    """One undamped parallel update of all sites.

    The factor of an observation is p(y|f)ʷ as a whole: the cavity leaves out the whole site.
    """
    x = problem.coefficients
    mean, variance = _cavity(problem, sites)
    _, first, second = _tilt(problem, mean, variance)
    first, second = first[:, None], second[:, None]
    denominator = 1.0 + x**2 * second * variance
    return Sites(-(x**2) * second / denominator, (x * first - mean * x**2 * second) / denominator)


def ep_log_marginal_likelihood(problem: SmallProblem, sites: Sites) -> float:
    """Σₙ [log Zₙ − Σ over entries of log ∫ cavity × site] + the chains' log-normalisers."""
    mean, variance = _cavity(problem, sites)
    tau, nu = sites.precision, sites.precision_mean
    ratio = 1.0 + tau * variance
    site = 0.5 * (nu**2 * variance + 2 * nu * mean - tau * mean**2) / ratio - 0.5 * np.log(ratio)
    log_z = _tilt(problem, mean, variance).value
    return float(log_z.sum() - site.sum()) + chain_log_normaliser(problem, sites)


def dense_ep(
    problem: SmallProblem, damping: float = 0.0, tol: float = 1e-12, max_steps: int = 2000
) -> Fit:
    """Run expectation propagation to its fixed point.

    Args:
        problem: observations and priors.
        damping: weight kept on the old sites.
        tol: largest change of a site, relative to 1 + its size, that an undamped update may make.
        max_steps: after which to give up.

    Raises:
        RuntimeError: if the sites have not settled.
        ValueError: if a cavity becomes improper.
    """
    return iterate(problem, ep_step, ep_log_marginal_likelihood, damping, tol, max_steps)
