"""The state spaces of the two approximate kernels against their covariances."""

import numpy as np
import pytest

from benchmarks.fit_squared_exponential import Fit
from benchmarks.fit_squared_exponential import covariance as filter_covariance
from jaxkick.kernels import Constant, Matern32, Periodic, SquaredExponential
from jaxkick.kernels.stationary import _FILTERS, _readout
from tests.kernels.zoo import evaluate

LAGS = np.linspace(0.0, 9.0, 1500)
ERRORS = {1: 0.16, 2: 0.07, 3: 0.045, 4: 0.022, 5: 8.3e-3, 6: 2.6e-3}
ERRORS |= {7: 1.2e-3, 8: 2.9e-4, 9: 1.1e-4, 10: 5.1e-5, 11: 2.0e-5, 12: 8.5e-6}


def largest_error(kernel, lags):
    values = evaluate(kernel, 0.0, lags)
    return np.max(np.abs(values["k"] - values["k_state"]))


def test_error_of_every_squared_exponential_filter():
    for order, bound in ERRORS.items():
        rate, _ = _FILTERS[order]
        found = filter_covariance(rate, np.array(_readout(order)), LAGS)
        error = np.max(np.abs(found - np.exp(-0.5 * LAGS**2)))
        assert 0.7 * bound < error < bound
        assert found[0] == pytest.approx(1.0, abs=1e-12)
    assert list(_FILTERS) == list(ERRORS)


@pytest.mark.parametrize("order", [3, 6, 9])
def test_squared_exponential_error_falls_with_the_order(order):
    assert largest_error(SquaredExponential(2.0, 0.5, order=order), 0.5 * LAGS) < 2 * ERRORS[order]


def test_squared_exponential_filters_are_smooth():
    # The impulse response Σ h_k L_k(2x) exp(−x) starts with a zero value and slope.
    for order in range(3, 13):
        h = np.array(_readout(order))
        assert abs(np.sum(h)) < 1e-8
        assert abs(np.arange(order) @ h) < 1e-7


@pytest.mark.parametrize("order", [2, 5, 6])
def test_squared_exponential_filters_are_best_near_by(order):
    problem = Fit(order)
    point = problem.pack(_FILTERS[order][0], np.array(_readout(order)))
    improved = problem.minimax(point, steps=10)
    assert problem.largest(improved) > 0.999 * problem.largest(point)


def test_periodic_error_falls_with_the_order():
    lags = np.linspace(0.0, 3.0, 1500)
    errors = [largest_error(Periodic(2.0, 0.5, 1.5, order=order), lags) for order in (2, 4, 6)]
    for error, bound in zip(errors, (0.8, 0.11, 8e-3), strict=True):
        assert 0.5 * bound < error < bound
    assert largest_error(Periodic(2.0, 1.0, 1.5), lags) < 2 * 3e-6
    assert largest_error(Periodic(2.0, 3.0, 1.5), lags) < 1e-11


def test_variance_is_exact_whatever_the_order():
    for kernel in (Periodic(2.0, 0.05, 1.5, order=1), SquaredExponential(2.0, 0.3, order=2)):
        values = evaluate(kernel, 0.0, np.zeros(1))
        assert values["k_state"][0] == pytest.approx(2.0, rel=1e-14)


def test_orders_out_of_range_are_refused():
    with pytest.raises(ValueError, match="`order` must be an integer from 1 to 12, not 13"):
        SquaredExponential(1.0, 1.0, order=13)
    with pytest.raises(ValueError, match="`order` must be an integer from 1 to 100, not 0"):
        Periodic(1.0, 1.0, 1.0, order=0)


def test_dimensions():
    assert SquaredExponential(1.0, 1.0).state_dim == 6
    assert Periodic(1.0, 1.0, 1.0).state_dim == 13
    product = Periodic(1.0, 1.0, 1.0, order=2) * Matern32(1.0, 1.0) * 3.0
    assert (Constant(1.0) + product).state_dim == 11
