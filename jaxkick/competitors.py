"""Whom a leaderboard compares, and what they have played."""

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxkick.dataset.counts import attack_of, defence_of
from jaxkick.dataset.directory import Directory
from jaxkick.dataset.home import HOME
from jaxkick.dataset.names import DEFAULT_GROUP
from jaxkick.dataset.validation import suggest_names

__all__ = ["Competitors", "choose_competitors"]


class Competitors(NamedTuple):
    """Competitors at a time.

    Attributes:
        names: their names.
        features: for each the features with coefficients that make up the score.
        time: the time in the user's terms.
        matches: how many matches each had until then.
        last_active: when the last of them was, in the user's terms.
        by_counts: whether scores are sums of attack and defence.
    """

    names: list[Hashable]
    features: list[dict[Hashable, float]]
    time: Any
    matches: np.ndarray
    last_active: np.ndarray
    by_counts: bool


def choose_competitors(
    directory: Directory,
    time: Any,
    names: Sequence[Hashable] | None,
    group: str | None,
    min_matches: int,
    active_within: float | None,
) -> Competitors:
    """Read whom a leaderboard is to compare; see `AbstractRatings.leaderboard`.

    Raises:
        ValueError: if a name or group is unknown, or nobody is left.
    """
    number = directory.latest if time is None else float(directory.to_time(time, "time"))
    recipe = directory.recipe
    by_counts = group is None and recipe is not None and recipe.counts is not None
    if names is None:
        names = _all_names(directory, "attack" if by_counts else group)
    features = [_features_of(name, by_counts) for name in names]
    matches, last = _played(directory, features, number)
    since = -np.inf if active_within is None else number - active_within
    kept = np.flatnonzero((matches >= max(min_matches, 1)) & (last >= since))
    if not kept.size:
        raise ValueError(
            "nobody is left to compare at this time; lower `min_matches`, raise `active_within`, "
            "or choose a later `time`."
        )
    labels = [_label_of(name, by_counts) for name in names]
    return Competitors(
        [labels[place] for place in kept],
        [features[place] for place in kept],
        directory.scale.to_user(number)[()],
        matches[kept],
        directory.scale.to_user(last[kept]),
        by_counts,
    )


def _all_names(directory: Directory, group: str | None) -> list[Hashable]:
    """All features of a group; without one, those that are no covariates."""
    others: set[Hashable] = set()
    if group is None:
        group = directory.groups[0] if len(directory.groups) == 1 else DEFAULT_GROUP
        if directory.recipe is not None:
            others = {HOME, *(name for name, _ in directory.recipe.covariates)}
    if group not in directory.groups:
        known = ", ".join(map(repr, directory.groups))
        raise ValueError(f"`group` is {group!r}, but must be one of {known}, or pass `names`.")
    return [name for name in directory.members(group) if name not in others]


def _features_of(name: Hashable, by_counts: bool) -> dict[Hashable, float]:
    if not by_counts:
        return {name: 1.0}
    team = _label_of(name, by_counts)
    return {attack_of(team): 1.0, defence_of(team): 1.0}


def _label_of(name: Hashable, by_counts: bool) -> Hashable:
    """The team of an attack."""
    return str(name).removesuffix(" attack") if by_counts else name


def _played(
    directory: Directory, features: Sequence[dict[Hashable, float]], until: float
) -> tuple[np.ndarray, np.ndarray]:
    """How many matches competitors have had until a time, and when the last was."""
    known = set(directory.names)
    played = []
    for each in features:
        name = next(iter(each))
        if name not in known:
            raise ValueError(
                f"`names` has {name!r}, which takes part in no observation; "
                f"{suggest_names(name, directory.names)}"
            )
        played.append(directory.played(name, until))
    return np.array([each.matches for each in played]), np.array([each.last for each in played])
