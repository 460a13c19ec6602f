"""The steps that all constructors share: read the columns, check them, drop, compact, name."""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxkick.dataset.counts import LEVEL, two_counts
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
from jaxkick.dataset.names import Vocabulary, check_names
from jaxkick.dataset.table import Table
from jaxkick.dataset.times import TimeScale
from jaxkick.dataset.validation import Checks

__all__ = ["Assembled", "assemble_arrays", "assemble_sides"]


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
    times, scale, checks = table.read_times()
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
    parts = list(blocks.values())
    if table.copies == 2:
        _check_level(covariates or {})
        block, vocabulary = two_counts(parts[0], parts[1], parts[2:], vocabulary)
    else:
        block = join(parts)
    return _finish(table, times, scale, checks, compact(block), vocabulary)


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
    times, scale, checks = table.read_times()
    features = np.asarray(features)
    coefficients = np.array(coefficients, np.float64)
    _check_shapes(features, coefficients, len(times))
    limit = np.iinfo(np.int32).max if names is None else len(names)
    outside = (features < -1) | (features >= limit)
    checks.refuse(
        outside.any(axis=1),
        f"`features` is not between -1 and {limit - 1}",
        "number the features from 0 along `names`, with -1 in an empty slot",
    )
    # Rows with such a feature are refused or dropped.
    block = Block(np.where(outside, -1, features).astype(np.int32), coefficients)
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


def _check_level(covariates: Mapping[Hashable, Any]) -> None:
    if LEVEL in covariates:
        raise ValueError(
            f"`covariates` has the name {LEVEL!r}, which is that of the feature that all counts "
            "share; choose another name for the covariate."
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
    outcome = table.read_outcome(checks, len(times))
    weight = table.read_weight(checks, len(times))
    rows = None if table.copies == 1 else np.arange(len(outcome)) // table.copies
    times = np.repeat(times, table.copies)
    kept = checks.kept()
    if kept is not None:
        times, outcome = times[kept], outcome[kept]
        weight = None if weight is None else weight[kept]
        block = trim(Block(block.features[kept], block.coefficients[kept]))
        rows = kept // table.copies
    features = block.features
    if isinstance(names, Vocabulary):
        names, places = names.sort(features)
        features = places[features]
    observations = Observations(times, features, names, table.grouping(), scale, rows, table.recipe)
    return Assembled(observations, block.coefficients, outcome, weight)
