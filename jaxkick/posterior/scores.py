"""Scores of features at any time, from the smoother's states, as arrays and as tables."""

from collections.abc import Hashable, Iterator
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from jaxkick._math.small_matrices import dot
from jaxkick._typing import Array, Float, Int, Scalar
from jaxkick._xla import is_known, jit_once, on_host, pad_to_power_of_two
from jaxkick.chains.interpolation import Queries, interpolate, keep_neighbours, query_times
from jaxkick.chains.layout import Chain
from jaxkick.chains.smoother import States
from jaxkick.chains.step import StepModel, StepTime
from jaxkick.data.columns import TimeScale
from jaxkick.data.dataset import Dataset
from jaxkick.data.encoding import Location
from jaxkick.data.queries import Query
from jaxkick.data.schema import GENERAL
from jaxkick.data.tables import AbstractTable, make_table, name_column
from jaxkick.inference.problem import ScoreMoments
from jaxkick.kernels import Epoch, Instant
from jaxkick.model import Model
from jaxkick.parameters import resolve

__all__ = ["Scores", "queries_of", "score_combinations"]


class Scores(AbstractTable, eqx.Module):
    """The score of one feature at several times.

    It unpacks into three arrays: `times, mean, variance = posterior.scores(name)`. Its table has
    the columns name, group, time, mean and deviation.

    Attributes:
        numbers: the times as float64 numbers in the data's unit; see `times`.
        mean: posterior mean of the score at each time.
        variance: posterior variance of the score at each time.
        name: the name of the feature.
        group: the group of the feature, whose kernel it has.
        scale: conversion between numeric times and dates.
        library: the library of the user's tables, for `to_frame`.
    """

    numbers: np.ndarray
    mean: Float[Array, " T"]
    variance: Float[Array, " T"]
    name: Hashable = eqx.field(static=True)
    group: str = eqx.field(static=True)
    scale: TimeScale = eqx.field(static=True)
    library: str | None = eqx.field(static=True, default=None)

    @property
    def times(self) -> np.ndarray:
        """The times as in the data: `datetime64` if it has dates, otherwise float64."""
        return self.scale.to_user(self.numbers)

    def columns(self) -> dict[str, np.ndarray]:
        count = len(self.numbers)
        return {
            "name": np.repeat(name_column([self.name]), count),
            "group": np.repeat(name_column([self.group]), count),
            "time": self.times,
            "mean": np.asarray(self.mean),
            "deviation": np.sqrt(np.asarray(self.variance)),
        }

    def __iter__(self) -> Iterator[Any]:
        return iter((self.times, self.mean, self.variance))

    def __repr__(self) -> str:
        title = f"Scores of {self.name!r} at {len(self.numbers):,} times"
        if not is_known(self.mean):
            return title
        shown = ("time", "mean", "deviation")
        columns = self.columns()
        return f"{title}\n{make_table({name: columns[name] for name in shown}, None)!r}"


def score_combinations(
    model: Model, data: Dataset, states: tuple[States, ...] | None, query: Query
) -> ScoreMoments:
    """Compute posterior mean and variance of linear combinations of scores.

    Features are independent in the posterior approximation, so variances add. Prior means are
    part of the scores; a feature that is not in the data has the prior mean of its group. Without
    `states` of the smoother, the moments are those of the prior.
    """
    chains = {chain.group: place for place, chain in enumerate(data.chains)}
    dtype = np.dtype(data.coefficients.dtype)
    times = np.broadcast_to(query.times[:, None], query.features.shape)
    parts, sources, begin = [], np.full(query.features.shape, -1, np.int32), 0
    for group in sorted(set(query.groups.ravel()) - {""}):
        rows, slots = np.nonzero(query.groups == group)
        features = query.features[rows, slots]
        location = data.locate(features, times[rows, slots])
        place = chains.get(group)
        base = 0 if place is None else int(data.index.bases[place])
        queries = queries_of(location, base)
        if query.aspects is not None:
            aspects = {name: x[rows, slots].astype(dtype) for name, x in query.aspects.items()}
            queries = queries._replace(aspects=aspects)
        queries, chain, known = jax.tree.map(pad_to_power_of_two, queries), None, None
        if place is not None:
            known = None if states is None else states[place]
            chain, known, queries = keep_neighbours(data.chains[place], known, queries)
        features = pad_to_power_of_two(features.astype(np.int32))
        part = _Part(group, features, queries, chain, known)
        parts.append(part)
        sources[rows, slots] = begin + np.arange(len(rows))
        begin += len(part.features)
    coefficients = query.coefficients.astype(dtype)
    moments = _combine(
        model,
        data.epoch,
        tuple(parts),
        pad_to_power_of_two(sources),
        pad_to_power_of_two(coefficients),
    )
    count, shape = len(sources), query.shape
    return ScoreMoments(*(on_host(lambda x: x[:count].reshape(shape), x) for x in moments))


class _Part(NamedTuple):
    """The features of one group that a query needs.

    Attributes:
        group: the name of the group.
        features: the number of each feature; -1 for one that is not in the data.
        queries: the neighbouring entries of each time.
        chain: the neighbouring entries; `None` if the group has no entries.
        states: their states; `None` for the prior.
    """

    group: str
    features: Int[Array, " Q"]
    queries: Queries
    chain: Chain | None
    states: States | None


def queries_of(location: Location, base: int) -> Queries:
    """Convert positions in all chains to positions in the chain that begins at `base`."""

    def within(positions: np.ndarray) -> np.ndarray:
        return np.where(positions >= 0, positions - base, -1).astype(np.int32)

    return Queries(
        within(location.left),
        within(location.right),
        location.left_gap,
        location.right_gap,
        location.offset,
        location.age,
    )


@jit_once
def _combine(
    model: Model,
    epoch: Epoch,
    parts: tuple[_Part, ...],
    sources: Int[Array, "Q P"],
    coefficients: Float[Array, "Q P"],
) -> ScoreMoments:
    """Compute the scores of all parts, and sum those of each combination."""
    x = jnp.asarray(coefficients)
    nothing = jnp.zeros(1, x.dtype)
    means, variances = [], []
    for part in parts:
        step = StepModel(resolve(model.process_of(part.group), x.dtype), epoch)
        mean, variance, time = _score_part(step, part)
        instant = Instant(time.offset, time.age, epoch)
        prior = model.mean_of(part.group, part.features, instant, x.dtype)
        aspects = time.aspects
        means.append(mean + (prior if aspects is None else prior * aspects[GENERAL]))
        variances.append(variance)
    # Empty slots have the source -1, the last place.
    mean, variance = (jnp.concatenate([*each, nothing])[sources] for each in (means, variances))
    return ScoreMoments(jnp.sum(x * mean, axis=1), jnp.sum(x * x * variance, axis=1))


def _score_part(
    step: StepModel, part: _Part
) -> tuple[Float[Array, " Q"], Float[Array, " Q"], StepTime]:
    """Compute scores without their prior means, and the times and ages of the features."""
    queries = jax.tree.map(jnp.asarray, part.queries)
    if part.chain is None:
        time = StepTime(
            queries.left_gap, queries.offset, queries.age, queries.left < 0, queries.aspects
        )
    else:
        time = query_times(part.chain, queries)
        if part.states is not None:
            return *interpolate(step, part.chain, part.states, queries), time

    def variance(time: StepTime) -> Scalar:
        h = step.h(time)
        return dot(h, step.prior_cov(time) @ h)

    variances = jax.vmap(variance)(time)
    return jnp.zeros_like(variances), variances, time
