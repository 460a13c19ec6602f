"""Walk-forward evaluation: predict each block of matches from earlier blocks only."""

import abc
import dataclasses
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, Self, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from jaxkick.chains.step import Site
from jaxkick.data.columns import UNITS
from jaxkick.data.dataset import Dataset
from jaxkick.data.encoding import Index
from jaxkick.errors import DataError
from jaxkick.evaluation.forecasts import Forecasts
from jaxkick.inference.checks import check_outcomes
from jaxkick.inference.infer import infer
from jaxkick.inference.methods import AbstractMethod
from jaxkick.inference.problem import ScoreMoments, Sites
from jaxkick.inference.status import InferenceError
from jaxkick.io import Checkpoint
from jaxkick.learning.learn import History, learn
from jaxkick.likelihoods import AbstractLikelihood
from jaxkick.model import Model

__all__ = [
    "AbstractForecaster",
    "Blocks",
    "Predicted",
    "Refit",
    "make_blocks",
    "split_time",
    "walk_forward",
]

Period: TypeAlias = str | Callable[[np.ndarray], Any]
"""`"day"`, `"week"`, or a function from an array of times to one label for each."""

_DAYS = {"day": 1, "week": 7}
_THURSDAY = 3  # day 0 is a Thursday, and weeks start on Mondays
_BAR = 30


class Blocks(NamedTuple):
    """The division of matches into blocks.

    Attributes:
        number: block of each observation; numbers increase with time.
        tested: numbers of the blocks to predict, increasing.
        rows: the observations to predict, block by block.
    """

    number: np.ndarray
    tested: np.ndarray
    rows: np.ndarray

    def only(self, tested: np.ndarray) -> "Blocks":
        """Keep some of the blocks to predict."""
        rows = self.rows[np.isin(self.number[self.rows], tested)]
        return self._replace(tested=tested, rows=rows)


class Predicted(NamedTuple):
    """One or more predicted blocks.

    Attributes:
        blocks: number of blocks.
        rows: their observations.
        moments: predictive mean and variance of the score of each of these observations.
        state: state of the forecaster after these blocks.
    """

    blocks: int
    rows: np.ndarray
    moments: ScoreMoments
    state: PyTree


class AbstractForecaster(eqx.Module):
    """Predicts blocks of matches, each from all earlier blocks.

    Attributes:
        likelihood: how an outcome follows from the score.
    """

    likelihood: eqx.AbstractVar[AbstractLikelihood]

    @abc.abstractmethod
    def tune(self, data: Dataset, blocks: Blocks, before: int) -> Self:
        """Learn parameters from past matches.

        Args:
            data: the matches.
            blocks: their division into blocks.
            before: only blocks with a smaller number may be used.

        Returns:
            The forecaster with the new parameters.
        """

    @abc.abstractmethod
    def init(self, data: Dataset) -> PyTree:
        """Return the state that `forecast` starts from: arrays whose shapes never change."""

    @abc.abstractmethod
    def forecast(self, data: Dataset, blocks: Blocks, state: PyTree) -> Iterator[Predicted]:
        """Predict blocks in time order, one or more at a time.

        Args:
            data: the matches.
            blocks: their division into blocks, and which of them to predict.
            state: the result of `init`, or the state after the blocks before these.
        """


class Refit(AbstractForecaster):
    """A model that is fitted again before each block, with a warm start from the last fit.

    Observations that are still in the future are masked out. They keep their places in the
    chains, so that one compiled program serves all blocks, and the marginals at their places
    are the predictions.

    A block adds few matches, so that few steps lead back to the fixed point, and the next block
    continues where this one stopped.

    Attributes:
        model: kernels and likelihood.
        method: how to approximate the posterior; `ExpectationPropagation()` if `None`.
        tol: `tol` of `infer` before each block.
        learn_options: further arguments of `learn`, for tuning.
        on_learn: function that is called with the `History` of each tuning, for instance to
            check whether it converged.
    """

    model: Model
    method: AbstractMethod | None
    tol: float
    learn_options: dict[str, Any]
    on_learn: Callable[[History], Any] | None

    def __init__(
        self,
        model: Model,
        method: AbstractMethod | None = None,
        *,
        tol: float = 0.05,
        learn_options: Mapping[str, Any] | None = None,
        on_learn: Callable[[History], Any] | None = None,
    ):
        """Choose how a model is fitted before each block; see the attributes."""
        self.model, self.method, self.tol = model, method, tol
        self.learn_options, self.on_learn = dict(learn_options or {}), on_learn

    @property
    def likelihood(self) -> AbstractLikelihood:
        return self.model.likelihood

    def tune(self, data: Dataset, blocks: Blocks, before: int) -> "Refit":
        mask = blocks.number < before
        model, history = learn(self.model, data, self.method, mask=mask, **self.learn_options)
        if self.on_learn is not None:
            self.on_learn(history)
        return dataclasses.replace(self, model=model)

    def init(self, data: Dataset) -> Sites:
        # Sites of zero instead of none: the first fit runs the same program as the others.
        zeros = (jnp.zeros_like(chain.gap) for chain in data.chains)
        return tuple(Site(each, each) for each in zeros)

    def forecast(self, data: Dataset, blocks: Blocks, state: Sites) -> Iterator[Predicted]:
        options = {"method": self.method, "tol": self.tol}
        for block in blocks.tested:
            rows = np.flatnonzero(blocks.number == block)
            try:
                past = blocks.number < block
                posterior = infer(self.model, data, **options, start=state, mask=past)
            except InferenceError as error:
                begin = data.index.scale.to_user(data.index.times[rows].min())
                error.add_note(f"The fit before the block that starts at {begin} failed.")
                raise
            moments = ScoreMoments(*(np.asarray(part)[rows] for part in posterior.observations))
            state = posterior.sites
            yield Predicted(1, rows, moments, state)


def walk_forward(
    model: Model | AbstractForecaster,
    data: Dataset,
    start: Any,
    *,
    every: Period = "day",
    stop: Any = None,
    relearn: Period | None = None,
    ties: bool | None = None,
    progress: bool | Callable[[int, int], None] = False,
    checkpoint: str | os.PathLike | None = None,
) -> Forecasts:
    """Backtest a model: predict each block of matches from earlier blocks only.

    No outcome of a block or after it has any influence on the predictions of the block. Only
    the competitors, times and coefficients of the block itself are known. A kernel with its
    origin at a feature's first match does not know more, because no match comes before it.

    Parameters that were learned from all of `data`, or a model that was chosen by its result
    here, have seen the future. Pass `relearn="start"` to learn parameters only from the matches
    before `start`.

    Args:
        model: a model, which is fitted again before each block; `Refit(model, ...)` for options
            of these fits; or a baseline such as `Elo()`.
        data: the matches.
        start: time of the first match to predict, as in the data; see `split_time`.
        every: length of a block: `"day"`, `"week"` (from Monday), or a function from an array of
            times (`datetime64` for dates) to one label for each.
        stop: matches at or after this time are not predicted.
        relearn: when to learn parameters again, from past matches only: `"start"` for once,
            before the first block; or a period like `every`, such as
            `lambda times: times.astype("datetime64[Y]")`, for the start of each period.
        ties: whether a difference of points may be zero, for likelihoods of differences; if
            `None`, whether one was zero before the first block.
        progress: `True` for a line on standard error, or a function that is called with the
            number of blocks done and the number of all blocks.
        checkpoint: a file that is written while blocks are predicted, at little cost. If it
            exists, the evaluation continues from it; the other arguments must be the same,
            which is checked except for functions in `Refit(learn_options=)`. Learning that was
            interrupted starts again.

    Returns:
        The predictions, with their summary.

    Raises:
        TypeError: if an argument has the wrong type.
        DataError: if an argument does not fit the data, or the checkpoint is of another run.
        InferenceError: if inference fails before some block.
    """
    forecaster = _as_forecaster(model)
    if not isinstance(data, Dataset):
        raise TypeError(f"`data` must be a `Dataset`, not {type(data).__name__}.")
    blocks = make_blocks(data, start, every, stop)
    # Also outcomes that are only predicted, which no fit checks.
    check_outcomes(forecaster.likelihood, data, blocks.number <= blocks.tested[-1])
    stretches = _stretches(data, blocks, relearn)
    arrays = eqx.filter(forecaster, eqx.is_array_like)
    file = Checkpoint(checkpoint, arrays, data.without_index(), stretches, relearn is not None)
    report = _reporter(progress, len(blocks.tested))
    walk = _walk(forecaster, data, stretches, relearn, file, report)
    if ties is None:
        ties = bool(np.any(data.observations.outcome[blocks.number < blocks.tested[0]] == 0))
    pairs = zip(walk.forecasters, stretches, strict=True)
    likelihoods = [(each.likelihood, part.rows) for each, part in pairs]
    moments = ScoreMoments(walk.mean, walk.variance)
    return Forecasts.of(data, blocks.rows, blocks.number, moments, likelihoods, ties)


def make_blocks(data: Dataset, start: Any, every: Period, stop: Any = None) -> Blocks:
    """Divide matches into blocks, and choose those to predict; arguments as in `walk_forward`."""
    times = data.index.times
    number = _periods(data.index, every, "every")
    tested = times >= _one_time(data.index, start, "start")
    if stop is not None:
        tested &= times < _one_time(data.index, stop, "stop")
    rows = np.flatnonzero(tested)
    if not rows.size:
        first, last = data.index.scale.to_user(np.array([times.min(), times.max()]))
        raise DataError(
            f"No match is at or after `start` ({start}) and before `stop` ({stop})",
            f"The data is from {first} to {last}.",
        )
    rows = rows[np.lexsort((rows, times[rows], number[rows]))]
    return Blocks(number, np.unique(number[rows]), rows)


def split_time(data: Dataset, fraction: float) -> Any:
    """Return the time that splits matches into a training and a test part.

    `walk_forward(model, data, split_time(data, 0.7))` predicts the last 30 % of the matches,
    and those at the same time as the first of them.

    Args:
        data: the matches.
        fraction: fraction of the matches before the split, at least 0 and below 1.
    """
    if not 0.0 <= fraction < 1.0:
        raise DataError(
            "{argument} is {value}, but must be at least 0 and below 1",
            argument="fraction",
            value=fraction,
        )
    times = np.sort(data.index.times)
    return data.index.scale.to_user(times[int(fraction * len(times))])[()]


class _Walk(NamedTuple):
    """The state of an evaluation over stretches of blocks, each with its own parameters.

    Attributes:
        mean: predictive mean of each observation's score; NaN until it is predicted.
        variance: its variance.
        state: state of the forecaster.
        tuned: number of stretches whose parameters are learned.
        forecasters: forecaster of each stretch; that of the user for later stretches.
    """

    mean: np.ndarray
    variance: np.ndarray
    state: PyTree
    tuned: np.ndarray
    forecasters: tuple[AbstractForecaster, ...]


def _walk(
    forecaster: AbstractForecaster,
    data: Dataset,
    stretches: list[Blocks],
    relearn: Period | None,
    checkpoint: Checkpoint,
    report: Callable[[int], None],
) -> _Walk:
    """Predict one stretch after the other, from where the checkpoint ends."""
    state, nothing = forecaster.init(data), np.full(len(data.index.times), np.nan)
    forecasters = (forecaster,) * len(stretches)
    walk = _Walk(nothing, nothing, state, np.array(0), forecasters)
    arrays, rest = eqx.partition(walk, _is_array)
    saved = checkpoint.load(arrays)
    walk = walk if saved is None else eqx.combine(saved, rest)
    report(len(np.unique(stretches[0].number[np.isfinite(walk.mean)])))
    for number, part in enumerate(stretches):
        if number >= walk.tuned:
            forecaster = walk.forecasters[max(0, number - 1)]
            if relearn is not None:
                forecaster = forecaster.tune(data, part, int(part.tested[0]))
            forecasters = (*walk.forecasters[:number], forecaster, *forecasters[number + 1 :])
            walk = walk._replace(state=state, tuned=np.array(number + 1), forecasters=forecasters)
            checkpoint.save(eqx.filter(walk, _is_array))
        left = part.only(np.unique(part.number[part.rows[np.isnan(walk.mean[part.rows])]]))
        steps = walk.forecasters[number].forecast(data, left, walk.state)
        for predicted in steps if len(left.tested) else ():
            mean, variance = walk.mean.copy(), walk.variance.copy()
            mean[predicted.rows], variance[predicted.rows] = predicted.moments
            walk = walk._replace(mean=mean, variance=variance, state=predicted.state)
            checkpoint.save(eqx.filter(walk, _is_array), only_if_cheap=True)
            report(predicted.blocks)
    checkpoint.save(eqx.filter(walk, _is_array))
    return walk


def _is_array(leaf: object) -> bool:
    return isinstance(leaf, (jax.Array, np.ndarray))


def _as_forecaster(model: object) -> AbstractForecaster:
    if isinstance(model, AbstractForecaster):
        return model
    if isinstance(model, Model):
        return Refit(model)
    raise TypeError(
        "`model` must be a `Model`, or a forecaster such as `Refit(model)` or `Elo()`, not "
        f"{type(model).__name__}."
    )


def _stretches(data: Dataset, blocks: Blocks, relearn: Period | None) -> list[Blocks]:
    """Divide blocks into stretches that share their parameters."""
    if relearn is None:
        return [blocks]
    if blocks.tested[0] == 0:
        raise DataError(
            "{argument} needs matches before the first block to predict, but there are none",
            "Choose a later `start`, or leave `relearn` out.",
            argument="relearn",
        )
    if relearn == "start":
        return [blocks]
    numbers = _periods(data.index, relearn, "relearn")
    # A block belongs to the period in which it starts.
    period = np.full(blocks.number.max() + 1, numbers.max())
    np.minimum.at(period, blocks.number, numbers)
    period = period[blocks.tested]
    return [blocks.only(blocks.tested[period == each]) for each in np.unique(period)]


def _periods(index: Index, every: Period, argument: str) -> np.ndarray:
    """Number the periods of observations, increasing with time from 0."""
    if callable(every):
        labels = np.asarray(every(index.scale.to_user(index.times)))
        if labels.shape != index.times.shape:
            raise DataError(
                f"{{argument}} returned labels of shape {labels.shape}",
                f"It must return one label for each of the {len(index.times):,} times.",
                argument=argument,
            )
        if (labels != labels).any():
            time = index.scale.to_user(index.times[np.argmax(labels != labels)])
            raise DataError(
                f"{{argument}} returned no label for the time {time}",
                "It must return a label for each time.",
                argument=argument,
            )
    else:
        labels = _calendar(index, every, argument)
    codes = np.unique(labels, return_inverse=True)[1]
    order = np.lexsort((codes, index.times))
    changes = codes[order][1:] != codes[order][:-1]
    later = index.times[order][1:] > index.times[order][:-1]
    if changes.sum() != codes.max() or (changes & ~later).any():
        raise DataError(
            "{argument} returned labels that overlap in time, so that matches could be predicted "
            "from later ones",
            "Return one label for each interval of time.",
            argument=argument,
        )
    number = np.empty(len(order), np.int64)
    number[order] = np.concatenate([[0], np.cumsum(changes)])
    return number


def _calendar(index: Index, every: str, argument: str) -> np.ndarray:
    """Number days or weeks."""
    if every not in _DAYS:
        raise DataError(
            "{argument} is {value}, but must be 'day', 'week' or a function from times to labels",
            "Such a function is `lambda times: times.astype('datetime64[M]')`.",
            argument=argument,
            value=every,
        )
    if index.scale.dates:
        days = index.scale.to_user(index.times).astype("datetime64[D]").astype(np.int64)
    elif index.unit in UNITS:
        days = np.floor(index.times * UNITS[index.unit]).astype(np.int64)
    else:
        raise DataError(
            "{argument} is {value}, but the times of the data are numbers without a unit",
            "Pass a function from times to labels, such as `numpy.floor`, or build the data set "
            f"with `unit=`, one of {', '.join(UNITS)}.",
            argument=argument,
            value=every,
        )
    return (days + _THURSDAY) // 7 if every == "week" else days


def _one_time(index: Index, value: Any, argument: str) -> float:
    number = index.scale.to_numbers(value, argument)
    if np.shape(number):
        raise DataError(
            f"{{argument}} has {np.size(number):,} times, but must be a single time",
            argument=argument,
        )
    return float(number)


def _reporter(progress: bool | Callable[[int, int], None], total: int) -> Callable[[int], None]:
    """Return a function that counts blocks and reports them."""
    done, drawn = 0, -1

    def report(blocks: int) -> None:
        nonlocal done, drawn
        done, filled = done + blocks, _BAR * (done + blocks) // total
        if blocks and callable(progress):
            progress(done, total)
        # In a file, which keeps every line, write only when the bar grows.
        elif blocks and progress and (filled > drawn or sys.stderr.isatty()):
            bar, end = f"{'#' * filled:{_BAR}s}", "\n" if done == total else ""
            sys.stderr.write(f"\rpredicting [{bar}] {done:,} of {total:,} blocks {end}")
            sys.stderr.flush()
            drawn = filled

    return report
