"""Mean-field variational inference by reverse KL (the paper's appendix A), dense."""

import numpy as np

from tests.reference.dense import Fit, Sites, feature_posterior, iterate, marginals
from tests.reference.problem import SmallProblem
from tests.reference.quadrature import Derivatives, expectation

__all__ = ["dense_kl", "elbo", "kl_step"]


def _expected(problem: SmallProblem, mean: np.ndarray, variance: np.ndarray) -> Derivatives:
    """E log p of each observation under its marginals, with derivatives, weights not included."""
    x = problem.coefficients
    return expectation(
        problem.likelihood,
        problem.outcomes,
        (x * mean).sum(axis=1),
        (x**2 * variance).sum(axis=1),
    )


def kl_step(problem: SmallProblem, sites: Sites) -> Sites:
    """One undamped parallel update of all sites."""
    x = problem.coefficients
    mean, variance = marginals(problem, sites)
    _, first, second = _expected(problem, mean, variance)
    first, second = (problem.weights * first)[:, None], (problem.weights * second)[:, None]
    return Sites(-(x**2) * second, x * first - mean * x**2 * second)


def elbo(problem: SmallProblem, sites: Sites) -> float:
    """Σ w E[log p(y|f)] − Σ over features of KL(posterior ‖ prior)."""
    expected = _expected(problem, *marginals(problem, sites)).value
    divergence = sum(
        feature_posterior(problem, sites, feature).divergence for feature in problem.observed
    )
    return float(problem.weights @ expected) - divergence


def dense_kl(
    problem: SmallProblem, damping: float = 0.5, tol: float = 1e-12, max_steps: int = 2000
) -> Fit:
    """Climb the ELBO by natural gradients to its optimum.

    Args:
        problem: observations and priors.
        damping: weight kept on the old sites.
        tol: largest change of a site, relative to 1 + its size, that an undamped update may make.
        max_steps: after which to give up.

    Raises:
        RuntimeError: if the sites have not settled.
    """
    return iterate(problem, kl_step, elbo, damping, tol, max_steps)
