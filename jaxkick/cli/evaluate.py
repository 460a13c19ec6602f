"""`jaxkick evaluate`: how well results are predicted, beside Elo."""

from typing import Annotated

import typer

from jaxkick.cli.columns import make_recipe
from jaxkick.cli.errors import ExitCode, UsageError
from jaxkick.cli.options import (
    As,
    DateFormat,
    Delimiter,
    Encoding,
    Every,
    First,
    FirstWon,
    Float64,
    HomeColumn,
    HomeFlag,
    Invalid,
    MaxSteps,
    Neutral,
    OnInvalid,
    Outcome,
    ReadAs,
    Results,
    ScoreFirst,
    ScoreSecond,
    Second,
    Shape,
    Time,
    Unit,
    Weight,
)
from jaxkick.cli.output import Format

__all__ = ["evaluate"]

Start = Annotated[
    str | None,
    typer.Option(help="First time to predict; that of the last fifth of matches if not given."),
]
Period = Annotated[Every, typer.Option(help="How long the blocks are that are predicted at once.")]


def evaluate(
    results: Results,
    time: Time,
    first: First,
    second: Second,
    outcome: Outcome = None,
    score_first: ScoreFirst = None,
    score_second: ScoreSecond = None,
    read_as: As = ReadAs.result,
    first_won: FirstWon = False,
    home: HomeFlag = False,
    home_column: HomeColumn = None,
    neutral: Neutral = None,
    weight: Weight = None,
    start: Start = None,
    every: Period = Every.week,
    unit: Unit = None,
    max_steps: MaxSteps = 100,
    on_invalid: OnInvalid = Invalid.stop,
    date_format: DateFormat = None,
    encoding: Encoding = None,
    delimiter: Delimiter = None,
    form: Shape = Format.table,
    float64: Float64 = True,
) -> None:
    """Predict the later matches of a file as if they were still to come, and so does Elo.

    Both are tuned on the matches before --start alone; only the kind of outcomes, such as whether
    there are ties, is that of the whole file. Each block of matches is then predicted from all
    earlier ones. The log loss is the mean of -log of the probability of what happened;
    intervals are of 95 %. `difference` is that of jaxkick less that of Elo, match by match:
    below zero jaxkick predicts better.

    \b
    Examples:
      jaxkick evaluate results.csv --time date --first home --second away \\
          --score-first home_goals --score-second away_goals --home --start 2005-08-01
      jaxkick evaluate results.csv --time date --first white --second black --outcome result \\
          --format json
    """
    from jaxkick.cli.comparison import compare_with_elo
    from jaxkick.cli.fitting import precision
    from jaxkick.cli.output import emit
    from jaxkick.cli.reading import Source, make_dataset, read_matches

    if read_as is ReadAs.counts:
        raise UsageError(
            "Elo predicts results, not counts; use --as result or --as difference to compare."
        )
    recipe = make_recipe(
        time=time, first=first, second=second, outcome=outcome, score_first=score_first,
        score_second=score_second, read_as=read_as, first_won=first_won, home=home,
        home_column=home_column, neutral=neutral, weight=weight,
    )  # fmt: skip
    source = Source(results, encoding, delimiter, date_format)
    with precision(float64):
        frame, table = read_matches(source, recipe)
        data = make_dataset(frame, table, recipe, unit, on_invalid)
        comparison = compare_with_elo(data, start, every.value, max_steps)
    emit(comparison.columns, form)
    if not comparison.converged:
        raise typer.Exit(ExitCode.NOT_CONVERGED)
