"""One kernel of every kind, sums and products among them, with their equations as truths.

An equation is given in the coordinates of the kernel's own state: the drift matrix F and the
diffusion matrix D = L q Lᵀ of dx = F x dt + L dβ.
"""

import math
from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg

from jaxkick.kernels import (
    AbstractKernel,
    Affine,
    Constant,
    Cosine,
    Epoch,
    Instant,
    Interval,
    Linear,
    LinearSDE,
    Matern12,
    Matern32,
    Matern52,
    Periodic,
    PiecewiseConstant,
    SquaredExponential,
    Wiener,
    state_space_covariance,
)
from jaxkick.kernels.stationary import _FILTERS
from jaxkick.parameters import resolve

# The first time of the feature in all tests, and the origins and boundaries around it.
FIRST_TIME, BEFORE, AFTER = 0.5, -1.25, 2.0


@dataclass(frozen=True)
class Case:
    """A kernel, its equation where it has one of constant coefficients, and its exactness."""

    name: str
    kernel: AbstractKernel
    drift: np.ndarray | None = None
    diffusion: np.ndarray | None = None
    tolerance: float = 0.0


def matern_equation(variance, lengthscale, smoothness):
    """The state is f, (1 + d/dx) f, … in the normalised time x = rate t."""
    size, rate = smoothness + 1, math.sqrt(2 * smoothness + 1) / lengthscale
    drift = rate * (np.eye(size, k=1) - np.eye(size))
    unit = np.zeros((size, size))
    unit[-1, -1] = 1.0
    stationary = scipy.linalg.solve_continuous_lyapunov(drift, -unit)
    return drift, unit * variance / stationary[0, 0]


def cosine_equation(variance, period, lengthscale=math.inf):
    """A rotation that shrinks."""
    turn, rate = 2 * math.pi / period, 1.0 / lengthscale
    return np.array([[-rate, turn], [-turn, -rate]]), 2 * rate * variance * np.eye(2)


def periodic_equation(period, order):
    """A constant and rotations at whole multiples of a frequency."""
    blocks = [cosine_equation(1.0, period / j)[0] for j in range(1, order + 1)]
    drift = scipy.linalg.block_diag(np.zeros((1, 1)), *blocks)
    return drift, np.zeros_like(drift)


def laguerre_equation(variance, lengthscale, order):
    """A chain of all-pass filters, each fed by all before it."""
    rate = _FILTERS[order][0] / lengthscale
    drift = -rate * (np.eye(order) + 2 * np.tri(order, k=-1))
    return drift, 2 * rate * variance * np.ones((order, order))


def still(size):
    """Nothing moves."""
    return np.zeros((size, size)), np.zeros((size, size))


LINE = np.array([[0.0, 1.0], [0.0, 0.0]])
WIENER = (np.zeros((1, 1)), np.array([[0.7]]))
OSCILLATOR = np.array([[0.0, 1.0], [-2.0, -0.3]])
OSCILLATOR_EFFECT = np.array([[0.5, 0.0], [0.2, 1.0]])
OSCILLATOR_DENSITY = np.array([[1.0, 0.3], [0.3, 0.5]])
OSCILLATOR_DIFFUSION = OSCILLATOR_EFFECT @ OSCILLATOR_DENSITY @ OSCILLATOR_EFFECT.T


def summed(*equations):
    """The equation of a sum."""
    drifts, diffusions = zip(*equations, strict=True)
    return scipy.linalg.block_diag(*drifts), scipy.linalg.block_diag(*diffusions)


def multiplied(first, second, first_cov, second_cov):
    """The equation of a product of two stationary kernels."""
    (drift_1, noise_1), (drift_2, noise_2) = first, second
    drift = np.kron(drift_1, np.eye(len(drift_2))) + np.kron(np.eye(len(drift_1)), drift_2)
    return drift, np.kron(noise_1, second_cov) + np.kron(first_cov, noise_2)


def stationary(equation):
    """The covariance that an equation settles in."""
    return scipy.linalg.solve_continuous_lyapunov(equation[0], -equation[1])


def _singles():
    yield Case("constant", Constant(0.3), *still(1))
    yield Case("pieces", PiecewiseConstant(0.8, [AFTER, 5.0, -3.0, 700.0]))
    yield Case("wiener-first", Wiener(0.7), *WIENER)
    yield Case("wiener-before", Wiener(0.7, origin=BEFORE, origin_variance=0.2), *WIENER)
    yield Case("wiener-after", Wiener(0.7, origin=AFTER, origin_variance=0.2))
    yield Case("linear-first", Linear(0.4), LINE, 0 * LINE)
    yield Case("linear-number", Linear(0.4, origin=AFTER), LINE, 0 * LINE)
    yield Case("affine", Affine(0.6, 0.1, origin=BEFORE), LINE, 0 * LINE)
    yield Case("matern12", Matern12(1.3, 2.5), *matern_equation(1.3, 2.5, 0))
    yield Case("matern32", Matern32(1.3, 2.5), *matern_equation(1.3, 2.5, 1))
    yield Case("matern52", Matern52(1.3, 2.5), *matern_equation(1.3, 2.5, 2))
    yield Case("cosine", Cosine(0.9, 1.7), *cosine_equation(0.9, 1.7))
    yield Case("cosine-damped", Cosine(0.9, 1.7, 4.0), *cosine_equation(0.9, 1.7, 4.0))
    yield Case(
        "squared-exponential",
        SquaredExponential(1.1, 3.0),
        *laguerre_equation(1.1, 3.0, 6),
        tolerance=2.6e-3 * 1.1,
    )
    yield Case(
        "periodic", Periodic(1.2, 1.5, 2.2, order=3), *periodic_equation(2.2, 3), tolerance=6e-4
    )
    yield Case(
        "equation",
        LinearSDE(OSCILLATOR, OSCILLATOR_EFFECT, OSCILLATOR_DENSITY, [1.0, 0.4]),
        OSCILLATOR,
        OSCILLATOR_DIFFUSION,
    )
    yield Case(
        "equation-from-origin",
        LinearSDE(LINE, [0.0, 1.0], 0.6, [1.0, 0.0], initial_covariance=np.diag([0.1, 0.2])),
        LINE,
        np.diag([0.0, 0.6]),
    )


def _combinations():
    constant, slow = Constant(0.3), Matern32(1.3, 2.5)
    slow_equation = matern_equation(1.3, 2.5, 1)
    rough_equation, swing_equation = matern_equation(0.7, 6.0, 0), cosine_equation(0.9, 1.7, 4.0)
    yield Case("sum", constant + slow, *summed(still(1), slow_equation))
    yield Case(
        "sum-of-three",
        constant + Wiener(0.7) + Linear(0.4, origin=AFTER),
        *summed(still(1), WIENER, (LINE, 0 * LINE)),
    )
    yield Case("scaled", 2.5 * Matern52(1.3, 2.5), *matern_equation(2.5 * 1.3, 2.5, 2))
    yield Case(
        "product",
        Matern12(0.7, 6.0) * Cosine(0.9, 1.7, 4.0),
        *multiplied(rough_equation, swing_equation, np.array([[0.7]]), 0.9 * np.eye(2)),
    )
    yield Case(
        "product-of-three",
        slow * Matern12(0.7, 6.0) * Cosine(0.9, 1.7, 4.0),
        *multiplied(
            slow_equation,
            multiplied(rough_equation, swing_equation, np.array([[0.7]]), 0.9 * np.eye(2)),
            stationary(slow_equation),
            0.7 * 0.9 * np.eye(2),
        ),
    )
    yield Case("product-moving", Wiener(0.7) * Affine(0.6, 0.1, origin=BEFORE) * slow)
    yield Case(
        "product-pieces", PiecewiseConstant(0.8, [AFTER]) * (constant + Wiener(0.7, origin=AFTER))
    )
    yield Case(
        "big-sum",
        SquaredExponential(1.1, 3.0) + Matern52(1.3, 2.5) + 0.5 * Linear(0.4),
        *summed(laguerre_equation(1.1, 3.0, 6), matern_equation(1.3, 2.5, 2), (LINE, 0 * LINE)),
        tolerance=2.6e-3 * 1.1,
    )
    yield Case(
        "big-product",
        Periodic(1.2, 1.5, 2.2, order=3) * Matern12(0.7, 6.0) * Cosine(0.9, 1.7, 4.0),
        tolerance=6e-4,
    )


CASES = [*_singles(), *_combinations()]
IDS = [case.name for case in CASES]


def interval(start, gap, dtype=np.float64):
    """An interval after the feature's first time, which is also the epoch."""
    age, gap = jnp.asarray(start, dtype), jnp.asarray(gap, dtype)
    epoch = Epoch.at(FIRST_TIME, dtype)
    end = age + gap
    return Interval(Instant(age, age, epoch), Instant(end, end, epoch), gap)


def outputs(kernel, start, gap, dense=True):
    """All that a kernel says of one interval, as arrays."""
    dtype = jnp.result_type(gap)
    span = interval(start, gap, dtype)

    def array(small):
        return small.to_array().astype(dtype)

    values = {
        "h": array(kernel.measurement())[:, 0],
        "A": array(kernel.transition(span)),
        "Q": array(kernel.noise_cov(span)),
        "P_start": array(kernel.state_cov(span.start)),
    }
    if dense:
        values["P_end"] = array(kernel.state_cov(span.end))
        values["k"] = jnp.asarray(kernel.covariance(span.start, span.end), dtype)
        values["k_state"] = state_space_covariance(kernel, span.end, span.start)
    return values


@eqx.filter_jit
def _evaluate(kernel, starts, gaps, dense):
    return jax.vmap(lambda start, gap: outputs(kernel, start, gap, dense))(starts, gaps)


# Every call has this many intervals, so that each kernel is compiled once for all the tests.
BATCH = 13


def evaluate(kernel, starts, gaps, dtype=np.float64, dense=True):
    """`outputs` for many intervals (starts count from the first time), as NumPy arrays."""
    starts, gaps = np.broadcast_arrays(np.atleast_1d(starts), gaps)
    if dtype == np.float32:
        kernel = resolve(kernel, jnp.dtype(dtype))
    count = len(gaps)
    batches = np.arange(BATCH * -(-count // BATCH)).reshape(-1, BATCH) % count
    parts = []
    for batch in batches:
        arrays = (jnp.asarray(values[batch], dtype) for values in (starts, gaps))
        parts.append(jax.device_get(_evaluate(kernel, *arrays, dense)))
    return {name: np.concatenate([part[name] for part in parts])[:count] for name in parts[0]}
