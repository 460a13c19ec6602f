"""Learning and inference with their progress shown."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import NamedTuple

import jax
import numpy as np

from jaxkick import Dataset, Model, Posterior, infer, learn, suggest_model
from jaxkick.cli import console

__all__ = ["Fitted", "fit_model", "note_end", "precision", "starting_model"]


class Fitted(NamedTuple):
    """A fit and whether its learning came to an end.

    Attributes:
        posterior: the posterior under the learnt model.
        converged: whether there was nothing more to gain.
    """

    posterior: Posterior
    converged: bool


@contextmanager
def precision(double: bool) -> Iterator[None]:
    """Compute in double or single precision, within.

    Args:
        double: whether double.
    """
    with jax.enable_x64(double):
        yield


def fit_model(data: Dataset, start: Model | None = None, max_steps: int = 100) -> Fitted:
    """Learn a model and fit it, and say what may be wrong.

    Args:
        data: the matches.
        start: where learning starts; suggested by the data if `None`.
        max_steps: how many steps learning may take.

    Raises:
        ValueError: if there is no model for such outcomes.
        InferenceError: if inference fails.
    """
    start = starting_model(data) if start is None else start
    with console.stage("learning") as tell, _compiling_beside(start, data):

        def report(step: int, value: float) -> None:
            tell(f"step {step}, log-marginal likelihood {value:.2f}")

        model, history = learn(start, data, max_steps=max_steps, progress=report)
    with console.stage("rating"):
        posterior = infer(model, data)
    for finding in posterior.check():
        console.note(str(finding))
    note_end(history.converged, max_steps)
    return Fitted(posterior, history.converged)


def note_end(converged: bool, max_steps: int) -> None:
    """Say so if learning stopped before its end."""
    if not converged:
        console.note(
            f"learning stopped after {max_steps} steps without having converged; raise --max-steps."
        )


def starting_model(data: Dataset) -> Model:
    """A model to learn from.

    Raises:
        ValueError: if it is open what the outcomes mean.
    """
    if set(np.unique(np.asarray(data.outcome)).tolist()) == {0.0, 1.0}:
        raise ValueError(
            "outcomes are 0 and 1, which may be losses and wins, or ties and wins; write losses as "
            "-1, or outcomes in words: win, draw and loss, or true and false."
        )
    return suggest_model(data)


@contextmanager
def _compiling_beside(model: Model, data: Dataset) -> Iterator[None]:
    """Compile inference and prediction on another core, while learning compiles its own program."""
    double = data.outcome.dtype == np.float64

    def compile_inference() -> None:
        # The setting holds for the thread that makes it.
        with precision(double):
            _ = infer(model, data, max_steps=1, throw=False).states

    with ThreadPoolExecutor(1) as pool:
        pool.submit(compile_inference)
        yield
