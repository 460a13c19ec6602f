"""Baselines: random guesses, constant scores, Elo, TrueSkill and TrueSkill Through Time."""

import abc
import math
from collections.abc import Iterator, Mapping
from typing import Self, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import ArrayLike, PyTree

from jaxkick._typing import Array, Float, Scalar
from jaxkick._xla import is_known
from jaxkick.data.dataset import Dataset
from jaxkick.errors import DataError, invalid
from jaxkick.evaluation.backtest import AbstractForecaster, Blocks, Predicted
from jaxkick.inference.problem import ScoreMoments
from jaxkick.kernels import FIRST, Constant, Epoch, Wiener
from jaxkick.learning.objective import Template, split
from jaxkick.likelihoods import AbstractLikelihood, Logit, OrdinalProbit, Probit
from jaxkick.model import Model
from jaxkick.online import Past, Rule
from jaxkick.parameters import AbstractParameter, Fixed, named, nonnegative, positive

__all__ = ["Elo", "Random", "TrueSkill", "constant_scores", "trueskill_through_time"]

Parameter: TypeAlias = AbstractParameter | dict[str, AbstractParameter]
"""One parameter for all features, or one for each group."""

ParameterLike: TypeAlias = (
    ArrayLike | AbstractParameter | Mapping[str, ArrayLike | AbstractParameter]
)

_ELO_POINTS = 5.0  # useful rates in units of scores are smaller
_TOLERANCE = 1e-10  # tuning ends when a step lowers the mean log loss by less than this
_THIRDS = 0.43072729929545756  # Φ⁻¹(2/3), the margin that makes three outcomes equally probable


def constant_scores(likelihood: AbstractLikelihood | None = None, variance: float = 1.0) -> Model:
    """Build a model whose scores never change.

    Args:
        likelihood: how an outcome follows from the score; `Probit()` if `None`.
        variance: prior variance of scores.
    """
    return Model(Constant(variance), Probit() if likelihood is None else likelihood)


def trueskill_through_time(
    likelihood: AbstractLikelihood | None = None,
    variance: float = 1.0,
    time_variance: float = 0.1,
) -> Model:
    """Build the model of TrueSkill Through Time: Brownian motion from the first match on.

    Args:
        likelihood: how an outcome follows from the score; `Probit()` if `None`.
        variance: prior variance of scores at the first match.
        time_variance: variance added per unit of time.
    """
    kernel = Wiener(time_variance, origin_variance=variance)
    return Model(kernel, Probit() if likelihood is None else likelihood)


class Random(AbstractForecaster):
    """A forecaster that gives all outcomes the same probability.

    Attributes:
        ties: whether ties are possible.
    """

    ties: bool = False

    @property
    def likelihood(self) -> AbstractLikelihood:
        return OrdinalProbit(margin=Fixed(_THIRDS)) if self.ties else Probit()

    def tune(self, data: Dataset, blocks: Blocks, before: int) -> "tuple[Random, bool]":
        return self, True

    def init(self, data: Dataset) -> PyTree:
        return ()

    def forecast(self, data: Dataset, blocks: Blocks, state: PyTree) -> Iterator[Predicted]:
        nothing = np.zeros(len(blocks.rows))
        yield Predicted(len(blocks.tested), blocks.rows, ScoreMoments(nothing, nothing), state)


class _AbstractRatingSystem(AbstractForecaster):
    """A rating system that sees each match once, in time order; see `jaxkick.online`."""

    likelihood: eqx.AbstractVar[AbstractLikelihood]

    @abc.abstractmethod
    def rule(self, groups: tuple[str, ...], epoch: Epoch) -> Rule:
        """The rule by which matches change the ratings of these groups."""

    def log_prob(self, outcome: Array, score: ScoreMoments) -> Float[Array, " n"]:
        """Logarithm of the predicted probability of outcomes."""
        return self.likelihood.predictive_log_prob(outcome, score.mean, score.variance)

    def tune(self, data: Dataset, blocks: Blocks, before: int) -> tuple[Self, bool]:
        """Minimize the mean log loss of past matches, each predicted from earlier blocks."""
        # Imported where it is needed: SciPy is slow to import.
        from scipy.optimize import minimize

        past = Past.of(data, blocks.number, blocks.number < before)
        free, frame = split(self)
        start, restore = ravel_pytree(free)

        def evaluate(point: np.ndarray) -> tuple[float, np.ndarray]:
            point = restore(jnp.asarray(point, start.dtype))
            value, slope = _loss_and_slope(point, frame, past)
            return float(value), np.asarray(ravel_pytree(slope)[0], np.float64)

        # Slopes in float32 are rounded: without this, the search might not end.
        tolerance = max(_TOLERANCE, 10.0 * float(jnp.finfo(start.dtype).eps))
        begin, options = np.asarray(start, np.float64), {"ftol": tolerance}
        found = minimize(evaluate, begin, jac=True, method="L-BFGS-B", options=options)
        return frame.fill(restore(jnp.asarray(found.x, start.dtype))), bool(found.success)

    def init(self, data: Dataset) -> PyTree:
        return ()

    def forecast(self, data: Dataset, blocks: Blocks, state: PyTree) -> Iterator[Predicted]:
        past = Past.of(data, blocks.number, blocks.number <= blocks.tested[-1])
        found = np.empty((2, len(data)))
        found[:, past.order] = _predict(self, past)
        moments = ScoreMoments(*found[:, blocks.rows])
        yield Predicted(len(blocks.tested), blocks.rows, moments, state)


@eqx.filter_jit
def _predict(system: _AbstractRatingSystem, past: Past) -> ScoreMoments:
    return past.predict(system.rule(past.groups, past.epoch))


@eqx.filter_jit
def _loss_and_slope(free: PyTree, frame: Template, past: Past) -> tuple[Scalar, PyTree]:
    def loss(free):
        system = frame.fill(free)
        score = past.predict(system.rule(past.groups, past.epoch))
        log_prob = system.log_prob(jnp.asarray(past.matches.outcome), score)
        return -jnp.mean(log_prob), -jnp.mean(log_prob)

    # Forward mode: there are few parameters, and no states of every match to keep.
    slope, value = jax.jacfwd(loss, has_aux=True)(free)
    return value, slope


class Elo(_AbstractRatingSystem):
    """Ratings that move along the gradient of the log-likelihood of each match.

    With `Logit()` this is the rating system of chess: r ← r ± rate (y − P(win)). With
    `OrdinalLogit(margin=)` there are ties within a margin. `walk_forward(..., relearn=)` tunes
    the parameters.

    Attributes:
        rate: step size (the K-factor, in units of scores): a number, or one for each group.
        likelihood: how an outcome follows from the score.
    """

    rate: Parameter
    likelihood: AbstractLikelihood

    def __init__(self, rate: ParameterLike = 0.1, likelihood: AbstractLikelihood | None = None):
        """Set starting values; the likelihood is `Logit()` if `None`."""
        self.rate = _read("rate", rate, positive)
        _check_rates(self.rate)
        self.likelihood = Logit() if likelihood is None else likelihood

    def rule(self, groups: tuple[str, ...], epoch: Epoch) -> Rule:
        kernels = {group: Constant(_of_group("rate", self.rate, group)) for group in groups}
        return Rule(Model(kernels, self.likelihood), epoch, groups, at_mean=True)

    def log_prob(self, outcome: Array, score: ScoreMoments) -> Float[Array, " n"]:
        return self.likelihood.log_prob(outcome, score.mean)


class TrueSkill(_AbstractRatingSystem):
    """Gaussian ratings, updated once by each match; scores follow Brownian motion.

    Herbrich, Minka and Graepel, "TrueSkill: a Bayesian skill rating system", 2006: one forward
    pass of expectation propagation. In their notation, with likelihoods of unit noise,
    `variance` is σ², `match_variance` is τ² and 2 β² is 1. `walk_forward(..., relearn=)` tunes
    the parameters, except variances of zero.

    Attributes:
        variance: variance of a rating before the first match: a number, or one for each group.
        match_variance: variance added before each match, in the same form.
        time_variance: variance added per unit of time, in the same form.
        likelihood: how an outcome follows from the score.
    """

    variance: Parameter
    match_variance: Parameter
    time_variance: Parameter
    likelihood: AbstractLikelihood

    def __init__(
        self,
        variance: ParameterLike = 1.0,
        match_variance: ParameterLike = 0.01,
        time_variance: ParameterLike = 0.0,
        likelihood: AbstractLikelihood | None = None,
    ):
        """Set starting values; the likelihood is `Probit()` if `None`."""
        self.variance = _read("variance", variance, positive)
        self.match_variance = _read("match_variance", match_variance, nonnegative)
        self.time_variance = _read("time_variance", time_variance, nonnegative)
        self.likelihood = Probit() if likelihood is None else likelihood

    def rule(self, groups: tuple[str, ...], epoch: Epoch) -> Rule:
        kernels, added = {}, []
        for group in groups:
            variance = _of_group("variance", self.variance, group)
            drift = _of_group("time_variance", self.time_variance, group)
            kernels[group] = Wiener(drift, FIRST, variance)
            added.append(_of_group("match_variance", self.match_variance, group))
        return Rule(Model(kernels, self.likelihood), epoch, groups, tuple(added))


def _read(name: str, value: ParameterLike, constrain) -> Parameter:
    if isinstance(value, Mapping):
        return {key: named(f"{name}[{key!r}]", constrain)(each) for key, each in value.items()}
    return named(name, constrain)(value)


def _check_rates(rates: Parameter) -> None:
    """Refuse a rate in Elo points, in which the scale of scores is 400 / ln 10."""
    for rate in rates.values() if isinstance(rates, dict) else [rates]:
        if is_known(rate.value) and float(rate) >= _ELO_POINTS:
            remedy = f"In units of scores it is {float(rate) * math.log(10) / 400:.3g}."
            raise invalid("rate", float(rate), "which seems to be in Elo points", remedy)


def _of_group(name: str, value: Parameter, group: str) -> AbstractParameter:
    if isinstance(value, AbstractParameter):
        return value
    if group not in value:
        raise DataError(
            f"{{argument}} has no value for the group {group!r} of the data",
            f"It has values for {', '.join(map(repr, value))}; add one for {group!r}.",
            argument=name,
        )
    return value[group]
