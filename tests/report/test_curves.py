"""Linear interpolation between knots stays close to the curves."""

import numpy as np
import pytest

from jaxkick.report.skill_curves import Part, evaluator, sample_curves
from tests.report.leagues import HOSTILE, hostile_league

MATCHES = np.sort(np.random.default_rng(0).uniform(0.0, 10.0, 200))


def bends(time):
    """A mean with a bend at every match, and a deviation that grows between them."""
    gap = np.min(np.abs(time[:, None] - MATCHES), axis=1)
    return np.interp(time, MATCHES, np.cos(7 * MATCHES)) + 0.2 * gap, np.sqrt(0.04 + gap)


def jumps(time):
    return np.where(time < 3.3, 0.5, -0.5), np.full_like(time, 0.3)


def swings(time):
    return np.sin(4 * time), 0.4 + 0.1 * np.cos(9 * time)


def rests(time):
    return 0.3 * time, np.ones_like(time)


CURVES = (bends, jumps, swings, rests)


def evaluate(owner, time):
    mean, deviation = np.empty(len(time)), np.empty(len(time))
    for number, curve in enumerate(CURVES):
        mine = owner == number
        mean[mine], deviation[mine] = curve(time[mine])
    return mean, deviation


@pytest.fixture(scope="module")
def knots():
    few = [MATCHES, np.array([1.0]), np.array([2.0, 9.0]), np.array([])]
    return sample_curves(few, evaluate, 0.0, 10.0)


@pytest.mark.parametrize("number", range(len(CURVES)))
def test_lines_are_close(knots, number):
    own = knots.take(knots.owner == number)
    times = np.random.default_rng(1).uniform(0.0, 10.0, 5000)
    times = times[np.abs(times - 3.3) > 1e-4]
    mean, deviation = CURVES[number](times)
    wrong = np.abs(np.interp(times, own.time, own.mean) - mean)
    assert np.max(wrong / deviation) < 0.004
    wrong = np.abs(np.interp(times, own.time, own.deviation) - deviation)
    assert np.max(wrong / deviation) < 0.004
    assert (own.time[0], own.time[-1]) == (0.0, 10.0)


def test_knots_are_few(knots):
    counts = np.bincount(knots.owner)
    assert counts[3] == 2
    assert counts[1] < 40
    assert counts[2] < 800


def test_one_moment():
    knots = sample_curves([np.zeros(3)], lambda owner, time: (time, time + 1), 0.0, 0.0)
    np.testing.assert_array_equal(knots.time, [0.0])


def test_queries_are_answered_in_the_order_asked():
    posterior = hostile_league()
    names = [*HOSTILE[:2], "home"]
    owner = np.array([2, 0, 1, 0])
    time = np.array([2003.0, 2002.5, 2004.0, 2005.0])
    mean, deviation = evaluator(posterior, list(map(Part, names)))(owner, time)
    for place, (number, when) in enumerate(zip(owner, time, strict=True)):
        date = posterior.data.index.scale.to_user(when)
        _, expected, variance = posterior.scores(names[number], date, joint=False)
        np.testing.assert_allclose(mean[place], expected[0], rtol=1e-9)
        np.testing.assert_allclose(deviation[place], np.sqrt(variance[0]), rtol=1e-9)
