"""The options that commands share."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from jaxkick.cli.output import Format

__all__ = [
    "As",
    "Date",
    "DateFormat",
    "Delimiter",
    "Encoding",
    "Every",
    "First",
    "FirstWon",
    "Float64",
    "HomeColumn",
    "HomeFlag",
    "Invalid",
    "MaxSteps",
    "ModelFile",
    "Neutral",
    "OnInvalid",
    "Outcome",
    "Output",
    "ReadAs",
    "Results",
    "Scale",
    "ScoreFirst",
    "ScoreSecond",
    "Second",
    "Shape",
    "Time",
    "Top",
    "Unit",
    "Weight",
]


class ReadAs(StrEnum):
    """What two columns of points say."""

    result = "result"
    difference = "difference"
    counts = "counts"


class Invalid(StrEnum):
    """What to do with rows that can be read but not used."""

    stop = "raise"
    drop = "drop"


class TimeUnit(StrEnum):
    """The unit that dates are counted in."""

    year = "year"
    month = "month"
    week = "week"
    day = "day"
    hour = "hour"
    minute = "minute"
    second = "second"


class Every(StrEnum):
    """How long a block of matches is that is predicted at once."""

    day = "day"
    week = "week"


Results = Annotated[Path, typer.Argument(help="Results as CSV (also gzipped) or Parquet.")]
ModelFile = Annotated[
    Path, typer.Argument(help="What `jaxkick fit` wrote: its folder, or the model in it.")
]
Time = Annotated[str, typer.Option(help="Column of dates, or of numbers, that say when.")]
First = Annotated[str, typer.Option(help="Column of the first side, such as the home team.")]
Second = Annotated[str, typer.Option(help="Column of the second side.")]
Outcome = Annotated[
    str | None,
    typer.Option(
        help="Column of outcomes: 1, 0 and -1; win, draw and loss; H, D and A; or the name of "
        "the winner. Other numbers are differences of points.",
    ),
]
ScoreFirst = Annotated[str | None, typer.Option(help="Column of the first side's points.")]
ScoreSecond = Annotated[str | None, typer.Option(help="Column of the second side's points.")]
As = Annotated[
    ReadAs,
    typer.Option(
        "--as",
        help="What the points say: who won; by how much; or both counts, which gives every "
        "side an attack and a defence.",
    ),
]
FirstWon = Annotated[
    bool, typer.Option("--first-won", help="The first side won every match: winners and losers.")
]
HomeFlag = Annotated[bool, typer.Option("--home", help="The first side is at home.")]
HomeColumn = Annotated[
    str | None,
    typer.Option(help="Column that says who is at home: 1, -1 or 0 (nobody), or its name."),
]
Neutral = Annotated[
    str | None,
    typer.Option(help="Column that is true on neutral ground; elsewhere the first is at home."),
]
Weight = Annotated[str | None, typer.Option(help="Column of weights, which are not negative.")]
Unit = Annotated[
    TimeUnit | None, typer.Option(help="Unit that dates are counted in; years if not given.")
]
Encoding = Annotated[
    str | None, typer.Option(help="Encoding of the file, such as cp1252; UTF-8 if not given.")
]
Delimiter = Annotated[
    str | None, typer.Option(help="What stands between cells; found if not given.")
]
DateFormat = Annotated[
    str | None,
    typer.Option(
        help="Format of dates that are texts, such as %d/%m/%Y; found if there is no doubt.",
    ),
]
OnInvalid = Annotated[
    Invalid,
    typer.Option(
        help="Stop at rows that lack something or contradict themselves, or leave them out. A "
        "cell that cannot be read always stops.",
    ),
]
Output = Annotated[Path, typer.Option("--output", "-o", help="Folder to write into.")]
Shape = Annotated[
    Format, typer.Option("--format", help="How results are written to the standard output.")
]
Float64 = Annotated[
    bool, typer.Option("--float64/--float32", help="Precision; single is quicker on a GPU.")
]
Scale = Annotated[
    str | None,
    typer.Option(
        help="Scale of ratings: elo, trueskill, or CENTRE/SPREAD as in 1500/400, the points for "
        "odds of 10 to 1; `score` for scores as they are.",
    ),
]
Top = Annotated[int | None, typer.Option(min=1, help="How many competitors to list.")]
Date = Annotated[
    str | None,
    typer.Option("--time", help="When, as a date or number; the last match if not given."),
]
MaxSteps = Annotated[int, typer.Option(min=1, help="How many steps learning may take.")]
