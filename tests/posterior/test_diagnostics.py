"""Diagnostics report each problem, and nothing where there is none."""

import dataclasses

import numpy as np
import pytest

import jaxkick as jk
from jaxkick import kernels, likelihoods

TIMES = np.linspace(2000.0, 2010.0, 40)
RING = [f"p{k % 5}" for k in range(40)]
NEXT = [f"p{(k + 1 + k % 3) % 5}" for k in range(40)]


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


@pytest.mark.parametrize(("lengthscale", "words"), [(1e4, "hardly changes"), (1e-3, "forgets")])
def test_lengthscales_outside_the_data(lengthscale, words):
    message = check(kernel=kernels.Constant(0.5) + kernels.Matern12(0.5, lengthscale))
    assert words in message["lengthscale"]
    assert "terms[1].lengthscale" in message["lengthscale"]


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
