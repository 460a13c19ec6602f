"""`walk_forward`: predict each block of matches from all that came strictly before."""

import dataclasses
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from jaxkick._parameters import resolve
from jaxkick._tracing import is_known
from jaxkick._typing import Array, Float
from jaxkick.dataset.dataset import Dataset
from jaxkick.evaluation.blocks import Blocks, Every, make_blocks, periods
from jaxkick.evaluation.forecaster import AbstractForecaster, as_forecaster
from jaxkick.evaluation.forecasts import Forecasts
from jaxkick.evaluation.journal import Journal, Walk
from jaxkick.evaluation.outcomes import outcome_levels, outcome_places, outcome_probabilities
from jaxkick.inference.problem import ScoreMoments
from jaxkick.inference.request import check_outcomes
from jaxkick.learning.checkpoint import fingerprint
from jaxkick.likelihoods.base import AbstractLikelihood
from jaxkick.model import Model

__all__ = ["walk_forward"]

_BAR = 30


def walk_forward(
    model: Model | AbstractForecaster,
    data: Dataset,
    start: Any,
    *,
    every: Every = "day",
    stop: Any = None,
    relearn: Every | None = None,
    ties: bool | None = None,
    progress: bool | Callable[[int, int], None] = False,
    checkpoint: str | os.PathLike | None = None,
) -> Forecasts:
    """Predict matches as if each block of them was still to come.

    Blocks follow each other in time. The matches of a block are predicted from the outcomes
    of all earlier blocks, and of none else: no outcome of the block or after it has any
    influence. What is known of the future is who plays, when, and with which coefficients,
    and even that only for the matches of the block itself. A kernel with its origin at a
    feature's first match sees no more, because no match is before a feature's first.

    What was chosen before is yours to keep clean: parameters that were learnt from all of
    `data`, or a model that was picked by its result here, have seen the future. Pass
    `relearn="start"` to learn them from the matches before `start` alone.

    Args:
        model: a model, which is fitted anew before each block; `Refit(model, ...)` to choose
            how; or a baseline such as `Elo()`.
        data: the matches.
        start: the time of the first match to predict, in the user's terms; see `split_time`.
        every: how long a block is: `"day"`, `"week"` (from Monday), or a function from an
            array of times in the user's terms (`datetime64` for dates) to one label for each.
        stop: matches at or after this time are not predicted.
        relearn: when to learn parameters anew, from past matches only: `"start"` for once,
            before the first block; or a period like `every`, such as
            `lambda times: times.astype("datetime64[Y]")`, at whose beginnings they are learnt.
        ties: whether a difference of points may be zero, for likelihoods of differences; if
            `None`, whether one was before the first block.
        progress: `True` for a line on the error stream, or a function that is called with the
            number of blocks done and of all.
        checkpoint: a file that is written as blocks are predicted, as often as costs little.
            If it is there already, the walk goes on from it; other arguments must be the
            same. That is checked, but for functions in `Refit(learning=)`. Learning that was
            under way begins anew.

    Returns:
        A table of predictions with its summary.

    Raises:
        TypeError: if an argument is of another kind.
        ValueError: if an argument does not fit the data, or the checkpoint is of another walk.
        InferenceError: if inference fails before some block.
    """
    forecaster = as_forecaster(model)
    if not isinstance(data, Dataset):
        raise TypeError(f"`data` must be a `Dataset`, not {type(data).__name__}.")
    blocks = make_blocks(data, start, every, stop)
    # Also those that are only predicted, which no fit looks at.
    check_outcomes(forecaster.likelihood, data, blocks.number <= blocks.tested[-1])
    stretches = list(_stretches(data, blocks, relearn))
    journal = _open_journal(checkpoint, forecaster, data, stretches)
    report = _Progress(progress, len(blocks.tested))
    walk = _follow(forecaster, data, stretches, journal, report)
    report.end()
    if ties is None:
        ties = bool(np.any(np.asarray(data.outcome)[blocks.number < blocks.tested[0]] == 0))
    pairs = zip(walk.forecasters, stretches, strict=True)
    likelihoods = [(each.likelihood, part.rows) for each, (part, _) in pairs]
    return _collect(data, blocks, ScoreMoments(walk.mean, walk.variance), likelihoods, ties)


def _open_journal(
    checkpoint: str | os.PathLike | None,
    forecaster: AbstractForecaster,
    data: Dataset,
    stretches: list[tuple[Blocks, bool]],
) -> Journal:
    if checkpoint is None:
        return Journal(None, "")
    if not is_known(data.chains[0].gap):
        raise ValueError(
            "`checkpoint` cannot be written where other processes hold a part of the data; leave "
            "it out, or walk in one process."
        )
    chosen = eqx.filter(forecaster, eqx.is_array_like)
    mark = fingerprint(chosen, dataclasses.replace(data, index=None), stretches)
    return Journal(Path(checkpoint), mark)


def _follow(
    forecaster: AbstractForecaster,
    data: Dataset,
    stretches: list[tuple[Blocks, bool]],
    journal: Journal,
    report: Callable[[int], None],
) -> Walk:
    """Predict stretch by stretch, from where the journal left off."""
    memory = forecaster.begin(data)
    walk = journal.resume(Walk.begin(forecaster, memory, data.num_observations, len(stretches)))
    past = sum(len(part.tested) for part, _ in stretches[: int(walk.stretch)])
    report(past + max(0, int(walk.done)))
    while (number := int(walk.stretch)) < len(stretches):
        part, tune = stretches[number]
        if walk.done < 0:
            last = walk.forecasters[max(0, number - 1)]
            walk = walk.tuned(last.tune(data, part, int(part.tested[0])) if tune else last)
            journal.write(walk)
        left = part.after(int(walk.done))
        steps = walk.forecasters[number].forecast(data, left, walk.memory)
        for predicted in steps if len(left.tested) else ():
            walk = walk.followed_by(predicted)
            journal.keep(walk)
            report(predicted.blocks)
        walk = walk.at_next_stretch(memory)
    journal.write(walk)
    return walk


def _stretches(
    data: Dataset, blocks: Blocks, relearn: Every | None
) -> Iterator[tuple[Blocks, bool]]:
    """Stretches of blocks that share their parameters, and whether to learn them first."""
    if relearn is not None and blocks.tested[0] == 0:
        raise ValueError(
            "`relearn` needs matches to learn from, but none is before the first block to predict; "
            "choose a later `start`, or leave `relearn` out."
        )
    if relearn is None or relearn == "start":
        yield blocks, relearn is not None
        return
    numbers = periods(data.index, relearn, "relearn")
    # The period in which a block begins.
    period = np.full(blocks.number.max() + 1, numbers.max())
    np.minimum.at(period, blocks.number, numbers)
    for each in np.unique(period[blocks.tested]):
        tested = blocks.tested[period[blocks.tested] == each]
        rows = blocks.rows[period[blocks.number[blocks.rows]] == each]
        yield Blocks(blocks.number, tested, rows), True


def _collect(
    data: Dataset,
    blocks: Blocks,
    moments: ScoreMoments,
    likelihoods: list[tuple[AbstractLikelihood, np.ndarray]],
    ties: bool,
) -> Forecasts:
    outcome = np.asarray(data.outcome)
    user_rows = np.arange(len(outcome)) if data.index.rows is None else data.index.rows
    levels = outcome_levels(likelihoods[0][0], ties)
    probabilities = np.empty((data.num_observations, len(levels)))
    log_prob = np.empty(data.num_observations)
    places = np.zeros(data.num_observations, np.int64)
    dtype = data.outcome.dtype
    for likelihood, rows in likelihoods:
        mean, variance = (jnp.asarray(part[rows], dtype) for part in moments)
        probabilities[rows], log_prob[rows] = _read_off(
            likelihood, data.outcome[rows], mean, variance, ties
        )
        if levels:
            places[rows] = outcome_places(likelihood, outcome[rows], ties, user_rows[rows])
    rows = blocks.rows
    index = data.index
    return Forecasts(
        rows=user_rows[rows],
        times=index.scale.to_user(index.times[rows]),
        blocks=blocks.number[rows],
        outcome=outcome[rows],
        mean=moments.mean[rows],
        variance=moments.variance[rows],
        levels=levels,
        probabilities=probabilities[rows],
        places=places[rows],
        log_prob=log_prob[rows],
    )


@eqx.filter_jit
def _read_off(
    likelihood: AbstractLikelihood,
    outcome: Float[Array, " n"],
    mean: Float[Array, " n"],
    variance: Float[Array, " n"],
    ties: bool,
) -> tuple[Float[Array, "n levels"], Float[Array, " n"]]:
    """Probabilities of all levels, and the logarithm of that of what happened."""
    likelihood = resolve(likelihood, mean.dtype)
    return (
        outcome_probabilities(likelihood, mean, variance, ties),
        likelihood.predictive_log_prob(outcome, mean, variance),
    )


class _Progress:
    """Counts blocks, and tells of them."""

    def __init__(self, progress: bool | Callable[[int, int], None], total: int):
        self._tell = self._draw if progress is True else progress or None
        self._line = progress is True
        self._done, self._total, self._drawn = 0, total, -1

    def __call__(self, blocks: int) -> None:
        self._done += blocks
        if blocks and self._tell is not None:
            self._tell(self._done, self._total)

    def end(self) -> None:
        if self._line:
            sys.stderr.write("\n")

    def _draw(self, done: int, total: int) -> None:
        filled = _BAR * done // total
        # A file, which keeps every line, gets one only when the bar grows.
        if filled > self._drawn or sys.stderr.isatty():
            sys.stderr.write(f"\rpredicting [{'#' * filled:{_BAR}s}] {done:,} of {total:,} blocks ")
            sys.stderr.flush()
            self._drawn = filled
