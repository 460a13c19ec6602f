"""Properties that every kernel has, and every sum and product of kernels."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg
from equinox import combine, partition

from jaxkick.parameters import AbstractParameter, Fixed, resolve
from tests.kernels.zoo import CASES, IDS, evaluate, outputs

GAPS = np.array([0.0, 1e-9, 1e-6, 1e-3, 0.03, 0.4, 1.3, 3.0, 11.0, 40.0, 1e3, 1e6, 1e9])
MODERATE = (GAPS > 1e-4) & (GAPS < 20.0)
STARTS = np.full(len(GAPS), 0.7)
FIRST_HALF = np.array([0.0, 1e-9, 1e-4, 0.2, 0.9, 3.0, 17.0, 0.0, 1.0, 2.5, 0.1, 1e4, 1e9])
SECOND_HALF = np.array([0.0, 1e-9, 1e-2, 0.5, 0.4, 1e-6, 30.0, 1.0, 0.0, 2.5, 9.0, 1e-3, 1e9])

MOVING = [case for case in CASES if case.drift is not None]
every_kernel = pytest.mark.parametrize("case", CASES, ids=IDS)


def close(actual, expected, tolerance, scale=1e-300):
    error = np.max(np.abs(actual - expected))
    assert error <= tolerance * max(np.max(np.abs(expected)), scale), error


def van_loan(drift, diffusion, gap):
    """The transition and the noise covariance by one matrix exponential of a short step.

    The fraction of matrices loses digits over long steps, so these are put together.
    """
    size, doublings = len(drift), max(0, int(np.ceil(np.log2(np.abs(drift).sum() * gap + 1e-9))))
    block = np.block([[-drift, diffusion], [np.zeros((size, size)), drift.T]])
    exponential = scipy.linalg.expm(block * gap / 2**doublings)
    transition = exponential[size:, size:].T
    noise = transition @ exponential[:size, size:]
    for _ in range(doublings):
        noise = noise + transition @ noise @ transition.T
        transition = transition @ transition
    return transition, noise


@pytest.mark.quick
@pytest.mark.parametrize("case", MOVING, ids=[case.name for case in MOVING])
def test_transition_and_noise_are_those_of_the_matrix_exponential(case):
    values = evaluate(case.kernel, STARTS, GAPS)
    for index in np.flatnonzero(MODERATE):
        transition, noise = van_loan(case.drift, case.diffusion, GAPS[index])
        close(values["A"][index], transition, 1e-12)
        close(values["Q"][index], noise, 1e-12)


@every_kernel
def test_dense_covariance_is_that_of_the_state_space(case):
    for start in (STARTS, 0 * STARTS, STARTS + 1.1):
        values = evaluate(case.kernel, start, np.minimum(GAPS, 1e4))
        step = np.einsum(
            "ni,nij,njk,nk->n", values["h"], values["A"], values["P_start"], values["h"]
        )
        close(values["k_state"], step, 1e-12)
        scale = np.max(np.abs(values["P_end"]))
        error = np.abs(values["k"] - values["k_state"])
        assert np.all(error <= case.tolerance + 1e-12 * scale)


@every_kernel
def test_two_steps_make_one(case):
    first = evaluate(case.kernel, STARTS, FIRST_HALF)
    second = evaluate(case.kernel, STARTS + FIRST_HALF, SECOND_HALF)
    both = evaluate(case.kernel, STARTS, FIRST_HALF + SECOND_HALF)
    noise = second["A"] @ first["Q"] @ second["A"].swapaxes(1, 2) + second["Q"]
    end = both["A"] @ both["P_start"] @ both["A"].swapaxes(1, 2) + both["Q"]
    for index, length in enumerate(FIRST_HALF + SECOND_HALF):
        # The angle of an undamped oscillation is known to the rounding of the time itself.
        tolerance = 1e-11 * max(1.0, length)
        close(second["A"][index] @ first["A"][index], both["A"][index], tolerance)
        close(noise[index], both["Q"][index], tolerance, 1e-12)
        close(end[index], both["P_end"][index], tolerance)


@every_kernel
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_covariances_are_positive_semidefinite(case, dtype):
    values = evaluate(case.kernel, STARTS, GAPS, dtype, dense=dtype == np.float64)
    for name in ("Q", "P_start"):
        covariances = values[name].astype(np.float64)
        assert values[name].dtype == dtype
        assert np.all(np.isfinite(covariances))
        assert np.array_equal(covariances, covariances.swapaxes(1, 2))
        smallest = np.linalg.eigvalsh(covariances)[:, 0]
        largest = np.max(np.abs(covariances), axis=(1, 2))
        assert np.all(smallest >= -20 * np.finfo(dtype).eps * largest)


@every_kernel
def test_single_precision_agrees_with_double(case):
    single = evaluate(case.kernel, STARTS, GAPS, np.float32, dense=False)
    double = evaluate(case.kernel, STARTS, GAPS)
    for name in ("A", "Q", "P_start"):
        for index in np.flatnonzero(GAPS < 20.0):
            close(single[name][index], double[name][index], 2e-5, 1e-35)


LARGE = (
    "equation-from-origin",
    "product-of-three",
    "product-pieces",
    "scaled",
    "sum-of-three",
    "big-sum",
    "big-product",
)
SMOOTH = [case for case in CASES if case.name not in LARGE]
GRADIENT_NAMES = ("A", "Q", "P_start", "k")


def weighted(kernel, gap, weights):
    """A number that depends on all that a kernel says of an interval."""
    values = outputs(kernel, jnp.asarray(0.7, gap.dtype), gap)
    return sum(jnp.sum(jnp.asarray(weights[n], gap.dtype) * values[n]) for n in GRADIENT_NAMES)


def free_parameters(kernel):
    """The arrays that learning may move, and the rest of the kernel."""
    free = jax.tree.map(
        lambda node: jax.tree.map(lambda _: not isinstance(node, Fixed), node),
        kernel,
        is_leaf=lambda node: isinstance(node, AbstractParameter),
    )
    return partition(kernel, free)


def some_weights(kernel):
    shapes = jax.eval_shape(lambda: outputs(kernel, jnp.asarray(0.7), jnp.asarray(1.0)))
    random = np.random.default_rng(3)
    return {name: random.normal(size=shapes[name].shape) for name in GRADIENT_NAMES}


def gradient(kernel, gaps, weights):
    """The gradient in each free array, for each gap."""
    parameters, rest = free_parameters(kernel)

    def value(parameters, gap):
        return weighted(combine(parameters, rest), gap, weights)

    slopes = jax.jit(jax.vmap(jax.grad(value), in_axes=(None, 0)))(parameters, gaps)
    return [np.asarray(leaf) for leaf in jax.tree.leaves(slopes)]


@pytest.mark.parametrize("case", SMOOTH, ids=[case.name for case in SMOOTH])
def test_gradients_are_finite_and_those_of_central_differences(case):
    weights = some_weights(case.kernel)
    parameters, rest = free_parameters(case.kernel)
    leaves, structure = jax.tree.flatten(parameters)
    random, step, count = np.random.default_rng(4), 3e-6, np.sum(MODERATE)

    def values_at(leaves):
        values = evaluate(combine(jax.tree.unflatten(structure, leaves), rest), STARTS, GAPS)
        parts = [
            values[n][MODERATE].reshape(count, -1) @ weights[n].ravel() for n in GRADIENT_NAMES
        ]
        return np.sum(parts, axis=0)

    slopes = gradient(case.kernel, jnp.asarray(GAPS), weights)
    for position, (leaf, slope) in enumerate(zip(leaves, slopes, strict=True)):
        assert np.all(np.isfinite(slope))
        direction = random.normal(size=leaf.shape)
        shifted = [
            [*leaves[:position], leaf + sign * step * direction, *leaves[position + 1 :]]
            for sign in (+1, -1)
        ]
        expected = (values_at(shifted[0]) - values_at(shifted[1])) / (2 * step)
        along = slope[MODERATE].reshape(count, -1) @ direction.ravel()
        scale = np.abs(values_at(leaves)) + np.abs(expected)
        assert np.all(np.abs(along - expected) <= 1e-7 * scale)


CURVED = ["matern12", "matern32", "matern52", "cosine-damped", "squared-exponential", "periodic"]


@pytest.mark.parametrize("name", CURVED)
def test_gradients_are_finite_in_single_precision(name):
    kernel = resolve(CASES[IDS.index(name)].kernel, jnp.dtype(np.float32))
    weights = some_weights(CASES[IDS.index(name)].kernel)
    for slope in gradient(kernel, jnp.asarray(GAPS, jnp.float32), weights):
        assert slope.dtype == np.float32
        assert np.all(np.isfinite(slope))


@every_kernel
def test_state_dim_is_that_of_the_matrices(case):
    values = jax.eval_shape(lambda: outputs(case.kernel, jnp.asarray(0.7), jnp.asarray(1.0)))
    size = case.kernel.state_dim
    assert values["h"].shape == (size,)
    assert values["A"].shape == values["Q"].shape == values["P_start"].shape == (size, size)
