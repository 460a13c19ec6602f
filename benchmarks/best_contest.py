"""What the contests of `best_models.py` share: terms of a model, candidates, what they predict."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

import jaxkick as jk
from jaxkick import evaluation as ev


class Term(NamedTuple):
    """One feature of every match, and how much it counts: not at all where that is 0.

    Attributes:
        group: features of one group share a kernel.
        feature: the number of the feature within its group, for each match.
        coefficient: how much it counts, for each match.
    """

    group: str
    feature: np.ndarray | int
    coefficient: np.ndarray


def assemble(dates: Any, terms: list[Term], outcome: np.ndarray) -> jk.Dataset:
    """Matches in which all terms take part."""
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
    )


def number_sides(games: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """The numbers of the two sides of each match."""
    numbers = pd.factorize(np.concatenate([games["first"], games["second"]]))[0]
    one, two = numbers.reshape(2, -1)
    return one, two


class Reading(NamedTuple):
    """What forecasts say of results, in the order of the matches.

    Attributes:
        probabilities: of all results of each match.
        places: which of them happened.
        blocks: the number of the block of each match.
    """

    probabilities: np.ndarray
    places: np.ndarray
    blocks: np.ndarray

    @property
    def log_losses(self) -> np.ndarray:
        """One for each match."""
        return ev.log_loss(self.probabilities, self.places)

    @property
    def accuracy(self) -> float:
        """How often the most probable result happened."""
        return float(np.mean(ev.accuracy(self.probabilities, self.places)))


def read_as_is(forecasts: ev.Forecasts) -> Reading:
    """Where the levels of the forecasts are the results."""
    order = np.argsort(forecasts.rows)
    return Reading(forecasts.probabilities[order], forecasts.places[order], forecasts.blocks[order])


@dataclass(frozen=True)
class Candidate:
    """A model with the data that it reads.

    Attributes:
        data: the matches.
        model: its parameters are where learning starts.
        method: how to approximate the posterior.
        read: from forecasts of outcomes to those of results.
        ties: whether a difference of points may be zero.
    """

    data: jk.Dataset
    model: jk.Model
    method: Any = None
    read: Callable[[ev.Forecasts], Reading] = read_as_is
    ties: bool | None = None

    def predict(self, start: str, every: Any, learn: bool = True) -> Reading:
        """Predict all from the start on, with parameters learnt from what was before."""
        forecasts = ev.walk_forward(
            ev.Refit(self.model, self.method, learning={"max_steps": 15, "tol": 0.5}),
            self.data,
            start,
            every=every,
            relearn="start" if learn else None,
            ties=self.ties,
            progress=True,
        )
        return self.read(forecasts)


@dataclass(frozen=True)
class Contest:
    """One sport: its matches, the ideas that were tried, and the model that was chosen.

    Attributes:
        read: the matches from one date on, and before another.
        since: the first date of the matches to learn from.
        validation: the first date that is predicted when ideas are compared.
        test: the first date of the paper's protocol, before which ideas are compared.
        blocks: how long blocks are when ideas are compared.
        ideas: models by what they try.
        chosen: the idea that won.
        paper: the paper's model with the paper's parameters.
        given: the column with probabilities of others that the first side wins, if any.
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


def month(times: np.ndarray) -> np.ndarray:
    """Blocks of a month."""
    return times.astype("datetime64[M]")
