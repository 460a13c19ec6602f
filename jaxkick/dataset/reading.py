"""Further matches, read as the first ones were."""

from typing import Any

from jaxkick.dataset.assembly import Assembled, assemble_sides
from jaxkick.dataset.dataset import Dataset
from jaxkick.dataset.frames import read_frame
from jaxkick.dataset.names import Groups
from jaxkick.dataset.recipe import Recipe
from jaxkick.dataset.table import OutcomeDomain, Table
from jaxkick.dataset.validation import OnInvalid

__all__ = ["read_alike"]


def read_alike(
    matches: Any,
    recipe: Recipe | None,
    grouping: Groups,
    unit: str | None,
    on_invalid: OnInvalid = "raise",
    likelihood: OutcomeDomain | None = None,
) -> Assembled:
    """Checked observations of a table with known columns, or of a data set.

    Args:
        matches: a table with the columns that the recipe names, or a data set.
        recipe: how the first table was read, if there was one.
        grouping: the rule for the groups.
        unit: the unit of time.
        on_invalid: `"raise"` or `"drop"`.
        likelihood: checks the outcomes of a table, if given.

    Raises:
        ValueError: if there is no recipe for a table, or a row cannot be used.
    """
    if isinstance(matches, Dataset):
        return matches.disassembled()
    if recipe is None:
        raise ValueError(
            "the data was not made of a table by `Dataset.from_frame`, so that it is not known "
            "what the columns mean; pass a `Dataset` of the new matches."
        )
    columns = read_frame(matches, recipe)
    table = Table(
        columns.times, columns.outcome, columns.weight,
        grouping, unit, on_invalid, likelihood, columns.labels, recipe,
    )  # fmt: skip
    sides = {"first": (columns.first, 1.0), "second": (columns.second, -1.0)}
    return assemble_sides(table, sides, columns.covariates)
