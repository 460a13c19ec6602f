"""`jaxkick predict`: what to expect of matches."""

from pathlib import Path
from typing import Annotated, Any

import typer

from jaxkick.cli.errors import UsageError
from jaxkick.cli.options import Date, DateFormat, Delimiter, Encoding, ModelFile, Shape
from jaxkick.cli.output import Format

__all__ = ["predict"]

Name = Annotated[str | None, typer.Option(help="Name of this side.")]
AtHome = Annotated[bool, typer.Option("--home", help="The first side is at home.")]
Away = Annotated[bool, typer.Option("--away", help="The second side is at home.")]
Fixtures = Annotated[
    Path | None,
    typer.Option(help="Many matches, as CSV or Parquet with the columns of the fitted file."),
]
Newcomers = Annotated[
    bool, typer.Option("--allow-unknown", help="Competitors may be new to the model.")
]


def predict(
    model: ModelFile,
    first: Name = None,
    second: Name = None,
    time: Date = None,
    home: AtHome = False,
    away: Away = False,
    fixtures: Fixtures = None,
    allow_unknown: Newcomers = False,
    date_format: DateFormat = None,
    encoding: Encoding = None,
    delimiter: Delimiter = None,
    form: Shape = Format.table,
) -> None:
    """Forecast a match, or all matches of a file, with a saved model.

    \b
    Examples:
      jaxkick predict league --first Bremen --second Hamburg --time 2009-08-08 --home
      jaxkick predict league --fixtures next_round.csv --format csv > forecasts.csv
    """
    if (first is None) != (second is None) or (first is None) == (fixtures is None):
        raise UsageError("give --first and --second for one match, or --fixtures for many.")
    if home and away:
        raise UsageError("--home and --away exclude each other; without them nobody is at home.")
    if fixtures is not None and (time is not None or home or away):
        raise UsageError("--fixtures says when and where matches are; leave out the rest.")

    from jaxkick.cli.fitting import precision
    from jaxkick.cli.forecasting import forecast_file
    from jaxkick.cli.output import emit
    from jaxkick.cli.reading import Source
    from jaxkick.cli.saved import load_posterior

    with precision(True):
        posterior = load_posterior(model)
        if fixtures is None:
            sides = {"--first": first, "--second": second}
            side_at_home = int(home) - int(away)
            columns = _one_match(posterior, sides, time, date_format, side_at_home, allow_unknown)
        else:
            source = Source(fixtures, encoding, delimiter, date_format)
            columns = forecast_file(posterior, source, allow_unknown)
    emit(columns, form)


def _one_match(
    posterior: Any,
    sides: dict,
    time: str | None,
    date_format: str | None,
    home: int,
    newcomers: bool,
) -> dict[str, Any]:
    import numpy as np

    from jaxkick.cli.saved import competitors, known_name, read_time

    known = competitors(posterior)
    one, other = (known_name(text, known, option, newcomers) for option, text in sides.items())
    if one == other:
        raise UsageError(f"--first and --second are both {one!r}; nobody plays against itself.")
    when = read_time(posterior, time, date_format)
    if home and "home" not in posterior.data.names:
        raise UsageError(
            "the model has no home advantage; fit it with --home, or leave out --home and --away."
        )
    prediction = posterior.predict(one, other, when, home=home or None)
    at_home = {} if not home else {"home": np.array([str(one if home > 0 else other)])}
    names = {"first": np.array([str(one)]), "second": np.array([str(other)])}
    return {"time": np.atleast_1d(when), **names, **at_home, **prediction.columns()}
