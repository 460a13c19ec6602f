"""Predictions depend on the past only."""

import dataclasses

import numpy as np
import pytest

import jaxkick as jk
from jaxkick import evaluation as ev

RNG = np.random.default_rng(3)
N = 36
# Three matches a day on twelve days, at different hours; some players start late.
DAYS = np.repeat(np.arange(12), 3)
TIMES = np.datetime64("2020-01-06") + DAYS + RNG.integers(0, 24, N) * np.timedelta64(1, "h")
SEEN = 3 + DAYS // 4
FIRST = RNG.integers(0, SEEN)
SECOND = (FIRST + 1 + RNG.integers(0, SEEN - 1)) % SEEN
NAMES = np.union1d(FIRST, SECOND)
OUTCOME = RNG.choice([-1.0, 1.0], N)
START = np.datetime64("2020-01-08")
TESTED = TIMES >= START
# Both parts depend on the time of a feature's first match.
KERNEL = jk.kernels.Affine(0.5, 20.0) + jk.kernels.Wiener(9.0, origin_variance=0.3)
MODEL = jk.Model(KERNEL, jk.likelihoods.Probit())


def make_data(outcome=OUTCOME, rows=slice(None)):
    return jk.Dataset.from_pairs(TIMES[rows], FIRST[rows], SECOND[rows], outcome[rows])


def with_outcome(data, outcome):
    return dataclasses.replace(data, outcome=data.outcome.at[:N].set(outcome))


DATA = make_data()
FORECASTERS = {
    "ep": ev.Refit(MODEL),
    "kl": ev.Refit(MODEL, jk.ReverseKL()),
    "elo": ev.Elo(0.3),
    "trueskill": ev.TrueSkill(1.0, 0.1, 2.0),
}


@pytest.mark.parametrize("forecaster", FORECASTERS.values(), ids=FORECASTERS)
def test_an_outcome_changes_only_predictions_of_later_blocks(forecaster):
    plain = ev.walk_forward(forecaster, DATA, START)
    reached = 0
    for changed in range(N):
        outcome = np.where(np.arange(N) == changed, -OUTCOME, OUTCOME)
        other = ev.walk_forward(forecaster, with_outcome(DATA, outcome), START)
        same = other.probabilities == plain.probabilities
        early = DAYS[plain.rows] <= DAYS[changed]
        assert same[early].all()
        reached += not same.all()
    # All outcomes but those of the last day change later predictions.
    assert reached >= N - 6


def test_predictions_equal_those_of_data_that_ends_before_the_block():
    kernel = jk.kernels.Wiener(9.0, origin_variance=0.3)
    model = jk.Model(kernel, jk.likelihoods.Probit())
    forecasts = ev.walk_forward(ev.Refit(model, tol=1e-7), DATA, START)
    past = DAYS < 8
    posterior = jk.infer(model, make_data(rows=past), tol=1e-7)
    # A process starts at its player's first match, which may be the one to predict.
    begins = {name: TIMES[(name == FIRST) | (name == SECOND)].min() for name in NAMES}
    rows = [
        row
        for row in np.flatnonzero(DAYS == 8)
        if all(begins[name] in (TIMES[row], *TIMES[past]) for name in (FIRST[row], SECOND[row]))
    ]
    assert len(rows) > 1
    sides = FIRST[rows].tolist(), SECOND[rows].tolist()
    truth = posterior.predict(*sides, TIMES[rows], allow_unknown=True)
    places = [int(np.flatnonzero(forecasts.rows == row)[0]) for row in rows]
    np.testing.assert_allclose(forecasts.mean[places], truth.mean, atol=1e-6)
    np.testing.assert_allclose(forecasts.variance[places], truth.variance, atol=1e-6)


def test_parameters_are_learned_from_the_past_only():
    model = jk.Model(jk.kernels.Constant(1.0), jk.likelihoods.Probit())
    forecaster = ev.Refit(model, learn_options={"max_steps": 2})

    def run(outcome):
        return ev.walk_forward(
            forecaster,
            with_outcome(DATA, outcome),
            START,
            relearn=lambda times: times >= np.datetime64("2020-01-13"),
        )

    week_two = DAYS >= 7
    plain = run(OUTCOME)
    later = run(np.where(week_two, -OUTCOME, OUTCOME))
    early = DAYS[plain.rows] <= 7
    np.testing.assert_array_equal(plain.probabilities[early], later.probabilities[early])
    # The second week has parameters learned from the first, not those of the start.
    fixed = ev.walk_forward(forecaster, DATA, START, relearn="start")
    first_week = DAYS[plain.rows] < 7
    np.testing.assert_array_equal(plain.mean[first_week], fixed.mean[first_week])
    assert not np.array_equal(plain.mean[~first_week], fixed.mean[~first_week])


def test_baselines_are_tuned_on_the_past_only():
    future = np.where(TESTED, -OUTCOME, OUTCOME)
    for baseline in (ev.Elo(), ev.TrueSkill()):
        plain, other = (
            ev.walk_forward(baseline, with_outcome(DATA, outcome), START, relearn="start")
            for outcome in (OUTCOME, future)
        )
        first_day = DAYS[plain.rows] == 2
        np.testing.assert_array_equal(
            plain.probabilities[first_day], other.probabilities[first_day]
        )
