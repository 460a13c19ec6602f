"""Forecasts of matches that a file lists."""

from typing import Any

import numpy as np

from jaxkick import Posterior
from jaxkick.cli.files import FileTable
from jaxkick.cli.reading import Source, explained, read_matches
from jaxkick.cli.saved import competitors, known_name
from jaxkick.dataset.recipe import Recipe
from jaxkick.dataset.times import TimeScale

__all__ = ["forecast_file", "read_fixtures"]


def forecast_file(posterior: Posterior, source: Source, newcomers: bool) -> dict[str, Any]:
    """The matches of a file with what is to be expected of them.

    Args:
        posterior: the fitted posterior.
        source: a file with the columns of the one that was fitted; outcomes are not read.
        newcomers: whether competitors may be unknown.

    Returns:
        Columns by name.

    Raises:
        UsageError: if a column is missing, or a competitor unknown who must not be.
        ValueError: if a row cannot be used.
    """
    recipe = posterior.data.index.recipe
    if recipe is None:
        raise ValueError(
            "the model was not made of a table, so that it is not known what columns mean; use "
            "--first, --second and --time."
        )
    frame, table = read_fixtures(source, recipe, posterior.data.index.scale)
    known = competitors(posterior)
    for option, side in {"--first": recipe.first, "--second": recipe.second}.items():
        for column in [side] if isinstance(side, str) else [name for name, _ in side]:
            frame[column] = [
                name if name is None
                else known_name(name, known, _where(option, column, table, row), newcomers)
                for row, name in enumerate(frame[column])
            ]  # fmt: skip
    with explained(table):
        return posterior.forecast(frame)


def read_fixtures(
    source: Source, recipe: Recipe, scale: TimeScale
) -> tuple[dict[str, Any], FileTable]:
    """Matches to come, each with a time of the kind that the data has.

    Args:
        source: a file with the columns of the one that the data was made of.
        recipe: what its columns mean.
        scale: how times of the data became numbers.

    Returns:
        The columns by name, and the table of cells that they are of.

    Raises:
        UsageError: if a column is missing.
        ValueError: if a cell cannot be read, or a match lacks its time.
    """
    frame, table = read_matches(source, recipe, with_outcome=False)
    if isinstance(recipe.time, str):
        _refuse_no_time(frame[recipe.time], recipe.time, table)
        with explained(table):
            scale.to_numbers(frame[recipe.time], "time")
    return frame, table


def _where(option: str, column: str, table: FileTable, row: int) -> str:
    return f"{option} {column!r} on {table.place(row)} of {table.source!r}"


def _refuse_no_time(times: np.ndarray, column: str, table: FileTable) -> None:
    missing = np.flatnonzero(np.isnat(times) if times.dtype.kind == "M" else ~np.isfinite(times))
    if missing.size:
        raise ValueError(
            f"--time {column!r} is missing on {table.place(int(missing[0]))} of "
            f"{table.source!r}; give every match a time."
        )
