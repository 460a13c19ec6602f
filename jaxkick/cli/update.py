"""`jaxkick update`: further matches for a saved model."""

from pathlib import Path
from typing import Annotated, Any

import typer

from jaxkick.cli.errors import UsageError
from jaxkick.cli.options import (
    DateFormat,
    Delimiter,
    Encoding,
    Invalid,
    ModelFile,
    OnInvalid,
    Results,
    Scale,
    Shape,
    Top,
)
from jaxkick.cli.output import Format

__all__ = ["update"]

NewFile = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        help="Where to write the model: a file, or a folder that exists; in place if not given.",
    ),
]
Repeats = Annotated[
    bool, typer.Option("--allow-repeats", help="Take matches that the model already has.")
]


def update(
    model: ModelFile,
    results: Results,
    output: NewFile = None,
    allow_repeats: Repeats = False,
    scale: Scale = None,
    top: Top = None,
    on_invalid: OnInvalid = Invalid.stop,
    date_format: DateFormat = None,
    encoding: Encoding = None,
    delimiter: Delimiter = None,
    form: Shape = Format.table,
) -> None:
    """Add matches to a saved model, which keeps its parameters, and print the leaderboard.

    The file has the columns of the one that was fitted. Matches may come in any order and
    bring new competitors.

    \b
    Examples:
      jaxkick update league last_weekend.csv --top 5
      jaxkick update league last_weekend.csv --output league/next.jaxkick
    """
    from jaxkick import save
    from jaxkick.cli import console
    from jaxkick.cli.fitting import precision
    from jaxkick.cli.output import emit
    from jaxkick.cli.reading import Source, explained, read_matches
    from jaxkick.cli.saved import load_posterior, model_path, read_scale

    path = model_path(model)
    target = path if output is None else _writable(output)
    with precision(True):
        posterior = load_posterior(path)
        shown = read_scale(scale, posterior.model.likelihood)
        recipe = posterior.data.index.recipe
        if recipe is None:
            raise ValueError(
                f"{str(path)!r} was not made of a table, so that it is not known what columns "
                "mean; use `Posterior.update` in Python."
            )
        frame, table = read_matches(Source(results, encoding, delimiter, date_format), recipe)
        with explained(table), console.stage("updating"):
            updated = posterior.update(frame, on_invalid=on_invalid.value)
        if not allow_repeats:
            _refuse_repeats(updated, posterior.data.num_observations, results.name)
        board = updated.leaderboard(scale=shown)
        save(target, updated)
    emit({name: column[:top] for name, column in board.items()}, form)
    typer.echo(f"written: {target}", err=True)


def _writable(output: Path) -> Path:
    """The file to write: as given, or the model in the folder that is given."""
    from jaxkick.cli.saved import MODEL

    if output.is_dir():
        return output / MODEL
    if not output.parent.is_dir():
        raise UsageError(
            f"--output is {str(output)!r}, but there is no folder {str(output.parent)!r}; make it "
            "first, or name another."
        )
    return output


def _refuse_repeats(updated: Any, before: int, source: str) -> None:
    """Refuse new matches of the same competitors at the same time as old ones."""
    observations = updated.data.disassembled().observations
    keys = list(
        zip(observations.times.tolist(), map(tuple, observations.features.tolist()), strict=True)
    )
    old = set(keys[:before])
    repeated = sum(key in old for key in keys[before:])
    if repeated:
        raise UsageError(
            f"{repeated:,} of the {len(keys) - before:,} observations in {source!r} are in the "
            "model already: the same competitors at the same time. Take them out, or pass "
            "--allow-repeats if they met more than once."
        )
