"""What every constructor is given beside the features: times, outcomes, weights."""

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np

from jaxkick.dataset.columns import as_column, is_boolean, to_floats
from jaxkick.dataset.counts import CountGroups, interleave
from jaxkick.dataset.home import HOME
from jaxkick.dataset.names import Groups, as_grouping
from jaxkick.dataset.recipe import Recipe
from jaxkick.dataset.times import TimeScale, read_times
from jaxkick.dataset.validation import Checks, OnInvalid

__all__ = ["OutcomeDomain", "Table"]


class OutcomeDomain(Protocol):
    """What a likelihood knows of outcomes that are possible."""

    @property
    def domain(self) -> str:
        """The possible outcomes in words."""
        ...

    def check(self, outcome: np.ndarray) -> np.ndarray:
        """For each outcome, whether it is outside the domain."""
        ...


class Table(NamedTuple):
    """What every constructor is given, beside the features.

    Attributes:
        times: the user's times.
        outcome: outcomes; `None` where the first side won; a tuple of two columns for two
            counts of every match.
        weight: weights, or `None`.
        groups: the user's rule for the groups.
        unit: the unit of time.
        on_invalid: `"raise"` or `"drop"`.
        likelihood: checks the outcomes, if given.
        labels: how arguments are called in errors, where it is not by their own name.
        recipe: how a table was read, if it was one.
    """

    times: Any
    outcome: Any
    weight: Any
    groups: Groups
    unit: str | None
    on_invalid: OnInvalid
    likelihood: OutcomeDomain | None
    labels: Mapping[str, str]
    recipe: Recipe | None = None

    @property
    def copies(self) -> int:
        """How many observations a row makes."""
        return 2 if isinstance(self.outcome, tuple) else 1

    def label(self, argument: str) -> str:
        """The user's name for an argument."""
        return self.labels.get(argument, argument)

    def grouping(self) -> Groups:
        """The user's rule for the groups, with those of features that the recipe adds."""
        groups = as_grouping(self.groups)
        if self.recipe is None or callable(groups):
            return groups
        named = dict(groups or {})
        if self.recipe.counts is not None:
            return CountGroups(named)
        return {HOME: HOME, **named} if self.recipe.has_home else groups

    def read_times(self) -> tuple[np.ndarray, TimeScale, Checks]:
        """The time of each row, its scale, and the checks that all rows go through."""
        label = self.label("times")
        times, scale = read_times(self.times, self.unit, label)
        checks = Checks(len(times), self.on_invalid, self.copies)
        checks.refuse(
            ~np.isfinite(times),
            f"`{label}` is missing or infinite",
            "give every observation a finite time",
        )
        return times, scale, checks

    def read_outcome(self, checks: Checks, num_rows: int) -> np.ndarray:
        """The outcome of each observation."""
        label = self.label("outcome")
        if isinstance(self.outcome, tuple):
            outcome = interleave(*(to_floats(part, label, num_rows) for part in self.outcome))
        else:
            outcome = _read_column(1.0 if self.outcome is None else self.outcome, label, num_rows)
        checks.refuse(
            ~np.isfinite(outcome),
            f"`{label}` is missing or infinite",
            "give every observation an outcome",
        )
        if self.likelihood is not None:
            name = type(self.likelihood).__name__
            checks.refuse(
                np.asarray(self.likelihood.check(outcome)),
                f"`{label}` is outside the domain of {name}",
                f"it must be {self.likelihood.domain}",
                outcome,
            )
        return outcome

    def read_weight(self, checks: Checks, num_rows: int) -> np.ndarray | None:
        """The weight of each observation."""
        if self.weight is None:
            return None
        label = self.label("weight")
        weight = to_floats(self.weight, label, num_rows)
        checks.refuse(
            ~np.isfinite(weight), f"`{label}` is missing or infinite", "give finite weights"
        )
        checks.refuse(
            weight < 0, f"`{label}` is negative", "weights must not be below zero", weight
        )
        return np.repeat(weight, self.copies)


def _read_column(values: Any, label: str, num_rows: int) -> np.ndarray:
    """Numbers as they are; booleans as +1 and -1."""
    values = values if np.isscalar(values) else as_column(values, label)
    outcome = to_floats(values, label, num_rows)
    return 2.0 * outcome - 1.0 if is_boolean(values) else outcome
