"""Inference inside other programs: `jit`, `vmap`, and a posterior as a pytree."""

import gc
import pickle
import weakref

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxkick as jk
from jaxkick import kernels, likelihoods

COUNT = 12


def season(seed):
    """Matches of four players; all seasons have one shape."""
    rng = np.random.default_rng(seed)
    first = np.arange(COUNT) % 4
    return jk.Dataset.from_pairs(
        np.linspace(0.0, 3.0, COUNT) + 0.01 * seed,
        first,
        (first + 1 + np.arange(COUNT) % 3) % 4,
        rng.choice([-1.0, 1.0], COUNT),
        row_length=24,
    )


def model(variance=1.0):
    return jk.Model(kernels.Matern12(variance, 1.5), likelihoods.Probit())


def evidence(model, data):
    return jk.log_marginal_likelihood(model, data, tol=1e-8)


def test_vmap_over_parameters():
    data = season(0)
    variances = jnp.array([0.3, 1.0, 4.0])
    found = jax.jit(jax.vmap(lambda variance: evidence(model(variance), data)))(variances)
    expected = [evidence(model(float(variance)), data) for variance in variances]
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_vmap_over_data_sets_of_one_shape():
    seasons = [season(seed) for seed in range(3)]
    arrays = [each.without_index() for each in seasons]
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *arrays)
    found = eqx.filter_jit(eqx.filter_vmap(lambda data: evidence(model(), data)))(stacked)
    expected = [evidence(model(), data) for data in seasons]
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    with pytest.raises(AttributeError):
        arrays[0].index.names  # noqa: B018


def test_a_posterior_goes_in_and_out_of_a_compiled_function():
    data = season(0)

    @eqx.filter_jit
    def fit_and_double(model, data):
        posterior = jk.infer(model, data, tol=1e-8)
        return posterior, 2.0 * posterior.observations.mean

    posterior, doubled = fit_and_double(model(), data)
    np.testing.assert_allclose(doubled, 2.0 * posterior.observations.mean)
    assert posterior.converged
    plain = jk.infer(model(), data, tol=1e-8)
    forecasts = [each.predict(0, 1, 3.5) for each in (posterior, plain)]
    np.testing.assert_allclose(forecasts[0].mean, forecasts[1].mean, atol=1e-7)
    leaves, structure = jax.tree.flatten(plain)
    again = jax.tree.unflatten(structure, leaves)
    np.testing.assert_array_equal(again.sites[0].precision, plain.sites[0].precision)


def test_nothing_is_raised_inside_a_compiled_function():
    data = season(0)
    with pytest.raises(jk.InferenceError):
        jk.infer(model(), data, max_steps=1)
    result = eqx.filter_jit(lambda data: jk.infer(model(), data, max_steps=1).status)(data)
    assert jk.Status(int(result)) is jk.Status.MAX_STEPS


def test_states_are_computed_once_and_never_stale():
    posterior = jk.infer(model(), season(0), tol=1e-8)
    assert posterior.smoothed is posterior.smoothed
    other = jk.infer(model(4.0), season(0), tol=1e-8)
    where = lambda p: (p.model, p.sites)  # noqa: E731
    changed = eqx.tree_at(where, posterior, where(other))
    asked = (0, 1, 3.5)
    for _ in range(2):
        assert changed.predict(*asked).mean == other.predict(*asked).mean
        assert posterior.predict(*asked).mean != other.predict(*asked).mean
    copy = pickle.loads(pickle.dumps(posterior))
    assert copy.predict(*asked).mean == posterior.predict(*asked).mean


def test_kept_states_cause_no_recompilation():
    traces = []

    @eqx.filter_jit
    def ask(posterior):
        traces.append(1)
        return posterior.predict(0, 1, 3.5).mean

    posterior, other = (jk.infer(model(variance), season(0)) for variance in (1.0, 4.0))
    found = [ask(posterior), ask(other)]
    kept = [each.predict(0, 1, 3.5).mean for each in (posterior, other)]
    again = [ask(posterior), ask(other)]
    assert len(traces) == 1
    np.testing.assert_array_equal(found, again)
    np.testing.assert_allclose(found, kept, rtol=1e-12)


def test_states_are_released_with_their_posterior():
    posterior = jk.infer(model(), season(0))
    memo, states = posterior.memo, weakref.ref(jax.tree.leaves(posterior.states)[0])
    del posterior
    gc.collect()
    assert states() is None
    assert memo == jk.infer(model(), season(0)).memo
