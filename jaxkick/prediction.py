"""Scores and outcomes at any time, from what the smoother kept."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import ArrayLike

from jaxkick._parameters import resolve
from jaxkick._smallmat import dot
from jaxkick._tracing import is_known
from jaxkick._typing import Array, Float, Int, Scalar
from jaxkick.dataset.dataset import Dataset
from jaxkick.dataset.location import Location
from jaxkick.dataset.query import Query
from jaxkick.inference.problem import ScoreMoments
from jaxkick.kernels.time import Epoch
from jaxkick.likelihoods.base import AbstractLikelihood
from jaxkick.model import Model
from jaxkick.outcomes import (
    Distribution,
    distribute,
    level_chances,
    outcome_columns,
    result_chances,
)
from jaxkick.statespace.chain import Chain
from jaxkick.statespace.interpolation import Queries, interpolate
from jaxkick.statespace.smoother import States
from jaxkick.statespace.step import StepModel
from jaxkick.tables import make_table

__all__ = ["Prediction", "predict_scores", "show_prediction"]


class Prediction(eqx.Module):
    """The combined score of every query, and what it says of outcomes.

    Attributes:
        mean: posterior mean of the combined score f.
        variance: posterior variance of f.
        likelihood: how an outcome follows from f.
        library: the library of the user's tables, for `to_frame`.
    """

    mean: Float[Array, "..."]
    variance: Float[Array, "..."]
    likelihood: AbstractLikelihood
    library: str | None = eqx.field(default=None, static=True)

    @property
    def probabilities(self) -> Float[Array, "... L"]:
        """The probability of every outcome, in the order of `likelihood.levels`."""
        return level_chances(self.likelihood, self.mean, self.variance)

    def log_prob(self, outcome: ArrayLike) -> Float[Array, "..."]:
        """The logarithm of the probability (or density) of an outcome of every query."""
        outcome = jnp.broadcast_to(jnp.asarray(outcome, self.mean.dtype), self.mean.shape)
        return self.likelihood.predictive_log_prob(outcome, self.mean, self.variance)

    @property
    def outcome_mean(self) -> Float[Array, "..."]:
        """The expected outcome, where outcomes are numbers."""
        return self.likelihood.predictive_mean(self.mean, self.variance)

    @property
    def outcome_variance(self) -> Float[Array, "..."]:
        """The variance of the outcome, where outcomes are numbers."""
        return self.likelihood.predictive_variance(self.mean, self.variance)

    def outcome_quantile(self, probability: ArrayLike) -> Float[Array, "..."]:
        """The quantile of the outcome, where outcomes are numbers."""
        return self.likelihood.predictive_quantile(probability, self.mean, self.variance)

    def distribution(self, outcomes: ArrayLike | None = None) -> Distribution:
        """How probable every outcome is, where outcomes are numbers.

        Args:
            outcomes: the outcomes to tell the probability of; if `None` all those that are
                not too improbable to matter.
        """
        return distribute(self.likelihood, self.mean, self.variance, outcomes)

    @property
    def result(self) -> Float[Array, "... 3"]:
        """The probabilities that the first side loses, ties and wins, whatever outcomes are."""
        return result_chances(self.likelihood, self.mean, self.variance)

    def columns(self) -> dict[str, np.ndarray]:
        """What there is to say of every match, by column."""
        columns = {
            "score_mean": self.mean,
            "score_deviation": jnp.sqrt(self.variance),
            **outcome_columns(self.likelihood, self.mean, self.variance),
        }
        return {name: np.atleast_1d(np.asarray(column)) for name, column in columns.items()}

    def to_frame(self, library: str | None = None) -> Any:
        """The predictions as a table, one row for each match.

        Args:
            library: `"pandas"`, `"polars"` or `"pyarrow"`; that of the data if `None`.
        """
        return make_table(self.columns(), library or self.library)

    def __repr__(self) -> str:
        return show_prediction(self, self.mean)


def predict_scores(
    model: Model, data: Dataset, states: tuple[States, ...], query: Query
) -> ScoreMoments:
    """Posterior mean and variance of linear combinations of scores.

    Features are independent in the posterior, so that variances add. Prior means are part of
    the scores; a feature that the data lacks has that of its group.

    Args:
        model: the fitted model.
        data: the observations that it was fitted to.
        states: what the smoother kept, chain by chain.
        query: the combinations and their times.

    Returns:
        Means and variances in the shape of the query.
    """
    chains = {chain.group: place for place, chain in enumerate(data.chains)}
    times = np.broadcast_to(query.times[:, None], query.features.shape)
    parts, sources, begin = [], np.full(query.features.shape, -1, np.int32), 0
    for group in sorted(set(query.groups.ravel()) - {""}):
        rows, slots = np.nonzero(query.groups == group)
        features = query.features[rows, slots]
        location = data.locate(features, times[rows, slots])
        place = chains.get(group)
        base = 0 if place is None else int(data.index.bases[place])
        part = _Part(
            group,
            pad_to_power(features.astype(np.int32)),
            jax.tree.map(pad_to_power, _queries_of(location, base)),
            None if place is None else (data.chains[place], states[place]),
        )
        parts.append(part)
        sources[rows, slots] = begin + np.arange(len(rows))
        begin += len(part.features)
    coefficients = query.coefficients.astype(data.coefficients.dtype)
    moments = _combine(
        model, data.epoch, tuple(parts), pad_to_power(sources), pad_to_power(coefficients)
    )
    return ScoreMoments(*(part[: len(sources)].reshape(query.shape) for part in moments))


def show_prediction(prediction: Any, mean: Float[Array, "..."]) -> str:
    """What a prediction says, in a few lines; its shape alone where numbers are not known."""
    title = type(prediction).__name__
    if not is_known(mean):
        return f"{title} of shape {mean.shape}"
    matches = "1 match" if mean.size == 1 else f"{mean.size:,} matches"
    return f"{title} of {matches}\n{make_table(prediction.columns(), None)!r}"


class _Part(NamedTuple):
    """What is asked of the features of one group.

    Attributes:
        group: the name of the group.
        features: the number of each feature; -1 for one that the data lacks.
        queries: where its time falls.
        known: the chain of the group and what the smoother kept; `None` if it has no entries.
    """

    group: str
    features: Int[Array, " Q"]
    queries: Queries
    known: tuple[Chain, States] | None


def pad_to_power(array: np.ndarray) -> np.ndarray:
    """Rows in a number that is a power of two, so that few programs are compiled."""
    room = (1 << max(len(array) - 1, 0).bit_length()) - len(array)
    padding = array[-1:] if len(array) else np.zeros((1, *array.shape[1:]), array.dtype)
    return np.concatenate([array, np.repeat(padding, room, axis=0)]) if room else array


def _queries_of(location: Location, base: int) -> Queries:
    """A location with positions counted from the begin of the chain."""

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


@eqx.filter_jit
def _combine(
    model: Model,
    epoch: Epoch,
    parts: tuple[_Part, ...],
    sources: Int[Array, "Q P"],
    coefficients: Float[Array, "Q P"],
) -> ScoreMoments:
    """The scores of all parts, picked and added up for every combination."""
    x = jnp.asarray(coefficients)
    nothing = jnp.zeros(1, x.dtype)
    means, variances = [], []
    for part in parts:
        step = StepModel(resolve(model.kernel_of(part.group), x.dtype), epoch)
        mean, variance = _answer(step, part)
        means.append(mean + model.mean_of(part.group, part.features, x.dtype))
        variances.append(variance)
    # Empty slots have the source -1, the last place.
    mean, variance = (jnp.concatenate([*each, nothing])[sources] for each in (means, variances))
    return ScoreMoments(jnp.sum(x * mean, axis=1), jnp.sum(x * x * variance, axis=1))


def _answer(step: StepModel, part: _Part) -> tuple[Float[Array, " Q"], Float[Array, " Q"]]:
    """Scores around a mean of zero, those of the prior in a group without entries."""
    queries = jax.tree.map(jnp.asarray, part.queries)
    if part.known is not None:
        return interpolate(step, *part.known, queries)

    def variance(offset: Scalar, age: Scalar) -> Scalar:
        return dot(step.h, step.prior_cov_at(offset, age) @ step.h)

    variances = jax.vmap(variance)(queries.offset, queries.age)
    return jnp.zeros_like(variances), variances
