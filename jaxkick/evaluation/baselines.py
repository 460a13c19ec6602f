"""What to beat: random guesses, constant scores, Elo, TrueSkill, and TrueSkill Through Time."""

import abc
from collections.abc import Iterator, Mapping
from typing import Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import ArrayLike, PyTree
from scipy.optimize import minimize

from jaxkick._parameters import AbstractParameter, Fixed, nonnegative, positive, resolve
from jaxkick._typing import Array, Float, Scalar
from jaxkick.dataset.dataset import Dataset
from jaxkick.evaluation.blocks import Blocks
from jaxkick.evaluation.forecaster import AbstractForecaster, Predicted
from jaxkick.evaluation.single_pass import (
    Features,
    Matches,
    Rule,
    by_feature,
    read_matches,
    run_pass,
)
from jaxkick.inference.problem import ScoreMoments
from jaxkick.kernels.nonstationary import Wiener
from jaxkick.kernels.stationary import Constant
from jaxkick.learning.free import Frame, split
from jaxkick.likelihoods.base import AbstractLikelihood
from jaxkick.likelihoods.binary import Logit, Probit
from jaxkick.likelihoods.ordinal import OrdinalProbit
from jaxkick.model import Model

__all__ = ["Elo", "Random", "TrueSkill", "constant_scores", "trueskill_through_time"]

Parameter = AbstractParameter | dict[str, AbstractParameter]
"""One parameter for all features, or one for each group."""

_ENOUGH = 1e-10  # tuning ends with a step that lowers the mean log loss by no more than this
_THIRDS = 0.43072729929545756  # Φ⁻¹(2/3), the margin that makes three outcomes equally probable


def constant_scores(likelihood: AbstractLikelihood | None = None, variance: float = 1.0) -> Model:
    """The model whose scores never change.

    Args:
        likelihood: how an outcome follows from the score; `Probit()` if `None`.
        variance: variance of the scores.
    """
    return Model(Constant(variance), Probit() if likelihood is None else likelihood)


def trueskill_through_time(
    likelihood: AbstractLikelihood | None = None,
    variance: float = 1.0,
    time_variance: float = 0.1,
) -> Model:
    """TrueSkill's dynamics, smoothed: Brownian motion from a feature's first match on.

    Args:
        likelihood: how an outcome follows from the score; `Probit()` if `None`.
        variance: variance of the scores at the first match.
        time_variance: what a unit of time adds to it.
    """
    kernel = Wiener(time_variance, origin_variance=variance)
    return Model(kernel, Probit() if likelihood is None else likelihood)


class Random(AbstractForecaster):
    """All outcomes are equally probable.

    Attributes:
        ties: whether a tie is one of them.
    """

    ties: bool = False

    @property
    def likelihood(self) -> AbstractLikelihood:
        return OrdinalProbit(margin=Fixed(_THIRDS)) if self.ties else Probit()

    def tune(self, data: Dataset, blocks: Blocks, before: int) -> "Random":
        return self

    def begin(self, data: Dataset) -> PyTree:
        return ()

    def forecast(self, data: Dataset, blocks: Blocks, memory: PyTree) -> Iterator[Predicted]:
        nothing = np.zeros(len(blocks.rows))
        yield Predicted(len(blocks.tested), blocks.rows, ScoreMoments(nothing, nothing), memory)


class _AbstractSinglePass(AbstractForecaster):
    """A rating system that looks at each match once, in the order of time."""

    @abc.abstractmethod
    def rule(self, features: Features) -> Rule:
        """How ratings of these features change."""

    @abc.abstractmethod
    def log_prob(self, outcome: Array, score: ScoreMoments) -> Float[Array, " n"]:
        """The logarithm of the predicted probability of outcomes."""

    def tune(self, data: Dataset, blocks: Blocks, before: int) -> Self:
        """Minimise the mean log loss of past matches, each predicted from earlier blocks."""
        matches, features = read_matches(data, blocks, before), Features.of(data)
        free, frame = split(self)
        start, restore = ravel_pytree(free)

        def evaluate(point: np.ndarray) -> tuple[float, np.ndarray]:
            point = restore(jnp.asarray(point, start.dtype))
            value, slope = _loss_and_slope(point, frame, features, matches)
            return float(value), np.asarray(ravel_pytree(slope)[0], np.float64)

        # In float32 slopes are rounded: a search until they are small enough might not end.
        enough = max(_ENOUGH, 10.0 * float(jnp.finfo(start.dtype).eps))
        found = minimize(
            evaluate,
            np.asarray(start, np.float64),
            jac=True,
            method="L-BFGS-B",
            options={"ftol": enough},
        )
        return frame.fill(restore(jnp.asarray(found.x, start.dtype)))

    def begin(self, data: Dataset) -> PyTree:
        return ()

    def forecast(self, data: Dataset, blocks: Blocks, memory: PyTree) -> Iterator[Predicted]:
        matches = read_matches(data, blocks, int(blocks.tested[-1]) + 1)
        found = np.empty((2, data.num_observations))
        found[:, matches.rows] = _run(self, Features.of(data), matches)
        moments = ScoreMoments(*found[:, blocks.rows])
        yield Predicted(len(blocks.tested), blocks.rows, moments, memory)


@eqx.filter_jit
def _run(system: _AbstractSinglePass, features: Features, matches: Matches) -> ScoreMoments:
    return run_pass(system.rule(features), matches)


@eqx.filter_jit
def _loss_and_slope(
    free: PyTree, frame: Frame, features: Features, matches: Matches
) -> tuple[Scalar, PyTree]:
    def loss(free):
        system = frame.fill(free)
        score = run_pass(system.rule(features), matches)
        value = -jnp.mean(system.log_prob(jnp.asarray(matches.outcome), score))
        return value, value

    # Forward mode: few parameters, and no ratings to keep of every match.
    slope, value = jax.jacfwd(loss, has_aux=True)(free)
    return value, slope


class Elo(_AbstractSinglePass):
    """Ratings that take a step along the slope of the log-likelihood after each match.

    With `Logit()`, the system of chess: r ← r ± rate (y − P(win)). With `OrdinalLogit(margin=)`
    there are ties within a margin.

    Attributes:
        rate: how far a step goes; a number, or one for each group of features.
        likelihood: how an outcome follows from the score.
    """

    rate: Parameter
    likelihood: AbstractLikelihood

    def __init__(
        self,
        rate: ArrayLike | AbstractParameter | Mapping[str, ArrayLike | AbstractParameter] = 0.1,
        likelihood: AbstractLikelihood | None = None,
    ):
        """Set starting values, for `walk_forward(..., relearn=)` to tune.

        Args:
            rate: how far a step goes; a number, or one for each group of features.
            likelihood: how an outcome follows from the score; `Logit()` if `None`.
        """
        self.rate = _read(rate, positive)
        self.likelihood = Logit() if likelihood is None else likelihood

    def rule(self, features: Features) -> Rule:
        rate = by_feature(self.rate, features)
        likelihood = resolve(self.likelihood, rate.dtype)

        def update(here, x, mean, variance, outcome, weight):
            slope = likelihood.local(outcome)(jnp.sum(x * mean)).first
            slope = slope if weight is None else slope * weight
            return mean + rate[here] * x * slope, variance

        nothing = jnp.zeros_like(rate)
        return Rule(nothing, nothing, nothing, update)

    def log_prob(self, outcome: Array, score: ScoreMoments) -> Float[Array, " n"]:
        return self.likelihood.log_prob(outcome, score.mean)


class TrueSkill(_AbstractSinglePass):
    """Gaussian ratings, updated once by each match; the scores move as Brownian motion.

    Herbrich, Minka and Graepel, "TrueSkill: a Bayesian skill rating system", 2006: one pass of
    expectation propagation, forwards only. In their terms, with likelihoods of unit noise,
    `variance` is σ², `match_variance` is τ² and 2 β² is 1.

    Attributes:
        variance: variance of a rating before the first match; a number, or one for each group.
        match_variance: what each match adds beforehand; likewise.
        time_variance: what a unit of time adds; likewise.
        likelihood: how an outcome follows from the score.
    """

    variance: Parameter
    match_variance: Parameter
    time_variance: Parameter
    likelihood: AbstractLikelihood

    def __init__(
        self,
        variance: ArrayLike | AbstractParameter | Mapping[str, ArrayLike | AbstractParameter] = 1.0,
        match_variance: ArrayLike
        | AbstractParameter
        | Mapping[str, ArrayLike | AbstractParameter] = 0.01,
        time_variance: ArrayLike
        | AbstractParameter
        | Mapping[str, ArrayLike | AbstractParameter] = 0.0,
        likelihood: AbstractLikelihood | None = None,
    ):
        """Set starting values, for `walk_forward(..., relearn=)` to tune.

        Args:
            variance: variance of a rating before the first match.
            match_variance: what each match adds beforehand; zero stays zero.
            time_variance: what a unit of time adds; zero stays zero.
            likelihood: how an outcome follows from the score; `Probit()` if `None`.
        """
        self.variance = _read(variance, positive)
        self.match_variance = _read(match_variance, nonnegative)
        self.time_variance = _read(time_variance, nonnegative)
        self.likelihood = Probit() if likelihood is None else likelihood

    def rule(self, features: Features) -> Rule:
        variance = by_feature(self.variance, features)
        likelihood = resolve(self.likelihood, variance.dtype)

        def update(here, x, mean, variance, outcome, weight):
            score, spread = jnp.sum(x * mean), jnp.sum(x * x * variance)
            _, first, second = likelihood.log_partition(outcome, score, spread, weight)
            share = x * variance
            return mean + share * first, variance + share * share * second

        return Rule(
            variance,
            by_feature(self.match_variance, features),
            by_feature(self.time_variance, features),
            update,
        )

    def log_prob(self, outcome: Array, score: ScoreMoments) -> Float[Array, " n"]:
        return self.likelihood.predictive_log_prob(outcome, score.mean, score.variance)


def _read(value, constrain) -> Parameter:
    if isinstance(value, Mapping):
        return {group: constrain(each) for group, each in value.items()}
    return constrain(value)
