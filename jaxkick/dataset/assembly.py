"""The steps that all constructors share: read the columns, check them, drop, compact, name."""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from jaxkick.dataset.columns import as_column, is_boolean, to_floats
from jaxkick.dataset.encoding import Observations
from jaxkick.dataset.features import (
    Block,
    compact,
    join,
    on_both_sides,
    read_covariate,
    read_side,
    trim,
)
from jaxkick.dataset.names import Groups, Vocabulary, as_grouping, check_names
from jaxkick.dataset.times import TimeScale, read_times
from jaxkick.dataset.validation import Checks, OnInvalid

__all__ = ["Assembled", "OutcomeDomain", "Table", "assemble_arrays", "assemble_sides"]

# Constructor, assemble function and `_finish` stand between the user's line and the warning.
_STACKLEVEL = 4


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
        outcome: outcomes; `None` where the first side won.
        weight: weights, or `None`.
        groups: the user's rule for the groups.
        unit: the unit of time.
        on_invalid: `"raise"` or `"drop"`.
        likelihood: checks the outcomes, if given.
        labels: how arguments are called in errors, where it is not by their own name.
    """

    times: Any
    outcome: Any
    weight: Any
    groups: Groups
    unit: str | None
    on_invalid: OnInvalid
    likelihood: OutcomeDomain | None
    labels: Mapping[str, str]

    def label(self, argument: str) -> str:
        """The user's name for an argument."""
        return self.labels.get(argument, argument)


class Assembled(NamedTuple):
    """Checked observations with their float64 values."""

    observations: Observations
    coefficients: np.ndarray
    outcome: np.ndarray
    weight: np.ndarray | None


def assemble_sides(
    table: Table, sides: Mapping[str, tuple[Any, float]], covariates: Mapping[Hashable, Any] | None
) -> Assembled:
    """Observations given by names.

    Args:
        table: what every constructor is given.
        sides: for each argument, names or lists or mappings, and the sign of their
            coefficients.
        covariates: coefficients by the name of the covariate.

    Returns:
        The checked observations.

    Raises:
        ValueError: if something cannot be used.
    """
    times, scale, checks = _read_times(table)
    vocabulary = Vocabulary()
    blocks = {}
    for argument, (values, sign) in sides.items():
        label = table.label(argument)
        blocks[label] = read_side(values, sign, vocabulary, label, len(times))
    for name, values in (covariates or {}).items():
        label = table.label(f"covariates[{name!r}]")
        blocks[label] = read_covariate(name, values, vocabulary, label, len(times))
    missing = vocabulary.missing()
    for label, block in blocks.items():
        _check_names(checks, block, missing, label)
        _check_coefficients(checks, block, label)
    if len(sides) > 1:
        first, second = (blocks[table.label(argument)].features for argument in sides)
        checks.refuse(
            on_both_sides(first, second),
            " and ".join(f"`{table.label(argument)}`" for argument in sides) + " name the same",
            "take out matches of a competitor against itself",
        )
    block = compact(join(list(blocks.values())))
    return _finish(table, times, scale, checks, block, vocabulary)


def assemble_arrays(
    table: Table, features: Any, coefficients: Any, names: Sequence[Hashable] | None
) -> Assembled:
    """Observations given by feature numbers.

    Args:
        table: what every constructor is given.
        features: feature numbers [N, P]; -1 in an empty slot.
        coefficients: their coefficients [N, P].
        names: name of each feature, or `None` to call them by their number.

    Returns:
        The checked observations.

    Raises:
        ValueError: if something cannot be used.
    """
    times, scale, checks = _read_times(table)
    features = np.asarray(features)
    coefficients = np.array(coefficients, np.float64)
    _check_shapes(features, coefficients, len(times))
    limit = np.iinfo(np.int32).max if names is None else len(names)
    checks.refuse(
        ((features < -1) | (features >= limit)).any(axis=1),
        f"`features` is not between -1 and {limit - 1}",
        "number the features from 0 along `names`, with -1 in an empty slot",
    )
    block = Block(features.astype(np.int32), coefficients)
    coefficients[block.features < 0] = 0.0
    _check_coefficients(checks, block, "coefficients")
    num_features = int(block.features.max()) + 1
    if names is None and num_features > max(1_000_000, 4 * block.features.size):
        raise ValueError(
            f"`features` counts up to {num_features - 1:,} with {block.features.size:,} slots; "
            "number the features from 0 without large holes, or use `Dataset.from_mappings`, "
            "which takes any number as a name."
        )
    plain = check_names(range(num_features) if names is None else names, num_features)
    return _finish(table, times, scale, checks, compact(block), plain)


def _read_times(table: Table) -> tuple[np.ndarray, TimeScale, Checks]:
    label = table.label("times")
    times, scale = read_times(table.times, table.unit, label)
    checks = Checks(len(times), table.on_invalid)
    checks.refuse(
        ~np.isfinite(times),
        f"`{label}` is missing or infinite",
        "give every observation a finite time",
    )
    return times, scale, checks


def _check_shapes(features: np.ndarray, coefficients: np.ndarray, num_rows: int) -> None:
    if features.ndim != 2 or len(features) != num_rows or features.dtype.kind not in "iu":
        raise ValueError(
            f"`features` has the shape {features.shape} and type {features.dtype}, but must be an "
            f"array of integers with a row for each of the {num_rows:,} observations."
        )
    if coefficients.shape != features.shape:
        raise ValueError(
            f"`coefficients` has the shape {coefficients.shape}, but `features` has the shape "
            f"{features.shape}; give one coefficient for each feature."
        )


def _check_names(checks: Checks, block: Block, missing: np.ndarray, label: str) -> None:
    if missing.any():
        bad = (missing[block.features] & (block.features >= 0)).any(axis=1)
        checks.refuse(bad, f"`{label}` has a missing name", "give every competitor a name")


def _check_coefficients(checks: Checks, block: Block, label: str) -> None:
    checks.refuse(
        ~np.isfinite(block.coefficients).all(axis=1),
        f"`{label}` has a coefficient that is missing or infinite",
        "give finite numbers",
    )


def _finish(
    table: Table,
    times: np.ndarray,
    scale: TimeScale,
    checks: Checks,
    block: Block,
    names: Vocabulary | tuple[Hashable, ...],
) -> Assembled:
    """Check what is left, leave out what is refused, and settle the feature numbers."""
    checks.refuse(
        ~(block.features >= 0).any(axis=1),
        "no feature with a coefficient other than zero takes part",
        "name at least one",
    )
    outcome = _read_outcome(table, checks, len(times))
    weight = _read_weight(table, checks, len(times))
    kept = checks.kept(_STACKLEVEL)
    if kept is not None:
        times, outcome = times[kept], outcome[kept]
        weight = None if weight is None else weight[kept]
        block = trim(Block(block.features[kept], block.coefficients[kept]))
    features = block.features
    if isinstance(names, Vocabulary):
        names, places = names.sort(features)
        features = places[features]
    observations = Observations(times, features, names, as_grouping(table.groups), scale, kept)
    return Assembled(observations, block.coefficients, outcome, weight)


def _read_outcome(table: Table, checks: Checks, num_rows: int) -> np.ndarray:
    label = table.label("outcome")
    values = 1.0 if table.outcome is None else table.outcome
    values = values if np.isscalar(values) else as_column(values, label)
    outcome = to_floats(values, label, num_rows)
    if is_boolean(values):
        outcome = 2.0 * outcome - 1.0
    checks.refuse(
        ~np.isfinite(outcome),
        f"`{label}` is missing or infinite",
        "give every observation an outcome",
    )
    if table.likelihood is not None:
        name = type(table.likelihood).__name__
        checks.refuse(
            np.asarray(table.likelihood.check(outcome)),
            f"`{label}` is outside the domain of {name}",
            f"it must be {table.likelihood.domain}",
            outcome,
        )
    return outcome


def _read_weight(table: Table, checks: Checks, num_rows: int) -> np.ndarray | None:
    if table.weight is None:
        return None
    label = table.label("weight")
    weight = to_floats(table.weight, label, num_rows)
    checks.refuse(~np.isfinite(weight), f"`{label}` is missing or infinite", "give finite weights")
    checks.refuse(weight < 0, f"`{label}` is negative", "weights must not be below zero", weight)
    return weight
