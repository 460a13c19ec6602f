"""Fixed and tied parameters, priors, and suggested models."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize

import jaxkick as jk
from jaxkick.learning.objective import split
from tests.learning.simulate import dense_evidence, measurements, probit_matches


@pytest.fixture(scope="module")
def data():
    return measurements(features=6, each=30)


def gaussian(kernel, noise=1.0):
    return jk.Model(kernel, jk.likelihoods.Gaussian(noise))


def test_fixed_parameters_stay(data):
    start = gaussian(jk.kernels.Matern12(1.0, jk.Fixed(2.5)), jk.Fixed(0.3))
    free, _ = split(start)
    assert len(jax.tree.leaves(free)) == 1
    model, history = jk.learn(start, data)
    assert float(model.kernel.lengthscale.value) == 2.5
    assert float(model.likelihood.variance.value) == 0.3
    assert float(model.kernel.variance.value) != 1.0
    assert history.values[-1] > history.values[0]


def test_tied_parameters_move_together(data):
    start = gaussian(
        jk.kernels.Matern12(0.5, jk.Tied("pace", 2.0))
        + jk.kernels.Matern32(0.5, jk.Tied("pace", 2.0))
    )
    model, history = jk.learn(start, data)
    first, second = (float(term.lengthscale.value) for term in model.kernel.terms)
    assert first == second != 2.0
    # The gradient along the tie is the sum over its ends, and vanishes at the maximum.
    assert history.gradient_norms[-1] < 0.5 < history.gradient_norms[0]
    assert history.converged


def test_ties_survive_a_change_of_the_tree():
    kernel = jk.kernels.Matern12(jk.Tied("v", 2.0), 1.0) + jk.kernels.Matern12(
        jk.Tied("v", 2.0), 9.0
    )
    model = jax.tree.map(lambda leaf: leaf * 1.5, gaussian(kernel))
    free, template = split(model)
    assert len(jax.tree.leaves(free)) == 4
    moved = template.fill(jax.tree.map(lambda leaf: leaf + 1.0, free))
    first, second = (term.variance.value for term in moved.kernel.terms)
    np.testing.assert_allclose(first, 2.0**1.5 * np.e)
    assert first == second


def test_a_tied_number_takes_the_constraint_of_its_field():
    assert isinstance(jk.kernels.Matern12(jk.Tied("v", 2.0), 1.0).variance.parameter, jk.Positive)
    with pytest.raises(ValueError, match="positive"):
        jk.kernels.Matern12(jk.Tied("v", -2.0), 1.0)


def test_filling_restores_the_model():
    model = gaussian(jk.kernels.Matern12(1.0, jk.Fixed(2.5)), jk.Tied("n", jk.Fixed(0.3)))
    free, template = split(model)
    assert len(jax.tree.leaves(free)) == 1
    assert eqx.tree_equal(template.fill(free), model)


def test_error_messages():
    unequal = gaussian(jk.kernels.Matern12(jk.Tied("a", 1.0), jk.Tied("a", 2.0)))
    with pytest.raises(ValueError, match="tied by the name 'a' differ"):
        split(unequal)
    with pytest.raises(ValueError, match="no free parameter"):
        split(gaussian(jk.kernels.Constant(jk.Fixed(1.0)), jk.Fixed(1.0)))


def test_a_prior_gives_the_maximum_a_posteriori(data):
    start = gaussian(jk.kernels.Matern12(1.0, jk.Fixed(1.5)), jk.Fixed(0.3))

    def log_prior(model):
        return -0.5 * ((jnp.log(model.kernel.variance.value) - np.log(0.1)) / 0.05) ** 2

    model, history = jk.learn(start, data, log_prior=log_prior)

    def posterior(logarithm):
        prior = -0.5 * ((logarithm - np.log(0.1)) / 0.05) ** 2
        return dense_evidence(np.array([logarithm, np.log(1.5), np.log(0.3)]), data) + prior

    best = scipy.optimize.minimize_scalar(lambda x: -posterior(x), (np.log(0.1), np.log(0.2)))
    np.testing.assert_allclose(history.values.max(), -best.fun, atol=0.01)
    np.testing.assert_allclose(np.log(model.kernel.variance.value), best.x, atol=0.01)
    # So narrow that it outweighs the data, whose own maximum is near 2.
    assert 0.09 < float(model.kernel.variance.value) < 0.2


def test_a_users_own_array_is_learnt(data):
    class Scaled(jk.likelihoods.Gaussian):
        log_scale: jax.Array = eqx.field(kw_only=True)

        def log_partition(self, outcome, mean, variance, weight=None):
            scale = jnp.exp(self.log_scale)
            found = jk.likelihoods.Gaussian(self.variance).log_partition(
                outcome, scale * mean, scale**2 * variance, weight
            )
            return type(found)(found.value, scale * found.first, scale**2 * found.second)

    start = jk.Model(
        jk.kernels.Matern12(jk.Fixed(0.5), jk.Fixed(1.5)),
        Scaled(jk.Fixed(0.3), log_scale=jnp.zeros(())),
    )
    model, _ = jk.learn(start, data)
    # Scores of twice the size, instead of four times the variance.
    np.testing.assert_allclose(np.exp(model.likelihood.log_scale), 2.0, rtol=0.3)


def test_suggests_a_model_for_every_kind_of_outcome():
    matches = probit_matches(jk.kernels.Constant(1.0), players=4, matches=60)
    model = jk.suggest_model(matches)
    assert isinstance(model.likelihood, jk.likelihoods.Probit)
    constant, wandering = model.kernel.terms
    # Two players, and two terms each: together a variance of 1.
    np.testing.assert_allclose(constant.variance.value, 0.25)
    np.testing.assert_allclose(wandering.variance.value, 0.25)
    assert 1.5 < float(wandering.lengthscale.value) < 2.5
    ties = eqx.tree_at(lambda d: d.outcome, matches, matches.outcome.at[0].set(0.0))
    assert isinstance(jk.suggest_model(ties).likelihood, jk.likelihoods.OrdinalProbit)
    points = eqx.tree_at(lambda d: d.outcome, matches, 10.0 * matches.outcome.at[0].set(0.5))
    model = jk.suggest_model(points)
    spread = np.var(points.observations.outcome)
    np.testing.assert_allclose(model.likelihood.variance.value, spread / 2)
    np.testing.assert_allclose(model.kernel.terms[0].variance.value, spread / 8)
    given = jk.suggest_model(matches, jk.likelihoods.Logit())
    assert isinstance(given.likelihood, jk.likelihoods.Logit)


def test_outcomes_of_zero_and_one_are_ambiguous():
    data = jk.Dataset.from_pairs([0.0, 1.0], ["a", "b"], ["b", "c"], [0.0, 1.0])
    with pytest.raises(ValueError, match=r"^`outcome` holds only 0 and 1, which may be"):
        jk.suggest_model(data)


def test_suggests_a_kernel_for_every_group():
    data = jk.Dataset.from_pairs(
        [0.0, 0.0, 0.0],
        ["a", "b", "c"],
        ["b", "c", "a"],
        [1, -1, 1],
        covariates={"home": 1.0},
        groups={"home": "advantage"},
    )
    model = jk.suggest_model(data)
    # All at one time: nothing can wander.
    np.testing.assert_allclose(model.kernel["advantage"].variance.value, 0.5)
    np.testing.assert_allclose(model.kernel["skill"].variance.value, 0.25)


def test_learns_without_a_model(data):
    model, history = jk.learn(None, data, max_steps=2)
    assert isinstance(model.likelihood, jk.likelihoods.Gaussian)
    assert history.values[-1] > history.values[0]
