"""`compare_models`: learn several models and rank them by evidence or by held-out forecasts."""

import math
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np

from jaxkick.data.dataset import Dataset
from jaxkick.data.tables import AbstractTable, Columns
from jaxkick.errors import DataError, invalid
from jaxkick.evaluation.backtest import Period, Refit, make_blocks, walk_forward
from jaxkick.evaluation.comparison import compare
from jaxkick.evaluation.forecasts import Forecasts
from jaxkick.evaluation.metrics import Estimate
from jaxkick.evaluation.rank_forecasts import RankForecasts
from jaxkick.inference.methods import AbstractMethod
from jaxkick.inference.status import InferenceError
from jaxkick.learning.learn import learn
from jaxkick.learning.objective import named_values, split
from jaxkick.learning.optimizers import RunStatus
from jaxkick.learning.suggest import suggest_model
from jaxkick.model import Model

__all__ = [
    "LearntModel",
    "ModelTable",
    "compare_models",
    "learn_model",
    "nats_per_parameter",
    "rank_rows",
    "write_line",
]

# Failures of one model, which must not stop the others.
_FAILURES = (InferenceError, ValueError, TypeError, NotImplementedError)
_FLAT = "a parameter is not determined by the data"


@dataclass(frozen=True)
class LearntModel:
    """A model with learnt parameters, and how well it explains the data.

    Attributes:
        name: its name in the table.
        model: the model with learnt parameters; the given one where learning failed.
        log_evidence: the log marginal likelihood of all matches; NaN where learning failed.
        num_parameters: the number of learnt parameters.
        score: the log evidence minus a penalty for each parameter; see `compare_models`. In a
            search also minus a penalty for the number of terms; see `discover`.
        seconds: the time that learning and backtesting took, with compilation.
        converged: whether learning converged.
        note: a problem, or an empty string.
        forecasts: the forecasts of the backtest, if there was one.
        log_loss: their mean log loss with its interval.
        difference: their log loss minus that of the best model, with its paired interval.
    """

    name: str
    model: Model
    log_evidence: float = math.nan
    num_parameters: int = 0
    score: float = math.nan
    seconds: float = 0.0
    converged: bool = False
    note: str = ""
    forecasts: Forecasts | RankForecasts | None = None
    log_loss: Estimate | None = None
    difference: Estimate | None = None

    @property
    def parameters(self) -> dict[str, np.ndarray]:
        """The values of all parameters by their path in the model."""
        return named_values(self.model)

    @property
    def failed(self) -> bool:
        """True if there is neither a log evidence nor a log loss."""
        return not math.isfinite(self.log_evidence) and self.log_loss is None


@dataclass(frozen=True, repr=False)
class ModelTable(AbstractTable):
    """Learnt models, the best first. Iterate over its rows, or pick one by its name.

    The columns of `to_frame` are model, log_evidence, below_best (the highest log evidence minus
    this one), parameters (their number), score, seconds, converged and note; with a backtest also
    log_loss, difference (from the best), lower and upper (its interval).

    Attributes:
        rows: the models; failed ones come last.
        library: the library of `to_frame`.
    """

    rows: tuple[LearntModel, ...]
    library: str | None = None

    @property
    def best(self) -> LearntModel:
        """The first row.

        Raises:
            DataError: if all models failed.
        """
        if not self.rows or self.rows[0].failed:
            notes = "; ".join(f"{row.name}: {row.note}" for row in self.rows)
            raise DataError(f"No model could be learnt ({notes or 'there is none'})")
        return self.rows[0]

    def columns(self) -> dict[str, np.ndarray]:
        def column(name: str) -> np.ndarray:
            return np.array([getattr(row, name) for row in self.rows])

        evidence = column("log_evidence")
        highest = np.max(evidence, initial=-math.inf, where=np.isfinite(evidence))
        found = {
            "model": column("name"),
            "log_evidence": evidence,
            "below_best": highest - evidence,
            "parameters": column("num_parameters"),
            "score": column("score"),
        }
        if any(row.log_loss is not None for row in self.rows):
            nothing = Estimate(*[math.nan] * 3)
            against = np.array([row.difference or nothing for row in self.rows])
            found["log_loss"] = np.array([(row.log_loss or nothing).value for row in self.rows])
            found |= dict(zip(("difference", "lower", "upper"), against.T, strict=True))
        return found | {name: column(name) for name in ("seconds", "converged", "note")}

    def __getitem__(self, name: str) -> LearntModel:
        for row in self.rows:
            if row.name == name:
                return row
        known = ", ".join(repr(row.name) for row in self.rows)
        raise KeyError(f"There is no model {name!r}. The models are {known}.")

    def __iter__(self) -> Iterator[LearntModel]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        return repr(Columns(_shown(self.columns())))


def _shown(columns: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Round numbers, and leave out a column of empty notes."""
    digits = {"log_evidence": 2, "below_best": 2, "score": 2, "seconds": 1}
    shown = {}
    for name, column in columns.items():
        if name == "note" and not any(column):
            continue
        if column.dtype.kind == "f":
            texts = [f"{value:.{digits.get(name, 4)}f}" for value in column]
            column = np.array([text if text != "nan" else "-" for text in texts])
        shown[name] = column
    return shown


def compare_models(
    models: Mapping[str, Model | None],
    data: Dataset,
    method: AbstractMethod | None = None,
    *,
    start: Any = None,
    stop: Any = None,
    every: Period = "week",
    ties: bool | None = None,
    penalty: float | None = None,
    learn_options: Mapping[str, Any] | None = None,
    progress: bool | Callable[[str], None] = False,
) -> ModelTable:
    """Learn several models from the same data, and rank them.

    The best model has the highest score: the log evidence (the log marginal likelihood) minus a
    penalty for each learnt parameter. Skills are integrated out and need no penalty. Compare log
    evidences on one data set only, and never probabilities of outcomes with densities.

    With `start`, each model is also backtested on later matches, with parameters learnt before
    `start`, and the best model has the lowest log loss. Intervals of differences are paired,
    because the same matches are hard for all models.

    Args:
        models: models by name, as starting points of learning; `None` for `suggest_model(data)`.
        data: the matches.
        method: the inference method; `ExpectationPropagation()` if `None`.
        start: time of the first match to predict, as in `evaluation.walk_forward`; no backtest
            if `None`.
        stop: matches at or after this time are not predicted.
        every: length of the blocks that are predicted at once, as in `evaluation.walk_forward`.
        ties: as in `evaluation.walk_forward`.
        penalty: the penalty for a parameter, in nats; if `None`, half the logarithm of the number
            of features, and at least 1. This is the Bayesian information criterion (BIC) for
            parameters of random effects, with each feature as one independent draw (Delattre,
            Lavielle and Poursat, 2014); 1 is the Akaike information criterion (AIC).
        learn_options: further arguments of `learn`.
        progress: `True` for lines on the error stream, or a function that is called with a text
            after each model.

    Returns:
        The table, the best model first. Models that cannot be learnt come last, with a note that
        says why.

    Raises:
        TypeError: if `models` is not a mapping from names to models.
        DataError: if there are no models, or an argument does not fit the data.
    """
    if not isinstance(models, Mapping):
        raise TypeError(f"`models` must be a mapping from names to models, not {type(models)}.")
    if not models:
        raise DataError("{argument} is empty", "Pass at least one model.", argument="models")
    for name, model in models.items():
        if not (model is None or isinstance(model, Model)):
            raise TypeError(f"`models[{name!r}]` must be a `Model`, not {type(model).__name__}.")
    if start is not None:
        make_blocks(data, start, every, stop)
        if data.index.kind_names:
            raise DataError(
                "{argument} needs data of one kind of observations",
                "Leave it out, or use `walk_forward` and `compare` for each kind.",
                argument="start",
            )
    given = {name: suggest_model(data) if each is None else each for name, each in models.items()}
    tell = progress if callable(progress) else write_line if progress else lambda text: None
    options, cost = dict(learn_options or {}), nats_per_parameter(data, penalty)
    rows = []
    for name, model in given.items():
        row = learn_model(name, model, data, method, cost, **options)
        if start is not None:
            window = {"start": start, "stop": stop, "every": every, "ties": ties}
            row = _backtest(row, model, data, method, window, options)
        tell(f"{name}: {row.note or _summary(row)}")
        rows.append(row)
    if start is None:
        _warn_of_densities(rows)
    return rank_rows(rows, data)


def nats_per_parameter(data: Dataset, penalty: float | None) -> float:
    """The penalty for a parameter: the given one, or that of `compare_models`."""
    if penalty is not None and not (math.isfinite(penalty) and penalty >= 0):
        raise invalid("penalty", penalty, "but must be zero or a positive number")
    if penalty is not None:
        return float(penalty)
    return max(1.0, 0.5 * math.log(data.num_features))


def learn_model(
    name: str,
    model: Model,
    data: Dataset,
    method: AbstractMethod | None,
    penalty: float,
    **options: Any,
) -> LearntModel:
    """Learn one model; a failure becomes a note."""
    began = time.perf_counter()
    try:
        learnt, history = learn(model, data, method, **options)
    except _FAILURES as error:
        return LearntModel(name, model, note=_first_sentence(error), seconds=_since(began))
    count = sum(leaf.size for leaf in jax.tree.leaves(split(learnt)[0]))
    evidence = float(history.values.max())
    note = "" if history.converged else history.status.describe()
    note = _FLAT if history.status is RunStatus.FLAT else note
    score = evidence - penalty * count
    seconds = _since(began)
    return LearntModel(name, learnt, evidence, count, score, seconds, history.converged, note)


def rank_rows(rows: Sequence[LearntModel], data: Dataset) -> ModelTable:
    """Sort models, and compare the forecasts of each with those of the best."""

    def key(row: LearntModel) -> tuple[float, float]:
        score = row.score if math.isfinite(row.score) else -math.inf
        return (math.inf if row.log_loss is None else row.log_loss.value), -score

    ordered = sorted(rows, key=key)
    best = ordered[0].forecasts
    for place, row in enumerate(ordered[1:], start=1):
        if best is not None and row.forecasts is not None:
            difference = compare(row.forecasts, best).difference
            ordered[place] = replace(row, difference=difference)
    return ModelTable(tuple(ordered), data.index.library)


def _backtest(
    row: LearntModel,
    model: Model,
    data: Dataset,
    method: AbstractMethod | None,
    window: dict[str, Any],
    options: dict[str, Any],
) -> LearntModel:
    """Add forecasts, with parameters learnt from earlier matches only."""
    began = time.perf_counter()
    forecaster = Refit(model, method, learn_options=options)
    try:
        found: Any = walk_forward(forecaster, data, relearn="start", **window)
    except _FAILURES as error:
        # Where learning failed, the note says so already.
        note = row.note if row.failed else f"backtest: {_first_sentence(error)}"
        return replace(row, note=note, seconds=row.seconds + _since(began))
    loss = found.summary().log_loss
    return replace(row, forecasts=found, log_loss=loss, seconds=row.seconds + _since(began))


def _warn_of_densities(rows: Sequence[LearntModel]) -> None:
    """Warn if evidences are of probabilities in one model and of densities in another."""
    discrete = {
        all(each.is_discrete for each in row.model.likelihoods.values())
        for row in rows
        if not row.failed
    }
    if len(discrete) > 1:
        warnings.warn(
            "Some models have densities of outcomes and others probabilities, so their log "
            "evidences are not comparable. Pass `start=` to compare forecasts of results.",
            stacklevel=3,
        )


def _summary(row: LearntModel) -> str:
    loss = "" if row.log_loss is None else f", log loss {row.log_loss.value:.4f}"
    return f"log evidence {row.log_evidence:.2f}{loss} ({row.seconds:.1f} s)"


def _first_sentence(error: Exception) -> str:
    text = str(error).split("\n")[0]
    return text.split(". ")[0].rstrip(".")


def _since(began: float) -> float:
    return time.perf_counter() - began


def write_line(text: str) -> None:
    """Write progress to the error stream."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()
