"""Full relative accuracy of every entry, for gaps however short or long."""

import math
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special

from jaxkick._math.special import FAR, incomplete_gammas, scaled_bessels
from jaxkick.kernels import Cosine, Matern12, Matern32, Matern52
from tests.kernels.zoo import evaluate

# Gaps in units of the lengthscale; all are exact in float32.
GAPS = np.array([2.0**power for power in (-30, -20, -10, -5, -3, -2, -1, 0, 1)])


def exact_noise(smoothness, gap):
    """Q of a Matérn kernel of unit variance and unit rate, by an exact sum of its series.

    Q = Σ_k gap^{k+1}/(k+1)! D_k with D_0 = L q Lᵀ and D_{k+1} = F D_k + D_k Fᵀ, in fractions.
    """
    size, gap = smoothness + 1, Fraction(gap)
    drift = np.array(
        [[Fraction((j == i + 1) - (j == i)) for j in range(size)] for i in range(size)]
    )
    term = np.array([[Fraction(i == j == smoothness) for j in range(size)] for i in range(size)])
    total, factor = 0 * term, gap
    for k in range(60):
        total = total + factor * term
        term = drift @ term + (drift @ term).T
        factor = factor * gap / (k + 2)
    # The density that makes the variance of the score one.
    density = 2.0 ** (2 * smoothness + 1) / math.comb(2 * smoothness, smoothness)
    return density * total.astype(float)


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 3e-15), (np.float32, 1.5e-6)])
@pytest.mark.parametrize("kind", [Matern12, Matern32, Matern52])
def test_matern_noise_has_full_relative_accuracy(kind, dtype, tolerance):
    # A lengthscale that makes the normalised time the time itself.
    kernel = kind(1.0, math.sqrt(2 * kind.smoothness + 1))
    values = evaluate(kernel, 0.0, GAPS, dtype, dense=dtype == np.float64)
    for gap, found in zip(GAPS, values["Q"], strict=True):
        expected = exact_noise(kind.smoothness, gap)
        known = expected > 1e-35
        error = np.abs(found[known] / expected[known] - 1.0)
        assert np.max(error) < tolerance


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 3e-14), (np.float32, 1e-6)])
def test_incomplete_gammas(dtype, tolerance):
    x = np.concatenate([np.logspace(-7, 2.9, 300), [0.0, FAR]]).astype(dtype)
    for count in (1, 3, 5):
        found = jax.vmap(lambda x, count=count: incomplete_gammas(x, count))(jnp.asarray(x))
        for n, values in enumerate(found, start=1):
            expected = scipy.special.gammainc(n, 2.0 * x.astype(np.float64))
            np.testing.assert_allclose(values, expected, rtol=tolerance, atol=1e-36)


def test_slopes_of_incomplete_gammas():
    x = jnp.logspace(-6, 2.0, 50)
    slopes = jax.vmap(jax.jacfwd(lambda x: incomplete_gammas(x, 5)))(x)
    for n, slope in enumerate(slopes, start=1):
        y = 2.0 * np.asarray(x)
        expected = 2.0 * np.exp(-y + (n - 1) * np.log(y) - scipy.special.gammaln(n))
        np.testing.assert_allclose(slope, expected, rtol=1e-12)


@pytest.mark.parametrize("x", [1e-6, 0.04, 1.0, 11.0, 100.0, 400.0])
def test_scaled_bessels(x):
    expected = scipy.special.ive(np.arange(9), x)
    np.testing.assert_allclose(scaled_bessels(jnp.asarray(x), 8), expected, atol=1e-16, rtol=1e-12)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("kind", [Matern12, Matern32, Matern52])
def test_nothing_overflows_over_very_many_lengthscales(kind, dtype):
    values = evaluate(kind(2.0, 1e-3), 0.0, np.array([1e9]), dtype, dense=dtype == np.float64)
    assert np.all(values["A"][0] == 0.0)
    assert values.get("k", [0.0])[0] == 0.0
    np.testing.assert_allclose(values["Q"][0], values["P_start"][0], rtol=1e-6)


def test_a_whole_number_of_periods_is_no_rotation():
    values = evaluate(Cosine(1.0, 0.25), 0.0, np.array([1e9, 12.5, 0.0625]))
    np.testing.assert_array_equal(values["A"][0], np.eye(2))
    np.testing.assert_array_equal(values["A"][1], np.eye(2))
    np.testing.assert_allclose(values["A"][2], [[0.0, 1.0], [-1.0, 0.0]], atol=1e-15)
