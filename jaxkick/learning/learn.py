"""`learn`: choose parameters by maximising the log marginal likelihood, or forecasts."""

import contextlib
import os
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import ArrayLike, PyTree

from jaxkick._typing import Array, Key, Scalar
from jaxkick._xla import jit_once
from jaxkick.data.dataset import Dataset
from jaxkick.errors import DataError, check_least, invalid
from jaxkick.inference.checks import check_fit, check_method, read_mask
from jaxkick.inference.methods import AbstractMethod, ExpectationPropagation, ReverseKL
from jaxkick.inference.problem import restart_ages
from jaxkick.inference.solve import needs_grid
from jaxkick.inference.status import InferenceError
from jaxkick.io import Checkpoint
from jaxkick.learning.objective import (
    AbstractObjective,
    Evaluation,
    Evidence,
    Template,
    named_values,
    perturb,
    split,
    typical_changes,
)
from jaxkick.learning.optimizers import LBFGS, AbstractOptimizer, Limits, Optax, Run, RunStatus
from jaxkick.learning.predictive import Predictive, PredictiveObjective
from jaxkick.learning.suggest import suggest_model
from jaxkick.model import Model
from jaxkick.online import check_online

__all__ = ["History", "learn"]

# Memory of inference for one entry: about 75 numbers of 8 bytes.
_BYTES_PER_ENTRY = 600


class History(NamedTuple):
    """The course of learning, step by step; with restarts, that of the best run.

    Attributes:
        values: the objective: the log marginal likelihood or the predictive log-probability,
            plus the log prior if there is one; shape (steps + 1,) as all arrays by step, the
            starting point first.
        gradient_norms: the norm of its gradient in the unconstrained parameters.
        seconds: the time since the start, over all runs and interruptions.
        inference_steps: the number of inference steps of the evaluation.
        parameters: the values of each parameter by its path in the model, such as
            `"kernel.terms[1].lengthscale"`.
        status: why the run ended, a `RunStatus`.
        runs: the best value of each run: from the given start first, then the restarts.
        objective: the name of the objective.
    """

    values: np.ndarray
    gradient_norms: np.ndarray
    seconds: np.ndarray
    inference_steps: np.ndarray
    parameters: dict[str, np.ndarray]
    status: RunStatus
    runs: np.ndarray
    objective: str = "log marginal likelihood"

    @property
    def converged(self) -> bool:
        """True if the run ended because there was nothing more to gain."""
        return self.status in (RunStatus.CONVERGED, RunStatus.FLAT, RunStatus.STALLED)

    def __repr__(self) -> str:
        return (
            f"History({len(self.values) - 1} steps, {self.objective} "
            f"{self.values[0]:.2f} to {self.values.max():.2f}, {self.seconds[-1]:.1f} s, "
            f"{self.status.describe()})"
        )


def learn(
    model: Any,
    data: Dataset,
    method: AbstractMethod | None = None,
    *,
    objective: str | Predictive = "evidence",
    optimizer: optax.GradientTransformation | None = None,
    max_steps: int = 100,
    tol: float = 0.01,
    patience: int | None = None,
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

    All parameters of kernels and likelihoods are learnt, in unconstrained form (logarithms of
    positive ones). `Fixed(0.5)` in place of a number keeps it fixed, and `Tied("name", 0.5)` keeps
    all numbers of one name equal. Inference at each point starts from the previous solution. The
    result is never worse than the start.

    Args:
        model: the starting point: a `Model`; `None` for `suggest_model(data)`; or any object
            from which `build` makes a `Model`.
        data: the observations.
        method: the inference method; `ExpectationPropagation()` if `None`. The objective
            `"predictive"` does not need it.
        objective: the function to maximise. `"evidence"`: the log marginal likelihood.
            `"predictive"`: the log-probability of each match given the earlier ones, in one pass
            over the matches as in a `Stream`; `Predictive(...)` for its options. Its cost grows
            with the number of parameters.
        optimizer: an optax optimizer; L-BFGS with a line search if `None`.
        max_steps: maximum number of optimizer steps.
        tol: stop when the expected gain is below this many nats (by L-BFGS, and by the gradient
            for a curvature of 1), or when `patience` steps together have gained less.
        patience: see `tol`. If `None`: 5 for L-BFGS, in which every step gains something, and 20
            for other optimizers.
        log_prior: function of `model` that is added to the objective; with the evidence, the
            result is then the maximum a posteriori.
        build: function from `model` to a `Model`, such as one that calls a neural network.
        restarts: number of further runs from perturbed starting points; the best run wins.
        key: random key for the perturbations.
        jitter: standard deviation of the perturbations, in unconstrained parameters.
        batch_size: number of runs that are evaluated at once by `vmap`. If `None`: as many as
            fit into the memory of a GPU or TPU, and 1 on a CPU, which a single run keeps busy.
        mask: boolean array of shape (N,); observations where it is False are ignored.
        inference_tol: `tol` of `infer` at each point; determines the accuracy of the gradient.
        progress: `True` for a line on the error stream, or a function that is called after each
            step with the number of steps of the current run and the best value so far.
        checkpoint: a file that is written after each step. If it exists, learning continues
            from it. All other arguments except `max_steps` must be the same. This is checked;
            functions are compared by their values at the start only.

    Returns:
        The learnt `model`, and the history.

    Raises:
        TypeError: if an argument has the wrong type.
        ValueError: if an argument is not valid, the model has no free parameter, or the
            checkpoint belongs to another run.
        InferenceError: if inference fails at the starting point.
    """
    if not isinstance(data, Dataset):
        raise TypeError(f"`data` must be a `Dataset`, not {type(data).__name__}.")
    if restarts and key is None:
        raise ValueError("`restarts` needs a `key`. Pass one, such as `jax.random.key(0)`.")
    check_least("max_steps", max_steps, 0)
    check_least("restarts", restarts, 0)
    check_least("batch_size", 1 if batch_size is None else batch_size)
    start = suggest_model(data, mask=mask) if model is None else model
    free, template = split(start)
    method = ExpectationPropagation() if method is None else method
    check_method(method, 1)
    goal = _choose_objective(objective, data, method, read_mask(mask, data), inference_tol)
    goal = goal(template, log_prior, build)
    built = goal.model(free)
    if not isinstance(built, Model):
        raise ValueError(
            f"`model` must be a `Model`, not {type(built).__name__}. For any other object, pass a "
            "function `build` that makes a `Model` from it."
        )
    check_fit(built, data, goal.mask)
    if isinstance(goal, PredictiveObjective):
        check_online(built, data)
    elif any(each.is_searched for each in built.likelihoods.values()):
        # As `infer` does: where adaptive quadrature fails, integrate over even grids.
        solution = goal.fit(free, goal.unknown(free).sites)
        if needs_grid(built, goal.method, solution):
            goal = replace(goal, method=replace(goal.method, on_grid=True))
    keys = jax.random.split(key, restarts) if restarts else []
    starts = [free, *(perturb(free, each, jitter) for each in keys)]
    size = min(len(starts), _choose_batch_size(data) if batch_size is None else batch_size)
    rule = LBFGS(typical_changes(free, data)) if optimizer is None else Optax(optimizer)
    report = partial(_write_progress, goal.label) if progress is True else progress or None
    limits = Limits(max_steps, tol, rule.patience if patience is None else patience)
    try:
        best, history = _optimize(goal, rule, starts, limits, size, checkpoint, report)
    except InferenceError as error:
        raise InferenceError(f"{error} {_remedy(start, data, goal, model is None)}") from None
    if progress is True:
        sys.stderr.write("\n")
    return template.fill(best), history


def _choose_objective(
    objective: object,
    data: Dataset,
    method: AbstractMethod | None,
    mask: Array | None,
    inference_tol: float,
) -> Callable[..., Evidence | PredictiveObjective]:
    """A function from template, log prior and `build` to the objective."""
    if objective == "predictive":
        objective = Predictive()
    if isinstance(objective, Predictive):
        return partial(objective.prepare, data, mask)
    if objective != "evidence":
        problem = 'but must be "evidence", "predictive" or `Predictive(...)`'
        raise invalid("objective", objective, problem)
    method = ExpectationPropagation() if method is None else method
    check_method(method, 1)
    dtype = data.coefficients.dtype

    def evidence(template: Template, log_prior: Any, build: Any) -> Evidence:
        return Evidence(
            template=template,
            data=restart_ages(data.without_index(), mask),
            method=eqx.tree_at(lambda m: m.damping, method, jnp.asarray(method.damping, dtype)),
            tol=jnp.asarray(inference_tol, dtype),
            mask=mask,
            log_prior=log_prior,
            build=build,
        )

    return evidence


def _remedy(start: Any, data: Dataset, objective: AbstractObjective, suggested: bool) -> str:
    """Suggest remedies where inference fails at the start, except those already in use."""
    options = [] if objective.log_prior is None else ["check `log_prior`"]
    ranked = isinstance(start, Model) and any(
        each.num_predictors is None for each in start.likelihoods.values()
    )
    if not ranked and isinstance(objective, Evidence):
        by_ep = isinstance(objective.method, ExpectationPropagation)
        other = ReverseKL if by_ep else ExpectationPropagation
        options.append(f"pass method={other.__name__}()")
    if not suggested and isinstance(start, Model):
        with contextlib.suppress(DataError):
            kind = None if isinstance(start.likelihood, dict) else type(start.likelihood)
            mask = None if objective.mask is None else np.asarray(objective.mask)[: len(data)]
            suggestion = suggest_model(data, kind, mask=mask)
            suggested = bool(eqx.tree_equal(start, suggestion))
    where = "" if suggested else ", such as those of `suggest_model(data)`"
    text = ", or ".join([*options, f"start from a model with other values{where}"])
    return f"{text[0].upper()}{text[1:]}."


@jit_once
def _begin(optimizer: AbstractOptimizer, point: PyTree, unknown: Evaluation) -> Run:
    return optimizer.begin(point, unknown)


@jit_once
def _update(
    optimizer: AbstractOptimizer,
    run: Run,
    evaluation: Evaluation,
    objective: AbstractObjective,
    limits: Limits,
    batched: bool,
) -> Run:
    def advance(run: Run, evaluation: Evaluation) -> Run:
        return optimizer.advance(run, evaluation, objective, limits)

    return (jax.vmap(advance) if batched else advance)(run, evaluation)


def _optimize(
    objective: AbstractObjective,
    optimizer: AbstractOptimizer,
    starts: list[PyTree],
    limits: Limits,
    batch_size: int,
    checkpoint: str | os.PathLike | None,
    report: Callable[[int, float], None] | None,
) -> tuple[PyTree, History]:
    """Run the optimizer from all starting points; return the best point and its history."""
    batched, limits = batch_size > 1, limits.as_arrays()
    runs = [_begin(optimizer, start, objective.unknown(start)) for start in starts]
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
        while _is_active(run, limits):
            evaluation = objective.evaluate(run.trial, run.evaluation.sites, batched)
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
                best = min(np.asarray(each.best_loss).min().item() for each in runs)
                report(int(steps.max()), -best)
    file.save((runs, records, np.asarray(time.perf_counter() - began)))
    values = -np.concatenate([np.atleast_1d(run.best_loss) for run in runs])[: len(starts)]
    place = int(np.argmax(values))
    best = _lane(runs[place // batch_size], place % batch_size, batched)
    history = records[place].to_history(objective.template, best, values)
    return best.best_point, history._replace(objective=objective.label)


def _is_active(run: Run, limits: Limits) -> bool:
    """True if a run of a batch needs another evaluation; decided on the host."""
    status, steps = np.atleast_1d(run.status), np.atleast_1d(run.steps)
    return bool(run._replace(status=status, steps=steps).active(limits).any())


def _open_checkpoint(
    path: str | os.PathLike | None,
    objective: AbstractObjective,
    optimizer: AbstractOptimizer,
    starts: list[PyTree],
    limits: Limits,
    batch_size: int,
) -> Checkpoint:
    """Open a checkpoint that only a run with the same arguments can continue."""
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
        return History(*self[:4], parameters, RunStatus(int(run.status)), values)


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


def _write_progress(label: str, step: int, value: float) -> None:
    sys.stderr.write(f"\rlearning: step {step}, {label} {value:.3f} ")
    sys.stderr.flush()
