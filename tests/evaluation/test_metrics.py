"""Metrics against plain loops, intervals against standard errors."""

import dataclasses
import math

import numpy as np
import pytest

from jaxkick import evaluation as ev

RNG = np.random.default_rng(0)
PROBABILITIES = RNG.dirichlet([1.0, 0.5, 2.0], 50)
LABELS = RNG.integers(0, 3, 50)


def test_metrics_equal_plain_loops():
    for probabilities, label, n in zip(PROBABILITIES, LABELS, range(50), strict=True):
        one = (PROBABILITIES[[n]], LABELS[[n]])
        happened = [float(k == label) for k in range(3)]
        assert ev.log_loss(*one)[0] == pytest.approx(-math.log(probabilities[label]))
        squares = [(p - y) ** 2 for p, y in zip(probabilities, happened, strict=True)]
        assert ev.brier_score(*one)[0] == pytest.approx(sum(squares) / 2)
        up = [sum(probabilities[:k]) - sum(happened[:k]) for k in (1, 2)]
        assert ev.ranked_probability_score(*one)[0] == pytest.approx((up[0] ** 2 + up[1] ** 2) / 2)
        assert ev.accuracy(*one)[0] == (label == max(range(3), key=lambda k: probabilities[k]))


def test_squared_errors_of_two_levels():
    win = RNG.random(20)
    probabilities, labels = np.stack([1 - win, win], 1), RNG.integers(0, 2, 20)
    for score in (ev.brier_score, ev.ranked_probability_score):
        np.testing.assert_allclose(score(probabilities, labels), (win - labels) ** 2)


def test_accuracy_of_equally_probable_levels():
    probabilities = np.array([[0.5, 0.5, 0.0], [1 / 3, 1 / 3, 1 / 3]])
    np.testing.assert_allclose(ev.accuracy(probabilities, np.array([0, 1])), [0.5, 1 / 3])


def test_log_loss_is_finite():
    assert np.isfinite(ev.log_loss(np.array([[0.0, 1.0]]), np.array([0])))[0]


@pytest.mark.parametrize(
    ("probabilities", "labels", "message"),
    [
        ([[0.5, 0.5], [0.5, 0.5]], [1, -1], "Row 1: `labels` is -1, .* from 0 to 1"),
        ([[0.5, 0.5]], [0.5], "Row 0: `labels` is 0.5"),
        ([[0.5, 0.5], [0.5, np.nan]], [1, 1], "Row 1: `probabilities` is not finite"),
        ([0.5, 0.5], [1, 1], "one row of probabilities and one label for each match"),
    ],
)
def test_invalid_labels_and_probabilities(probabilities, labels, message):
    """As an index, -1 would count as the last level, a win."""
    for score in (ev.log_loss, ev.accuracy, ev.brier_score, ev.ranked_probability_score):
        with pytest.raises(ValueError, match=message):
            score(np.array(probabilities), np.array(labels))
    with pytest.raises(ValueError, match=message):
        ev.calibration_curve(np.array(probabilities), np.array(labels), np.zeros(len(labels)))


def test_intervals_agree_with_standard_errors_over_blocks():
    shared = np.repeat(RNG.normal(size=300), 4)
    values = shared + 0.1 * RNG.normal(size=1200)
    blocks = np.repeat(np.arange(300), 4)
    found = ev.bootstrap_mean(values, blocks, resamples=4000)
    error = values.reshape(300, 4).mean(1).std() / math.sqrt(300)
    assert found.value == pytest.approx(values.mean())
    assert found.lower == pytest.approx(values.mean() - 1.96 * error, abs=0.1 * error)
    assert found.upper == pytest.approx(values.mean() + 1.96 * error, abs=0.1 * error)
    # With 1,200 independent matches the interval would be half as wide.
    alone = ev.bootstrap_mean(values, np.arange(1200), resamples=4000)
    assert alone.upper - alone.lower < 0.6 * (found.upper - found.lower)


@pytest.mark.parametrize("num_blocks", [1, 2, 9])
def test_intervals_of_few_blocks_are_those_of_matches(num_blocks):
    values = np.random.default_rng(3).normal(size=400)
    found = ev.bootstrap_mean(values, np.arange(400) % num_blocks, resamples=4000)
    error = values.std() / math.sqrt(400)
    assert found.upper - found.lower == pytest.approx(2 * 1.96 * error, rel=0.1)
    both = np.tile([0.4, 0.6], (400, 1))
    curve = ev.calibration_curve(both, (values > 0).astype(int), np.arange(400) % num_blocks)
    assert curve.error.upper > curve.error.lower


@pytest.mark.parametrize("row", [[40.0, 60.0], [0.6, 0.6], [1.2, -0.2]])
def test_numbers_that_are_not_probabilities(row):
    with pytest.raises(ValueError, match=r"Row 1: `probabilities` is .* with a sum of 1"):
        ev.log_loss(np.array([[0.4, 0.6], row]), np.array([0, 1]))


def test_calibration_of_two_bins():
    win = np.array([0.1, 0.1, 0.2, 0.8, 0.9, 0.9])
    probabilities, labels = np.stack([1 - win, win], 1), np.array([0, 0, 1, 1, 1, 0])
    found = ev.calibration_curve(probabilities, labels, np.arange(6), bins=2, resamples=50)
    np.testing.assert_allclose(found.predicted, [0.4 / 3, 2.6 / 3])
    np.testing.assert_allclose(found.observed, [1 / 3, 2 / 3])
    np.testing.assert_array_equal(found.counts, [6, 6])
    assert found.error.value == pytest.approx(0.2)


def test_calibration_of_calibrated_probabilities():
    win = RNG.beta(2, 2, 20_000)
    labels = (RNG.random(20_000) < win).astype(int)
    found = ev.calibration_curve(
        np.stack([1 - win, win], 1), labels, np.arange(20_000), resamples=400
    )
    inside = (found.lower <= found.predicted) & (found.predicted <= found.upper)
    assert inside.sum() >= 8  # of ten intervals of 95 %
    assert found.error.value < 0.015
    too_sure = np.clip(2 * win - 0.5, 0.01, 0.99)
    other = ev.calibration_curve(
        np.stack([1 - too_sure, too_sure], 1), labels, np.arange(20_000), resamples=50
    )
    assert other.error.value > 0.1


def test_calibration_does_not_depend_on_who_is_named_first():
    win = RNG.beta(2, 2, 20_000)
    labels = (RNG.random(20_000) < win).astype(int)
    both, blocks = np.stack([1 - win, win], 1), np.arange(20_000)
    winner_first = np.where(labels[:, None] == 1, both, both[:, ::-1])
    one = ev.calibration_curve(both, labels, blocks, resamples=2)
    other = ev.calibration_curve(winner_first, np.ones_like(labels), blocks, resamples=2)
    assert other.error.value < 0.02
    np.testing.assert_allclose(one.observed, other.observed)
    np.testing.assert_allclose(one.predicted, other.predicted)


def test_equal_probabilities_make_one_bin():
    found = ev.calibration_curve(
        np.full((40, 3), 1 / 3), np.zeros(40, int), np.arange(40), resamples=20
    )
    np.testing.assert_allclose(found.predicted, [1 / 3])
    np.testing.assert_allclose(found.observed, [1 / 3])


def forecasts(win, labels, rows):
    return ev.Forecasts(
        rows=rows,
        times=rows,
        blocks=rows,
        outcome=2.0 * labels - 1,
        mean=win,
        variance=win,
        levels=(-1.0, 1.0),
        probabilities=np.stack([1 - win, win], 1),
        labels=labels,
        log_prob=np.log(np.where(labels == 1, win, 1 - win)),
    )


def test_comparison_is_paired():
    rows = RNG.permutation(400)
    win = RNG.beta(4, 4, 400)
    labels = (RNG.random(400) < win).astype(int)
    better, worse = forecasts(win, labels, rows), forecasts(0.5 + 0.9 * (win - 0.5), labels, rows)
    found = ev.compare(better, worse)
    difference = better.log_losses - worse.log_losses
    error = difference.std() / 20
    assert found.difference.value == pytest.approx(difference.mean())
    assert found.difference.upper - found.difference.lower == pytest.approx(3.92 * error, rel=0.1)
    assert found.wins == np.mean(difference < 0)
    order = np.argsort(rows)
    sorted_worse = forecasts(0.5 + 0.9 * (win - 0.5)[order], labels[order], rows[order])
    assert ev.compare(better, sorted_worse).difference.value == pytest.approx(difference.mean())
    assert ev.compare(worse, better).probability_better == pytest.approx(
        1 - found.probability_better
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"confidence": 95}, "`confidence` is 95"),
        ({"resamples": 0}, "`resamples` is 0, but must be"),
    ],
)
def test_options_of_intervals(options, message):
    made = forecasts(np.full(4, 0.6), np.ones(4, int), np.arange(4))
    for ask in (made.summary, made.calibration, lambda **given: ev.compare(made, made, **given)):
        with pytest.raises(ValueError, match=message):
            ask(**options)
    with pytest.raises(ValueError, match="`bins` is 0, but must be at least 1"):
        made.summary(bins=0)


def test_comparison_needs_the_same_matches():
    rows = np.arange(4)
    win, labels = np.full(4, 0.6), np.ones(4, int)
    one = forecasts(win, labels, rows)
    with pytest.raises(ValueError, match="different matches"):
        ev.compare(one, forecasts(win, labels, rows + 1))
    with pytest.raises(ValueError, match="Row 0: The forecasts are of different outcomes"):
        ev.compare(one, forecasts(win, 1 - labels, rows))
    stars = dataclasses.replace(one, levels=(0.0, 1.0))
    with pytest.raises(ValueError, match="different levels"):
        ev.compare(one, stars)


def test_results_with_and_without_ties_are_comparable():
    rows, labels = np.arange(4), np.array([0, 1, 1, 0])
    two = forecasts(np.full(4, 0.6), labels, rows)
    three = dataclasses.replace(
        two,
        levels=(-1.0, 0.0, 1.0),
        probabilities=np.tile([0.3, 0.2, 0.5], (4, 1)),
        labels=2 * labels,
    )
    expected = np.mean(np.log(np.where(labels, 0.5, 0.3)) - np.log(np.where(labels, 0.6, 0.4)))
    assert ev.compare(two, three).difference.value == pytest.approx(expected)
