"""The host's side of a data set: names, groups, times, and where each feature's entries are."""

import hashlib
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from jaxkick.dataset.directory import Played
from jaxkick.dataset.names import Groups, group_name
from jaxkick.dataset.recipe import Recipe
from jaxkick.dataset.times import TimeScale
from jaxkick.statespace.chain import flat_positions

__all__ = ["Entries", "Index"]


class Entries(NamedTuple):
    """The entries of one feature, in the order of time.

    Attributes:
        positions: flat positions in the concatenation of all chains, as `Dataset.slots` has them.
        times: float64 times in the data's unit.
        observations: numbers of the observations.
    """

    positions: np.ndarray
    times: np.ndarray
    observations: np.ndarray


@dataclass(frozen=True, eq=False, repr=False)
class Index:
    """What the host knows of a data set; hashable, and equal where the content is equal.

    Feature numbers count along `names`. `observations` lists all entries, group by group,
    feature by feature and in the order of time.

    Attributes:
        names: name of each feature.
        groups: names of the groups, one for each chain.
        scale: how the user's times become numbers.
        epoch: the time that offsets count from.
        times: float64 time of each observation.
        rows: the user's row of each observation, or `None` where each row made one.
        feature_group: number of each feature's group; -1 if the group has no entries.
        counts: number of entries of each feature.
        begins: place of each feature's first entry in `observations`.
        places: place of each feature's first entry in its chain, counted along the rows.
        shapes: steps and rows of each chain.
        observations: observation of each entry.
        grouping: the user's rule for the groups, which also tells the group of unseen names.
        recipe: how the user's table was read, if it was one.
        row_length: steps of the rows of the chains, where the user chose them.
    """

    names: tuple[Hashable, ...]
    groups: tuple[str, ...]
    scale: TimeScale
    epoch: float
    times: np.ndarray
    rows: np.ndarray | None
    feature_group: np.ndarray
    counts: np.ndarray
    begins: np.ndarray
    places: np.ndarray
    shapes: tuple[tuple[int, int], ...]
    observations: np.ndarray
    grouping: Groups
    recipe: Recipe | None = None
    row_length: int | None = None

    def __post_init__(self) -> None:
        for field in fields(self):
            array = getattr(self, field.name)
            if isinstance(array, np.ndarray):
                array.setflags(write=False)

    def __hash__(self) -> int:
        return hash(self._outline)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Index) or self._outline != other._outline:
            return False
        return self._digest == other._digest and self.grouping == other.grouping

    def __repr__(self) -> str:
        return f"Index({len(self.names):,} features, {len(self.times):,} observations)"

    @property
    def unit(self) -> str | None:
        """The unit of time, where it is known."""
        return self.scale.unit

    @property
    def library(self) -> str | None:
        """The library of the user's table, where there was one."""
        return None if self.recipe is None else self.recipe.library

    @cached_property
    def bases(self) -> np.ndarray:
        """Position of each chain's begin in the concatenation of all chains, and the end."""
        sizes = [steps * rows for steps, rows in self.shapes]
        return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)

    @property
    def num_entries(self) -> int:
        """The number of entries."""
        return len(self.observations)

    @property
    def latest(self) -> float:
        """The time of the last observation."""
        return float(self.times.max())

    def to_time(self, times: Any, argument: str = "times") -> np.ndarray:
        """Times in the user's terms as float64 numbers in the data's unit.

        Args:
            times: a number or date (also as ISO text), or an array or list of them.
            argument: name of the user's argument, for the error.

        Returns:
            The numbers; without dimensions for one time.

        Raises:
            ValueError: if numbers are given where the data has dates, or the reverse.
        """
        return self.scale.to_numbers(times, argument)

    def feature_ids(self, names: Iterable[Hashable]) -> np.ndarray:
        """The numbers of features by name, as int32; -1 for names that the data lacks."""
        names = list(names)
        numbers = self._numbers
        return np.fromiter((numbers.get(name, -1) for name in names), np.int32, len(names))

    def group_of(self, name: Hashable) -> str:
        """The name of the group of a feature, also of one that the data lacks."""
        return group_name(self.grouping, name)

    def members(self, group: str) -> list[Hashable]:
        """The names of the features of a group that take part in observations."""
        chosen = (self.feature_group == self.groups.index(group)) & (self.counts > 0)
        return [self.names[member] for member in np.flatnonzero(chosen)]

    def played(self, name: Hashable, until: float) -> Played:
        """How many observations a feature has had until a time, and when the last one was."""
        times = self.entries(name).times
        count = int(np.searchsorted(times, until, side="right"))
        return Played(count, float(times[count - 1]) if count else -np.inf)

    def group_ids(self, names: Iterable[Hashable]) -> np.ndarray:
        """The numbers of the groups of names, seen or not; -1 for a group without entries."""
        number = {group: place for place, group in enumerate(self.groups)}
        return np.array([number.get(self.group_of(name), -1) for name in names], np.int32)

    def entries(self, name: Hashable) -> Entries:
        """The entries of a feature in the order of time; none for a name that the data lacks."""
        feature = self._numbers.get(name, -1)
        count = 0 if feature < 0 else int(self.counts[feature])
        if not count:
            return Entries(np.empty(0, np.int32), np.empty(0), np.empty(0, np.int32))
        ranks = np.arange(count)
        observations = self.observations[self.begins[feature] + ranks]
        positions = self.positions(np.full(count, feature), ranks)
        return Entries(positions, self.times[observations], observations)

    def positions(self, features: np.ndarray, ranks: np.ndarray) -> np.ndarray:
        """Flat positions of entries, as int32.

        Args:
            features: numbers of features that have entries.
            ranks: which entry of the feature, counted from 0 in the order of time.
        """
        group = self.feature_group[features]
        steps, rows = np.array(self.shapes, np.int64)[group].T
        places = self.places[features] + ranks
        return (self.bases[group] + flat_positions(places, steps, rows)).astype(np.int32)

    @cached_property
    def _numbers(self) -> dict[Hashable, int]:
        return {name: number for number, name in enumerate(self.names)}

    @cached_property
    def _outline(self) -> tuple:
        """What can be compared at once."""
        sizes = (len(self.names), len(self.times), len(self.observations), self.rows is None)
        return (sizes, self.groups, self.shapes, self.scale, self.epoch)

    @cached_property
    def _digest(self) -> bytes:
        digest = hashlib.blake2b("\n".join(map(repr, self.names)).encode(errors="surrogatepass"))
        for field in fields(self):
            array = getattr(self, field.name)
            if isinstance(array, np.ndarray):
                digest.update(np.ascontiguousarray(array).view(np.uint8).data)
        return digest.digest()
