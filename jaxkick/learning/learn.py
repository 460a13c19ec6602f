"""`learn`: choose parameters by maximising the log marginal likelihood."""

import os
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import ArrayLike, PyTree

from jaxkick._typing import Array, Key, Scalar
from jaxkick.data.dataset import Dataset
from jaxkick.inference.checks import check_fit, read_mask
from jaxkick.inference.methods import AbstractMethod, ExpectationPropagation
from jaxkick.inference.status import InferenceError
from jaxkick.io import Checkpoint
from jaxkick.learning.objective import Evaluation, Objective, Template, named_values, perturb, split
from jaxkick.learning.optimizers import LBFGS, AbstractOptimizer, Limits, Optax, Run, RunStatus
from jaxkick.learning.suggest import suggest_model
from jaxkick.model import Model

__all__ = ["History", "learn"]

# Memory of inference for one entry: about 75 numbers of 8 bytes.
_BYTES_PER_ENTRY = 600


class History(NamedTuple):
    """The course of learning, step by step; with restarts, that of the best run.

    Attributes:
        values: the log marginal likelihood, plus the log prior if there is one; shape (steps + 1,)
            as all arrays by step, the starting point first.
        gradient_norms: the norm of its gradient in the unconstrained parameters.
        seconds: the time since the start, over all runs and interruptions.
        inference_steps: the number of inference steps that the value took.
        parameters: the values of each parameter by its path in the model, such as
            `"kernel.terms[1].lengthscale"`.
        converged: whether the run ended because there was nothing more to gain.
        runs: the best value of each run: from the given start first, then the restarts.
    """

    values: np.ndarray
    gradient_norms: np.ndarray
    seconds: np.ndarray
    inference_steps: np.ndarray
    parameters: dict[str, np.ndarray]
    converged: bool
    runs: np.ndarray

    def __repr__(self) -> str:
        ended = "converged" if self.converged else "stopped"
        return (
            f"History({len(self.values) - 1} steps, log marginal likelihood "
            f"{self.values[0]:.2f} to {self.values.max():.2f}, {self.seconds[-1]:.1f} s, {ended})"
        )


def learn(
    model: Any,
    data: Dataset,
    method: AbstractMethod | None = None,
    *,
    optimizer: optax.GradientTransformation | None = None,
    max_steps: int = 100,
    tol: float = 0.01,
    patience: int = 20,
    log_prior: Callable[[Any], Scalar] | None = None,
    build: Callable[[Any], Any] | None = None,
    restarts: int = 0,
    key: Key[Array, ""] | None = None,
    jitter: float = 1.0,
    batch_size: int | None = None,
    mask: ArrayLike | None = None,
    inference_tol: float = 0.05,
    progress: bool | Callable[[int, float], None] = False,
    checkpoint: str | os.PathLike | None = None,
) -> tuple[Any, History]:
    """Learn the parameters of a model from data, by empirical Bayes (paper, section 3.3).

    All numbers of kernels and likelihood are learnt, in unconstrained form (logarithms of
    positive ones). `Fixed(0.5)` in place of a number keeps it, and `Tied("name", 0.5)` keeps all
    numbers of one name equal. Inference at each point is warm-started from the last one. The
    result is never worse than the start.

    Args:
        model: the starting point: a `Model`; `None` for `suggest_model(data)`; or any object
            from which `build` makes a `Model`.
        data: the observations.
        method: the inference method; `ExpectationPropagation()` if `None`.
        optimizer: an optax optimizer; L-BFGS with a line search if `None`.
        max_steps: maximum number of optimizer steps.
        tol: stop when L-BFGS expects a gain below this many nats (as does the gradient for a
            curvature of 1), or when `patience` steps have gained less.
        patience: see `tol`.
        log_prior: function of `model` that is added to the log marginal likelihood; the result
            is then the maximum a posteriori.
        build: function from `model` to a `Model`, such as one that calls a neural network.
        restarts: number of further runs from perturbed starting points; the best run counts.
        key: random key for the perturbations.
        jitter: standard deviation of the perturbations, in unconstrained parameters.
        batch_size: number of runs that are evaluated at once by `vmap`. If `None`: as many as
            fit into the memory of a GPU or TPU; 1 on a CPU, which one run keeps busy.
        mask: boolean array of shape (N,); observations where it is False are ignored.
        inference_tol: `tol` of `infer` at each point; determines the accuracy of the gradient.
        progress: `True` for a line on the error stream, or a function that is called after each
            step with the number of steps of the current run and the best value so far.
        checkpoint: a file that is written after each step. If it exists, learning continues
            from it. All other arguments must be the same, except `max_steps`; this is checked,
            except for what functions compute elsewhere than at the start.

    Returns:
        The learnt `model`, and the history.

    Raises:
        ValueError: if an argument is not valid, the model has no free parameter, or the
            checkpoint belongs to another run.
        InferenceError: if inference fails at the starting point.
    """
    if restarts and key is None:
        raise ValueError("`restarts` needs a `key`. Pass one, such as `jax.random.key(0)`.")
    start = suggest_model(data) if model is None else model
    free, template = split(start)
    dtype = data.coefficients.dtype
    method = ExpectationPropagation() if method is None else method
    objective = Objective(
        template=template,
        data=data.without_index(),
        method=eqx.tree_at(lambda m: m.damping, method, jnp.asarray(method.damping, dtype)),
        tol=jnp.asarray(inference_tol, dtype),
        mask=read_mask(mask, data),
        log_prior=log_prior,
        build=build,
    )
    built = objective.model(free)
    if not isinstance(built, Model):
        raise ValueError(
            f"`model` must be a `Model`, not {type(built).__name__}. For any other object, pass a "
            "function `build` that makes a `Model` from it."
        )
    check_fit(built, data, objective.mask)
    keys = jax.random.split(key, restarts) if restarts else []
    starts = [free, *(perturb(free, each, jitter) for each in keys)]
    size = min(len(starts), _choose_batch_size(data) if batch_size is None else batch_size)
    rule = LBFGS() if optimizer is None else Optax(optimizer)
    report = _write_progress if progress is True else progress or None
    limits = Limits(max_steps, tol, patience)
    try:
        best, history = _optimize(objective, rule, starts, limits, size, checkpoint, report)
    except InferenceError as error:
        remedy = (
            "They are those of `suggest_model(data)`. Pass a model with other values."
            if model is None
            else "See `infer(model, data)` for the reason, check `log_prior`, or start from other "
            "values, such as those of `suggest_model(data)`."
        )
        raise InferenceError(f"{error} {remedy}") from None
    if progress is True:
        sys.stderr.write("\n")
    return template.fill(best), history


# Two programs, so that another optimizer does not compile the objective anew.


@eqx.filter_jit
def _evaluate(objective: Objective, run: Run, batched: bool) -> Evaluation:
    evaluate = jax.vmap(objective.evaluate) if batched else objective.evaluate
    return evaluate(run.trial, run.evaluation.sites)


@eqx.filter_jit
def _update(
    optimizer: AbstractOptimizer,
    run: Run,
    evaluation: Evaluation,
    objective: Objective,
    limits: Limits,
    batched: bool,
) -> Run:
    def advance(run: Run, evaluation: Evaluation) -> Run:
        return optimizer.advance(run, evaluation, objective, limits)

    return (jax.vmap(advance) if batched else advance)(run, evaluation)


def _optimize(
    objective: Objective,
    optimizer: AbstractOptimizer,
    starts: list[PyTree],
    limits: Limits,
    batch_size: int,
    checkpoint: str | os.PathLike | None,
    report: Callable[[int, float], None] | None,
) -> tuple[PyTree, History]:
    """Run the optimizer from all starting points; return the best point and its history."""
    batched, limits = batch_size > 1, limits.as_arrays()
    runs = [optimizer.begin(start, objective.unknown(start)) for start in starts]
    records = [_Record.empty(start) for start in starts]
    if batched:
        # Full batches, so that one program serves all of them.
        runs += runs[-1:] * (-len(runs) % batch_size)
        parts = [runs[begin : begin + batch_size] for begin in range(0, len(runs), batch_size)]
        runs = [jax.tree.map(lambda *leaves: jnp.stack(leaves), *part) for part in parts]
    file = _open_checkpoint(checkpoint, objective, optimizer, starts, limits, batch_size)
    saved = file.load((runs, records, np.asarray(0.0)))
    runs, records, elapsed = (runs, records, 0.0) if saved is None else saved
    began = time.perf_counter() - float(elapsed)
    for number, run in enumerate(runs):
        first = number * batch_size
        while np.any(run.active(limits)):
            evaluation = _evaluate(objective, run, batched)
            run = runs[number] = _update(optimizer, run, evaluation, objective, limits, batched)
            seconds, steps = time.perf_counter() - began, np.atleast_1d(run.steps)
            if number == 0 and steps[0] < 0:
                raise InferenceError("Inference or its gradient fails at the starting values.")
            moved = False
            for lane, record in enumerate(records[first : first + batch_size]):
                if steps[lane] == len(record.values):
                    records[first + lane] = record.append(_lane(run, lane, batched), seconds)
                    moved = True
            if moved:
                file.save((runs, records, np.asarray(seconds)))
            if moved and report is not None and steps.max() > 0:
                best = min(float(np.min(each.best_loss)) for each in runs)
                report(int(steps.max()), -best)
    file.save((runs, records, np.asarray(time.perf_counter() - began)))
    values = -np.concatenate([np.atleast_1d(run.best_loss) for run in runs])[: len(starts)]
    place = int(np.argmax(values))
    best = _lane(runs[place // batch_size], place % batch_size, batched)
    return best.best_point, records[place].to_history(objective.template, best, values)


def _open_checkpoint(
    path: str | os.PathLike | None,
    objective: Objective,
    optimizer: AbstractOptimizer,
    starts: list[PyTree],
    limits: Limits,
    batch_size: int,
) -> Checkpoint:
    """A checkpoint that only a run with the same arguments can continue."""
    if path is None:
        return Checkpoint(None)
    memory = jax.tree.structure(optimizer.init(starts[0], objective.unknown(starts[0])))
    return Checkpoint(
        path,
        eqx.filter((objective, [objective.model(start) for start in starts]), eqx.is_array),
        [objective.prior(start) for start in starts],
        [*limits[1:], np.asarray(batch_size), np.array(str(memory))],
        starts,
    )


class _Record(NamedTuple):
    """The rows of a history, with the free leaves of each step."""

    values: np.ndarray
    gradient_norms: np.ndarray
    seconds: np.ndarray
    inference_steps: np.ndarray
    points: PyTree

    @staticmethod
    def empty(start: PyTree) -> "_Record":
        points = jax.tree.map(lambda leaf: np.empty((0, *leaf.shape), leaf.dtype), start)
        return _Record(np.empty(0), np.empty(0), np.empty(0), np.empty(0, np.int64), points)

    def append(self, run: Run, seconds: float) -> "_Record":
        loss, gradient, _, steps = run.evaluation
        norm = np.sqrt(sum(float(np.vdot(leaf, leaf)) for leaf in jax.tree.leaves(gradient)))
        return jax.tree.map(
            lambda old, new: np.concatenate([old, np.asarray(new, old.dtype)[None]]),
            self,
            _Record(-float(loss), norm, seconds, int(steps), run.point),
        )

    def to_history(self, template: Template, run: Run, values: np.ndarray) -> History:
        points = [
            jax.tree.map(lambda x, n=n: jnp.asarray(x[n]), self.points)
            for n in range(len(self.values))
        ]
        named = [named_values(template.fill(point)) for point in points]
        parameters = {name: np.stack([each[name] for each in named]) for name in named[0]}
        converged = int(run.status) in (RunStatus.CONVERGED, RunStatus.STALLED)
        return History(*self[:4], parameters, converged, values)


def _lane(run: Run, lane: int, batched: bool) -> Run:
    """One run of a batch."""
    return jax.tree.map(lambda leaf: leaf[lane], run) if batched else run


def _choose_batch_size(data: Dataset) -> int:
    device = next(iter(data.outcome.addressable_shards)).device
    limit = (device.memory_stats() or {}).get("bytes_limit")
    if device.platform == "cpu" or limit is None:
        return 1
    entries = sum(chain.gap.size for chain in data.chains)
    return max(1, limit // (2 * _BYTES_PER_ENTRY * entries))


def _write_progress(step: int, value: float) -> None:
    sys.stderr.write(f"\rlearning: step {step}, log marginal likelihood {value:.3f} ")
    sys.stderr.flush()
