"""Learning and inference with their progress shown."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import jax

from jaxkick import Dataset, Model, Posterior, infer, learn, suggest_model
from jaxkick.cli import console

__all__ = ["Fitted", "fit_model", "precision"]


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
    start = suggest_model(data) if start is None else start
    with console.stage("learning") as tell:

        def report(step: int, value: float) -> None:
            tell(f"step {step}, log-marginal likelihood {value:.2f}")

        model, history = learn(start, data, max_steps=max_steps, progress=report)
    with console.stage("rating"):
        posterior = infer(model, data)
    for finding in posterior.check():
        console.note(str(finding))
    if not history.converged:
        console.note(
            f"learning stopped after {max_steps} steps without having converged; raise --max-steps."
        )
    return Fitted(posterior, history.converged)
