"""One data set of the shares of all processes; see `Dataset.from_shares`."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, NoReturn

import jax
import numpy as np
from jax.sharding import Mesh

from jaxkick.dataset.assembly import Assembled
from jaxkick.dataset.constructors import AbstractConstructors
from jaxkick.dataset.counts import CountGroups
from jaxkick.dataset.encoding import Observations
from jaxkick.dataset.exchange import exchange
from jaxkick.dataset.growth import join_observations
from jaxkick.dataset.names import Groups, group_name
from jaxkick.dataset.recipe import Recipe
from jaxkick.dataset.sharding import check_mesh
from jaxkick.dataset.times import TimeScale

if TYPE_CHECKING:
    from jaxkick.dataset.dataset import Dataset

__all__ = ["KINDS", "Share", "Whole", "gather_shares", "join_shares", "share_of"]


class Share(NamedTuple):
    """What a process tells the others of its rows.

    Attributes:
        assembled: its observations, if it has any. A function as rule for the groups is left
            out: it cannot be sent.
        has_function: whether such a function was left out.
        dtype: name of the floating-point type.
        row_length: steps of the rows of the chains, where the user chose them.
        devices: the mesh in words.
    """

    assembled: Assembled | None
    has_function: bool
    dtype: str
    row_length: int | None
    devices: str


class Whole(NamedTuple):
    """The observations of all processes, as `Dataset.from_assembled` takes them."""

    assembled: Assembled
    dtype: np.dtype
    row_length: int | None


KINDS: dict[str, type] = {
    kind.__name__: kind for kind in (Share, Assembled, Observations, TimeScale, Recipe, CountGroups)
}
"""The classes that a share is made of."""


def gather_shares(read: Callable[[], "Dataset | None"], mesh: Mesh) -> Whole:
    """The observations of all processes.

    Args:
        read: reads the rows of this process.
        mesh: the devices of all processes.

    Returns:
        The same in every process, but for a function as rule for the groups: each process
        keeps its own.

    Raises:
        ValueError: the same in every process.
    """
    rule: Groups = None

    def tell() -> Share:
        nonlocal rule
        _check_covered(mesh)
        data = read()
        share = share_of(data, mesh)
        rule = None if data is None else data.index.grouping
        return share

    shares = exchange(tell, KINDS)
    whole = join_shares(shares)
    if not shares[0].has_function:
        return whole
    observations = whole.assembled.observations._replace(grouping=rule)
    names = observations.names
    _check_told(names, exchange(lambda: tuple(group_name(rule, name) for name in names), {}))
    return whole._replace(assembled=whole.assembled._replace(observations=observations))


def share_of(data: "Dataset | None", mesh: Mesh) -> Share:
    """What a process tells of its data.

    Raises:
        TypeError: if it is no data set.
        ValueError: if it is already shared out to devices.
    """
    devices = f"{dict(mesh.shape)} of the devices {[device.id for device in mesh.devices.flat]}"
    if data is None:
        return Share(None, False, "", None, devices)
    if not isinstance(data, AbstractConstructors):
        raise TypeError(
            f"`read` returned an object of type {type(data).__name__}, but must return the "
            "`Dataset` of this process's rows, or None if it has none."
        )
    if data.mesh is not None:
        raise ValueError(
            "`read` returned data that is already shared out to devices; leave out `shard`."
        )
    assembled = data.disassembled()
    rule = assembled.observations.grouping
    has_function = callable(rule) and not isinstance(rule, CountGroups)
    if has_function:
        assembled = _with_rule(assembled, None)
    dtype = np.dtype(data.outcome.dtype).name
    return Share(assembled, has_function, dtype, data.index.row_length, devices)


def join_shares(shares: Sequence[Share]) -> Whole:
    """The observations of all shares, one share after the other.

    Raises:
        ValueError: if the shares do not fit together.
    """
    everyone = dict(enumerate(shares))
    _check_same(everyone, _MESH)
    _check_same(everyone, _FUNCTION)
    known = {process: share for process, share in everyone.items() if share.assembled is not None}
    if not known:
        raise ValueError("no process has any rows; give at least one of them some.")
    for aspect in (_TIMES, _DTYPE, _ROW_LENGTH):
        _check_same(known, aspect)
    parts = {process: share.assembled for process, share in known.items() if share.assembled}
    rule = _join_rules({process: part.observations for process, part in parts.items()})
    first = next(iter(known.values()))
    joined = _with_rule(join_observations(list(parts.values())), rule)
    return Whole(joined, np.dtype(first.dtype), first.row_length)


class _Aspect(NamedTuple):
    """What must be alike in all shares: how to say it, and what to do if it is not."""

    show: Callable[[Share], str]
    remedy: str


def _show_times(share: Share) -> str:
    return f"times {share.assembled.observations.scale.describe()}" if share.assembled else ""


_MESH = _Aspect(lambda share: f"the mesh {share.devices}", "give all the same `mesh`")
_FUNCTION = _Aspect(
    lambda share: f"{'a' if share.has_function else 'no'} function as `groups`",
    "a function cannot be sent: give it to all, with rows for each, or give a mapping",
)
_TIMES = _Aspect(_show_times, "build all shares with one kind of times and the same `unit`")
_DTYPE = _Aspect(lambda share: share.dtype, "pass the same `dtype` to all")
_ROW_LENGTH = _Aspect(
    lambda share: f"`row_length={share.row_length}`", "pass the same `row_length` to all"
)


def _check_same(shares: Mapping[int, Share], aspect: _Aspect) -> None:
    said = {process: aspect.show(share) for process, share in shares.items()}
    first, expected = next(iter(said.items()))
    for process, found in said.items():
        if found != expected:
            raise ValueError(
                f"process {process} has {found}, but process {first} has {expected}; "
                f"{aspect.remedy}."
            )


def _check_covered(mesh: Mesh) -> None:
    check_mesh(mesh)
    there = {device.process_index for device in mesh.devices.flat}
    missing = sorted(set(range(jax.process_count())) - there)
    if missing:
        raise ValueError(
            f"`mesh` has no device of process {missing[0]}; make it of all devices, with "
            '`jax.make_mesh((jax.device_count(),), ("rows",))`.'
        )


def _with_rule(assembled: Assembled, rule: Groups) -> Assembled:
    return assembled._replace(observations=assembled.observations._replace(grouping=rule))


def _join_rules(parts: Mapping[int, Observations]) -> Groups:
    """One rule that gives every share the groups that its own rule gives.

    Raises:
        ValueError: if there is none.
    """
    rules = {process: part.grouping for process, part in parts.items()}
    first = next(iter(rules.values()))
    if all(rule == first for rule in rules.values()):
        return first
    named: dict[Hashable, str] = {}
    for rule in rules.values():
        named = {**_named(rule), **named}
    counts = any(isinstance(rule, CountGroups) for rule in rules.values())
    joined = CountGroups(named) if counts else named
    for process, rule in rules.items():
        for name in (*parts[process].names, *_named(rule)):
            own, other = group_name(rule, name), group_name(joined, name)
            if own != other:
                _refuse_groups(name, process, own, other)
    return joined


def _named(rule: Groups) -> dict[Hashable, str]:
    """The groups that a rule other than a function gives by name."""
    if isinstance(rule, CountGroups):
        return rule.named
    return dict(rule) if isinstance(rule, Mapping) else {}


def _check_told(names: Sequence[Hashable], told: Sequence[Sequence[str]]) -> None:
    """Refuse functions that give different groups for one name."""
    for process, groups in enumerate(told):
        if groups != told[0]:
            place = next(
                k for k, pair in enumerate(zip(groups, told[0], strict=True)) if pair[0] != pair[1]
            )
            _refuse_groups(names[place], process, groups[place], told[0][place])


def _refuse_groups(name: Hashable, process: int, own: str, other: str) -> NoReturn:
    raise ValueError(
        f"`groups` gives {own!r} for the feature {name!r} in process {process}, but {other!r} in "
        "another; give all processes the same `groups`."
    )
