"""Room for more: shapes that a growing data set fills, so that few programs are compiled.

A compiled program serves all data of one shape. When new observations no longer fit into the
shapes, the shapes grow by half, so that compilations become ever rarer.
"""

from collections.abc import Mapping
from typing import NamedTuple

import jax
import numpy as np

from jaxkick.statespace.chain import Layout, plan_layout

__all__ = ["ChainRoom", "Room", "choose_layout", "find_room"]

_GROWTH = 1.5


class ChainRoom(NamedTuple):
    """The shape of a chain: steps, rows, and whether rows may begin inside a feature."""

    steps: int
    rows: int
    linked: bool


class Room(NamedTuple):
    """The shapes of a data set.

    Attributes:
        observations: for how many observations there is room.
        slots: for how many features of an observation.
        chains: the shape of the chain of each group.
    """

    observations: int
    slots: int
    chains: tuple[tuple[str, ChainRoom], ...]


def find_room(
    num_observations: int, num_slots: int, counts: Mapping[str, np.ndarray], room: Room | None
) -> Room:
    """The room there is, if everything fits into it; else a larger one.

    Args:
        num_observations: the number of observations.
        num_slots: the number of slots.
        counts: numbers of entries of the features of each group, decreasing.
        room: the room there is, if any.
    """
    if room is not None and _fits(num_observations, num_slots, counts, room):
        return room
    chains = tuple((group, _plan(each)) for group, each in counts.items())
    return Room(_more(num_observations), num_slots, chains)


def choose_layout(
    group: str, counts: np.ndarray, row_length: int | None, room: Room | None
) -> Layout:
    """The layout of a group's chain: within the room, or the one that suits best.

    Raises:
        ValueError: if there is not enough room.
    """
    if room is None:
        return plan_layout(counts, jax.default_backend(), row_length)
    layout = _place(counts, dict(room.chains)[group])
    if layout is None:
        raise ValueError(f"the entries of the group {group!r} do not fit into the room.")
    return layout


def _fits(
    num_observations: int, num_slots: int, counts: Mapping[str, np.ndarray], room: Room
) -> bool:
    chains = dict(room.chains)
    return (
        num_observations <= room.observations
        and num_slots <= room.slots
        and set(counts) == set(chains)
        and all(_place(each, chains[group]) is not None for group, each in counts.items())
    )


def _plan(counts: np.ndarray) -> ChainRoom:
    """A shape with room for half as many entries again, of more or of longer features."""
    now = plan_layout(counts, jax.default_backend())
    rows = _more(now.rows) + _more(now.rows) % 2
    if not now.linked:
        packed = ChainRoom(_more(now.steps), rows, linked=False)
        if _place(counts, packed) is not None:
            return packed
    return ChainRoom(now.steps, rows, linked=True)


def _place(counts: np.ndarray, shape: ChainRoom) -> Layout | None:
    """The places of features in a chain of this shape, or `None` if they do not fit."""
    steps, rows, linked = shape
    if linked:
        fits = counts.sum() <= steps * rows
        return Layout(steps, rows, np.cumsum(counts) - counts, linked=True) if fits else None
    layout = plan_layout(counts, jax.default_backend(), steps)
    # A chain of one row may be given longer rows without moving anything.
    if layout.linked or layout.rows > rows or (layout.steps != steps and layout.rows > 1):
        return None
    return Layout(steps, rows, layout.starts, linked=False)


def _more(number: int) -> int:
    return int(np.ceil(_GROWTH * number))
