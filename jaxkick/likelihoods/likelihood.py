"""The interface of a likelihood: log p(outcome | score) and quantities derived from it.

To define your own likelihood, subclass `AbstractLikelihood` and implement `log_prob`::

    class StudentT(AbstractLikelihood):
        def log_prob(self, outcome, score):
            return -2.5 * jnp.log1p((outcome - score) ** 2 / 4.0)

Derivatives come from automatic differentiation, and integrals over scores and outcomes from
quadrature. Override a method if you know a closed form, and `domain`, `check` or `levels` if
outcomes are not arbitrary real numbers. A likelihood of two scores sets `num_predictors = 2`, and
needs no more than `log_prob` either if p is positive and smooth. Methods work elementwise on
arrays that broadcast, in the floating-point type of the mean.

An array among the fields may have one number for each observation, such as a measured noise scale.
Inference pads, selects and distributes it like the outcomes.
"""

import abc
import dataclasses
import functools
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, Self, TypeAlias, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import ArrayLike

from jaxkick._math import Anchor, Derivatives, Local
from jaxkick._typing import Array, Float, Key, Values
from jaxkick._xla import call_compiled
from jaxkick.errors import DataError
from jaxkick.likelihoods.integrals import (
    OutcomeGrid,
    align,
    expectation_by_quadrature,
    log_partition_by_quadrature,
    outcome_grid,
)
from jaxkick.parameters import resolve

__all__ = [
    "AbstractLikelihood",
    "Derivatives",
    "Distribution",
    "Weight",
    "map_observations",
    "observation_count",
    "refuse_own_numbers",
]

Likelihood = TypeVar("Likelihood", bound="AbstractLikelihood")

Weight: TypeAlias = ArrayLike | None
"""Weight (power) of a likelihood; one if `None`."""

# `distribution` omits this much probability in each tail, and evaluates the density of a
# continuous outcome at this many points.
_TAIL = 1e-6
_POINTS = 201


class Distribution(NamedTuple):
    """The distribution of numeric outcomes.

    Attributes:
        outcomes: outcomes in increasing order, of shape (G,), the same for all predictions.
        probabilities: their probabilities along the last axis, of shape (..., G); densities if
            outcomes are continuous.
    """

    outcomes: np.ndarray
    probabilities: Float[Array, "... G"]


class AbstractLikelihood(eqx.Module):
    """The probability of an outcome given the score of an observation.

    Some observations depend on several scores: the sides of a race, or the goals of both teams.
    Their likelihoods set `num_predictors`, and `outcome`, `score`, `mean` and `variance` then
    have one number for each score along the last axis. Derivatives have this axis too, but
    log-probabilities and other results do not.
    """

    num_predictors: ClassVar[int | None] = 1
    """The number of scores that an observation depends on; `None` for any number."""

    is_relative: ClassVar[bool] = False
    """True if only differences of the scores of an observation matter."""

    @abc.abstractmethod
    def log_prob(self, outcome: Values, score: Values) -> Values:
        """Compute log p(outcome | score)."""

    # Outcomes

    @property
    def domain(self) -> str:
        """The valid outcomes, in words, for error messages."""
        return "a finite number"

    def check(self, outcome: np.ndarray) -> np.ndarray:
        """Return a boolean array, on the host, that is True for invalid outcomes."""
        return ~np.isin(outcome, self.levels) if self.levels else ~np.isfinite(outcome)

    @property
    def levels(self) -> tuple[float, ...]:
        """The possible outcomes in increasing order, or `()` if there are infinitely many."""
        return ()

    @property
    def is_discrete(self) -> bool:
        """True if outcomes are levels or integers, so that each has a probability."""
        return bool(self.levels) or self._refuses(0.5)

    @property
    def has_results(self) -> bool:
        """True if the sign of an outcome is the result: +1 win, 0 tie, -1 loss of the first side.

        By default this holds for levels and integer outcomes of either sign. Override it for
        continuous outcomes.
        """
        if self.levels:
            return self.levels[0] < 0 < self.levels[-1]
        return self.is_discrete and not self._refuses(-1.0)

    @property
    def has_ties(self) -> bool:
        """True if ties have a positive probability."""
        return self.has_results and self.is_discrete and not self._refuses(0.0)

    @property
    def has_free_level(self) -> bool:
        """True if parameters to learn could absorb a constant that is added to all scores."""
        return False

    def difference(self, base_rate: float) -> "AbstractLikelihood | None":
        """Return the likelihood of the difference of two counts, or `None`.

        Its score is half the difference of the scores of the two counts. `base_rate` is the
        logarithm of the rate of both counts if the two sides are equal. Implemented by
        likelihoods of counts.
        """
        return None

    def duel(self) -> "AbstractLikelihood":
        """Return the likelihood of a match of two sides, given the difference of their scores.

        It differs from this one where an event has any number of sides.
        """
        return self

    def count(self) -> "AbstractLikelihood":
        """Return the likelihood of the count of one side, given its own score.

        It differs from this one where the counts of both sides are one outcome.
        """
        return self

    def check_events(self, outcome: np.ndarray) -> np.ndarray:
        """Return a boolean array, on the host, that is True for invalid events.

        For likelihoods of several scores.

        Args:
            outcome: the outcomes of each event's sides along the last axis; -1 for sides that
                an event does not have.
        """
        return np.any(self.check(outcome), axis=-1)

    # Words

    def describe(self) -> str:
        """Describe the likelihood: "a lead of 1 wins with probability 84 % (Probit)"."""
        name = type(self).__name__
        if not (self.levels and self.has_results):
            return f"{self.domain} ({name})"
        _, tie, _ = self._results_at(0.0)
        ties = f"; equal skills tie with probability {100 * tie:.0f} %" if self.has_ties else ""
        win = self._results_at(1.0)[2]
        return f"a lead of 1 wins with probability {100 * win:.0f} %{ties} ({name})"

    def warnings(self) -> tuple[tuple[str, str], ...]:
        """Return warnings about the parameters, as pairs of a kind and a message."""
        return ()

    # Starting values

    @classmethod
    def from_outcomes(cls, outcome: np.ndarray) -> Self:
        """Make a likelihood of this class with starting values estimated from the outcomes."""
        return cls()

    def score_variance(self, outcome: np.ndarray) -> float:
        """Return the prior variance of the combined score f from which learning starts."""
        return 1.0

    def score_offset(self, outcome: np.ndarray) -> float:
        """Return the score of the mean outcome; 0 if the sides of a match are exchangeable."""
        return 0.0

    # Inference

    def log_partition(
        self, outcome: ArrayLike, mean: ArrayLike, variance: ArrayLike, weight: Weight = None
    ) -> Derivatives:
        """Compute log ∫ p(outcome | f)^weight N(f; mean, variance) df and its derivatives.

        The derivatives are with respect to the mean. Expectation propagation matches moments
        with them (paper, appendix A).

        Args:
            outcome: outcomes.
            mean: cavity mean of the score.
            variance: cavity variance of the score.
            weight: weight of the observation, not negative; one if `None`.
        """
        return log_partition_by_quadrature(self, outcome, mean, variance, weight)

    def expectation(self, outcome: ArrayLike, mean: ArrayLike, variance: ArrayLike) -> Derivatives:
        """Compute E[log p(outcome | f)] for f ~ N(mean, variance) and its derivatives.

        The derivatives are with respect to the mean. Reverse KL uses them at the marginal mean
        and variance (paper, appendix A).
        """
        return expectation_by_quadrature(self, outcome, mean, variance)

    def local(self, outcome: Values) -> Callable[[Array], Local]:
        """Return a function of the score that evaluates the likelihood and its derivatives.

        Quadrature calls the function at every node, so compute what depends only on the outcome
        outside of it. The result does not include `constant`.
        """

        def at(score):
            one = jnp.ones_like(score)

            def with_slope(score):
                return jax.jvp(lambda f: self.log_prob(outcome, f), (score,), (one,))

            (value, first), (_, second) = jax.jvp(with_slope, (score,), (one,))
            return Local(value, first, second)

        return at

    def constant(self, outcome: Values) -> Values | float:
        """Compute the terms of log p that do not depend on the score, which `local` omits."""
        return 0.0

    def anchor(self, outcome: Values, weight: Values | float) -> Anchor | None:
        """Return where the slope of the log-likelihood changes, to place quadrature nodes.

        Only for log-concave likelihoods.

        Returns:
            The anchor of the likelihood to the power `weight`, or `None` to search for it.
        """
        return None

    @property
    def is_searched(self) -> bool:
        """True if quadrature must search for the peak of the likelihood, and may miss one."""
        kind, base = type(self), AbstractLikelihood
        return kind.anchor is base.anchor and kind.log_partition is base.log_partition

    # Predictions

    def predictive_log_prob(
        self, outcome: ArrayLike, mean: ArrayLike, variance: ArrayLike
    ) -> Values:
        """Compute log p(outcome) for f ~ N(mean, variance)."""
        return self.log_partition(outcome, mean, variance).value

    def probabilities(self, mean: ArrayLike, variance: ArrayLike) -> Float[Array, "... levels"]:
        """Compute the probability of each of the `levels` for f ~ N(mean, variance).

        Raises:
            NotImplementedError: if the likelihood has no `levels`.
        """
        if not self.levels:
            raise NotImplementedError(
                f"{type(self).__name__} has no `probabilities`, because its outcomes are not "
                "finitely many levels. Use `predictive_log_prob`, or `distribution`."
            )
        mean, variance = align(mean, variance)
        levels = jnp.asarray(self.levels, dtype=mean.dtype)
        log_probs = self.predictive_log_prob(levels, mean[..., None], variance[..., None])
        return jax.nn.softmax(log_probs, axis=-1)

    def result_probabilities(
        self, mean: ArrayLike, variance: ArrayLike, ties: bool | None = None
    ) -> Float[Array, "... 3"]:
        """Compute the probabilities that the first side loses, ties and wins.

        Args:
            mean: mean of the score f.
            variance: variance of f.
            ties: whether the result can be a tie; `has_ties` if `None`. A continuous difference
                counts as a tie within half a point of zero. Without ties, their probability is
                split in proportion to loss and win. Ignored for likelihoods with `levels`.

        Returns:
            An array of shape (..., 3): loss, tie and win.

        Raises:
            ValueError: if the likelihood has no results.
        """
        if not self.has_results:
            raise ValueError(
                f"{type(self).__name__} has no win, tie and loss: its outcomes are {self.domain}."
            )
        mean, variance = align(mean, variance)
        if self.levels:
            belongs = np.sign(self.levels)[:, None] == np.array([-1.0, 0.0, 1.0])
            return self.probabilities(mean, variance) @ jnp.asarray(belongs, mean.dtype)
        loss, win = self._loss_and_win(mean, variance, self.is_discrete or bool(ties))
        if self.has_ties if ties is None else ties:
            return jnp.stack([loss, 1.0 - loss - win, win], axis=-1)
        total = loss + win
        return jnp.stack([loss / total, jnp.zeros_like(win), win / total], axis=-1)

    def rank_probabilities(self, mean: ArrayLike, variance: ArrayLike) -> Float[Array, "... S S"]:
        """Compute the probability of each side for each place; for likelihoods of rankings."""
        raise NotImplementedError(f"{type(self).__name__} is not a likelihood of rankings.")

    def joint_probabilities(
        self, mean: ArrayLike, variance: ArrayLike, largest: int = 10
    ) -> Float[Array, "... first second"]:
        """Compute the probability of each pair of counts from 0 to `largest`.

        For likelihoods of counts.

        Args:
            mean: means of the scores of both sides, of shape (..., 2).
            variance: their variances.
            largest: the largest count of either side; larger ones are omitted.

        Returns:
            Probabilities of shape (..., largest + 1, largest + 1): the first side's count, then
            the second side's.
        """
        mean, variance = align(mean, variance)
        counts = jnp.arange(largest + 1, dtype=mean.dtype)
        log_probs = self.predictive_log_prob(counts, mean[..., None], variance[..., None])
        first, second = jnp.moveaxis(jnp.exp(log_probs), -2, 0)
        return first[..., :, None] * second[..., None, :]

    def joint_log_prob(self, counts: ArrayLike, mean: ArrayLike, variance: ArrayLike) -> Values:
        """Compute the log-probability of the counts of both sides, along the last axis."""
        return jnp.sum(self.predictive_log_prob(counts, mean, variance), axis=-1)

    def predictive_mean(self, mean: ArrayLike, variance: ArrayLike) -> Values:
        """Compute the mean of the outcome for f ~ N(mean, variance); NaN if there is none."""
        return self._grid(mean, variance).mean()

    def predictive_variance(self, mean: ArrayLike, variance: ArrayLike) -> Values:
        """Compute the variance of the outcome for f ~ N(mean, variance); NaN if there is none."""
        return self._grid(mean, variance).variance()

    def predictive_quantile(
        self, probability: ArrayLike, mean: ArrayLike, variance: ArrayLike
    ) -> Values:
        """Compute a quantile of the outcome for f ~ N(mean, variance)."""
        mean, variance, probability = align(mean, variance, probability)
        return self._grid(mean, variance).quantile(probability)

    def distribution(
        self, mean: Values, variance: Values, outcomes: ArrayLike | None = None
    ) -> Distribution:
        """Compute the distribution of the outcome for f ~ N(mean, variance).

        Args:
            mean: means of the scores.
            variance: their variances.
            outcomes: the outcomes of interest. If `None`: the levels if there are any; otherwise
                all integers, or 201 points of a continuous outcome, between the 1e-6 and
                1 − 1e-6 quantiles.
        """
        if outcomes is None:
            outcomes = self._range(mean, variance)
        outcomes = np.atleast_1d(np.asarray(outcomes, np.float64))
        grid = jnp.asarray(outcomes, mean.dtype)
        log_probs = call_compiled(
            self.predictive_log_prob, grid, mean[..., None], variance[..., None]
        )
        return Distribution(outcomes, jnp.exp(log_probs))

    def sample(self, key: Key[Array, ""], score: Values) -> Values:
        """Draw one outcome for each score."""
        uniform = jax.random.uniform(key, score.shape, score.dtype)
        return outcome_grid(self, score, None, self._lowest).quantile(uniform)

    def __repr__(self) -> str:
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        texts = [f"{name}={value!r}" for name, value in values.items() if value is not None]
        return f"{type(self).__name__}({', '.join(texts)})"

    def _refuses(self, outcome: float) -> bool:
        return bool(np.any(self.check(np.array([outcome]))))

    def _results_at(self, score: float) -> list[float]:
        """Compute the probabilities of loss, tie and win at a known score."""
        return np.asarray(call_compiled(self.result_probabilities, score, 0.0)).tolist()

    def _loss_and_win(self, mean: Values, variance: Values, ties: bool) -> tuple[Values, Values]:
        """Compute the probabilities of a difference below and above zero, or ±½ with ties."""
        grid = self._grid(mean, variance)
        half = 0.5 if ties else 0.0
        return grid.cdf(-half), 1.0 - grid.cdf(half)

    @property
    def _lowest(self) -> float | None:
        return 0.0 if self._refuses(-1.0) else None

    def _grid(self, mean: ArrayLike, variance: ArrayLike) -> OutcomeGrid:
        mean, variance = align(mean, variance)
        return outcome_grid(self, mean, variance, self._lowest)

    def _range(self, mean: Values, variance: Values) -> np.ndarray:
        """Return the outcomes that `distribution` shows by default."""
        if self.levels:
            return np.asarray(self.levels)

        def end(probability: float, choose: Callable) -> float:
            wanted = jnp.asarray(probability, mean.dtype)
            return float(choose(call_compiled(self.predictive_quantile, wanted, mean, variance)))

        low, high = end(_TAIL, jnp.min), end(1.0 - _TAIL, jnp.max)
        if self.is_discrete:
            return np.arange(low, high + 1.0)
        return np.linspace(low, high, _POINTS)


def observation_count(likelihood: AbstractLikelihood) -> int | None:
    """Return the length of arrays with one number for each observation; `None` without them.

    With such arrays, log p of one outcome and one score is an array. Other arrays, such as cuts
    between levels, do not change its shape.
    """
    leaves, structure = jax.tree.flatten(likelihood)
    if likelihood.num_predictors != 1 or not any(map(jnp.ndim, filter(eqx.is_array_like, leaves))):
        return None
    return _trial_length(
        structure,
        tuple(
            jax.ShapeDtypeStruct(jnp.shape(leaf), jnp.result_type(leaf))
            if eqx.is_array_like(leaf)
            else leaf
            for leaf in leaves
        ),
    )


def map_observations(likelihood: Likelihood, function: Callable[[Array], Array]) -> Likelihood:
    """Apply a function to the arrays that have one number for each observation."""
    count = observation_count(likelihood)
    if count is None:
        return likelihood

    def apply(leaf: Any) -> Any:
        own = eqx.is_array(leaf) and leaf.ndim > 0 and len(leaf) == count
        return function(jnp.asarray(leaf)) if own else leaf

    return jax.tree.map(apply, likelihood)


def refuse_own_numbers(likelihood: AbstractLikelihood) -> None:
    """Refuse arrays with one number for each observation, where matches are predicted.

    Raises:
        DataError: if the likelihood has such an array.
    """
    if observation_count(likelihood) is not None:
        raise DataError(
            f"{type(likelihood).__name__} has one number for each observation of a data set, so it "
            "cannot predict matches",
            "Use one number for all. Or predict scores with `linear_combination`, and outcomes "
            "with `predictive_log_prob` of a likelihood that has the numbers of these matches.",
            argument="likelihood",
        )


@functools.cache
def _trial_length(structure: Any, leaves: tuple) -> int | None:
    """Evaluate the shape of log p for one outcome and one score."""
    likelihood = jax.tree.unflatten(structure, leaves)
    kinds = [leaf.dtype for leaf in leaves if isinstance(leaf, jax.ShapeDtypeStruct)]
    kind = next((each for each in kinds if jnp.issubdtype(each, jnp.floating)), jnp.dtype(float))
    number = jax.ShapeDtypeStruct((), kind)

    def trial(likelihood: AbstractLikelihood, outcome: Array, score: Array) -> Values:
        return jnp.asarray(resolve(likelihood, kind).log_prob(outcome, score))

    shape = eqx.filter_eval_shape(trial, likelihood, number, number).shape
    return shape[0] if shape and shape[0] > 1 else None
