"""Helpers for tracing and XLA, so that formulas need not know about either."""

from collections.abc import Callable
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.core import Tracer

from jaxkick._typing import Bool

__all__ = ["call_compiled", "compute_once", "is_known", "square_once"]

Output = TypeVar("Output")


def is_known(value: Any) -> bool:
    """Return whether the host can read a value: not traced, and not held by other processes."""
    if isinstance(value, Tracer):
        return False
    return not isinstance(value, Array) or (value.is_fully_addressable or value.is_fully_replicated)


@eqx.filter_jit
def call_compiled(method: Callable, *args: Any) -> Any:
    """Call a method of a module as one compiled program, from outside of `jit`."""
    return method(*args)


def square_once(x: Array) -> Array:
    """Compute x² for x ≥ 0 without evaluating the exponential behind x a second time.

    XLA rewrites exp(−a) exp(−a) as exp(−2a); the maximum in between prevents it.
    """
    return x * jnp.maximum(x, 0.0)


def compute_once(
    function: Callable[[Any], Output], operand: Any, true: Bool[Array, ""], on_mesh: bool
) -> Output:
    """Compute a function once, not anew for every array element that reads its result.

    XLA fuses an elementwise producer into each of its consumers. Where every observation is
    read by several entries, that evaluates its likelihood several times: half of the time of
    a step on the NBA data (`benchmarks/inference.py`).

    Args:
        function: a function of arrays that returns arrays.
        operand: its argument.
        true: a traced value that is always true.
        on_mesh: whether arrays are sharded over devices.
    """
    if on_mesh or jax.default_backend() != "cpu":
        return lax.optimization_barrier(function(operand))
    shapes = jax.eval_shape(function, operand)

    def never(operand: Any) -> Output:
        return jax.tree.map(lambda leaf: jnp.full(leaf.shape, jnp.nan, leaf.dtype), shapes)

    # XLA's CPU compiler drops optimisation barriers, but keeps a branch, even one that is
    # always taken.
    return lax.cond(true, function, never, operand)
