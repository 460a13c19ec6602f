"""Data sets that grow: taken apart, joined with new observations, carried between layouts.

An entry is known by its observation and slot whatever the layout of the chains, so that
values of entries are carried from one layout to another by them.
"""

from collections.abc import Hashable, Sequence

import jax
import numpy as np
from jax.sharding import Mesh

from jaxkick._sharding import put
from jaxkick.dataset.assembly import Assembled
from jaxkick.dataset.encoding import Observations
from jaxkick.dataset.features import Block, trim
from jaxkick.dataset.index import Index
from jaxkick.dataset.names import Vocabulary

__all__ = ["by_chain", "by_slot", "check_same_scale", "disassemble", "join_observations"]


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


def join_observations(parts: Sequence[Assembled]) -> Assembled:
    """Observations of several data sets, one after the other, with the names of all.

    How the table was read, and the rule for the groups, are those of the first.

    Args:
        parts: the observations, whose times have one scale.
    """
    observations = [part.observations for part in parts]
    names, numbers = _join_names(observations)
    block = _stack(
        [
            Block(new[part.observations.features], part.coefficients)
            for new, part in zip(numbers, parts, strict=True)
        ]
    )
    joined = observations[0]._replace(
        times=np.concatenate([part.times for part in observations]),
        features=block.features,
        names=names,
        rows=_join_rows(observations),
    )
    outcome = np.concatenate([part.outcome for part in parts])
    return Assembled(joined, block.coefficients, outcome, _join_weights(parts))


def check_same_scale(old: Observations, new: Observations) -> None:
    """Refuse new matches whose times are of another kind than those of the data.

    Raises:
        ValueError: if the times of one are dates and those of the other are not, or their
            units differ.
    """
    if old.scale != new.scale:
        raise ValueError(
            f"the new matches have times {new.scale.describe()}, but the data has times "
            f"{old.scale.describe()}; build them alike, with the same `unit`."
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
    parts: Sequence[Observations],
) -> tuple[tuple[Hashable, ...], list[np.ndarray]]:
    """All names, and for each part the new numbers of its features.

    Names that are the same in all parts keep their order, which may be the user's own.
    """
    first = parts[0].names
    if all(part.names == first for part in parts):
        return first, [np.append(np.arange(len(first), dtype=np.int32), np.int32(-1))] * len(parts)
    vocabulary = Vocabulary()
    codes = [vocabulary.encode(list(part.names), "names") for part in parts]
    names, places = vocabulary.sort(np.concatenate(codes))
    return names, [np.append(places[part], -1) for part in codes]


def _stack(blocks: Sequence[Block]) -> Block:
    """Blocks one below the other, as wide as the widest."""
    width = max(block.features.shape[1] for block in blocks)

    def widen(array: np.ndarray, padding: float) -> np.ndarray:
        room = ((0, 0), (0, width - array.shape[1]))
        return np.pad(array, room, constant_values=padding)

    features = np.concatenate([widen(block.features, -1) for block in blocks])
    coefficients = np.concatenate([widen(block.coefficients, 0.0) for block in blocks])
    return trim(Block(features.astype(np.int32), coefficients))


def _join_rows(parts: Sequence[Observations]) -> np.ndarray | None:
    if all(part.rows is None for part in parts):
        return None
    joined, begin = [], 0
    for part in parts:
        rows = np.arange(len(part.times)) if part.rows is None else part.rows
        joined.append(rows + begin)
        begin = int(joined[-1].max()) + 1
    return np.concatenate(joined)


def _join_weights(parts: Sequence[Assembled]) -> np.ndarray | None:
    if all(part.weight is None for part in parts):
        return None
    return np.concatenate(
        [np.ones_like(part.outcome) if part.weight is None else part.weight for part in parts]
    )
