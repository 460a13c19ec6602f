"""The programs of inference, learning and prediction lower for accelerators as they are."""

import re

import equinox as eqx
import jax
import pytest
from jax import export

import jaxkick as jk
from tests.sharding.league import league, model


def lowered(function, *arguments, platform: str) -> str:
    """The text of a function's program for a platform that need not be here."""
    arrays, rest = eqx.partition(arguments, eqx.is_array)

    def flat(arrays):
        return eqx.filter(function(*eqx.combine(arrays, rest)), eqx.is_array)

    return str(export.export(jax.jit(flat), platforms=[platform])(arrays).mlir_module())


def fit(model, data):
    posterior = jk.infer(model, data)
    return posterior.sites, posterior.observations, posterior.log_marginal_likelihood


def slope(model, data):
    return eqx.filter_value_and_grad(jk.log_marginal_likelihood)(model, data)


def predict(model, data):
    prediction = jk.infer(model, data).predict(
        "team 1", "nobody", 9.0, {"home": 1.0}, allow_unknown=True
    )
    return prediction.mean, prediction.probabilities


@pytest.mark.parametrize("platform", ["cuda", "tpu"])
@pytest.mark.parametrize("function", [fit, slope, predict])
def test_float32_lowers_without_float64_or_callbacks(function, platform):
    with jax.enable_x64(False):
        # Short rows, and many of them, as on an accelerator.
        text = lowered(function, model(), league(2, "float32"), platform=platform)
    assert "stablehlo.while" in text
    assert not [name for name in re.findall(r"custom_call @(\w+)", text) if "callback" in name]
    assert not re.search(r"tensor<[^>]*f64>", text)
