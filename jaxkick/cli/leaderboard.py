"""`jaxkick leaderboard`: who is best, and how sure that is."""

from typing import Annotated

import typer

from jaxkick.cli.options import Date, DateFormat, ModelFile, Scale, Shape, Top
from jaxkick.cli.output import Format

__all__ = ["leaderboard"]

Interval = Annotated[float, typer.Option(help="Probability of the intervals.")]
MinMatches = Annotated[int, typer.Option(min=1, help="Leave out who had fewer matches by then.")]
ActiveWithin = Annotated[
    float | None,
    typer.Option(help="Leave out whose last match was longer ago, in the unit of the model."),
]


def leaderboard(
    model: ModelFile,
    time: Date = None,
    scale: Scale = None,
    top: Top = None,
    min_matches: MinMatches = 1,
    active_within: ActiveWithin = None,
    interval: Interval = 0.9,
    date_format: DateFormat = None,
    form: Shape = Format.table,
) -> None:
    """List competitors by their rating at a time, with intervals of ratings and ranks.

    `best` is the probability of having the highest rating.

    \b
    Examples:
      jaxkick leaderboard league --top 10
      jaxkick leaderboard league --time 1987-06-01 --active-within 1 --scale 1500/400
      jaxkick leaderboard league --format json | jq '.[0].name'
    """
    from jaxkick.cli.errors import UsageError
    from jaxkick.cli.fitting import precision
    from jaxkick.cli.output import emit
    from jaxkick.cli.saved import load_posterior, read_scale, read_time

    if not 0.0 < interval < 1.0:
        raise UsageError(f"--interval is {interval}, but must be a probability, such as 0.9.")
    with precision(True):
        posterior = load_posterior(model)
        board = posterior.leaderboard(
            read_time(posterior, time, date_format),
            scale=read_scale(scale, posterior.model.likelihood),
            interval=interval,
            min_matches=min_matches,
            active_within=active_within,
        )
    emit({name: column[:top] for name, column in board.items()}, form)
