"""Small matrices that compile to fused arithmetic: tuples of scalars with structural zeros.

Two classes have the same operators, so that a formula such as ``A @ P @ A.T + Q`` is written once.
`Unrolled` stores each entry as a separate scalar; `None` is a structural zero, which costs nothing.
XLA fuses a filter step made of such scalars into a few loops. Compile time grows with the number of
entries, so above `MAX_UNROLLED` dimensions `Dense` stores one array instead. Vectors are matrices
with one column.
"""

import abc
import itertools
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import ArrayLike

from jaxkick._typing import Array, Bool, Float, Scalar

__all__ = [
    "MAX_UNROLLED",
    "AbstractMatrix",
    "Dense",
    "Unrolled",
    "adapt",
    "as_matrix",
    "block_diagonal",
    "column",
    "conditioned",
    "diagonal",
    "dot",
    "frobenius",
    "identity",
    "kronecker",
    "lower_toeplitz",
    "matrix",
    "select",
    "semidefinite_factor",
    "solve",
    "stack_columns",
    "zeros",
]

MAX_UNROLLED = 8

Entry: TypeAlias = Scalar | float | None
"""A scalar, or `None` for a structural zero, which costs nothing."""


class AbstractMatrix(eqx.Module):
    """A small matrix with the usual operators."""

    @property
    @abc.abstractmethod
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""

    @property
    @abc.abstractmethod
    def T(self) -> "AbstractMatrix":
        """The transpose."""

    @abc.abstractmethod
    def __matmul__(self, other: "AbstractMatrix") -> "AbstractMatrix":
        """The matrix product."""

    @abc.abstractmethod
    def __add__(self, other: "AbstractMatrix") -> "AbstractMatrix":
        """The sum."""

    @abc.abstractmethod
    def __mul__(self, factor: ArrayLike) -> "AbstractMatrix":
        """The product with a scalar."""

    @abc.abstractmethod
    def symmetric(self) -> "AbstractMatrix":
        """Return an exactly symmetric copy of a matrix that is symmetric up to rounding."""

    @abc.abstractmethod
    def packed(self) -> "AbstractMatrix":
        """Return a symmetric matrix with each entry stored once; `symmetric` restores it."""

    @abc.abstractmethod
    def filled(self, dtype: jnp.dtype) -> "AbstractMatrix":
        """Return a copy with arrays in place of structural zeros, for the carry of a loop."""

    @abc.abstractmethod
    def to_array(self) -> Float[Array, "rows columns"]:
        """Return the entries as one array."""

    def __sub__(self, other: "AbstractMatrix") -> "AbstractMatrix":
        """The difference."""
        return self + other * -1.0

    def __rmul__(self, factor: ArrayLike) -> "AbstractMatrix":
        """The product with a scalar."""
        return self * factor


class Unrolled(AbstractMatrix):
    """A matrix with each entry stored as a scalar; `None` is a structural zero."""

    rows: tuple[tuple[Entry, ...], ...]

    def __init__(self, rows: Sequence[Sequence[Entry]]):
        """Store `rows` of scalars.

        Args:
            rows: nested sequences of scalars or `None`.
        """
        self.rows = tuple(tuple(row) for row in rows)

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.rows), len(self.rows[0])

    @property
    def T(self) -> "Unrolled":
        return Unrolled(tuple(zip(*self.rows, strict=True)))

    def __matmul__(self, other: AbstractMatrix) -> AbstractMatrix:
        if isinstance(other, Dense):
            return _product(self, other)
        columns = tuple(zip(*unrolled(other).rows, strict=True))
        return Unrolled([[inner(row, col) for col in columns] for row in self.rows])

    def __add__(self, other: AbstractMatrix) -> AbstractMatrix:
        if isinstance(other, Dense):
            return other + self
        return elementwise(plus, self, unrolled(other))

    def __mul__(self, factor: ArrayLike) -> "Unrolled":
        return Unrolled([[times(entry, factor) for entry in row] for row in self.rows])

    def symmetric(self) -> "Unrolled":
        size = len(self.rows)
        return Unrolled(
            [[self.rows[min(i, j)][max(i, j)] for j in range(size)] for i in range(size)]
        )

    def packed(self) -> "Unrolled":
        size = len(self.rows)
        return Unrolled(
            [[self.rows[i][j] if j >= i else None for j in range(size)] for i in range(size)]
        )

    def filled(self, dtype: jnp.dtype) -> "Unrolled":
        return Unrolled([[fill(entry, dtype) for entry in row] for row in self.rows])

    def to_array(self) -> Float[Array, "rows columns"]:
        entries = [[0.0 if entry is None else entry for entry in row] for row in self.rows]
        return jnp.stack([jnp.stack([jnp.asarray(entry) for entry in row]) for row in entries])


class Dense(AbstractMatrix):
    """A matrix stored as one array."""

    array: Float[Array, "rows columns"]

    @property
    def shape(self) -> tuple[int, int]:
        return self.array.shape[-2], self.array.shape[-1]

    @property
    def T(self) -> "Dense":
        return Dense(self.array.T)

    def __matmul__(self, other: AbstractMatrix) -> "Dense":
        return _product(self, other)

    def __add__(self, other: AbstractMatrix) -> "Dense":
        return Dense(jnp.add(*arrays(self, other)))

    def __mul__(self, factor: ArrayLike) -> "Dense":
        return Dense(self.array * factor)

    def symmetric(self) -> "Dense":
        return Dense(0.5 * (self.array + self.array.T))

    def packed(self) -> "Dense":
        return self

    def filled(self, dtype: jnp.dtype) -> "Dense":
        return Dense(self.array.astype(dtype))

    def to_array(self) -> Float[Array, "rows columns"]:
        return self.array


def _product(first: AbstractMatrix, second: AbstractMatrix) -> Dense:
    # By default, accelerators multiply float32 with reduced precision.
    return Dense(jnp.matmul(*arrays(first, second), precision=lax.Precision.HIGHEST))


def arrays(first: AbstractMatrix, second: AbstractMatrix) -> tuple[Array, Array]:
    """Convert both to arrays of one type; structural entries have no type."""
    left, right = first.to_array(), second.to_array()
    dtype = jnp.result_type(left, right)
    return left.astype(dtype), right.astype(dtype)


def unrolled(small: AbstractMatrix) -> Unrolled:
    """Convert to `Unrolled`."""
    if isinstance(small, Unrolled):
        return small
    array = small.to_array()
    rows, columns = small.shape
    return Unrolled([[array[i, j] for j in range(columns)] for i in range(rows)])


def elementwise(function: Callable, first: Unrolled, second: Unrolled) -> Unrolled:
    """Apply a function to corresponding entries of two matrices."""
    return Unrolled(
        [
            [function(a, b) for a, b in zip(row_first, row_second, strict=True)]
            for row_first, row_second in zip(first.rows, second.rows, strict=True)
        ]
    )


def matrix(rows: Sequence[Sequence[Entry]]) -> Unrolled:
    """Make a matrix of scalars; `None` for structural zeros."""
    return Unrolled(rows)


def column(entries: Sequence[Entry]) -> Unrolled:
    """Make a vector: a matrix with one column."""
    return Unrolled([[entry] for entry in entries])


def identity(size: int) -> Unrolled:
    """Make the identity matrix."""
    return Unrolled([[1.0 if i == j else None for j in range(size)] for i in range(size)])


def diagonal(entries: Sequence[Entry]) -> AbstractMatrix:
    """Make a diagonal matrix."""
    size = range(len(entries))
    if len(entries) > MAX_UNROLLED and not _is_structural(column(entries)):
        return Dense(jnp.diag(column(entries).to_array()[:, 0]))
    return Unrolled([[entries[i] if i == j else None for j in size] for i in size])


def lower_toeplitz(entries: Sequence[Scalar]) -> AbstractMatrix:
    """Make a lower triangular Toeplitz matrix; `entries` are ordered from the diagonal down."""
    count = len(entries)
    if count > MAX_UNROLLED:
        line = jnp.stack(entries)[::-1]
        line = jnp.concatenate([line, jnp.zeros_like(line)])
        return Dense(jnp.stack([line[count - 1 - i : 2 * count - 1 - i] for i in range(count)]))
    size = range(count)
    return Unrolled([[entries[i - j] if i >= j else None for j in size] for i in size])


def zeros(rows: int, columns: int) -> Unrolled:
    """Make a matrix of structural zeros."""
    return Unrolled([[None] * columns for _ in range(rows)])


def as_matrix(small: AbstractMatrix | Float[Array, "..."]) -> AbstractMatrix:
    """Convert an array to a small matrix; a vector becomes a column."""
    if isinstance(small, AbstractMatrix):
        return small
    array = jnp.asarray(small)
    return Dense(array[:, None] if array.ndim == 1 else array)


def adapt(
    small: AbstractMatrix | Float[Array, "..."], state_dim: int, dtype: jnp.dtype
) -> AbstractMatrix:
    """Convert to the representation for a state of `state_dim` dimensions."""
    small = as_matrix(small)
    if state_dim > MAX_UNROLLED:
        return Dense(small.to_array().astype(dtype))
    return jax.tree.map(
        lambda entry: entry.astype(dtype) if isinstance(entry, Array) else entry, unrolled(small)
    )


def block_diagonal(first: AbstractMatrix, second: AbstractMatrix) -> AbstractMatrix:
    """Make a block-diagonal matrix with structural zeros elsewhere."""
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
    """Stack two columns."""
    if _prefers_dense(first, second, first.shape[0] + second.shape[0]):
        return Dense(jnp.concatenate(arrays(first, second)))
    return Unrolled(unrolled(first).rows + unrolled(second).rows)


def kronecker(first: AbstractMatrix, second: AbstractMatrix) -> AbstractMatrix:
    """Compute the Kronecker product."""
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
    """Return `first` where `chosen` is True, else `second`."""
    if isinstance(first, Dense) or isinstance(second, Dense):
        return Dense(jnp.where(chosen, first.to_array(), second.to_array()))

    def pick(a: Entry, b: Entry) -> Entry:
        if a is None and b is None:
            return None
        return jnp.where(chosen, 0.0 if a is None else a, 0.0 if b is None else b)

    return elementwise(pick, unrolled(first), unrolled(second))


def _prefers_dense(first: AbstractMatrix, second: AbstractMatrix, size: int) -> bool:
    """Return whether the combination of two matrices should be dense."""
    if isinstance(first, Dense) or isinstance(second, Dense):
        return True
    return size > MAX_UNROLLED and not (_is_structural(first) and _is_structural(second))


def _is_structural(small: AbstractMatrix) -> bool:
    """Return whether all entries are structural zeros or Python numbers, without a dtype."""
    entries = [entry for row in unrolled(small).rows for entry in row]
    return all(entry is None or isinstance(entry, float) for entry in entries)


def dot(left: AbstractMatrix, right: AbstractMatrix) -> Scalar:
    """Compute the inner product of two columns."""
    if isinstance(left, Dense) or isinstance(right, Dense):
        return jnp.sum(left.to_array() * right.to_array())
    entry = unrolled(left.T @ right).rows[0][0]
    return jnp.zeros(()) if entry is None else jnp.asarray(entry)


def frobenius(left: AbstractMatrix, right: AbstractMatrix) -> Scalar:
    """Compute the sum of products of corresponding entries."""
    if isinstance(left, Dense) or isinstance(right, Dense):
        return jnp.sum(left.to_array() * right.to_array())
    pairs = zip(unrolled(left).rows, unrolled(right).rows, strict=True)
    total = None
    for row_left, row_right in pairs:
        total = plus(total, inner(row_left, row_right))
    return jnp.zeros(()) if total is None else jnp.asarray(total)


def conditioned(covariance: AbstractMatrix, information: AbstractMatrix) -> AbstractMatrix:
    """Compute the covariance after an observation with precision J: (I + P J)⁻¹ P.

    It is computed as L (I + Lᵀ J L)⁻¹ Lᵀ with P = L Lᵀ, which is positive semi-definite and works
    for a singular P.

    Args:
        covariance: P, positive semi-definite.
        information: J, positive semi-definite.
    """
    if isinstance(covariance, Dense):
        joint = identity(covariance.shape[0]) + covariance @ information
        return solve(joint, covariance)[0].symmetric()
    factor = semidefinite_factor(unrolled(covariance))
    joint = identity(covariance.shape[0]) + factor.T @ information @ factor
    return (factor @ _solve_definite(joint, factor.T)).symmetric()


def solve(left: AbstractMatrix, *right: AbstractMatrix) -> tuple[Dense, ...]:
    """Solve linear systems with a common matrix by elimination with pivoting."""
    columns = jnp.concatenate([each.to_array() for each in right], axis=1)
    solution = jnp.linalg.solve(left.to_array(), columns)
    ends = list(itertools.accumulate(each.shape[1] for each in right))
    return tuple(map(Dense, jnp.split(solution, ends[:-1], axis=1)))


def semidefinite_factor(small: AbstractMatrix) -> AbstractMatrix:
    """Compute L with L Lᵀ = `small`, which may be singular.

    Args:
        small: a matrix that is positive semi-definite up to rounding.

    Returns:
        A lower-triangular factor with finite gradients. Columns are zero if the pivot is at
        rounding level.
    """
    if isinstance(small, Dense):
        return _dense_factor(small)
    rows = unrolled(small).rows
    size = len(rows)
    lower: list[list[Entry]] = [[None] * size for _ in range(size)]
    for j in range(size):
        pivot = minus(rows[j][j], inner(lower[j][:j], lower[j][:j]))
        if pivot is None:
            continue
        diagonal: Any = rows[j][j]
        usable = pivot > _rounding(jnp.result_type(pivot), size) * diagonal
        root = jnp.sqrt(jnp.where(usable, pivot, 1.0))
        lower[j][j] = jnp.where(usable, root, 0.0)
        for i in range(j + 1, size):
            rest = minus(rows[i][j], inner(lower[i][:j], lower[j][:j]))
            lower[i][j] = None if rest is None else jnp.where(usable, rest / root, 0.0)
    return Unrolled(lower)


def _dense_factor(small: Dense) -> Dense:
    size = small.shape[0]
    least = jnp.diag(small.array) * _rounding(small.array.dtype, size)

    def eliminate(rest: Array, j: Array) -> tuple[Array, Array]:
        usable = rest[j, j] > least[j]
        root = jnp.sqrt(jnp.where(usable, rest[j, j], 1.0))
        below = jnp.where(usable & (jnp.arange(size) >= j), rest[:, j] / root, 0.0)
        return rest - jnp.outer(below, below), below

    return Dense(lax.scan(eliminate, small.array, jnp.arange(size))[1].T)


def _rounding(dtype: jnp.dtype, size: int) -> float:
    """Return the fraction of a diagonal entry below which a pivot is rounding error."""
    return size * float(jnp.finfo(dtype).eps)


def _solve_definite(small: Unrolled, right: Unrolled) -> Unrolled:
    """Solve a positive definite system by elimination without pivoting."""
    size = small.shape[0]
    left: list[list[Any]] = [list(row) for row in small.rows]
    solution = [list(row) for row in right.rows]
    for j in range(size):
        for i in range(size):
            if i == j or left[i][j] is None:
                continue
            ratio = left[i][j] / left[j][j]
            for k in range(j + 1, size):
                left[i][k] = minus(left[i][k], times(ratio, left[j][k]))
            solution[i] = [
                minus(entry, times(ratio, pivot))
                for entry, pivot in zip(solution[i], solution[j], strict=True)
            ]
    return Unrolled(
        [[times(entry, 1.0 / left[i][i]) for entry in solution[i]] for i in range(size)]
    )


def plus(a: Entry, b: Entry) -> Entry:
    """Add two entries."""
    if a is None or b is None:
        return b if a is None else a
    return a + b


def minus(a: Entry, b: Entry) -> Entry:
    """Subtract two entries."""
    return a if b is None else (-b if a is None else a - b)


def times(a: Entry, b: Entry) -> Entry:
    """Multiply two entries; a factor of one is skipped."""
    if a is None or b is None:
        return None
    if isinstance(a, float) and a == 1.0:
        return b
    if isinstance(b, float) and b == 1.0:
        return a
    return a * b


def inner(left: Sequence[Entry], right: Sequence[Entry]) -> Entry:
    """Compute the inner product of two sequences of entries."""
    total = None
    for a, b in zip(left, right, strict=True):
        total = plus(total, times(a, b))
    return total


def fill(entry: Entry, dtype: jnp.dtype) -> Scalar:
    """Convert an entry to an array."""
    return jnp.asarray(0.0 if entry is None else entry, dtype=dtype)
