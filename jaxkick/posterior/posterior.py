"""The posterior: scores at any time, further matches, and what may be wrong."""

import math
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from jaxkick._tracing import is_known
from jaxkick._typing import Array, Float, Int, Key, Scalar
from jaxkick.dataset.dataset import Dataset
from jaxkick.dataset.index import Index
from jaxkick.dataset.query import Query
from jaxkick.dataset.reading import read_alike
from jaxkick.dataset.validation import OnInvalid, suggest_names
from jaxkick.diagnosis import Finding, diagnose
from jaxkick.inference.ending import Result, raise_unless_converged
from jaxkick.inference.method import AbstractMethod
from jaxkick.inference.problem import ScoreMoments, Sites
from jaxkick.inference.request import check_fit, reporter
from jaxkick.model import Model
from jaxkick.posterior.ratings import AbstractRatings
from jaxkick.posterior.running import end_line, keep_states, run
from jaxkick.prediction import predict_scores
from jaxkick.sampling import make_timeline, sample_paths
from jaxkick.scores import Scores, join_scores
from jaxkick.statespace.smoother import States
from jaxkick.statespace.step import Site
from jaxkick.updating import Roomy, extend_means, grow, settle

__all__ = ["Posterior"]


# Names of what a posterior keeps beside its fields.
_STATES = "_kept_states"
_ROOMY = "_kept_room"
_MOMENTS = "_kept_moments"


class Posterior(AbstractRatings, eqx.Module):
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
            kept = keep_states(self.model, *self._laid_out)
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
        progress: bool | Callable[[int, float], None] = False,
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
            progress: as in `infer`.

        Returns:
            The new posterior; this one stays as it is.

        Raises:
            ValueError: if the matches cannot be used.
            InferenceError: if the fixed point was not reached and `throw` holds.
        """
        index = self.data.index
        new = read_alike(
            matches, index.recipe, index.grouping, index.unit, on_invalid, self.model.likelihood
        )
        kept: Roomy | None = self.__dict__.get(_ROOMY)
        data, roomy = grow(self.data, self.sites, None if kept is None else kept.room, new)
        model = extend_means(self.model, self.data, data)
        check_fit(model, data, None)
        solution = run(
            model, roomy.data, self.method, roomy.sites, roomy.active,
            tol, max_steps, report=reporter(progress),
        )  # fmt: skip
        end_line(progress, solution)
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
                f"{suggest_names(name, index.names)}"
            )
        means, variances = (part[entries.positions] for part in self._entry_moments)
        return Scores.of(name, index, entries.times, jnp.asarray(means), jnp.asarray(variances))

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

    @property
    def _directory(self) -> Index:
        return self.data.index

    def _score_query(self, query: Query) -> ScoreMoments:
        return predict_scores(self.model, self._laid_out[0], self.states, query)

    @property
    def _entry_moments(self) -> list[np.ndarray] | list[Array]:
        """Means and variances of all entries, on the host where they are known."""
        kept = self.__dict__.get(_MOMENTS)
        if kept is None:
            kept = end_to_end(self.entries)
            if is_known(kept[0]):
                kept = [np.asarray(part) for part in kept]
                object.__setattr__(self, _MOMENTS, kept)
        return kept

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
        index, distance = self.data.index, float(self.distance)
        return diagnose(self.model, index, self.entries, self.converged, distance)

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


def end_to_end(parts: Sequence[tuple]) -> list[Float[Array, " entries"]]:
    """Arrays of every chain as one, in the order of the positions of entries."""
    columns = zip(*parts, strict=True)
    return [jnp.concatenate([part.ravel() for part in column]) for column in columns]
