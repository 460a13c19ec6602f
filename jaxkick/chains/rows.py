"""Incoming states of the rows of a chain.

Each row is a function from its incoming to its outgoing state. Applying them one after the other
takes as many sequential steps as there are rows. In groups it takes about three times the square
root of that: combine the rows of each group into one function, apply the groups one after the
other, then apply the rows of all groups in parallel.
"""

import math
from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
from jax import lax
from jax.flatten_util import ravel_pytree
from jax.sharding import Mesh

from jaxkick._typing import Array, Float
from jaxkick.chains.devices import on_every_device, shared_out
from jaxkick.chains.layout import Chain

__all__ = ["Link", "incoming_states"]

State = TypeVar("State")
Row = TypeVar("Row")


_MANY_ROWS = 8


class Link(NamedTuple, Generic[State, Row]):
    """Operations on rows as functions from incoming to outgoing states.

    Attributes:
        follow: apply a row to its incoming state.
        join: combine two consecutive rows into one.
        nothing: the row that is the identity function.
    """

    follow: Callable[[State, Row], State]
    join: Callable[[Row, Row], Row]
    nothing: Row


def incoming_states(
    link: Link[State, Row],
    start: State,
    rows: Row,
    chain: Chain,
    reverse: bool = False,
) -> State:
    """Compute the incoming state of every row.

    Rows are processed in groups if there are many more rows than steps in a row: always in layouts
    for a GPU, rarely on a CPU. Without groups, every device processes all rows.

    Args:
        link: the operations on rows.
        start: the incoming state of the first row.
        rows: the rows, along the leading axis of every leaf.
        chain: the chain of the rows.
        reverse: whether to begin with the last row.

    Returns:
        The same as `start`, with a leading axis over rows.
    """
    # XLA runs a separate kernel for every scalar of a carry at every step, which would dominate
    # the time. So they are packed into one array.
    mesh = chain.mesh
    first, unpack = ravel_pytree(start)
    _, unpack_row = ravel_pytree(jax.tree.map(lambda leaf: leaf[0], rows))
    packed = jax.vmap(lambda row: ravel_pytree(row)[0])(rows)

    def follow(state, row):
        return ravel_pytree(link.follow(unpack(state), unpack_row(row)))[0], state

    def join(one, other):
        return ravel_pytree(link.join(unpack_row(one), unpack_row(other)))[0], None

    def walk(rows):
        return lax.scan(follow, first, on_every_device(rows, mesh), reverse=reverse)[1]

    steps, count = chain.first.shape
    if count <= _MANY_ROWS * steps:
        return jax.vmap(unpack)(walk(packed))
    nothing, _ = ravel_pytree(link.nothing)
    groups = _grouped(packed, nothing, mesh)
    whole = jnp.broadcast_to(nothing, (groups.shape[1], len(nothing)))
    whole, _ = lax.scan(jax.vmap(join), whole, groups, reverse=reverse)
    into_groups = shared_out(walk(whole), mesh)
    _, states = lax.scan(jax.vmap(follow), into_groups, groups, reverse=reverse)
    return jax.vmap(unpack)(_ungrouped(states, count, mesh))


def _grouped(
    rows: Float[Array, "R n"], nothing: Float[Array, " n"], mesh: Mesh | None
) -> Float[Array, "L G n"]:
    """Arrange rows in groups of equal length, each on one device."""
    devices = 1 if mesh is None else mesh.size
    count, numbers = rows.shape[0] // devices, rows.shape[1]
    length = math.ceil(math.sqrt(count))
    missing = -count % length
    filling = jnp.broadcast_to(nothing, (devices, missing, numbers))
    rows = jnp.concatenate([rows.reshape(devices, count, numbers), filling], axis=1)
    return shared_out(rows.reshape(-1, length, numbers), mesh).swapaxes(0, 1)


def _ungrouped(states: Float[Array, "L G k"], rows: int, mesh: Mesh | None) -> Float[Array, "R k"]:
    devices, numbers = 1 if mesh is None else mesh.size, states.shape[2]
    states = states.swapaxes(0, 1).reshape(devices, -1, numbers)
    return shared_out(states[:, : rows // devices].reshape(rows, numbers), mesh)
