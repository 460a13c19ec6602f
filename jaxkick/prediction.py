"""Scores and outcomes at any time, from what the smoother kept."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import ArrayLike

from jaxkick._parameters import resolve
from jaxkick._smallmat import dot
from jaxkick._typing import Array, Float
from jaxkick.dataset.dataset import Dataset
from jaxkick.dataset.query import Query
from jaxkick.inference.problem import ScoreMoments
from jaxkick.kernels.base import AbstractKernel
from jaxkick.kernels.time import Epoch
from jaxkick.likelihoods.base import AbstractLikelihood
from jaxkick.model import Model
from jaxkick.outcomes import Distribution, distribute, outcome_columns, result_chances
from jaxkick.statespace.chain import Chain
from jaxkick.statespace.interpolation import Queries, interpolate
from jaxkick.statespace.smoother import States
from jaxkick.statespace.step import StepModel
from jaxkick.tables import make_table

__all__ = ["Prediction", "predict_scores"]


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
        return self.likelihood.probabilities(self.mean, self.variance)

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
    dtype = data.coefficients.dtype
    means = jnp.zeros(query.features.shape, dtype)
    variances = jnp.zeros(query.features.shape, dtype)
    chains = {chain.group: place for place, chain in enumerate(data.chains)}
    times = np.broadcast_to(query.times[:, None], query.features.shape)
    for group in sorted(set(query.groups.ravel()) - {""}):
        rows, slots = np.nonzero(query.groups == group)
        kernel = model.kernel_of(group)
        location = data.locate(query.features[rows, slots], times[rows, slots])
        queries = Queries(
            location.left,
            location.right,
            location.left_gap,
            location.right_gap,
            location.offset,
            location.age,
        )
        if group in chains:
            place = chains[group]
            queries = _within_chain(queries, int(data.index.bases[place]))
            moments = _answer(kernel, data.epoch, data.chains[place], states[place], _pad(queries))
        else:
            moments = _answer_from_prior(kernel, data.epoch, _pad(queries))
        mean, variance = (part[: len(rows)] for part in moments)
        if model.mean is not None:
            mean = mean + model.mean_of(group, query.features[rows, slots], dtype)
        means = means.at[rows, slots].set(mean)
        variances = variances.at[rows, slots].set(variance)
    x = jnp.asarray(query.coefficients, dtype)
    return ScoreMoments(
        jnp.sum(x * means, axis=1).reshape(query.shape),
        jnp.sum(x * x * variances, axis=1).reshape(query.shape),
    )


def _within_chain(queries: Queries, base: int) -> Queries:
    """Positions counted from the begin of the chain instead of that of all chains."""
    return queries._replace(
        left=np.where(queries.left >= 0, queries.left - base, -1).astype(np.int32),
        right=np.where(queries.right >= 0, queries.right - base, -1).astype(np.int32),
    )


def _pad(queries: Queries) -> Queries:
    """Queries in numbers that are powers of two, so that few programs are compiled."""
    count = len(queries.left)
    room = max(1, 1 << (count - 1).bit_length()) - count
    return jax.tree.map(lambda part: np.concatenate([part, np.repeat(part[-1:], room)]), queries)


@eqx.filter_jit
def _answer(
    kernel: AbstractKernel, epoch: Epoch, chain: Chain, states: States, queries: Queries
) -> tuple[Float[Array, " Q"], Float[Array, " Q"]]:
    step = StepModel(resolve(kernel, epoch.coarse.dtype), epoch)
    return interpolate(step, chain, states, jax.tree.map(jnp.asarray, queries))


@eqx.filter_jit
def _answer_from_prior(
    kernel: AbstractKernel, epoch: Epoch, queries: Queries
) -> tuple[Float[Array, " Q"], Float[Array, " Q"]]:
    """Features of a group that no observation has."""
    step = StepModel(resolve(kernel, epoch.coarse.dtype), epoch)

    def variance(offset, age):
        return dot(step.h, step.prior_cov_at(offset, age) @ step.h)

    variances = jax.vmap(variance)(jnp.asarray(queries.offset), jnp.asarray(queries.age))
    return jnp.zeros_like(variances), variances
