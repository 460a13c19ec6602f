"""Matches as the compiled pass reads them: in the order of time, in few different shapes."""

import jax
import numpy as np

from jaxkick.dataset.assembly import Assembled
from jaxkick.dataset.validation import list_rows
from jaxkick.model import Model
from jaxkick.statespace.step import Moment
from jaxkick.stream.filter import Batch, GroupBatch
from jaxkick.stream.roster import Roster, previous_times

__all__ = ["make_batch", "power_of_two"]


def make_batch(
    assembled: Assembled,
    roster: Roster,
    model: Model,
    widths: tuple[int, ...],
    capacities: tuple[int, ...],
    epoch: float,
    dtype: np.dtype,
) -> tuple[Batch, Roster, tuple[int, ...]]:
    """Lay matches out for one pass.

    Args:
        assembled: the matches.
        roster: the features seen so far, those of the matches among them.
        model: for the prior means.
        widths: slots of each group so far; they only grow, so that shapes seldom change.
        capacities: rows of each group's states, without the spare one.
        epoch: the time that offsets count from.
        dtype: floating-point type; differences are taken in float64.

    Returns:
        The batch, the roster after it, and the widths.

    Raises:
        ValueError: if a match is earlier than one that a feature has had.
    """
    order = np.argsort(assembled.observations.times, kind="stable")
    times = assembled.observations.times[order]
    codes = np.append(roster.feature_ids(assembled.observations.names), -1)
    features = codes[assembled.observations.features[order]]
    there = features >= 0
    entry_times = np.broadcast_to(times[:, None], features.shape)[there]
    previous = np.full(features.shape, np.nan)
    previous[there] = previous_times(features[there], entry_times, roster.last)
    _check_order(previous > times[:, None], order)
    after = roster.after(features[there], entry_times)
    groups = np.where(there, roster.group[features], -1)
    slots = [int((groups == number).sum(axis=1).max()) for number in range(len(roster.groups))]
    widths = tuple(max(pair) for pair in zip(slots, (*widths, *[1] * len(slots)), strict=False))
    coefficients = assembled.coefficients[order]
    parts = []
    for number, (width, capacity) in enumerate(zip(widths, capacities, strict=True)):
        chosen = np.argsort(groups != number, axis=1, kind="stable")[:, :width]
        take = lambda array, chosen=chosen: np.take_along_axis(array, chosen, axis=1)  # noqa: E731
        own = take(groups) == number
        feature = np.where(own, take(features), 0)
        row = np.where(own, roster.row[feature], capacity).astype(np.int32)
        mean = np.asarray(model.mean_of(roster.groups[number], feature, dtype))
        parts.append(
            GroupBatch(
                row,
                np.where(own, take(coefficients), 0.0).astype(dtype),
                mean,
                _moment(times[:, None], take(previous), after.first[feature], own, epoch, dtype),
            )
        )
    weight = None if assembled.weight is None else assembled.weight[order].astype(dtype)
    batch = Batch(
        tuple(parts), assembled.outcome[order].astype(dtype), weight, np.ones(len(times), bool)
    )
    return _pad(batch, capacities), after, widths


def power_of_two(number: int) -> int:
    """The smallest power of two that is not below a number."""
    return 1 << max(number - 1, 0).bit_length()


def _moment(
    times: np.ndarray,
    previous: np.ndarray,
    first: np.ndarray,
    own: np.ndarray,
    epoch: float,
    dtype: np.dtype,
) -> Moment:
    opens = np.isnan(previous) | ~own
    times = np.broadcast_to(times, opens.shape)
    return Moment(
        np.where(opens, 0.0, times - previous).astype(dtype),
        (times - epoch).astype(dtype),
        np.where(own, times - first, 0.0).astype(dtype),
        opens,
    )


def _pad(batch: Batch, capacities: tuple[int, ...]) -> Batch:
    """A number of matches that is a power of two; the rest is not there."""
    room = power_of_two(len(batch.outcome)) - len(batch.outcome)

    def pad(array: np.ndarray, value: float | None = None) -> np.ndarray:
        tail = array[-1:] if value is None else np.full_like(array[-1:], value)
        return np.concatenate([array, np.repeat(tail, room, axis=0)])

    groups = tuple(
        GroupBatch(
            pad(part.row, capacity),
            pad(part.coefficient, 0.0),
            pad(part.mean),
            jax.tree.map(pad, part.moment)._replace(first=pad(part.moment.first, 1)),
        )
        for part, capacity in zip(batch.groups, capacities, strict=True)
    )
    weight = None if batch.weight is None else pad(batch.weight)
    return Batch(groups, pad(batch.outcome), weight, pad(batch.there, 0))


def _check_order(late: np.ndarray, order: np.ndarray) -> None:
    if late.any():
        bad = np.zeros(len(late), bool)
        bad[order] = late.any(axis=1)
        raise ValueError(
            f"a match is earlier than one that its competitors have had, in {list_rows(bad)}; a "
            "stream sees matches in the order of time, `Posterior.update` takes them in any order."
        )
