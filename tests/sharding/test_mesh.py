"""Several devices give what one gives."""

import functools

import equinox as eqx
import jax
import numpy as np
import pytest

import jaxkick as jk
from tests.sharding.league import league, model

# Rows that begin inside features, few of them or so many that they form groups, and rows that
# hold whole features; with the shape of the mesh.
LAYOUTS = {"linked": (12, (3,)), "groups": (2, (3, 1)), "packed": (40, (3,))}


def mesh(*shape: int) -> jax.sharding.Mesh:
    devices = np.array(jax.devices()[: int(np.prod(shape))]).reshape(shape)
    return jax.sharding.Mesh(devices, ("rows", "more")[: len(shape)])


def close(found, expected, tolerance=1e-9):
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


@functools.cache
def fit_alone(method):
    """The fit on one device, which the length of rows does not change."""
    return jk.infer(model(), league(40), method, tol=1e-8)


@pytest.mark.parametrize(("row_length", "shape"), LAYOUTS.values(), ids=LAYOUTS)
@pytest.mark.parametrize("method", [jk.ExpectationPropagation(), jk.ReverseKL()], ids=["ep", "kl"])
def test_inference_and_prediction_on_three_devices(method, row_length, shape):
    shared = league(row_length).shard(mesh(*shape))
    alone = fit_alone(method)
    found = jk.infer(model(), shared, method, tol=1e-8)
    close(found.log_marginal_likelihood, alone.log_marginal_likelihood)
    close(found.observations.mean, alone.observations.mean, 1e-7)
    close(found.observations.variance, alone.observations.variance, 1e-7)
    for name in ("team 3", "home"):
        ours, theirs = (each.scores(name, joint=False) for each in (found, alone))
        close(ours.mean, theirs.mean, 1e-7)
        close(ours.variance, theirs.variance, 1e-7)
    sides = ["team 1", "team 2"], ["team 3", "nobody"]
    ours, theirs = (
        each.predict(*sides, 9.0, {"home": 1.0}, allow_unknown=True) for each in (found, alone)
    )
    close(ours.mean, theirs.mean, 1e-7)
    close(ours.variance, theirs.variance, 1e-7)
    for chain, site in zip(shared.chains, found.sites, strict=True):
        steps, rows = chain.gap.shape
        assert rows % 3 == 0
        assert {s.data.shape for s in site.precision.addressable_shards} == {(steps, rows // 3)}


@eqx.filter_jit
@eqx.filter_grad
def slope(model, data):
    return jk.log_marginal_likelihood(model, data, tol=1e-8)


@pytest.fixture(scope="module")
def slope_alone():
    """The gradient on one device, which the length of rows does not change."""
    return jax.tree.leaves(slope(model(), league(40)))


@pytest.mark.parametrize("layout", ["linked", "groups"])
def test_gradient_on_three_devices(layout, slope_alone):
    row_length, shape = LAYOUTS[layout]
    found = jax.tree.leaves(slope(model(), league(row_length).shard(mesh(*shape))))
    for ours, theirs in zip(found, slope_alone, strict=True):
        close(ours, theirs, 1e-6)


def test_observations_that_divide_evenly_are_shared_out():
    data = jk.Dataset.from_pairs([0.0, 1.0, 2.0, 3.0], list("abab"), list("cdcd"))
    shared = data.shard(mesh(2))
    assert {s.data.shape for s in shared.outcome.addressable_shards} == {(2,)}
    assert shared.names == data.names


def test_a_mesh_is_asked_for():
    with pytest.raises(TypeError, match=r"`mesh` must be a `jax\.sharding\.Mesh`, not int"):
        league().shard(2)
