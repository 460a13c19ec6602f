"""One file of HTML with everything in it: texts, style, programs and data."""

import base64
import gzip
import hashlib
import html
import json
import re
from importlib import resources
from pathlib import Path
from typing import Any

__all__ = ["make_page", "plotting_library"]

_SCRIPTS = (
    "numbers.js",
    "outcomes.js",
    "scores.js",
    "format.js",
    "forecast.js",
    "theme.js",
    "chooser.js",
    "table.js",
    "chart.js",
    "forecaster.js",
    "leaderboard.js",
    "start.js",
)
_STYLES = (
    "colours.css",
    "layout.css",
    "controls.css",
    "answers.css",
    "tables.css",
    "narrow.css",
)
_SLOT = re.compile(r"\{\{(\w+)\}\}")


def make_page(content: dict[str, Any], library: str, version: str) -> str:
    """The text of the page.

    Names come from outside. They stand in the data alone, where no character ends the element
    around them, and the page's program sets them as text. The page's own policy lets no other
    program run and nothing be fetched.

    Args:
        content: what the page shows.
        library: the program of plotly.js.
        version: of jaxkick.
    """
    program = "\n".join(map(_asset, _SCRIPTS))
    allowed = " ".join(map(_hash, (program, library)))
    title = html.escape(content["title"].encode("utf-8", "replace").decode("utf-8"))
    slots = {
        "policy": f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; "
        "img-src data: blob:",
        "title": title,
        "version": html.escape(version),
        "style": "\n".join(map(_asset, _STYLES)),
        "data": _json(content),
        "program": program,
        "library": base64.b64encode(gzip.compress(library.encode(), mtime=0)).decode("ascii"),
    }
    return _SLOT.sub(lambda match: slots[match[1]], _asset("page.html"))


def plotting_library(path: str | Path | None) -> str:
    """The program of plotly.js: of the installed package, or of a file.

    Args:
        path: the file, or `None`.

    Raises:
        ImportError: if plotly is not installed and there is no file.
    """
    if path is not None:
        return Path(path).read_text(encoding="utf-8")
    try:
        from plotly.offline import get_plotlyjs
    except ImportError as error:
        raise ImportError(
            "reports need plotly; install it with `pip install 'jaxkick[report]'`."
        ) from error
    return get_plotlyjs()


def _asset(name: str) -> str:
    return (resources.files("jaxkick.report") / "assets" / name).read_text(encoding="utf-8")


def _hash(program: str) -> str:
    digest = hashlib.sha256(program.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"


def _json(content: dict[str, Any]) -> str:
    """JSON in plain ASCII, in which nothing looks like the begin or end of an element."""
    text = json.dumps(content, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
