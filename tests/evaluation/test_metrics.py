"""Metrics against loops by hand, intervals against standard errors."""

import math

import numpy as np
import pytest

from jaxkick import evaluation as ev

RNG = np.random.default_rng(0)
PROBABILITIES = RNG.dirichlet([1.0, 0.5, 2.0], 50)
PLACES = RNG.integers(0, 3, 50)


def test_losses_by_hand():
    for probabilities, place, n in zip(PROBABILITIES, PLACES, range(50), strict=True):
        one = (PROBABILITIES[[n]], PLACES[[n]])
        happened = [float(k == place) for k in range(3)]
        assert ev.log_loss(*one)[0] == pytest.approx(-math.log(probabilities[place]))
        squares = [(p - y) ** 2 for p, y in zip(probabilities, happened, strict=True)]
        assert ev.brier_score(*one)[0] == pytest.approx(sum(squares) / 2)
        up = [sum(probabilities[:k]) - sum(happened[:k]) for k in (1, 2)]
        assert ev.ranked_probability_score(*one)[0] == pytest.approx((up[0] ** 2 + up[1] ** 2) / 2)
        assert ev.accuracy(*one)[0] == (place == max(range(3), key=lambda k: probabilities[k]))


def test_two_levels_have_one_squared_error():
    win = RNG.random(20)
    probabilities, places = np.stack([1 - win, win], 1), RNG.integers(0, 2, 20)
    for score in (ev.brier_score, ev.ranked_probability_score):
        np.testing.assert_allclose(score(probabilities, places), (win - places) ** 2)


def test_ties_among_the_most_probable_share_the_point():
    probabilities = np.array([[0.5, 0.5], [1 / 3, 1 / 3]])
    np.testing.assert_allclose(ev.accuracy(probabilities, np.array([0, 1])), [0.5, 0.5])


def test_a_certain_error_is_finite():
    assert np.isfinite(ev.log_loss(np.array([[0.0, 1.0]]), np.array([0])))[0]


@pytest.mark.parametrize(
    ("probabilities", "places", "message"),
    [
        ([[0.5, 0.5], [0.5, 0.5]], [1, -1], "`places` is -1 in row 1, .* from 0 to 1"),
        ([[0.5, 0.5]], [0.5], "`places` is 0.5 in row 0"),
        ([[0.5, 0.5], [0.5, np.nan]], [1, 1], "`probabilities` holds no number in row 1"),
        ([0.5, 0.5], [1, 1], "one row of probabilities, and one place, for each match"),
    ],
)
def test_what_is_no_place_is_refused(probabilities, places, message):
    """An outcome of -1 would count as the last level, a win."""
    for score in (ev.log_loss, ev.accuracy, ev.brier_score, ev.ranked_probability_score):
        with pytest.raises(ValueError, match=message):
            score(np.array(probabilities), np.array(places))
    with pytest.raises(ValueError, match=message):
        ev.calibrate(np.array(probabilities), np.array(places), np.zeros(len(places)))


def test_interval_is_that_of_the_standard_error_over_blocks():
    shared = np.repeat(RNG.normal(size=300), 4)
    values = shared + 0.1 * RNG.normal(size=1200)
    blocks = np.repeat(np.arange(300), 4)
    found = ev.estimate_mean(values, blocks, resamples=4000)
    error = values.reshape(300, 4).mean(1).std() / math.sqrt(300)
    assert found.value == pytest.approx(values.mean())
    assert found.lower == pytest.approx(values.mean() - 1.96 * error, abs=0.1 * error)
    assert found.upper == pytest.approx(values.mean() + 1.96 * error, abs=0.1 * error)
    # As if all 1,200 were independent, the interval would be half as wide.
    alone = ev.estimate_mean(values, np.arange(1200), resamples=4000)
    assert alone.upper - alone.lower < 0.6 * (found.upper - found.lower)


def test_calibration_by_hand():
    win = np.array([0.1, 0.1, 0.2, 0.8, 0.9, 0.9])
    probabilities, places = np.stack([1 - win, win], 1), np.array([0, 0, 1, 1, 1, 0])
    found = ev.calibrate(probabilities, places, np.arange(6), bins=2, resamples=50)
    np.testing.assert_allclose(found.predicted, [0.4 / 3, 2.6 / 3])
    np.testing.assert_allclose(found.observed, [1 / 3, 2 / 3])
    np.testing.assert_array_equal(found.counts, [3, 3])
    assert found.error.value == pytest.approx(0.2)


def test_calibrated_probabilities_are_within_their_intervals():
    win = RNG.beta(2, 2, 20_000)
    places = (RNG.random(20_000) < win).astype(int)
    found = ev.calibrate(np.stack([1 - win, win], 1), places, np.arange(20_000), resamples=400)
    inside = (found.lower <= found.predicted) & (found.predicted <= found.upper)
    assert inside.sum() >= 8  # of ten intervals of 95 %
    assert found.error.value < 0.015
    too_sure = np.clip(2 * win - 0.5, 0.01, 0.99)
    other = ev.calibrate(
        np.stack([1 - too_sure, too_sure], 1), places, np.arange(20_000), resamples=50
    )
    assert other.error.value > 0.1


def test_equal_probabilities_make_one_bin():
    found = ev.calibrate(np.full((40, 3), 1 / 3), np.zeros(40, int), np.arange(40), resamples=20)
    np.testing.assert_allclose(found.predicted, [1 / 3])
    np.testing.assert_allclose(found.observed, [1 / 3])


def forecasts(win, places, rows):
    return ev.Forecasts(
        rows=rows,
        times=rows,
        blocks=rows,
        outcome=2.0 * places - 1,
        mean=win,
        variance=win,
        levels=(-1.0, 1.0),
        probabilities=np.stack([1 - win, win], 1),
        places=places,
        log_prob=np.log(np.where(places == 1, win, 1 - win)),
    )


def test_comparison_is_paired():
    rows = RNG.permutation(400)
    win = RNG.beta(4, 4, 400)
    places = (RNG.random(400) < win).astype(int)
    better, worse = forecasts(win, places, rows), forecasts(0.5 + 0.9 * (win - 0.5), places, rows)
    found = ev.compare(better, worse)
    difference = better.log_losses - worse.log_losses
    error = difference.std() / 20
    assert found.difference.value == pytest.approx(difference.mean())
    assert found.difference.upper - found.difference.lower == pytest.approx(3.92 * error, rel=0.1)
    assert found.wins == np.mean(difference < 0)
    order = np.argsort(rows)
    sorted_worse = forecasts(0.5 + 0.9 * (win - 0.5)[order], places[order], rows[order])
    assert ev.compare(better, sorted_worse).difference.value == pytest.approx(difference.mean())
    assert ev.compare(worse, better).probability_better == pytest.approx(
        1 - found.probability_better
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [({"level": 95}, "`level` is 95"), ({"resamples": 0}, "`resamples` is 0, but must be")],
)
def test_options_of_intervals(options, message):
    made = forecasts(np.full(4, 0.6), np.ones(4, int), np.arange(4))
    for ask in (made.summary, made.calibration, lambda **given: ev.compare(made, made, **given)):
        with pytest.raises(ValueError, match=message):
            ask(**options)
    with pytest.raises(ValueError, match="`bins` is 0, but must be at least 1"):
        made.summary(bins=0)


def test_comparison_refuses_other_matches():
    rows = np.arange(4)
    win, places = np.full(4, 0.6), np.ones(4, int)
    with pytest.raises(ValueError, match="different matches"):
        ev.compare(forecasts(win, places, rows), forecasts(win, places, rows + 1))
