"""Shared effects are eliminated exactly, and warm starts end early."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxkick as jk
from jaxkick.inference.problem import make_problem
from jaxkick.kernels import Constant, Matern12


@functools.cache
def league(dtype="float64"):
    """Thirty competitors, a home advantage, a covariate, and an effect of all matches."""
    rng = np.random.default_rng(0)
    first, gap = rng.integers(0, 30, 200), rng.integers(1, 30, 200)
    second = (first + gap) % 30
    features = np.column_stack([first, second, np.tile([30, 31, 32], (200, 1))]).astype(np.int32)
    x = np.column_stack([np.ones(200), -np.ones(200), np.ones(200), rng.normal(size=(200, 2))])
    x[:, 4] = 1.0 + 0.1 * x[:, 4]
    outcome = np.sign(np.sum(x * rng.normal(size=33)[features], axis=1) + rng.normal(size=200))
    times = np.sort(rng.uniform(0.0, 3.0, 200))
    groups = dict.fromkeys((30, 31, 32), "effects")
    return jk.Dataset.from_arrays(times, features, x, outcome, groups=groups, dtype=dtype)


def model(effects):
    return jk.Model({"skill": Matern12(1.0, 2.0), "effects": effects}, jk.likelihoods.Probit())


# The same prior; but the smoother, not the elimination, handles a sum.
PLAIN, SUM = model(Constant(1.0)), model(Constant(0.4) + Constant(0.6))


@pytest.mark.parametrize("method", [jk.ExpectationPropagation(), jk.ReverseKL()])
def test_elimination_leaves_the_fixed_point_where_it_is(method):
    data, mask = league(), np.arange(200) % 7 != 0
    assert make_problem(PLAIN, data).shared is not None
    assert make_problem(SUM, data).shared is None
    found, truth = (jk.infer(each, data, method, tol=1e-9, mask=mask) for each in (PLAIN, SUM))
    for ours, theirs in zip(found.entries, truth.entries, strict=True):
        np.testing.assert_allclose(ours.mean, theirs.mean, atol=1e-7)
        np.testing.assert_allclose(ours.variance, theirs.variance, rtol=1e-7)
    np.testing.assert_allclose(
        found.log_marginal_likelihood, truth.log_marginal_likelihood, rtol=1e-9
    )


def test_sums_are_the_smoother():
    data = league()
    sites = jk.infer(PLAIN, data).sites
    problem = make_problem(PLAIN, data)
    for ours, theirs in zip(problem.find_cavities(sites), problem.smooth(sites), strict=True):
        np.testing.assert_allclose(ours.mean, theirs.mean, atol=1e-10)
        np.testing.assert_allclose(ours.variance, theirs.variance, rtol=1e-10)
        np.testing.assert_allclose(ours.log_normaliser, theirs.log_normaliser, rtol=1e-10)


def test_shared_effects_in_float32():
    found, truth = jk.infer(PLAIN, league("float32"), tol=1e-3), jk.infer(PLAIN, league(), tol=1e-6)
    for ours, theirs in zip(found.entries, truth.entries, strict=True):
        off = jnp.abs(ours.mean.astype(float) - theirs.mean) / jnp.sqrt(theirs.variance)
        assert float(jnp.max(off)) < 2e-3


def test_warm_starts_take_few_iterations():
    data, mask = league(), np.arange(200) < 197
    cold = jk.infer(PLAIN, data)
    assert int(jk.infer(PLAIN, data, start=cold).steps) <= 2
    before = jk.infer(PLAIN, data, mask=mask)
    after = jk.infer(PLAIN, data, start=before)
    assert int(after.steps) <= 3 < int(cold.steps)
    near = jax.tree.map(lambda x: 1.01 * x if jnp.issubdtype(x.dtype, jnp.inexact) else x, PLAIN)
    assert int(jk.infer(near, data, start=cold).steps) <= 2
