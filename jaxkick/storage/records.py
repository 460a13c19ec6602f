"""What is kept of data sets and posteriors: independent of the layout of the chains."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from jaxkick.dataset.assembly import Assembled
from jaxkick.dataset.counts import CountGroups
from jaxkick.dataset.dataset import Dataset
from jaxkick.dataset.encoding import Observations
from jaxkick.dataset.growth import by_chain, by_slot
from jaxkick.dataset.names import Groups
from jaxkick.dataset.recipe import Recipe
from jaxkick.dataset.times import TimeScale
from jaxkick.inference.ending import Result
from jaxkick.inference.method import AbstractMethod
from jaxkick.inference.problem import ScoreMoments
from jaxkick.posterior import Posterior
from jaxkick.statespace.step import Site
from jaxkick.stream.filter import GroupState
from jaxkick.stream.roster import Roster
from jaxkick.stream.stream import Stream

__all__ = ["FileGroups", "pack_posterior", "pack_stream", "posterior_from", "stream_from"]

_NUMBERS = ("log_marginal_likelihood", "steps", "distance", "damping", "result")
_PLAIN = ("model", "method", *_NUMBERS)
_OF_STREAM = ("model", "epoch", "widths", "num_observations", "log_evidence")
_BY_SLOT = ("precision_mean", "precision", "entry_mean", "entry_variance")


@dataclass(frozen=True)
class FileGroups:
    """Groups that a function once told: those of the names that were known when it was saved.

    Attributes:
        known: groups by name.
    """

    known: dict[Hashable, str]

    def __call__(self, name: Hashable) -> str:
        """The group of a feature.

        Raises:
            ValueError: if the name was not known.
        """
        if name not in self.known:
            raise ValueError(
                f"the group of {name!r} is not known: `groups` was a function, which a file does "
                "not hold; pass it again, as in `load(path, groups=function)`."
            )
        return self.known[name]


def pack_grouping(grouping: Groups, names: tuple[Hashable, ...]) -> Groups:
    """A rule for the groups that can be written down."""
    if not callable(grouping) or isinstance(grouping, (CountGroups, FileGroups)):
        return grouping
    return FileGroups({name: grouping(name) for name in names})


def pack_posterior(posterior: Posterior) -> dict[str, Any]:
    """The parts of a posterior."""
    slots = np.asarray(posterior.data.slots)
    columns = [*zip(*posterior.sites, strict=True), *zip(*posterior.entries, strict=True)]
    parts = {name: by_slot(part, slots) for name, part in zip(_BY_SLOT, columns, strict=True)}
    moments = dict(zip(("mean", "variance"), posterior.observations, strict=True))
    plain = {name: getattr(posterior, name) for name in _PLAIN}
    return {**plain, "data": _pack_data(posterior.data), **parts, **moments}


def posterior_from(parts: dict[str, Any], groups: Groups) -> Posterior:
    """A posterior of its parts.

    Raises:
        ValueError: if they do not fit together.
    """
    data = data_from(parts["data"], groups)
    if any(np.shape(parts[name]) != () for name in _NUMBERS) or int(parts["result"]) not in set(
        Result
    ):
        raise ValueError("the file holds no numbers where those of a fit were expected.")
    if not isinstance(parts["method"], AbstractMethod):
        raise ValueError("the file holds no method of inference.")
    slots = np.asarray(data.slots)
    for name in _BY_SLOT:
        if np.shape(parts[name]) != slots.shape:
            raise ValueError(f"the file holds {name} of another shape than its data.")
    chains = [by_chain(parts[name], slots, data.index.shapes) for name in _BY_SLOT]
    if any(np.shape(parts[name]) != data.outcome.shape for name in ("mean", "variance")):
        raise ValueError("the file holds moments of another number of observations.")
    return Posterior(
        data=data,
        sites=tuple(Site(*chain) for chain in zip(*chains[:2], strict=True)),
        entries=tuple(ScoreMoments(*chain) for chain in zip(*chains[2:], strict=True)),
        observations=ScoreMoments(parts["mean"], parts["variance"]),
        **{name: parts[name] for name in _PLAIN},
    )


def pack_stream(stream: Stream) -> dict[str, Any]:
    """The parts of a stream."""
    roster = {field.name: getattr(stream.roster, field.name) for field in fields(Roster)}
    roster["grouping"] = pack_grouping(stream.roster.grouping, stream.roster.names)
    plain = {name: getattr(stream, name) for name in _OF_STREAM}
    return {**plain, "states": tuple(map(tuple, stream.states)), "roster": roster}


def stream_from(parts: dict[str, Any], groups: Groups) -> Stream:
    """A stream of its parts.

    Raises:
        ValueError: if they do not fit together.
    """
    known = dict(parts["roster"])
    if groups is not None:
        known["grouping"] = groups
    roster = Roster(**known)
    states = tuple(GroupState(*state) for state in parts["states"])
    arrays = (roster.group, roster.row, roster.first, roster.last, roster.matches)
    if (
        any(array.shape != (len(roster.names),) for array in arrays)
        or len(states) != len(roster.groups)
        or any(size >= len(s.m) for size, s in zip(roster.sizes(), states, strict=True))
    ):
        raise ValueError("the file holds a stream whose parts do not fit together.")
    return Stream(roster=roster, states=states, **{name: parts[name] for name in _OF_STREAM})


def data_from(parts: dict[str, Any], groups: Groups) -> Dataset:
    """A data set of its parts.

    Raises:
        ValueError: if they do not fit together.
    """
    times, features = parts["times"], parts["features"]
    coefficients, outcome = parts["coefficients"], parts["outcome"]
    weight, names, rows = parts["weight"], parts["names"], parts["rows"]
    rows_fit = all(
        part is None or len(part) == len(times)
        for part in (features, coefficients, outcome, weight, rows)
    )
    if (
        not rows_fit
        or len(times) == 0
        or not np.isfinite(times).all()
        or features.ndim != 2
        or features.shape != coefficients.shape
        or features.dtype != np.int32
        or features.min() < -1
        or features.max() >= len(names)
        or not isinstance(parts["scale"], TimeScale)
        or not isinstance(parts["recipe"], Recipe | None)
    ):
        raise ValueError("the file holds observations that do not fit together.")
    grouping = parts["grouping"] if groups is None else groups
    observations = Observations(
        times, features, names, grouping, parts["scale"], rows, parts["recipe"]
    )
    assembled = Assembled(observations, coefficients, outcome, weight)
    return Dataset.from_assembled(assembled, outcome.dtype, parts["row_length"])


def _pack_data(data: Dataset) -> dict[str, Any]:
    observations, coefficients, outcome, weight = data.disassembled()
    grouping: Callable | Any = pack_grouping(observations.grouping, observations.names)
    return {
        "times": observations.times,
        "features": observations.features,
        "names": observations.names,
        "grouping": grouping,
        "scale": observations.scale,
        "rows": observations.rows,
        "recipe": observations.recipe,
        "row_length": data.index.row_length,
        "coefficients": coefficients,
        "outcome": outcome,
        "weight": weight,
    }
