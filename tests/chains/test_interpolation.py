"""Scores before, between, at and after entries, against the dense Gaussian process."""

import functools

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest

from jaxkick import Dataset, kernels
from jaxkick.chains.interpolation import Queries, interpolate
from jaxkick.chains.smoother import smooth_chain
from jaxkick.chains.step import Site, StepModel
from jaxkick.parameters import resolve
from tests import reference as ref

pytestmark = pytest.mark.optimized

TIMES = {
    "long": np.array([1.0, 1.4, 1.4, 2.9, 3.0, 4.2, 5.5, 5.5 + 1e-8]),
    "middle": np.array([2.0, 2.5, 4.0]),
    "short": np.array([3.3]),
}
OTHER = "never seen"
# Before, at the first, between, at a repeated one, next to one, at the last, far after.
QUERIES = np.array([0.2, 1.0, 1.2, 1.4, 2.9 - 1e-9, 3.0, 3.7, 5.5, 5.6, 30.0])
K = kernels
# Every case has a covariance as a function of the feature's first time.
CASES = {
    "sum": (
        K.Constant(0.3) + K.Matern32(0.7, 1.9),
        lambda t: ref.constant(0.3) + ref.matern32(0.7, 1.9),
    ),
    "moving": (
        K.Matern12(0.5, 2.0) + K.Affine(0.2, 0.1, origin=K.FIRST),
        lambda t: ref.matern12(0.5, 2.0) + ref.affine(0.2, 0.1, t),
    ),
    "wiener": (
        K.Wiener(0.7, origin=0.0, origin_variance=0.2) * K.Cosine(1.1, 2.3, 4.0),
        lambda t: ref.wiener(0.7, 0.0, 0.2) * ref.cosine(1.1, 2.3, 4.0),
    ),
    "pieces": (
        K.PiecewiseConstant(0.8, [2.2, 4.4]) + K.Constant(0.1),
        lambda t: ref.piecewise_constant(0.8, [2.2, 4.4]) + ref.constant(0.1),
    ),
    "dense": (
        K.Matern52(0.7, 2.0) * K.Matern52(0.9, 3.0),
        lambda t: ref.matern52(0.7, 2.0) * ref.matern52(0.9, 3.0),
    ),
}


@functools.cache
def make_data(row_length):
    names = [name for name, times in TIMES.items() for _ in times]
    times = np.concatenate(list(TIMES.values()))
    return Dataset.from_mappings(times, [{name: 1.0} for name in names], 0.0, row_length=row_length)


def site_of(name):
    rng = np.random.default_rng(len(TIMES[name]))
    precision = rng.uniform(0.2, 3.0, len(TIMES[name]))
    precision[len(precision) // 2] = 0.0
    return rng.normal(size=len(precision)), precision


@eqx.filter_jit
def _answer(model, chain, sites, queries):
    states = smooth_chain(model, chain, sites, keep_states=True).states
    return interpolate(model, chain, states, queries)


def answer(kernel, row_length, name, times):
    """Means and variances of a feature, as the smoother's states give them."""
    data = make_data(row_length)
    flat = np.zeros((2, data.chains[0].gap.size))
    for each in TIMES:
        flat[:, data.entries(each).positions] = site_of(each)
    sites = Site(*jnp.asarray(flat.reshape(2, *data.chains[0].gap.shape)))
    found = data.locate(np.full(len(times), data.feature_id(name)), times)
    parts = (found.left, found.right, found.left_gap, found.right_gap, found.offset, found.age)
    queries = Queries(*map(jnp.asarray, parts))
    model = StepModel(resolve(kernel, jnp.float64), data.epoch)
    return map(np.asarray, _answer(model, data.chains[0], sites, queries))


def conditional(covariance, name, times):
    """Means and variances from the dense process."""
    own = TIMES[name]
    process = covariance(own[0])
    nu, tau = site_of(name)
    posterior = ref.GaussianPosterior(process.matrix(own), tau, nu)
    return posterior.predict(process.matrix(times, own), process(times, times))


@pytest.mark.parametrize("row_length", [3, 12], ids=["linked", "packed"])
@pytest.mark.parametrize("name", CASES)
def test_equals_dense_conditionals(name, row_length):
    kernel, covariance = CASES[name]
    assert make_data(row_length).chains[0].linked == (row_length == 3)
    for feature in TIMES:
        mean, variance = answer(kernel, row_length, feature, QUERIES)
        means, variances = conditional(covariance, feature, QUERIES)
        np.testing.assert_allclose(mean, means, rtol=0, atol=1e-10)
        np.testing.assert_allclose(variance, variances, rtol=0, atol=1e-10)


@pytest.mark.parametrize("row_length", [3, 12], ids=["linked", "packed"])
@pytest.mark.parametrize("name", ["sum", "wiener"])
def test_unseen_feature_has_its_prior(name, row_length):
    kernel, covariance = CASES[name]
    mean, variance = answer(kernel, row_length, OTHER, QUERIES)
    np.testing.assert_array_equal(mean, 0.0)
    prior = covariance(0.0)(QUERIES, QUERIES)
    np.testing.assert_allclose(variance, prior, rtol=1e-12)


def test_wiener_process_before_its_first_time_is_known():
    kernel = K.Wiener(0.7)
    for row_length in (3, 12):
        mean, variance = answer(kernel, row_length, "long", QUERIES)
        np.testing.assert_array_equal(mean[:2], 0.0)
        np.testing.assert_array_equal(variance[:2], 0.0)
        means, variances = conditional(lambda t: ref.wiener(0.7, t), "long", QUERIES[1:])
        np.testing.assert_allclose(mean[1:], means, atol=1e-10)
        np.testing.assert_allclose(variance[1:], variances, atol=1e-10)
