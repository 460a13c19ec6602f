"""`infer`, and the posterior that it returns."""

import dataclasses
from collections.abc import Callable, Hashable, Mapping
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import ArrayLike

from jaxkick._parameters import resolve
from jaxkick._tracing import is_known
from jaxkick._typing import Array, Float, Int, Scalar
from jaxkick.dataset.dataset import Dataset
from jaxkick.dataset.query import read_query
from jaxkick.inference.ending import Result, raise_unless_converged
from jaxkick.inference.ep import ExpectationPropagation
from jaxkick.inference.loop import Settings
from jaxkick.inference.method import AbstractMethod
from jaxkick.inference.problem import ScoreMoments, Sites, make_problem
from jaxkick.inference.request import check_fit, read_active, read_start, reporter
from jaxkick.inference.solve import solve
from jaxkick.model import Model
from jaxkick.prediction import Prediction, predict_scores
from jaxkick.statespace.smoother import States

__all__ = ["Posterior", "Scores", "infer", "log_marginal_likelihood"]


class Scores(NamedTuple):
    """A feature's score at times.

    Attributes:
        times: float64 times in the data's unit.
        means: posterior means.
        variances: posterior variances.
    """

    times: np.ndarray
    means: Float[Array, " T"]
    variances: Float[Array, " T"]


class Posterior(eqx.Module):
    """The posterior distribution of all scores, as inference left it.

    Attributes:
        model: the model that was fitted.
        data: the observations that it was fitted to.
        method: the inference method.
        sites: the pseudo-observation of every entry, chain by chain; on scores less their
            prior mean.
        entries: posterior mean and variance of every entry's score, chain by chain, with the
            prior mean in it.
        observations: posterior mean and variance of every observation's combined score, in
            the order of the user's rows; predictions where an observation was not active.
        log_marginal_likelihood: the logarithm of the evidence (EP), or a lower bound of it
            (reverse KL).
        steps: how many times the method was evaluated.
        distance: estimate of how far the marginals still were from the fixed point, as the
            largest over all entries, in posterior standard deviations.
        damping: the damping in force at the end.
        result: how inference ended, as a `Result`.
    """

    model: Model
    data: Dataset
    method: AbstractMethod
    sites: Sites
    entries: tuple[ScoreMoments, ...]
    observations: ScoreMoments
    log_marginal_likelihood: Scalar
    steps: Int[Array, ""]
    distance: Scalar
    damping: Scalar
    result: Int[Array, ""]

    @property
    def converged(self) -> bool:
        """Whether inference ended at its fixed point, to the tolerance asked for."""
        return Result(int(self.result)) is Result.CONVERGED

    @property
    def states(self) -> tuple[States, ...]:
        """What prediction at other times needs, chain by chain; computed when first asked for."""
        kept = self.__dict__.get(_STATES)
        if kept is None:
            kept = _keep_states(self.model, _without_index(self.data), self.sites)
            if is_known(jax.tree.leaves(kept)[0]):
                # A cache beside the fields: copies of the posterior start without it.
                object.__setattr__(self, _STATES, kept)
        return kept

    def scores(self, name: Hashable, times: Any = None) -> Scores:
        """The score of a feature over time.

        Args:
            name: the name of the feature; the prior for one that the data lacks.
            times: times in the user's terms; those of the feature's own entries if `None`.

        Returns:
            Times, posterior means and variances.

        Raises:
            ValueError: if `times` is `None` for a feature that the data lacks.
        """
        if times is not None:
            numbers = np.atleast_1d(self.data.index.to_time(times))
            moments = self.combination({name: 1.0}, np.atleast_1d(times))
            return Scores(numbers, moments.mean, moments.variance)
        entries = self.data.entries(name)
        if not len(entries.times):
            raise ValueError(
                f"no observation has the feature {name!r}; pass `times` to see its prior, or "
                "look for its name in `data.names`."
            )
        means, variances = (
            jnp.concatenate([part.ravel() for part in parts])[entries.positions]
            for parts in zip(*self.entries, strict=True)
        )
        return Scores(entries.times, means, variances)

    def combination(self, features: Any, time: Any) -> ScoreMoments:
        """Mean and variance of linear combinations of scores.

        Args:
            features: a name, or a mapping from names to coefficients; or a list of them for
                many combinations.
            time: one time in the user's terms, or one for each combination.

        Returns:
            Means and variances, in the shape of what was asked.
        """
        query = read_query(self.data.index, time, {"features": (features, 1.0)}, {})
        return predict_scores(self.model, self.data, self.states, query)

    def predict(
        self,
        first: Any,
        second: Any,
        time: Any,
        covariates: Mapping[Hashable, ArrayLike] | None = None,
    ) -> Prediction:
        """Outcomes of matches at any time.

        Args:
            first: the first side: a name, or a mapping from names to coefficients; or a list
                of them for many matches. A line-up is a mapping, or a list within the list.
            second: the second side, likewise.
            time: one time in the user's terms, or one for each match.
            covariates: further features by name, with one coefficient or one for each match.

        Returns:
            The combined scores and the outcomes that follow from them.
        """
        sides = {"first": (first, 1.0), "second": (second, -1.0)}
        query = read_query(self.data.index, time, sides, covariates or {})
        moments = predict_scores(self.model, self.data, self.states, query)
        likelihood = resolve(self.model.likelihood, moments.mean.dtype)
        return Prediction(moments.mean, moments.variance, likelihood)

    def __repr__(self) -> str:
        ended = Result(int(self.result)).name.lower() if is_known(self.result) else "?"
        evidence = (
            f"{float(self.log_marginal_likelihood):.2f}"
            if is_known(self.log_marginal_likelihood)
            else "?"
        )
        return (
            f"Posterior({self.data.num_observations:,} observations of "
            f"{self.data.num_features:,} features, log-marginal likelihood {evidence}, {ended})"
        )


def infer(
    model: Model,
    data: Dataset,
    method: AbstractMethod | None = None,
    *,
    tol: float = 0.05,
    max_steps: int = 1000,
    acceleration: int = 8,
    start: Posterior | Sites | None = None,
    active: ArrayLike | None = None,
    throw: bool = True,
    progress: bool | Callable[[int, float], None] = False,
) -> Posterior:
    """Fit the posterior of all scores to the data.

    Pure in its arguments: may be called inside `jit` and `vmap`. There nothing is raised
    when inference fails; look at `result`.

    Args:
        model: kernels and likelihood.
        data: the observations.
        method: how to approximate the posterior: `ExpectationPropagation()`, the default, or
            `ReverseKL()`.
        tol: stop when the estimated distance to the fixed point is below this, as the largest
            over all marginals, in their standard deviations. At the default the evidence is
            usually within a few hundredths of a nat.
        max_steps: stop after so many steps.
        acceleration: how many past steps the acceleration remembers; 0 switches it off.
        start: a posterior, or its sites, of the same data to start from.
        active: booleans, one for each observation: those that count. The others leave no
            trace on the scores, and changing them does not compile anew.
        throw: whether to raise when the fixed point was not reached.
        progress: `True` for a line on the error stream, or a function that is called with the
            number of steps and the distance left.

    Returns:
        The posterior.

    Raises:
        ValueError: if an outcome is outside the likelihood's domain, or an argument does not
            fit the data.
        InferenceError: if the fixed point was not reached and `throw` holds.
    """
    method = ExpectationPropagation() if method is None else method
    active = read_active(active, data)
    check_fit(model, data, active)
    dtype = data.coefficients.dtype
    settings = Settings(jnp.asarray(tol, dtype), jnp.asarray(max_steps, jnp.int32), acceleration)
    compiled = eqx.tree_at(lambda m: m.damping, method, jnp.asarray(method.damping, dtype))
    solution = _solve(
        model,
        _without_index(data),
        compiled,
        read_start(start.sites if isinstance(start, Posterior) else start, data),
        active,
        settings,
        reporter(progress),
    )
    posterior = Posterior(model, data, method, *solution)
    if throw and is_known(solution.result):
        raise_unless_converged(solution.result, solution.steps, solution.distance, tol)
    return posterior


def log_marginal_likelihood(
    model: Model,
    data: Dataset,
    method: AbstractMethod | None = None,
    **options: Any,
) -> Scalar:
    """The log-marginal likelihood of the data, differentiable in the model and the data.

    Its derivative costs about one more step of inference, however many steps were taken,
    because the evidence is stationary in what inference changes. It is as exact as the fixed
    point: pass a smaller `tol` where a gradient needs more digits.

    Args:
        model: kernels and likelihood.
        data: the observations.
        method: how to approximate the posterior; `ExpectationPropagation()` if `None`.
        options: further arguments of `infer`.

    Returns:
        The logarithm of the evidence (EP), or a lower bound of it (reverse KL).
    """
    return infer(model, data, method, **options).log_marginal_likelihood


_solve = eqx.filter_jit(solve)

_STATES = "_kept_states"


@eqx.filter_jit
def _keep_states(model: Model, data: Dataset, sites: Sites) -> tuple[States, ...]:
    smoothed = make_problem(model, data).smooth(sites, keep_states=True)
    return tuple(chain.states for chain in smoothed)


def _without_index(data: Dataset) -> Dataset:
    """The arrays alone, so that compiled programs serve all data of one shape."""
    return dataclasses.replace(data, index=None)
