"""A stream of matches: ratings live, in one pass, with bounded memory."""

from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxkick._parameters import AbstractParameter
from jaxkick.dataset.assembly import Assembled
from jaxkick.dataset.dataset import Dataset
from jaxkick.dataset.query import Query
from jaxkick.dataset.reading import read_alike
from jaxkick.dataset.validation import OnInvalid
from jaxkick.inference.problem import ScoreMoments
from jaxkick.inference.request import check_kinds
from jaxkick.kernels.time import Epoch
from jaxkick.model import Model
from jaxkick.posterior.ratings import AbstractRatings
from jaxkick.statespace.step import Moment
from jaxkick.stream.batches import make_batch, power_of_two
from jaxkick.stream.filter import GroupState, carry_scores, empty_state, run_batch
from jaxkick.stream.roster import Roster

__all__ = ["Stream"]


@dataclass(frozen=True, eq=False, repr=False)
class Stream(AbstractRatings):
    """Scores after a stream of matches, each of which is seen once.

    Every feature is known by its state after its last match, so that memory does not grow
    with matches. Scores are those given the past alone; a match tells nothing of earlier
    times, and the approximation of each outcome is never revised. Where that matters, and
    all matches can be kept, `Posterior.update` is exact to the approximation of `infer`.
    Questions are those of `Posterior`, about times at or after the last match of whoever is
    asked for; earlier ones raise a `ValueError`.

    A stream does not change: `observe` returns a new one.

    Attributes:
        model: kernels and likelihood.
        roster: names, groups and times of all features.
        states: the states of all features, group by group.
        epoch: the time that offsets count from.
        widths: slots of each group, for the compiled pass.
        num_observations: how many observations were seen.
        log_evidence: the sum of the log-probabilities of outcomes, each before it was seen.
    """

    model: Model
    roster: Roster
    states: tuple[GroupState, ...]
    epoch: float
    widths: tuple[int, ...]
    num_observations: int
    log_evidence: float

    @staticmethod
    def start(model: Model, data: Dataset) -> "Stream":
        """A stream that has seen some matches.

        Args:
            model: kernels and likelihood; prior means must not be given by feature.
            data: the first matches. Later ones are read as they were.

        Raises:
            TypeError: if the arguments are something else.
            ValueError: if the model has a prior mean for every feature.
        """
        check_kinds(model, data)
        if isinstance(model.mean, AbstractParameter) and model.mean.value.ndim:
            raise ValueError(
                "the model's `mean` has a number for each feature, but a stream meets features "
                "that are not known yet; give one number, or one for each group."
            )
        index = data.index
        roster = Roster.empty(index.scale, index.grouping, index.recipe)
        stream = Stream(model, roster, (), index.epoch, (), 0, 0.0)
        return stream._see(data.disassembled(), np.dtype(data.outcome.dtype))

    def observe(self, matches: Any, on_invalid: OnInvalid = "raise") -> "Stream":
        """See further matches, not earlier than those that their competitors have had.

        Args:
            matches: a table with the columns of the first one, or a `Dataset`. New features
                are welcome.
            on_invalid: `"raise"` or `"drop"`.

        Returns:
            The stream after them.

        Raises:
            ValueError: if matches cannot be used, or come too late.
        """
        roster = self.roster
        new = read_alike(
            matches,
            roster.recipe,
            roster.grouping,
            roster.scale.unit,
            on_invalid,
            self.model.likelihood,
        )
        if new.observations.scale != roster.scale:
            raise ValueError(
                "the times of the new matches are of another kind or unit than those of the "
                "stream; build them alike."
            )
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

    def _see(self, new: Assembled, dtype: np.dtype) -> "Stream":
        outside = np.asarray(self.model.likelihood.check(new.outcome))
        if outside.any():
            raise ValueError(
                f"`outcome` is {new.outcome[outside][0]:g} in row {int(np.argmax(outside))}, "
                f"outside the domain of {type(self.model.likelihood).__name__}: "
                f"{self.model.likelihood.domain}."
            )
        roster = self.roster.with_names(new.observations.names)
        kernels = tuple(self.model.kernel_of(group) for group in roster.groups)
        states = tuple(
            _with_room(state, kernel, size, dtype)
            for state, kernel, size in zip(
                (*self.states, *[None] * (len(kernels) - len(self.states))),
                kernels,
                roster.sizes(),
                strict=True,
            )
        )
        capacities = tuple(len(state.m) - 1 for state in states)
        batch, roster, widths = make_batch(
            new, roster, self.model, self.widths, capacities, self.epoch, dtype
        )
        epoch = Epoch.at(self.epoch, dtype)
        states, values = run_batch(kernels, self.model.likelihood, epoch, states, batch)
        return replace(
            self,
            roster=roster,
            states=states,
            widths=widths,
            num_observations=self.num_observations + len(new.outcome),
            log_evidence=self.log_evidence + float(jnp.sum(values)),
        )

    def _score_query(self, query: Query) -> ScoreMoments:
        roster, dtype = self.roster, self._dtype
        means, variances = np.zeros(query.features.shape), np.zeros(query.features.shape)
        times = np.broadcast_to(query.times[:, None], query.features.shape)
        for group in sorted(set(query.groups.ravel()) - {""}):
            rows, slots = np.nonzero(query.groups == group)
            features, at = query.features[rows, slots], times[rows, slots]
            seen = features >= 0
            past = np.where(seen, roster.last[features], at)
            if (past > at).any():
                name = roster.names[features[int(np.argmax(past > at))]]
                raise ValueError(
                    f"`time` is before the last match of {name!r}; a stream knows scores only from "
                    "then on."
                )
            moment = Moment(
                at - past,
                at - self.epoch,
                np.where(seen, at - roster.first[features], 0.0),
                ~seen,
            )
            mean, variance = self._carry(group, np.where(seen, roster.row[features], 0), moment)
            means[rows, slots] = mean + np.asarray(self.model.mean_of(group, features, dtype))
            variances[rows, slots] = variance
        x = query.coefficients
        return ScoreMoments(
            jnp.asarray((x * means).sum(axis=1), dtype).reshape(query.shape),
            jnp.asarray((x * x * variances).sum(axis=1), dtype).reshape(query.shape),
        )

    def _carry(self, group: str, rows: np.ndarray, moment: Moment) -> tuple[np.ndarray, np.ndarray]:
        """Scores of features of one group at later times."""
        kernel, count = self.model.kernel_of(group), len(rows)
        known = group in self.roster.groups
        state = (
            self.states[self.roster.groups.index(group)]
            if known
            else empty_state(kernel, 1, self._dtype)
        )
        room = power_of_two(count) - count
        pad = lambda array: np.concatenate([array, np.repeat(array[-1:], room)])  # noqa: E731
        gap, offset, age = (pad(part).astype(self._dtype) for part in moment[:3])
        moment = Moment(gap, offset, age, pad(moment.first))
        epoch = Epoch.at(self.epoch, self._dtype)
        answer = carry_scores(kernel, epoch, state, pad(rows).astype(np.int32), moment)
        return tuple(np.asarray(part, np.float64)[:count] for part in answer)


def _with_room(state: GroupState | None, kernel: Any, size: int, dtype: np.dtype) -> GroupState:
    """States with room for so many features: a power of two, so that shapes seldom change."""
    room = empty_state(kernel, power_of_two(size), dtype)
    if state is None:
        return room
    if len(state.m) >= len(room.m):
        return state
    return jax.tree.map(lambda new, old: new.at[: len(old) - 1].set(old[:-1]), room, state)
