"""Scalars with structural zeros: `None` is a zero that costs nothing."""

from collections.abc import Sequence
from typing import TypeAlias

import jax.numpy as jnp

from jaxkick._typing import Scalar

__all__ = ["Entry", "fill", "inner", "minus", "plus", "times"]

Entry: TypeAlias = Scalar | float | None


def plus(a: Entry, b: Entry) -> Entry:
    """The sum."""
    if a is None or b is None:
        return b if a is None else a
    return a + b


def minus(a: Entry, b: Entry) -> Entry:
    """The difference."""
    return a if b is None else (-b if a is None else a - b)


def times(a: Entry, b: Entry) -> Entry:
    """The product; of one and an entry, that entry."""
    if a is None or b is None:
        return None
    if isinstance(a, float) and a == 1.0:
        return b
    if isinstance(b, float) and b == 1.0:
        return a
    return a * b


def inner(left: Sequence[Entry], right: Sequence[Entry]) -> Entry:
    """The inner product of two sequences."""
    total = None
    for a, b in zip(left, right, strict=True):
        total = plus(total, times(a, b))
    return total


def fill(entry: Entry, dtype: jnp.dtype) -> Scalar:
    """The entry as an array."""
    return jnp.asarray(0.0 if entry is None else entry, dtype=dtype)
