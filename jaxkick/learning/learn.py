"""`learn`: parameters that make the data most likely."""

import dataclasses
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import ArrayLike

from jaxkick._tracing import is_known
from jaxkick._typing import Array, Key, Scalar
from jaxkick.dataset.dataset import Dataset
from jaxkick.inference.ep import ExpectationPropagation
from jaxkick.inference.loop import ACCELERATION, Settings
from jaxkick.inference.method import AbstractMethod
from jaxkick.inference.request import check_fit, read_active
from jaxkick.learning.climb import LineSearch, Optax
from jaxkick.learning.free import perturb, split
from jaxkick.learning.history import History
from jaxkick.learning.objective import Objective
from jaxkick.learning.run import Limits, Run
from jaxkick.learning.suggest import suggest_model
from jaxkick.model import Model

__all__ = ["learn"]


def learn(
    model: Any,
    data: Dataset,
    method: AbstractMethod | None = None,
    *,
    optimiser: optax.GradientTransformation | None = None,
    max_steps: int = 100,
    tol: float = 0.01,
    patience: int = 20,
    log_prior: Callable[[Any], Scalar] | None = None,
    build: Callable[[Any], Any] | None = None,
    restarts: int = 0,
    key: Key[Array, ""] | None = None,
    spread: float = 1.0,
    together: int | None = None,
    active: ArrayLike | None = None,
    inference_tol: float = 0.05,
    progress: bool | Callable[[int, float], None] = False,
    checkpoint: str | os.PathLike | None = None,
) -> tuple[Any, History]:
    """Climb the log-marginal likelihood by gradient.

    All numbers of kernels and likelihood are learnt, as unconstrained numbers (logarithms
    where they must be positive). `Fixed(0.5)` in place of a number is left alone, and
    `Tied("name", 0.5)` stays equal to all others of its name. Inference at a point starts
    from the fixed point of the last one. What is returned is never worse than the start.

    Args:
        model: where to start: a `Model`; `None` for `suggest_model(data)`; or anything that
            `build` makes a model from.
        data: the observations.
        method: how to approximate the posterior; `ExpectationPropagation()` if `None`.
        optimiser: an optimiser of optax, which takes its steps as they come; L-BFGS with a
            line search if `None`.
        max_steps: stop after so many steps of the optimiser.
        tol: stop when L-BFGS promises a gain below so many nats (and so does the gradient,
            for a curvature of 1), or when `patience` steps have brought less.
        patience: so many steps.
        log_prior: a function of `model` whose value is added to the log-marginal likelihood;
            the result is then the maximum a posteriori.
        build: a function from `model` to a `Model`, such as one that calls a network.
        restarts: how many more climbs to make from perturbed starts; the best one counts.
        key: a random key for the perturbations.
        spread: standard deviation of the perturbations, in unconstrained parameters.
        together: how many climbs are evaluated together by `vmap`. If `None`: as many as fit
            into the memory of a GPU or TPU; one by one on a CPU, which is busy with one.
        active: booleans, one for each observation: those that count.
        inference_tol: `tol` of `infer` at every point; the gradient is as exact as this.
        progress: `True` for a line on the error stream, or a function that is called with the
            number of steps and the best value so far.
        checkpoint: a file that is written after every step. If it is there already, the run
            goes on from it; other arguments must be the same, but `max_steps` may grow. That
            is checked, but for what a function does elsewhere than at the start.

    Returns:
        What `model` has become, and how it went.

    Raises:
        ValueError: if an argument does not fit, nothing may be learnt, or the checkpoint is
            of another run.
        InferenceError: if inference fails at the start.
    """
    if restarts and key is None:
        raise ValueError("`restarts` needs a `key`, such as `jax.random.key(0)`.")
    model = suggest_model(data) if model is None else model
    free, frame = split(model)
    dtype = data.coefficients.dtype
    method = ExpectationPropagation() if method is None else method
    settings = Settings(
        jnp.asarray(inference_tol, dtype), jnp.asarray(1000, jnp.int32), ACCELERATION
    )
    objective = Objective(
        frame=frame,
        data=dataclasses.replace(data, index=None),
        method=eqx.tree_at(lambda m: m.damping, method, jnp.asarray(method.damping, dtype)),
        settings=settings,
        active=read_active(active, data),
        log_prior=log_prior,
        build=build,
    )
    _check_start(objective.model(free), data, objective.active)
    if checkpoint is not None and not is_known(data.chains[0].gap):
        raise ValueError(
            "`checkpoint` cannot be written where other processes hold a part of the data; leave "
            "it out, or learn in one process."
        )
    keys = jax.random.split(key, restarts) if restarts else []
    run = Run(
        objective=objective,
        optimiser=LineSearch() if optimiser is None else Optax(optimiser),
        starts=[free, *(perturb(free, each, spread) for each in keys)],
        limits=Limits(max_steps, tol, patience),
        checkpoint=None if checkpoint is None else Path(checkpoint),
        together=together,
        report=_write_progress if progress is True else progress or None,
    )
    best, history = run.to_end()
    if progress is True:
        sys.stderr.write("\n")
    return frame.fill(best), history


def _check_start(model: Any, data: Dataset, active: Array | None) -> None:
    if not isinstance(model, Model):
        raise ValueError(
            f"`model` must be a `Model`, not {type(model).__name__}; for anything else pass a "
            "function `build` that makes a `Model` of it."
        )
    check_fit(model, data, active)


def _write_progress(step: int, value: float) -> None:
    sys.stderr.write(f"\rlearning: step {step}, log-marginal likelihood {value:.3f} ")
    sys.stderr.flush()
