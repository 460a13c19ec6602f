"""Several devices give what one gives."""

import equinox as eqx
import jax
import numpy as np
import pytest

import jaxkick as jk
from tests.sharding.league import league, model

# Rows that begin inside features, few or so many that they stand in groups, and rows that hold
# whole ones.
LAYOUTS = {"linked": 12, "groups": 2, "packed": 40}


def mesh(*shape: int) -> jax.sharding.Mesh:
    devices = np.array(jax.devices()[: int(np.prod(shape))]).reshape(shape)
    return jax.sharding.Mesh(devices, ("rows", "more")[: len(shape)])


def close(found, expected, tolerance=1e-9):
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("row_length", LAYOUTS.values(), ids=LAYOUTS)
@pytest.mark.parametrize("method", [jk.ExpectationPropagation(), jk.ReverseKL()], ids=["ep", "kl"])
def test_inference_on_three_devices(method, row_length):
    data = league(row_length)
    shared = data.shard(mesh(3))
    alone = jk.infer(model(), data, method, tol=1e-8)
    found = jk.infer(model(), shared, method, tol=1e-8)
    close(found.log_marginal_likelihood, alone.log_marginal_likelihood)
    close(found.observations.mean, alone.observations.mean, 1e-7)
    close(found.observations.variance, alone.observations.variance, 1e-7)
    for name in ("team 3", "home"):
        ours, theirs = found.scores(name), alone.scores(name)
        close(ours.means, theirs.means, 1e-7)
        close(ours.variances, theirs.variances, 1e-7)
    for chain, site in zip(shared.chains, found.sites, strict=True):
        steps, rows = chain.gap.shape
        assert rows % 3 == 0
        assert {s.data.shape for s in site.precision.addressable_shards} == {(steps, rows // 3)}


@pytest.mark.parametrize("row_length", [12, 2], ids=["linked", "groups"])
def test_prediction_and_gradient_on_several_devices(row_length):
    data = league(row_length)
    shared = data.shard(mesh(3, 1))
    ask = {"first": NAMES_A, "second": NAMES_B, "time": 9.0, "covariates": {"home": 1.0}}
    expected = jk.infer(model(), data, tol=1e-8).predict(**ask)
    found = jk.infer(model(), shared, tol=1e-8).predict(**ask)
    close(found.mean, expected.mean, 1e-7)
    close(found.variance, expected.variance, 1e-7)

    @eqx.filter_jit
    @eqx.filter_grad
    def slope(model, data):
        return jk.log_marginal_likelihood(model, data, tol=1e-8)

    expected, found = (jax.tree.leaves(slope(model(), each)) for each in (data, shared))
    for ours, theirs in zip(found, expected, strict=True):
        close(ours, theirs, 1e-6)


NAMES_A, NAMES_B = ["team 1", "team 2"], ["team 3", "nobody"]


def test_observations_that_divide_evenly_are_shared_out():
    data = jk.Dataset.from_pairs([0.0, 1.0, 2.0, 3.0], list("abab"), list("cdcd"))
    shared = data.shard(mesh(2))
    assert {s.data.shape for s in shared.outcome.addressable_shards} == {(2,)}
    assert shared.names == data.names


def test_a_mesh_is_asked_for():
    with pytest.raises(TypeError, match=r"`mesh` must be a `jax\.sharding\.Mesh`, not int"):
        league().shard(2)
