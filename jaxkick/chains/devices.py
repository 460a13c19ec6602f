"""Sharding of chains and observations over the devices of a mesh.

All axes of the mesh are treated as one. Without a mesh these functions do nothing. XLA inserts
all communication that is not explicit here.
"""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from jaxkick._typing import Array, Int

__all__ = ["all_entries", "gathered_positions", "on_every_device", "put", "shared_out"]


def put(array: np.ndarray | Array, mesh: Mesh, axis: int | None) -> Array:
    """Put an array on the devices of a mesh, sharded along `axis` or replicated for `None`.

    Every process passes the same array, and keeps the shards of its own devices.
    """
    host = np.asarray(array)
    sharding = NamedSharding(mesh, _spec(mesh, axis))
    return jax.make_array_from_callback(host.shape, sharding, lambda part: host[part])


def shared_out(array: Array, mesh: Mesh | None, axis: int = 0) -> Array:
    """Constrain an array to be sharded along an axis."""
    return _constrain(array, mesh, axis)


def on_every_device(array: Array, mesh: Mesh | None) -> Array:
    """Constrain an array to be replicated on all devices."""
    return _constrain(array, mesh, None)


def all_entries(parts: Sequence[Array], mesh: Mesh | None) -> Array:
    """Gather the entries of all chains into one array on every device.

    Args:
        parts: an array [C, R] for each chain, sharded along R.
        mesh: the devices.

    Returns:
        The entries ordered by device, chain and step, as in `gathered_positions`. On one device
        this is the order of the chains.
    """

    def end_to_end(*parts: Array) -> Array:
        return jnp.concatenate([part.ravel() for part in parts])

    if mesh is None:
        return end_to_end(*parts)

    def gather(*parts: Array) -> Array:
        return lax.all_gather(end_to_end(*parts), mesh.axis_names, tiled=True)

    specs = tuple(_spec(mesh, 1) for _ in parts)
    return jax.shard_map(
        gather, mesh=mesh, in_specs=specs, out_specs=PartitionSpec(), check_vma=False
    )(*parts)


def gathered_positions(shapes: Sequence[tuple[int, int]], mesh: Mesh) -> Int[Array, " entries"]:
    """Return the positions in `all_entries` of entries in the order of the chains.

    Args:
        shapes: steps and rows of each chain.
        mesh: the devices.
    """
    local = [steps * rows // mesh.size for steps, rows in shapes]
    positions = []
    for place, (steps, rows) in enumerate(shapes):
        step = lax.broadcasted_iota(jnp.int32, (steps, rows), 0)
        device, row = jnp.divmod(
            lax.broadcasted_iota(jnp.int32, (steps, rows), 1), rows // mesh.size
        )
        begin = sum(local[:place])
        flat = device * sum(local) + begin + step * (rows // mesh.size) + row
        positions.append(flat.ravel())
    return jnp.concatenate(positions)


def _spec(mesh: Mesh, axis: int | None) -> PartitionSpec:
    return PartitionSpec() if axis is None else PartitionSpec(*[None] * axis, mesh.axis_names)


def _constrain(array: Array, mesh: Mesh | None, axis: int | None) -> Array:
    if mesh is None:
        return array
    return lax.with_sharding_constraint(array, NamedSharding(mesh, _spec(mesh, axis)))
