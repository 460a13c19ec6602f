"""`infer`, and the posterior that it returns."""

import dataclasses
import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import ArrayLike

from jaxkick._tracing import is_known
from jaxkick._typing import Array, Bool, Float, Int, Key, Scalar
from jaxkick.competitors import choose_competitors
from jaxkick.counts import CountsPrediction
from jaxkick.dataset.dataset import Dataset
from jaxkick.dataset.query import Query, read_query
from jaxkick.dataset.reading import read_alike
from jaxkick.dataset.validation import OnInvalid
from jaxkick.diagnosis import Finding, diagnose
from jaxkick.inference.ending import Result, raise_unless_converged
from jaxkick.inference.ep import ExpectationPropagation
from jaxkick.inference.loop import ACCELERATION, Settings
from jaxkick.inference.method import AbstractMethod
from jaxkick.inference.problem import ScoreMoments, Sites, make_problem
from jaxkick.inference.request import (
    check_fit,
    check_kinds,
    check_method,
    read_active,
    read_start,
    reporter,
)
from jaxkick.inference.solve import Solution, solve
from jaxkick.matches import predict_match, read_match, read_matches
from jaxkick.model import Model
from jaxkick.prediction import Prediction, predict_scores
from jaxkick.ranking import Scale, Standing, as_scale, rank
from jaxkick.sampling import make_timeline, sample_paths
from jaxkick.scores import Scores, join_scores
from jaxkick.statespace.smoother import States
from jaxkick.statespace.step import Site
from jaxkick.tables import extend_table, make_table
from jaxkick.updating import Roomy, extend_means, grow, settle

__all__ = ["Posterior", "infer", "log_marginal_likelihood"]


# Names of what a posterior keeps beside its fields.
_STATES = "_kept_states"
_ROOMY = "_kept_room"


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
        """What prediction at other times needs, chain by chain; computed when first asked for.

        After `update` they have the layout with room that it works in.
        """
        kept = self.__dict__.get(_STATES)
        if kept is None:
            data, sites = self._laid_out
            kept = _keep_states(self.model, _without_index(data), sites)
            if is_known(jax.tree.leaves(kept)[0]):
                # A cache beside the fields: copies of the posterior start without it.
                object.__setattr__(self, _STATES, kept)
        return kept

    def update(
        self,
        matches: Any,
        *,
        tol: float = 0.05,
        max_steps: int = 1000,
        on_invalid: OnInvalid = "raise",
        throw: bool = True,
    ) -> "Posterior":
        """The posterior with further matches, from where this one stands.

        As `infer` of all matches together, but inference starts from this posterior, and the
        program that was compiled for one update serves the next ones: it has room for half
        as many matches again before another is needed. Matches may come in any order of time
        and bring new competitors. All observations count, also those that were not active.

        Args:
            matches: a table with the columns of the one that the data was made of, or a
                `Dataset` of the new matches alone.
            tol: as in `infer`.
            max_steps: as in `infer`.
            on_invalid: `"raise"` or `"drop"`, as for the data set.
            throw: whether to raise when the fixed point was not reached.

        Returns:
            The new posterior; this one stays as it is.

        Raises:
            ValueError: if the matches cannot be used.
            InferenceError: if the fixed point was not reached and `throw` holds.
        """
        index = self.data.index
        new = read_alike(matches, index.recipe, index.grouping, index.unit, on_invalid)
        kept: Roomy | None = self.__dict__.get(_ROOMY)
        data, roomy = grow(self.data, self.sites, None if kept is None else kept.room, new)
        model = extend_means(self.model, self.data, data)
        check_fit(model, data, None)
        solution = _run(model, roomy.data, self.method, roomy.sites, roomy.active, tol, max_steps)
        posterior = Posterior(model, data, self.method, *settle(solution, roomy, data))
        object.__setattr__(posterior, _ROOMY, roomy._replace(sites=solution.sites))
        if throw:
            raise_unless_converged(solution.result, solution.steps, solution.distance, tol)
        return posterior

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
        index = self.data.index
        if times is not None:
            numbers = np.atleast_1d(index.to_time(times))
            moments = self.combination({name: 1.0}, np.atleast_1d(times))
            return Scores.of(name, index, numbers, moments.mean, moments.variance)
        entries = self.data.entries(name)
        if not len(entries.times):
            raise ValueError(
                f"no observation has the feature {name!r}; pass `times` to see its prior, or "
                "look for its name in `data.names`."
            )
        means, variances = (part[entries.positions] for part in end_to_end(self.entries))
        return Scores.of(name, index, entries.times, means, variances)

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
        return self._score_query(query)

    def predict(
        self,
        first: Any,
        second: Any,
        time: Any,
        covariates: Mapping[Hashable, ArrayLike] | None = None,
        home: ArrayLike | None = None,
    ) -> Prediction | CountsPrediction:
        """Outcomes of matches at any time.

        Args:
            first: the first side: a name, or a mapping from names to coefficients; or a list
                of them for many matches. A line-up is a mapping, or a list within the list.
            second: the second side, likewise.
            time: one time in the user's terms, or one for each match.
            covariates: further features by name, with one coefficient or one for each match.
            home: who is at home, for data with a home advantage: +1 or `True` the first side,
                -1 the second, 0 nobody, which is the default; one or one for each match.

        Returns:
            The combined scores and the outcomes that follow from them; both counts of every
            match where the data was read with `counts=`.
        """
        match = read_match(self.data.index, first, second, covariates, home)
        return predict_match(self._score_query, self.model, self.data.index, match, time)

    def forecast(self, matches: Any) -> Any:
        """A table of matches with what is to be expected of them, in the table's own library.

        Args:
            matches: a table with the columns of the one that the data was made of by
                `Dataset.from_frame`; outcomes are not needed and not read.

        Returns:
            The table with further columns: mean and deviation of the combined score, and
            the probabilities `first_wins`, `tie` and `second_wins`, or what else there is to
            say of the outcome.

        Raises:
            ValueError: if the data was not made of a table, or a column is missing.
        """
        index = self.data.index
        match, times = read_matches(index, matches)
        prediction = predict_match(self._score_query, self.model, index, match, times)
        return extend_table(matches, prediction.columns())

    def leaderboard(
        self,
        time: Any = None,
        *,
        names: Sequence[Hashable] | None = None,
        group: str | None = None,
        scale: Scale | tuple[float, float] | str | None = None,
        interval: float = 0.9,
        min_matches: int = 1,
        active_within: float | None = None,
        seed: int = 0,
        library: str | None = None,
    ) -> Any:
        """Competitors by their score at a time, the best first.

        Args:
            time: the time in the user's terms; that of the last match if `None`.
            names: whom to compare; if `None` all features of one group.
            group: that group; `"default"` if `None`. Of data that was read with `counts=`,
                teams are compared by the sum of their attack and defence.
            scale: how ratings are shown: `"elo"`, `"trueskill"`, or two numbers: the rating
                of a score of zero, and the points for odds of 10 to 1. Scores if `None`.
            interval: the probability of the intervals of ratings and ranks.
            min_matches: leave out who had fewer matches by then.
            active_within: leave out whose last match was longer ago, in the data's unit.
            seed: of the draws that ranks are counted in.
            library: the library of the table; that of the data if `None`.

        Returns:
            A table with the columns rank, name, rating, deviation, lower, upper, rank_lower,
            rank_upper, best (the probability of having the highest score), matches and
            last_active.
        """
        chosen = choose_competitors(self.data.index, time, names, group, min_matches, active_within)
        moments = self.combination(chosen.features, chosen.time)
        mean, variance = (np.asarray(part, np.float64) for part in moments)
        standing = Standing(chosen.names, mean, variance, chosen.matches, chosen.last_active)
        columns = rank(standing, self.model.likelihood, as_scale(scale), interval, seed)
        return make_table(columns, library or self.data.index.library)

    def to_frame(
        self, names: Sequence[Hashable] | None = None, times: Any = None, library: str | None = None
    ) -> Any:
        """Scores over time as one long table: name, group, time, mean and deviation.

        Args:
            names: of the features; all of them if `None`.
            times: times in the user's terms; those of each feature's own entries if `None`.
            library: the library of the table; that of the data if `None`.
        """
        index = self.data.index
        if names is None:
            names = [index.names[number] for number in np.flatnonzero(index.counts)]
        return join_scores([self.scores(name, times) for name in names], library)

    def sample(
        self, name: Hashable, times: Any, key: Key[Array, ""], shape: tuple[int, ...] = ()
    ) -> Float[Array, "*shape times"]:
        """Draw paths of a feature's score from the posterior, jointly at all times.

        Args:
            name: the name of the feature; the prior for one that the data lacks.
            times: times in the user's terms, in any order.
            key: a random key.
            shape: the shape of the batch of independent paths.

        Returns:
            The scores, in the order of `times`.
        """
        index, dtype = self.data.index, self.data.coefficients.dtype
        entries = self.data.entries(name)
        sites = Site(*(part[entries.positions] for part in end_to_end(self.sites)))
        numbers = np.atleast_1d(index.to_time(times))
        line = make_timeline(entries.times, sites, numbers, index.epoch, np.dtype(dtype))
        group = index.group_of(name)
        paths = sample_paths(
            self.model.kernel_of(group),
            self.data.epoch,
            line.moments,
            line.sites,
            key,
            math.prod(shape),
        )
        mean = self.model.mean_of(group, index.feature_ids([name]), dtype)
        return (paths[:, line.asked] + mean).reshape(*shape, -1)

    def _score_query(self, query: Query) -> ScoreMoments:
        return predict_scores(self.model, self._laid_out[0], self.states, query)

    @property
    def _laid_out(self) -> tuple[Dataset, Sites]:
        """Data and sites, after `update` in the layout with room, for compiled programs."""
        roomy: Roomy | None = self.__dict__.get(_ROOMY)
        return (self.data, self.sites) if roomy is None else (roomy.data, roomy.sites)

    def describe(self) -> str:
        """What the model says, in plain words and in the data's unit of time."""
        return self.model.describe(self.data.index.unit)

    def check(self) -> tuple[Finding, ...]:
        """What may be wrong with this fit; nothing where nothing was found.

        Returns:
            Findings, each with its `kind` and a `message` that says what to do.
        """
        return diagnose(self.model, self.data.index, self.converged, float(self.distance))

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
    acceleration: int = ACCELERATION,
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
    check_method(method, acceleration, max_steps)
    check_kinds(model, data)
    active = read_active(active, data)
    check_fit(model, data, active)
    sites = read_start(start.sites if isinstance(start, Posterior) else start, data)
    report = reporter(progress)
    solution = _run(model, data, method, sites, active, tol, max_steps, acceleration, report)
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


def _run(
    model: Model,
    data: Dataset,
    method: AbstractMethod,
    start: Sites | None,
    active: Bool[Array, " N"] | None,
    tol: float,
    max_steps: int,
    acceleration: int = ACCELERATION,
    report: Callable[[int, float], None] | None = None,
) -> Solution:
    """Compiled inference; everything that may change without another compilation is an array."""
    dtype = data.coefficients.dtype
    settings = Settings(jnp.asarray(tol, dtype), jnp.asarray(max_steps, jnp.int32), acceleration)
    compiled = eqx.tree_at(lambda m: m.damping, method, jnp.asarray(method.damping, dtype))
    return _solve(model, _without_index(data), compiled, start, active, settings, report)


_solve = eqx.filter_jit(solve)


@eqx.filter_jit
def _keep_states(model: Model, data: Dataset, sites: Sites) -> tuple[States, ...]:
    smoothed = make_problem(model, data).smooth(sites, keep_states=True)
    return tuple(chain.states for chain in smoothed)


def end_to_end(parts: Sequence[tuple]) -> list[Float[Array, " entries"]]:
    """Arrays of every chain as one, in the order of the positions of entries."""
    columns = zip(*parts, strict=True)
    return [jnp.concatenate([part.ravel() for part in column]) for column in columns]


def _without_index(data: Dataset) -> Dataset:
    """The arrays alone, so that compiled programs serve all data of one shape."""
    return dataclasses.replace(data, index=None)
