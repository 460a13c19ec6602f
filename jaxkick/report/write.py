"""Write a report."""

from pathlib import Path
from typing import Any

from jaxkick import __version__
from jaxkick._files import written_whole
from jaxkick.posterior import Posterior
from jaxkick.report.content import gather_content
from jaxkick.report.page import make_page, plotting_library

__all__ = ["write_report"]


def write_report(
    path: str | Path,
    posterior: Posterior,
    *,
    title: str | None = None,
    forecasts: Any = None,
    library: str | Path | None = None,
) -> Path:
    """Write one HTML file with score curves, a forecaster and a leaderboard.

    The file needs no network and no other file. Scores are kept at as many times as it takes
    for a forecast to differ from `Posterior.predict` by less than 0.005 in probability.
    Needs plotly: `pip install 'jaxkick[report]'`.

    Args:
        path: the file; one that is there is replaced.
        posterior: the fitted posterior.
        title: the heading; "Ratings" if `None`.
        forecasts: a table to show at the end, such as that of `Posterior.forecast`.
        library: a file with another build of plotly.js, such as its smaller "basic" one; that
            of the installed plotly if `None`.

    Returns:
        The path.

    Raises:
        ImportError: if plotly is not installed and `library` is `None`.
        FileNotFoundError: if there is no such folder.
    """
    program = plotting_library(library)
    content = gather_content(posterior, "Ratings" if title is None else str(title), forecasts)
    page = make_page(content, program, __version__)
    path = Path(path)
    with written_whole(path) as file:
        file.write(page.encode())
    return path
