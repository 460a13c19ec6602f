"""Online ratings: one scan over matches in time order, for `Stream`, Elo and TrueSkill.

Each competitor is represented by the mean m and covariance P of its state after its last match.
Before a match, the states of its competitors are propagated to the time of the match. Let φ = P h,
x the coefficient, and δ₁ and δ₂ the derivatives of the log-partition function at the predicted
score. The match changes the states to

    m + φ x δ₁      P + x² δ₂ φ φᵀ,

which is a single step of expectation propagation (assumed-density filtering). An event of several
scores, such as a race, is one step: the likelihood gives δ₁ and δ₂ for each score, and a competitor
is updated with those of its own score. A feature of several sides is updated with each of its
sites, one after the other.

TrueSkill is the special case of a `Wiener` kernel with additional variance before each match. Elo
is the special case of a `Constant` kernel with the rate as its variance, and with the derivative of
the log-likelihood at the mean as δ₁ and δ₂ = 0, so that P does not change.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.ops import segment_sum

from jaxkick._math.small_matrices import AbstractMatrix
from jaxkick._typing import Array, Bool, Float, Int
from jaxkick.chains.step import StepModel, StepTime
from jaxkick.data.aspect_columns import AspectNames
from jaxkick.data.columns import TimeScale, show_time
from jaxkick.data.dataset import Dataset, read_alike
from jaxkick.data.directory import AbstractDirectory, Played
from jaxkick.data.observations import Observations
from jaxkick.data.queries import Query
from jaxkick.data.reading import Rules
from jaxkick.data.schema import GENERAL, Groups, Schema
from jaxkick.errors import DataError, OnInvalid
from jaxkick.inference.checks import check_fit, check_kinds, check_outcomes
from jaxkick.inference.problem import ScoreMoments
from jaxkick.kernels import Epoch, Instant
from jaxkick.likelihoods.likelihood import refuse_own_numbers
from jaxkick.model import Model
from jaxkick.parameters import AbstractParameter, resolve
from jaxkick.posterior.diagnostics import warn_of_new_names
from jaxkick.posterior.predictor import AbstractPredictor

ABSENT = -1.0
"""The outcome of a score that an event does not have."""
EMPTY = np.iinfo(np.int32).max
"""The feature number of an empty slot. It is out of range, so nothing is written there."""


class GroupState(NamedTuple):
    """States of all features of one group, each after its last match.

    Rows are indexed by feature number. Rows of features in other groups are unused.
    """

    m: Float[Array, "M K"]
    P: Float[Array, "M K K"]


class Slots(NamedTuple):
    """The features of one group in each match.

    Attributes:
        feature: feature numbers; `EMPTY` in an empty slot.
        coefficient: their coefficients; 0 in an empty slot.
        score: for events of several scores, the number of the score that the slot belongs to.
        turns: for events with features of several scores, `feature` of the first slot of each
            feature, of the second one, and so on; `EMPTY` elsewhere.
        time: time of the match, relative to the feature's previous match.
        block_slot: position, in the flattened slots, of the feature's last match in an earlier
            block, if matches are divided into blocks.
        block_time: time of the match, relative to that earlier match.
    """

    feature: Int[np.ndarray, "B S"]
    coefficient: Float[np.ndarray, "B S"]
    time: StepTime
    block_slot: Int[np.ndarray, "B S"] | None = None
    block_time: StepTime | None = None
    score: Int[np.ndarray, "B S"] | None = None
    turns: Int[np.ndarray, "B R S"] | None = None


class Matches(NamedTuple):
    """Matches, or events of several scores, in time order.

    Attributes:
        groups: the competitors, group by group.
        outcome: outcome of each match; of each score of an event, and -1 for those it lacks.
        weight: weight of each match; `None` if all are one.
        mask: False where a match is padding.
    """

    groups: tuple[Slots, ...]
    outcome: Float[np.ndarray, "B *C"]
    weight: Float[np.ndarray, " B"] | None
    mask: Bool[np.ndarray, " B"]


class Widths(NamedTuple):
    """The sizes of a compiled scan.

    Attributes:
        scores: the number of scores of a match.
        slots: the number of slots of each group.
        turns: the largest number of slots of a feature in a match, for each group.
    """

    scores: int = 1
    slots: tuple[int, ...] = ()
    turns: tuple[int, ...] = ()

    @staticmethod
    def of(matches: Matches) -> "Widths":
        """Return the sizes of a scan of these matches."""
        return Widths(
            scores=matches.outcome[0].size,
            slots=tuple(part.feature.shape[1] for part in matches.groups),
            turns=tuple(1 if x.turns is None else x.turns.shape[1] for x in matches.groups),
        )


class Rule(eqx.Module):
    """The update rule of an online rating system.

    Attributes:
        model: kernels, likelihood and prior means by group.
        epoch: the origin of time offsets.
        groups: names of the groups.
        match_variance: variance added to the states of each group before each match (states of
            dimension 1 only); `None` for zero.
        at_mean: whether to take derivatives at the mean score and ignore its variance, as in Elo.
    """

    model: Model
    epoch: Epoch
    groups: tuple[str, ...] = eqx.field(static=True)
    match_variance: tuple[AbstractParameter, ...] | None = None
    at_mean: bool = eqx.field(default=False, static=True)

    @property
    def dtype(self) -> np.dtype:
        """Floating-point type of the states."""
        return self.epoch.coarse.dtype

    def blank_states(self, rows: int) -> tuple[GroupState, ...]:
        """Return zero states, for features without matches."""
        sizes = [self.model.kernel_of(group).state_dim for group in self.groups]
        zeros = lambda *shape: jnp.zeros(shape, self.dtype)  # noqa: E731
        return tuple(GroupState(zeros(rows, K), zeros(rows, K, K)) for K in sizes)

    def carry(self, number: int, state: GroupState, time: StepTime) -> GroupState:
        """Propagate the states of features of one group to the times of matches."""
        step = self._step(number)

        def carry_one(m: Array, P: Array, now: StepTime) -> GroupState:
            before = StepTime(now.gap, now.offset - now.gap, now.age - now.gap, now.first)
            A = jnp.where(now.first, 0.0, _array(step, step.transition(before, now)))
            noise = _array(step, step.noise_cov(before, now).symmetric())
            prior = _array(step, step.prior_cov(now).symmetric())
            return GroupState(A @ m, A @ P @ A.T + jnp.where(now.first, prior, noise))

        carry = carry_one
        for _ in time.gap.shape:
            carry = jax.vmap(carry)
        m, P = carry(*state, time)
        added = 0.0 if self.match_variance is None else self.match_variance[number].value
        return GroupState(m, P + added)

    def scores(self, number: int, state: GroupState, time: StepTime) -> ScoreMoments:
        """Compute means and variances of the scores of features of one group."""
        h = self.measurement(number, time)
        instant = Instant(time.offset, time.age, self.epoch)
        features = jnp.zeros(time.offset.shape, jnp.int32)
        mean = self.model.mean_of(self.groups[number], features, instant, self.dtype)
        mean = mean if time.aspects is None else mean * time.aspects[GENERAL]
        variance = jnp.einsum("...i,...ij,...j->...", h, state.P, h)
        return ScoreMoments(mean + jnp.sum(state.m * h, axis=-1), variance)

    def combine(
        self, slots: Sequence[Slots], states: Sequence[GroupState], num_scores: int | None = None
    ) -> ScoreMoments:
        """Compute mean and variance of the combined score of each match.

        With `num_scores`, compute those of each score of one event.
        """
        total = ScoreMoments(0.0, 0.0)
        for number, (part, state) in enumerate(zip(slots, states, strict=True)):
            mean, variance = self.scores(number, state, part.time)
            x = part.coefficient
            terms = x * mean, x * x * variance
            if num_scores is None:
                mean, variance = (jnp.sum(each, axis=-1) for each in terms)
            else:
                mean, variance = (segment_sum(each, part.score, num_scores) for each in terms)
            total = ScoreMoments(total.mean + mean, total.variance + variance)
        return total

    def derivatives(self, match: Matches, score: ScoreMoments) -> tuple[Array, Array, Array]:
        """Compute the log-probability of an outcome and its two derivatives δ₁ and δ₂."""
        likelihood, weight = self.model.duel, match.weight
        if match.outcome.ndim:
            (likelihood,) = self.model.likelihoods.values()
            # Rankings have no weights.
            weight = None if likelihood.num_predictors is None else weight
        if not self.at_mean:
            return likelihood.log_partition(match.outcome, *score, weight)
        slope = likelihood.local(match.outcome)(score.mean).first
        slope = slope if match.weight is None else slope * match.weight
        return jnp.zeros_like(slope), slope, jnp.zeros_like(slope)

    def move(
        self,
        number: int,
        slots: Slots,
        before: GroupState,
        first: Array,
        second: Array,
        now: GroupState | None = None,
    ) -> GroupState:
        """Update the states of features of one group with the outcome of a match.

        Args:
            number: the number of the group.
            slots: the features.
            before: their states before the match.
            first: first derivative of the log-partition function at `before`.
            second: its second derivative.
            now: the states to update, if other scores of the event have changed them since.
        """
        h, x = self.measurement(number, slots.time), slots.coefficient
        slope, curvature = x * first, x * x * second
        state = before
        if now is not None:
            # The derivatives of the site that has these derivatives at the state before.
            old, new = (self.scores(number, each, slots.time) for each in (before, now))
            scale = 1.0 / (1.0 + curvature * (old.variance - new.variance))
            slope = scale * (slope + curvature * (new.mean - old.mean))
            state, curvature = now, scale * curvature
        phi = jnp.einsum("...ij,...j->...i", state.P, h)
        P = state.P + (phi[:, :, None] * phi[:, None, :]) * curvature[:, None, None]
        m = state.m + phi * slope[:, None]
        return GroupState(m, 0.5 * (P + jnp.swapaxes(P, 1, 2)))

    def measurement(self, number: int, time: StepTime) -> Float[Array, "... K"]:
        """Return the measurement vectors h of a group's kernel, which depend on the aspects."""
        step = self._step(number)
        if time.aspects is None:
            return _array(step, step.h(time))[:, 0]
        h = lambda now: _array(step, step.h(now))[:, 0]  # noqa: E731
        for _ in time.gap.shape:
            h = jax.vmap(h)
        return h(time)

    def _step(self, number: int) -> StepModel:
        return StepModel(self.model.process_of(self.groups[number]), self.epoch)


def scan_matches(
    rule: Rule, states: tuple[GroupState, ...], matches: Matches
) -> tuple[tuple[GroupState, ...], tuple[Float[Array, " B"], tuple[GroupState, ...]]]:
    """Predict each match from the matches before it, then update the states with it.

    Returns:
        The states after all matches; the log-probability of each outcome, given the matches before
        it; and the states of the competitors after each match.
    """
    rule = resolve(rule, rule.dtype)

    def step(states: tuple[GroupState, ...], match: Matches):
        here = [
            rule.carry(number, _rows(state, part.feature), part.time)
            for number, (state, part) in enumerate(zip(states, match.groups, strict=True))
        ]
        score = rule.combine(match.groups, here, *match.outcome.shape)
        value, *slopes = rule.derivatives(match, score)
        after, moved = [], []
        for number, (part, state, own) in enumerate(zip(match.groups, states, here, strict=True)):
            own_slopes = [x if part.score is None else x[part.score] for x in slopes]
            new = rule.move(number, part, own, *own_slopes)
            if part.turns is None:
                state = _write(state, part.feature, new)
            else:
                move = partial(rule.move, number, part, own, *own_slopes)
                state = _take_turns(move, part, _write(state, part.feature, own))
                new = _rows(state, part.feature)
            after.append(state)
            moved.append(new)
        return tuple(after), (jnp.where(match.mask, value, 0.0), tuple(moved))

    return lax.scan(step, states, jax.tree.map(jnp.asarray, matches))


def predict_blocks(rule: Rule, states: tuple[GroupState, ...], matches: Matches) -> ScoreMoments:
    """Predict the score of each match from earlier blocks; for Elo, variances are 0."""
    matches = jax.tree.map(jnp.asarray, matches)
    _, (_, after) = scan_matches(rule, states, matches)
    rule = resolve(rule, rule.dtype)
    before = []
    for number, (state, part) in enumerate(zip(after, matches.groups, strict=True)):
        flat = jax.tree.map(lambda array: array.reshape(-1, *array.shape[2:]), state)
        before.append(rule.carry(number, _rows(flat, part.block_slot), part.block_time))
    mean, variance = rule.combine(matches.groups, before)
    return ScoreMoments(mean, jnp.zeros_like(variance) if rule.at_mean else variance)


class Past(eqx.Module):
    """Past matches in time order, divided into blocks, ready for the scan.

    Attributes:
        matches: the matches.
        epoch: the origin of time offsets.
        order: the observation of each match.
        groups: names of the groups.
        num_features: number of features.
    """

    matches: Matches
    epoch: Epoch
    order: np.ndarray
    groups: tuple[str, ...] = eqx.field(static=True)
    num_features: int = eqx.field(static=True)

    @staticmethod
    def of(data: Dataset, blocks: np.ndarray, used: np.ndarray) -> "Past":
        """Lay out the observations where `used` is True; blocks increase with time."""
        order = np.flatnonzero(used)
        order = order[np.lexsort((order, data.index.times[order]))]
        roster, dtype = Roster.of(data), np.dtype(data.outcome.dtype)
        rows, blocks = order[:, None], blocks[order]
        matches, _ = lay_out(data.observations, rows, roster, dtype, blocks=blocks)
        epoch = Epoch.at(roster.epoch, dtype)
        return Past(matches, epoch, order, roster.groups, len(roster.names))

    def predict(self, rule: Rule) -> ScoreMoments:
        """Predict the score of each match from earlier blocks."""
        return predict_blocks(rule, rule.blank_states(self.num_features), self.matches)


def check_online(model: Model, data: Dataset, events: bool = False) -> None:
    """Refuse a model or data that the scan cannot process.

    Args:
        model: kernels and likelihood.
        data: the matches.
        events: whether events of several scores are possible.

    Raises:
        DataError: if the model has a prior mean for each feature, events of several scores or
            several kinds of observations, or an outcome is not valid for its likelihood.
    """
    check_kinds(model, data)
    if model.has_feature_means:
        raise DataError(
            "{argument} of the model has one value for each feature, but a stream meets new "
            "features",
            "Pass one number, or one for each group.",
            argument="mean",
        )
    if len(model.likelihoods) > 1:
        raise DataError(
            "A stream processes observations of one kind, but the model has several",
            "Use `infer` and `Posterior.update`.",
        )
    if not events and any(each.num_predictors != 1 for each in model.likelihoods.values()):
        raise DataError(
            "Only matches of one score can be predicted from earlier ones in one scan, but the "
            "model has events of several scores",
            'Use `objective="evidence"`.',
        )
    refuse_own_numbers(model.duel)


def _rows(state: GroupState, rows: Array) -> GroupState:
    return jax.tree.map(lambda part: part.at[rows].get(mode="clip"), state)


def _write(state: GroupState, rows: Array, new: GroupState) -> GroupState:
    return jax.tree.map(lambda old, part: old.at[rows].set(part, mode="drop"), state, new)


def _take_turns(
    move: Callable[[GroupState], GroupState], slots: Slots, state: GroupState
) -> GroupState:
    """Update the features of a match, slot by slot if a feature has several."""

    def take(state: GroupState, feature: Array) -> tuple[GroupState, None]:
        return _write(state, feature, move(_rows(state, slots.feature))), None

    state, _ = lax.scan(take, state, slots.turns)
    return state


def _array(step: StepModel, small: AbstractMatrix) -> Array:
    return small.filled(step.dtype).to_array()


@dataclass(frozen=True, eq=False)
class Roster(AbstractDirectory):
    """Names, groups, times and matches of features; new features can be added.

    Attributes:
        names: name of each feature.
        groups: names of all groups.
        group: index of each feature's group.
        first: time of each feature's first match; NaN without matches.
        last: time of each feature's last match; NaN without matches.
        matches: number of matches of each feature.
        epoch: the origin of time offsets.
        scale: conversion between the user's times and numbers.
        grouping: the user's mapping from names to groups.
        schema: the columns of the user's table, or `None`.
        library: the library of the user's table, or `None`.
        known_aspects: the names of the aspects of competitors.
    """

    names: tuple[Hashable, ...]
    groups: tuple[str, ...]
    group: np.ndarray
    first: np.ndarray
    last: np.ndarray
    matches: np.ndarray
    epoch: float
    scale: TimeScale
    grouping: Groups
    schema: Schema | None
    library: str | None
    known_aspects: AspectNames

    @staticmethod
    def of(data: Dataset) -> "Roster":
        """List the features of a data set, without matches."""
        index = data.index
        known = np.flatnonzero(index.feature_group >= 0)
        names = tuple(index.names[feature] for feature in known)
        blank = np.full(len(known), np.nan)
        # Observations of a single kind have the columns of that kind.
        schema = index.schema if len(index.kind_names) != 1 else index.kind_schemas[0]
        described = (index.scale, index.grouping, schema, index.library, index.known_aspects)
        group, matches = index.feature_group[known], np.zeros(len(known), np.int64)
        return Roster(names, index.groups, group, blank, blank, matches, index.epoch, *described)

    @property
    def latest(self) -> float:
        return float(np.nanmax(self.last))

    def members(self, group: str) -> list[Hashable]:
        chosen = (self.group == self.groups.index(group)) & (self.matches > 0)
        return [self.names[member] for member in np.flatnonzero(chosen)]

    def played(self, name: Hashable, until: float) -> Played:
        number = self._numbers.get(name)
        if number is None or not self.matches[number]:
            return Played(0, -np.inf)
        self.check_time(np.array([number]), np.array([until]))
        return Played(int(self.matches[number]), float(self.last[number]))

    def check_time(self, features: np.ndarray, times: np.ndarray) -> None:
        """Refuse times before the last match of a feature."""
        early = (features >= 0) & (times < self.last[features])
        if early.any():
            name = self.names[features[int(np.argmax(early))]]
            raise DataError(
                f"{{argument}} is before the last match of {name!r}",
                "A stream keeps only current scores. Pass a later time, or fit all matches "
                "with `infer`.",
                argument="time",
            )

    def extended(self, matches: Observations) -> "Roster":
        """Return the roster with the new names and aspects of matches added."""
        new = [name for name in matches.names if name not in self._numbers]
        known_aspects = self.known_aspects.joined(matches.known_aspects)
        if not new and known_aspects == self.known_aspects:
            return self
        new_groups = [self.group_of(name) for name in new]
        groups = tuple(dict.fromkeys([*self.groups, *new_groups]))
        blank = np.full(len(new), np.nan)
        return replace(
            self,
            names=(*self.names, *new),
            groups=groups,
            group=np.append(self.group, [groups.index(group) for group in new_groups]),
            first=np.append(self.first, blank),
            last=np.append(self.last, blank),
            matches=np.append(self.matches, np.zeros(len(new), np.int64)),
            known_aspects=known_aspects,
        )

    def after(self, features: np.ndarray, times: np.ndarray) -> "Roster":
        """Return the roster after matches at `times` [B]; `features` [B, P] is -1 if empty."""
        first, last, matches = self.first.copy(), self.last.copy(), self.matches.copy()
        there = features >= 0
        times = np.broadcast_to(times[:, None], features.shape)[there]
        np.fmin.at(first, features[there], times)
        np.fmax.at(last, features[there], times)
        np.add.at(matches, features[there], 1)
        return replace(self, first=first, last=last, matches=matches)

    def step_time(
        self, features: np.ndarray, times: np.ndarray, previous: np.ndarray, dtype: np.dtype
    ) -> StepTime:
        """Compute times since the epoch, since a feature's first and since its previous match.

        Differences are computed in float64 and then cast to `dtype`. `features` is -1 in empty
        slots and for features without matches. `previous` is NaN if there is no previous match.
        """
        known = features >= 0
        opens = np.isnan(previous) | ~known
        gap = np.where(opens, 0.0, times - previous)
        age = np.where(known, times - self.first[features], 0.0)
        offset = np.broadcast_to(times - self.epoch, features.shape)
        return StepTime(gap.astype(dtype), offset.astype(dtype), age.astype(dtype), opens)


def list_events(new: Observations) -> Int[np.ndarray, "E C"]:
    """List the observations of each event, in time order; -1 for scores that it lacks."""
    event = new.event_numbers
    order = np.argsort(event, kind="stable")
    _, starts, sizes = np.unique(event[order], return_index=True, return_counts=True)
    place = np.arange(sizes.max())
    rows = order[np.minimum(starts[:, None] + place, len(order) - 1)]
    rows = np.where(place < sizes[:, None], rows, -1)
    return rows[np.lexsort((rows[:, 0], new.times[rows[:, 0]]))]


def lay_out(
    new: Observations,
    rows: Int[np.ndarray, "B C"],
    roster: Roster,
    dtype: np.dtype,
    *,
    blocks: np.ndarray | None = None,
    widths: Widths | None = None,
    size: int | None = None,
) -> tuple[Matches, Roster]:
    """Lay out matches, which are in time order, for the scan.

    The roster must have all their features. `rows` has the observations of each match, or of each
    event, -1 for those it lacks; `blocks` the non-decreasing block of each match; and `size` is the
    number of matches with padding. The result is at least as wide as `widths`.

    Returns:
        The matches, and the roster after them.
    """
    widths, count = widths or Widths(), len(rows)
    size, scores = size or count, max(rows.shape[1], widths.scores)
    rows = np.pad(rows, ((0, 0), (0, scores - rows.shape[1])), constant_values=-1)
    rows = np.pad(rows, ((0, size - count), (0, 0)), mode="edge")
    times = new.times[rows[:, 0]]
    ids = np.append(roster.feature_ids(new.names), -1)
    features = np.where(rows[..., None] < 0, -1, ids[new.features[rows]])
    slots = features.shape[2]
    features = features.reshape(size, scores * slots)
    features[count:] = -1
    _check_order(features, times, roster, new.row_numbers[rows[:, 0]])
    coefficients = new.coefficients[rows].astype(dtype).reshape(features.shape)
    after = roster.after(features, times)
    group = np.where(features >= 0, roster.group[features], -1)
    known = None
    if roster.known_aspects.names:
        by_slot = np.asarray(new.block.with_aspects(1).aspects, dtype)[rows]
        by_slot = by_slot.reshape(*features.shape, -1)
        given = dict(zip(new.aspect_names or (GENERAL,), np.moveaxis(by_slot, -1, 0), strict=True))
        absent = np.zeros(features.shape, dtype)
        known = {name: given.get(name, absent) for name in roster.known_aspects.names}
    parts = []
    for number in range(len(roster.groups)):
        own = group == number
        width = max([int(own.sum(axis=1).max()), *widths.slots[number : number + 1], 1])
        feature = _gather(features, own, width, -1)
        aspects = known and {name: _gather(x, own, width) for name, x in known.items()}

        def since(slot: np.ndarray, feature=feature, width=width, aspects=aspects) -> StepTime:
            previous = np.where(slot >= 0, times[slot // width], roster.last[feature])
            time = after.step_time(feature, times[:, None], previous, dtype)
            return time._replace(aspects=aspects)

        slot, block_slot = _previous_slots(feature, blocks)
        numbers = np.where(feature >= 0, feature, EMPTY).astype(np.int32)
        part = Slots(numbers, _gather(coefficients, own, width), since(slot))
        if block_slot is not None:
            earlier = np.maximum(block_slot, 0).astype(np.int32)
            part = part._replace(block_slot=earlier, block_time=since(block_slot))
        if scores > 1:
            score = np.repeat(np.arange(scores, dtype=np.int32), slots)
            score = _gather(np.broadcast_to(score, own.shape), own, width)
            least = max([*widths.turns[number : number + 1], 1])
            part = part._replace(score=score, turns=_find_turns(numbers, least))
        parts.append(part)
    outcome = np.where(rows < 0, ABSENT, new.outcome[rows]).astype(dtype)
    weight = None if new.weight is None else new.weight[rows[:, 0]].astype(dtype)
    mask = np.arange(size) < count
    return Matches(tuple(parts), outcome if scores > 1 else outcome[:, 0], weight, mask), after


def _find_turns(features: Int[np.ndarray, "B S"], least: int) -> Int[np.ndarray, "B R S"] | None:
    """Separate the slots of features that occur several times; `None` if none does."""
    order = np.argsort(features, axis=1, kind="stable")
    ordered, place = np.take_along_axis(features, order, 1), np.arange(features.shape[1])
    opens = np.append(np.ones((len(features), 1), bool), ordered[:, 1:] != ordered[:, :-1], axis=1)
    turn = np.empty_like(order)
    since = place - np.maximum.accumulate(np.where(opens, place, 0), axis=1)
    np.put_along_axis(turn, order, since, 1)
    turns = max(least, int(np.max(turn, where=features != EMPTY, initial=0)) + 1)
    if turns == 1:
        return None
    here = turn[:, None] == np.arange(turns)[:, None]
    return np.where(here, features[:, None], EMPTY).astype(np.int32)


def _gather(values: np.ndarray, own: np.ndarray, width: int, empty: int = 0) -> np.ndarray:
    """Move the values [B, P] where `own` is True to the first of `width` slots of each match."""
    gathered = np.full((len(values), width), empty, values.dtype)
    gathered[np.nonzero(own)[0], np.cumsum(own, axis=1)[own] - 1] = values[own]
    return gathered


def _previous_slots(
    features: np.ndarray, blocks: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray | None]:
    """Find the last slot of each feature in earlier matches, and in earlier blocks.

    Slots are positions in the flattened `features` [B, S]; -1 if there is none.
    """
    count, width = features.shape
    order = np.argsort(features.ravel(), kind="stable")
    feature, match = features.ravel()[order], order // width
    changes = np.append(True, feature[1:] != feature[:-1])
    here = np.arange(len(order))

    def find(block: np.ndarray) -> np.ndarray:
        starts = changes.copy()
        starts[1:] |= block[1:] != block[:-1]
        begin = np.maximum.accumulate(np.where(starts, here, 0))
        known = ~changes[begin] & (feature >= 0)
        found = np.empty(len(order), np.int64)
        found[order] = np.where(known, order[begin - 1], -1)
        return found.reshape(count, width)

    return find(match), None if blocks is None else find(blocks[match])


def _check_order(features: np.ndarray, times: np.ndarray, roster: Roster, rows: np.ndarray) -> None:
    """Refuse matches before the last match of a feature; `rows` are the user's."""
    late = (features >= 0) & (times[:, None] < roster.last[features])
    refused = late.any(axis=1)
    if refused.any():
        match = min(np.flatnonzero(refused), key=lambda each: rows[each])
        feature = features[match][late[match]][0]
        last = show_time(roster.scale.to_user(roster.last[feature])[()])
        raise DataError(
            f"{{argument}} is before the last match of {roster.names[feature]!r}, at {last}",
            "A stream takes matches in time order; `Posterior.update` takes them in any order.",
            argument="time",
            column=None if roster.schema is None else roster.schema.columns.get("time"),
            row=int(rows[match]),
            count=len(np.unique(rows[refused])),
        )


@dataclass(frozen=True, eq=False, repr=False)
class Stream(AbstractPredictor):
    """Live ratings that process each match once; memory does not grow with the number of matches.

    Scores are filtered: they depend on past matches only, and new matches do not revise earlier
    scores. If you need smoothed scores and can keep all matches, use `Posterior.update`. A stream
    has the same query methods as a `Posterior`, for times at or after the last match of each
    competitor.

    Streams are immutable: `observe` returns a new stream.

    Attributes:
        model: kernels and likelihood.
        roster: names, groups and times of all features.
        states: states of all features, for each group.
        widths: the sizes of the compiled scan.
        num_observations: number of observations so far.
        log_evidence: sum of the log-probabilities of all outcomes, each given the matches before
            it.
    """

    model: Model
    roster: Roster
    states: tuple[GroupState, ...]
    widths: Widths
    num_observations: int
    log_evidence: float

    @staticmethod
    def start(model: Model, data: Dataset) -> "Stream":
        """Start a stream with its first matches.

        Args:
            model: kernels and likelihood; prior means may be given by group but not by feature.
            data: the first matches. Later tables must have the same columns.

        Raises:
            DataError: if the model has a prior mean for each feature or several kinds of
                observations, or an outcome is not valid for its likelihood.
        """
        check_online(model, data, events=True)
        check_fit(model, data, None)
        stream = Stream(model, Roster.of(data), (), Widths(), 0, 0.0)
        return stream._see(data.observations, np.dtype(data.outcome.dtype))

    def observe(self, matches: Any, on_invalid: OnInvalid = "raise") -> "Stream":
        """Add matches or events, not earlier than previous ones of their competitors.

        Args:
            matches: a table with the same columns as the first one, or a `Dataset`. It may
                contain new competitors; a warning says if most names are new.
            on_invalid: `"raise"` (default) or `"drop"` for invalid rows.

        Raises:
            DataError: if a match is invalid or too early.
        """
        roster, (likelihood,) = self.roster, self.model.likelihoods.values()
        if isinstance(matches, Dataset):
            check_outcomes(likelihood, matches, None)
        unit = roster.scale.unit
        rules = Rules(roster.grouping, unit, on_invalid, likelihood, roster.schema)
        new = read_alike(matches, rules)
        if self._has_events and not isinstance(matches, Dataset):
            check_outcomes(likelihood, Dataset.from_observations(new, self._dtype), None)
        if new.scale != roster.scale:
            raise DataError(
                "{argument} of the new matches has a different type or unit than in the stream",
                "Convert it to the type and unit of the first matches.",
                argument="time",
            )
        warn_of_new_names(roster.names, new.names)
        return self._see(new, self._dtype)

    def __repr__(self) -> str:
        return (
            f"Stream({self.num_observations:,} observations of {len(self.roster.names):,} "
            f"features, log-evidence {self.log_evidence:.2f})"
        )

    @property
    def _directory(self) -> Roster:
        return self.roster

    @property
    def _dtype(self) -> np.dtype:
        return np.dtype(self.states[0].m.dtype)

    @property
    def _has_events(self) -> bool:
        """True if an observation depends on several scores."""
        return any(each.num_predictors != 1 for each in self.model.likelihoods.values())

    def _see(self, new: Observations, dtype: np.dtype) -> "Stream":
        roster = self.roster.extended(new)
        rule = Rule(self.model, Epoch.at(roster.epoch, dtype), roster.groups)
        if self._has_events:
            rows = list_events(new)
        else:
            rows = np.argsort(new.times, kind="stable")[:, None]
        # Powers of two and growing widths limit the number of compiled programs.
        size, features = _power_of_two(len(rows)), _power_of_two(len(roster.names))
        matches, roster = lay_out(new, rows, roster, dtype, widths=self.widths, size=size)
        states = _grown(self.states, rule.blank_states(features))
        states, value = _see_matches(rule, states, matches)
        return replace(
            self,
            roster=roster,
            states=states,
            widths=Widths.of(matches),
            num_observations=self.num_observations + len(new.times),
            log_evidence=self.log_evidence + float(value),
        )

    def _covariance_query(self, query: Query, joint: bool | None) -> None:
        _refuse_joint(joint)

    def _variance_query(self, query: Query, joint: bool | None) -> None:
        _refuse_joint(joint)

    def _score_query(self, query: Query) -> ScoreMoments:
        shape = query.features.shape
        means, variances = np.zeros(shape), np.zeros(shape)
        times = np.broadcast_to(query.times[:, None], shape)
        for group in sorted(set(query.groups.ravel()) - {""}):
            here = query.groups == group
            aspects = query.aspects and {name: x[here] for name, x in query.aspects.items()}
            found = self._scores(group, query.features[here], times[here], aspects)
            means[here], variances[here] = found
        x = query.coefficients
        return ScoreMoments(
            jnp.asarray((x * means).sum(axis=1), self._dtype).reshape(query.shape),
            jnp.asarray((x * x * variances).sum(axis=1), self._dtype).reshape(query.shape),
        )

    def _scores(
        self,
        group: str,
        features: np.ndarray,
        times: np.ndarray,
        aspects: dict[str, np.ndarray] | None,
    ) -> ScoreMoments:
        """Compute means and variances of the scores of features of one group."""
        roster, dtype, count = self.roster, self._dtype, len(features)
        roster.check_time(features, times)
        room = (0, _power_of_two(count) - count)
        features, times = (np.pad(part, room, mode="edge") for part in (features, times))
        time = roster.step_time(features, times, roster.last[features], dtype)
        pad = lambda part: np.pad(part, room, mode="edge").astype(dtype)  # noqa: E731
        time = time._replace(aspects=jax.tree.map(pad, aspects))
        rule = Rule(self.model, Epoch.at(roster.epoch, dtype), (group,))
        if group in roster.groups:
            state = self.states[roster.groups.index(group)]
        else:
            (state,) = rule.blank_states(1)
        scores = _scores_at(rule, state, np.maximum(features, 0), time)
        return ScoreMoments(*(np.asarray(part, np.float64)[:count] for part in scores))


def _grown(states: tuple[GroupState, ...], blank: tuple[GroupState, ...]) -> tuple[GroupState, ...]:
    """Copy states into blank ones with more groups or features."""
    if states and len(states[0].m) == len(blank[0].m):
        return states + blank[len(states) :]
    pairs = zip(blank, states, strict=False)
    grown = [jax.tree.map(lambda new, old: new.at[: len(old)].set(old), *pair) for pair in pairs]
    return (*grown, *blank[len(grown) :])


@eqx.filter_jit
def _see_matches(
    rule: Rule, states: tuple[GroupState, ...], matches: Matches
) -> tuple[tuple[GroupState, ...], Array]:
    states, (values, _) = scan_matches(rule, states, matches)
    return states, jnp.sum(values)


@eqx.filter_jit
def _scores_at(
    rule: Rule, state: GroupState, features: Int[Array, " Q"], time: StepTime
) -> ScoreMoments:
    rule = resolve(rule, rule.dtype)
    time = jax.tree.map(jnp.asarray, time)
    return rule.scores(0, rule.carry(0, _rows(state, features), time), time)


def _power_of_two(number: int) -> int:
    """Return the smallest power of two that is not less than `number`."""
    return 1 << max(number - 1, 0).bit_length()


def _refuse_joint(joint: bool | None) -> None:
    if joint:
        raise DataError(
            "{argument} is True, but a stream has no joint posterior",
            "Fit the matches with `infer` for the joint posterior.",
            argument="joint",
        )
