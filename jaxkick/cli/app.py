"""The program `jaxkick` and its commands.

Commands import the modules that need JAX only when they run, so that `--help` is fast.
"""

import contextlib
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

import jaxkick
from jaxkick._cache import LEAST_SECONDS, program_folder
from jaxkick.cli import console, options
from jaxkick.cli.console import EXIT_CODES, ExitCode, UsageError, guarded
from jaxkick.cli.options import Every, Invalid, ReadAs
from jaxkick.cli.output import Format, emit

_CURVES = 6
_DEMO_CURVES = 5
_DEMO_SHOWN = 10
_DEMO_PAIRED = 3
_SEASON = 0.9


def demo(output: options.Output = Path("jaxkick-demo"), float64: options.Float64 = True) -> None:
    """Rate 46 years of German football, in less than a minute. Needs no file and no network.

    Learns the speed of change, the home advantage and the frequency of ties from all 14,018
    Bundesliga matches of 1963 to 2009. Prints the best teams of all time, the final leaderboard
    and forecasts. Writes a plot, an interactive report, tables and the model.

    \b
    Examples:
      jaxkick demo
      jaxkick demo --output football
      jaxkick leaderboard football --time 1987-06-01
    """
    import jax

    from jaxkick import Dataset, datasets, suggest_model
    from jaxkick.cli import fitting, inputs

    folder = fitting.make_folder(output)
    with jax.enable_x64(float64):
        data = Dataset.from_frame(
            datasets.load_bundesliga(),
            time="date",
            first="home",
            second="away",
            result=("home_goals", "away_goals"),
            home=True,
        )
        posterior, converged = fitting.fit_model(data, suggest_model(data), folder)
        with console.stage("ranking"):
            peaks = fitting.best_peaks(posterior)
            final = posterior.leaderboard(scale="elo", active_within=_SEASON)
            best = list(final["name"][:_DEMO_PAIRED])
            forecasts = fitting.pair_up(posterior, best, final["last_active"].max())
        emit(_head(peaks, _DEMO_SHOWN), Format.table, "The best of all time, at their peak")
        emit(final, Format.table, "The league in May 2009")
        shown = {name: column for name, column in forecasts.items() if name != "home"}
        emit(shown, Format.table, "Forecasts, the first side at home")
        typer.echo(posterior.describe())
        tables = {"peaks": peaks, "leaderboard": final, "forecasts": forecasts}
        with console.stage("writing"):
            files = fitting.write_products(
                folder,
                posterior,
                tables,
                list(peaks["name"][:_DEMO_CURVES]),
                "Bundesliga, 1963 to 2009",
            )
    _finish([folder / inputs.MODEL_FILE, *files], converged)


def fit(
    results: options.Results,
    columns: options.Columns,
    output: options.Output,
    reading: options.Reading,
    fixtures: options.Fixtures = None,
    allow_unknown: options.Newcomers = False,
    title: options.Title = None,
    unit: options.Unit = None,
    scale: options.Scale = None,
    top: options.Top = None,
    max_steps: options.MaxSteps = 100,
    discover: options.Discover = False,
    budget: options.Budget = 300.0,
    on_invalid: options.OnInvalid = Invalid.stop,
    form: options.Shape = Format.table,
    float64: options.Float64 = True,
) -> None:
    """Fit a model to matches or rankings; write it with a leaderboard, forecasts and a report.

    Also prints the leaderboard. Without --fixtures, forecasts all pairs of the best four. With
    --discover, searches for the best model, and lists all candidates in models.csv.

    \b
    Examples:
      jaxkick fit results.csv --time date --first home --second away \\
          --score-first home_goals --score-second away_goals --home --output league
      jaxkick fit tennis.parquet --time date --first winner --second loser --first-won -o tennis
      jaxkick fit chess.csv --time played --first white --second black --outcome result \\
          --home --format json -o chess | jq '.[0]'
      jaxkick fit races.csv --time date --event race --competitor driver --rank position -o races
      jaxkick fit tennis.csv --time date --first winner --second loser --first-won --discover \\
          --budget 600 -o tennis
    """
    import jax

    from jaxkick import suggest_model
    from jaxkick.cli import fitting, inputs

    schema = columns.schema()
    with jax.enable_x64(float64):
        data = inputs.read_dataset(results, reading, schema, unit, on_invalid.value)
        typer.echo(repr(data), err=True)
        # Check all inputs before learning, which takes the time.
        start = suggest_model(data)
        shown = inputs.parse_scale(scale, start.duel)
        if fixtures is not None:
            inputs.read_fixtures(fixtures, reading, schema, data, allow_unknown)
        folder = fitting.make_folder(output)
        searched = []
        if discover:
            start, searched = fitting.search_model(data, budget, folder)
        posterior, converged = fitting.fit_model(data, start, folder, max_steps)
        board, files = _write_league(
            posterior, folder, shown, fixtures, reading, allow_unknown, title
        )
    emit(_head(board, top), form)
    _finish([folder / inputs.MODEL_FILE, *searched, *files], converged)


def predict(
    model: options.ModelFile,
    reading: options.Reading,
    first: options.Name = None,
    second: options.Name = None,
    time: options.Date = None,
    home: options.HomeFlag = False,
    away: options.Away = False,
    fixtures: options.Fixtures = None,
    allow_unknown: options.Newcomers = False,
    form: options.Shape = Format.table,
) -> None:
    """Forecast one match, or all matches or events of a file, with a saved model.

    For rankings, such as races, forecasts are each side's probabilities of winning and of finishing
    in the first three, and its expected rank.

    \b
    Examples:
      jaxkick predict league --first Bremen --second Hamburg --time 2009-08-08 --home
      jaxkick predict league --fixtures next_round.csv --format csv > forecasts.csv
      jaxkick predict races --fixtures entries.csv
    """
    if (first is None) != (second is None) or (first is None) == (fixtures is None):
        raise UsageError("give --first and --second for one match, or --fixtures for many.")
    if home and away:
        raise UsageError(
            "--home and --away contradict each other. Without them the match is on neutral ground."
        )
    if fixtures is not None and (time is not None or home or away):
        raise UsageError("--fixtures gives times and places. Leave out --time, --home and --away.")

    import jax

    from jaxkick.cli import inputs

    with jax.enable_x64(True):
        posterior = inputs.load_posterior(model)
        if fixtures is not None:
            columns = inputs.forecast_file(posterior, fixtures, reading, allow_unknown)
        else:
            known = inputs.competitors(posterior.data)
            sides = [
                inputs.known_name(name, known, option, allow_unknown)
                for option, name in {"--first": first, "--second": second}.items()
            ]
            when = _time_of(posterior, time, reading.date_format)
            place = int(home) - int(away)
            _check_pair(posterior, sides, place)
            columns = inputs.forecast_pairs(posterior, [sides], when, place, allow_unknown)
    emit(columns, form)


def leaderboard(
    model: options.ModelFile,
    time: options.Date = None,
    scale: options.Scale = None,
    top: options.Top = None,
    min_matches: options.MinMatches = 1,
    active_within: options.ActiveWithin = None,
    interval: options.Interval = 0.9,
    date_format: options.DateFormat = None,
    form: options.Shape = Format.table,
) -> None:
    """List competitors by rating at a given time, with intervals of ratings and ranks.

    `best` is the probability that the competitor has the highest rating.

    \b
    Examples:
      jaxkick leaderboard league --top 10
      jaxkick leaderboard league --time 1987-06-01 --active-within 1 --scale 1500/400
      jaxkick leaderboard league --format json | jq '.[0].name'
    """
    if not 0.0 < interval < 1.0:
        raise UsageError(f"--interval is {interval}. Give a probability, such as 0.9.")

    import jax

    from jaxkick.cli import inputs

    with jax.enable_x64(True):
        posterior = inputs.load_posterior(model)
        board = posterior.leaderboard(
            _time_of(posterior, time, date_format),
            scale=inputs.parse_scale(scale, posterior.model.duel),
            interval=interval,
            min_matches=min_matches,
            active_within=active_within,
        )
    emit(_head(board, top), form)


def evaluate(
    results: options.Results,
    columns: options.Columns,
    reading: options.Reading,
    start: options.Start = None,
    every: options.Period = Every.week,
    unit: options.Unit = None,
    max_steps: options.MaxSteps = 100,
    on_invalid: options.OnInvalid = Invalid.stop,
    form: options.Shape = Format.table,
    float64: options.Float64 = True,
) -> None:
    """Backtest the model against Elo on the later matches of a file.

    Both are tuned on the matches before --start; only the type of outcomes, such as whether there
    are ties, comes from the whole file. Each block of matches is predicted from all earlier ones.
    The log loss is the mean of -log p, where p is the predicted probability of the outcome;
    intervals have a probability of 95 %. `difference` is the log loss of jaxkick minus that of Elo:
    if it is negative, jaxkick predicts better. Rankings are compared with equal chances of all
    sides, by the log loss of the winner.

    \b
    Examples:
      jaxkick evaluate results.csv --time date --first home --second away \\
          --score-first home_goals --score-second away_goals --home --start 2005-08-01
      jaxkick evaluate results.csv --time date --first white --second black --outcome result \\
          --format json
    """
    if columns.read_as is ReadAs.counts:
        raise UsageError("Elo predicts results, not counts. Use --as result or --as difference.")
    schema = columns.schema()

    import jax

    from jaxkick.cli import inputs
    from jaxkick.cli.evaluating import compare_with_chance, compare_with_elo

    with jax.enable_x64(float64):
        data = inputs.read_dataset(results, reading, schema, unit, on_invalid.value)
        backtest = compare_with_chance if schema.is_ranking else compare_with_elo
        compared, converged = backtest(data, start, every.value, max_steps)
    emit(compared, form)
    _finish([], converged)


def compare(
    results: options.Results,
    columns: options.Columns,
    reading: options.Reading,
    kernel: options.KernelList = None,
    start: options.BacktestStart = None,
    every: options.Period = Every.week,
    unit: options.Unit = None,
    max_steps: options.MaxSteps = 100,
    on_invalid: options.OnInvalid = Invalid.stop,
    form: options.Shape = Format.table,
    float64: options.Float64 = True,
) -> None:
    """Compare models of how skill changes, by log evidence or by a backtest.

    `score` is the log evidence minus a penalty for each parameter. With --start, each model is
    learnt from the matches before it and predicts the later ones; `difference` is the log loss
    minus that of the best model, with a paired interval of 95 %.

    \b
    Examples:
      jaxkick compare results.csv --time date --first home --second away \\
          --score-first home_goals --score-second away_goals --home
      jaxkick compare tennis.csv --time date --first winner --second loser --first-won \\
          --kernel matern12 --kernel wiener --start 2015-01-01 --format json
    """
    schema = columns.schema()

    import jax

    from jaxkick.cli import inputs
    from jaxkick.cli.evaluating import compare_kernels

    with jax.enable_x64(float64):
        data = inputs.read_dataset(results, reading, schema, unit, on_invalid.value)
        table = compare_kernels(data, kernel, start, every.value, max_steps)
    emit(table.columns(), form)
    _finish([], table.best.converged)


def update(
    model: options.ModelFile,
    results: options.Results,
    reading: options.Reading,
    output: options.NewOutput = None,
    fixtures: options.Fixtures = None,
    allow_unknown: options.Newcomers = False,
    title: options.Title = None,
    allow_repeats: options.Repeats = False,
    scale: options.Scale = None,
    top: options.Top = None,
    on_invalid: options.OnInvalid = Invalid.stop,
    form: options.Shape = Format.table,
) -> None:
    """Add matches to a saved model, without changing its parameters.

    Prints the leaderboard and writes the same files as `jaxkick fit`: the model, the leaderboard,
    forecasts, a plot and a report. RESULTS needs the same columns as the fitted file. Matches can
    be in any order and include new competitors.

    \b
    Examples:
      jaxkick update league last_weekend.csv --top 5
      jaxkick update league last_weekend.csv --output next_league
    """
    import jax

    from jaxkick.cli import fitting, inputs

    path = inputs.model_path(model)
    with jax.enable_x64(True):
        posterior = inputs.load_posterior(path)
        schema = inputs.schema_of(posterior)
        shown = inputs.parse_scale(scale, posterior.model.duel)
        matches = inputs.read_matches(results, reading, schema)
        if output is not None:
            path = fitting.make_folder(output) / inputs.MODEL_FILE
        with inputs.file_errors(matches.table), console.stage("updating"):
            updated = posterior.update(
                matches.columns, on_invalid=on_invalid.value, allow_repeats=allow_repeats
            )
        if fixtures is not None:
            inputs.read_fixtures(fixtures, reading, schema, updated.data, allow_unknown)
        jaxkick.save(path, updated)
        board, files = _write_league(
            updated, path.parent, shown, fixtures, reading, allow_unknown, title
        )
    emit(_head(board, top), form)
    _finish([path, *files])


def simulate(
    model: options.ModelFile,
    reading: options.Reading,
    fixtures: options.Rest,
    since: options.Since = None,
    draws: options.Draws = 10_000,
    points: options.WinPoints = "3/1/0",
    tie_breaker: options.TieBreakers = None,
    zone: options.ZoneList = None,
    seed: options.Seed = 0,
    allow_unknown: options.Newcomers = False,
    output: options.SeasonOutput = None,
    form: options.Shape = Format.table,
) -> None:
    """Simulate the rest of a season with a saved model: final points and places.

    Simulates the matches many times, each time with one joint draw of all skills. `title` is the
    probability of finishing first; the range of points has a probability of 90 %. Before that, add
    the matches played since the fit with `jaxkick update`.

    \b
    Examples:
      jaxkick simulate league --fixtures rest.csv --since 2008-08-01
      jaxkick simulate league --fixtures rest.csv --since 2008-08-01 --draws 10000 \\
          --zone champions_league=1-3 --zone relegation=16-18 --output season
    """
    import jax

    from jaxkick.cli import fitting, inputs

    rules = inputs.read_rules(points, tie_breaker, zone)
    with jax.enable_x64(True):
        posterior = inputs.load_posterior(model)
        played = inputs.played_since(posterior, since, reading.date_format)
        with console.stage("simulating"):
            season, matches = inputs.simulate_file(
                posterior, fixtures, reading, allow_unknown, played, rules, draws, seed
            )
        if played is None:
            console.note("only the fixtures give points. Pass --since to add played matches.")
        broken = ", ".join(season.tie_breakers)
        console.note(f"equal points are decided by {broken or 'random'}.")
        files = []
        if output is not None:
            with console.stage("writing"):
                files = fitting.write_season(fitting.make_folder(output), season, matches)
    emit(season.columns(), form)
    _finish(files)


def _write_league(
    posterior: Any,
    folder: Path,
    scale: Any,
    fixtures: Path | None,
    reading: options.Reading,
    allow_unknown: bool,
    title: str | None,
) -> tuple[Any, list[Path]]:
    """Write the leaderboard, forecasts, a plot and a report; return the leaderboard and files."""
    from jaxkick.cli import fitting, inputs

    with console.stage("ranking"):
        board = posterior.leaderboard(scale=scale)
        known = inputs.competitors(posterior.data)
        best = [known[str(name)] for name in board["name"]]
        if fixtures is None:
            forecasts = fitting.pair_up(posterior, best[: fitting.PAIRED], _time_of(posterior))
        else:
            forecasts = inputs.forecast_file(posterior, fixtures, reading, allow_unknown)
    with console.stage("writing"):
        tables = {"leaderboard": board, "forecasts": forecasts}
        if (folder / "peaks.csv").exists():
            # Written by `demo`.
            tables["peaks"] = fitting.best_peaks(posterior)
        name = title or folder.resolve().name
        files = fitting.write_products(folder, posterior, tables, best[:_CURVES], name)
    return board, files


def _head(columns: Mapping[str, Any], count: int | None) -> dict[str, Any]:
    return {name: column[:count] for name, column in columns.items()}


def _finish(files: Sequence[Path], converged: bool = True) -> None:
    """List the written files, and exit with an error if learning did not converge."""
    if files:
        typer.echo("written: " + ", ".join(map(str, files)), err=True)
    if not converged:
        raise typer.Exit(ExitCode.NOT_CONVERGED)


def _time_of(posterior: Any, text: str | None = None, date_format: str | None = None) -> Any:
    """The time given as an option, or the time of the last match."""
    from jaxkick.cli.inputs import parse_time

    index = posterior.data.index
    if text is None:
        return index.scale.to_user(index.latest)[()]
    return parse_time(index.scale, "--time", text, date_format)


def _check_pair(posterior: Any, sides: Sequence, home: int) -> None:
    if sides[0] == sides[1]:
        raise UsageError(f"--first and --second are both {sides[0]!r}. Give two competitors.")
    if home and "home" not in posterior.data.names:
        raise UsageError(
            "the model has no home advantage. Fit it with --home, or leave out --home and --away."
        )


app = typer.Typer(
    name="jaxkick",
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)

_COMMANDS = {
    demo: "Rate 46 years of football; needs no file.",
    fit: "Fit a model to a file of results.",
    predict: "Forecast matches with a saved model.",
    leaderboard: "List the competitors of a saved model.",
    evaluate: "Backtest the model against Elo.",
    compare: "Compare models of how skill changes.",
    update: "Add matches to a saved model.",
    simulate: "Simulate the rest of a season with a saved model.",
}
for _command, _summary in _COMMANDS.items():
    app.command(short_help=_summary, epilog=EXIT_CODES)(guarded(options.expand(_command)))


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
    cache: Annotated[
        bool,
        typer.Option(
            "--cache/--no-cache",
            help="Keep compiled programs in the user's cache folder, for faster starts.",
        ),
    ] = True,
) -> None:
    """Turn match results into skill curves with error bars, leaderboards and forecasts.

    \b
    Examples:
      jaxkick demo
      jaxkick fit results.csv --time date --first home --second away \\
          --score-first home_goals --score-second away_goals --home --output league
      jaxkick leaderboard league --top 10
      jaxkick predict league --first Bremen --second Hamburg --time 2009-08-08 --home
    """
    # JAX reads its settings when it is imported.
    if cache and "jax" not in sys.modules:
        _keep_programs()


def _keep_programs() -> None:
    """Let JAX keep compiled programs, unless the user has chosen a folder or none can be made."""
    with contextlib.suppress(OSError):
        folder = program_folder()
        folder.mkdir(parents=True, exist_ok=True)
        os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(folder))
        os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", str(LEAST_SECONDS))
