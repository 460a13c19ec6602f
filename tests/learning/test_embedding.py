"""The evidence as part of a larger program: neural networks and samplers."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import jaxkick as jk
from tests.learning.simulate import TRUTH, measurements


@pytest.fixture(scope="module")
def league():
    """Players whose mean score is a bent function of a covariate, and their results."""
    rng = np.random.default_rng(3)
    players, matches = 60, 600
    covariate = rng.uniform(-2.0, 2.0, players)
    level = np.abs(covariate) - 1.0
    sides = np.array([rng.choice(players, 2, replace=False) for _ in range(matches)])
    margin = level[sides[:, 0]] - level[sides[:, 1]] + 0.3 * rng.normal(size=matches)
    times = np.sort(rng.uniform(0.0, 1.0, matches))
    data = jk.Dataset.from_pairs(times, sides[:, 0], sides[:, 1], margin)
    order = np.array(data.names)
    return data, jnp.asarray(covariate[order]), level[order]


class Ratings(eqx.Module):
    """A network that maps covariates to prior means, and the rest of a model."""

    network: eqx.nn.MLP
    kernel: jk.kernels.Constant
    likelihood: jk.likelihoods.Gaussian

    def means(self, covariate):
        return jax.vmap(self.network)(covariate[:, None])[:, 0]


def ratings():
    network = eqx.nn.MLP(1, 1, 8, 1, key=jax.random.key(0))
    return Ratings(network, jk.kernels.Constant(1.0), jk.likelihoods.Gaussian(1.0))


def explained(means, level):
    return np.corrcoef(np.asarray(means), level)[0, 1]


def test_learn_trains_a_network_of_prior_means(league):
    data, covariate, level = league
    start = ratings()

    def build(ratings):
        return jk.Model(ratings.kernel, ratings.likelihood, mean=ratings.means(covariate))

    learnt, history = jk.learn(start, data, build=build, max_steps=60)
    assert history.values.max() > history.values[0] + 100
    assert explained(start.means(covariate), level) < 0.8
    assert explained(learnt.means(covariate), level) > 0.97
    # The network explains most of the differences between players.
    assert float(learnt.kernel.variance.value) < 0.1
    np.testing.assert_allclose(learnt.likelihood.variance.value, 0.09, rtol=0.2)


def test_an_optax_loop_trains_the_same_network(league):
    data, covariate, level = league
    optimizer = optax.adam(0.03)

    @eqx.filter_jit
    def step(ratings, state):
        def loss(ratings):
            model = jk.Model(ratings.kernel, ratings.likelihood, mean=ratings.means(covariate))
            return -jk.log_marginal_likelihood(model, data)

        value, gradient = eqx.filter_value_and_grad(loss)(ratings)
        with jax.numpy_dtype_promotion("standard"):
            updates, state = optimizer.update(gradient, state)
        return eqx.apply_updates(ratings, updates), state, value

    trained = ratings()
    state = optimizer.init(eqx.filter(trained, eqx.is_inexact_array))
    for _ in range(150):
        trained, state, _ = step(trained, state)
    assert explained(trained.means(covariate), level) > 0.95


def test_a_sampler_draws_from_the_posterior_of_a_parameter():
    blackjax = pytest.importorskip("blackjax", reason="blackjax is not installed")
    data = measurements(features=4, each=12)

    def log_density(logarithm):
        kernel = jk.kernels.Matern12(jnp.exp(logarithm), jk.Fixed(1.5))
        model = jk.Model(kernel, TRUTH.likelihood)
        prior = -0.5 * (logarithm - 0.7) ** 2
        return jk.log_marginal_likelihood(model, data, tol=0.01) + prior

    grid = np.linspace(-3.0, 4.0, 141)
    density = jax.jit(jax.vmap(log_density))(jnp.asarray(grid))
    weights = np.exp(density - density.max())
    weights = weights / weights.sum()
    mean = weights @ grid
    deviation = np.sqrt(weights @ (grid - mean) ** 2)
    with jax.numpy_dtype_promotion("standard"):
        kernel = blackjax.mala(log_density, 0.15)

        @jax.jit
        def chain(key):
            state = kernel.init(jnp.asarray(0.7))

            def move(state, key):
                state, _ = kernel.step(key, state)
                return state, state.position

            return jax.lax.scan(move, state, jax.random.split(key, 1500))[1]

        draws = np.asarray(chain(jax.random.key(0)))[100:]
    np.testing.assert_allclose(draws.mean(), mean, atol=0.35 * deviation)
    np.testing.assert_allclose(draws.std(), deviation, rtol=0.3)
