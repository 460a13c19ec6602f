"""A learnt model beside Elo, on matches that neither has seen."""

import dataclasses
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from jaxkick import Dataset, Model, suggest_model
from jaxkick.cli import console
from jaxkick.cli.cells import Cells
from jaxkick.cli.dates import read_times
from jaxkick.cli.errors import UsageError
from jaxkick.cli.files import FileTable
from jaxkick.cli.fitting import note_end, starting_model
from jaxkick.cli.output import show_time
from jaxkick.dataset.assembly import Assembled
from jaxkick.dataset.names import DEFAULT_GROUP
from jaxkick.evaluation import AbstractForecaster, Elo, Forecasts, Refit, compare, walk_forward
from jaxkick.learning.history import History
from jaxkick.likelihoods import Gaussian, Logit, OrdinalLogit

__all__ = ["Comparison", "compare_with_elo", "model_before"]

_TRAINED = 0.8
_RATE, _OTHER_RATE = 0.1, 0.01


class Comparison(NamedTuple):
    """How two forecasters did on the same matches.

    Attributes:
        columns: columns model, metric, value, lower and upper.
        converged: whether learning came to an end.
    """

    columns: dict[str, np.ndarray]
    converged: bool


def compare_with_elo(data: Dataset, start: str | None, every: str, max_steps: int) -> Comparison:
    """Walk forward with a learnt model and with Elo.

    Args:
        data: the matches.
        start: the first time to predict, as a text; that of the last fifth if `None`.
        every: `"day"` or `"week"`.
        max_steps: how many steps learning may take.

    Raises:
        UsageError: if no match is before `start`, or none after it.
        ValueError: if there is no model for such outcomes.
    """
    when = _read_start(data, start)
    ties = bool(np.any(np.asarray(data.outcome) == 0))
    likelihood = OrdinalLogit(margin=0.5) if ties else Logit()
    rates = {group: _RATE if group == DEFAULT_GROUP else _OTHER_RATE for group in data.index.groups}
    results = dataclasses.replace(data, outcome=jnp.sign(data.outcome))
    histories: list[History] = []
    model = Refit(
        model_before(data, when), learning={"max_steps": max_steps}, on_learnt=histories.append
    )

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
    converged = all(history.converged for history in histories)
    note_end(converged, max_steps)
    return Comparison(_as_columns({"jaxkick": own, "elo": other}), converged)


def model_before(data: Dataset, when: Any) -> Model:
    """Where learning starts: values from earlier matches, the kind of likelihood from all of them.

    Args:
        data: all matches.
        when: values come from the matches before this time, in the user's terms.

    Raises:
        ValueError: if there is no model for such outcomes.
    """
    likelihood = starting_model(data).likelihood
    earlier = _matches_before(data, when)
    if isinstance(likelihood, Gaussian):
        likelihood = Gaussian(0.5 * float(np.var(earlier.outcome)) or 0.5)
    return suggest_model(earlier, likelihood)


def _matches_before(data: Dataset, when: Any) -> Dataset:
    whole = data.disassembled()
    kept = data.index.times < float(data.index.scale.to_numbers(when, "start"))
    seen = whole.observations
    observations = seen._replace(
        times=seen.times[kept],
        features=seen.features[kept],
        rows=None if seen.rows is None else seen.rows[kept],
    )
    weight = None if whole.weight is None else whole.weight[kept]
    return Dataset.from_assembled(
        Assembled(observations, whole.coefficients[kept], whole.outcome[kept], weight),
        data.outcome.dtype,
    )


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
