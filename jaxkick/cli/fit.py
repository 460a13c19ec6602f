"""`jaxkick fit`: from a file of results to ratings, forecasts, pictures and a model."""

from pathlib import Path
from typing import Annotated

import typer

from jaxkick.cli.columns import make_recipe
from jaxkick.cli.errors import ExitCode
from jaxkick.cli.options import (
    As,
    DateFormat,
    Delimiter,
    Encoding,
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
    Output,
    ReadAs,
    Results,
    Scale,
    ScoreFirst,
    ScoreSecond,
    Second,
    Shape,
    Time,
    Top,
    Unit,
    Weight,
)
from jaxkick.cli.output import Format

__all__ = ["fit"]

_PAIRED = 4
_DRAWN = 6

Fixtures = Annotated[
    Path | None,
    typer.Option(
        help="Matches to forecast, with the same columns but without outcomes. If not given, all "
        "pairings of the best four.",
    ),
]
Title = Annotated[str | None, typer.Option(help="Title of the report.")]


def fit(
    results: Results,
    time: Time,
    first: First,
    second: Second,
    output: Output,
    outcome: Outcome = None,
    score_first: ScoreFirst = None,
    score_second: ScoreSecond = None,
    read_as: As = ReadAs.result,
    first_won: FirstWon = False,
    home: HomeFlag = False,
    home_column: HomeColumn = None,
    neutral: Neutral = None,
    weight: Weight = None,
    fixtures: Fixtures = None,
    title: Title = None,
    unit: Unit = None,
    scale: Scale = None,
    top: Top = None,
    max_steps: MaxSteps = 100,
    on_invalid: OnInvalid = Invalid.stop,
    date_format: DateFormat = None,
    encoding: Encoding = None,
    delimiter: Delimiter = None,
    form: Shape = Format.table,
    float64: Float64 = True,
) -> None:
    """Learn from results; write the model, a leaderboard, forecasts, a picture and a report.

    The leaderboard also goes to the standard output.

    \b
    Examples:
      jaxkick fit results.csv --time date --first home --second away \\
          --score-first home_goals --score-second away_goals --home --output league
      jaxkick fit tennis.parquet --time date --first winner --second loser --first-won -o tennis
      jaxkick fit chess.csv --time played --first white --second black --outcome result \\
          --home --format json -o chess | jq '.[0]'
    """
    from jaxkick.cli import console
    from jaxkick.cli.fitting import fit_model, precision, starting_model
    from jaxkick.cli.forecasting import forecast_file, read_fixtures
    from jaxkick.cli.output import emit
    from jaxkick.cli.products import (
        make_folder,
        pairings,
        save_model,
        tell_of_files,
        write_all,
    )
    from jaxkick.cli.reading import Source, make_dataset, read_matches
    from jaxkick.cli.saved import competitors, read_scale

    recipe = make_recipe(
        time=time, first=first, second=second, outcome=outcome, score_first=score_first,
        score_second=score_second, read_as=read_as, first_won=first_won, home=home,
        home_column=home_column, neutral=neutral, weight=weight,
    )  # fmt: skip
    source = Source(results, encoding, delimiter, date_format)
    with precision(float64):
        frame, table = read_matches(source, recipe)
        data = make_dataset(frame, table, recipe, unit, on_invalid)
        typer.echo(repr(data), err=True)
        # What can be wrong is looked at here already, and not after the learning.
        start = starting_model(data)
        shown = read_scale(scale, start.likelihood)
        coming = Source(fixtures, encoding, delimiter, date_format) if fixtures else None
        if coming is not None:
            read_fixtures(coming, recipe, data.index.scale)
        folder = make_folder(output)
        fitted = fit_model(data, start, max_steps)
        posterior = fitted.posterior
        model = save_model(folder, posterior)
        with console.stage("ranking"):
            board = posterior.leaderboard(scale=shown)
            known = competitors(posterior)
            best = [known[str(name)] for name in board["name"]]
            if coming is None:
                last = data.index.scale.to_user(float(data.index.times.max()))[()]
                forecasts = pairings(posterior, best[:_PAIRED], last)
            else:
                forecasts = forecast_file(posterior, coming, newcomers=True)
        with console.stage("writing"):
            tables = {"leaderboard": board, "forecasts": forecasts}
            files = write_all(folder, posterior, tables, best[:_DRAWN], title or results.stem)
    emit({name: column[:top] for name, column in board.items()}, form)
    tell_of_files([model, *files])
    if not fitted.converged:
        raise typer.Exit(ExitCode.NOT_CONVERGED)
