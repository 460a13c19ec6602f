"""`jaxkick demo`: the whole of it on data that comes with the package."""

from pathlib import Path
from typing import Any

import typer

from jaxkick.cli.errors import ExitCode
from jaxkick.cli.options import Float64, Output

__all__ = ["demo"]

_SHOWN = 10
_DRAWN = 5
_PAIRED = 3
_SEASON = 0.9


def demo(output: Output = Path("jaxkick-demo"), float64: Float64 = True) -> None:
    """Rate 46 years of German football: no file, no network, under a minute.

    Learns how fast teams change, what home is worth and how often matches are tied from the
    14,018 matches of the Bundesliga from 1963 to 2009; prints the best teams of all time, the
    last table and forecasts; writes a picture, a report to play with and the model.

    \b
    Examples:
      jaxkick demo
      jaxkick demo --output football
      jaxkick leaderboard football --time 1987-06-01
    """
    from jaxkick import Dataset, datasets
    from jaxkick.cli import console
    from jaxkick.cli.fitting import fit_model, precision
    from jaxkick.cli.output import Format, emit
    from jaxkick.cli.peaks import best_peaks
    from jaxkick.cli.products import make_folder, pairings, save_model, tell_of_files, write_all

    folder = make_folder(output)
    with precision(float64):
        data = Dataset.from_frame(
            datasets.load_bundesliga(),
            time="date",
            first="home",
            second="away",
            result=("home_goals", "away_goals"),
            home=True,
        )
        fitted = fit_model(data)
        posterior = fitted.posterior
        model = save_model(folder, posterior)
        with console.stage("ranking"):
            peaks = best_peaks(posterior, "elo")
            final = posterior.leaderboard(scale="elo", active_within=_SEASON)
            best = list(final["name"][:_PAIRED])
            forecasts = pairings(posterior, best, final["last_active"].max())
        emit(_top(peaks), Format.table, "The best of all time, at their peak")
        emit(final, Format.table, "The league in May 2009")
        shown = {name: column for name, column in forecasts.items() if name != "home"}
        emit(shown, Format.table, "Forecasts, the first side at home")
        typer.echo(posterior.describe())
        tables = {"peaks": peaks, "leaderboard": final, "forecasts": forecasts}
        curves = list(peaks["name"][:_DRAWN])
        with console.stage("writing"):
            files = write_all(folder, posterior, tables, curves, "Bundesliga, 1963 to 2009")
    tell_of_files([model, *files])
    if not fitted.converged:
        raise typer.Exit(ExitCode.NOT_CONVERGED)


def _top(table: dict[str, Any]) -> dict[str, Any]:
    return {name: column[:_SHOWN] for name, column in table.items()}
