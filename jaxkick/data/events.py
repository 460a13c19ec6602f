"""Events: observations that depend on several scores, such as the sides of a race.

A data set has one row for each score. The rows of an event are evaluated together, all others
separately.
"""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from jaxkick._typing import Array, Bool, Float, Int
from jaxkick.chains.devices import put
from jaxkick.data.encoding import padded_size
from jaxkick.data.observations import Observations

_NONE = np.iinfo(np.int32).max
# Compiling another block takes as long as evaluating this many more sides.
_BLOCK_COST = 5_000


class EventBlock(eqx.Module):
    """Events of one kind, with room for the same number of sides.

    Attributes:
        members: the rows of every event; beyond all rows where a side is absent.
        kind: the kind of the events.
    """

    members: Int[Array, "E S"]
    kind: str = eqx.field(static=True)

    @property
    def present(self) -> Bool[Array, "E S"]:
        """True for the sides that an event has."""
        return self.members < _NONE

    @property
    def repeated(self) -> Bool[Array, " E"]:
        """True for padding: events that repeat the first one, which no row reads."""
        first = self.members[:, 0] == self.members[0, 0]
        return first.at[0].set(False)

    def gather(self, values: Array) -> Array:
        """The values of every event's rows; for absent sides, the value of its first row."""
        members = jnp.where(self.present, self.members, self.members[:, :1])
        return jnp.take(values, members, axis=0, mode="clip")

    def sum(self, values: Float[Array, " N"]) -> Float[Array, " E"]:
        """The sum over every event's rows."""
        return jnp.sum(jnp.where(self.present, self.gather(values), 0.0), axis=1)


class Events(eqx.Module):
    """The events of a data set, in blocks of the same number of sides.

    Blocks are padded with a few repetitions of the first event, which no row reads.

    Attributes:
        blocks: the events.
        place: the place of every row in the concatenation of all raveled blocks.
        number: the event of every row, counted over all blocks.
    """

    blocks: tuple[EventBlock, ...]
    place: Int[Array, " N"]
    number: Int[Array, " N"]

    def to_rows(self, sides: list[Float[Array, "_ _"]]) -> Float[Array, " N"]:
        """Values by event and side, block by block, as values of rows."""
        return jnp.take(jnp.concatenate([part.ravel() for part in sides]), self.place, mode="clip")

    def spread(self, events: list[Array]) -> Array:
        """Values of events, block by block, as values of rows."""
        return jnp.take(jnp.concatenate(events), self.number, mode="clip")

    def all_of(self, mask: Bool[Array, " N"]) -> Bool[Array, " N"]:
        """Return whether a mask holds for all rows of a row's event."""
        return mask & self.spread([jnp.all(block.gather(mask), axis=1) for block in self.blocks])

    def shard(self, mesh: Mesh) -> "Events":
        """Distribute the events over devices, where their number allows it."""

        def place(array: Array) -> Array:
            return put(np.asarray(array), mesh, 0 if len(array) % mesh.size == 0 else None)

        return jax.tree.map(place, self)


def make_events(
    observations: Observations, num_rows: int, like: Events | None, growth: float
) -> Events | None:
    """Collect the rows of every event; `None` if each is an event and all are of the same kind.

    The shapes of `like` are used again if all events fit; others are larger by the factor `growth`.
    """
    if observations.events is None and not observations.kind_names:
        return None
    count, event = len(observations.times), observations.event_numbers
    order = np.argsort(event, kind="stable")
    _, starts, sizes = np.unique(event[order], return_index=True, return_counts=True)
    kind_of = observations.kind_numbers[order[starts]]
    blocks, place, number = [], np.zeros(num_rows, np.int32), np.zeros(num_rows, np.int32)
    sides = events = 0
    for kind, name in enumerate(observations.kind_names or ("",)):
        old = [] if like is None else [b.members.shape for b in like.blocks if b.kind == name]
        own = np.flatnonzero(kind_of == kind)
        if not own.size:
            continue
        lower = 0
        for width, room in _choose_widths(sizes[own], old):
            chosen = own[(sizes[own] > lower) & (sizes[own] <= width)]
            # Events of similar size are evaluated together, without sides that all of them lack.
            chosen = chosen[np.argsort(sizes[chosen], kind="stable")]
            lower = width
            grown = math.ceil(growth * len(chosen))
            total = room or padded_size(grown, grown)
            members = np.full((total, width), _NONE, np.int32)
            there = np.arange(width) < sizes[chosen, None]
            found = order[np.minimum(starts[chosen, None] + np.arange(width), count - 1)]
            members[: len(chosen)] = np.where(there, found, _NONE)
            members[len(chosen) :] = members[0] if len(chosen) else [0, *[_NONE] * (width - 1)]
            which, side = np.nonzero(there)
            place[found[there]] = sides + which * width + side
            number[found[there]] = events + which
            sides, events = sides + total * width, events + total
            blocks.append(EventBlock(jax.device_put(members), name))
    return Events(tuple(blocks), jax.device_put(place), jax.device_put(number))


def _choose_widths(sizes: np.ndarray, old: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The widths of blocks that hold events of these sizes, and the room that they must have.

    Existing widths are used if all events fit. New widths minimise the number of sides to evaluate
    plus a cost for each block.
    """
    if old:
        widths = np.sort([width for _, width in old])
        counts = np.bincount(np.searchsorted(widths, sizes), minlength=len(widths) + 1)
        room = {width: events for events, width in old}
        if all(counts[k] <= room[width] for k, width in enumerate(widths)) and not counts[-1]:
            return [(int(width), room[width]) for width in widths]
    distinct, counts = np.unique(sizes, return_counts=True)
    below = np.concatenate([[0], np.cumsum(counts)])
    best: list[tuple[float, list[int]]] = [(0.0, [])]
    for end, width in enumerate(distinct.tolist(), start=1):
        choices = (
            (cost + (below[end] - below[start]) * width + _BLOCK_COST, [*widths, width])
            for start, (cost, widths) in enumerate(best)
        )
        best.append(min(choices))
    return [(width, 0) for width in best[-1][1]]
