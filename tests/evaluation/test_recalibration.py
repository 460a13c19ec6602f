"""Recalibration of forecasts by earlier ones."""

import numpy as np
import pytest
import scipy.optimize

import jaxkick as jk
from jaxkick import evaluation as ev
from jaxkick.evaluation.recalibration import recalibrate


def simulated(count=3000, slope=0.6, offset=0.4, seed=0):
    """Forecasts of loss, tie and win whose true log-odds are `slope` times as large."""
    rng = np.random.default_rng(seed)
    logits = np.stack([np.zeros(count), rng.normal(-0.5, 0.3, count), rng.normal(0, 2, count)], 1)
    probabilities = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    truth = np.exp(slope * logits + offset * np.array([0, 1, 0]))
    truth /= truth.sum(axis=1, keepdims=True)
    labels = (rng.uniform(size=(count, 1)) > np.cumsum(truth, axis=1)).sum(axis=1)
    return probabilities, labels, np.arange(count) // 100


def best(probabilities, labels, tie):
    """The maximum of the penalized log-probability, by another optimizer."""

    def loss(theta):
        logs = theta[0] * np.log(probabilities)
        logs[:, 1] += theta[1] * tie
        chosen = logs[np.arange(len(labels)), labels]
        prior = 0.5 * ((theta[0] - 1) ** 2 + theta[1] ** 2) / 0.2**2
        return np.sum(np.log(np.exp(logs).sum(axis=1)) - chosen) + prior

    options = {"xatol": 1e-9, "fatol": 1e-10, "maxiter": 10_000}
    return scipy.optimize.minimize(loss, [1.0, 0.0], method="Nelder-Mead", options=options).x


def test_equals_a_general_optimizer_on_earlier_blocks():
    probabilities, labels, blocks = simulated()
    found, by = recalibrate(probabilities, labels, blocks, tie=1)
    for block in (1, 7, 29):
        here, past = np.argmax(blocks == block), blocks < block
        slope, offset = best(probabilities[past], labels[past], tie=1.0)
        np.testing.assert_allclose(
            [by.slope[here], by.tie_offset[here]], [slope, offset], rtol=1e-4
        )
        expected = probabilities[here] ** slope * np.exp(offset * np.array([0, 1, 0]))
        np.testing.assert_allclose(found[here], expected / expected.sum(), rtol=1e-4)
    np.testing.assert_allclose(found[:100], probabilities[:100], rtol=1e-14)
    np.testing.assert_allclose(by.current, [0.6, 0.4], atol=0.1)
    log_loss = [ev.log_loss(each, labels).mean() for each in (found, probabilities)]
    assert log_loss[0] < log_loss[1] - 0.02


def test_two_outcomes_have_no_offset():
    probabilities, labels, blocks = simulated()
    pairs = probabilities[:, ::2] / probabilities[:, ::2].sum(axis=1, keepdims=True)
    found, by = recalibrate(pairs, labels // 2, blocks, tie=None)
    np.testing.assert_array_equal(by.tie_offset, 0.0)
    odds = [np.log(each[:, 1] / each[:, 0]) for each in (found, pairs)]
    np.testing.assert_allclose(odds[0], by.slope * odds[1], rtol=1e-9)


def test_uses_no_later_outcome():
    probabilities, labels, blocks = simulated(1000)
    changed = np.where(blocks < 6, labels, 2 - labels)
    one, two = (recalibrate(probabilities, each, blocks, 1)[0] for each in (labels, changed))
    np.testing.assert_array_equal(one[blocks <= 6], two[blocks <= 6])
    assert np.abs(one[blocks > 6] - two[blocks > 6]).max() > 0.01


def test_in_a_backtest():
    rng = np.random.default_rng(1)
    sides = np.array([rng.choice(6, 2, replace=False) for _ in range(200)])
    data = jk.Dataset.from_pairs(np.arange(200.0), *sides.T, rng.choice([-1.0, 1.0], 200))
    # Skills that do not exist: forecasts are far too sure.
    model = jk.Model(jk.kernels.Wiener(1.0), jk.likelihoods.Probit())
    blocks = lambda times: times // 10  # noqa: E731
    plain = ev.walk_forward(model, data, 50.0, every=blocks)
    found = ev.walk_forward(model, data, 50.0, every=blocks, recalibrate=True)
    np.testing.assert_array_equal(found.recalibration.original, plain.probabilities)
    np.testing.assert_array_equal(found.probabilities, plain.recalibrated().probabilities)
    np.testing.assert_array_equal(found.probabilities, found.recalibrated().probabilities)
    summary = found.summary(resamples=10)
    assert summary.recalibration_slope < 0.7
    assert summary.original_log_loss.value > summary.log_loss.value + 0.05
    assert summary.original_log_loss.value == plain.summary(resamples=10).log_loss.value
    assert "recalibration slope        0." in str(summary)
    assert "recalibration" not in str(plain.summary(resamples=10))


def test_errors():
    races = {"race": [1, 1, 2, 2], "day": [0.0, 0.0, 1.0, 1.0], "who": list("abab")}
    data = jk.Dataset.from_rankings(
        {**races, "rank": [1, 2, 2, 1]}, event="race", time="day", competitor="who", rank="rank"
    )
    with pytest.raises(jk.DataError, match="`recalibrate` is True, but the data are rankings"):
        ev.walk_forward(None, data, 1.0, every=np.floor, recalibrate=True)
    forecasts = ev.Forecasts(*[np.zeros(1)] * 6, (), *[np.zeros((1, 0))] * 3)
    with pytest.raises(jk.DataError, match="no levels and no results to recalibrate"):
        forecasts.recalibrated()
