"""Walk-forward evaluation: predict each block of matches from earlier blocks only."""

import abc
import dataclasses
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from jaxkick.chains.step import Site
from jaxkick.data.dataset import Dataset
from jaxkick.data.periods import Period, number_periods, read_time
from jaxkick.data.queries import Query
from jaxkick.data.sides import Block
from jaxkick.errors import DataError, invalid
from jaxkick.evaluation.forecasts import Forecasts, PredictedScores, is_counts, match_rows
from jaxkick.evaluation.rank_forecasts import RankForecasts
from jaxkick.inference.checks import check_outcomes
from jaxkick.inference.infer import infer
from jaxkick.inference.methods import AbstractMethod
from jaxkick.inference.problem import ScoreMoments, Sites
from jaxkick.inference.status import InferenceError, Status, raise_unless_converged
from jaxkick.io import Checkpoint
from jaxkick.learning.learn import learn
from jaxkick.learning.suggest import suggest_model
from jaxkick.likelihoods import AbstractLikelihood
from jaxkick.likelihoods.likelihood import refuse_own_numbers
from jaxkick.model import Model
from jaxkick.posterior.posterior import Posterior

__all__ = [
    "AbstractForecaster",
    "Blocks",
    "Predicted",
    "Refit",
    "make_blocks",
    "split_time",
    "walk_forward",
]

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
        covariance: predictive covariance of each of these scores with that of the other count
            of the same match, for data read with `counts=`; 0 if `None`.
        unconverged: number of fits that did not converge.
    """

    blocks: int
    rows: np.ndarray
    moments: ScoreMoments
    state: PyTree
    covariance: np.ndarray | None = None
    unconverged: int = 0


class AbstractForecaster(eqx.Module):
    """Predicts blocks of matches, each from all earlier blocks.

    Attributes:
        likelihood: how an outcome follows from the score.
    """

    likelihood: eqx.AbstractVar[AbstractLikelihood | dict[str, AbstractLikelihood]]

    @abc.abstractmethod
    def tune(self, data: Dataset, blocks: Blocks, before: int) -> tuple[Self, bool]:
        """Learn parameters from past matches.

        Args:
            data: the matches.
            blocks: their division into blocks.
            before: only blocks with a smaller number may be used.

        Returns:
            The forecaster with the new parameters, and whether learning converged.
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
    """A model that is refitted before each block, with a warm start from the last fit.

    Future observations are masked out. They keep their places in the chains, so that one compiled
    program serves all blocks, and the marginals at their places are the predictions. A block adds
    few matches, so that the warm start needs few steps.

    The default of `tol` bounds the error of predicted probabilities by 0.005 for up to six
    features in a match. Each of k marginal means is off by at most `tol` standard deviations,
    hence that of their combination f, with variance v, by at most √k tol √v. The slope of a
    probability in this mean is at most 0.4 / √(1 + v) for normal noise of variance 1, so that the
    error is below 0.4 √k tol = 0.0049 for k = 6. Most errors are far smaller, because `tol` bounds
    the largest over all marginals.

    Attributes:
        model: the model; `None` for `suggest_model` of the matches before the first block.
        method: the inference method; that of `infer` if `None`.
        tol: `tol` of `infer` before each block.
        learn_options: further arguments of `learn`, for tuning.
    """

    model: Model | None
    method: AbstractMethod | None
    tol: float
    learn_options: dict[str, Any]

    def __init__(
        self,
        model: Model | None,
        method: AbstractMethod | None = None,
        *,
        tol: float = 0.005,
        learn_options: Mapping[str, Any] | None = None,
    ):
        """Choose how a model is fitted before each block; see the attributes."""
        self.model, self.method, self.tol = model, method, tol
        self.learn_options = dict(learn_options or {})

    @property
    def likelihood(self) -> AbstractLikelihood | dict[str, AbstractLikelihood]:
        return self._known_model.likelihood

    @property
    def _known_model(self) -> Model:
        if self.model is None:
            raise ValueError("`model` is None. Call `walk_forward`, which suggests a model.")
        return self.model

    def tune(self, data: Dataset, blocks: Blocks, before: int) -> "tuple[Refit, bool]":
        mask = blocks.number < before
        model, history = learn(self.model, data, self.method, mask=mask, **self.learn_options)
        return dataclasses.replace(self, model=model), history.converged

    def init(self, data: Dataset) -> Sites:
        # Sites of zero instead of none: the first fit runs the same program as the others.
        zeros = (jnp.zeros_like(chain.gap) for chain in data.chains)
        return tuple(Site(each, each) for each in zeros)

    def forecast(self, data: Dataset, blocks: Blocks, state: Sites) -> Iterator[Predicted]:
        options = {"method": self.method, "tol": self.tol, "throw": False}
        for block in blocks.tested:
            rows = blocks.rows[blocks.number[blocks.rows] == block]
            past = blocks.number < block
            posterior = infer(self._known_model, data, **options, start=state, mask=past)
            if Status(int(posterior.status)) is Status.DIVERGED:
                _raise_diverged(posterior, data, rows, self.tol)
            moments = ScoreMoments(*(np.asarray(part)[rows] for part in posterior.observations))
            covariance = _covariance_of_counts(posterior, rows)
            state = posterior.sites
            yield Predicted(1, rows, moments, state, covariance, not posterior.converged)


def _raise_diverged(posterior: Posterior, data: Dataset, rows: np.ndarray, tol: float) -> None:
    try:
        raise_unless_converged(posterior.status, posterior.steps, posterior.distance, tol)
    except InferenceError as error:
        begin = data.index.scale.to_user(data.index.times[rows].min())
        error.add_note(f"The fit before the block that starts at {begin} failed.")
        raise


def _covariance_of_counts(posterior: Posterior, rows: np.ndarray) -> np.ndarray | None:
    """Compute the covariance of the scores of the two counts of each match, for both observations.

    Features are independent under the posterior, so only the shared ones contribute: the level,
    the home advantage and other covariates; and both teams, if attack and defence are aspects of
    one state. The result is zero for other observations, and `None` if there are no counts.
    """
    found = None
    for _, data, chosen in _by_kind(posterior.data, rows):
        if not is_counts(data):
            continue
        pairs = match_rows(data, rows[chosen])
        found = np.zeros(len(rows)) if found is None else found
        if data.index.aspect_names:
            found[chosen] = np.repeat(_covariance_in_one_state(posterior, pairs), 2)
            continue
        variances = [np.asarray(each.variance).ravel() for each in posterior.entries]
        features, x = data.index.features[pairs], np.asarray(data.coefficients)[pairs]
        # An empty slot reads any entry, and has coefficient zero.
        slots = np.asarray(data.slots)[pairs[:, 0]]
        variance = np.take(np.concatenate(variances), slots, mode="clip")
        shared = features[:, 0, :, None] == features[:, 1, None, :]
        terms = x[:, 0, :, None] * x[:, 1, None, :] * variance[..., None] * shared
        found[chosen] = np.repeat(np.sum(terms, axis=(1, 2)), 2)
    return found


def _covariance_in_one_state(posterior: Posterior, pairs: np.ndarray) -> np.ndarray:
    """Covariance of the two scores of each match, from the variance of their sum."""
    index, count = posterior.data.index, len(pairs)
    coefficients, aspects = posterior.data.coefficients, np.asarray(index.aspects)
    parts = (index.features, np.asarray(coefficients), aspects)
    joined = (part[pairs].reshape(count, -1, *part.shape[2:]) for part in parts)
    block = Block(*joined).compact()
    used = block.features >= 0
    groups = np.array(index.groups, object)[index.feature_group[block.features]]
    names = index.aspect_names
    query = Query(
        shape=(count,),
        times=index.times[pairs[:, 0]],
        features=block.features,
        groups=np.where(used, groups, ""),
        coefficients=block.coefficients,
        codes=block.features,
        aspects={name: np.asarray(block.aspects)[..., k] for k, name in enumerate(names)},
    )
    both = np.asarray(posterior._score_query(query).variance)
    each = np.asarray(posterior.observations.variance)[pairs]
    return 0.5 * (both - each.sum(axis=1))


def _by_kind(data: Dataset, rows: np.ndarray) -> Iterator[tuple[str, Dataset, np.ndarray]]:
    """For each kind: its name, the data with its schema, and which of the rows are of it."""
    index = data.index
    if index.kinds is None:
        yield "", data, np.ones(len(rows), bool)
        return
    for number, kind in enumerate(index.kind_names):
        one = dataclasses.replace(index, schema=index.kind_schemas[number])
        yield kind, dataclasses.replace(data, index=one), index.kinds[rows] == number


def walk_forward(
    model: Model | AbstractForecaster | None,
    data: Dataset,
    start: Any,
    *,
    every: Period = "day",
    stop: Any = None,
    relearn: Period | None = None,
    ties: bool | None = None,
    recalibrate: bool = False,
    progress: bool | Callable[[int, int], None] = False,
    checkpoint: str | os.PathLike | None = None,
) -> Forecasts | RankForecasts | dict[str, Forecasts | RankForecasts]:
    """Backtest a model: predict each block of matches from earlier blocks only.

    The outcomes of a block and of later blocks do not influence its predictions, which use only
    its competitors, times and coefficients.

    Parameters learnt from all of `data`, or a model chosen by its result here, have seen the
    future. Pass `relearn="start"` to learn parameters only from the matches before `start`.

    The predictions of fits that did not converge are kept, and the result counts such fits.

    Args:
        model: a model, which is refitted before each block; `Refit(model, ...)` for options of
            these fits; or a baseline such as `Elo()`. If `None`, the model that `suggest_model`
            proposes for the matches before the first block, with parameters learnt from them, or
            according to `relearn`.
        data: the matches. Differences are reduced to results for a likelihood of results, such
            as that of `Elo()`.
        start: time of the first match to predict, as in the data; see `split_time`.
        every: length of a block: `"day"`, `"week"` (from Monday), `"month"`, `"year"`, or a
            function from an array of times (`datetime64` for dates) to one label for each.
        stop: matches at or after this time are not predicted.
        relearn: when to learn parameters, from past matches only: `"start"` for once, before the
            first block; or a period like `every`, to learn again at the start of each.
        ties: whether matches may be tied, for differences and counts; if `None`, whether any
            match before the first block was.
        recalibrate: whether to recalibrate the forecasts of each block on the outcomes of earlier
            blocks; see `Forecasts.recalibrated`.
        progress: `True` for a line on standard error, or a function that is called with the
            number of blocks done and the number of all blocks.
        checkpoint: a file to save progress in, at little cost. If it exists, the evaluation
            continues from it. The other arguments must be the same; this is checked, except for
            functions in `Refit(learn_options=)`. Interrupted learning starts again.

    Returns:
        The predictions, with their summary: `Forecasts` of matches, or `RankForecasts` of
        rankings; a dictionary of them if the data has several kinds of observations.

    Raises:
        TypeError: if an argument has the wrong type.
        DataError: if an argument does not fit the data, or the checkpoint is of another run.
        InferenceError: if inference fails before some block.
    """
    if not isinstance(data, Dataset):
        raise TypeError(f"`data` must be a `Dataset`, not {type(data).__name__}.")
    forecaster = _as_forecaster(model)
    blocks = make_blocks(data, start, every, stop)
    past = blocks.number < blocks.tested[0]
    if isinstance(forecaster, Refit) and forecaster.model is None:
        relearn = "start" if relearn is None else relearn
    is_ranking = data.index.meaning.is_ranking
    if recalibrate and is_ranking:
        raise DataError(
            "{argument} is True, but the data are rankings",
            "Recalibration is for matches of two sides.",
            argument="recalibrate",
        )
    stretches = _stretches(data, blocks, relearn)
    if isinstance(forecaster, Refit) and forecaster.model is None:
        forecaster = dataclasses.replace(forecaster, model=suggest_model(data, mask=past))
    one = forecaster.likelihood
    for likelihood in one.values() if isinstance(one, dict) else (one,):
        refuse_own_numbers(likelihood)
    data = _as_results(forecaster.likelihood, data)
    predicts_rankings = (
        isinstance(forecaster, Refit) or isinstance(one, dict) or one.num_predictors is None
    )
    if is_ranking and not predicts_rankings:
        raise DataError(
            f"The data has rankings, but {type(forecaster).__name__} predicts matches of two sides",
            "Use a model with `likelihoods.Ranking()`.",
            argument="model",
        )
    # Also outcomes that are only predicted, which no fit checks.
    check_outcomes(forecaster.likelihood, data, blocks.number <= blocks.tested[-1])
    arrays = eqx.filter(forecaster, eqx.is_array_like)
    file = Checkpoint(checkpoint, arrays, data.without_index(), stretches, relearn is not None)
    report = _reporter(progress, len(blocks.tested))
    walk = _walk(forecaster, data, stretches, relearn, file, report)
    if walk.unconverged[0]:
        warnings.warn(
            f"{walk.unconverged[0]:,} of {len(blocks.tested):,} fits did not converge, so that the "
            "predictions of their blocks are less exact. Try another `method` in `Refit`.",
            stacklevel=2,
        )
    scores = PredictedScores(walk.mean, walk.variance, walk.covariance)
    models = tuple(each.model if isinstance(each, Refit) else each for each in walk.forecasters)
    found = {}
    for kind, part, chosen in _by_kind(data, np.arange(len(data))):
        parts = [
            (_likelihood_of(each.likelihood, kind), stretch.rows[chosen[stretch.rows]])
            for each, stretch in zip(walk.forecasters, stretches, strict=True)
        ]
        parts = [each for each in parts if len(each[1])]
        if not parts:
            continue
        common = part, blocks.number, scores, parts
        if parts[0][0].num_predictors is None:
            found[kind] = RankForecasts.of(*common, models, walk.unconverged.tolist())
        else:
            tied = _had_ties(part, past & chosen) if ties is None else ties
            each = Forecasts.of(*common, tied, models, walk.unconverged.tolist())
            found[kind] = each.recalibrated() if recalibrate else each
    return found if data.index.kind_names else found[""]


def _likelihood_of(
    likelihood: AbstractLikelihood | dict[str, AbstractLikelihood], kind: str
) -> AbstractLikelihood:
    return likelihood[kind] if isinstance(likelihood, dict) else likelihood


def _as_results(
    likelihood: AbstractLikelihood | dict[str, AbstractLikelihood], data: Dataset
) -> Dataset:
    """Reduce differences to results for a likelihood of results; refuse counts there."""
    outcome = data.observations.outcome.copy()
    for kind, part, chosen in _by_kind(data, np.arange(len(data))):
        if isinstance(likelihood, dict) and kind not in likelihood:
            continue
        each = _likelihood_of(likelihood, kind)
        if each.num_predictors != 1 or not each.levels or not np.any(each.check(outcome[chosen])):
            continue
        if is_counts(part):
            raise DataError(
                f"The data was read with `counts=`, but {type(each).__name__} is a likelihood of "
                "results",
                "Read the table with `result=` for this model. `compare` matches forecasts by row.",
            )
        differences = part.index.meaning.difference is not None
        if differences and set(each.levels) <= {-1.0, 0.0, 1.0}:
            outcome[chosen] = np.sign(outcome[chosen])
    if np.array_equal(outcome, data.observations.outcome):
        return data
    padded = np.asarray(data.outcome).copy()
    padded[: len(outcome)] = outcome
    return dataclasses.replace(data, outcome=jnp.asarray(padded))


def _had_ties(data: Dataset, past: np.ndarray) -> bool:
    outcome = data.observations.outcome[match_rows(data, np.flatnonzero(past))]
    # One outcome of each match, or two counts.
    return bool(np.any(outcome[:, 0] == (outcome[:, 1] if is_counts(data) else 0.0)))


def make_blocks(data: Dataset, start: Any, every: Period, stop: Any = None) -> Blocks:
    """Divide matches into blocks, and choose those to predict; arguments as in `walk_forward`."""
    times = data.index.times
    number = number_periods(data.index, every, "every")
    tested = times >= read_time(data.index, start, "start")
    if stop is not None:
        tested &= times < read_time(data.index, stop, "stop")
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
        raise invalid("fraction", fraction, "but must be at least 0 and below 1")
    times = np.sort(data.index.times)
    return data.index.scale.to_user(times[int(fraction * len(times))])[()]


class _Walk(NamedTuple):
    """The state of an evaluation over stretches of blocks, each with its own parameters.

    Attributes:
        mean: predictive mean of each observation's score; NaN until it is predicted.
        variance: its variance.
        covariance: its covariance with the score of the other count of the same match.
        state: state of the forecaster.
        tuned: number of stretches whose parameters are learnt.
        unconverged: number of fits and number of learning runs that did not converge.
        forecasters: forecaster of each stretch; that of the user for later stretches.
    """

    mean: np.ndarray
    variance: np.ndarray
    covariance: np.ndarray
    state: PyTree
    tuned: np.ndarray
    unconverged: np.ndarray
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
    none = np.zeros(2, np.int64)
    walk = _Walk(nothing, nothing, np.zeros_like(nothing), state, np.array(0), none, forecasters)
    arrays, rest = eqx.partition(walk, _is_array)
    saved = checkpoint.load(arrays)
    walk = walk if saved is None else eqx.combine(saved, rest)
    report(len(np.unique(stretches[0].number[np.isfinite(walk.mean)])))
    for number, part in enumerate(stretches):
        if number >= walk.tuned:
            forecaster = walk.forecasters[max(0, number - 1)]
            unconverged = walk.unconverged
            if relearn is not None:
                forecaster, learned = forecaster.tune(data, part, int(part.tested[0]))
                unconverged = unconverged + np.array([0, not learned])
            forecasters = (*walk.forecasters[:number], forecaster, *forecasters[number + 1 :])
            walk = walk._replace(
                state=state,
                tuned=np.array(number + 1),
                unconverged=unconverged,
                forecasters=forecasters,
            )
            checkpoint.save(eqx.filter(walk, _is_array))
        left = part.only(np.unique(part.number[part.rows[np.isnan(walk.mean[part.rows])]]))
        steps = walk.forecasters[number].forecast(data, left, walk.state)
        for predicted in steps if len(left.tested) else ():
            walk = _add(walk, predicted)
            checkpoint.save(eqx.filter(walk, _is_array), only_if_cheap=True)
            report(predicted.blocks)
    checkpoint.save(eqx.filter(walk, _is_array))
    return walk


def _add(walk: _Walk, predicted: Predicted) -> _Walk:
    """Enter predicted blocks."""
    mean, variance, covariance = (part.copy() for part in walk[:3])
    mean[predicted.rows], variance[predicted.rows] = predicted.moments
    covariance[predicted.rows] = 0.0 if predicted.covariance is None else predicted.covariance
    unconverged = walk.unconverged + np.array([predicted.unconverged, 0])
    return _Walk(mean, variance, covariance, predicted.state, walk.tuned, unconverged, walk[-1])


def _is_array(leaf: object) -> bool:
    return isinstance(leaf, (jax.Array, np.ndarray))


def _as_forecaster(model: object) -> AbstractForecaster:
    if isinstance(model, AbstractForecaster):
        return model
    if model is None or isinstance(model, Model):
        return Refit(model)
    if isinstance(model, type) and issubclass(model, AbstractForecaster):
        raise TypeError(f"`model` is the class {model.__name__}. Call it: `{model.__name__}()`.")
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
            "Choose a later `start`, or pass a model and leave `relearn` out.",
            argument="relearn",
        )
    if relearn == "start":
        return [blocks]
    numbers = number_periods(data.index, relearn, "relearn")
    # A block belongs to the period in which it starts.
    period = np.full(blocks.number.max() + 1, numbers.max())
    np.minimum.at(period, blocks.number, numbers)
    period = period[blocks.tested]
    return [blocks.only(blocks.tested[period == each]) for each in np.unique(period)]


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
