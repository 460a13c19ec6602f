"""The predictive objective: the log-probability of matches, each given earlier ones only.

One scan over the matches in time order (`jaxkick.online`) predicts each match from earlier blocks.
By the chain rule, the sum over all matches would be the log evidence of this filter. The predictive
objective leaves out the first matches, which depend more on the prior of unknown competitors than
on forecasts, and it predicts as far ahead as a block is long.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from jaxkick._typing import Array, Bool, Float, Int, Scalar
from jaxkick.data.dataset import Dataset
from jaxkick.data.periods import Period, number_periods, read_time
from jaxkick.errors import DataError
from jaxkick.inference.problem import Sites
from jaxkick.learning.objective import AbstractObjective, Evaluation, Template, finite
from jaxkick.online import Past, Rule
from jaxkick.parameters import resolve

__all__ = ["Predictive", "PredictiveObjective"]

_BURN_IN = 0.1


@dataclass(frozen=True)
class Predictive:
    """The objective `"predictive"` of `learn`, with options.

    `learn(model, data, objective="predictive")` maximises the log-probability of each match given
    the earlier ones, in one pass over the matches as in a `Stream`.

    Attributes:
        start: time of the first match that counts, as in the data; earlier matches only inform
            the forecasts. If `None`, the first tenth of the matches does not count.
        every: length of the blocks of matches that are predicted at once, as in `walk_forward`.
            If `None`, a block is all matches at the same time.
    """

    start: Any = None
    every: Period | None = None

    def prepare(
        self,
        data: Dataset,
        mask: Bool[Array, " N"] | None,
        template: Template,
        log_prior: Callable[[Any], Scalar] | None,
        build: Callable[[Any], Any] | None,
    ) -> "PredictiveObjective":
        """Lay out the matches; for the arguments see `PredictiveObjective`.

        Raises:
            DataError: if no match counts.
        """
        times, used = data.index.times, np.ones(len(data), bool)
        if mask is not None:
            used = np.asarray(mask)[: len(data)]
        if self.every is None:
            blocks = np.unique(times, return_inverse=True)[1]
        else:
            blocks = number_periods(data.index, self.every, "every")
        past = Past.of(data, blocks, used)
        if self.start is None:
            start = np.sort(times[used])[int(_BURN_IN * used.sum())]
        else:
            start = read_time(data.index, self.start, "start")
        counted = times[past.order] >= start
        if not counted.any():
            raise DataError("No match is at or after `start`", "Choose an earlier `start`.")
        weight = past.matches.weight
        weight = counted if weight is None else weight * counted
        weight = jnp.asarray(weight, data.outcome.dtype)
        return PredictiveObjective(template, past, weight, mask, log_prior, build)


class PredictiveObjective(AbstractObjective):
    """The log-probability of past matches, each predicted from earlier blocks.

    Attributes:
        template: as in `AbstractObjective`, as all others that are not named here.
        past: the matches.
        weight: the weight of each match in the sum.
    """

    template: Template
    past: Past
    weight: Float[Array, " B"]
    mask: Bool[Array, " N"] | None
    log_prior: Callable[[Any], Scalar] | None
    build: Callable[[Any], Any] | None

    @property
    def label(self) -> str:
        return "predictive log-probability"

    @property
    def dtype(self) -> jnp.dtype:
        return self.weight.dtype

    def unknown(self, free: PyTree) -> Evaluation:
        infinite, zeros = jnp.asarray(jnp.inf, self.dtype), jax.tree.map(jnp.zeros_like, free)
        return Evaluation(infinite, zeros, (), jnp.zeros((), jnp.int32))

    def loss(self, free: PyTree, start: Sites) -> tuple[Scalar, tuple[Sites, Int[Array, ""]]]:
        model = self.model(free)
        score = self.past.predict(Rule(model, self.past.epoch, self.past.groups))
        likelihood = resolve(model.duel, self.dtype)
        outcome = jnp.asarray(self.past.matches.outcome)
        log_prob = likelihood.predictive_log_prob(outcome, *score)
        # Not a product: a match that does not count may have an infinite loss.
        value = jnp.sum(jnp.where(self.weight > 0, self.weight * log_prob, 0.0))
        value = value + self.prior(free).astype(value.dtype)
        return jnp.where(jnp.isfinite(value), -value, jnp.inf), ((), jnp.zeros((), jnp.int32))

    def evaluate(self, free: PyTree, start: Sites, batched: bool) -> Evaluation:
        return _evaluate(self, free, batched)


@eqx.filter_jit
def _evaluate(objective: PredictiveObjective, free: PyTree, batched: bool) -> Evaluation:
    def evaluate(free: PyTree) -> Evaluation:
        def loss(free: PyTree) -> tuple[Scalar, Scalar]:
            value, _ = objective.loss(free, ())
            return value, value

        # Forward mode: there are few parameters, and no states of every match to keep.
        gradient, value = jax.jacfwd(loss, has_aux=True)(free)
        return Evaluation(finite(value, gradient), gradient, (), jnp.zeros((), jnp.int32))

    return (jax.vmap(evaluate) if batched else evaluate)(free)
