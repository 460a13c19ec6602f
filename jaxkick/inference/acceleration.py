"""Anderson acceleration of a fixed point over pytrees.

With residuals f = G(z) − z, the last few differences ΔZ and ΔF give a secant model of the
map. The accelerated iterate (z + β f) − Δ(Z + β F) γ, where γ minimises ‖f − ΔF γ‖, is the
fixed point of that model. Differences are kept in float32: their rounding changes the
step by a ten-millionth of itself, and they are the largest arrays that inference holds.
"""

import functools
from typing import NamedTuple, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp

from jaxkick._typing import Array, Bool, Float, Int, Scalar

__all__ = ["Accelerated", "History", "accelerate", "empty_history", "inner"]

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


class Accelerated(NamedTuple):
    """The next iterate of the secant model.

    Attributes:
        following: the next iterate; of no use where the model failed.
        history: the differences, the latest among them.
        failed: whether there was nothing to go by, or the model gave no finite iterate.
        total: the sum over the iterate, for whatever has to wait until all of it is there.
    """

    following: object
    history: History
    failed: Bool[Array, ""]
    total: Scalar


def accelerate(
    history: History,
    step: Tree,
    change: Tree,
    update: Tree,
    residual: Tree,
    restart: Bool[Array, ""],
) -> Accelerated:
    """The accelerated next iterate, and the history with the latest differences in it.

    Args:
        history: the differences before the latest.
        step: the latest difference of damped updates z + β f; finite.
        change: the latest difference of residuals f = G(z) − z; finite.
        update: the damped update z + β f.
        residual: the residual f.
        restart: whether to forget all differences.

    Returns:
        The next iterate and the history. Where the secant model fails, it is forgotten.
    """
    depth = history.gram.shape[0]
    place = history.count % depth
    step, change, right = (jax.tree.map(_as_stored, tree) for tree in (step, change, residual))

    def put(ring, leaf):
        return ring.at[place].set(leaf)

    # Stored first, and only then read: so XLA overwrites the ring where it stands.
    updates = jax.tree.map(put, history.updates, step)
    changes = jax.tree.map(put, history.changes, change)
    row = _products(changes, change)
    gram = history.gram.at[place, :].set(row).at[:, place].set(row)
    filled = (jnp.arange(depth, dtype=place.dtype) <= history.count) & ~restart
    gamma = _least_squares(gram, _products(changes, right), filled)

    def combine(plain, stored):
        # A sum of terms rather than a product of arrays: XLA makes one pass of it.
        terms = [jnp.where(filled[k], gamma[k] * stored[k], 0.0) for k in range(depth)]
        return plain - functools.reduce(jnp.add, terms).astype(plain.dtype)

    following = jax.tree.map(combine, update, updates)
    total = sum(jnp.sum(leaf) for leaf in jax.tree.leaves(following))
    failed = restart | ~jnp.isfinite(total)
    count = jnp.where(failed, 0, history.count + 1)
    return Accelerated(following, History(updates, changes, gram, count), failed, total)


def _least_squares(
    gram: Float[Array, "depth depth"],
    right: Float[Array, " depth"],
    filled: Bool[Array, " depth"],
) -> Float[Array, " depth"]:
    """The coefficients γ that minimise ‖f − ΔF γ‖ over the columns that are filled."""
    # Columns that are not filled may hold anything, even what is no number.
    gram, right = jnp.where(filled[:, None] & filled, gram, 0.0), jnp.where(filled, right, 0.0)
    scale = jnp.where(filled, jax.lax.rsqrt(jnp.maximum(jnp.diag(gram), 1e-30)), 0.0)
    gram = gram * scale[:, None] * scale[None, :]
    gram = gram + jnp.diag(jnp.where(filled, _RIDGE, 1.0))
    return scale * jax.scipy.linalg.solve(gram, scale * right, assume_a="pos")


def inner(first: Tree, second: Tree) -> Scalar:
    """The inner product of two trees."""
    parts = jax.tree.map(lambda a, b: jnp.sum(a * b), first, second)
    return sum(jax.tree.leaves(parts))


def _products(ring: Tree, tree: Tree) -> Float[Array, " depth"]:
    """Inner products of every stored difference with a tree."""

    def product(stored, leaf):
        return jnp.sum(stored * leaf, axis=tuple(range(1, stored.ndim)))

    return sum(jax.tree.leaves(jax.tree.map(product, ring, tree)))


def _as_stored(leaf: Array) -> Array:
    return leaf.astype(_STORED)
