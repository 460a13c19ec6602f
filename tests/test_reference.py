"""The reference fits, against exact answers and brute force.

Their parts are tested in `tests/reference`, there too against kickscore 0.2.0.
"""

import dataclasses

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from tests import reference as ref


def single_feature(likelihood, outcomes, coefficients=None):
    """A problem with one feature and repeated times, out of order."""
    times = np.array([1.0, 0.2, 0.2, 2.5, 1.7])[: len(outcomes)]
    coefficients = np.ones(len(outcomes)) if coefficients is None else coefficients
    return ref.SmallProblem(
        times,
        [{"a": float(x)} for x in coefficients],
        np.asarray(outcomes, float),
        np.ones(len(outcomes)),
        {"a": ref.matern32(0.9, 1.5)},
        likelihood,
    )


def duel(likelihood, outcome, weight=1.0):
    """A problem with one observation of two features."""
    return ref.SmallProblem(
        np.array([0.5]),
        [{"a": 1.0, "b": -0.7}],
        np.array([outcome]),
        np.array([weight]),
        {"a": ref.matern12(1.2, 1.0), "b": ref.constant(0.4)},
        likelihood,
    )


def tilted_moments(likelihood, y, coefficients, mean, variance, weight=1.0):
    """Evidence, means and variances of p(y | x·s)ʷ N(s; mean, variance) on a plane of points."""
    grid = np.linspace(-9.0, 9.0, 1201)
    axes = [m + np.sqrt(v) * grid for m, v in zip(mean, variance, strict=True)]
    score = coefficients[0] * axes[0][:, None] + coefficients[1] * axes[1][None, :]
    normal = np.exp(-0.5 * grid**2) / np.sqrt(2 * np.pi) * (grid[1] - grid[0])
    density = np.exp(weight * likelihood(y, score)) * normal[:, None] * normal[None, :]
    evidence = density.sum()
    shares = [density.sum(axis=1) / evidence, density.sum(axis=0) / evidence]
    means = [share @ axis for share, axis in zip(shares, axes, strict=True)]
    variances = [
        share @ (axis - centre) ** 2
        for share, axis, centre in zip(shares, axes, means, strict=True)
    ]
    return np.log(evidence), means, variances


# Exact answers


@pytest.mark.parametrize("fit", [ref.dense_ep, ref.dense_kl])
def test_gaussian_outcomes_of_one_feature_are_regression(fit):
    x = np.array([1.0, -0.5, 1.0, 2.0, 1.0])
    problem = single_feature(ref.gaussian(0.6), [0.3, -1.0, 2.0, 0.7, 0.1], x)
    K = problem.covariances["a"].matrix(problem.times)
    noisy = x[:, None] * K * x + 0.6 * np.eye(5)
    result = fit(problem)
    evidence = multivariate_normal(np.zeros(5), noisy).logpdf(problem.outcomes)
    np.testing.assert_allclose(result.log_marginal_likelihood, evidence, rtol=1e-12)
    elsewhere = np.array([-1.0, 0.2, 1.4, 9.0])
    across = problem.covariances["a"].matrix(elsewhere, problem.times) * x
    mean, variance = result.predict("a", elsewhere)
    np.testing.assert_allclose(mean, across @ np.linalg.solve(noisy, problem.outcomes), atol=1e-12)
    reduction = np.einsum("te,et->t", across, np.linalg.solve(noisy, across.T))
    np.testing.assert_allclose(variance, 0.9 - reduction, atol=1e-12)


@pytest.mark.parametrize(
    ("likelihood", "outcome", "weight"),
    [
        (ref.probit(), -1.0, 1.0),
        (ref.ordinal_logit(margin=0.4), 0.0, 1.7),
        (ref.poisson(), 4.0, 0.4),
        (ref.student_t(4.0), 3.0, 1.0),
    ],
)
def test_ep_of_one_observation_is_exact(likelihood, outcome, weight):
    result = ref.dense_ep(duel(likelihood, outcome, weight))
    evidence, means, variances = tilted_moments(
        likelihood, outcome, (1.0, -0.7), (0.0, 0.0), (1.2, 0.4), weight
    )
    np.testing.assert_allclose(result.log_marginal_likelihood, evidence, rtol=1e-11)
    np.testing.assert_allclose(result.mean[0], means, atol=1e-11)
    np.testing.assert_allclose(result.variance[0], variances, atol=1e-11)


@pytest.mark.parametrize("likelihood", [ref.probit(), ref.skellam(0.2)], ids=lambda v: v.name)
def test_elbo_is_below_the_evidence(likelihood):
    problem = duel(likelihood, 1.0)
    evidence, _, _ = tilted_moments(likelihood, 1.0, (1.0, -0.7), (0.0, 0.0), (1.2, 0.4))
    gap = evidence - ref.dense_kl(problem).log_marginal_likelihood
    assert 0.0 < gap < 0.2


# What a fixed point is


def test_ep_matches_moments_of_every_tilted_distribution():
    problem = ref.random_league(ref.logit(), seed=4)
    result = ref.dense_ep(problem)
    pairs = [n for n, row in enumerate(problem.features) if len(row) == 2]
    assert len(pairs) >= 3
    for n in pairs:
        tau, nu = result.sites.precision[n, :2], result.sites.precision_mean[n, :2]
        mean, variance = result.mean[n, :2], result.variance[n, :2]
        cavity_precision = 1.0 / variance - tau
        cavity_mean = (mean / variance - nu) / cavity_precision
        _, means, variances = tilted_moments(
            problem.likelihood, problem.outcomes[n], (1.0, -1.0), cavity_mean, 1 / cavity_precision
        )
        np.testing.assert_allclose(mean, means, atol=1e-10)
        np.testing.assert_allclose(variance, variances, atol=1e-10)


@pytest.mark.parametrize(
    "likelihood", [ref.ordinal_probit(margin=0.3), ref.poisson()], ids=lambda v: v.name
)
def test_no_perturbation_raises_the_elbo(likelihood):
    covariance = ref.constant(0.1) + ref.matern12(0.2, 2.0)
    problem = ref.random_league(likelihood, seed=5, team_covariance=covariance, weighted=True)
    result = ref.dense_kl(problem)
    rng = np.random.default_rng(0)
    used = problem.coefficients != 0
    best, losses = result.log_marginal_likelihood, []
    for size in (1e-3, 1e-2, 0.1):
        for _ in range(5):
            moves = size * used * rng.normal(size=(2, *used.shape))
            sites = ref.Sites(
                np.maximum(result.sites.precision + moves[0], 0.0),
                result.sites.precision_mean + moves[1],
            )
            losses.append(best - result.objective(sites))
    # Stationary and concave there: the loss grows with the square of the perturbation.
    losses = np.array(losses).reshape(3, 5)
    assert np.all(losses > 0)
    assert losses[0].max() < 1e-3
    assert losses[1].min() > 10 * losses[0].max()


def test_ep_evidence_is_stationary_in_the_sites():
    problem = ref.random_league(ref.ordinal_logit(margin=0.3), seed=6)
    result = ref.dense_ep(problem)
    rng, used = np.random.default_rng(0), problem.coefficients != 0
    for _ in range(4):
        move = 1e-4 * used * rng.normal(size=(2, *used.shape))
        values = [
            result.objective(
                ref.Sites(
                    result.sites.precision + sign * move[0],
                    result.sites.precision_mean + sign * move[1],
                )
            )
            for sign in (1.0, -1.0)
        ]
        assert abs(values[0] - values[1]) / 2e-4 < 1e-6


@pytest.mark.parametrize("fit", [ref.dense_ep, ref.dense_kl])
def test_damping_and_order_change_nothing(fit):
    problem = ref.random_league(ref.student_t(4.0), seed=7, weighted=True)
    order = np.random.default_rng(1).permutation(len(problem.times))
    shuffled = dataclasses.replace(
        problem,
        times=problem.times[order],
        features=[problem.features[n] for n in order],
        outcomes=problem.outcomes[order],
        weights=problem.weights[order],
    )
    first, second = fit(problem, damping=0.2), fit(shuffled, damping=0.6)
    np.testing.assert_allclose(second.mean, first.mean[order], atol=1e-10)
    np.testing.assert_allclose(second.variance, first.variance[order], atol=1e-10)


# Weights


@pytest.mark.parametrize("fit", [ref.dense_ep, ref.dense_kl])
def test_weight_zero_removes_an_observation(fit):
    problem = ref.random_league(ref.probit(), seed=8, weighted=True)
    kept = np.flatnonzero(problem.weights)
    assert 0 < len(kept) < len(problem.weights)
    smaller = dataclasses.replace(
        problem,
        times=problem.times[kept],
        features=[problem.features[n] for n in kept],
        outcomes=problem.outcomes[kept],
        weights=problem.weights[kept],
    )
    full, part = fit(problem), fit(smaller)
    np.testing.assert_allclose(
        full.log_marginal_likelihood, part.log_marginal_likelihood, rtol=1e-11
    )
    np.testing.assert_allclose(full.mean[kept], part.mean, atol=1e-10)


@pytest.mark.parametrize("fit", [ref.dense_ep, ref.dense_kl])
def test_weight_of_gaussian_outcomes_divides_the_variance(fit):
    problem = single_feature(ref.gaussian(0.6), [0.3, -1.0, 2.0, 0.7, 0.1])
    weighted = fit(dataclasses.replace(problem, weights=np.full(5, 2.5)))
    narrower = fit(dataclasses.replace(problem, likelihood=ref.gaussian(0.6 / 2.5)))
    np.testing.assert_allclose(weighted.mean, narrower.mean, atol=1e-12)
    np.testing.assert_allclose(weighted.variance, narrower.variance, atol=1e-12)


def test_unobserved_feature_keeps_its_prior():
    problem = ref.random_league(ref.probit(), seed=9)
    mean, variance = ref.dense_ep(problem).predict("absent", [0.0, 3.0])
    np.testing.assert_array_equal(mean, 0.0)
    np.testing.assert_allclose(variance, 1.1)


def test_a_plain_function_is_a_likelihood():
    problem = ref.random_league(ref.logit(), seed=10)
    plain = dataclasses.replace(problem, likelihood=problem.likelihood.log_prob)
    for fit in (ref.dense_ep, ref.dense_kl):
        np.testing.assert_allclose(fit(plain, tol=1e-11).mean, fit(problem).mean, atol=1e-9)
