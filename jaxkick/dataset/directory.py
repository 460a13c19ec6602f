"""What can be looked up about features by name, in a data set or in a stream."""

from collections.abc import Hashable, Iterable
from typing import Any, NamedTuple, Protocol

import numpy as np

from jaxkick.dataset.recipe import Recipe
from jaxkick.dataset.times import TimeScale

__all__ = ["Directory", "Played"]


class Played(NamedTuple):
    """The matches of a feature until some time.

    Attributes:
        matches: how many there were.
        last: the time of the last; minus infinity if there was none.
    """

    matches: int
    last: float


class Directory(Protocol):
    """Names, groups, times, and who has played when."""

    @property
    def names(self) -> tuple[Hashable, ...]:
        """The name of each feature."""
        ...

    @property
    def groups(self) -> tuple[str, ...]:
        """The names of the groups that have observations."""
        ...

    @property
    def scale(self) -> TimeScale:
        """How the user's times become numbers."""
        ...

    @property
    def recipe(self) -> Recipe | None:
        """How the user's table is read, if it is one."""
        ...

    @property
    def library(self) -> str | None:
        """The library of the user's table, where there was one."""
        ...

    @property
    def latest(self) -> float:
        """The time of the last observation."""
        ...

    def to_time(self, times: Any, argument: str = "times") -> np.ndarray:
        """Times in the user's terms as float64 numbers."""
        ...

    def feature_ids(self, names: Iterable[Hashable]) -> np.ndarray:
        """The numbers of features by name; -1 for unknown names."""
        ...

    def group_of(self, name: Hashable) -> str:
        """The group of a feature, known or not."""
        ...

    def members(self, group: str) -> list[Hashable]:
        """The names of the features of a group that have observations."""
        ...

    def played(self, name: Hashable, until: float) -> Played:
        """The matches of a feature until a time."""
        ...
