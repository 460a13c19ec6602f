"""Elo against a plain loop, TrueSkill against the package `trueskill`."""

import math

import numpy as np
import pytest

import jaxkick as jk
from jaxkick import evaluation as ev
from jaxkick.compat.trueskillthroughtime import from_parameters

trueskill = pytest.importorskip("trueskill")

RNG = np.random.default_rng(5)
N = 60
TIMES = np.sort(RNG.random(N) * 4.0)
FIRST = RNG.integers(0, 6, N)
SECOND = (FIRST + RNG.integers(1, 6, N)) % 6
OUTCOME = RNG.choice([-1.0, 0.0, 1.0], N, p=[0.3, 0.2, 0.5])
DATA = jk.Dataset.from_pairs(TIMES, FIRST, SECOND, OUTCOME, unit="year")
MARGIN = 0.35


def each_alone(times):
    return times


def run(baseline, data=DATA, every=each_alone, **options):
    return ev.walk_forward(baseline, data, float(TIMES[0]), every=every, **options)


def elo_by_hand(rate, margin, blocks):
    """Probabilities of loss, tie and win from the ratings at the start of each block."""
    ratings, found = np.zeros(6), []
    for block in np.unique(blocks):
        before = ratings.copy()
        for n in np.flatnonzero(blocks == block):
            i, j = FIRST[n], SECOND[n]

            def chances(now, i=i, j=j):
                win = 1 / (1 + math.exp(margin - now[i] + now[j]))
                loss = 1 / (1 + math.exp(margin + now[i] - now[j]))
                return [loss, 1 - win - loss, win]

            found.append(chances(before))
            loss, _, win = chances(ratings)
            move = rate * {1.0: 1 - win, -1.0: loss - 1, 0.0: loss - win}[OUTCOME[n]]
            ratings[i] += move
            ratings[j] -= move
    return np.array(found)


@pytest.mark.parametrize("every", [each_alone, lambda times: np.floor(4 * times)])
def test_elo(every):
    baseline = ev.Elo(0.4, jk.likelihoods.OrdinalLogit(margin=MARGIN))
    truth = elo_by_hand(0.4, MARGIN, every(TIMES))
    np.testing.assert_allclose(run(baseline, every=every).probabilities, truth, atol=1e-9)


def test_trueskill_equals_the_package():
    variance, per_match, per_year = 0.9, 0.05, 0.4
    draws = 2 * 0.5 * (1 + math.erf(MARGIN / math.sqrt(2))) - 1
    system = trueskill.TrueSkill(
        mu=0.0,
        sigma=math.sqrt(variance),
        beta=math.sqrt(0.5),
        tau=math.sqrt(per_match),
        draw_probability=draws,
        backend="scipy",
    )
    ratings, last = {name: system.create_rating() for name in range(6)}, {}
    means, variances = [], []
    for i, j, outcome, time in zip(FIRST, SECOND, OUTCOME, TIMES, strict=True):
        for name in (i, j):
            # The package has no time: add the variance to the rating itself.
            rating, waited = ratings[name], time - last.get(name, time)
            wider = math.sqrt(rating.sigma**2 + per_year * waited)
            ratings[name], last[name] = system.create_rating(rating.mu, wider), time
        one, two = ratings[i], ratings[j]
        means.append(one.mu - two.mu)
        variances.append(one.sigma**2 + two.sigma**2 + 2 * per_match)
        if outcome >= 0:
            ratings[i], ratings[j] = trueskill.rate_1vs1(
                one, two, drawn=bool(outcome == 0), env=system
            )
        else:
            ratings[j], ratings[i] = trueskill.rate_1vs1(two, one, env=system)
    likelihood = jk.likelihoods.OrdinalProbit(margin=MARGIN)
    found = run(ev.TrueSkill(variance, per_match, per_year, likelihood))
    np.testing.assert_allclose(found.mean, means, atol=1e-5)
    np.testing.assert_allclose(found.variance, variances, atol=1e-5)


def test_time_adds_variance_since_the_last_match():
    found = run(ev.TrueSkill(0.5, 0.0, 3.0, jk.likelihoods.OrdinalProbit(margin=MARGIN)))
    # Nobody gains variance before the first match.
    seen, fresh = set(), []
    for i, j in zip(FIRST, SECOND, strict=True):
        fresh.append(i not in seen and j not in seen)
        seen |= {i, j}
    np.testing.assert_allclose(found.variance[np.array(fresh)], 1.0)
    # In a single block all matches are predicted from the prior.
    whole = run(
        ev.TrueSkill(0.5, 0.0, 3.0, jk.likelihoods.OrdinalProbit(margin=MARGIN)),
        every=np.zeros_like,
    )
    np.testing.assert_allclose(whole.mean, 0.0)
    since = {name: TIMES[(name == FIRST) | (name == SECOND)].min() for name in range(6)}
    waited = [2 * t - since[i] - since[j] for i, j, t in zip(FIRST, SECOND, TIMES, strict=True)]
    np.testing.assert_allclose(whole.variance, 1.0 + 3.0 * np.array(waited))


def test_each_group_has_its_own_rate():
    data = jk.Dataset.from_pairs(
        TIMES, FIRST, SECOND, OUTCOME, covariates={"home": 1.0}, groups={"home": "advantage"}
    )
    likelihood = jk.likelihoods.OrdinalLogit(margin=MARGIN)
    found = run(ev.Elo({"skill": 0.4, "advantage": 1e-12}, likelihood), data)
    truth = elo_by_hand(0.4, MARGIN, TIMES)
    np.testing.assert_allclose(found.probabilities, truth, atol=1e-8)
    with pytest.raises(ValueError, match="`rate` has no value for the group 'advantage'"):
        run(ev.Elo({"skill": 0.4}, likelihood), data)


def test_a_rate_in_elo_points():
    with pytest.raises(ValueError, match=r"`rate` is 32.* In units of scores it is 0.184"):
        ev.Elo(32)


def test_tuning_finds_the_best_parameters_for_past_matches():
    start = float(TIMES[45])
    blocks = np.floor(4 * TIMES)
    past = blocks < np.floor(4 * start)

    def past_loss(rate, margin):
        chances = elo_by_hand(rate, margin, blocks)[past]
        return float(np.mean(ev.log_loss(chances, OUTCOME[past].astype(int) + 1)))

    tuned, converged = ev.Elo(0.5, jk.likelihoods.OrdinalLogit(margin=1.0)).tune(
        DATA,
        ev.backtest.make_blocks(DATA, start, lambda times: np.floor(4 * times)),
        int(np.flatnonzero(np.unique(blocks) == np.floor(4 * start))[0]),
    )
    assert converged
    reached = past_loss(float(tuned.rate.value), float(tuned.likelihood.margin.value))
    grid = [past_loss(r, m) for r in np.geomspace(1e-3, 2, 12) for m in np.linspace(0.1, 1, 10)]
    assert reached <= min(grid) + 1e-6


def test_tuning_converges_in_float32(monkeypatch):
    evaluations = []
    loss_and_slope = ev.baselines._loss_and_slope

    def counted(*arguments):
        evaluations.append(arguments)
        return loss_and_slope(*arguments)

    monkeypatch.setattr(ev.baselines, "_loss_and_slope", counted)
    rng = np.random.default_rng(6)
    number = 2000
    first = rng.integers(0, 20, number)
    second = (first + rng.integers(1, 20, number)) % 20
    outcome = np.where(rng.random(number) < 1 / (1 + np.exp(0.1 * (second - first))), 1.0, -1.0)

    def tuned(dtype):
        data = jk.Dataset.from_pairs(np.arange(number), first, second, outcome, dtype=dtype)
        blocks = ev.backtest.make_blocks(data, number - 1.0, each_alone)
        return float(ev.Elo(0.5).tune(data, blocks, number - 1)[0].rate.value)

    exact = tuned("float64")
    evaluations.clear()
    assert tuned("float32") == pytest.approx(exact, rel=0.05)
    assert len(evaluations) < 40


@pytest.mark.parametrize("baseline", [ev.Elo(), ev.TrueSkill(), ev.Random()])
def test_invalid_outcomes(baseline):
    row = int(np.argmax(OUTCOME == 0))
    with pytest.raises(ValueError, match=f"^Row {row}: outcome 0 is not valid for"):
        run(baseline)


def test_random_forecasts():
    three = run(ev.Random(ties=True))
    np.testing.assert_allclose(three.probabilities, 1 / 3, atol=1e-12)
    assert three.levels == (-1.0, 0.0, 1.0)


@pytest.mark.parametrize("gamma", [0.0, 0.3**0.5])
def test_smoothed_baselines_are_those_of_trueskill_through_time(gamma):
    """The translation of its parameters is tested against the package."""
    theirs = from_parameters(mu=0.0, sigma=2**0.5, beta=0.5**0.5, gamma=gamma, p_draw=0.0)
    ours = ev.constant_scores(variance=2.0)
    if gamma:
        ours = ev.trueskill_through_time(variance=2.0, time_variance=0.3)
    data = DATA.subset(OUTCOME != 0.0)
    ours, theirs = (jk.log_marginal_likelihood(model, data) for model in (ours, theirs))
    np.testing.assert_allclose(ours, theirs, rtol=1e-9)


def test_likelihoods_of_smoothed_baselines():
    likelihood = jk.likelihoods.OrdinalProbit(margin=MARGIN)
    for build in (ev.constant_scores, ev.trueskill_through_time):
        assert build(likelihood).likelihood is likelihood
        assert isinstance(build().likelihood, jk.likelihoods.Probit)
