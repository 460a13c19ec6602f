"""The programs of inference, learning and prediction lower for accelerators as they are."""

import re
from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np
import pytest
from jax import export

import jaxkick as jk
from jaxkick import kernels, likelihoods
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


class Loop(NamedTuple):
    """A loop of a program: its trips, with those of the loops around it, and its operations.

    Trips that depend on the data are zero.
    """

    trips: tuple[int, ...]
    operations: int


def loops_of(function, *arguments) -> list[Loop]:
    """Find all loops of a function's program for CUDA."""
    arrays, rest = eqx.partition(arguments, eqx.is_array)

    def flat(arrays):
        return eqx.filter(function(*eqx.combine(arrays, rest)), eqx.is_array)

    lowered = jax.jit(flat).trace(arrays).lower(lowering_platforms=("cuda",))
    module: Any = lowered.compiler_ir(dialect="stablehlo")
    functions = {each.attributes["sym_name"].value: each for each in module.body.operations}
    found: list[Loop] = []

    def visit(block, around: tuple[int, ...]) -> int:
        count = 0
        for each in block.operations:
            operation = each.operation
            if operation.name == "func.call":
                called = functions[operation.attributes["callee"].value]
                count += visit(called.regions[0].blocks[0], around)
            elif operation.name == "stablehlo.while":
                condition, body = (region.blocks[0] for region in operation.regions)
                trips = (*around, _trips(condition))
                found.append(Loop(trips, visit(body, trips)))
            else:
                count += operation.name not in ("stablehlo.constant", "stablehlo.return")
                if operation.name in ("stablehlo.case", "stablehlo.if"):
                    count += sum(visit(region.blocks[0], around) for region in operation.regions)
        return count

    visit(functions["main"].regions[0].blocks[0], ())
    return found


def _trips(condition) -> int:
    """The constant that a loop counts to; 0 if its end is not a comparison with a constant."""
    texts = [str(each) for each in condition.operations]
    comparisons = [text for text in texts if "stablehlo.compare" in text]
    ends = re.findall(r"stablehlo.constant dense<(\d+)> : tensor<i\d+>", "\n".join(texts))
    return int(ends[0]) if len(comparisons) == len(ends) == 1 else 0


def test_sequential_steps_do_not_grow():
    # A GPU waits for the launch of every step of a loop: their number is what a fit takes.
    kernel = kernels.Constant(0.1) + kernels.Matern32(0.3, 2.0)
    plain = jk.Model(kernel, likelihoods.Probit())
    rng, count, steps = np.random.default_rng(0), 2000, 40

    def data(teams):
        first = rng.integers(0, teams, count)
        second = (first + rng.integers(1, teams, count)) % teams
        times = np.sort(rng.uniform(0.0, 5.0, count))
        return jk.Dataset.from_pairs(times, first, second, row_length=steps, dtype="float32")

    with jax.enable_x64(False):
        cut, packed = data(50), data(2000)
        found = {each.chains[0].linked: loops_of(slope, plain, each) for each in (cut, packed)}
    # Rows begin inside features: loops along the rows, and over the rows.
    rows = cut.chains[0].gap.shape[1]
    assert _summary(found[True], rows) == {"step": 3, "solve": 2, "gradient": 2}
    assert _summary(found[True], steps) == {"step": 5, "solve": 2, "gradient": 3}
    # Whole features in rows.
    assert _summary(found[False], steps) == {"step": 3, "solve": 2, "gradient": 2}
    inside = [loop for loop in found[True] if loop.trips[-1] == steps]
    assert sum(loop.operations for loop in inside) < 2500
    assert sum(loop.operations for loop in found[False] if loop.trips[-1] == steps) < 1300


def _summary(loops: list[Loop], trips: int) -> dict[str, int]:
    """Count loops of so many trips: of a step of inference, of a solve for means, of a gradient."""
    parts = {"step": (0, trips), "solve": (0, 0, trips), "gradient": (trips,)}
    return {name: sum(loop.trips == part for loop in loops) for name, part in parts.items()}
