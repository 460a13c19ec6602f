"""Models on the disk, and who is in them."""

import math
from collections.abc import Hashable, Mapping
from pathlib import Path
from typing import Any

from jaxkick import Posterior, load
from jaxkick.cli.cells import Cells
from jaxkick.cli.dates import read_times
from jaxkick.cli.errors import UsageError
from jaxkick.cli.files import FileTable
from jaxkick.cli.names import suggest
from jaxkick.dataset.home import HOME
from jaxkick.likelihoods import AbstractLikelihood
from jaxkick.outcomes import has_results
from jaxkick.ranking import SCALES

__all__ = [
    "MODEL",
    "competitors",
    "known_name",
    "load_posterior",
    "model_path",
    "read_scale",
    "read_time",
]

MODEL = "model.jaxkick"
"""The name of the model in the folder that `fit` writes."""


def model_path(path: Path) -> Path:
    """The file of a model: as given, or the one in the folder that is given.

    Raises:
        UsageError: if there is none.
    """
    found = path / MODEL if path.is_dir() else path
    if not found.is_file():
        raise UsageError(
            f"there is no model {str(found)!r}; make one with `jaxkick fit ... --output FOLDER`."
        )
    return found


def load_posterior(path: Path) -> Posterior:
    """The posterior that a file or folder holds.

    Raises:
        UsageError: if there is no such file.
        ValueError: if it holds something else.
    """
    found = load(model_path(path))
    if not isinstance(found, Posterior):
        raise ValueError(
            f"{str(path)!r} holds a {type(found).__name__.lower()} without its matches; save a "
            "posterior, as `jaxkick fit` does."
        )
    return found


def competitors(posterior: Posterior) -> dict[str, Hashable]:
    """Those who compete, by their names as texts; teams where they have attack and defence."""
    index = posterior.data.index
    recipe = index.recipe
    if recipe is not None and recipe.counts is not None:
        attacks = [str(name) for name in index.names if str(name).endswith(" attack")]
        teams = [attack.removesuffix(" attack") for attack in attacks]
        return dict(zip(teams, teams, strict=True))
    others = {HOME, *(name for name, _ in recipe.covariates)} if recipe is not None else set()
    return {str(name): name for name in index.names if name not in others}


def known_name(name: str, known: Mapping[str, Hashable], where: str, newcomers: bool) -> Hashable:
    """A competitor by the name as a text.

    Args:
        name: the text.
        known: the competitors.
        where: what names it, for the error.
        newcomers: whether somebody unknown may play.

    Raises:
        UsageError: if nobody is called so.
    """
    if name not in known and not newcomers:
        raise UsageError(
            f"{where} is {name!r}, whom the model does not know; "
            f"{suggest(name, known, 'competitors')} With --allow-unknown it is a newcomer."
        )
    return known.get(name, name)


def read_time(posterior: Posterior, text: str | None, date_format: str | None = None) -> Any:
    """A time in the terms of the model; that of its last match if there is none.

    Raises:
        ValueError: if it cannot be read.
    """
    index = posterior.data.index
    if text is None:
        return index.scale.to_user(float(index.times.max()))[()]
    cells = Cells(FileTable("the command", {"": (text.strip(),)}, [1]), "", "--time")
    try:
        time = read_times(cells, date_format)[0]
        index.to_time(time)
    except ValueError as error:
        kind = "dates, as in 2018-12-25" if index.scale.dates else "numbers"
        raise UsageError(f"--time is {text!r}, but the times of the model are {kind}.") from error
    return time


def read_scale(text: str | None, likelihood: AbstractLikelihood) -> Any:
    """A scale of ratings, as `Posterior.leaderboard` takes it.

    Args:
        text: what was asked for; if `None` Elo's scale where outcomes are results.
        likelihood: that of the model whose ratings are shown.

    Raises:
        UsageError: if it is none.
    """
    if text is None:
        return "elo" if has_results(likelihood) else None
    if text in SCALES:
        return text
    if text == "score":
        return None
    try:
        centre, spread = map(float, text.split("/"))
    except ValueError:
        centre = spread = 0.0
    if not (math.isfinite(centre) and 0.0 < spread < math.inf):
        raise UsageError(
            f"--scale is {text!r}, but must be elo, trueskill, score, or two numbers as in "
            "1500/400."
        )
    return centre, spread
