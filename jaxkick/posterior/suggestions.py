"""The next matches to play: pairs whose outcome is expected to be most informative.

For the goal "ranking", the gain of a match is the expected decrease of the entropy of all skills
under the joint Gaussian posterior: E ½ log(1 + w v), with v the variance of the score f of the
match and w the precision that its outcome adds to f. For the goal "best", it is the mutual
information between the outcome and the identity of the best competitor, estimated from draws.

A batch is chosen greedily: each choice conditions the covariance on the outcome of that match. The
outcome itself is unknown, so the goal "best" averages over several possible posterior means.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from jaxkick._typing import Array, Float
from jaxkick.data.schema import LEVEL
from jaxkick.data.tables import AbstractTable, name_column
from jaxkick.errors import DataError, check_choice, check_count
from jaxkick.likelihoods import AbstractLikelihood
from jaxkick.likelihoods.likelihood import refuse_own_numbers
from jaxkick.parameters import resolve
from jaxkick.posterior.joint import covariance_of, square_root
from jaxkick.posterior.leaderboard import choose_competitors

if TYPE_CHECKING:
    from jaxkick.posterior.posterior import Posterior

__all__ = ["MatchSuggestions", "suggest"]

_DRAWS = 2000
_FUTURES = 8
# For the goal "best", only matches of this many favourites are considered.
_FAVOURITES = 40
# After the first match of a batch, this many of the most informative pairs remain candidates.
_SHORTLIST = 100


@dataclass(frozen=True, eq=False, repr=False)
class MatchSuggestions(AbstractTable):
    """Matches to play next, the most informative first, and the present knowledge.

    The table has the columns first, second and gain.

    Attributes:
        first: the first side of each match.
        second: the second side of each match.
        gain: the expected information of each match in nats, given those before it.
        best: the competitor that is most likely to be the best.
        p_best: the probability that it is.
        rank_error: the expected error of a competitor's rank, the mean over all of them.
        library: the library of the user's tables.
    """

    first: np.ndarray
    second: np.ndarray
    gain: np.ndarray
    best: Hashable
    p_best: float
    rank_error: float
    library: str | None = None

    def columns(self) -> dict[str, np.ndarray]:
        return {"first": self.first, "second": self.second, "gain": self.gain}

    def __repr__(self) -> str:
        pairs = zip(self.first[:3], self.second[:3], strict=True)
        shown = ", ".join(f"{one} – {other}" for one, other in pairs)
        more = ", …" if len(self.first) > 3 else ""
        return (
            f"MatchSuggestions({shown}{more}; {self.best} is the best with probability "
            f"{self.p_best:.2f}, ranks are off by {self.rank_error:.1f} on average)"
        )


def suggest(
    posterior: "Posterior",
    candidates: Sequence[Any] | None,
    time: Any,
    goal: str,
    n: int,
    seed: int,
    aspects: Mapping[str, float] | None,
) -> MatchSuggestions:
    """Suggest informative matches; see `Posterior.suggest_matches`."""
    check_choice("goal", goal, ("best", "ranking"))
    check_count("n", n)
    given = [each for each in candidates or () if isinstance(each, tuple | list)]
    names = list(dict.fromkeys(name for pair in given for name in pair)) or candidates
    chosen = choose_competitors(posterior.data.index, time, names, argument="candidates")
    places = {name: place for place, name in enumerate(chosen.names)}
    pairs = _read_candidates(candidates, chosen.names, places)
    query = posterior._alone(chosen.features, chosen.time, aspects)
    mean = np.asarray(posterior._score_query(query).mean, np.float64)
    covariance = covariance_of(posterior, query)
    refuse_own_numbers(posterior.model.duel)
    likelihood = resolve(posterior.model.duel, jnp.result_type(float))
    if chosen.by_counts:
        # Equal teams whose sums of attack and defence differ by d have the score d / 2.
        level = float(posterior.linear_combination(LEVEL, chosen.time).mean)
        likelihood = likelihood.difference(level)
        mean, covariance = 0.5 * mean, 0.25 * covariance
    if likelihood is None or not likelihood.has_results:
        raise DataError(
            "The outcomes of this model say nothing about who is better",
            "Use a likelihood of results or differences.",
        )
    numbers, gains = _choose_matches(mean, covariance, pairs, likelihood, goal, n, seed)
    chances, rank_error = _chances_of_best(mean, covariance, seed)
    first, second = (name_column([chosen.names[k] for k in side]) for side in pairs[numbers].T)
    best = int(np.argmax(chances))
    return MatchSuggestions(
        first,
        second,
        gains,
        chosen.names[best],
        float(chances[best]),
        rank_error,
        posterior.data.index.library,
    )


def _read_candidates(
    candidates: Sequence[Any] | None, names: list[Hashable], places: dict[Hashable, int]
) -> np.ndarray:
    """Read the pairs that may play, as places of their competitors [pairs, 2]."""
    given = list(names if candidates is None else candidates)
    if not any(isinstance(each, tuple | list) for each in given):
        pairs = list(combinations(range(len(names)), 2))
    else:
        pairs = []
        for row, pair in enumerate(given):
            if not isinstance(pair, tuple | list) or len(pair) != 2 or pair[0] == pair[1]:
                raise DataError(
                    "{argument} has {value}, which is not a pair of different competitors",
                    "Pass names, or pairs such as ('Ann', 'Ben').",
                    argument="candidates",
                    row=row,
                    value=pair,
                )
            late = [name for name in pair if name not in places]
            if late:
                raise DataError(
                    f"{late[0]!r} in {{argument}} has no matches by then",
                    "Leave it out, or choose a later {time}.",
                    argument="candidates",
                    row=row,
                    mentions=["time"],
                )
            pairs.append((places[pair[0]], places[pair[1]]))
    if not pairs:
        raise DataError(
            "{argument} has fewer than two competitors",
            "Pass at least two, or leave it out.",
            argument="candidates",
        )
    return np.array(pairs)


def _choose_matches(
    mean: np.ndarray,
    covariance: np.ndarray,
    pairs: np.ndarray,
    likelihood: AbstractLikelihood,
    goal: str,
    count: int,
    seed: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Choose a batch of matches greedily; return the numbers of the chosen pairs, and their gains.

    `pairs` has the places of the competitors of each possible match.
    """
    generator = np.random.default_rng(seed)
    means, covariance = np.tile(mean, (_FUTURES, 1)), covariance.copy()
    chosen, gains = [], []
    numbers = np.arange(len(pairs))
    if goal == "best":
        chances = _chances_of_best(mean, covariance, seed)[0]
        favourites = np.argsort(-chances, kind="stable")[:_FAVOURITES]
        numbers = np.flatnonzero(np.isin(pairs, favourites).any(axis=1))
        pairs = pairs[numbers]
    for _ in range(count):
        sides = covariance[:, pairs[:, 0]] - covariance[:, pairs[:, 1]]
        columns = np.arange(len(pairs))
        variance = sides[pairs[:, 0], columns] - sides[pairs[:, 1], columns]
        variance = np.maximum(variance, 0.0)
        lead = mean[pairs[:, 0]] - mean[pairs[:, 1]]
        added = _added_precision(likelihood, jnp.asarray(lead), jnp.asarray(variance))
        added = np.asarray(added)
        if goal == "ranking":
            gain = 0.5 * np.log1p(added * variance)
        else:
            gain = _gain_on_best(generator, means, covariance, pairs, likelihood)
        pick = int(np.argmax(gain))
        chosen.append(int(numbers[pick]))
        gains.append(float(gain[pick]))
        # The outcome moves the means by a normal amount, and narrows the covariance as much.
        side = sides[:, pick] * np.sqrt(added[pick] / (1.0 + added[pick] * variance[pick]))
        means = means + generator.standard_normal((_FUTURES, 1)) * side
        covariance -= np.outer(side, side)
        if goal == "best" and len(pairs) > _SHORTLIST:
            best = np.argsort(-gain, kind="stable")[:_SHORTLIST]
            numbers, pairs = numbers[best], pairs[best]
    return np.array(chosen), np.array(gains)


def _chances_of_best(
    mean: np.ndarray, covariance: np.ndarray, seed: int
) -> tuple[np.ndarray, float]:
    """Return the probability that each competitor is the best, and the expected rank error."""
    generator = np.random.default_rng(seed)
    scores = mean + generator.standard_normal((_DRAWS, len(mean))) @ square_root(covariance).T
    order = np.argsort(-scores, axis=1)
    ranks = np.argsort(order, axis=1)
    shown = np.argsort(np.argsort(-mean, kind="stable"))
    chances = np.bincount(order[:, 0], minlength=len(mean)) / _DRAWS
    return chances, float(np.abs(ranks - shown).mean())


@eqx.filter_jit
def _added_precision(
    likelihood: AbstractLikelihood, mean: Float[Array, " n"], variance: Float[Array, " n"]
) -> Float[Array, " n"]:
    """Compute the expected precision that an outcome adds to the score of its match."""

    def precision(outcome: Array, mean: Array, variance: Array) -> Array:
        second = likelihood.log_partition(outcome, mean, variance).second
        return jnp.maximum(-second / (1.0 + second * variance), 0.0)

    if not likelihood.levels:
        expected = likelihood.predictive_mean(mean, variance)
        outcome = jnp.round(expected) if likelihood.is_discrete else expected
        return precision(outcome, mean, variance)
    levels = jnp.asarray(likelihood.levels, mean.dtype)
    chances = likelihood.probabilities(mean, variance)
    return jnp.sum(chances * precision(levels, mean[:, None], variance[:, None]), axis=1)


def _gain_on_best(
    generator: np.random.Generator,
    means: np.ndarray,
    covariance: np.ndarray,
    pairs: np.ndarray,
    likelihood: AbstractLikelihood,
) -> np.ndarray:
    """Mutual information between each outcome and the best competitor, the mean over futures."""
    root, total = square_root(covariance), np.zeros(len(pairs))
    for mean in means:
        noise = generator.standard_normal((_DRAWS // _FUTURES, len(mean)))
        scores = mean + noise @ root.T
        best = np.argmax(scores, axis=1)
        leaders, best = np.unique(best, return_inverse=True)
        differences = scores[:, pairs[:, 0]] - scores[:, pairs[:, 1]]
        chances = np.asarray(_outcome_chances(likelihood, jnp.asarray(differences)))
        shares = np.bincount(best) / len(best)
        given = np.stack([chances[best == each].mean(axis=0) for each in range(len(leaders))])
        total += _entropy(chances.mean(axis=0)) - np.tensordot(shares, _entropy(given), 1)
    return total / len(means)


@eqx.filter_jit
def _outcome_chances(
    likelihood: AbstractLikelihood, scores: Float[Array, "D n"]
) -> Float[Array, "D n outcomes"]:
    """The probabilities of all outcomes at known scores; of results where outcomes are numbers."""
    known = jnp.zeros_like(scores)
    if likelihood.levels:
        return likelihood.probabilities(scores, known)
    return likelihood.result_probabilities(scores, known)


def _entropy(chances: np.ndarray) -> np.ndarray:
    return -np.sum(chances * np.log(np.maximum(chances, 1e-300)), axis=-1)
