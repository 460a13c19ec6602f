"""Helpers for tracing and XLA, which keep workarounds out of the formulas."""

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.core import Tracer

from jaxkick._typing import Bool

__all__ = [
    "call_compiled",
    "compute_once",
    "hold_constant",
    "is_known",
    "jit_by_size",
    "square_once",
]

Output = TypeVar("Output")

# XLA's newer code generator for the CPU takes 1.5 to 2 times as long to compile a fit, which then
# runs 5 to 20 % faster (`benchmarks/first_answer.py`). This pays off for large data.
_QUICK_OPTIONS = {"xla_cpu_use_fusion_emitters": False}
# The largest array of a program that is compiled quickly.
_SMALL = 60_000


def is_known(value: Any) -> bool:
    """Return whether the host can read a value: it is not traced and this process has all of it."""
    if isinstance(value, Tracer):
        return False
    return not isinstance(value, Array) or (value.is_fully_addressable or value.is_fully_replicated)


def hold_constant(tree: Output) -> Output:
    """Stop derivatives at all arrays of a tree."""
    return jax.tree.map(lambda x: lax.stop_gradient(x) if eqx.is_array(x) else x, tree)


@eqx.filter_jit
def call_compiled(method: Callable, *args: Any) -> Any:
    """Call a method of a module as one compiled program, outside of `jit`."""
    return method(*args)


def jit_by_size(function: Callable[..., Output]) -> Callable[..., Output]:
    """Compile a function: quickly on a CPU if all arrays are small, fully optimised otherwise."""
    optimized = eqx.filter_jit(function)
    options = {"compiler_options": _QUICK_OPTIONS}
    quick = eqx.filter_jit(function, **options)  # pyright: ignore[reportCallIssue]

    @functools.wraps(function)
    def call(*args: Any) -> Output:
        arrays = [leaf for leaf in jax.tree.leaves(args) if isinstance(leaf, Array)]
        # Inside another `jit` or a derivative, the outermost program decides.
        traced = any(isinstance(leaf, Tracer) for leaf in arrays)
        small = max((leaf.size for leaf in arrays), default=0) <= _SMALL
        return (quick if small and not traced and _has_quick_options() else optimized)(*args)

    return call


@functools.cache
def _has_quick_options() -> bool:
    """Return whether this XLA compiles for a CPU and knows the options."""
    if jax.default_backend() != "cpu":
        return False
    try:
        jax.jit(lambda: jnp.zeros(()), compiler_options=_QUICK_OPTIONS).lower().compile()
    except jax.errors.JaxRuntimeError:
        return False
    return True


def square_once(x: Array) -> Array:
    """Compute x² for x ≥ 0 without a second exponential if x is one.

    XLA rewrites exp(−a) exp(−a) as exp(−2a). The maximum in between prevents this.
    """
    return x * jnp.maximum(x, 0.0)


def compute_once(
    function: Callable[[Any], Output], operand: Any, true: Bool[Array, ""], on_mesh: bool
) -> Output:
    """Compute a function once instead of again for each consumer of its result.

    XLA fuses an elementwise producer into each of its consumers. Several entries read the
    likelihood of the same observation, which would then be evaluated several times and take half
    of the time of an iteration on the NBA data (`benchmarks/inference.py`).

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

    # XLA's CPU compiler ignores optimisation barriers, but keeps a branch, even if it is always
    # taken.
    return lax.cond(true, function, never, operand)
