"""The reference likelihoods and integrals, against closed forms and QUADPACK."""

import itertools

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import minimize_scalar
from scipy.special import erfcx, gammaln, log_ndtr, ndtr
from scipy.stats import norm
from scipy.stats import skellam as scipy_skellam
from scipy.stats import t as scipy_t

from tests import reference as ref

LIKELIHOODS = {
    "probit": (ref.probit(), (1.0, -1.0)),
    "logit": (ref.logit(), (1.0, -1.0)),
    "ordinal_probit": (ref.ordinal_probit(margin=0.4), (1.0, 0.0, -1.0)),
    "ordinal_logit": (ref.ordinal_logit(margin=0.4), (1.0, 0.0, -1.0)),
    "probit_cuts": (ref.ordinal_probit(cuts=[-1.0, 0.1, 0.7]), (0.0, 1.0, 3.0)),
    "logit_cuts": (ref.ordinal_logit(cuts=[-1.0, 0.1, 0.7]), (0.0, 2.0, 3.0)),
    "gaussian": (ref.gaussian(2.0), (1.5, -30.0)),
    "poisson": (ref.poisson(), (0.0, 3.0, 60.0)),
    "skellam": (ref.skellam(0.5), (0.0, 4.0, -9.0)),
    "student_t": (ref.student_t(4.0, 0.7), (0.3, 9.0)),
}
CASES = [(name, y) for name, (_, outcomes) in LIKELIHOODS.items() for y in outcomes]
GRID = tuple(
    axis.ravel() for axis in np.meshgrid([-10.0, -2.0, 0.0, 0.7, 10.0], [1e-3, 0.1, 3.0, 100.0])
)
EXTREMES = tuple(axis.ravel() for axis in np.meshgrid([-40.0, 0.3, 40.0], [1e-6, 1.0, 1e4]))


def assert_derivatives(got, want, tolerance):
    for actual, desired in zip(got, want, strict=True):
        np.testing.assert_allclose(actual, desired, rtol=tolerance, atol=tolerance)


# Likelihoods


@pytest.mark.parametrize(("name", "y"), CASES)
def test_slopes_and_curvatures_are_derivatives(name, y):
    likelihood = LIKELIHOODS[name][0]
    f = np.linspace(-6.0, 6.0, 25)
    # Fourth-order central differences.
    step, weights = 1e-3, np.array([1.0, -8.0, 8.0, -1.0]) / 12.0
    offsets = step * np.array([-2.0, -1.0, 1.0, 2.0])[:, None]
    for function, derivative in (
        (likelihood.log_prob, likelihood.slope),
        (likelihood.slope, likelihood.curvature),
    ):
        difference = weights @ function(y, f + offsets) / step
        np.testing.assert_allclose(derivative(y, f), difference, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize(
    ("likelihood", "outcomes"),
    [
        (ref.probit(), [-1, 1]),
        (ref.logit(), [-1, 1]),
        (ref.ordinal_probit(margin=0.4), [-1, 0, 1]),
        (ref.ordinal_logit(margin=0.4), [-1, 0, 1]),
        (ref.ordinal_probit(cuts=[-1.0, 0.1, 0.7]), range(4)),
        (ref.ordinal_logit(cuts=[-1.0, 0.1, 0.7]), range(4)),
        (ref.poisson(), range(120)),
        (ref.skellam(0.5), range(-120, 121)),
    ],
)
def test_probabilities_of_all_outcomes_sum_to_one(likelihood, outcomes):
    f = np.linspace(-3.0, 3.0, 7)
    total = sum(np.exp(likelihood(y, f)) for y in outcomes)
    np.testing.assert_allclose(total, 1.0, rtol=1e-12)


def test_log_probs_follow_their_definitions():
    f = np.linspace(-3.0, 3.0, 7)
    logistic = 1.0 / (1.0 + np.exp(-(f - 0.4)))
    np.testing.assert_allclose(np.exp(ref.probit()(1.0, f)), ndtr(f), rtol=1e-12)
    np.testing.assert_allclose(
        np.exp(ref.ordinal_probit(margin=0.4)(-1.0, f)), ndtr(-f - 0.4), rtol=1e-12
    )
    np.testing.assert_allclose(np.exp(ref.ordinal_logit(margin=0.4)(1.0, f)), logistic, rtol=1e-12)
    at_least_two = sum(np.exp(ref.ordinal_probit(cuts=[-1.0, 0.1, 0.7])(k, f)) for k in (2, 3))
    np.testing.assert_allclose(at_least_two, ndtr(f - 0.1), rtol=1e-12)
    np.testing.assert_allclose(
        ref.skellam(0.5)(4.0, f),
        scipy_skellam.logpmf(4, np.exp(0.5 + f), np.exp(0.5 - f)),
        rtol=1e-9,
    )
    np.testing.assert_allclose(
        ref.student_t(4.0, 0.7)(1.3, f), scipy_t.logpdf(1.3, 4.0, f, 0.7), rtol=1e-12
    )


# Integrals


def adaptive_log_partition(likelihood, y, mean, variance):
    """Log Z and its derivatives by QUADPACK around the peak of the tilted density."""
    deviation = np.sqrt(variance)

    def height(z):
        return float(likelihood(y, mean + deviation * z)) - 0.5 * z**2

    grid = np.linspace(-45.0, 45.0, 9001)
    with np.errstate(over="ignore"):
        coarse = grid[np.argmax(likelihood(y, mean + deviation * grid) - 0.5 * grid**2)]
    found = minimize_scalar(lambda z: -height(z), bounds=(coarse - 0.02, coarse + 0.02))
    centre, peak = found.x, -found.fun
    step = 1e-3
    curve = (2 * peak - height(centre - step) - height(centre + step)) / step**2
    width = 1.0 / np.sqrt(max(curve, 1.0))

    def moment(power):
        def integrand(x):
            return x**power * np.exp(height(centre + width * x) - peak)

        edges = [-30.0, -10.0, -5.0, -2.0, 0.0, 2.0, 5.0, 10.0, 30.0]
        spans = [edge if abs(edge) < 30 else edge / width for edge in edges]
        return sum(
            quad(integrand, low, high, epsabs=1e-15, epsrel=1e-13, limit=400)[0]
            for low, high in itertools.pairwise(spans)
        )

    zeroth, first, second = (moment(power) for power in range(3))
    shift = centre + width * first / zeroth
    spread = width**2 * (second / zeroth - (first / zeroth) ** 2)
    value = peak + np.log(zeroth * width / np.sqrt(2 * np.pi))
    return value, shift / deviation, (spread - 1.0) / variance


@pytest.mark.parametrize(("name", "y"), CASES)
def test_log_partition_equals_adaptive_quadrature(name, y):
    likelihood = LIKELIHOODS[name][0]
    means, variances = [-3.0, 0.4, 1.5], [2.0, 0.3, 20.0]
    got = ref.log_partition(likelihood, y, means, variances)
    want = [
        adaptive_log_partition(likelihood, y, m, v) for m, v in zip(means, variances, strict=True)
    ]
    assert_derivatives(got, np.transpose(want), 1e-11)


@pytest.mark.parametrize("grid", [GRID, EXTREMES], ids=["usual", "extreme"])
def test_log_partition_equals_closed_forms(grid):
    mean, variance = grid
    deviation = np.sqrt(1.0 + variance)
    z = mean / deviation
    ratio = np.sqrt(2.0 / np.pi) / erfcx(-z / np.sqrt(2.0))
    probit = (log_ndtr(z), ratio / deviation, -ratio * (z + ratio) / deviation**2)
    assert_derivatives(ref.log_partition(ref.probit(), 1.0, mean, variance), probit, 1e-11)
    total = 2.0 + variance
    gaussian = (norm.logpdf(5.0, mean, np.sqrt(total)), (5.0 - mean) / total, -1.0 / total)
    assert_derivatives(ref.log_partition(ref.gaussian(2.0), 5.0, mean, variance), gaussian, 1e-11)


@pytest.mark.parametrize(("name", "y"), CASES)
def test_log_partition_from_values_alone_agrees_with_slopes(name, y):
    likelihood = LIKELIHOODS[name][0]
    mean, variance = GRID
    for weight in (1.0, 0.3, 2.5):
        full = ref.log_partition(likelihood, y, mean, variance, weight)
        plain = ref.log_partition(likelihood.log_prob, y, mean, variance, weight)
        assert_derivatives(plain, full, 1e-9)


def test_log_partition_survives_extremes():
    mean, variance = EXTREMES
    for likelihood, outcomes in LIKELIHOODS.values():
        for y in outcomes:
            assert np.all(np.isfinite(ref.log_partition(likelihood, y, mean, variance)))


def test_weight_zero_forgets_the_outcome():
    got = ref.log_partition(ref.poisson(), 3.0, *GRID, weight=0.0)
    assert_derivatives(got, np.zeros((3, GRID[0].size)), 1e-12)


def test_expectation_equals_closed_forms():
    mean, variance = GRID
    rate, ones = np.exp(mean + variance / 2), np.ones_like(mean)
    poisson = (3.0 * mean - rate - gammaln(4.0), 3.0 - rate, -rate)
    assert_derivatives(ref.expectation(ref.poisson(), 3.0, mean, variance), poisson, 1e-12)
    squares = (5.0 - mean) ** 2 + variance
    gaussian = (
        -0.5 * np.log(2 * np.pi * 2.0) - squares / 4.0,
        (5.0 - mean) / 2.0,
        -0.5 * ones,
    )
    assert_derivatives(ref.expectation(ref.gaussian(2.0), 5.0, mean, variance), gaussian, 1e-12)


@pytest.mark.parametrize(("name", "y"), CASES)
def test_expectation_equals_adaptive_quadrature(name, y):
    likelihood = LIKELIHOODS[name][0]
    mean, variance = 0.7, 1.3
    functions = (likelihood.log_prob, likelihood.slope, likelihood.curvature)
    want = [
        quad(
            lambda f, function=function: function(y, f) * norm.pdf(f, mean, np.sqrt(variance)),
            mean - 15.0,
            mean + 15.0,
            points=[mean, 0.0],
            epsabs=1e-13,
            epsrel=1e-13,
            limit=400,
        )[0]
        for function in functions
    ]
    got = ref.expectation(likelihood, y, mean, variance)
    plain = ref.expectation(likelihood.log_prob, y, mean, variance)
    assert_derivatives(got, [[value] for value in want], 1e-11)
    assert_derivatives(plain, got, 1e-10)


def test_expectation_refuses_what_overflows():
    with pytest.raises(ValueError, match="does not decay"):
        ref.expectation(ref.poisson(), 3.0, 0.0, 1e4)
