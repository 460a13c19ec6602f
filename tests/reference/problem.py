"""A small problem, as everything a fit needs, and seeded random ones."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tests.reference.covariance import Covariance, constant, matern32
from tests.reference.likelihoods import Likelihood

__all__ = ["SmallProblem", "random_league"]


@dataclass(frozen=True)
class SmallProblem:
    """Observations in any order of time, with a covariance function for each feature.

    Attributes:
        times: the time of each observation.
        features: for each observation, the coefficient of each of its features.
        outcomes: the outcome of each observation.
        weights: the power on each observation's likelihood.
        covariances: the covariance function of each feature (also of unobserved ones).
        likelihood: log-probability, a function of (outcome, score).
    """

    times: np.ndarray
    features: Sequence[Mapping[str, float]]
    outcomes: np.ndarray
    weights: np.ndarray
    covariances: Mapping[str, Covariance]
    likelihood: Likelihood | Callable

    @cached_property
    def coefficients(self) -> np.ndarray:
        """The coefficients by (observation, slot), slots in the order of the mappings."""
        table = np.zeros((len(self.features), max(map(len, self.features))))
        for n, row in enumerate(self.features):
            table[n, : len(row)] = list(row.values())
        return table

    def entries(self, feature: str) -> tuple[np.ndarray, np.ndarray]:
        """The observations and slots of a feature by time, ties in the order of observations."""
        found = [
            (n, list(row).index(feature)) for n, row in enumerate(self.features) if feature in row
        ]
        found.sort(key=lambda entry: self.times[entry[0]])
        observations, slots = np.array(found, dtype=int).reshape(-1, 2).T
        return observations, slots

    @cached_property
    def observed(self) -> tuple[str, ...]:
        """The features that take part in some observation."""
        return tuple(dict.fromkeys(name for row in self.features for name in row))


def _line_up(rng: np.random.Generator, teams: list[str], kind: int) -> dict[str, float]:
    """One match: two teams, four, or two with partial minutes; some with a shared feature."""
    players = [str(name) for name in rng.permutation(teams)]
    if kind == 0:
        row = {players[0]: 1.0, players[1]: 1.0, players[2]: -1.0, players[3]: -1.0}
    elif kind == 1:
        row = {players[0]: 0.75, players[1]: 0.25, players[2]: -1.0, "home": 1.0}
    elif kind == 2:
        row = {players[0]: 1.0, players[1]: -1.0}
    else:
        row = {players[0]: 1.0, players[1]: -1.0, "home": 1.0}
    return row


def random_league(
    likelihood: Likelihood,
    seed: int = 0,
    teams: int = 5,
    observations: int = 20,
    team_covariance: Covariance | None = None,
    home_covariance: Covariance | None = None,
    weighted: bool = False,
) -> SmallProblem:
    """A seeded league with repeated times, 2-vs-2 matches, part-time players and a home side.

    Scores are drawn from the prior and outcomes from the likelihood. Observations come in
    chronological order; the last team never plays.

    Args:
        likelihood: where the outcomes come from.
        seed: of the random numbers.
        teams: how many teams play (at least four).
        observations: how many matches.
        team_covariance: default Constant(0.3) + Matérn 3/2(0.8, 2.0).
        home_covariance: default Constant(0.2).
        weighted: whether the observations have weights other than one.
    """
    rng = np.random.default_rng(seed)
    team_covariance = team_covariance or constant(0.3) + matern32(0.8, 2.0)
    names = [f"team{i}" for i in range(teams)]
    times = np.sort(rng.uniform(0.0, 6.0, observations))
    times[1::5] = times[0 : times[1::5].size * 5 : 5]  # Every fifth match shares its time.
    features = [_line_up(rng, names, n % 5) for n in range(observations)]
    covariances = dict.fromkeys([*names, "absent"], team_covariance)
    covariances["home"] = home_covariance or constant(0.2)
    scores = np.zeros(observations)
    for name in [*names, "home"]:
        covariance = covariances[name].matrix(times)
        # A sample by eigenvalues, since repeated times make the matrix singular.
        values, vectors = np.linalg.eigh(covariance)
        sample = vectors @ (np.sqrt(np.maximum(values, 0.0)) * rng.normal(size=observations))
        scores += sample * np.array([row.get(name, 0.0) for row in features])
    outcomes = np.array([likelihood.sample(rng, score) for score in scores])
    weights = rng.choice([0.0, 0.4, 1.0, 1.7], observations) if weighted else np.ones(observations)
    return SmallProblem(times, features, outcomes, weights, covariances, likelihood)
