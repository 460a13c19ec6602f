"""Names, groups, times and matches played: what a data set's index and a stream share."""

import abc
from collections.abc import Hashable, Iterable
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from jaxkick.data.aspect_columns import AspectNames
from jaxkick.data.columns import TimeScale
from jaxkick.data.schema import NO_TABLE, Groups, Schema, group_of


class Played(NamedTuple):
    """The number of a feature's matches and the time of the last; minus infinity if none."""

    matches: int
    last: float


class AbstractDirectory(abc.ABC):
    """The features that predictions may name."""

    names: tuple[Hashable, ...]
    groups: tuple[str, ...]
    grouping: Groups
    scale: TimeScale
    schema: Schema | None
    library: str | None
    known_aspects: AspectNames
    kind_names: tuple[str, ...] = ()

    @property
    def meaning(self) -> Schema:
        """The schema, or that of data without a table."""
        return self.schema or NO_TABLE

    @property
    @abc.abstractmethod
    def latest(self) -> float:
        """The time of the last match."""

    @abc.abstractmethod
    def members(self, group: str) -> list[Hashable]:
        """The names of a group's features that have matches."""

    @abc.abstractmethod
    def played(self, name: Hashable, until: float) -> Played:
        """The number of a feature's matches until a time, and the time of the last."""

    def to_time(self, times: Any, argument: str = "times") -> np.ndarray:
        """Convert the user's times to float64 numbers; see `TimeScale.to_numbers`."""
        return self.scale.to_numbers(times, argument)

    def feature_ids(self, names: Iterable[Hashable]) -> np.ndarray:
        """The int32 numbers of features by name; -1 for unknown names."""
        return np.array([self._numbers.get(name, -1) for name in names], np.int32)

    def group_of(self, name: Hashable) -> str:
        """The name of a feature's group, also of an unknown feature."""
        return group_of(self.grouping, name)

    @cached_property
    def _numbers(self) -> dict[Hashable, int]:
        return {name: number for number, name in enumerate(self.names)}
