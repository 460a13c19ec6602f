"""Whether a value is known on the host, or stands for one inside a transformation."""

from typing import Any

from jax import Array
from jax.core import Tracer

__all__ = ["is_known"]


def is_known(value: Any) -> bool:
    """Whether a value can be looked at: not inside `jit`, and not held by other processes."""
    if isinstance(value, Tracer):
        return False
    return not isinstance(value, Array) or (value.is_fully_addressable or value.is_fully_replicated)
