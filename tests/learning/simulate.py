"""Small data sets whose true parameters are known."""

import jax
import numpy as np
import scipy.linalg

import jaxkick as jk
from jaxkick.kernels import sample_prior

__all__ = ["TRUTH", "dense_evidence", "measurements", "numbers", "probit_matches"]

TRUTH = jk.Model(jk.kernels.Matern12(2.0, lengthscale=1.5), jk.likelihoods.Gaussian(0.3))


def measurements(model=TRUTH, features=12, each=40, seed=0):
    """Noisy readings of single scores, for which expectation propagation is exact."""
    rng = np.random.default_rng(seed)
    times = np.sort(rng.uniform(0.0, 10.0, (features, each)), axis=1)
    keys = jax.random.split(jax.random.key(seed), features)
    scores = np.stack(
        [sample_prior(model.kernel, row, key) for row, key in zip(times, keys, strict=True)]
    )
    noise = np.sqrt(float(model.likelihood.variance.value)) * rng.normal(size=scores.shape)
    numbers = np.repeat(np.arange(features), each)
    return jk.Dataset.from_arrays(
        times.ravel(), numbers[:, None], np.ones((scores.size, 1)), (scores + noise).ravel()
    )


def probit_matches(kernel, players=8, matches=400, seed=0):
    """Matches between players whose scores move."""
    rng = np.random.default_rng(seed)
    times = np.sort(rng.uniform(0.0, 10.0, matches))
    keys = jax.random.split(jax.random.key(seed), players)
    scores = np.stack([sample_prior(kernel, times, key) for key in keys])
    sides = np.array([rng.choice(players, 2, replace=False) for _ in range(matches)])
    gap = scores[sides[:, 0], np.arange(matches)] - scores[sides[:, 1], np.arange(matches)]
    outcome = np.where(gap + rng.normal(size=matches) > 0, 1.0, -1.0)
    return jk.Dataset.from_pairs(times, sides[:, 0], sides[:, 1], outcome)


def numbers(model):
    """Variance and lengthscale of a kernel and variance of the noise."""
    kernel = model.kernel
    values = (kernel.variance, kernel.lengthscale, model.likelihood.variance)
    return np.array([float(parameter.value) for parameter in values])


def dense_evidence(logarithms, data, mask=None):
    """The log-marginal likelihood of measurements, by the covariances of all observations."""
    variance, lengthscale, noise = np.exp(logarithms)
    total = 0.0
    for name in data.names:
        entries = data.entries(name)
        chosen = slice(None) if mask is None else mask[entries.observations]
        y = np.asarray(data.outcome)[entries.observations][chosen]
        times = entries.times[chosen]
        gaps = np.abs(times[:, None] - times)
        covariance = variance * np.exp(-gaps / lengthscale) + noise * np.eye(len(y))
        factor = scipy.linalg.cholesky(covariance, lower=True)
        white = scipy.linalg.solve_triangular(factor, y, lower=True)
        total += -0.5 * white @ white - np.log(np.diag(factor)).sum()
        total -= 0.5 * len(y) * np.log(2 * np.pi)
    return total
