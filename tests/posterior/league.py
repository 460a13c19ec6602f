"""Random matches, and a likelihood that counts how often programs are compiled with it."""

from typing import ClassVar

import numpy as np

import jaxkick as jk
from jaxkick.likelihoods import AbstractLikelihood

__all__ = ["COLUMNS", "Watched", "joined", "matches"]

COLUMNS = {"time": "time", "first": "first", "second": "second", "outcome": "outcome"}


def matches(count, seed, names="abcdef", begin=0.0, outcomes=(-1.0, 0.0, 1.0)):
    """A table of matches within four units of time, in the order of time."""
    generator = np.random.default_rng(seed)
    pairs = np.array([generator.choice(list(names), 2, replace=False) for _ in range(count)])
    return {
        "time": begin + np.sort(generator.uniform(0, 4, count)),
        "first": pairs[:, 0],
        "second": pairs[:, 1],
        "outcome": generator.choice(outcomes, count),
    }


def joined(*tables):
    """Tables of the same columns, one below the other."""
    return {name: np.concatenate([table[name] for table in tables]) for name in tables[0]}


class Watched(AbstractLikelihood):
    """A probit that counts how often it is traced."""

    traces: ClassVar[list] = []

    def log_prob(self, outcome, score):
        return jk.likelihoods.Probit().log_prob(outcome, score)

    def log_partition(self, outcome, mean, variance, weight=None):
        self.traces.append(1)
        return jk.likelihoods.Probit().log_partition(outcome, mean, variance, weight)
