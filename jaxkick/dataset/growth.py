"""Data sets that grow: taken apart, joined with new observations, carried between layouts.

An entry is known by its observation and slot whatever the layout of the chains, so that
values of entries are carried from one layout to another by them.
"""

from collections.abc import Sequence

import jax
import numpy as np
from jax.sharding import Mesh

from jaxkick._sharding import put
from jaxkick.dataset.assembly import Assembled
from jaxkick.dataset.encoding import Observations
from jaxkick.dataset.features import Block, trim
from jaxkick.dataset.index import Index
from jaxkick.dataset.names import Vocabulary

__all__ = ["by_chain", "by_slot", "disassemble", "join_observations"]


def disassemble(
    index: Index,
    features_of_chains: Sequence[np.ndarray],
    slots: np.ndarray,
    coefficients: np.ndarray,
    outcome: np.ndarray,
    weight: np.ndarray | None,
) -> Assembled:
    """The observations that a data set was built of.

    Args:
        index: the data's index.
        features_of_chains: the feature of every entry, chain by chain.
        slots: positions of entries by observation and slot.
        coefficients: their coefficients.
        outcome: outcomes.
        weight: weights, or `None`.
    """
    used = slots < index.bases[-1]
    features = np.where(used, by_slot(features_of_chains, slots), -1).astype(np.int32)
    observations = Observations(
        index.times, features, index.names, index.grouping, index.scale, index.rows, index.recipe
    )
    return Assembled(observations, coefficients, outcome, weight)


def join_observations(old: Assembled, new: Assembled) -> Assembled:
    """Old observations and new ones, in this order, with the names of both.

    Raises:
        ValueError: if the times of one are dates and those of the other are not, or their
            units differ.
    """
    first, second = old.observations, new.observations
    if first.scale != second.scale:
        raise ValueError(
            f"the new matches have times {_show(second)}, but the data has times {_show(first)}; "
            "build them alike, with the same `unit`."
        )
    names, numbers = _join_names(first, second)
    blocks = [
        Block(part[assembled.observations.features], assembled.coefficients)
        for part, assembled in zip(numbers, (old, new), strict=True)
    ]
    block = _stack(blocks)
    observations = Observations(
        np.concatenate([first.times, second.times]),
        block.features,
        names,
        first.grouping,
        first.scale,
        _join_rows(first, second),
        first.recipe,
    )
    return Assembled(
        observations,
        block.coefficients,
        np.concatenate([old.outcome, new.outcome]),
        _join_weights(old, new),
    )


def by_slot(parts: Sequence[np.ndarray], slots: np.ndarray) -> np.ndarray:
    """Values of entries, chain by chain, by observation and slot; zero in empty slots."""
    flat = np.concatenate([np.asarray(part).ravel() for part in parts])
    return np.append(flat, np.zeros(1, flat.dtype))[np.minimum(slots, len(flat))]


def by_chain(
    values: np.ndarray,
    slots: np.ndarray,
    shapes: Sequence[tuple[int, int]],
    mesh: Mesh | None = None,
) -> tuple[jax.Array, ...]:
    """Values by observation and slot in the layout of the chains; zero in padding.

    Args:
        values: by observation and slot.
        slots: positions of entries in the chains.
        shapes: steps and rows of each chain.
        mesh: the devices that rows are shared out to, if any.
    """
    sizes = [steps * rows for steps, rows in shapes]
    flat = np.zeros(sum(sizes) + 1, values.dtype)
    flat[slots] = values
    parts = np.split(flat[:-1], np.cumsum(sizes)[:-1])
    arrays = [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]
    if mesh is None:
        return tuple(map(jax.device_put, arrays))
    return tuple(put(array, mesh, 1) for array in arrays)


def _join_names(
    first: Observations, second: Observations
) -> tuple[tuple, tuple[np.ndarray, np.ndarray]]:
    """All names in their usual order, and the new numbers of old and new features."""
    vocabulary = Vocabulary()
    codes = [vocabulary.encode(list(part.names), "names") for part in (first, second)]
    names, places = vocabulary.sort(np.concatenate(codes))
    return names, tuple(np.append(places[part], -1) for part in codes)


def _stack(blocks: Sequence[Block]) -> Block:
    """Blocks one below the other, as wide as the widest."""
    width = max(block.features.shape[1] for block in blocks)

    def widen(array: np.ndarray, padding: float) -> np.ndarray:
        room = ((0, 0), (0, width - array.shape[1]))
        return np.pad(array, room, constant_values=padding)

    features = np.concatenate([widen(block.features, -1) for block in blocks])
    coefficients = np.concatenate([widen(block.coefficients, 0.0) for block in blocks])
    return trim(Block(features.astype(np.int32), coefficients))


def _join_rows(first: Observations, second: Observations) -> np.ndarray | None:
    if first.rows is None and second.rows is None:
        return None
    old = np.arange(len(first.times)) if first.rows is None else first.rows
    new = np.arange(len(second.times)) if second.rows is None else second.rows
    return np.concatenate([old, new + int(old.max()) + 1])


def _join_weights(old: Assembled, new: Assembled) -> np.ndarray | None:
    if old.weight is None and new.weight is None:
        return None
    return np.concatenate(
        [np.ones_like(part.outcome) if part.weight is None else part.weight for part in (old, new)]
    )


def _show(observations: Observations) -> str:
    scale = observations.scale
    unit = "no unit" if scale.unit is None else f"{scale.unit}s"
    return f"as {'dates' if scale.dates else 'numbers'} in {unit}"
