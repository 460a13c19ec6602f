"""Who and what a report speaks of: competitors, the home advantage, covariates, times."""

from collections.abc import Hashable
from typing import Any, NamedTuple

import numpy as np

from jaxkick.competitors import Competitors, choose_competitors
from jaxkick.dataset.counts import LEVEL
from jaxkick.dataset.home import HOME
from jaxkick.dataset.index import Index
from jaxkick.dataset.names import DEFAULT_GROUP
from jaxkick.dataset.times import UNITS

__all__ = ["Cast", "Covariate", "Span", "assemble_cast", "time_span"]

_DAYS_AHEAD = 365.25
_SHARE_AHEAD = 0.1
_MOST_COVARIATES = 12


class Span(NamedTuple):
    """The times that a report covers, in the data's unit.

    Attributes:
        begin: the first match.
        last: the last match.
        end: how far forecasts reach.
        recent: who played after this is active.
    """

    begin: float
    last: float
    end: float
    recent: float


class Covariate(NamedTuple):
    """A further feature of matches, whose coefficient the reader chooses.

    Attributes:
        name: the name of the feature.
        value: the coefficient to begin with.
    """

    name: Hashable
    value: float


class Cast(NamedTuple):
    """Competitors and the features that matches are made of.

    Attributes:
        competitors: who is compared, each with the features that make up the score.
        home: the feature of the home advantage, if there is one.
        level: the feature that all counts share, if there is one.
        covariates: further features.
        left_out: how many more features the model has; they count as zero.
    """

    competitors: Competitors
    home: Hashable | None
    level: Hashable | None
    covariates: list[Covariate]
    left_out: int

    @property
    def features(self) -> list[Hashable]:
        """All features in the order in which the page numbers them."""
        own = [name for each in self.competitors.features for name in each]
        shared = [name for name in (self.home, self.level) if name is not None]
        return own + shared + [covariate.name for covariate in self.covariates]


def time_span(index: Index) -> Span:
    """The times of the data and a tenth more, but no more than a year of dates."""
    begin, last = float(index.times.min()), float(index.times.max())
    ahead = _SHARE_AHEAD * (last - begin)
    recent = last - ahead
    if index.scale.dates:
        year = _DAYS_AHEAD / UNITS[index.unit or "year"]
        ahead, recent = min(ahead, year), last - year
    return Span(begin, last, last + ahead, recent)


def assemble_cast(index: Index) -> Cast:
    """Tell competitors from what else a model has features of.

    Args:
        index: the data's index.
    """
    counts = index.recipe is not None and index.recipe.counts is not None
    group = None if counts or len(index.groups) == 1 else _group_of_competitors(index)
    competitors = choose_competitors(index, None, None, group, 1, None)
    known = _constants(index)
    kept = [
        place for place, each in enumerate(competitors.features) if not each.keys() & known.keys()
    ]
    competitors = _select(competitors, kept)
    own = {name for each in competitors.features for name in each}
    home = HOME if HOME in index.names and HOME not in own else None
    level = LEVEL if counts else None
    others = [
        name
        for name, count in zip(index.names, index.counts, strict=True)
        if count and name not in own and name not in (home, level)
    ]
    shown = others if len(others) <= _MOST_COVARIATES else []
    covariates = [Covariate(name, known.get(name, 0.0)) for name in shown]
    return Cast(competitors, home, level, covariates, len(others) - len(shown))


def _group_of_competitors(index: Index) -> str | None:
    """The usual group; where the user named all groups otherwise, the largest."""
    if DEFAULT_GROUP in index.groups:
        return None
    sizes = np.bincount(index.feature_group[index.feature_group >= 0])
    return index.groups[int(np.argmax(sizes))]


def _constants(index: Index) -> dict[Hashable, float]:
    """Covariates of the data with the coefficient that all matches have, or zero."""
    if index.recipe is None:
        return {}
    return {
        name: 0.0 if isinstance(value, str) else float(value)
        for name, value in index.recipe.covariates
    }


def _select(competitors: Competitors, kept: list[int]) -> Competitors:
    def pick(values: list) -> list[Any]:
        return [values[place] for place in kept]

    return competitors._replace(
        names=pick(competitors.names),
        features=pick(competitors.features),
        matches=competitors.matches[kept],
        last_active=competitors.last_active[kept],
    )
