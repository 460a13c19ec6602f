"""Arrays shared out to the devices of a mesh: rows of chains, and observations.

All axes of the mesh are used as one line of devices. Without a mesh nothing
happens here. Apart from what this file says, XLA finds the communication by itself.
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
    """An array on all devices of a mesh: `axis` shared out, or a copy on each for `None`.

    Every process gives the same array and keeps what its own devices need.
    """
    host = np.asarray(array)
    sharding = NamedSharding(mesh, _spec(mesh, axis))
    return jax.make_array_from_callback(host.shape, sharding, lambda part: host[part])


def shared_out(array: Array, mesh: Mesh | None, axis: int = 0) -> Array:
    """Have every device compute its share of an array."""
    return _constrain(array, mesh, axis)


def on_every_device(array: Array, mesh: Mesh | None) -> Array:
    """Have every device hold the whole of an array."""
    return _constrain(array, mesh, None)


def all_entries(parts: Sequence[Array], mesh: Mesh | None) -> Array:
    """The entries of all chains in one line, on every device.

    Args:
        parts: an array [C, R] for each chain, with R shared out.
        mesh: the devices.

    Returns:
        The entries, device by device, chain by chain and step by step: in the order of
        `gathered_positions`. On one device that is the order of the chains.
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
    """Return the position of each entry in `all_entries`, for entries in the order of the chains.

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
