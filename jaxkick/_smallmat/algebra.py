"""Products to a number, factors and solutions of linear systems."""

import itertools

import jax.numpy as jnp
from jax import lax

from jaxkick._smallmat.build import identity
from jaxkick._smallmat.entries import Entry, inner, minus, plus, times
from jaxkick._smallmat.matrices import AbstractMatrix, Dense, Unrolled, unrolled
from jaxkick._typing import Array, Scalar

__all__ = ["conditioned", "dot", "frobenius", "semidefinite_factor", "solve"]


def dot(left: AbstractMatrix, right: AbstractMatrix) -> Scalar:
    """The inner product of two columns."""
    if isinstance(left, Dense) or isinstance(right, Dense):
        return jnp.sum(left.to_array() * right.to_array())
    entry = unrolled(left.T @ right).rows[0][0]
    return jnp.zeros(()) if entry is None else entry


def frobenius(left: AbstractMatrix, right: AbstractMatrix) -> Scalar:
    """The sum of the products of all entries."""
    if isinstance(left, Dense) or isinstance(right, Dense):
        return jnp.sum(left.to_array() * right.to_array())
    pairs = zip(unrolled(left).rows, unrolled(right).rows, strict=True)
    total = None
    for row_left, row_right in pairs:
        total = plus(total, inner(row_left, row_right))
    return jnp.zeros(()) if total is None else total


def conditioned(covariance: AbstractMatrix, information: AbstractMatrix) -> AbstractMatrix:
    """The covariance after observing `information` (a precision): (I + P J)⁻¹ P.

    Computed as L (I + Lᵀ J L)⁻¹ Lᵀ with P = L Lᵀ, which stays positive semi-definite and
    allows a singular P.

    Args:
        covariance: P, positive semi-definite.
        information: J, positive semi-definite.

    Returns:
        The conditioned covariance.
    """
    if isinstance(covariance, Dense):
        joint = identity(covariance.shape[0]) + covariance @ information
        return solve(joint, covariance)[0].symmetric()
    factor = semidefinite_factor(unrolled(covariance))
    joint = identity(covariance.shape[0]) + factor.T @ information @ factor
    return (factor @ _solve_definite(joint, factor.T)).symmetric()


def solve(left: AbstractMatrix, *right: AbstractMatrix) -> tuple[Dense, ...]:
    """The solutions of linear systems with one left side, by elimination with pivoting."""
    columns = jnp.concatenate([each.to_array() for each in right], axis=1)
    solution = jnp.linalg.solve(left.to_array(), columns)
    ends = list(itertools.accumulate(each.shape[1] for each in right))
    return tuple(map(Dense, jnp.split(solution, ends[:-1], axis=1)))


def semidefinite_factor(small: AbstractMatrix) -> AbstractMatrix:
    """L with L Lᵀ = `small`, which may be singular.

    Args:
        small: a matrix that is positive semi-definite up to rounding.

    Returns:
        A lower-triangular factor, with columns of zeros where a pivot is nothing but
        rounding. Its gradients are finite.
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
        usable = pivot > _rounding(jnp.result_type(pivot), size) * rows[j][j]
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
    """The part of a diagonal entry below which a pivot means nothing."""
    return size * float(jnp.finfo(dtype).eps)


def _solve_definite(small: Unrolled, right: Unrolled) -> Unrolled:
    """Solve by elimination without pivoting, which positive definite matrices allow."""
    size = small.shape[0]
    left = [list(row) for row in small.rows]
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
