"""A data set shared out to the devices of a mesh."""

from dataclasses import replace
from typing import TYPE_CHECKING

import jax
import numpy as np
from jax.sharding import AxisType, Mesh

from jaxkick._sharding import put
from jaxkick._typing import Array
from jaxkick.statespace.chain import Chain

if TYPE_CHECKING:
    from jaxkick.dataset.dataset import Dataset

__all__ = ["check_mesh", "shard_dataset"]


def shard_dataset(data: "Dataset", mesh: Mesh) -> "Dataset":
    """Share rows and observations out to the devices of a mesh; see `Dataset.shard`."""
    check_mesh(mesh)
    mesh = _automatic(mesh)
    chains = tuple(_shard_chain(chain, mesh, data.slots.size) for chain in data.chains)
    even = len(data.outcome) % mesh.size == 0
    arrays = {
        name: put(value, mesh, 0 if even else None)
        for name in ("outcome", "coefficients", "weight")
        if (value := getattr(data, name)) is not None
    }
    slots = put(_moved_slots(data, chains), mesh, 0 if even else None)
    epoch = jax.tree.map(lambda leaf: put(leaf, mesh, None), data.epoch)
    index = data.index and replace(data.index, shapes=tuple(chain.gap.shape for chain in chains))
    return replace(data, **arrays, slots=slots, chains=chains, epoch=epoch, index=index)


def check_mesh(mesh: Mesh) -> None:
    """Refuse what is no mesh.

    Raises:
        TypeError: if it is something else.
    """
    if not isinstance(mesh, Mesh):
        raise TypeError(
            f"`mesh` must be a `jax.sharding.Mesh`, not {type(mesh).__name__}; make one with "
            '`jax.make_mesh((jax.device_count(),), ("rows",))`.'
        )


def _automatic(mesh: Mesh) -> Mesh:
    """The same devices, with the sharding of what is computed left to the compiler."""
    kinds = (AxisType.Auto,) * len(mesh.axis_names)
    return Mesh(mesh.devices, mesh.axis_names, axis_types=kinds)


def _shard_chain(chain: Chain, mesh: Mesh, no_source: int) -> Chain:
    """A chain with its rows shared out, and empty rows so that every device has as many."""
    steps, rows = chain.gap.shape
    missing = -rows % mesh.size
    paddings = {
        "gap": 0.0,
        "offset": np.min(chain.offset),
        "age": 0.0,
        "first": True,
        "source": no_source,
        "feature": 0,
    }

    def pad(array: Array, padding: float) -> np.ndarray:
        empty = np.full((steps, missing), padding, array.dtype)
        return np.concatenate([np.asarray(array), empty], axis=1)

    arrays = {
        name: put(pad(getattr(chain, name), padding), mesh, 1) for name, padding in paddings.items()
    }
    return replace(chain, **arrays, mesh=mesh)


def _moved_slots(data: "Dataset", chains: tuple[Chain, ...]) -> np.ndarray:
    """The positions of slots in chains that have more rows."""
    old = [chain.gap.shape for chain in data.chains]
    new = [chain.gap.shape for chain in chains]
    slots = np.asarray(data.slots)
    if old == new:
        return slots
    moved = np.full_like(slots, sum(steps * rows for steps, rows in new))
    before = after = 0
    for (steps, rows), (_, more_rows) in zip(old, new, strict=True):
        here = (slots >= before) & (slots < before + steps * rows)
        step, row = np.divmod(slots[here] - before, rows)
        moved[here] = after + step * more_rows + row
        before, after = before + steps * rows, after + steps * more_rows
    return moved
