"""Backtest a learnt model against Elo, or against chance for rankings; compare kernels."""

import dataclasses
from collections.abc import Sequence
from typing import Any, cast

import jax.numpy as jnp
import numpy as np

from jaxkick import Dataset, Model, ModelTable, compare_models, suggest_model
from jaxkick.cli import console
from jaxkick.cli.console import UsageError
from jaxkick.cli.fitting import note_if_stopped
from jaxkick.cli.inputs import parse_time
from jaxkick.data.columns import show_time
from jaxkick.data.schema import DEFAULT_GROUP
from jaxkick.evaluation import (
    AbstractForecaster,
    Elo,
    Forecasts,
    RankForecasts,
    Refit,
    bootstrap_mean,
    compare,
    walk_forward,
)
from jaxkick.evaluation.rank_forecasts import rank_metrics
from jaxkick.kernels import Linear, Matern12, Matern32, Matern52, Wiener
from jaxkick.likelihoods import Logit, OrdinalLogit

_TRAINING_SHARE = 0.8
_KERNELS = {each.__name__.lower(): each for each in (Matern12, Matern32, Matern52, Wiener, Linear)}
_USUAL_KERNELS = ("matern12", "matern32", "wiener")
_RATE, _OTHER_RATE = 0.1, 0.01


def compare_with_elo(
    data: Dataset, start: str | None, every: str, max_steps: int
) -> tuple[dict[str, np.ndarray], bool]:
    """Walk forward with a learnt model and with Elo; by default over the last fifth of matches.

    Returns:
        Columns model, metric, value, lower and upper, and whether learning converged.
    """
    when = _read_start(data, start)
    ties = bool(np.any(data.observations.outcome == 0))
    rates = {group: _RATE if group == DEFAULT_GROUP else _OTHER_RATE for group in data.index.groups}
    elo = Elo(rates, OrdinalLogit(margin=0.5) if ties else Logit())
    results = dataclasses.replace(data, outcome=jnp.sign(data.outcome))
    own = cast(Forecasts, _walk_learnt(data, when, every, max_steps, ties))
    other = cast(Forecasts, _walk("elo", elo, results, when, every, ties))
    comparison = compare(own, other)
    rows = [
        *_summary_rows("jaxkick", own),
        *_summary_rows("elo", other),
        ("difference", "log_loss", *comparison.difference),
        ("difference", "probability_better", comparison.probability_better, *[np.nan] * 2),
        ("difference", "matches", float(len(own)), *[np.nan] * 2),
    ]
    return _table(rows), not own.unconverged_learning


def compare_with_chance(
    data: Dataset, start: str | None, every: str, max_steps: int
) -> tuple[dict[str, np.ndarray], bool]:
    """Walk forward over rankings, and compare with equal chances of all sides."""
    when = _read_start(data, start)
    own = cast(RankForecasts, _walk_learnt(data, when, every, max_steps, None))
    chance = []
    for outcome in own.outcome:
        sides = int(np.sum(outcome >= 0))
        even = np.full((1, sides, sides), 1.0 / sides)
        chance.append(np.concatenate(rank_metrics(outcome[None, :sides], even)))
    rows = _summary_rows("jaxkick", own)
    metrics = [metric for _, metric, *_ in rows]
    for metric, values in zip(metrics, np.transpose(chance), strict=True):
        rows.append(("chance", metric, *bootstrap_mean(values, own.blocks)))
    difference = own.log_losses - np.array(chance)[:, 0]
    rows.append(("difference", "log_loss", *bootstrap_mean(difference, own.blocks)))
    rows.append(("difference", "events", float(len(own)), *[np.nan] * 2))
    return _table(rows), not own.unconverged_learning


def compare_kernels(
    data: Dataset, names: Sequence[str] | None, start: str | None, every: str, max_steps: int
) -> ModelTable:
    """Learn models with a lasting level and each of several kernels; backtest them from `start`."""
    models = {}
    for name in names or _USUAL_KERNELS:
        if name not in _KERNELS:
            known = ", ".join(_KERNELS)
            raise UsageError(f"--kernel is {name!r}, but must be one of {known}.")
        models[name] = suggest_model(data, kernel=_KERNELS[name])
    when = None if start is None else _read_start(data, start)
    with console.stage("comparing") as tell:
        options = {"max_steps": max_steps}
        return compare_models(
            models, data, start=when, every=every, learn_options=options, progress=tell
        )


def _walk_learnt(data: Dataset, when: Any, every: str, max_steps: int, ties: bool | None) -> Any:
    """Walk forward with a model that is learnt from the matches before the start."""
    model = Refit(model_before(data, when), learn_options={"max_steps": max_steps})
    found = _walk("jaxkick", model, data, when, every, ties)
    note_if_stopped(not found.unconverged_learning, max_steps)
    return found


def _walk(
    name: str,
    forecaster: AbstractForecaster,
    data: Dataset,
    when: Any,
    every: str,
    ties: bool | None,
) -> Any:
    with console.stage(name) as tell:
        return walk_forward(
            forecaster,
            data,
            when,
            every=every,
            relearn="start",
            ties=ties,
            progress=lambda done, total: tell(f"{done:,} of {total:,} {every}s"),
        )


def model_before(data: Dataset, when: Any) -> Model:
    """Suggest a model from the matches before a time.

    Only the class of the likelihood depends on all matches.
    """
    likelihood = suggest_model(data).likelihood
    earlier = data.subset(data.index.times < float(data.index.to_time(when, "start")))
    return suggest_model(earlier, type(likelihood))


def _read_start(data: Dataset, text: str | None) -> Any:
    times = np.sort(data.index.times)
    scale = data.index.scale
    if text is None:
        number = times[int(_TRAINING_SHARE * len(times))]
    else:
        number = float(scale.to_numbers(parse_time(scale, "--start", text), "start"))
    if not times[0] < number <= times[-1]:
        first, last = map(show_time, scale.to_user(times[[0, -1]]))
        raise UsageError(
            f"--start must be after the first match and not after the last one: {first} to {last}."
        )
    return scale.to_user(number)[()]


def _summary_rows(name: str, forecasts: Forecasts | RankForecasts) -> list[tuple]:
    """The rows of the metrics that have intervals."""
    metrics = forecasts.summary()._asdict().items()
    return [(name, metric, *each) for metric, each in metrics if isinstance(each, tuple)]


def _table(rows: list[tuple]) -> dict[str, np.ndarray]:
    names = ("model", "metric", "value", "lower", "upper")
    return dict(zip(names, map(np.array, zip(*rows, strict=True)), strict=True))
