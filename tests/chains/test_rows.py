"""The walk along rows in groups is the walk along rows, in far fewer sequential steps."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.core import jaxprs_in_params

from jaxkick import Dataset, kernels
from jaxkick.chains.layout import plan_layout
from jaxkick.chains.smoother import smooth_chain
from jaxkick.chains.step import Site, StepModel
from jaxkick.parameters import resolve

COUNT = 997
KERNEL = kernels.Constant(0.4) + kernels.Matern32(0.7, 1.3)


def make(row_length, dtype="float64", spread=1.0):
    """Two features with most entries of one, cut into rows; and sites of very unequal strength."""
    rng = np.random.default_rng(5)
    names = np.where(rng.uniform(size=COUNT) < 0.9, "busy", "idle")
    data = Dataset.from_mappings(
        np.sort(rng.uniform(0.0, 30.0, COUNT)),
        [{name: 1.0} for name in names],
        0.0,
        row_length=row_length,
        dtype=dtype,
    )
    precision = np.exp(spread * rng.normal(size=COUNT))
    pull = precision * rng.normal(size=COUNT)
    positions = np.concatenate([data.entries(name).positions for name in ("busy", "idle")])
    flat = np.zeros((2, data.chains[0].gap.size), dtype)
    flat[:, positions] = pull, precision
    return data, positions, Site(*jnp.asarray(flat.reshape(2, *data.chains[0].gap.shape)))


@eqx.filter_jit
def smooth(kernel, data, sites):
    model = StepModel(resolve(kernel, sites.precision.dtype), data.epoch)
    return smooth_chain(model, data.chains[0], sites, keep_states=True)


def in_order(tree, positions):
    return [np.asarray(leaf).ravel()[positions] for leaf in jax.tree.leaves(tree)]


@pytest.mark.parametrize("spread", [0.5, 6.0], ids=["alike", "from 1e-8 to 1e8"])
def test_groups_of_rows_are_rows(spread):
    """Cavities, and the states on both sides of every entry."""
    (data, places, sites), (whole, all_places, all_sites) = (
        make(row_length, spread=spread) for row_length in (2, 1_000)
    )
    assert data.chains[0].linked
    assert not whole.chains[0].linked
    found, truth = smooth(KERNEL, data, sites), smooth(KERNEL, whole, all_sites)
    np.testing.assert_allclose(found.log_normaliser, truth.log_normaliser, rtol=1e-11)
    parts = [(part.mean, part.variance, part.states) for part in (found, truth)]
    pairs = zip(in_order(parts[0], places), in_order(parts[1], all_places), strict=True)
    for ours, theirs in pairs:
        np.testing.assert_allclose(ours, theirs, rtol=1e-7, atol=1e-9 * np.abs(theirs).max())


def test_float32_keeps_its_digits():
    (data, places, sites), (whole, all_places, all_sites) = make(2, "float32"), make(1_000)
    found, truth = smooth(KERNEL, data, sites), smooth(KERNEL, whole, all_sites)
    deviation = np.sqrt(np.asarray(truth.variance).ravel()[all_places])
    error = np.asarray(found.mean).ravel()[places] - np.asarray(truth.mean).ravel()[all_places]
    assert np.max(np.abs(error) / deviation) < 2e-4


def test_gradients_go_through_groups():
    def total(lengthscale, data, positions, sites):
        found = smooth(kernels.Matern32(0.7, lengthscale), data, sites)
        weights = jnp.sin(jnp.arange(COUNT))
        return found.mean.ravel()[positions] @ weights + found.log_normaliser

    slope = eqx.filter_jit(jax.grad(total))
    slopes = [slope(jnp.asarray(1.3), *make(row_length)) for row_length in (2, 1_000)]
    np.testing.assert_allclose(*slopes, rtol=1e-8)


def scan_lengths(jaxpr):
    """The number of sequential steps of every loop."""
    for equation in jaxpr.eqns:
        if equation.primitive.name == "scan":
            yield equation.params["length"]
        for inner in jaxprs_in_params(equation.params):
            yield from scan_lengths(inner)


def test_a_gpu_takes_few_sequential_steps():
    """A million entries of one feature in the layout for a GPU: no loop over all rows."""
    layout = plan_layout(np.array([1_000_000]), "gpu")
    assert layout.linked
    data, _, sites = make(2)
    chain = jax.tree.map(
        lambda leaf: jax.ShapeDtypeStruct((layout.steps, layout.rows), leaf.dtype), data.chains[0]
    )
    sites = jax.tree.map(lambda _: chain.gap, sites)
    model = StepModel(resolve(KERNEL, jnp.float64), data.epoch)
    traced = jax.make_jaxpr(lambda chain, sites: smooth_chain(model, chain, sites)[:2])(
        chain, sites
    )
    assert sum(scan_lengths(traced.jaxpr)) < 3 * layout.steps + 7 * layout.rows**0.5


def products(jaxpr):
    """Every product of arrays."""
    for equation in jaxpr.eqns:
        if equation.primitive.name == "dot_general":
            yield equation
        for inner in jaxprs_in_params(equation.params):
            yield from products(inner)


@pytest.mark.parametrize("row_length", [2, 1_000], ids=["groups", "whole"])
def test_products_keep_all_digits_on_accelerators(row_length):
    """These multiply float32 with fewer digits unless told otherwise."""
    data, _, sites = make(row_length)
    equation = kernels.LinearSDE(
        np.array([[0.0, 1.0], [-1.0, -0.6]]), [[0.0], [1.0]], [[0.8]], [1.0, 0.0]
    )
    large = kernels.Periodic(0.9, 1.2, 2.7, order=4) + kernels.Constant(0.1)
    for kernel in (equation, large):
        traced = jax.make_jaxpr(lambda sites, kernel=kernel: smooth(kernel, data, sites)[:2])(sites)
        found = {str(each.params["precision"]) for each in products(traced.jaxpr)}
        assert found
        assert all(text.count("HIGHEST") == 2 for text in found)
