"""A learnt model beside Elo, on matches that neither has seen."""

import dataclasses
from typing import Any

import jax.numpy as jnp
import numpy as np

from jaxkick import Dataset
from jaxkick.cli import console
from jaxkick.cli.cells import Cells
from jaxkick.cli.dates import read_times
from jaxkick.cli.errors import UsageError
from jaxkick.cli.files import FileTable
from jaxkick.cli.fitting import starting_model
from jaxkick.cli.output import show_time
from jaxkick.dataset.names import DEFAULT_GROUP
from jaxkick.evaluation import AbstractForecaster, Elo, Forecasts, Refit, compare, walk_forward
from jaxkick.likelihoods import Logit, OrdinalLogit

__all__ = ["compare_with_elo"]

_TRAINED = 0.8
_RATE, _OTHER_RATE = 0.1, 0.01


def compare_with_elo(
    data: Dataset, start: str | None, every: str, max_steps: int
) -> dict[str, np.ndarray]:
    """Walk forward with a learnt model and with Elo.

    Args:
        data: the matches.
        start: the first time to predict, as a text; that of the last fifth if `None`.
        every: `"day"` or `"week"`.
        max_steps: how many steps learning may take.

    Returns:
        Columns model, metric, value, lower and upper.

    Raises:
        UsageError: if no match is before `start`, or none after it.
        ValueError: if there is no model for such outcomes.
    """
    when = _read_start(data, start)
    ties = bool(np.any(np.asarray(data.outcome) == 0))
    likelihood = OrdinalLogit(margin=0.5) if ties else Logit()
    rates = {group: _RATE if group == DEFAULT_GROUP else _OTHER_RATE for group in data.index.groups}
    results = dataclasses.replace(data, outcome=jnp.sign(data.outcome))
    model = Refit(starting_model(data), learning={"max_steps": max_steps})

    def walk(name: str, forecaster: AbstractForecaster, matches: Dataset) -> Forecasts:
        with console.stage(name) as tell:

            def report(done: int, total: int) -> None:
                tell(f"{done:,} of {total:,} {every}s")

            return walk_forward(
                forecaster,
                matches,
                when,
                every=every,
                relearn="start",
                ties=ties,
                progress=report,
            )

    own = walk("jaxkick", model, data)
    other = walk("elo", Elo(rates, likelihood), results)
    return _as_columns({"jaxkick": own, "elo": other})


def _read_start(data: Dataset, text: str | None) -> Any:
    times = np.sort(data.index.times)
    scale = data.index.scale
    if text is None:
        number = times[int(_TRAINED * len(times))]
    else:
        cells = Cells(FileTable("the command", {"": (text.strip(),)}, [1]), "", "--start")
        try:
            number = float(scale.to_numbers(read_times(cells)[0], "start"))
        except ValueError as error:
            kind = "dates, as in 2018-12-25" if scale.dates else "numbers"
            raise UsageError(f"--start is {text!r}, but the times are {kind}.") from error
    if not times[0] < number <= times[-1]:
        first, last = map(show_time, scale.to_user(times[[0, -1]]))
        raise UsageError(
            f"--start must be after the first match and not after the last one: {first} to {last}."
        )
    return scale.to_user(number)[()]


def _as_columns(forecasts: dict[str, Forecasts]) -> dict[str, np.ndarray]:
    own, other = forecasts.values()
    rows = []
    for name, each in forecasts.items():
        summary = each.summary()
        for metric, estimate in zip(summary._fields[1:], summary[1:], strict=True):
            if estimate is not None:
                rows.append((name, metric, *estimate))
    comparison = compare(own, other)
    rows.append(("difference", "log_loss", *comparison.difference))
    rows.append(("difference", "probability_better", comparison.probability_better, *[np.nan] * 2))
    rows.append(("difference", "matches", float(len(own)), *[np.nan] * 2))
    names = ("model", "metric", "value", "lower", "upper")
    return {
        name: np.array(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)
    }
