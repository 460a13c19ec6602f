"""Small matrices agree with arrays, whichever way they are held."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxkick._math.small_matrices import (
    MAX_UNROLLED,
    Dense,
    Unrolled,
    adapt,
    block_diagonal,
    column,
    conditioned,
    diagonal,
    dot,
    identity,
    kronecker,
    lower_toeplitz,
    matrix,
    select,
    semidefinite_factor,
    stack_columns,
    zeros,
)

RANDOM = np.random.default_rng(0)
LEFT, RIGHT = RANDOM.normal(size=(2, 3, 3))
LEFT[0, 2] = LEFT[1, 0] = RIGHT[2, 1] = 0.0
COLUMN = RANDOM.normal(size=(3, 1))


def unrolled(array, dtype=np.float64):
    """Scalars, with structural zeros and plain ones where the entries are such."""

    def entry(value):
        if value == 0.0:
            return None
        return 1.0 if value == 1.0 else jnp.asarray(value, dtype)

    return matrix([[entry(value) for value in row] for row in array])


def dense(array, dtype=np.float64):
    return Dense(jnp.asarray(array, dtype))


KINDS = pytest.mark.parametrize("make", [unrolled, dense])
MIXED = pytest.mark.parametrize("other", [unrolled, dense])


@KINDS
@MIXED
def test_operators(make, other):
    left, right, vector = make(LEFT), other(RIGHT), other(COLUMN)
    pairs = [
        (left @ right, LEFT @ RIGHT),
        (left + right, LEFT + RIGHT),
        (left - right, LEFT - RIGHT),
        (left * 2.5, 2.5 * LEFT),
        (2.5 * left, 2.5 * LEFT),
        (left.T, LEFT.T),
        (left @ vector, LEFT @ COLUMN),
        (kronecker(left, right), np.kron(LEFT, RIGHT)),
        (stack_columns(make(COLUMN), vector), np.vstack([COLUMN, COLUMN])),
        (select(jnp.asarray(True), left, right), LEFT),
        (select(jnp.asarray(False), left, right), RIGHT),
    ]
    for found, expected in pairs:
        assert found.shape == expected.shape
        np.testing.assert_allclose(found.to_array(), expected, rtol=1e-14, atol=1e-15)
    blocks = block_diagonal(left, right).to_array()
    np.testing.assert_array_equal(blocks[:3, :3], LEFT)
    np.testing.assert_array_equal(blocks[3:, 3:], RIGHT)
    assert not np.any(blocks[:3, 3:])
    assert not np.any(blocks[3:, :3])
    np.testing.assert_allclose(dot(make(COLUMN), vector), np.sum(COLUMN**2), rtol=1e-14)


def test_structural_zeros_cost_nothing():
    diagonal_ones = block_diagonal(unrolled(LEFT), identity(2))
    assert diagonal_ones.rows[0][3] is None
    assert diagonal_ones.rows[0][2] is None
    assert (diagonal_ones @ zeros(5, 5)).rows == zeros(5, 5).rows
    product = jax.make_jaxpr(lambda x: (matrix([[x, None], [None, 1.0]]) @ identity(2)).rows[0][0])
    assert not product(2.0).eqns


@KINDS
def test_single_precision_is_kept_beside_plain_numbers(make):
    small = make(LEFT, np.float32)
    for result in (
        small @ identity(3),
        identity(3) @ small,
        small + identity(3),
        block_diagonal(small, identity(7)),
        kronecker(identity(4), small),
        stack_columns(make(COLUMN, np.float32), column([1.0, None])),
        select(jnp.asarray(True), small, zeros(3, 3)),
        diagonal([jnp.float32(2.0)] * 9),
    ):
        assert result.to_array().dtype == np.float32


def test_large_matrices_become_dense():
    small = unrolled(LEFT)
    assert isinstance(block_diagonal(small, identity(MAX_UNROLLED - 3)), Unrolled)
    assert isinstance(block_diagonal(small, identity(MAX_UNROLLED - 2)), Dense)
    assert isinstance(kronecker(small, small), Dense)
    assert isinstance(block_diagonal(identity(9), zeros(4, 4)), Unrolled)
    assert isinstance(adapt(small, 3, jnp.float64), Unrolled)
    assert isinstance(adapt(dense(LEFT), 3, jnp.float64), Unrolled)
    assert isinstance(adapt(identity(9), 9, jnp.float32), Dense)


@pytest.mark.parametrize("size", [4, MAX_UNROLLED + 3])
def test_diagonals_and_triangles(size):
    numbers = RANDOM.normal(size=size)
    entries = [jnp.asarray(number) for number in numbers]
    np.testing.assert_array_equal(diagonal(entries).to_array(), np.diag(numbers))
    expected = sum(numbers[k] * np.eye(size, k=-k) for k in range(size))
    np.testing.assert_array_equal(lower_toeplitz(entries).to_array(), expected)
    np.testing.assert_array_equal(identity(size).to_array(), np.eye(size))


@KINDS
def test_symmetric_and_filled(make):
    symmetric = make(LEFT @ LEFT.T).symmetric().to_array()
    np.testing.assert_array_equal(symmetric, symmetric.T)
    np.testing.assert_allclose(symmetric, LEFT @ LEFT.T, rtol=1e-14)
    filled = make(LEFT).filled(jnp.float32)
    assert all(leaf.dtype == np.float32 for leaf in jax.tree.leaves(filled))
    np.testing.assert_allclose(filled.to_array(), LEFT, rtol=1e-6)


@KINDS
@pytest.mark.parametrize("rank", [0, 1, 2, 4])
def test_factor_of_a_semidefinite_matrix(make, rank):
    root = RANDOM.normal(size=(4, rank)) * np.array([[1.0], [1e-3], [1e4], [1.0]])
    covariance = root @ root.T
    factor = semidefinite_factor(make(covariance)).to_array()
    scale = np.sqrt(np.outer(np.diag(covariance), np.diag(covariance)))
    assert np.all(np.abs(factor @ factor.T - covariance) <= 1e-13 * scale)
    np.testing.assert_array_equal(factor, np.tril(factor))


@KINDS
def test_gradients_of_a_singular_factor_are_finite(make):
    def total(scale):
        line = make([[4.0, 2.0, 0.0], [2.0, 1.0, 0.0], [0.0, 0.0, 0.0]]) * scale
        return jnp.sum(semidefinite_factor(line).to_array())

    assert jax.grad(total)(2.0) == pytest.approx(3.0 / (2 * np.sqrt(2.0)))


@KINDS
def test_conditioning_on_information(make):
    covariance, information = LEFT @ LEFT.T, RIGHT @ RIGHT.T
    expected = np.linalg.inv(np.linalg.inv(covariance) + information)
    found = conditioned(make(covariance), make(information)).to_array()
    np.testing.assert_allclose(found, expected, rtol=1e-10)
    singular = COLUMN @ COLUMN.T
    expected = singular / (1.0 + (COLUMN.T @ information @ COLUMN).item())
    found = conditioned(make(singular), make(information)).to_array()
    np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_matrices_pass_through_jit_and_vmap():
    @jax.jit
    @jax.vmap
    def square(x):
        return matrix([[x, None], [1.0, x]]) @ matrix([[x, None], [1.0, x]])

    found = square(jnp.array([2.0, 3.0]))
    np.testing.assert_array_equal(found.rows[0][0], [4.0, 9.0])
    np.testing.assert_array_equal(found.rows[1][0], [4.0, 6.0])
    assert found.rows[0][1] is None
