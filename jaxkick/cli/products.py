"""What `fit` and `demo` leave in a folder."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import typer

from jaxkick import Posterior, plotting, save
from jaxkick._files import written_whole
from jaxkick.cli import console
from jaxkick.cli.errors import UsageError
from jaxkick.cli.output import write_csv
from jaxkick.cli.saved import MODEL, read_scale
from jaxkick.dataset.counts import attack_of
from jaxkick.dataset.home import HOME

__all__ = ["make_folder", "pairings", "save_model", "tell_of_files", "write_all"]


def make_folder(path: Path) -> Path:
    """A folder to write into, made if there is none.

    Raises:
        UsageError: if something else is in its place.
        OSError: if it cannot be made.
    """
    if path.exists() and not path.is_dir():
        raise UsageError(f"--output is {str(path)!r}, which is a file; name a folder.")
    path.mkdir(parents=True, exist_ok=True)
    return path


def pairings(posterior: Posterior, names: Sequence[Hashable], time: Any) -> dict[str, np.ndarray]:
    """Forecasts of all matches among some competitors.

    Args:
        posterior: the fitted posterior.
        names: the competitors.
        time: when they meet.

    Returns:
        Columns by name; each pair at both homes where there is a home advantage.
    """
    at_home = HOME in posterior.data.names
    pairs = [
        (one, other)
        for place, one in enumerate(names)
        for number, other in enumerate(names)
        if (one != other if at_home else place < number)
    ]
    if not pairs:
        return {}
    first, second = (list(side) for side in zip(*pairs, strict=True))
    prediction = posterior.predict(first, second, time, home=1 if at_home else None)
    when = np.full(len(pairs), time)
    ground = {"home": np.array(first)} if at_home else {}
    return {
        "time": when,
        "first": np.array(first),
        "second": np.array(second),
        **ground,
        **prediction.columns(),
    }


def save_model(folder: Path, posterior: Posterior) -> Path:
    """Write the model, as soon as there is one: nothing that comes after can lose it.

    Returns:
        The file that was written.
    """
    path = folder / MODEL
    save(path, posterior)
    return path


def write_all(
    folder: Path,
    posterior: Posterior,
    tables: Mapping[str, Mapping[str, Any]],
    curves: Sequence[Hashable],
    title: str,
) -> list[Path]:
    """Write tables, a picture and the report.

    Args:
        folder: where to.
        posterior: the fitted posterior.
        tables: tables by the name of their file; forecasts are also part of the report.
        curves: the competitors whose scores are drawn.
        title: the report's title.

    Returns:
        The files that were written.
    """
    written = [write_csv(folder / f"{name}.csv", table) for name, table in tables.items()]
    forecasts = _for_readers(tables.get("forecasts"))
    written += _if_installed("picture", "plot", lambda: _draw(folder, posterior, curves))
    written += _if_installed(
        "report", "report", lambda: _report(folder, posterior, title, forecasts)
    )
    return written


def _for_readers(forecasts: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """Forecasts without the moments of scores, which the file keeps."""
    if forecasts is None:
        return None
    return {name: part for name, part in forecasts.items() if not name.startswith("score_")}


def _draw(folder: Path, posterior: Posterior, names: Sequence[Hashable]) -> Path:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10.0, 5.5), dpi=150, layout="constrained")
    axes = figure.subplots()
    features = [name if name in posterior.data.names else attack_of(name) for name in names]
    scale = read_scale(None, posterior.model.likelihood)
    plotting.scores(posterior, features, scale=scale, ax=axes)
    path = folder / "scores.png"
    with written_whole(path) as file:
        figure.savefig(file, format="png")
    return path


def _report(folder: Path, posterior: Posterior, title: str, forecasts: Any) -> Path:
    from jaxkick.report import write_report

    return write_report(folder / "report.html", posterior, title=title, forecasts=forecasts)


def _if_installed(what: str, extra: str, write: Callable[[], Path]) -> list[Path]:
    """The file, or a note that says which extra is missing."""
    try:
        return [write()]
    except ImportError:
        console.note(
            f"no {what} was written, because a library for it is not installed; "
            f'`pip install "jaxkick[{extra}]"` adds it.'
        )
        return []


def tell_of_files(files: Sequence[Path]) -> None:
    """Say on the error stream what was written."""
    typer.echo("written: " + ", ".join(str(path) for path in files), err=True)
