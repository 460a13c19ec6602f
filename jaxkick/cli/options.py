"""The options of the commands; data classes group options that several commands share."""

import dataclasses
import functools
import inspect
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, TypeAlias, get_type_hints

import typer

from jaxkick.cli.console import UsageError, option_of
from jaxkick.cli.output import Format

ReadAs = StrEnum("ReadAs", ["result", "difference", "counts"])
TimeUnit = StrEnum("TimeUnit", ["year", "month", "week", "day", "hour", "minute", "second"])
Every = StrEnum("Every", ["day", "week", "month", "year"])
Invalid = StrEnum("Invalid", {"stop": "raise", "drop": "drop"})
Unplaced = StrEnum("Unplaced", ["last", "drop"])

Text: TypeAlias = str | None
Texts: TypeAlias = list[str] | None


def _option(text: str, *names: str, **settings: Any) -> Any:
    return typer.Option(*names, help=text, **settings)


Results = Annotated[Path, typer.Argument(help="Results as CSV (may be gzipped) or Parquet.")]
ModelFile = Annotated[
    Path, typer.Argument(help="Folder that `jaxkick fit` wrote, or the model file in it.")
]
HomeFlag = Annotated[bool, _option("The first side is at home.", "--home")]
Unit = Annotated[TimeUnit | None, _option("Unit of time for dates; default: year.")]
DateFormat = Annotated[
    Text, _option("Format of dates, such as %d/%m/%Y; detected if it is unambiguous.")
]
OnInvalid = Annotated[
    Invalid,
    _option(
        "Stop at rows with missing or contradictory values, or drop them. A cell that cannot "
        "be read always stops the command."
    ),
]
Output = Annotated[Path, _option("Folder to write to.", "--output", "-o")]
NewOutput = Annotated[
    Path | None, _option("Folder to write to; default: that of the model.", "--output", "-o")
]
Fixtures = Annotated[
    Path | None,
    _option(
        "Matches or entries of events to forecast, as CSV or Parquet with the columns of the "
        "fitted file; outcomes are not needed."
    ),
]
Shape = Annotated[Format, _option("Format of the standard output.", "--format")]
Title = Annotated[Text, _option("Title of the report; default: the name of the folder.")]
Float64 = Annotated[
    bool, _option("Floating-point type; float32 is faster on a GPU.", "--float64/--float32")
]
Scale = Annotated[
    Text,
    _option(
        "Rating scale: elo, trueskill, or CENTRE/SPREAD such as 1500/400, where SPREAD is the "
        "difference for odds of 10 to 1; `score` for the scores themselves."
    ),
]
Top = Annotated[int | None, _option("Number of competitors to list.", min=1)]
Date = Annotated[Text, _option("Date or number; default: the time of the last match.", "--time")]
MaxSteps = Annotated[int, _option("Maximum number of learning steps.", min=1)]
Discover = Annotated[
    bool, _option("Search for the kernels and the likelihood that fit best.", "--discover")
]
Budget = Annotated[float, _option("Time limit of --discover, in seconds.", min=0.001)]
KernelList = Annotated[
    Texts,
    _option(
        "How skill changes around a lasting level: matern12, matern32, matern52, wiener or "
        "linear. May be repeated; default: matern12, matern32 and wiener.",
        "--kernel",
    ),
]
BacktestStart = Annotated[
    Text, _option("First time to predict, for a backtest of each model; default: none.", "--start")
]
Interval = Annotated[float, _option("Probability of the intervals.")]
MinMatches = Annotated[int, _option("Exclude competitors with fewer matches by that time.", min=1)]
ActiveWithin = Annotated[
    float | None,
    _option("Exclude competitors whose last match was longer ago, in the model's unit of time."),
]
Name = Annotated[Text, _option("Name of this side.")]
Away = Annotated[bool, _option("The second side is at home.", "--away")]
Newcomers = Annotated[
    bool, _option("Allow unknown competitors, with the scores of newcomers.", "--allow-unknown")
]
Start = Annotated[
    Text, _option("First time to predict; default: the start of the last fifth of the matches.")
]
Period = Annotated[Every, _option("Length of the blocks of matches that are predicted together.")]
Repeats = Annotated[
    bool, _option("Allow matches that the model already contains.", "--allow-repeats")
]

Rest = Annotated[
    Path,
    _option(
        "Matches to simulate, as CSV or Parquet with the columns of the fitted file; outcomes are "
        "not needed.",
        "--fixtures",
    ),
]
Since = Annotated[
    Text,
    _option(
        "Start of the season, a date or number: matches of the model from then on count as played. "
        "Without it, only the fixtures give points."
    ),
]
Draws = Annotated[int, _option("Number of simulated seasons.", min=1)]
WinPoints = Annotated[str, _option("Points for a win, a tie and a loss: WIN/TIE/LOSS.", "--points")]
TieBreakers = Annotated[
    Texts,
    _option(
        "Rule for equal points: goal_difference, goals, wins, head_to_head, "
        "head_to_head_goal_difference or random. May be repeated, in the order of the rules; "
        "default: goal_difference, goals, head_to_head, random, where the model allows them.",
        "--tie-breaker",
    ),
]
ZoneList = Annotated[
    Texts,
    _option(
        "Further places of interest, such as relegation=16-18. May be repeated.",
        "--zone",
        metavar="NAME=PLACES",
    ),
]
Seed = Annotated[int, _option("Seed of the random numbers.")]
SeasonOutput = Annotated[
    Path | None,
    _option("Folder for season.csv, matches.csv and places.png; default: none.", "--output", "-o"),
]


@dataclasses.dataclass(frozen=True)
class Reading:
    """Options for reading a file; `None` means that the value is detected."""

    date_format: DateFormat = None
    encoding: Annotated[Text, _option("Encoding of the file, such as cp1252; default: UTF-8.")] = (
        None
    )
    delimiter: Annotated[Text, _option("Character between cells; detected if not given.")] = None


@dataclasses.dataclass(frozen=True)
class Columns:
    """The columns of a file of results: matches of two sides, or rankings of any number."""

    time: Annotated[str, _option("Column of dates or numbers: the time of each row.")]
    first: Annotated[Text, _option("Column of the first side, such as the home team.")] = None
    second: Annotated[Text, _option("Column of the second side.")] = None
    outcome: Annotated[
        Text,
        _option(
            "Column of outcomes: 1, 0 and -1; win, draw and loss; H, D and A; 1-0, 1/2-1/2 "
            "and 0-1; or the name of the winner. Other numbers are differences of points."
        ),
    ] = None
    win: Annotated[Text, _option("Value of --outcome for a win of the first side.")] = None
    tie: Annotated[Text, _option("Value of --outcome for a tie.")] = None
    loss: Annotated[Text, _option("Value of --outcome for a win of the second side.")] = None
    score_first: Annotated[Text, _option("Column of the first side's points.")] = None
    score_second: Annotated[Text, _option("Column of the second side's points.")] = None
    read_as: Annotated[
        ReadAs,
        _option(
            "What to model: who won (result), by how many points (difference), or the points "
            "of each side (counts), which gives every side an attack and a defence.",
            "--as",
        ),
    ] = ReadAs.result
    first_won: Annotated[
        bool,
        _option("The first side won every match: columns of winners and losers.", "--first-won"),
    ] = False
    home: HomeFlag = False
    home_column: Annotated[
        Text,
        _option("Column of the side at home: 1 (first), -1 (second) or 0 (neither), or its name."),
    ] = None
    neutral: Annotated[
        Text, _option("Column that is true on neutral ground; otherwise the first side is at home.")
    ] = None
    weight: Annotated[Text, _option("Column of weights, zero or more.")] = None
    aspect: Annotated[
        Texts,
        _option(
            "Further skill of every competitor, such as surface=court: one for each label in a "
            "column of texts, or with the coefficients in a column of numbers; `home` alone for a "
            "separate home advantage of every competitor. May be repeated.",
            metavar="NAME=COLUMN",
        ),
    ] = None
    event: Annotated[Text, _option("Rankings: column of events, such as the name of the race.")] = (
        None
    )
    competitor: Annotated[
        Texts,
        _option(
            "Rankings: column of competitors, in a file with one row for each side of an "
            "event. Or repeat the option for the columns of first place, second place, and so on, "
            "in a file with one row for each event."
        ),
    ] = None
    rank: Annotated[
        Text,
        _option(
            "Rankings: column of ranks; 1 is the best, and equal ranks are ties. A side with an "
            "empty cell, or a word such as DNF, has no place."
        ),
    ] = None
    points: Annotated[
        Text, _option("Rankings: column of points, instead of --rank; more points are better.")
    ] = None
    team: Annotated[
        Text, _option("Rankings: column of teams; the rows of a team are one side.")
    ] = None
    feature: Annotated[
        Texts,
        _option(
            "Rankings: further feature of a side, such as car=constructor. Each label in a "
            "column of texts has its own skill. May be repeated.",
            metavar="NAME=COLUMN",
        ),
    ] = None
    dnf: Annotated[
        Unplaced | None,
        _option(
            "Rankings: treat sides without a place as last, in unknown order (the default), or "
            "drop them."
        ),
    ] = None

    def schema(self) -> Any:
        """The `Schema` of the data.

        Raises:
            UsageError: if options contradict each other.
        """
        given = [each.name for each in dataclasses.fields(self) if self._is_given(each)]
        rankings = [name for name in given if name in _RANKINGS]
        others = [name for name in given if name not in (*_RANKINGS, "time", "aspect")]
        if rankings and others:
            raise UsageError(
                f"{_flag(others[0])} is for matches of two sides, but {_flag(rankings[0])} is for "
                "rankings. Leave out one of them."
            )
        return self._schema_of_rankings() if rankings else self._schema_of_matches()

    def _is_given(self, field: dataclasses.Field) -> bool:
        # Typer passes an empty list for an option of many values that is absent.
        return getattr(self, field.name) not in (field.default, [])

    def _aspects(self) -> dict[str, Any] | None:
        """The aspects by name: a column, or `True` for the side at home."""
        parts = [text.partition("=") for text in self.aspect or ()]
        for name, equals, column in parts:
            if not name or bool(equals) != bool(column) or not (equals or name == "home"):
                raise UsageError(
                    f"--aspect is {name + equals!r}. Write NAME=COLUMN, such as surface=court, or "
                    "`home` for the side at home."
                )
        return {name: column or True for name, _, column in parts} or None

    def _schema_of_rankings(self) -> Any:
        from jaxkick.data.schema import Schema
        from jaxkick.errors import DataError

        if not self.competitor:
            raise UsageError("rankings need --competitor, the column of the competitors.")
        features = [text.partition("=") for text in self.feature or ()]
        for name, _, column in features:
            if not (name and column):
                raise UsageError(f"--feature is {name!r}. Write NAME=COLUMN: car=constructor.")
        single = len(self.competitor) == 1
        try:
            return Schema.of_rankings(
                time=self.time,
                competitor=self.competitor[0] if single else self.competitor,
                event=self.event,
                rank=self.rank,
                points=self.points,
                team=self.team,
                features={name: column for name, _, column in features} or None,
                aspects=self._aspects(),
                dnf=str(self.dnf or Unplaced.last),
            )
        except DataError as error:
            raise UsageError(error.message(name=option_of)) from error

    def _schema_of_matches(self) -> Any:
        from jaxkick.data.schema import Schema

        if self.first is None or self.second is None:
            raise UsageError(
                "give --first and --second for matches, or --event, --competitor and --rank (or "
                "--points) for rankings."
            )
        if (self.score_first is None) != (self.score_second is None):
            raise UsageError("--score-first and --score-second go together. Give both or neither.")
        points = self.score_first is not None
        if (self.outcome is not None) + points + self.first_won != 1:
            raise UsageError(
                "give outcomes in one way: --outcome COLUMN, or --score-first COLUMN with "
                "--score-second COLUMN, or --first-won."
            )
        if self.read_as is not ReadAs.result and not points:
            raise UsageError("--as needs points. Give --score-first and --score-second.")
        if self.first_won and (self.home or self.neutral is not None):
            raise UsageError(
                "--first-won with --home or --neutral would mean that every winner is at home. "
                "Give the side at home with --home-column."
            )
        if self.home and self.home_column is not None:
            raise UsageError("--home and --home-column contradict each other. Give one of them.")
        coded = {self.win: 1.0, self.tie: 0.0, self.loss: -1.0}
        coded = {value: number for value, number in coded.items() if value is not None}
        if coded and (self.outcome is None or self.win is None or self.loss is None):
            raise UsageError("--win and --loss (and --tie) go with --outcome. Give all of them.")
        named = ("time", "first", "second", "outcome", "neutral", "weight")
        columns: dict[str, Any] = {name: getattr(self, name) for name in named}
        if points:
            columns[str(self.read_as)] = (self.score_first, self.score_second)
        home, aspects = self.home_column or self.home or None, self._aspects()
        if aspects and True in aspects.values() and not (home or self.neutral):
            raise UsageError("--aspect home needs --home, --home-column or --neutral.")
        return Schema.of(home=home, outcomes=coded or None, aspects=aspects, **columns)


_RANKINGS = ("event", "competitor", "rank", "points", "team", "feature", "dnf")


def _flag(field: str) -> str:
    return "--as" if field == "read_as" else f"--{field.replace('_', '-')}"


def expand(command: Callable) -> Callable:
    """Replace groups of options by their fields in a command's signature, which Typer reads."""
    hints: dict[str, Any] = get_type_hints(command, include_extras=True)
    groups = {name: hints[name] for name in hints if dataclasses.is_dataclass(hints[name])}

    def run(**options: Any) -> Any:
        for name, kind in groups.items():
            fields = {each.name: options.pop(each.name) for each in dataclasses.fields(kind)}
            options[name] = kind(**fields)
        return command(**options)

    parameters: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(command).parameters.items():
        group = name in groups
        parameters += inspect.signature(groups[name]).parameters.values() if group else [parameter]
    free = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in parameters]
    expanded: Any = functools.wraps(command)(run)
    expanded.__signature__ = inspect.Signature(free)
    expanded.__annotations__ = {each.name: each.annotation for each in free}
    return expanded
