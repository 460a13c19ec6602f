"""Write a report: one HTML file with texts, style, programs and data."""

import base64
import gzip
import hashlib
import html
import json
import re
from importlib import resources
from pathlib import Path
from typing import Any

from jaxkick import __version__
from jaxkick.io import atomic_write
from jaxkick.posterior import Posterior
from jaxkick.report.content import gather_content

__all__ = ["make_page", "plotting_library", "write_report"]

_SCRIPTS = (
    "numbers.js",
    "elements.js",
    "chart.js",
    "forecast.js",
    "leaderboard.js",
    "start.js",
)
_SLOT = re.compile(r"\{\{(\w+)\}\}")


def write_report(
    path: str | Path,
    posterior: Posterior,
    *,
    title: str | None = None,
    forecasts: Any = None,
    library: str | Path | None = None,
) -> Path:
    """Write one HTML file with score curves, a forecaster and a leaderboard.

    The file needs neither a network nor other files. The page interpolates in tables made by the
    posterior and the likelihood; its probabilities differ from those of `Posterior.predict` by
    less than 0.005. Requires plotly: `pip install 'jaxkick[report]'`.

    Args:
        path: the file to write; an existing file is replaced.
        posterior: the fitted posterior.
        title: the heading; "Ratings" by default.
        forecasts: a table to show at the end, such as that of `Posterior.forecast`.
        library: a file with another build of plotly.js, such as the smaller "basic" one; by
            default that of the installed plotly package.

    Returns:
        The path.

    Raises:
        ImportError: if plotly is not installed and `library` is `None`.
        FileNotFoundError: if the folder does not exist.
    """
    program = plotting_library(library)
    content = gather_content(posterior, "Ratings" if title is None else str(title), forecasts)
    page = make_page(content, program, __version__)
    path = Path(path)
    with atomic_write(path) as file:
        file.write(page.encode())
    return path


def make_page(content: dict[str, Any], library: str, version: str) -> str:
    """Make the HTML of the page.

    Names are untrusted. They occur only in the JSON data, which is escaped, and the page's program
    inserts them as text. A content security policy allows only our two scripts, by their hashes,
    and no network access.
    """
    program = "\n".join(map(_asset, _SCRIPTS))
    allowed = " ".join(map(_hash, (program, library)))
    title = html.escape(content["title"].encode("utf-8", "replace").decode("utf-8"))
    slots = {
        "policy": f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; "
        "img-src data: blob:",
        "title": title,
        "version": html.escape(version),
        "style": _asset("page.css"),
        "data": _json(content),
        "program": program,
        "library": base64.b64encode(gzip.compress(library.encode(), mtime=0)).decode("ascii"),
    }
    return _SLOT.sub(lambda match: slots[match[1]], _asset("page.html"))


def plotting_library(path: str | Path | None) -> str:
    """Read the source of plotly.js from a file, or from the installed plotly package."""
    if path is not None:
        return Path(path).read_text(encoding="utf-8")
    try:
        from plotly.offline import get_plotlyjs
    except ImportError as error:
        raise ImportError(
            "Reports require plotly. Install it with `pip install 'jaxkick[report]'`."
        ) from error
    return get_plotlyjs()


def _asset(name: str) -> str:
    return (resources.files("jaxkick.report") / "assets" / name).read_text(encoding="utf-8")


def _hash(program: str) -> str:
    digest = hashlib.sha256(program.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"


def _json(content: dict[str, Any]) -> str:
    """ASCII JSON without characters that could begin or end an HTML element."""
    text = json.dumps(content, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
