"""What a stream knows of features on the host: names, groups, and when they were seen."""

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from jaxkick.dataset.directory import Played
from jaxkick.dataset.names import Groups, group_name
from jaxkick.dataset.recipe import Recipe
from jaxkick.dataset.times import TimeScale

__all__ = ["Roster", "previous_times"]


@dataclass(frozen=True, eq=False)
class Roster:
    """Features in the order in which they were first seen.

    Attributes:
        names: the name of each.
        groups: the names of all groups, in the order in which they were first seen.
        group: the number of each feature's group.
        row: the place of each among the features of its group.
        first: the time of its first match.
        last: the time of its last match.
        matches: how many matches it had.
        scale: how the user's times become numbers.
        grouping: the user's rule for the groups.
        recipe: how the user's table is read, if it is one.
    """

    names: tuple[Hashable, ...]
    groups: tuple[str, ...]
    group: np.ndarray
    row: np.ndarray
    first: np.ndarray
    last: np.ndarray
    matches: np.ndarray
    scale: TimeScale
    grouping: Groups
    recipe: Recipe | None

    @staticmethod
    def empty(scale: TimeScale, grouping: Groups, recipe: Recipe | None) -> "Roster":
        """A roster without features."""
        none, times = np.empty(0, np.int64), np.empty(0)
        return Roster((), (), none, none, times, times, none, scale, grouping, recipe)

    @property
    def library(self) -> str | None:
        """The library of the user's table, where there was one."""
        return None if self.recipe is None else self.recipe.library

    @property
    def latest(self) -> float:
        """The time of the last match."""
        return float(self.last.max())

    def to_time(self, times: Any, argument: str = "times") -> np.ndarray:
        """Times in the user's terms as float64 numbers."""
        return self.scale.to_numbers(times, argument)

    def group_of(self, name: Hashable) -> str:
        """The name of the group of a feature, seen or not."""
        return group_name(self.grouping, name)

    def feature_ids(self, names: Iterable[Hashable]) -> np.ndarray:
        """The numbers of features by name; -1 for names that were never seen."""
        numbers = self._numbers
        return np.array([numbers.get(name, -1) for name in names], np.int64)

    def members(self, group: str) -> list[Hashable]:
        """The names of the features of a group."""
        chosen = np.flatnonzero(self.group == self.groups.index(group))
        return [self.names[member] for member in chosen]

    def played(self, name: Hashable, until: float) -> Played:
        """How many matches a feature has had, and when the last was, which must be before."""
        number = self._numbers.get(name)
        if number is None:
            return Played(0, -np.inf)
        if self.last[number] > until:
            raise ValueError(
                f"`time` is before the last match of {name!r}; a stream knows scores only from "
                "then on."
            )
        return Played(int(self.matches[number]), float(self.last[number]))

    def sizes(self) -> list[int]:
        """The number of features of each group."""
        return np.bincount(self.group, minlength=len(self.groups)).tolist()

    def with_names(self, names: Iterable[Hashable]) -> "Roster":
        """The roster with those of these names that it lacks."""
        fresh = [name for name in names if name not in self._numbers]
        if not fresh:
            return self
        told = [self.group_of(name) for name in fresh]
        groups = tuple(dict.fromkeys([*self.groups, *told]))
        sizes = dict(zip(groups, [*self.sizes(), *[0] * len(groups)], strict=False))
        rows = []
        for group in told:
            rows.append(sizes[group])
            sizes[group] += 1
        blank = np.full(len(fresh), np.nan)
        return replace(
            self,
            names=(*self.names, *fresh),
            groups=groups,
            group=np.append(self.group, [groups.index(group) for group in told]),
            row=np.append(self.row, rows),
            first=np.append(self.first, blank),
            last=np.append(self.last, blank),
            matches=np.append(self.matches, np.zeros(len(fresh), np.int64)),
        )

    def after(self, features: np.ndarray, times: np.ndarray) -> "Roster":
        """The roster after matches, in the order of time.

        Args:
            features: the feature of every entry.
            times: its time.
        """
        first, last, matches = self.first.copy(), self.last.copy(), self.matches.copy()
        np.fmin.at(first, features, times)
        np.fmax.at(last, features, times)
        np.add.at(matches, features, 1)
        return replace(self, first=first, last=last, matches=matches)

    @cached_property
    def _numbers(self) -> dict[Hashable, int]:
        return {name: number for number, name in enumerate(self.names)}


def previous_times(features: np.ndarray, times: np.ndarray, last: np.ndarray) -> np.ndarray:
    """For entries in the order of time, the time of the same feature's entry before.

    Args:
        features: the feature of every entry.
        times: its time.
        last: for each feature the time of its last entry before these; NaN if none.

    Returns:
        Times; NaN where there is none.
    """
    order = np.argsort(features, kind="stable")
    same = np.zeros(len(order), bool)
    same[1:] = features[order][1:] == features[order][:-1]
    previous = last[features]
    previous[order[1:]] = np.where(same[1:], times[order[:-1]], previous[order[1:]])
    return previous
