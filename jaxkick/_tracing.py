"""Whether a value is known on the host, or stands for one inside a transformation."""

from typing import Any

from jax.core import Tracer

__all__ = ["is_known"]


def is_known(value: Any) -> bool:
    """Whether a value can be looked at: not inside `jit`, `grad` or `vmap`."""
    return not isinstance(value, Tracer)
