"""Sample paths have the means and covariances of the posterior."""

import jax
import numpy as np
import pytest

import jaxkick as jk
from jaxkick.kernels import Instant

TIMES = np.array([0.0, 0.4, 0.4, 1.5, 2.0])
ASKED = np.array([1.0, -0.5, 3.0, 0.4])
DRAWS = 40_000


def dense(kernel, mean):
    """Conditional moments of a Gaussian process with noise of variance 0.5."""
    whole = np.concatenate([TIMES, ASKED])
    instants = [Instant.at(time, TIMES[0]) for time in whole]
    K = np.array([[float(kernel.covariance(a, b)) for b in instants] for a in instants])
    n = len(TIMES)
    outcome = np.array([0.3, -1.0, 0.8, 2.0, 1.0])
    gain = K[n:, :n] @ np.linalg.inv(K[:n, :n] + 0.5 * np.eye(n))
    return mean + gain @ (outcome - mean), K[n:, n:] - gain @ K[:n, n:], outcome


@pytest.mark.parametrize(
    "kernel",
    [
        jk.kernels.Constant(0.7) + jk.kernels.Matern32(1.0, 2.0),
        jk.kernels.Wiener(0.5) + jk.kernels.Affine(0.4, 0.2),
    ],
    ids=["stationary", "with an origin"],
)
def test_paths_have_the_posterior_covariance(kernel):
    mean, covariance, outcome = dense(kernel, 0.25)
    data = jk.Dataset.from_mappings(TIMES, ["x"] * 5, outcome, row_length=16)
    model = jk.Model(kernel, jk.likelihoods.Gaussian(0.5), mean=0.25)
    posterior = jk.infer(model, data, tol=1e-9)
    paths = np.asarray(posterior.sample("x", ASKED, jax.random.key(1), (4, DRAWS // 4)))
    assert paths.shape == (4, DRAWS // 4, 4)
    paths = paths.reshape(DRAWS, 4)
    deviation = np.sqrt(np.diag(covariance))
    # Four standard errors of a mean, and of a covariance.
    assert np.all(np.abs(paths.mean(axis=0) - mean) < 4 * deviation / np.sqrt(DRAWS))
    error = np.sqrt((np.outer(deviation, deviation) ** 2 + covariance**2) / DRAWS)
    assert np.all(np.abs(np.cov(paths.T) - covariance) < 4 * error)


def test_unknown_feature_is_sampled_from_the_prior():
    data = jk.Dataset.from_pairs([0.0], ["a"], ["b"])
    posterior = jk.infer(jk.Model(jk.kernels.Matern12(2.0, 1.0), jk.likelihoods.Probit()), data)
    paths = np.asarray(
        posterior.sample("new", [0.0, 1.0], jax.random.key(0), (DRAWS,), allow_unknown=True)
    )
    expected = 2.0 * np.array([[1.0, np.exp(-1)], [np.exp(-1), 1.0]])
    assert np.all(np.abs(np.cov(paths.T) - expected) < 4 * np.sqrt(8.0 / DRAWS))
