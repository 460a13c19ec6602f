"""The reference covariance functions and Kalman smoother, against dense formulas and kickscore."""

import warnings

import numpy as np
import pytest
from scipy.linalg import expm
from scipy.stats import multivariate_normal

from tests import reference as ref

TIMES = np.array([0.1, 0.4, 0.4, 1.3, 2.0, 2.0, 3.7])


# Covariance functions


@pytest.fixture(scope="session")
def kickscore_kernels():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import kickscore.kernel
    return kickscore.kernel


@pytest.mark.parametrize(
    ("covariance", "make"),
    [
        (ref.constant(0.7), lambda k: k.Constant(0.7)),
        (
            ref.piecewise_constant(0.7, [2.0, 0.4]),
            lambda k: k.PiecewiseConstant(0.7, np.array([2.0, 0.4])),
        ),
        (ref.wiener(0.7, -0.5, 0.3), lambda k: k.Wiener(0.7, -0.5, 0.3)),
        (ref.affine(0.7, 0.2, 0.5), lambda k: k.Affine(0.7, 0.2, 0.5)),
        (ref.matern12(0.7, 1.9), lambda k: k.Exponential(0.7, 1.9)),
        (ref.matern32(0.7, 1.9), lambda k: k.Matern32(0.7, 1.9)),
        (ref.matern52(0.7, 1.9), lambda k: k.Matern52(0.7, 1.9)),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_covariance_equals_kickscore(kickscore_kernels, covariance, make):
    kernel, elsewhere = make(kickscore_kernels), np.array([0.2, 0.4, 5.0])
    np.testing.assert_allclose(
        covariance.matrix(TIMES, elsewhere), kernel.k_mat(TIMES, elsewhere), rtol=1e-14
    )
    np.testing.assert_allclose(covariance(TIMES, TIMES), kernel.k_diag(TIMES), rtol=1e-14)


def test_cosine_is_a_complex_exponential():
    t, u = TIMES[:, None], TIMES[None, :]
    rate = -1.0 / 3.0 + 2j * np.pi / 1.7
    want = 0.7 * np.real(np.exp(rate * np.abs(t - u)))
    np.testing.assert_allclose(ref.cosine(0.7, 1.7, 3.0).matrix(TIMES), want, atol=1e-14)
    undamped = 0.7 * np.cos(2 * np.pi * (t - u) / 1.7)
    np.testing.assert_allclose(ref.cosine(0.7, 1.7).matrix(TIMES), undamped, atol=1e-14)


def test_squared_exponential_has_a_gaussian_spectrum():
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    gaps = (TIMES[:, None] - TIMES[None, :])[..., None]
    want = 0.7 * (np.cos(nodes * gaps / 1.9) @ weights) / np.sqrt(2 * np.pi)
    covariance = ref.squared_exponential(0.7, 1.9)
    np.testing.assert_allclose(covariance.matrix(TIMES), want, rtol=1e-12)


def test_periodic_is_a_squared_exponential_on_a_circle():
    angles = 2 * np.pi * TIMES / 1.7
    points = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    squares = np.sum((points[:, None] - points[None, :]) ** 2, axis=-1)
    want = 0.7 * np.exp(-squares / (2 * 1.3**2))
    np.testing.assert_allclose(ref.periodic(0.7, 1.7, 1.3).matrix(TIMES), want, rtol=1e-12)


def test_sums_and_products_combine_values():
    first, second, third = ref.matern12(0.7, 1.9), ref.linear(0.2, 0.5), ref.constant(0.3)
    want = (first.matrix(TIMES) + third.matrix(TIMES)) * second.matrix(TIMES)
    np.testing.assert_allclose(((first + third) * second).matrix(TIMES), want, rtol=1e-14)
    line = 0.2 * np.outer(TIMES - 0.5, TIMES - 0.5)
    np.testing.assert_allclose(second.matrix(TIMES), line, rtol=1e-14)


# Smoother


def matern32_steps(times, variance=0.7, lengthscale=1.9):
    """A, Q, h, P0 of Matérn 3/2 by the matrix exponential."""
    a = np.sqrt(3.0) / lengthscale
    feedback = np.array([[0.0, 1.0], [-(a**2), -2.0 * a]])
    stationary = variance * np.diag([1.0, a**2])
    A = np.array([expm(feedback * gap) for gap in np.diff(times, prepend=times[0])])
    Q = stationary - A @ stationary @ A.transpose(0, 2, 1)
    return A, Q, np.array([1.0, 0.0]), stationary


@pytest.fixture
def sites():
    rng = np.random.default_rng(3)
    precision = rng.uniform(0.0, 3.0, TIMES.size) * (rng.uniform(size=TIMES.size) > 0.3)
    precision[2] = 0.0
    return rng.normal(size=TIMES.size), precision


def test_smoother_equals_dense_process(sites):
    A, Q, h, P0 = matern32_steps(TIMES)
    covariance = ref.matern32(0.7, 1.9).matrix(TIMES)
    np.testing.assert_allclose(
        ref.state_space_covariance(A, Q, h, P0), covariance, rtol=1e-12, atol=1e-14
    )
    dense = ref.GaussianPosterior(covariance, sites[1], sites[0])
    smoothed = ref.kalman_smoother(A, Q, h, P0, *sites)
    np.testing.assert_allclose(smoothed.mean, dense.posterior_mean, atol=1e-12)
    np.testing.assert_allclose(smoothed.variance, np.diag(dense.posterior_covariance), atol=1e-12)
    np.testing.assert_allclose(smoothed.log_normaliser, dense.log_normaliser, rtol=1e-12)


def test_smoother_of_two_features_end_to_end(sites):
    steps = matern32_steps(TIMES)
    A, Q, h, P0 = (np.concatenate([part, part]) for part in steps)
    A[TIMES.size], Q[TIMES.size] = 0.0, steps[3]
    nu, tau = (np.concatenate([part, 2.0 * part]) for part in sites)
    both = ref.kalman_smoother(A, Q, h[:2], P0[:2], nu, tau)
    first = ref.kalman_smoother(*steps, *sites)
    second = ref.kalman_smoother(*steps, 2.0 * sites[0], 2.0 * sites[1])
    np.testing.assert_allclose(both.mean, [*first.mean, *second.mean], atol=1e-12)
    np.testing.assert_allclose(both.variance, [*first.variance, *second.variance], atol=1e-12)
    total = first.log_normaliser + second.log_normaliser
    np.testing.assert_allclose(both.log_normaliser, total, rtol=1e-12)


def test_smoother_of_wiener_process_at_its_origin(sites):
    gaps = np.diff(TIMES, prepend=TIMES[0])
    ones, noise = np.ones((TIMES.size, 1, 1)), 0.7 * gaps[:, None, None]
    smoothed = ref.kalman_smoother(ones, noise, np.ones(1), np.zeros((1, 1)), *sites)
    covariance = ref.wiener(0.7, TIMES[0]).matrix(TIMES)
    dense = ref.GaussianPosterior(covariance, sites[1], sites[0])
    np.testing.assert_allclose(smoothed.mean, dense.posterior_mean, atol=1e-12)
    np.testing.assert_allclose(smoothed.variance, np.diag(dense.posterior_covariance), atol=1e-12)
    np.testing.assert_allclose(smoothed.log_normaliser, dense.log_normaliser, rtol=1e-12)


# Dense algebra


def test_dense_posterior_equals_textbook_formulas():
    times = np.array([0.0, 0.7, 1.1, 2.5])
    K = ref.matern12(0.9, 1.4).matrix(times)
    tau, nu = np.array([0.5, 2.0, 0.3, 1.0]), np.array([0.2, -1.0, 0.8, 0.1])
    posterior = ref.GaussianPosterior(K, tau, nu)
    covariance = np.linalg.inv(np.linalg.inv(K) + np.diag(tau))
    mean = covariance @ nu
    np.testing.assert_allclose(posterior.posterior_covariance, covariance, atol=1e-13)
    np.testing.assert_allclose(posterior.posterior_mean, mean, atol=1e-13)
    divergence = 0.5 * (
        np.trace(np.linalg.solve(K, covariance))
        + mean @ np.linalg.solve(K, mean)
        - len(K)
        + np.linalg.slogdet(K)[1]
        - np.linalg.slogdet(covariance)[1]
    )
    np.testing.assert_allclose(posterior.divergence, divergence, rtol=1e-12)
    # The sites as densities of pseudo-observations ν/τ with variance 1/τ.
    evidence = multivariate_normal(np.zeros(4), K + np.diag(1 / tau)).logpdf(nu / tau)
    constants = 0.5 * (np.log(2 * np.pi / tau) + nu**2 / tau).sum()
    np.testing.assert_allclose(posterior.log_normaliser, evidence + constants, rtol=1e-12)
