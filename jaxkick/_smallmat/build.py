"""Small matrices from numbers, and larger ones from smaller."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp

from jaxkick._smallmat.entries import Entry, times
from jaxkick._smallmat.matrices import (
    AbstractMatrix,
    Dense,
    Unrolled,
    arrays,
    elementwise,
    unrolled,
)
from jaxkick._typing import Array, Bool, Scalar

__all__ = [
    "MAX_UNROLLED",
    "adapt",
    "block_diagonal",
    "column",
    "diagonal",
    "identity",
    "kronecker",
    "lower_toeplitz",
    "matrix",
    "select",
    "stack_columns",
    "zeros",
]

MAX_UNROLLED = 8


def matrix(rows: Sequence[Sequence[Entry]]) -> Unrolled:
    """A matrix of scalars; `None` for structural zeros."""
    return Unrolled(rows)


def column(entries: Sequence[Entry]) -> Unrolled:
    """A vector, as a matrix with one column."""
    return Unrolled([[entry] for entry in entries])


def identity(size: int) -> Unrolled:
    """The identity matrix."""
    return Unrolled([[1.0 if i == j else None for j in range(size)] for i in range(size)])


def diagonal(entries: Sequence[Entry]) -> AbstractMatrix:
    """A diagonal matrix."""
    size = range(len(entries))
    if len(entries) > MAX_UNROLLED and not _is_structural(column(entries)):
        return Dense(jnp.diag(column(entries).to_array()[:, 0]))
    return Unrolled([[entries[i] if i == j else None for j in size] for i in size])


def lower_toeplitz(entries: Sequence[Scalar]) -> AbstractMatrix:
    """The lower triangular matrix with `entries` by their distance below the diagonal."""
    count = len(entries)
    if count > MAX_UNROLLED:
        line = jnp.stack(entries)[::-1]
        line = jnp.concatenate([line, jnp.zeros_like(line)])
        return Dense(jnp.stack([line[count - 1 - i : 2 * count - 1 - i] for i in range(count)]))
    size = range(count)
    return Unrolled([[entries[i - j] if i >= j else None for j in size] for i in size])


def zeros(rows: int, columns: int) -> Unrolled:
    """A matrix of structural zeros."""
    return Unrolled([[None] * columns for _ in range(rows)])


def adapt(small: AbstractMatrix, state_dim: int, dtype: jnp.dtype) -> AbstractMatrix:
    """The representation that suits a state of `state_dim` dimensions."""
    if state_dim > MAX_UNROLLED:
        return Dense(small.to_array().astype(dtype))
    return jax.tree.map(
        lambda entry: entry.astype(dtype) if isinstance(entry, Array) else entry, unrolled(small)
    )


def block_diagonal(first: AbstractMatrix, second: AbstractMatrix) -> AbstractMatrix:
    """The two matrices along the diagonal, structural zeros elsewhere."""
    (_, columns_first), (_, columns_second) = first.shape, second.shape
    if _prefers_dense(first, second, columns_first + columns_second):
        top, bottom = arrays(first, second)
        top = jnp.pad(top, ((0, 0), (0, columns_second)))
        bottom = jnp.pad(bottom, ((0, 0), (columns_first, 0)))
        return Dense(jnp.concatenate([top, bottom]))
    top = [row + (None,) * columns_second for row in unrolled(first).rows]
    bottom = [(None,) * columns_first + row for row in unrolled(second).rows]
    return Unrolled(top + bottom)


def stack_columns(first: AbstractMatrix, second: AbstractMatrix) -> AbstractMatrix:
    """Two columns, one above the other."""
    if _prefers_dense(first, second, first.shape[0] + second.shape[0]):
        return Dense(jnp.concatenate(arrays(first, second)))
    return Unrolled(unrolled(first).rows + unrolled(second).rows)


def kronecker(first: AbstractMatrix, second: AbstractMatrix) -> AbstractMatrix:
    """The Kronecker product."""
    if _prefers_dense(first, second, first.shape[0] * second.shape[0]):
        return Dense(jnp.kron(*arrays(first, second)))
    return Unrolled(
        [
            [times(a, b) for a in row_first for b in row_second]
            for row_first in unrolled(first).rows
            for row_second in unrolled(second).rows
        ]
    )


def select(
    chosen: Bool[Array, ""], first: AbstractMatrix, second: AbstractMatrix
) -> AbstractMatrix:
    """`first` where `chosen` holds, else `second`."""
    if isinstance(first, Dense) or isinstance(second, Dense):
        return Dense(jnp.where(chosen, first.to_array(), second.to_array()))

    def pick(a: Entry, b: Entry) -> Entry:
        if a is None and b is None:
            return None
        return jnp.where(chosen, 0.0 if a is None else a, 0.0 if b is None else b)

    return elementwise(pick, unrolled(first), unrolled(second))


def _prefers_dense(first: AbstractMatrix, second: AbstractMatrix, size: int) -> bool:
    """Whether what two matrices make should be one array."""
    if isinstance(first, Dense) or isinstance(second, Dense):
        return True
    return size > MAX_UNROLLED and not (_is_structural(first) and _is_structural(second))


def _is_structural(small: AbstractMatrix) -> bool:
    """Whether there are only zeros and plain numbers, which have no type of array yet."""
    entries = [entry for row in unrolled(small).rows for entry in row]
    return all(entry is None or isinstance(entry, float) for entry in entries)
