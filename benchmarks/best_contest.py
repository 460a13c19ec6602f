"""Shared parts of `best_models.py`: terms of a model, candidates and their predictions."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

import jaxkick as jk
from jaxkick import evaluation as ev


class Term(NamedTuple):
    """One feature per match with its coefficient; the feature is left out where that is 0.

    Attributes:
        group: group of the feature; features of one group share a kernel.
        feature: number of the feature within its group, for each match.
        coefficient: coefficient of the feature, for each match.
    """

    group: str
    feature: np.ndarray | int
    coefficient: np.ndarray


def assemble(
    dates: Any,
    terms: list[Term],
    outcome: np.ndarray,
    aspects: dict[str, np.ndarray] | None = None,
) -> jk.Dataset:
    """Build the data set of matches with these terms.

    Args:
        dates: the date of each match.
        terms: the features of each match.
        outcome: the outcome of each match.
        aspects: for each aspect of the first two terms its coefficient in each match.
    """
    number = len(outcome)
    sizes: dict[str, int] = {}
    for term in terms:
        sizes[term.group] = max(sizes.get(term.group, 0), int(np.max(term.feature)) + 1)
    first = dict(zip(sizes, np.cumsum([0, *sizes.values()]), strict=False))
    names = np.repeat(list(sizes), list(sizes.values()))
    coefficients = np.stack([np.broadcast_to(term.coefficient, number) for term in terms], axis=1)
    features = [np.broadcast_to(first[term.group] + term.feature, number) for term in terms]
    return jk.Dataset.from_arrays(
        np.asarray(dates, str),
        np.where(coefficients == 0, -1, np.stack(features, axis=1)),
        coefficients.astype(float),
        outcome,
        groups=lambda feature: str(names[feature]),
        aspects=aspects
        and {name: np.outer(x, np.arange(len(terms)) < 2) for name, x in aspects.items()},
    )


def number_sides(games: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """Number the competitors; return those of the first and second sides."""
    numbers = pd.factorize(np.concatenate([games["first"], games["second"]]))[0]
    one, two = numbers.reshape(2, -1)
    return one, two


LEARNING = {"max_steps": 15, "tol": 0.5}
"""Arguments of `learn`."""


class Reading(NamedTuple):
    """Predicted and actual results, in the order of the matches.

    Attributes:
        probabilities: probabilities of the possible results of each match.
        labels: index of the actual result.
        blocks: number of the block of each match.
    """

    probabilities: np.ndarray
    labels: np.ndarray
    blocks: np.ndarray

    @property
    def log_losses(self) -> np.ndarray:
        """Log loss of each match."""
        return ev.log_loss(self.probabilities, self.labels)

    @property
    def accuracy(self) -> float:
        """Share of matches in which the most probable result happened."""
        return float(np.mean(ev.accuracy(self.probabilities, self.labels)))


def read_as_is(forecasts: ev.Forecasts) -> Reading:
    """Return the forecasts of a model whose outcomes are the results."""
    order = np.argsort(forecasts.rows)
    return Reading(forecasts.probabilities[order], forecasts.labels[order], forecasts.blocks[order])


@dataclass(frozen=True)
class Candidate:
    """A model with its data.

    Attributes:
        data: the matches.
        model: the model; learning starts at its parameters.
        method: inference method; EP if `None`.
        read: function from forecasts of outcomes to results.
        ties: whether ties are possible, for differences of points.
    """

    data: jk.Dataset
    model: jk.Model
    method: Any = None
    read: Callable[[ev.Forecasts], Reading] = read_as_is
    ties: bool | None = None

    def learn(self) -> tuple[jk.Model, bool]:
        """Learn the parameters from all matches; return also whether learning converged."""
        model, history = jk.learn(self.model, self.data, self.method, **LEARNING)
        return model, history.converged

    def predict(self, start: str, every: Any, learn: bool = True) -> Reading:
        """Backtest from `start` on, with parameters learnt from earlier matches."""
        forecasts = ev.walk_forward(
            ev.Refit(self.model, self.method, learn_options=LEARNING),
            self.data,
            start,
            every=every,
            relearn="start" if learn else None,
            ties=self.ties,
            progress=True,
        )
        end = "did not converge" if forecasts.unconverged_learning else "converged"
        print(forecasts.model, f"Learning {end}.", flush=True)
        return self.read(forecasts)


@dataclass(frozen=True)
class Contest:
    """One sport: its matches, candidate models, and the chosen one.

    Attributes:
        read: function that reads the matches from one date up to another.
        since: first date of the matches to learn from.
        validation: first date of the validation period, which ends at `test`.
        test: first date of the test period, as in the paper.
        blocks: length of blocks in the validation period.
        ideas: candidate models by name.
        chosen: name of the chosen candidate.
        paper: the paper's model with its parameters.
        given: column with published win probabilities of the first side, if any.
    """

    read: Callable[[str, str], pd.DataFrame]
    since: str
    validation: str
    test: str
    blocks: Any
    ideas: dict[str, Callable[[pd.DataFrame], Candidate]]
    chosen: str
    paper: Callable[[pd.DataFrame], Candidate]
    given: str | None = None
