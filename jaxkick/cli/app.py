"""The program and its commands."""

from typing import Annotated

import typer

import jaxkick
from jaxkick.cli.demo import demo
from jaxkick.cli.errors import EXIT_CODES, guarded
from jaxkick.cli.evaluate import evaluate
from jaxkick.cli.fit import fit
from jaxkick.cli.leaderboard import leaderboard
from jaxkick.cli.predict import predict
from jaxkick.cli.update import update

__all__ = ["app"]

app = typer.Typer(
    name="jaxkick",
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)

_COMMANDS = {
    demo: "Rate 46 years of football; no file is needed.",
    fit: "Learn from a file of results.",
    predict: "Forecast matches with a saved model.",
    leaderboard: "List competitors of a saved model.",
    evaluate: "Compare predictions with those of Elo.",
    update: "Add matches to a saved model.",
}
for _command, _summary in _COMMANDS.items():
    app.command(short_help=_summary, epilog=EXIT_CODES)(guarded(_command))


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"jaxkick {jaxkick.__version__}")
        raise typer.Exit


@app.callback(epilog=EXIT_CODES)
def program(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Ratings, pictures and forecasts from match results: skill that changes over time.

    \b
    Examples:
      jaxkick demo
      jaxkick fit results.csv --time date --first home --second away \\
          --score-first home_goals --score-second away_goals --home --output league
      jaxkick leaderboard league --top 10
      jaxkick predict league --first Bremen --second Hamburg --time 2009-08-08 --home
    """
