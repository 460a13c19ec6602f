"""Whole fits to unpleasant leagues; `benchmarks/robustness.py` tries many more of them."""

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import jaxkick as jk
from jaxkick import kernels, likelihoods
from tests.robustness.leagues import KINDS, SETTINGS, League, examine, make_fit

LEAGUES = st.builds(
    League,
    kinds=st.frozensets(st.sampled_from(KINDS), max_size=3),
    seed=st.integers(0, 2**20),
    spread=st.sampled_from([0.0, 1.0, 2.0]),
)
# Tiny margins, huge priors and huge counts: a fit may take all of its steps, and then says so.
FITFUL = {"ties ep", "wide ep", "goals kl"}


@pytest.mark.parametrize("name", SETTINGS)
@settings(
    max_examples=6,
    derandomize=True,
    deadline=None,
    # A fit that fails takes long, and a smaller league would say no more.
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
@given(league=LEAGUES)
def test_fits_hold_what_they_must(name, league):
    verdict = examine(league, SETTINGS[name])
    assert not verdict.faults
    assert verdict.converged or name in FITFUL


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_league(kind):
    verdict = examine(League({kind}, seed=1), SETTINGS["probit ep"])
    assert verdict.converged
    assert not verdict.faults


def test_a_weight_of_two_is_a_match_twice_in_reverse_kl():
    """A match twice is two sites; padding brings both to one shape, and so to one program."""
    model = jk.Model(kernels.Constant(1.0) + kernels.Matern12(1.0, 2.0), likelihoods.Logit())
    times, first, second = [0.0, 1.0, 2.0, 2.0], list("abcc"), list("bcaa")
    outcome = [1.0, -1.0, 1.0, 1.0]

    def fit(count, weight):
        data = jk.Dataset.from_pairs(
            times[:count], first[:count], second[:count], outcome[:count], weight=weight
        )
        posterior = jk.infer(model, data, jk.ReverseKL(), tol=1e-9)
        scores = posterior.linear_combination(["a", "b", "c"], 1.5)
        return np.array([*scores.mean, *scores.variance]), posterior.log_marginal_likelihood

    twice, evidence = fit(4, [1.0] * 4)
    heavy, other = fit(3, [1.0, 1.0, 2.0])
    np.testing.assert_allclose(heavy, twice, rtol=1e-6)
    np.testing.assert_allclose(other, evidence, rtol=1e-8)


def test_a_feature_that_nobody_plays_changes_nothing():
    arrays = [0.0, 1.0], np.array([[0, 1], [1, 2]]), np.array([[1.0, -1.0]] * 2), [1.0, -1.0]
    model = jk.Model(kernels.Matern12(1.0, 2.0), likelihoods.Probit())
    plain, more = (
        jk.infer(model, jk.Dataset.from_arrays(*arrays, names=names), tol=1e-9)
        for names in (["a", "b", "c"], ["a", "b", "c", "nobody"])
    )
    np.testing.assert_array_equal(plain.observations.mean, more.observations.mean)
    assert plain.log_marginal_likelihood == more.log_marginal_likelihood


def test_scores_far_apart_under_a_flat_prior():
    """Two sides with one match won between them drift apart, far beyond what matches can tell."""
    league = League({"huge gaps", "one instant"}, seed=1)
    verdict = examine(league, SETTINGS["wide ep"])
    assert verdict.converged
    assert not verdict.faults
    model, data = make_fit(league, SETTINGS["wide ep"])
    found, tight = (jk.infer(model, data, tol=tol) for tol in (0.05, 1e-6))
    np.testing.assert_allclose(
        found.observations.mean, tight.observations.mean, rtol=1e-3, atol=0.1
    )
    assert np.abs(found.observations.mean).max() > 800.0
