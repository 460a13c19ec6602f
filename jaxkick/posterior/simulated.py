"""Simulated matches: outcomes drawn from coherent draws of all scores."""

import dataclasses
from collections.abc import Hashable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, cast

import equinox as eqx
import jax
import numpy as np

from jaxkick._typing import Array, Key
from jaxkick.data.directory import AbstractDirectory
from jaxkick.data.encoding import Index
from jaxkick.data.queries import Match, Query, read_matches, read_query
from jaxkick.data.reading import naming_columns, unknown_columns
from jaxkick.data.schema import LEVEL, NO_TABLE, NOISE, Feature, Schema
from jaxkick.data.tables import AbstractTable, name_column
from jaxkick.errors import DataError, check_count, plain
from jaxkick.likelihoods import AbstractLikelihood
from jaxkick.likelihoods.likelihood import refuse_own_numbers
from jaxkick.parameters import resolve
from jaxkick.posterior.joint import draw_scores
from jaxkick.posterior.predictor import counted_sides, read_ties

if TYPE_CHECKING:
    from jaxkick.posterior.posterior import Posterior

__all__ = ["Kind", "Players", "Simulated", "read_fixtures", "side_label", "simulate"]

Kind: TypeAlias = Literal["result", "difference", "goals"]

# Outcomes are drawn for this many matches at once.
_BATCHES = (1 << 12, 1 << 16)


@dataclasses.dataclass(frozen=True, repr=False)
class Simulated(AbstractTable):
    """Simulated outcomes of matches, one for each match and draw.

    The table has one row for each match, with the frequencies of results and mean goals.

    Attributes:
        first: the first side of each match: its name, or the names of a line-up joined by " + ".
        second: the second side of each match.
        numbers: the time of each match in the data's unit; see `times`.
        outcomes: the outcomes, of shape (draws, matches); of shape (draws, matches, 2) for goals.
        kind: the kind of outcomes: `"result"` (+1, 0 and -1), `"difference"` or `"goals"`.
        index: names and times of the data, and the meaning of the columns of its table.
    """

    first: tuple[Hashable, ...]
    second: tuple[Hashable, ...]
    numbers: np.ndarray
    outcomes: np.ndarray
    kind: Kind
    index: Index

    @property
    def library(self) -> str | None:
        """The library of the user's tables."""
        return self.index.library

    @property
    def draws(self) -> int:
        """The number of draws."""
        return len(self.outcomes)

    @property
    def times(self) -> np.ndarray:
        """The time of each match, as in the data."""
        return self.index.scale.to_user(self.numbers)

    @property
    def goals(self) -> np.ndarray | None:
        """The goals of both sides, of shape (draws, matches, 2), if the model has goals."""
        return self.outcomes if self.kind == "goals" else None

    @property
    def differences(self) -> np.ndarray | None:
        """The first side's goals minus the second's, if the model has differences or goals."""
        if self.kind == "goals":
            return self.outcomes[..., 0] - self.outcomes[..., 1]
        return self.outcomes if self.kind == "difference" else None

    @property
    def results(self) -> np.ndarray:
        """The results of the first sides, of shape (draws, matches): +1 win, 0 tie, -1 loss."""
        outcomes = self.outcomes if self.differences is None else self.differences
        return np.sign(outcomes).astype(np.int8)

    def take(self, chosen: np.ndarray) -> "Simulated":
        """Choose matches by a boolean mask or by numbers."""
        places = np.arange(len(self.first))[chosen].tolist()
        return dataclasses.replace(
            self,
            first=tuple(self.first[place] for place in places),
            second=tuple(self.second[place] for place in places),
            numbers=self.numbers[chosen],
            outcomes=self.outcomes[:, chosen],
        )

    def columns(self) -> dict[str, np.ndarray]:
        results = self.results
        columns = {
            "time": self.times,
            "first": name_column(self.first),
            "second": name_column(self.second),
        }
        chances = {"p_win": 1, "p_tie": 0, "p_loss": -1}
        columns |= {name: np.mean(results == result, axis=0) for name, result in chances.items()}
        if self.kind == "goals":
            goals = np.mean(self.outcomes, axis=0)
            return columns | {"first_expected": goals[:, 0], "second_expected": goals[:, 1]}
        if self.kind == "difference":
            columns["expected"] = np.mean(self.outcomes, axis=0)
        return columns

    def __repr__(self) -> str:
        matches = "1 match" if len(self.first) == 1 else f"{len(self.first):,} matches"
        return self._show(f"Simulation of {matches}, {self.draws:,} draws")


class Players(NamedTuple):
    """The scores of matches and the likelihood of their outcomes.

    Attributes:
        scores: drawn scores, of shape (draws, matches); of shape (draws, matches, 2) if a match
            has two.
        likelihood: the likelihood of outcomes given these scores.
        kind: the kind of outcomes.
    """

    scores: np.ndarray
    likelihood: AbstractLikelihood
    kind: Kind

    @classmethod
    def draw(
        cls,
        posterior: "Posterior",
        match: Match,
        time: Any,
        key: Key[Array, ""],
        draws: int,
        allow_unknown: bool,
        kind: str | None = None,
    ) -> "Players":
        """Draw the scores of matches from the joint posterior; see `Posterior.simulate`.

        Raises:
            DataError: if a name is unknown, or outcomes of the model have no winner.
        """
        index = _index_of(posterior, kind)
        likelihood, outcomes = _likelihood_of(posterior, index.schema or NO_TABLE, kind)
        queries = _read_scores(index, match, time, allow_unknown)
        if any(((query.features < 0) & (query.groups != "")).any() for query in queries):
            posterior.model.check_newcomers()
            directory = cast("AbstractDirectory", _WithNewcomers(index))
            queries = _read_scores(directory, match, time, allow_unknown=True)
        scores = np.asarray(draw_scores(posterior, _stacked(queries, len(index.names)), key, draws))
        if len(queries) == 1:
            return cls(scores, likelihood, outcomes)
        scores = scores.reshape(draws, len(queries), -1)
        return cls(scores.transpose(0, 2, 1), likelihood, outcomes)

    def play(self, key: Key[Array, ""]) -> np.ndarray:
        """Draw the outcome of each match and draw; floats if outcomes are continuous."""
        wide = self.likelihood.num_predictors == 2
        shape = self.scores.shape[:-1] if wide else self.scores.shape
        flat = self.scores.reshape(-1, 2) if wide else self.scores.ravel()
        batch = next((size for size in _BATCHES if size >= len(flat)), _BATCHES[-1])
        outcomes = np.empty(flat.shape, flat.dtype)
        for begin in range(0, len(flat), batch):
            part = flat[begin : begin + batch]
            # Batches have few sizes, so that few programs are compiled.
            padding = [(0, batch - len(part)), (0, 0)][: flat.ndim]
            drawn = _sample(self.likelihood, np.pad(part, padding), jax.random.fold_in(key, begin))
            outcomes[begin : begin + batch] = np.asarray(drawn)[: len(part)]
        if wide and self.kind != "goals":
            # The second number of a result is ignored.
            return _whole(outcomes[:, 0].reshape(shape))
        return _whole(outcomes.reshape(self.scores.shape))


@eqx.filter_jit
def _sample(likelihood: AbstractLikelihood, scores: Array, key: Key[Array, ""]) -> Array:
    return likelihood.sample(key, scores)


def _whole(outcomes: np.ndarray) -> np.ndarray:
    """Store whole numbers as 32-bit integers."""
    numbers = np.rint(outcomes).astype(np.int32)
    return numbers if np.array_equal(numbers, outcomes) else outcomes


def simulate(
    posterior: "Posterior",
    fixtures: Any,
    draws: int,
    seed: int,
    allow_unknown: bool,
    kind: str | None,
) -> Simulated:
    """Play fixtures; see `Posterior.simulate`."""
    check_count("draws", draws)
    index = _index_of(posterior, kind)
    match, times = read_fixtures(index, fixtures)
    drawing, playing = jax.random.split(jax.random.key(seed))
    with naming_columns(index.schema):
        players = Players.draw(posterior, match, times, drawing, draws, allow_unknown, kind)
    first, second = (tuple(map(side_label, side)) for side in match[:2])
    numbers = np.atleast_1d(index.to_time(times, "time"))
    return Simulated(first, second, numbers, players.play(playing), players.kind, index)


def read_fixtures(index: Index, fixtures: Any) -> tuple[Match, Any]:
    """Read matches to play and their times from a table with the columns of the data's own."""
    if index.schema is None and index.kind_names:
        raise DataError(
            "The data has several kinds of observations",
            f"Pass one of them as {{kind}}: {', '.join(map(repr, index.kind_names))}.",
            mentions=["kind"],
        )
    if index.schema is None:
        remedy = "Make the data with `Dataset.from_frame` to simulate fixtures."
        raise unknown_columns((), remedy, remedy)
    if index.schema.is_ranking:
        raise DataError(
            "The data has rankings, but only matches of two sides can be simulated",
            "For the probabilities of all places of an event use `predict_ranking`, or `jaxkick "
            "predict --fixtures` on the command line.",
        )
    match, times = read_matches(index, fixtures)
    if not len(match.first):
        raise DataError("{argument} has no matches", argument="fixtures")
    return match, times


def side_label(side: Any) -> Hashable:
    """The name of a side; integers as they are, other names as text, a line-up as one text."""
    if isinstance(side, (list, tuple, Mapping)) and not isinstance(side, Feature):
        names = [side_label(name) for name in side]
        return names[0] if len(names) == 1 else " + ".join(sorted(map(str, names)))
    side = plain(side)
    return side if isinstance(side, int) else str(side)


def _index_of(posterior: "Posterior", kind: str | None) -> Index:
    """The index of the data, with the schema of one kind of observations."""
    index = posterior.data.index
    if kind is None:
        return index
    return dataclasses.replace(index, schema=index.kind_schemas[index.kind_number(kind)])


def _likelihood_of(
    posterior: "Posterior", schema: Schema, kind: str | None
) -> tuple[AbstractLikelihood, Kind]:
    """The likelihood of a match given all its scores, and the kind of its outcomes."""
    model, dtype = posterior.model, posterior.data.coefficients.dtype
    likelihood = model.duel if kind is None else model.likelihood_of(kind).duel()
    refuse_own_numbers(likelihood)
    if schema.counts is not None:
        two = likelihood.num_predictors == 2
        return resolve(likelihood if two else likelihood.count(), dtype), "goals"
    if schema.has_second_score:
        return resolve(model.likelihood_of(kind or ""), dtype), "result"
    if likelihood.num_predictors != 1 or not likelihood.has_results:
        raise DataError(
            f"Outcomes of {type(likelihood).__name__} ({likelihood.domain}) have no winner",
            "Simulate matches with a model of results, differences, or goals of both sides "
            "(`counts=` of `Dataset.from_frame`).",
        )
    return resolve(likelihood, dtype), "result" if likelihood.levels else "difference"


def _read_scores(
    directory: AbstractDirectory, match: Match, time: Any, allow_unknown: bool
) -> list[Query]:
    """The combination of features of each score that a match has, as in `predict`."""
    first, second, favour, aspects = match
    schema = directory.schema or NO_TABLE

    def read(sides: Mapping[str, tuple[Any, float]], covariates: Mapping, own: Any = None) -> Query:
        return read_query(directory, time, sides, covariates, allow_unknown, own)

    if schema.counts is not None:
        against = {name: -np.asarray(value, np.float64)[()] for name, value in favour.items()}
        one, two, own = counted_sides(first, second, aspects)
        parts = ((one, favour), (two, against))
        return [read(sides, {**signed, LEVEL: 1.0}, own) for sides, signed in parts]
    both = {"first": (first, 1.0), "second": (second, -1.0)}
    own = aspects and dict(zip(both, aspects.sides, strict=True))
    found = [read(both, favour, own)]
    if schema.noise_effects:
        shape = (len(found[0].times),) if found[0].shape else ()
        names = [NOISE] * len(found[0].times) if shape else NOISE
        found.append(read({"first": (names, 1.0)}, {}))
    if schema.tie_effects:
        found.append(read_ties(directory, time, first, second, allow_unknown))
    return found


class _WithNewcomers:
    """An index that also numbers unknown names, so that each is one competitor in all matches."""

    def __init__(self, index: Index):
        self._index = index
        self._newcomers: dict[Hashable, int] = {}

    def feature_ids(self, names: Iterable[Hashable]) -> np.ndarray:
        """The numbers of features, known or not."""
        names = list(names)
        found = self._index.feature_ids(names)
        for place in np.flatnonzero(found < 0).tolist():
            number = len(self._index.names) + len(self._newcomers)
            found[place] = self._newcomers.setdefault(names[place], number)
        return found

    def __getattr__(self, name: str) -> Any:
        return getattr(self._index, name)


def _stacked(queries: Sequence[Query], num_known: int) -> Query:
    """Join queries one below the other; features numbered from `num_known` on are unknown."""
    width = max(query.features.shape[1] for query in queries)

    def stack(empty: Any, *parts: np.ndarray) -> np.ndarray:
        widths = [((0, 0), (0, width - part.shape[1])) for part in parts]
        padded = (np.pad(x, w, constant_values=empty) for x, w in zip(parts, widths, strict=True))
        return np.concatenate(list(padded))

    times = np.concatenate([query.times for query in queries])
    numbers = stack(-1, *(query.features for query in queries))
    return Query(
        times.shape,
        times,
        features=np.where(numbers < num_known, numbers, -1),
        groups=stack("", *(query.groups for query in queries)),
        coefficients=stack(0.0, *(query.coefficients for query in queries)),
        codes=numbers,
        aspects=jax.tree.map(partial(stack, 0.0), *(query.aspects for query in queries)),
    )
