"""The two kinds of small matrices, and the way from one to the other."""

import abc
from collections.abc import Callable, Sequence

import equinox as eqx
import jax.numpy as jnp
from jax import lax
from jaxtyping import ArrayLike

from jaxkick._smallmat.entries import Entry, fill, inner, plus, times
from jaxkick._typing import Array, Float

__all__ = ["AbstractMatrix", "Dense", "Unrolled", "arrays", "elementwise", "unrolled"]


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
        """Itself made exactly symmetric; only for what is symmetric up to rounding."""

    @abc.abstractmethod
    def packed(self) -> "AbstractMatrix":
        """A symmetric matrix with each entry held once; `symmetric` restores it."""

    @abc.abstractmethod
    def filled(self, dtype: jnp.dtype) -> "AbstractMatrix":
        """Itself with every structural zero an array, as the carry of a loop needs."""

    @abc.abstractmethod
    def to_array(self) -> Float[Array, "rows columns"]:
        """One array of the entries."""

    def __sub__(self, other: "AbstractMatrix") -> "AbstractMatrix":
        """The difference."""
        return self + other * -1.0

    def __rmul__(self, factor: ArrayLike) -> "AbstractMatrix":
        """The product with a scalar."""
        return self * factor


class Unrolled(AbstractMatrix):
    """A matrix whose entries are scalars of their own; `None` is a structural zero."""

    rows: tuple[tuple[Entry, ...], ...]

    def __init__(self, rows: Sequence[Sequence[Entry]]):
        """Hold `rows` of scalars.

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
    """A matrix held as one array."""

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
    # Accelerators would otherwise round float32 to half of its digits.
    return Dense(jnp.matmul(*arrays(first, second), precision=lax.Precision.HIGHEST))


def arrays(first: AbstractMatrix, second: AbstractMatrix) -> tuple[Array, Array]:
    """Both as arrays of one type; structural entries have none of their own."""
    left, right = first.to_array(), second.to_array()
    dtype = jnp.result_type(left, right)
    return left.astype(dtype), right.astype(dtype)


def unrolled(small: AbstractMatrix) -> Unrolled:
    """A matrix of scalars of their own."""
    if isinstance(small, Unrolled):
        return small
    array = small.to_array()
    rows, columns = small.shape
    return Unrolled([[array[i, j] for j in range(columns)] for i in range(rows)])


def elementwise(function: Callable, first: Unrolled, second: Unrolled) -> Unrolled:
    """A function of the entries in the same place of two matrices."""
    return Unrolled(
        [
            [function(a, b) for a, b in zip(row_first, row_second, strict=True)]
            for row_first, row_second in zip(first.rows, second.rows, strict=True)
        ]
    )
