"""The posterior: scores at any time, further matches, samples and diagnostics."""

import math
import weakref
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from jaxkick._typing import Array, Float, Int, Key, Scalar
from jaxkick._xla import is_known, on_host
from jaxkick.chains.sampling import make_timeline, sample_paths
from jaxkick.chains.smoother import Smoothed, States
from jaxkick.chains.step import Site
from jaxkick.data.dataset import Dataset, read_alike
from jaxkick.data.encoding import Index
from jaxkick.data.observations import refuse_repeats
from jaxkick.data.queries import Query, check_known, read_names
from jaxkick.data.reading import Rules
from jaxkick.data.tables import make_table, name_column
from jaxkick.errors import DataError, OnInvalid, check_count, plain
from jaxkick.inference.checks import check_fit
from jaxkick.inference.methods import AbstractMethod
from jaxkick.inference.problem import ScoreMoments, Sites, restart_ages
from jaxkick.inference.solve import Progress, run, smooth
from jaxkick.inference.status import Status, raise_unless_converged
from jaxkick.kernels import Instant
from jaxkick.model import Model
from jaxkick.posterior.components import Components, components_of
from jaxkick.posterior.diagnostics import Diagnostic, diagnose, warn_of_new_names
from jaxkick.posterior.explanation import Explanation, explain
from jaxkick.posterior.joint import (
    Factors,
    covariance_of,
    draw_scores,
    find_factors,
    is_joint,
    variance_of,
)
from jaxkick.posterior.leaderboard import Difference, Scale
from jaxkick.posterior.predictor import (
    AbstractPredictor,
    make_query,
    read_combination,
    score_points,
)
from jaxkick.posterior.scores import Scores, score_combinations
from jaxkick.posterior.simulated import Simulated, simulate
from jaxkick.posterior.suggestions import MatchSuggestions, suggest

__all__ = ["Memo", "Posterior", "carry_sites", "match_times"]

Kept = TypeVar("Kept")

# The largest number of times of a curve at which joint variances are computed; they are
# interpolated between these.
_MOST_NODES = 16


class Memo:
    """A cache of the values that a posterior computes on demand.

    All memos are equal, so that a memo never causes a recompilation. Copies of a posterior made
    by transformations of the tree (`eqx.tree_at`, `jit`, ...) may share a memo: it keeps the
    values of one owner, and computes the values of any other posterior again.
    """

    def __init__(self) -> None:
        """Start empty."""
        self._owner: weakref.ref | None = None
        self._kept: dict[str, Any] = {}

    def get(self, owner: Any, name: str, compute: Callable[[], Kept]) -> Kept:
        """Return a value of `owner`, computed unless it is kept."""
        own = self._owner is not None and self._owner() is owner
        if own and name in self._kept:
            return self._kept[name]
        value = compute()
        if is_known(jax.tree.leaves(value)[0]):
            if not own:
                self._owner, self._kept = weakref.ref(owner, self._forget), {}
            self._kept[name] = value
        return value

    def _forget(self, dead: weakref.ref) -> None:
        """Release the values with their owner: compiled programs may hold the memo for longer."""
        if self._owner is dead:
            self._owner, self._kept = None, {}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Memo)

    def __hash__(self) -> int:
        return hash(Memo)

    def __reduce__(self) -> tuple:
        return Memo, ()


class Posterior(AbstractPredictor, eqx.Module):
    """The posterior distribution of all scores.

    Attributes:
        model: the fitted model.
        data: the observations that it was fitted to.
        method: the inference method.
        sites: the pseudo-observation of every entry, chain by chain; of scores minus their
            prior mean.
        entries: posterior mean and variance of every entry's score, chain by chain, including
            the prior mean.
        observations: posterior mean and variance of every observation's combined score, in
            the order of the user's rows; predictions where an observation was masked out.
        log_marginal_likelihood: the log marginal likelihood of the data (EP), or a lower bound
            of it (reverse KL).
        steps: the number of steps of inference.
        distance: estimated distance of the marginals from the fixed point, the largest over
            all entries, in posterior standard deviations.
        status: why inference ended, a `Status`.
        memo: keeps `smoothed` and `factors` after their first use.
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
    status: Int[Array, ""]
    memo: Memo = eqx.field(static=True, init=False, repr=False, default_factory=Memo)

    @property
    def converged(self) -> bool:
        """True if inference reached its fixed point to the tolerance."""
        return Status(int(self.status)) is Status.CONVERGED

    @property
    def states(self) -> tuple[States, ...]:
        """The smoother's states, chain by chain, which scores at any time are computed from.

        Computed on first use, because many posteriors are never asked for them.
        """
        found = (chain.states for chain in self.smoothed)
        return tuple(states for states in found if states is not None)

    @property
    def smoothed(self) -> tuple[Smoothed, ...]:
        """The smoothing pass over the sites, chain by chain; computed on first use."""
        data = self.data.without_index()
        return self.memo.get(self, "smoothed", lambda: smooth(self.model, data, self.sites))

    @property
    def factors(self) -> Factors:
        """The Gaussian factors of all observations; computed on first use."""
        inputs = (self.model, self.data.without_index(), self.method, self.sites, self.smoothed)
        return self.memo.get(self, "factors", lambda: find_factors(*inputs))

    def update(
        self,
        matches: Any,
        *,
        tol: float = 0.05,
        max_steps: int = 1000,
        on_invalid: OnInvalid = "raise",
        allow_repeats: bool = False,
        throw: bool = True,
        progress: Progress = False,
    ) -> "Posterior":
        """Add matches, with a warm start from this posterior.

        The result is that of `infer` with all matches together. Compiled programs are reused as
        long as the matches fit into the padded shapes of the data, which then grow by a quarter.
        Matches may come in any order of time and include new competitors; a warning is issued if
        most names are new. Matches that are already in the data are refused. Earlier masks no
        longer apply.

        Args:
            matches: the new matches alone: a table with the columns of the one that the data
                was made of, or a `Dataset`.
            tol: as in `infer`.
            max_steps: as in `infer`.
            on_invalid: `"raise"` or `"drop"`, as for the data set.
            allow_repeats: whether to accept matches of the same sides at the same time as a
                match of the data. Data with one time for all accepts them always.
            throw: whether to raise an error when the fixed point was not reached.
            progress: as in `infer`.

        Returns:
            The new posterior; this one does not change.

        Raises:
            DataError: if the matches cannot be used, or are in the data already.
            InferenceError: if the fixed point was not reached and `throw` is true.
        """
        index = self.data.index
        likelihood = self.model.likelihood
        single = not isinstance(likelihood, dict) and likelihood.num_predictors == 1
        domain = likelihood if single else None
        columns = {"schema": index.schema, "kind_names": index.kind_names}
        rules = Rules(index.grouping, index.unit, on_invalid, domain, **columns)
        new = read_alike(matches, rules)
        if not allow_repeats:
            refuse_repeats(self.data.observations, new)
        warn_of_new_names(self.data.names, new.names)
        data = restart_ages(self.data.extended(new), None)
        model = _extend_means(self.model, self.data, data)
        check_fit(model, data, None)
        start = carry_sites(self.sites, self.data, data)
        solution = run(model, data, self.method, start, None, tol, max_steps, progress)
        if throw:
            raise_unless_converged(solution.status, solution.steps, solution.distance, tol)
        return Posterior(model, data, self.method, *solution)

    def covariance(
        self,
        features: Any,
        time: Any,
        *,
        aspects: Mapping[str, float] | None = None,
        allow_unknown: bool = False,
    ) -> Float[np.ndarray, "Q Q"]:
        """Return the covariance of scores, or of linear combinations of scores, at times.

        Unlike the variances of `linear_combination`, it is that of the joint posterior of all
        competitors; the means are the same. Each combination takes one linear solve over all
        matches.

        Args:
            features: a name, or a mapping from names to coefficients; or a list of them.
            time: one number or date as in the data, or one for each combination.
            aspects: coefficients of aspects, as in `linear_combination`.
            allow_unknown: as in `predict`.
        """
        query = self._alone(features, time, aspects, allow_unknown)
        if not len(query.times):
            raise DataError("{argument} is empty", "Name a competitor.", argument="features")
        return covariance_of(self, query)

    def change(
        self,
        name: Any,
        since: Any,
        until: Any,
        *,
        scale: Scale | tuple[float, float] | str | None = None,
        interval: float = 0.9,
        aspects: Mapping[str, float] | None = None,
        allow_unknown: bool = False,
    ) -> Difference:
        """Return the change of a score between two times, with its interval.

        Args:
            name: a name, or a mapping from names to coefficients; or a list of them.
            since: the earlier time, a number or date as in the data.
            until: the later time.
            scale: the rating scale, as in `leaderboard`.
            interval: the probability of the interval.
            aspects: coefficients of aspects, as in `linear_combination`.
            allow_unknown: as in `predict`.

        Returns:
            The difference, later minus earlier; `probability` is that of a rise.
        """
        queries = [self._alone(name, time, aspects, allow_unknown) for time in (until, since)]
        after, before = (self._score_query(query).mean for query in queries)
        covariance = covariance_of(self, _concatenate(*queries))
        count = len(covariance) // 2
        across = np.diagonal(covariance[:count, count:])
        variance = np.diagonal(covariance)[:count] + np.diagonal(covariance)[count:] - 2 * across
        variance = np.maximum(variance, 0.0).reshape(queries[0].shape)
        factor = score_points(self, scale, None).factor
        return Difference.of(after - before, variance, factor, interval)

    def sample_paths(
        self,
        names: Sequence[Hashable],
        times: Any,
        draws: int,
        key: Key[Array, ""],
        *,
        aspects: Mapping[str, float] | None = None,
        allow_unknown: bool = False,
    ) -> Float[Array, "draws names times"]:
        """Draw scores of several features at several times from the joint posterior.

        Draws are coherent over features and over time.

        Args:
            names: the names of the features.
            times: numbers or dates as in the data, in any order.
            draws: the number of draws.
            key: a random key.
            aspects: coefficients of aspects, as in `linear_combination`.
            allow_unknown: as in `predict`.
        """
        check_count("draws", draws)
        names, times = read_names(names), np.atleast_1d(times)
        features = [name for name in names for _ in times]
        every_time = np.tile(times, len(names))
        query = self._alone(features, every_time, aspects, allow_unknown)
        return draw_scores(self, query, key, draws).reshape(draws, len(names), len(times))

    def scores(
        self,
        name: Hashable,
        times: Any = None,
        *,
        joint: bool | None = None,
        aspects: Mapping[str, float] | None = None,
        allow_unknown: bool = False,
    ) -> Scores:
        """Return the score of a feature over time.

        Args:
            name: the name of the feature.
            times: numbers or dates as in the data; the times of the feature's own matches if
                `None`.
            joint: whether to use the joint posterior of all competitors, as in `leaderboard`. For
                more than 16 times, the ratio of joint to independent variances is computed at 16
                of them and interpolated.
            aspects: coefficients of aspects, as in `linear_combination`; the general skill if
                `None`.
            allow_unknown: as in `predict`; needs `times`.

        Raises:
            DataError: if the name is unknown, or has no matches and `times` is `None`.
        """
        index = self.data.index
        if not allow_unknown:
            check_known(index, [name], "name")
        (numbers,), mean, variance = self._over_time([name], times, joint, aspects, "name")
        # NumPy's texts, such as those of a leaderboard's column, cannot be static fields.
        named = (plain(name), index.group_of(name))
        return Scores(numbers, mean, variance, *named, index.scale, index.library)

    def components(
        self,
        name: Hashable,
        times: Any = None,
        *,
        joint: bool | None = None,
        aspects: Mapping[str, float] | None = None,
    ) -> Components:
        """Split the score of a feature into the summands of its kernel.

        For example, the kernel `Constant + Matern12` gives a lasting level and fluctuations. All
        parts come from one smoothing pass. A product of kernels is one part.

        Args:
            name: the name of the feature.
            times: numbers or dates as in the data; the times of the feature's own matches if
                `None`.
            joint: whether variances are those of the joint posterior of all competitors, as in
                `scores`.
            aspects: as in `scores`.

        Returns:
            The posterior of each part, and of the whole.

        Raises:
            DataError: if the name is unknown, or has no matches and `times` is `None`.
        """
        index = self.data.index
        check_known(index, [name], "name")
        if times is None:
            numbers = match_times(index, [name], "name")[0]
        else:
            numbers = np.atleast_1d(index.to_time(times))
        query = self._exactly([name] * len(numbers), numbers, aspects)
        return components_of(self, name, query, joint, aspects)

    def to_frame(
        self,
        names: Sequence[Hashable] | None = None,
        times: Any = None,
        library: str | None = None,
        *,
        joint: bool | None = None,
        aspects: Mapping[str, float] | None = None,
        allow_unknown: bool = False,
    ) -> Any:
        """Return scores over time as one long table: name, group, time, mean and deviation.

        Args:
            names: names of features; all of them if `None`.
            times: numbers or dates as in the data; the times of each feature's own matches if
                `None`.
            library: `"pandas"`, `"polars"` or `"pyarrow"`; that of the data if `None`.
            joint: as in `scores`.
            aspects: as in `scores`.
            allow_unknown: as in `predict`; needs `times`.

        Raises:
            DataError: if a name is unknown, or has no matches and `times` is `None`.
        """
        index = self.data.index
        if names is None:
            names = [index.names[number] for number in np.flatnonzero(index.counts)]
        names = read_names(names)
        if not allow_unknown:
            check_known(index, names, "names")
        numbers, mean, variance = self._over_time(names, times, joint, aspects, "names")
        counts = list(map(len, numbers))
        columns = {
            "name": np.repeat(name_column(names), counts),
            "group": np.repeat(name_column(map(index.group_of, names)), counts),
            "time": index.scale.to_user(np.concatenate(numbers)),
            "mean": np.asarray(mean),
            "deviation": np.sqrt(np.asarray(variance)),
        }
        return make_table(columns, library or index.library)

    def sample(
        self,
        name: Hashable,
        times: Any,
        key: Key[Array, ""],
        shape: int | tuple[int, ...] = (),
        *,
        aspects: Mapping[str, float] | None = None,
        allow_unknown: bool = False,
    ) -> Float[Array, "*shape times"]:
        """Draw paths of a feature's score from the posterior, jointly over all times.

        Args:
            name: the name of the feature.
            times: numbers or dates as in the data, in any order.
            key: a random key.
            shape: the shape of the batch of independent paths.
            aspects: as in `scores`.
            allow_unknown: as in `predict`.

        Returns:
            The scores, in the order of `times`.

        Raises:
            DataError: if the name is unknown.
        """
        index, dtype = self.data.index, self.data.coefficients.dtype
        if not allow_unknown:
            check_known(index, [name], "name")
        if index.feature_ids([name])[0] < 0:
            self.model.check_newcomers()
        numbers = np.atleast_1d(index.to_time(times))
        entry_times = index.entries(name).times
        sites = Site(*_of_feature(index, name, self.sites))
        own, asked = index.entry_aspects(name), read_combination(self, aspects)
        both = own and {name: (own[name], float(x)) for name, x in zip(own, asked, strict=True)}
        line = make_timeline(entry_times, sites, numbers, index.epoch, np.dtype(dtype), both)
        group = index.group_of(name)
        shape = (shape,) if isinstance(shape, int) else shape
        kernel, count = self.model.process_of(group), math.prod(shape)
        paths = sample_paths(kernel, self.data.epoch, line.times, line.sites, key, count)
        offset, age = (jnp.asarray(x)[line.asked] for x in (line.times.offset, line.times.age))
        features = np.full(offset.shape, index.feature_ids([name])[0])
        instant = Instant(offset, age, self.data.epoch)
        mean = self.model.mean_of(group, features, instant, dtype)
        mean = mean if asked is None else mean * asked[0]
        return (paths[:, line.asked] + mean).reshape(*shape, -1)

    def explain(
        self,
        name: Hashable,
        time: Any = None,
        *,
        since: Any = None,
        before: "Posterior | None" = None,
        scale: Scale | tuple[float, float] | str | None = None,
        aspects: Mapping[str, float] | None = None,
    ) -> Explanation:
        """Split a rating, or its change, into the contributions of all matches.

        Matches between others contribute too, because they change the ratings of opponents.
        Contributions are computed from the joint posterior; see `Explanation`.

        Args:
            name: the competitor. If the data was read with `counts=`, the rating is the sum of
                attack and defence.
            time: a number or date as in the data; the time of the last match if `None`.
            since: explain the change since this time; both ratings use all the data.
            before: explain the change since an earlier posterior, fitted to the first matches of
                this data, such as the one before an `update`.
            scale: the rating scale, as in `leaderboard`.
            aspects: coefficients of aspects, as in `linear_combination`.

        Raises:
            DataError: if the name is unknown, `since` and `before` are both given, or `before`
                is a posterior of other matches.
        """
        return explain(self, name, time, since, before, scale, aspects)

    def suggest_matches(
        self,
        candidates: Sequence[Any] | None = None,
        time: Any = None,
        *,
        goal: str = "best",
        n: int = 10,
        seed: int = 0,
        aspects: Mapping[str, float] | None = None,
    ) -> MatchSuggestions:
        """Suggest matches whose outcomes are expected to be most informative.

        The matches of a batch are chosen together: each is the best one given those before it,
        so a pair may occur more than once.

        Args:
            candidates: competitors, or pairs of them, that may play; all competitors if `None`.
            time: when the matches are played, a number or date as in the data; the time of the
                last match if `None`.
            goal: `"best"` to find out who is best, `"ranking"` to learn the skills of all.
            n: the number of matches.
            seed: the seed of the draws.
            aspects: coefficients of the aspects of both sides, as in `linear_combination`: the
                skill that matches are played with, and that the goal is about.

        Returns:
            The matches with their expected information, and the present knowledge: the probable
            best competitor with its probability, and the expected error of the ranks.

        Raises:
            DataError: if a name or the goal is unknown, or outcomes have no winner.
        """
        return suggest(self, candidates, time, goal, n, seed, aspects)

    def simulate(
        self,
        fixtures: Any,
        draws: int = 10_000,
        *,
        seed: int = 0,
        kind: str | None = None,
        allow_unknown: bool = False,
    ) -> Simulated:
        """Play matches many times, from coherent draws of all scores at their times.

        Each draw samples the paths of all scores from the joint posterior, and each match from
        the likelihood at these scores. Results of one competitor are therefore positively
        correlated. Simulated results do not change scores: the draws already include the
        uncertainty that results would reduce.

        Args:
            fixtures: a table with the columns of the table that `Dataset.from_frame` read.
                Outcomes are not needed and not read.
            draws: the number of draws.
            seed: the seed of the random numbers.
            kind: the kind of the fixtures, in data of several kinds (`concat({kind: data})`).
            allow_unknown: as in `predict`; a newcomer has one path of scores in each draw.

        Returns:
            The simulated results, differences or goals, depending on the likelihood; for
            `jaxkick.simulation.league_table`.

        Raises:
            DataError: if the data was not read from a table of matches, a column is missing, a
                name is unknown, or outcomes of the model have no winner.
        """
        return simulate(self, fixtures, draws, seed, allow_unknown, kind)

    def describe(self) -> str:
        """Describe the model in plain words, in the data's unit of time."""
        return self.model.describe(self.data.index.unit)

    def check(self) -> tuple[Diagnostic, ...]:
        """Look for common problems of this fit.

        Returns:
            Diagnostics, each with its `kind` and a `message` with the remedy; empty if no problem
            was found.
        """
        distance = float(self.distance)
        return diagnose(self.model, self.data, self.entries, self.converged, distance)

    def __repr__(self) -> str:
        status = Status(int(self.status)).name.lower() if is_known(self.status) else "?"
        evidence = self.log_marginal_likelihood
        shown = f"{float(evidence):.2f}" if is_known(evidence) else "?"
        return (
            f"Posterior({len(self.data):,} observations of "
            f"{self.data.num_features:,} features, log marginal likelihood {shown}, {status})"
        )

    @property
    def _directory(self) -> Index:
        return self.data.index

    def _over_time(
        self,
        names: Sequence[Hashable],
        times: Any,
        joint: bool | None,
        aspects: Mapping[str, float] | None,
        argument: str,
    ) -> tuple[list[np.ndarray], Array, Array]:
        """Compute the scores of features at times, by default those of their own matches.

        Returns:
            The times of each feature, and the means and variances of all, feature by feature.
        """
        index = self.data.index
        if times is None:
            numbers = match_times(index, names, argument)
            asked = index.scale.to_user(np.concatenate(numbers))
        else:
            numbers = [np.atleast_1d(index.to_time(times))] * len(names)
            asked = np.tile(np.atleast_1d(times), len(names))
        if times is None and not (index.aspect_names or aspects):
            found = [_of_feature(index, name, self.entries) for name in names]
            moments = map(_join, zip(*found, strict=True))
        else:
            # The entries have scores with the aspects of each match.
            features = _repeated(names, numbers)
            moments = self.linear_combination(features, asked, aspects=aspects, allow_unknown=True)
        mean, variance = moments
        ratio = self._joint_ratio(names, numbers, joint, aspects)
        return numbers, mean, on_host(lambda x: x * ratio, variance)

    def _joint_ratio(
        self,
        names: Sequence[Hashable],
        numbers: Sequence[np.ndarray],
        joint: bool | None,
        aspects: Mapping[str, float] | None,
        measured: Model | None = None,
    ) -> np.ndarray | float:
        """The ratio of joint to independent variances of features, at times of each.

        `measured` is the model with other measurement vectors, for parts of scores.
        """
        nodes = [np.unique(each) for each in numbers]
        # At most this many times of each, with the first and the last.
        picked = [np.linspace(0, len(x) - 1, min(len(x), _MOST_NODES)) for x in nodes]
        nodes = [x[k.round().astype(int)] for x, k in zip(nodes, picked, strict=True)]
        counts = list(map(len, nodes))
        if not is_joint(self, sum(counts), joint):
            return 1.0
        query = self._exactly(_repeated(names, nodes), np.concatenate(nodes), aspects)
        alone = np.asarray(self._score_query(query, measured).variance, np.float64)
        together = variance_of(self, query, measured)
        ratios = np.where(alone > 0, together / np.where(alone > 0, alone, 1.0), 1.0)
        ratios = np.split(ratios, np.cumsum(counts)[:-1])
        parts = map(np.interp, numbers, nodes, ratios)
        return np.concatenate(list(parts)).astype(self.data.coefficients.dtype)

    def _alone(
        self,
        features: Any,
        time: Any,
        aspects: Mapping[str, float] | None = None,
        allow_unknown: bool = False,
    ) -> Query:
        """Read combinations of features, without an opponent."""
        own = {"features": read_combination(self, aspects)}
        return make_query(self, time, {"features": (features, 1.0)}, {}, allow_unknown, own)

    def _exactly(
        self, features: list, numbers: np.ndarray, aspects: Mapping[str, float] | None
    ) -> Query:
        """Read features at numeric times, which are finer than the user's dates."""
        query = self._alone(features, self.data.index.scale.to_user(numbers), aspects, True)
        return query._replace(times=numbers)

    def _score_query(self, query: Query, measured: Model | None = None) -> ScoreMoments:
        return score_combinations(measured or self.model, self.data, self.states, query)

    def _covariance_query(self, query: Query, joint: bool | None) -> np.ndarray | None:
        return covariance_of(self, query) if is_joint(self, len(query.times), joint) else None

    def _variance_query(self, query: Query, joint: bool | None) -> np.ndarray | None:
        return variance_of(self, query) if is_joint(self, len(query.times), joint) else None


def _repeated(names: Sequence[Hashable], times: Sequence[np.ndarray]) -> list[Hashable]:
    """Repeat each name for each of its times."""
    return [name for name, own in zip(names, times, strict=True) for _ in own]


def _join(parts: Sequence[Array]) -> Array:
    """Concatenate arrays on the host; a single one may be traced."""
    return jax.device_put(parts[0] if len(parts) == 1 else np.concatenate(parts))


def _concatenate(first: Query, second: Query) -> Query:
    """Join two queries of the same combinations, at different times."""
    joined = jax.tree.map(lambda one, two: np.concatenate([one, two]), first[1:], second[1:])
    return Query((2 * len(first.times),), *joined)


def _of_feature(index: Index, name: Hashable, chains: Sequence[tuple]) -> list[np.ndarray | Array]:
    """Pick the values of a feature's entries, in the order of time.

    `chains` has a tuple of arrays for every chain, such as `entries` or `sites`.
    """
    positions = index.entries(name).positions
    place = int(index.group_ids([name])[0]) if len(positions) else 0
    positions = positions - index.bases[place]
    # JAX keeps the array on the host once it was copied there, so this is quick.
    parts = (np.asarray(part) if is_known(part) else part for part in chains[place])
    return [part.ravel()[positions] for part in parts]


def match_times(index: Index, names: Sequence[Hashable], argument: str) -> list[np.ndarray]:
    """Return the times of each feature's matches; refuse features without any."""
    times = [index.entries(name).times for name in names]
    for name, own in zip(names, times, strict=True):
        if not len(own):
            raise DataError(
                "{value} in {argument} has no matches",
                "Pass {times} to get its prior.",
                argument=argument,
                value=plain(name),
                mentions=["times"],
            )
    return times


def carry_sites(sites: Sites, old: Dataset, new: Dataset) -> Sites:
    """Put sites into the layout of data whose first observations are those of `old`.

    The sites of new observations are zero.
    """
    parts = [new.to_chains(old.to_slots(part)) for part in zip(*sites, strict=True)]
    return tuple(Site(*chain) for chain in zip(*parts, strict=True))


def _extend_means(model: Model, old: Dataset, new: Dataset) -> Model:
    """Give features that the old data lacked the prior mean of newcomers."""
    if not model.has_feature_means:
        return model
    places = old.index.feature_ids(new.names)
    if (places < 0).any():
        model.check_newcomers()

    def extend(leaf: Any) -> Any:
        if not eqx.is_array(leaf) or leaf.shape != (old.num_features,):
            return leaf
        newcomer = 0.0 if model.newcomer_mean is None else model.newcomer_mean.value
        return jnp.where(places < 0, jnp.asarray(newcomer, leaf.dtype), leaf[np.maximum(places, 0)])

    return eqx.tree_at(lambda model: model.mean, model, jax.tree.map(extend, model.mean))
