"""Likelihoods inside inference: evaluated once, for outcomes and results of any type."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest

import jaxkick as jk
from jaxkick.inference.problem import cavities_of, make_problem
from jaxkick.likelihoods import AbstractLikelihood, Derivatives

RNG = np.random.default_rng(11)
N, NOISE = 30, 0.7
FIRST = RNG.integers(0, 5, N)
SECOND = (FIRST + RNG.integers(1, 5, N)) % 5
WEIGHT = RNG.uniform(0.5, 2.0, N)
KERNEL = jk.kernels.Matern12(0.8, 1.5)
METHODS = [jk.ExpectationPropagation(), jk.ReverseKL()]


def make_data(outcome, **options):
    return jk.Dataset.from_pairs(np.arange(N) / 4.0, FIRST, SECOND, outcome, **options)


WINS = RNG.choice([-1.0, 1.0], N)
POINTS = RNG.normal(size=N)


class OwnGaussian(AbstractLikelihood):
    """A Gaussian whose second derivatives are plain numbers."""

    def log_prob(self, outcome, score):
        return -0.5 * ((outcome - score) ** 2 / NOISE + np.log(2 * np.pi * NOISE))

    def expectation(self, outcome, mean, variance):
        value = self.log_prob(outcome, mean) - 0.5 * variance / NOISE
        return Derivatives(value, (outcome - mean) / NOISE, -1.0 / NOISE)


def test_one_number_stands_for_all_observations():
    found, truth = (
        jk.log_marginal_likelihood(jk.Model(KERNEL, likelihood), make_data(POINTS), METHODS[1])
        for likelihood in (OwnGaussian(), jk.likelihoods.Gaussian(NOISE))
    )
    np.testing.assert_allclose(found, truth, rtol=1e-10)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("dtype", [jnp.int32, jnp.float32])
def test_outcomes_may_have_a_type_of_their_own(method, dtype):
    model, data = jk.Model(KERNEL, jk.likelihoods.Probit()), make_data(WINS)
    other = dataclasses.replace(data, outcome=jnp.asarray(WINS, dtype))
    found, truth = (jk.log_marginal_likelihood(model, each, method) for each in (other, data))
    assert found.dtype == truth.dtype
    np.testing.assert_allclose(found, truth, rtol=1e-10)


@pytest.mark.parametrize("method", METHODS)
def test_both_ways_to_the_observed_part_agree(method):
    model = jk.Model(KERNEL, jk.likelihoods.Probit())
    data = make_data(WINS, weight=WEIGHT).without_index()
    problem = make_problem(model, data, jnp.asarray(np.arange(N) % 4 > 0))
    sites = jk.infer(model, data, method, max_steps=2, throw=False).sites
    smoothed = problem.smooth(sites)
    np.testing.assert_allclose(
        method.linearize(problem, cavities_of(smoothed), sites).observed,
        method.observed(problem, cavities_of(smoothed), sites),
        rtol=1e-12,
    )


TWO_GROUPS = {"covariates": {"home": 1.0}, "groups": {"home": "advantage"}}
LAYOUTS = {"packed": {}, "linked": {"row_length": 3}, "two groups": TWO_GROUPS}


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_the_first_entry_of_every_chain_opens_a_feature(layout):
    data = make_data(WINS, **layout)
    model = jk.Model({"skill": KERNEL, "advantage": KERNEL}, jk.likelihoods.Probit())
    later = jk.Dataset.from_pairs(
        [10.0, 11.0], [7, 0], [8, 7], [1.0, -1.0], **(layout if layout is TWO_GROUPS else {})
    )
    for each in (data, jk.infer(model, data).update(later).data):
        assert all(bool(chain.first[0, 0]) for chain in each.chains)
