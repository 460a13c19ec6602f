"""Gaussian algebra of one feature over all its entries at once, and the common loop of fits.

Throughout, a site is the factor exp(ν s − τ s²/2) with precision τ and precision-mean ν, and
K is the prior covariance of a feature's scores at its entries. Everything is written with
I + T K, T = diag(τ), so K may be singular (repeated times) and τ zero or negative.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tests.reference.problem import SmallProblem

__all__ = ["Fit", "GaussianPosterior", "Sites", "chain_log_normaliser", "iterate", "marginals"]


@dataclass(frozen=True)
class Sites:
    """Natural parameters of the sites by (observation, slot), zero in empty slots."""

    precision: np.ndarray
    precision_mean: np.ndarray


@dataclass(frozen=True)
class GaussianPosterior:
    """N(s; 0, K) times its sites, normalised."""

    covariance: np.ndarray
    precision: np.ndarray
    precision_mean: np.ndarray

    @property
    def system(self) -> np.ndarray:
        """I + T K."""
        return np.eye(len(self.covariance)) + self.precision[:, None] * self.covariance

    @property
    def posterior_covariance(self) -> np.ndarray:
        """(K⁻¹ + T)⁻¹ = K (I + T K)⁻¹."""
        return np.linalg.solve(self.system.T, self.covariance).T

    @property
    def posterior_mean(self) -> np.ndarray:
        """(K⁻¹ + T)⁻¹ ν = K (I + T K)⁻¹ ν."""
        return self.covariance @ np.linalg.solve(self.system, self.precision_mean)

    @property
    def log_determinant(self) -> float:
        """Log det(I + T K)."""
        sign, value = np.linalg.slogdet(self.system)
        if sign <= 0:
            raise ValueError("The sites do not leave a proper posterior; use more damping.")
        return float(value)

    @property
    def log_normaliser(self) -> float:
        """Log ∫ N(s; 0, K) Π exp(ν s − τ s²/2) ds."""
        return 0.5 * float(self.precision_mean @ self.posterior_mean - self.log_determinant)

    @property
    def divergence(self) -> float:
        """KL(posterior ‖ prior) = ½ [tr(K⁻¹Σ) + mᵀK⁻¹m − n − log det(K⁻¹Σ)].

        With K⁻¹Σ = (I + T K)⁻¹ and K⁻¹m = (I + T K)⁻¹ ν.
        """
        inverse = np.linalg.inv(self.system)
        quadratic = self.posterior_mean @ inverse @ self.precision_mean
        return 0.5 * float(np.trace(inverse) - len(inverse) + quadratic + self.log_determinant)

    def predict(self, across: np.ndarray, there: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance elsewhere, `across` = k(elsewhere, entries), `there` its variances."""
        mean = across @ np.linalg.solve(self.system, self.precision_mean)
        reduction = np.linalg.solve(self.system, self.precision[:, None] * across.T)
        return mean, there - np.einsum("te,et->t", across, reduction)


def feature_posterior(problem: SmallProblem, sites: Sites, feature: str) -> GaussianPosterior:
    """The posterior of one feature at its entries."""
    observations, slots = problem.entries(feature)
    return GaussianPosterior(
        problem.covariances[feature].matrix(problem.times[observations]),
        sites.precision[observations, slots],
        sites.precision_mean[observations, slots],
    )


def marginals(problem: SmallProblem, sites: Sites) -> tuple[np.ndarray, np.ndarray]:
    """Posterior means and variances by (observation, slot), zero in empty slots."""
    mean, variance = np.zeros_like(sites.precision), np.zeros_like(sites.precision)
    for feature in problem.observed:
        entries = problem.entries(feature)
        posterior = feature_posterior(problem, sites, feature)
        mean[entries] = posterior.posterior_mean
        variance[entries] = np.diag(posterior.posterior_covariance)
    return mean, variance


def chain_log_normaliser(problem: SmallProblem, sites: Sites) -> float:
    """The log-normalisers of all features together."""
    return sum(
        feature_posterior(problem, sites, feature).log_normaliser for feature in problem.observed
    )


@dataclass(frozen=True)
class Fit:
    """A converged fit.

    Attributes:
        problem: what was fitted.
        sites: the sites by (observation, slot).
        mean: posterior means by (observation, slot).
        variance: posterior variances by (observation, slot).
        objective: the log-marginal likelihood (EP) or the ELBO (reverse KL) at any sites.
        steps: how many updates it took.
    """

    problem: SmallProblem
    sites: Sites
    mean: np.ndarray
    variance: np.ndarray
    objective: Callable[[Sites], float]
    steps: int

    @property
    def log_marginal_likelihood(self) -> float:
        """The objective at the fitted sites."""
        return self.objective(self.sites)

    def scores(self, feature: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Times, means and variances at the entries of a feature, by time."""
        observations, slots = self.problem.entries(feature)
        where = (observations, slots)
        return self.problem.times[observations], self.mean[where], self.variance[where]

    def predict(self, feature: str, times) -> tuple[np.ndarray, np.ndarray]:
        """Posterior mean and variance of a feature at any times; the prior if unobserved."""
        times = np.atleast_1d(np.asarray(times, float))
        covariance = self.problem.covariances[feature]
        observations, _ = self.problem.entries(feature)
        across = covariance.matrix(times, self.problem.times[observations])
        posterior = feature_posterior(self.problem, self.sites, feature)
        return posterior.predict(across, covariance(times, times))


def iterate(
    problem: SmallProblem,
    step: Callable[[SmallProblem, Sites], Sites],
    objective: Callable[[SmallProblem, Sites], float],
    damping: float,
    tol: float,
    max_steps: int,
) -> Fit:
    """Apply the damped update to all sites in parallel until the undamped one changes nothing.

    Near the end Anderson's extrapolation saves steps; that the undamped update moves no site
    shows by itself that the end is a fixed point, however it was reached.
    """
    point = np.zeros((2, *problem.coefficients.shape))
    points, residuals = [], []
    for steps in range(1, max_steps + 1):
        target = step(problem, Sites(*point))
        residual = np.stack([target.precision, target.precision_mean]) - point
        if np.max(np.abs(residual) / (1.0 + np.abs(point))) < tol:
            sites = Sites(*point)
            mean, variance = marginals(problem, sites)
            return Fit(problem, sites, mean, variance, lambda s: objective(problem, s), steps)
        points, residuals = [*points[-5:], point], [*residuals[-5:], residual]
        if np.max(np.abs(residual)) > 0.05:
            point = point + (1.0 - damping) * residual
        else:
            point = _extrapolate(points, residuals, 1.0 - damping)
    raise RuntimeError(f"The fit did not converge in {max_steps} steps; use more damping.")


def _extrapolate(points: list, residuals: list, rate: float) -> np.ndarray:
    """Anderson's mixing: the damped step from where the linearised residual is smallest."""
    moves = np.diff([point.ravel() for point in points], axis=0).T
    changes = np.diff([residual.ravel() for residual in residuals], axis=0).T
    point, residual = points[-1], residuals[-1]
    plain = point + rate * residual
    if not moves.size:
        return plain
    gamma = np.linalg.lstsq(changes, residual.ravel(), rcond=None)[0]
    return plain - ((moves + rate * changes) @ gamma).reshape(point.shape)
