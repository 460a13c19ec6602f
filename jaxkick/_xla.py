"""Helpers for tracing and XLA, which keep workarounds out of the formulas."""

import functools
import gc
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.core import Tracer

from jaxkick._typing import Bool

__all__ = [
    "call_compiled",
    "call_padded",
    "compute_once",
    "hold_constant",
    "is_known",
    "jit_by_size",
    "jit_once",
    "on_host",
    "pad_to_power_of_two",
    "square_once",
]

Output = TypeVar("Output")

# XLA's newer code generator for the CPU takes 1.5 to 2 times as long to compile a fit, which then
# runs 5 to 20 % faster. This pays off for large data. LLVM's first level of optimisation compiles
# in a tenth less time than the third (`benchmarks/compile_time.py --levels`).
_QUICK = {"xla_cpu_use_fusion_emitters": False, "xla_backend_optimization_level": 1}
# Without LLVM's optimisations a fit compiles in less than half of that time, and runs 1.6 times
# (300 matches) to 2.5 times (14,000) as long. In one piece it takes a quarter fewer memory maps.
# Results are the same up to rounding (`benchmarks/first_answer.py`).
_UNOPTIMIZED = {
    **_QUICK,
    "xla_backend_optimization_level": 0,
    "xla_cpu_parallel_codegen_split_count": 1,
}
# The largest arrays of programs that are compiled without optimisation, and quickly.
_TINY = 4_096
_SMALL = 60_000
# A program that `jit_by_size` compiled without optimisation is compiled again once it has processed
# so many numbers: its calls times the size of its largest array. Up to then it has lost about as
# much time as this compilation takes (`benchmarks/compile_time.py --often`).
_WORTH_OPTIMIZING = 1_000_000

# The least number of rows of arrays that are padded.
_LEAST_ROWS = 16

# A compiled program takes hundreds of memory maps. The programs of this package are dropped when
# the process has used more than this share of the maps that Linux allows; if that is not enough,
# all programs are.
_MOST_MAPS = 0.4
_MAPS, _ALLOWED_MAPS = Path("/proc/self/maps"), Path("/proc/sys/vm/max_map_count")


# All functions that this package compiles by size.
_COMPILED: list["_Compiled"] = []


def is_known(value: Any) -> bool:
    """Return whether the host can read a value: it is not traced, and wholly in this process."""
    if isinstance(value, Tracer):
        return False
    return not isinstance(value, Array) or (value.is_fully_addressable or value.is_fully_replicated)


def hold_constant(tree: Output) -> Output:
    """Stop derivatives at all arrays of a tree."""
    return jax.tree.map(lambda x: lax.stop_gradient(x) if eqx.is_array(x) else x, tree)


def jit_by_size(function: Callable[..., Output]) -> Callable[..., Output]:
    """Compile a function; on a CPU, compile faster for smaller arrays.

    Without optimisation for tiny arrays, with little for small ones and for tiny ones whose program
    runs often, fully optimised otherwise.
    """
    return _Compiled(function, {_TINY: _UNOPTIMIZED, _SMALL: _QUICK}, _WORTH_OPTIMIZING)


def jit_once(function: Callable[..., Output]) -> Callable[..., Output]:
    """Compile a function that runs only a few times, for small arrays without optimisation."""
    return _Compiled(function, {_SMALL: _UNOPTIMIZED}, float("inf"))


class _Compiled:
    """A compiled function. The process keeps a bounded number of programs."""

    def __init__(self, function: Callable, tiers: dict[int, dict[str, Any]], worth: float):
        functools.update_wrapper(self, function)
        self._worth = worth
        self._calls = Counter()
        _COMPILED.append(self)

        @functools.wraps(function)
        def trace(*args: Any) -> Any:
            self._is_new = True
            return function(*args)

        self._is_new = False
        self._optimized = eqx.filter_jit(trace)
        self._tiers = {
            size: eqx.filter_jit(trace, compiler_options=options)  # pyright: ignore[reportCallIssue]
            for size, options in tiers.items()
        }

    def __call__(self, *args: Any) -> Any:
        leaves, structure = jax.tree.flatten(args)
        arrays = [leaf for leaf in leaves if isinstance(leaf, Array | np.ndarray)]
        if any(isinstance(leaf, Tracer) for leaf in arrays):
            # Inside another `jit` or a derivative, the outermost program decides.
            return self._optimized(*args)
        result = (self._choose(arrays, structure) if _has_options() else self._optimized)(*args)
        if self._is_new:
            self._is_new = False
            _bound_programs()
        return result

    def drop(self) -> None:
        """Forget all programs."""
        for program in (self._optimized, *self._tiers.values()):
            # Equinox has no public name for the compiled function. If the private one is gone,
            # `_bound_programs` drops all programs of the process.
            compiled = getattr(program, "_cached", None)
            if compiled is not None:
                compiled.clear_cache()

    def _choose(self, arrays: Sequence[Array | np.ndarray], structure: Hashable) -> Callable:
        """Choose the program; the next better one if the one for such arguments has run often."""
        largest = max((leaf.size for leaf in arrays), default=0)
        fitting = [program for size, program in self._tiers.items() if largest <= size]
        fitting.append(self._optimized)
        if len(fitting) <= len(self._tiers):
            return fitting[0]
        like = structure, tuple(leaf.shape for leaf in arrays)
        self._calls[like] += 1
        return fitting[self._calls[like] * largest > self._worth]


def on_host(function: Callable[..., Output], *arrays: Any) -> Output:
    """Apply a function that NumPy and JAX share, such as a slice, with NumPy if possible.

    JAX would compile a small program for every shape. The results are JAX arrays.
    """
    if not all(map(is_known, arrays)):
        return function(*arrays)
    return jax.tree.map(jax.device_put, function(*map(np.asarray, arrays)))


def call_padded(method: Callable, *arrays: Array) -> Any:
    """Call an elementwise method of a module on arrays of one shape, as one compiled program.

    Arrays are padded to the next power of two, so that few programs are compiled.

    Args:
        method: a function of arrays; its result may have additional axes. If the module contains
            an array of the same shape, nothing is padded.
        arrays: arrays of the same shape.
    """
    shape = arrays[0].shape
    own = shape != () and shape in [np.shape(leaf) for leaf in jax.tree.leaves(method)]
    if own or arrays[0].size == 0 or not all(map(is_known, arrays)):
        return call_compiled(method, *arrays)
    padded = [pad_to_power_of_two(np.asarray(array).ravel()) for array in arrays]
    found = call_compiled(method, *padded)
    return on_host(lambda x: x[: arrays[0].size].reshape((*shape, *x.shape[1:])), found)


def pad_to_power_of_two(array: np.ndarray, least: int = _LEAST_ROWS) -> np.ndarray:
    """Repeat the last row until the length is a power of two, so that few programs compile."""
    room = (1 << (max(len(array), least) - 1).bit_length()) - len(array)
    padding = array[-1:] if len(array) else np.zeros((1, *array.shape[1:]), array.dtype)
    return np.concatenate([array, np.repeat(padding, room, axis=0)]) if room else array


@jit_once
def call_compiled(method: Callable, *args: Any) -> Any:
    """Call a method of a module as one compiled program, outside of `jit`."""
    return method(*args)


@functools.cache
def _has_options() -> bool:
    """Return whether this XLA compiles for a CPU and knows the options."""
    if jax.default_backend() != "cpu":
        return False
    try:
        jax.jit(lambda: jnp.zeros(()), compiler_options=_UNOPTIMIZED).lower().compile()
    except jax.errors.JaxRuntimeError:
        return False
    return True


def _bound_programs() -> None:
    """Drop compiled programs before the process runs out of memory maps."""
    if not _is_near_limit():
        return
    for function in _COMPILED:
        function.drop()
    gc.collect()
    if _is_near_limit():
        jax.clear_caches()
        gc.collect()


def _is_near_limit() -> bool:
    if not _MAPS.exists():
        return False
    return _MAPS.read_bytes().count(b"\n") > _MOST_MAPS * int(_ALLOWED_MAPS.read_bytes())


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
