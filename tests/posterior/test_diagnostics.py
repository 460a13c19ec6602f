"""Diagnostics report each problem, and nothing where there is none."""

import dataclasses

import numpy as np
import pytest

import jaxkick as jk
from jaxkick import kernels, likelihoods

TIMES = np.linspace(2000.0, 2010.0, 40)
RING = [f"p{k % 5}" for k in range(40)]
NEXT = [f"p{(k + 1 + k % 3) % 5}" for k in range(40)]
# The lower number wins.
WINS = np.where(np.array(RING) < np.array(NEXT), 1.0, -1.0)


def fit(first=RING, second=NEXT, kernel=None, likelihood=None, times=TIMES, **options):
    data = jk.Dataset.from_pairs(
        times, first, second, row_length=96, covariates={"home": 1.0}, unit=options.pop("unit", "y")
    )
    kernel = kernels.Constant(0.5) + kernels.Matern12(0.5, 3.0) if kernel is None else kernel
    model = jk.Model(kernel, likelihood or likelihoods.Probit())
    return jk.infer(model, data, **options)


def check(*arguments, **options):
    return {each.kind: each.message for each in fit(*arguments, **options).check()}


def test_silence_where_nothing_is_wrong():
    assert check() == {}


def test_convergence():
    found = check(max_steps=2, throw=False)
    assert "standard deviations from its fixed point" in found["convergence"]


def test_pools_that_never_meet():
    """A home advantage that all matches share does not make them comparable."""
    first = [name if k % 2 else f"other {name}" for k, name in enumerate(RING)]
    second = [name if k % 2 else f"other {name}" for k, name in enumerate(NEXT)]
    message = check(first, second)["comparability"]
    assert "form 2 pools without matches between them; the largest has 5" in message


def test_one_who_plays_against_everybody_connects_them():
    assert "comparability" not in check(["champion"] * 40, RING)


@pytest.mark.parametrize(
    ("variance", "lengthscale", "words"),
    [
        (0.5, 1e4, "the data shows no drift: drop Matern12 from the sum"),
        (0.5, 1e-3, "forgets each match before the next. If it was learnt, it is noise: drop it"),
        (1e-9, 3.0, "the data shows no drift: drop Matern12 from the sum"),
    ],
)
def test_lengthscales_that_the_data_does_not_determine(variance, lengthscale, words):
    message = check(kernel=kernels.Constant(0.5) + kernels.Matern12(variance, lengthscale))
    assert words in message["lengthscale"]
    assert "terms[1].lengthscale" in message["lengthscale"]
    assert message["lengthscale"].endswith("If you chose it, check that it is in ys (`unit=`).")


def test_a_lengthscale_far_beyond_the_data_of_scores_that_do_change():
    data = jk.Dataset.from_pairs(TIMES, RING, NEXT, np.where(TIMES < 2005, 1.0, -1.0) * WINS)
    kernel = kernels.Constant(0.5) + kernels.Matern12(500.0, 1e3)
    (found,) = jk.infer(jk.Model(kernel, likelihoods.Probit()), data).check()
    assert "Matern12 is a random walk here. If it was learnt, use Wiener" in found.message


def test_a_drift_that_the_data_would_have_shown():
    """A home advantage of many matches with a long lengthscale, which stayed the same."""
    count = 400
    data = jk.Dataset.from_pairs(
        np.linspace(0.0, 10.0, count),
        RING * 10,
        NEXT * 10,
        0.7 + 0.1 * np.random.default_rng(0).normal(size=count),
        covariates={"home": 1.0},
        groups={"home": "home"},
    )
    slow = kernels.Constant(1.0) + kernels.Matern12(0.05, 40.0)
    kernel = {"skill": kernels.Constant(0.1), "home": slow}
    (found,) = jk.infer(jk.Model(kernel, likelihoods.Gaussian(1.0)), data).check()
    assert "lengthscale of the group 'home' is 40, and over the 10 units" in found.message
    assert "the data shows no drift: drop Matern12 from the sum" in found.message


def test_a_suggested_model_is_not_questioned():
    data = jk.Dataset.from_pairs(TIMES, RING, NEXT, covariates={"home": 1.0}, groups={"home": "h"})
    assert jk.infer(jk.suggest_model(data), data).check() == ()


def lineups(first, second, outcome=1.0, likelihood=None, **options):
    data = jk.Dataset.from_pairs(np.arange(float(len(first))), first, second, outcome, **options)
    model = jk.Model(kernels.Constant(0.5), likelihood or likelihoods.Probit())
    found = jk.infer(model, data).check()
    return [each.message for each in found if each.kind == "separability"]


def test_players_who_always_play_together():
    first = [["ann", "ben"], ["cid", "dan"], ["ann", "ben"], ["cid", "eve"]]
    second = [["cid", "eve"], ["ann", "ben"], ["dan", "eve"], ["dan", "ben"]]
    # With a match of his own, Ben is known apart from Ann.
    assert lineups(first, second) == []
    (message,) = lineups(first[:3], second[:3])
    assert message.startswith("'ann' and 'ben' occur in the same 3 observations and in no other")
    assert "only the sum of their scores is known" in message
    shares = [{"ann": 0.2, "ben": 0.4}, *first[1:3]], second[:3]
    assert lineups(*shares) == []
    # Neither do those who always meet the same opponents, with changing partners.
    first = [["ann", "cid"], ["ann", "eve"], "cid", "dan", "cid", "dan"]
    second = [["ben", "dan"], ["ben", "fay"], "eve", "fay", "fay", "eve"]
    (message,) = lineups(first, second)
    assert "'ann' and 'ben'" in message
    assert "only the difference" in message


def test_two_who_only_meet_each_other_are_no_mystery():
    assert lineups(["ann"] * 3, ["ben"] * 3, covariates={"home": [1.0, -1.0, 1.0]}) == []


def test_a_home_advantage_that_is_always_there_and_free_cuts():
    levels = np.arange(40) % 4
    for cuts, expected in (([-1.0, 0.0, 1.0], 1), (jk.Fixed([-1.0, 0.0, 1.0]), 0)):
        likelihood = likelihoods.OrdinalProbit(cuts=cuts)
        found = lineups(RING, NEXT, levels, likelihood, covariates={"home": 1.0})
        assert len(found) == expected
    assert lineups(RING, NEXT, levels, likelihoods.OrdinalProbit(cuts=cuts.value)) == []
    with_cuts = likelihoods.OrdinalProbit(cuts=[-1.0, 0.0, 1.0])
    (message,) = lineups(RING, NEXT, levels, with_cuts, covariates={"home": 1.0})
    assert "'home' has the same coefficient in all observations, and OrdinalProbit" in message
    assert "only their sum is known" in message


def test_a_lengthscale_within_a_period_is_no_time():
    """Matches of a player are 230 days apart, and a swing has a lengthscale of 1 in any unit."""
    posterior = fit(times=365.0 * TIMES, unit="day")
    assert {each.kind for each in posterior.check()} == {"lengthscale"}
    swing = jk.Model(kernels.Periodic(0.5, 1.0, 365.0), likelihoods.Probit())
    assert dataclasses.replace(posterior, model=swing).check() == ()


def test_a_margin_of_nothing():
    found = check(likelihood=likelihoods.OrdinalProbit(margin=1e-6))
    assert "ties are practically impossible" in found["margin"]


def test_times_in_seconds():
    found = check(times=1.5e9 + TIMES, unit=None)
    assert "seconds since 1970" in found["unit"]


def test_single_matches():
    second = ["stranger", *NEXT[1:]]
    assert "1 of 7 features have only one match" in check(second=second)["single matches"]


def test_dates_written_as_integers():
    dates = 20180100.0 + 1 + np.arange(40) % 28 + 100 * (np.arange(40) // 28)
    assert "such as 20180101, which look like dates" in check(times=dates, unit=None)["unit"]
    assert "unit" not in check(times=dates + 0.5)


def test_scores_beyond_the_digits_of_single_precision():
    """Said where a fit in float32 is off, as one in float64 shows, and only there."""
    model = jk.Model(kernels.Constant(1.0), likelihoods.Gaussian(1.0))
    points = np.random.default_rng(0).normal(size=40)
    for scale, expected in ((1.0, False), (1e6, True)):
        single, double = (
            jk.infer(
                model,
                jk.Dataset.from_pairs(TIMES, RING, NEXT, scale * points, dtype=dtype),
                tol=1e-3,
                max_steps=100,
                throw=False,
            )
            for dtype in ("float32", "float64")
        )
        mean, variance = map(np.asarray, double.entries[0])
        off = np.abs(np.asarray(single.entries[0].mean) - mean)
        assert (off.max() > 1e-2 * np.sqrt(variance.max())) == expected
        said = {each.kind: each.message for each in single.check()}
        assert ("precision" in said) == expected
        assert "precision" not in {each.kind for each in double.check()}
    assert "because float32 has too few digits" in said["precision"]
