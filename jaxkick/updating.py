"""New matches for a posterior: what is known stays, and the compiled program too."""

from typing import Any, NamedTuple, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from jaxkick._parameters import AbstractParameter
from jaxkick._typing import Array, Bool
from jaxkick.dataset.assembly import Assembled
from jaxkick.dataset.dataset import Dataset
from jaxkick.dataset.encoding import count_entries
from jaxkick.dataset.growth import by_chain, by_slot, check_same_scale, join_observations
from jaxkick.dataset.room import Room, find_room
from jaxkick.inference.problem import ScoreMoments, Sites
from jaxkick.inference.solve import Solution
from jaxkick.model import Model
from jaxkick.statespace.step import Site

__all__ = ["Roomy", "extend_means", "grow", "settle"]

_Pair = TypeVar("_Pair", Site, ScoreMoments)


class Roomy(NamedTuple):
    """Data laid out with room for more, and sites in that layout.

    Attributes:
        room: the shapes.
        data: the data set, whose arrays are longer than its observations.
        sites: the pseudo-observation of every entry.
        active: which observations are there.
    """

    room: Room
    data: Dataset
    sites: Sites
    active: Bool[Array, " N"]


def grow(data: Dataset, sites: Sites, room: Room | None, new: Assembled) -> tuple[Dataset, Roomy]:
    """Join data with new observations, whose sites say nothing yet.

    Args:
        data: the data so far.
        sites: its sites.
        room: the shapes that were filled so far, if any.
        new: the new observations.

    Returns:
        All data, in its own layout and in one with room for more.
    """
    old = data.disassembled()
    check_same_scale(old.observations, new.observations)
    joined = join_observations([old, new])
    dtype, features = data.outcome.dtype, joined.observations.features
    whole = Dataset.from_assembled(joined, dtype, data.index.row_length)
    counts = count_entries(joined.observations)
    room = find_room(len(features), features.shape[1], counts, room)
    roomy = Dataset.from_assembled(joined, dtype, None, room)
    if data.mesh is not None:
        whole, roomy = whole.shard(data.mesh), roomy.shard(data.mesh)
    slots = np.asarray(roomy.slots)[: data.num_observations, : data.slots.shape[1]]
    start = _carry(sites, np.asarray(data.slots), slots, roomy)
    active = jnp.arange(room.observations) < whole.num_observations
    return whole, Roomy(room, roomy, start, active)


def settle(solution: Solution, roomy: Roomy, whole: Dataset) -> Solution:
    """A solution for the layout with room, in the data's own layout."""
    count = whole.num_observations
    after = np.asarray(whole.slots)
    before = np.asarray(roomy.data.slots)[:count, : after.shape[1]]
    return solution._replace(
        sites=_carry(solution.sites, before, after, whole),
        entries=_carry(solution.entries, before, after, whole),
        observations=ScoreMoments(*(part[:count] for part in solution.observations)),
    )


def extend_means(model: Model, old: Dataset, new: Dataset) -> Model:
    """The model for data with more features: a prior mean of zero for those that it lacked."""
    mean = model.mean
    if not isinstance(mean, AbstractParameter) or not mean.value.shape:
        return model
    places = old.index.feature_ids(new.names)

    def extend(leaf: Any) -> Any:
        if not eqx.is_array(leaf) or leaf.shape != (old.num_features,):
            return leaf
        return jnp.where(places < 0, jnp.zeros((), leaf.dtype), leaf[np.maximum(places, 0)])

    return eqx.tree_at(lambda model: model.mean, model, jax.tree.map(extend, mean))


def _carry(
    chains: tuple[_Pair, ...], before: np.ndarray, after: np.ndarray, data: Dataset
) -> tuple[_Pair, ...]:
    """Pairs of values of one layout in another, by observation and slot."""
    kind = type(chains[0])
    parts = [
        by_chain(by_slot(part, before), after, data.index.shapes, data.mesh)
        for part in zip(*chains, strict=True)
    ]
    return tuple(kind(*chain) for chain in zip(*parts, strict=True))
