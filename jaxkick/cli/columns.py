"""What the options say of the columns, as a recipe."""

from typing import Any

from jaxkick.cli.errors import UsageError
from jaxkick.cli.options import ReadAs

__all__ = ["make_recipe"]


def make_recipe(
    *,
    time: str,
    first: str,
    second: str,
    outcome: str | None,
    score_first: str | None,
    score_second: str | None,
    read_as: ReadAs,
    first_won: bool,
    home: bool,
    home_column: str | None,
    neutral: str | None,
    weight: str | None,
) -> Any:
    """The recipe of a table.

    Args:
        time: the column of times.
        first: the column of the first side.
        second: the column of the second side.
        outcome: the column of outcomes.
        score_first: the column of the first side's points.
        score_second: the column of the second side's points.
        read_as: what the points say.
        first_won: whether the first side always won.
        home: whether the first side is at home.
        home_column: the column that says who is at home.
        neutral: the column that says which matches are on neutral ground.
        weight: the column of weights.

    Raises:
        UsageError: if options do not go together.
    """
    from jaxkick.dataset.recipe import Recipe

    if (score_first is None) != (score_second is None):
        raise UsageError("--score-first and --score-second go together; give both or neither.")
    scores = score_first is not None
    ways = (outcome is not None) + scores + first_won
    if ways != 1:
        raise UsageError(
            "say in one way who won: --outcome COLUMN, or --score-first COLUMN with "
            "--score-second COLUMN, or --first-won."
        )
    if read_as is not ReadAs.result and not scores:
        raise UsageError("--as says how points are read; give --score-first and --score-second.")
    if first_won and (home or neutral is not None):
        raise UsageError(
            "--first-won and --home (or --neutral) together say that winners are at home; name "
            "who is at home with --home-column."
        )
    if home and home_column is not None:
        raise UsageError("--home and --home-column both say who is at home; give one of them.")
    points = {read_as.value: (score_first, score_second)} if scores else {}
    at_home = home_column or home or None
    return Recipe(
        time=time,
        first=first,
        second=second,
        outcome=outcome,
        home=at_home,
        neutral=neutral,
        weight=weight,
        **points,  # type: ignore[arg-type]
    )
