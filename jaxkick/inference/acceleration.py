"""Anderson acceleration of a fixed point over pytrees.

With residuals f = G(z) − z, the last few differences ΔZ and ΔF give a secant model of the
map. The accelerated iterate (z + β f) − Δ(Z + β F) γ, where γ minimises ‖f − ΔF γ‖, is the
fixed point of that model. Differences are kept in float32: their rounding changes the
step by a ten-millionth of itself, and they are the largest arrays that inference holds.
"""

import functools
from typing import TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp

from jaxkick._typing import Array, Float, Int, Scalar

__all__ = ["History", "accelerate", "empty_history", "inner", "remember"]

Tree = TypeVar("Tree")

_STORED = jnp.float32
_RIDGE = 1e-7


class History(eqx.Module):
    """The last differences of damped updates and of residuals, in a ring.

    Attributes:
        updates: differences of z + β f, with a leading axis over the ring.
        changes: differences ΔF of the residuals, with a leading axis over the ring.
        gram: inner products of the columns of ΔF.
        count: how many differences have been stored since the history was cleared.
    """

    updates: object
    changes: object
    gram: Float[Array, "depth depth"]
    count: Int[Array, ""]


def empty_history(tree: object, depth: int) -> History:
    """A history of at most `depth` differences for trees like `tree`."""
    zeros = jax.tree.map(lambda leaf: jnp.zeros((depth, *leaf.shape), _STORED), tree)
    return History(zeros, zeros, jnp.zeros((depth, depth), _STORED), jnp.zeros((), jnp.int32))


def remember(history: History, update: Tree, change: Tree) -> History:
    """Store the latest differences over the oldest ones."""
    depth = history.gram.shape[0]
    place = history.count % depth

    def put(ring, leaf):
        return ring.at[place].set(leaf.astype(_STORED))

    changes = jax.tree.map(put, history.changes, change)
    row = _against(changes, change)
    gram = history.gram.at[place, :].set(row).at[:, place].set(row)
    return History(jax.tree.map(put, history.updates, update), changes, gram, history.count + 1)


def accelerate(history: History, update: Tree, residual: Tree) -> Tree:
    """The accelerated next iterate; the damped plain one while the history is empty.

    Args:
        history: the last differences, the latest included.
        update: the damped plain update z + β f.
        residual: f = G(z) − z.

    Returns:
        The next iterate.
    """
    depth = history.gram.shape[0]
    filled = jnp.arange(depth, dtype=history.count.dtype) < history.count
    scale = jnp.where(filled, jax.lax.rsqrt(jnp.maximum(jnp.diag(history.gram), 1e-30)), 0.0)
    gram = history.gram * scale[:, None] * scale[None, :]
    gram = gram + jnp.diag(jnp.where(filled, _RIDGE, 1.0))
    right = scale * _against(history.changes, residual)
    gamma = scale * jax.scipy.linalg.solve(gram, right, assume_a="pos")

    def combine(plain, updates):
        # A sum of terms rather than a product of arrays: XLA makes one pass of it.
        terms = [gamma[place] * updates[place] for place in range(depth)]
        return plain - functools.reduce(jnp.add, terms).astype(plain.dtype)

    return jax.tree.map(combine, update, history.updates)


def inner(first: Tree, second: Tree) -> Scalar:
    """The inner product of two trees."""
    parts = jax.tree.map(lambda a, b: jnp.sum(a * b), first, second)
    return sum(jax.tree.leaves(parts))


def _against(ring: Tree, tree: Tree) -> Float[Array, " depth"]:
    """Inner products of every stored difference with a tree."""

    def product(stored, leaf):
        axes = tuple(range(leaf.ndim))
        return jnp.tensordot(stored, leaf.astype(_STORED), (tuple(a + 1 for a in axes), axes))

    return sum(jax.tree.leaves(jax.tree.map(product, ring, tree)))
