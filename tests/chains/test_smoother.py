"""The smoother over chains, against the textbook recursion and the dense Gaussian process."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxkick import Dataset, kernels
from jaxkick._math.small_matrices import MAX_UNROLLED, column, matrix
from jaxkick.chains.filter import filter_chain
from jaxkick.chains.smoother import smooth_chain
from jaxkick.chains.step import Site, StepModel
from jaxkick.kernels import Epoch, Instant, Interval
from jaxkick.parameters import resolve
from tests import reference as ref

pytestmark = pytest.mark.optimized

EPOCH = 1.0
COUNTS = np.array([9, 6, 4, 2, 1])
BEGINS = np.cumsum(COUNTS) - COUNTS
WHOLE = int(COUNTS.sum())
ROW_LENGTHS = [1, 2, 3, 7, WHOLE]


def make_times():
    """Times feature by feature, some of them equal and some very close."""
    rng = np.random.default_rng(0)
    times = [np.sort(rng.uniform(1.0, 6.0, count)) for count in COUNTS]
    times[0][3:5] = times[0][2]
    times[1][1] = times[1][0]
    times[0][7] = times[0][6] + 1e-9
    # An entry at the very origin of the kernels that have one in the midst of the data.
    times[2][1:3] = 3.0, 3.5
    return np.concatenate([np.sort(part) for part in times])


def make_sites():
    """Precisions with zeros and a negative one among them."""
    rng = np.random.default_rng(1)
    precision = rng.uniform(0.1, 3.0, WHOLE) * (rng.uniform(size=WHOLE) > 0.3)
    precision[[2, 12]] = 0.0, -0.05
    return rng.normal(size=WHOLE), precision


TIMES = make_times()
NU, TAU = make_sites()

K = kernels
FIRST = K.FIRST
# A kernel, and its dense covariance as a function of the feature's first time.
CASES = {
    "constant": (K.Constant(0.7), lambda t: ref.constant(0.7)),
    "matern12": (K.Matern12(0.7, 1.9), lambda t: ref.matern12(0.7, 1.9)),
    "wiener-first": (K.Wiener(0.7), lambda t: ref.wiener(0.7, t)),
    "wiener-origin": (
        K.Wiener(0.7, origin=EPOCH, origin_variance=0.2),
        lambda t: ref.wiener(0.7, EPOCH, 0.2),
    ),
    "pieces": (
        K.PiecewiseConstant(0.8, [2.2, 4.4]),
        lambda t: ref.piecewise_constant(0.8, [2.2, 4.4]),
    ),
    "linear-number": (K.Linear(0.4, origin=3.0), lambda t: ref.linear(0.4, 3.0)),
    "linear-first": (K.Linear(0.4, origin=FIRST), lambda t: ref.linear(0.4, t)),
    "cosine": (K.Cosine(0.9, 1.7), lambda t: ref.cosine(0.9, 1.7)),
    "sum": (
        K.Constant(0.3) + K.Matern32(0.7, 1.9),
        lambda t: ref.constant(0.3) + ref.matern32(0.7, 1.9),
    ),
    "product": (
        K.Matern32(0.7, 1.9) * K.Cosine(1.1, 2.3, 4.0),
        lambda t: ref.matern32(0.7, 1.9) * ref.cosine(1.1, 2.3, 4.0),
    ),
    "five": (
        K.Matern52(0.7, 1.9) + K.Affine(0.2, 0.1, origin=FIRST),
        lambda t: ref.matern52(0.7, 1.9) + ref.affine(0.2, 0.1, t),
    ),
    "product-first": (
        K.Wiener(0.7, origin_variance=0.1) * K.Matern12(0.8, 2.0) + K.Constant(0.1),
        lambda t: ref.wiener(0.7, t, 0.1) * ref.matern12(0.8, 2.0) + ref.constant(0.1),
    ),
    "dense": (K.Periodic(0.9, 1.2, 2.7, order=4) + K.Matern12(0.3, 2.0), None),
}
# The textbook recursion inverts predicted covariances, and at the origin of a line in the midst
# of the data there is only rounding to invert.
DETERMINED = "linear-number"


@functools.cache
def make_chain(row_length):
    """The chain, and the position of each entry, feature by feature."""
    names = np.repeat(np.arange(len(COUNTS)), COUNTS).tolist()
    data = Dataset.from_mappings(TIMES, [{name: 1.0} for name in names], 0.0, row_length=row_length)
    return data, np.concatenate([data.entries(name).positions for name in range(len(COUNTS))])


def step_model(kernel, data):
    return StepModel(resolve(kernel, jnp.float64), data.epoch)


def make_chain_sites(data, positions, nu=NU, tau=TAU):
    shape = data.chains[0].gap.shape
    flat = np.zeros((2, np.prod(shape)))
    flat[:, positions] = nu, tau
    return Site(*jnp.asarray(flat.reshape(2, *shape)))


@eqx.filter_jit
def _smooth(model, chain, sites):
    return smooth_chain(model, chain, sites)


def smooth(kernel, row_length, nu=NU, tau=TAU):
    """Means and variances of the cavities, feature by feature, and the log-normaliser."""
    data, positions = make_chain(row_length)
    sites = make_chain_sites(data, positions, nu, tau)
    found = _smooth(step_model(kernel, data), data.chains[0], sites)
    mean, variance = (np.asarray(part).ravel()[positions] for part in found[:2])
    return mean, variance, float(found.log_normaliser)


@eqx.filter_jit
def dynamics(kernel, times, ages, gaps):
    """A, Q and P of every entry, as arrays."""

    def at(time, age, gap):
        epoch = Epoch.at(0.0, np.dtype(np.float64))
        end = Instant(time, age, epoch)
        interval = Interval(Instant(time - gap, age - gap, epoch), end, gap)
        parts = kernel.transition(interval), kernel.noise_cov(interval), kernel.state_cov(end)
        return tuple(part.to_array().astype(time.dtype) for part in parts)

    h = kernel.measurement().to_array()[:, 0].astype(times.dtype)
    return *jax.vmap(at)(times, ages, gaps), h


def textbook(kernel, nu=NU, tau=TAU):
    """The reference recursion over all features end to end."""
    ages = TIMES - np.repeat(TIMES[BEGINS], COUNTS)
    gaps = np.diff(TIMES, prepend=TIMES[0])
    gaps[BEGINS] = 0.0
    A, Q, P, h = map(np.array, dynamics(resolve(kernel), *map(jnp.asarray, (TIMES, ages, gaps))))
    A[BEGINS], Q[BEGINS] = 0.0, P[BEGINS]
    return ref.kalman_smoother(A, Q, h, P[0], nu, tau)


def dense_cavities(covariance):
    """Cavities by leaving out one site after another, and the log-normaliser."""
    means, variances, total = np.zeros(WHOLE), np.zeros(WHOLE), 0.0
    for begin, count in zip(BEGINS, COUNTS, strict=True):
        part = slice(begin, begin + count)
        matrix = covariance(TIMES[begin]).matrix(TIMES[part])
        total += ref.GaussianPosterior(matrix, TAU[part], NU[part]).log_normaliser
        for entry in range(count):
            keep = np.arange(count) != entry
            others = ref.GaussianPosterior(matrix, TAU[part] * keep, NU[part] * keep)
            means[begin + entry] = others.posterior_mean[entry]
            variances[begin + entry] = others.posterior_covariance[entry, entry]
    return means, variances, total


def check(name, row_length):
    kernel, covariance = CASES[name]
    mean, variance, log_normaliser = smooth(kernel, row_length)
    assert np.all(variance >= 0.0)
    if covariance is not None:
        means, variances, total = dense_cavities(covariance)
        np.testing.assert_allclose(mean, means, rtol=0, atol=1e-10)
        np.testing.assert_allclose(variance, variances, rtol=0, atol=1e-10)
        np.testing.assert_allclose(log_normaliser, total, rtol=1e-11)
    if name != DETERMINED:
        truth = textbook(kernel)
        share = 1.0 + TAU * variance
        np.testing.assert_allclose((mean + NU * variance) / share, truth.mean, rtol=0, atol=1e-10)
        np.testing.assert_allclose(variance / share, truth.variance, rtol=0, atol=1e-10)
        np.testing.assert_allclose(log_normaliser, truth.log_normaliser, rtol=1e-11)
        # The cavity from the marginal: 1 / (1/v − τ), written so that v = 0 is allowed.
        cavity = truth.variance / (1.0 - TAU * truth.variance)
        np.testing.assert_allclose(variance, cavity, rtol=0, atol=1e-9)


# Rows of a single step are so many that they are walked along in groups.
@pytest.mark.parametrize("row_length", [1, 3, WHOLE], ids=["groups", "linked", "packed"])
@pytest.mark.parametrize("name", CASES)
def test_every_kernel(name, row_length):
    check(name, row_length)


@pytest.mark.parametrize("row_length", [2, 7])
@pytest.mark.parametrize("name", ["sum", "wiener-first", "dense"])
def test_every_row_length(name, row_length):
    check(name, row_length)


def test_cases_cover_layouts_and_sizes():
    linked = {length: make_chain(length)[0].chains[0].linked for length in ROW_LENGTHS}
    assert linked == {1: True, 2: True, 3: True, 7: True, WHOLE: False}
    assert CASES["dense"][0].state_dim > MAX_UNROLLED
    assert {kernel.state_dim for kernel, _ in CASES.values()} >= {1, 2, 3, 4, 5}
    assert make_chain(7)[0].chains[0].gap.size > WHOLE


@pytest.mark.parametrize("row_length", [3, WHOLE], ids=["linked", "packed"])
def test_wiener_process_at_its_origin_is_known(row_length):
    mean, variance, _ = smooth(CASES["wiener-first"][0], row_length)
    np.testing.assert_array_equal(mean[BEGINS], 0.0)
    np.testing.assert_array_equal(variance[BEGINS], 0.0)


@pytest.mark.parametrize("row_length", [3, WHOLE], ids=["linked", "packed"])
def test_sites_that_say_nothing_leave_the_prior(row_length):
    kernel, covariance = CASES["sum"]
    nothing = np.zeros(WHOLE)
    mean, variance, log_normaliser = smooth(kernel, row_length, nothing, nothing)
    np.testing.assert_array_equal(mean, 0.0)
    np.testing.assert_allclose(variance, np.diag(covariance(0.0).matrix(TIMES)), rtol=1e-12)
    assert log_normaliser == 0.0


@pytest.mark.parametrize("row_length", [3, WHOLE], ids=["linked", "packed"])
def test_filter_predicts_from_the_past_alone(row_length):
    kernel, _ = CASES["sum"]
    data, positions = make_chain(row_length)
    sites = make_chain_sites(data, positions)
    filtered = eqx.filter_jit(filter_chain)(step_model(kernel, data), data.chains[0], sites, True)
    truth = textbook(kernel)
    mu = np.asarray(filtered.mu).ravel()[positions]
    np.testing.assert_allclose(mu, truth.predicted_mean @ [1.0, 1.0, 0.0], atol=1e-12)
    states = np.stack([np.ravel(row[0])[positions] for row in filtered.state.m.rows], axis=1)
    np.testing.assert_allclose(states, truth.filtered_mean, atol=1e-12)


class Fading(kernels.AbstractKernel):
    """One number for every feature, seen through exp(−age): between features it means nothing."""

    @property
    def state_dim(self):
        return 1

    def measurement(self):
        return column([1.0])

    def state_cov(self, instant):
        return matrix([[jnp.exp(-2.0 * instant.age)]])

    def transition(self, interval):
        return matrix([[jnp.exp(interval.start.age - interval.end.age)]])

    def noise_cov(self, interval):
        return matrix([[None]])

    def covariance(self, t, u):
        return jnp.exp(-t.age - u.age)


@pytest.mark.parametrize("row_length", [1, 2, 100], ids=["groups", "linked", "packed"])
def test_transitions_between_features_are_never_used(row_length):
    """From the old age of one feature to the birth of the next this one is infinite."""
    times, names = np.array([0.0, 400.0, 800.0] * 4), np.repeat(list("abcd"), 3)
    data = Dataset.from_mappings(times, [{n: 1.0} for n in names], 0.0, row_length=row_length)
    places = np.concatenate([data.entries(name).positions for name in "abcd"])
    flat = np.zeros((2, data.chains[0].gap.size))
    flat[:, places] = [[1.0], [2.0]]
    sites = Site(*jnp.asarray(flat.reshape(2, *data.chains[0].gap.shape)))
    found = _smooth(step_model(Fading(), data), data.chains[0], sites)
    # The first entry has a variance of one and no other that tells of it; the others are zero.
    np.testing.assert_allclose(np.ravel(found.mean)[places], [0.0] * 12, atol=1e-100)
    np.testing.assert_allclose(np.ravel(found.variance)[places], [1.0, 0.0, 0.0] * 4, atol=1e-100)
