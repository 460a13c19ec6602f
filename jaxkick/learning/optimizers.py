"""Optimizers for an objective whose every evaluation is a run of inference.

An evaluation may take seconds, gives value and gradient at once, starts from the fixed point at
the last accepted point, and may fail. An optimizer here is therefore a pure function of a run and
one evaluation: the caller evaluates `run.trial` and calls `advance`, which accepts or rejects the
trial and proposes the next one. One compiled copy of the objective serves all evaluations, and
`vmap` batches restarts.

Directions are found in units of the parameters that matter about equally
(`objective.typical_changes`). Without them, L-BFGS creeps along parameters that few scores inform,
such as those of the home advantage.

The alternatives below start from the poor start of benchmarks/learning.py, with warm starts. The
cells show evaluations, inference steps in them (unknown inside optax's line search), and nats below
the best value (`python benchmarks/optimizers.py`, also with `--case nba`).

|                              | Bundesliga with home advantage | NBA          |
|------------------------------|--------------------------------|--------------|
| this module                  | 26, 66, 0.02                   | 16, 43, 0.00 |
| this module, all units one   | 36, 72, 0.02                   | 16, 43, 0.00 |
| optax.lbfgs 0.2.8            | 66, -, 0.03                    | 31, -, 0.00  |
| optimistix.LBFGS 0.1.0       | 104, 224, 0.00                 | 30, 121, 0.00|

The line search of optax compiles the objective several times (37 instead of 8 s on a busy machine)
and returns no sites. optimistix stops only when steps are small; here it was stopped when the last
25 evaluations gained less than 0.01 nats.
"""

import abc
import enum
import functools
import itertools
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import PyTree

from jaxkick._typing import Array, Bool, Float, Int, Scalar
from jaxkick.learning.objective import AbstractObjective, Evaluation

__all__ = ["LBFGS", "AbstractOptimizer", "Limits", "Optax", "Run", "RunStatus"]

# The two constants of the Wolfe conditions: sufficient decrease and curvature.
_DECREASE = 1e-4
_CURVATURE = 0.9
_MAX_TRIALS = 12
# Parameters are mostly logarithms: a longer first trial is rarely useful.
_MAX_FIRST_TRIAL = 2.0
# One object, so that one program serves all calls of `learn`.
_DIRECTIONS = optax.scale_by_lbfgs(memory_size=10)
# Optax mixes integer types, which strict promotion (`jax_numpy_dtype_promotion`) forbids.
_standard_promotion = functools.partial(jax.numpy_dtype_promotion, "standard")


class RunStatus(enum.IntEnum):
    """The reason why a run of `learn` ended.

    `RUNNING`: it reached `max_steps`. `CONVERGED`: no gain is expected. `FLAT`: the last steps
    gained next to nothing, because the data does not determine some parameter, such as a
    lengthscale far beyond its span. `STALLED`: no step descends, within the accuracy of
    inference. `FAILED`: inference fails nearby.
    """

    RUNNING = 0
    CONVERGED = 1
    STALLED = 2
    FAILED = 3
    FLAT = 4

    def describe(self) -> str:
        """Describe the end of the run."""
        return _ENDS[self]


_ENDS = {
    RunStatus.RUNNING: "stopped at max_steps",
    RunStatus.CONVERGED: "converged",
    RunStatus.STALLED: "converged as far as inference is accurate",
    RunStatus.FAILED: "stopped where inference fails",
    RunStatus.FLAT: "converged along a flat direction",
}


class Limits(NamedTuple):
    """The stopping rule of a run; see `learn`."""

    max_steps: Int[Array, ""] | int
    tol: Scalar | float
    patience: Int[Array, ""] | int

    def as_arrays(self) -> "Limits":
        """The same as arrays, so that other limits need no other program."""
        dtypes = np.int32, jnp.result_type(float), np.int32
        return Limits(*map(np.asarray, self, dtypes))


class Run(NamedTuple):
    """A run of an optimizer between two evaluations, or a batch of them.

    Attributes:
        trial: the point to evaluate next.
        point: the last accepted point.
        evaluation: the objective there; its sites are the warm start of the trial.
        memory: the optimizer's own state.
        status: a `RunStatus`.
        steps: the number of accepted trials; -1 before the starting point is evaluated.
        best_point: the best point.
        best_loss: the loss there.
        reference_loss: the best loss when it last fell by more than `tol`.
        waited: the number of steps since then.
    """

    trial: PyTree
    point: PyTree
    evaluation: Evaluation
    memory: Any
    status: Int[Array, "..."]
    steps: Int[Array, "..."]
    best_point: PyTree
    best_loss: Float[Array, "..."]
    reference_loss: Float[Array, "..."]
    waited: Int[Array, "..."]

    def active(self, limits: Limits) -> Bool[Array | np.ndarray, "..."]:
        """True while another evaluation is needed."""
        return (self.status == RunStatus.RUNNING) & (self.steps < limits.max_steps)


class AbstractOptimizer(eqx.Module):
    """A rule for the next point to evaluate.

    Attributes:
        patience: the default of `learn`.
    """

    patience: eqx.AbstractClassVar[int]

    @abc.abstractmethod
    def init(self, point: PyTree, unknown: Evaluation) -> Any:
        """The memory before the evaluation of `point`; `unknown` stands for its result."""

    @abc.abstractmethod
    def update(
        self, run: Run, evaluation: Evaluation, objective: AbstractObjective, tol: Scalar
    ) -> tuple[Run, Bool[Array, ""]]:
        """Accept or reject a trial, and propose the next one.

        Args:
            run: the run.
            evaluation: the objective at `run.trial`.
            objective: the objective.
            tol: the gain in nats that is not worth another step.

        Returns:
            The run, and whether the trial was accepted.
        """

    def begin(self, point: PyTree, unknown: Evaluation) -> Run:
        """A run before its first evaluation."""
        memory, infinite = self.init(point, unknown), jnp.asarray(jnp.inf, jnp.result_type(float))
        zero, running = jnp.zeros((), jnp.int32), _status(RunStatus.RUNNING)
        best = (point, infinite, infinite, zero)
        return Run(point, point, unknown, memory, running, zero - 1, *best)

    def advance(
        self, run: Run, evaluation: Evaluation, objective: AbstractObjective, limits: Limits
    ) -> Run:
        """The run after the evaluation of its trial; unchanged if it has ended."""
        following, accepted = self.update(run, evaluation, objective, limits.tol)
        loss, one = _wide(following.evaluation.loss), accepted.astype(run.steps.dtype)
        better = accepted & (loss < run.best_loss)
        best_loss = jnp.where(better, loss, run.best_loss)
        gained = best_loss < run.reference_loss - limits.tol
        waited = jnp.where(gained, 0, run.waited + one)
        ended = (following.status == RunStatus.RUNNING) & (waited >= limits.patience)
        following = following._replace(
            status=jnp.where(ended, _status(RunStatus.FLAT), following.status),
            steps=run.steps + one,
            best_point=_select(better, following.point, run.best_point),
            best_loss=best_loss,
            reference_loss=jnp.where(gained, best_loss, run.reference_loss),
            waited=waited,
        )
        return _select(run.active(limits), following, run)


class _LineSearch(NamedTuple):
    """The memory of `LBFGS`: a direction, and the search along it.

    Attributes:
        curvature: optax's L-BFGS memory.
        fresh: whether the direction is the steepest descent.
        direction: the direction.
        slope: the derivative of the loss along it.
        size: the step size of the trial; 0 to evaluate the point itself once more.
        low: the largest size with enough descent; 0 at first.
        high: the smallest size that is too large; infinite at first.
        trials: the number of evaluations along this direction.
        best: the best trial with enough descent, and its evaluation; of infinite loss if none.
        bends: whether the slope at the best trial is larger than at the start.
    """

    curvature: PyTree
    fresh: Bool[Array, ""]
    direction: PyTree
    slope: Scalar
    size: Scalar
    low: Scalar
    high: Scalar
    trials: Int[Array, ""]
    best: tuple[PyTree, Evaluation]
    bends: Bool[Array, ""]


class LBFGS(AbstractOptimizer):
    """L-BFGS directions of optax, and a line search for the weak Wolfe conditions.

    The search brackets as in A. S. Lewis and M. L. Overton, "Nonsmooth optimization via
    quasi-Newton methods", Mathematical Programming 141 (2013). An infinite loss counts as too
    far. Where a direction fails, the point is evaluated once more, which carries inference
    further, and the search goes along the gradient; where that fails too, the run has stalled.

    Attributes:
        units: changes of the parameters that matter about equally. Directions are found in these
            units, in which curvatures are similar.
        transformation: from gradients to negative directions.
    """

    patience: ClassVar[int] = 5

    units: Float[np.ndarray, " D"]
    transformation: optax.GradientTransformation = eqx.field(static=True, default=_DIRECTIONS)

    def init(self, point: PyTree, unknown: Evaluation) -> _LineSearch:
        zero, no = jnp.zeros((), jnp.result_type(float)), jnp.asarray(False)
        return _LineSearch(
            curvature=self.transformation.init(_flat(point)),
            fresh=~no,
            direction=jax.tree.map(jnp.zeros_like, point),
            slope=zero,
            size=zero,
            low=zero,
            high=zero + jnp.inf,
            trials=jnp.zeros((), jnp.int32),
            best=(point, unknown),
            bends=no,
        )

    def update(
        self, run: Run, evaluation: Evaluation, objective: AbstractObjective, tol: Scalar
    ) -> tuple[Run, Bool[Array, ""]]:
        search = run.memory
        loss, start = _wide(evaluation.loss), _wide(run.evaluation.loss)
        repeated = search.size == 0
        along = _vdot(evaluation.gradient, search.direction)
        descends = loss < start + _DECREASE * search.size * search.slope
        better = descends & (loss < _wide(search.best[1].loss))
        usable = jnp.where(repeated, jnp.isfinite(loss), better)
        search = search._replace(
            trials=search.trials + 1,
            best=_select(usable, (run.trial, evaluation), search.best),
            bends=jnp.where(better & ~repeated, along > search.slope, search.bends),
        )
        wolfe = descends & (along >= _CURVATURE * search.slope)
        ended = repeated | wolfe | (search.trials >= _MAX_TRIALS)
        accepted = ended & jnp.isfinite(search.best[1].loss)
        point, now = _select(accepted, search.best, (run.point, run.evaluation))
        started, status = self._start(search, *search.best, tol)  # pyright: ignore[reportCallIssue]
        following = _select(
            ended, _repeat(search, point, now), _bracket(search, descends, loss - start)
        )
        failure = jnp.where(repeated, _status(RunStatus.FAILED), _status(RunStatus.STALLED))
        failed = ended & (repeated | search.fresh)
        status = jnp.where(accepted, status, jnp.where(failed, failure, _status(RunStatus.RUNNING)))
        search = _select(accepted, started, following)
        trial = _select(search.size > 0, _move(point, search.direction, search.size), point)
        run = run._replace(trial=trial, point=point, evaluation=now, memory=search, status=status)
        return run, accepted

    def _start(
        self, search: _LineSearch, point: PyTree, now: Evaluation, tol: Scalar
    ) -> tuple[_LineSearch, Int[Array, ""]]:
        """Begin a search from a new point."""
        fresh = ~search.bends
        # One vector instead of many leaves: the update compiles in a fraction of the time.
        units = jnp.asarray(self.units)
        flat, gradient = _flat(point) / units, _flat(now.gradient) * units
        curvature = _select(fresh, self.transformation.init(flat), search.curvature)
        with _standard_promotion():
            updates, curvature = self.transformation.update(gradient, curvature, flat)
        direction = _unflatten(-jnp.asarray(updates) * units, point)
        slope = _vdot(now.gradient, direction)
        # The curvature along untried directions may be far less than assumed. The gain along one
        # parameter of curvature 1 counts as well: a variance that only one feature informs has a
        # curvature of about one half in its logarithm.
        gain = jnp.maximum(-0.5 * slope, 0.5 * jnp.square(_largest(now.gradient)))
        size = jnp.minimum(1.0, _MAX_FIRST_TRIAL / _largest(direction))
        usable = (slope < 0) & jnp.isfinite(slope)
        started = search._replace(
            curvature=curvature,
            fresh=fresh,
            direction=direction,
            slope=slope,
            size=size,
            low=jnp.zeros_like(size),
            high=jnp.full_like(size, jnp.inf),
            trials=jnp.zeros_like(search.trials),
            best=(point, now._replace(loss=jnp.full_like(now.loss, jnp.inf))),
            bends=jnp.asarray(False),
        )
        status = jnp.where(
            (slope <= 0) & (gain < tol),
            _status(RunStatus.CONVERGED),
            jnp.where(usable | ~fresh, _status(RunStatus.RUNNING), _status(RunStatus.STALLED)),
        )
        return _select(usable, started, _repeat(started, point, now)), status


class Optax(AbstractOptimizer):
    """Any optimizer of optax; a step at which inference fails is halved."""

    patience: ClassVar[int] = 20

    transformation: optax.GradientTransformationExtraArgs = eqx.field(
        static=True, converter=optax.with_extra_args_support
    )

    def init(self, point: PyTree, unknown: Evaluation) -> tuple[PyTree, PyTree, Scalar]:
        zeros = jax.tree.map(jnp.zeros_like, point)
        return self.transformation.init(point), zeros, jnp.zeros((), jnp.result_type(float))

    def update(
        self, run: Run, evaluation: Evaluation, objective: AbstractObjective, tol: Scalar
    ) -> tuple[Run, Bool[Array, ""]]:
        memory, updates, size = run.memory
        accepted = jnp.isfinite(evaluation.loss)
        point, now = _select(accepted, (run.trial, evaluation), (run.point, run.evaluation))
        extra = {"value": now.loss, "grad": now.gradient}
        extra["value_fn"] = lambda free: objective.loss(free, now.sites)[0]
        with _standard_promotion():
            proposed = self.transformation.update(now.gradient, memory, point, **extra)
        updates, memory = _select(accepted, proposed, (updates, memory))
        size = jnp.where(accepted, 1.0, 0.5 * size)
        status = jnp.where(size > 1e-3, _status(RunStatus.RUNNING), _status(RunStatus.FAILED))
        trial, memory = _move(point, updates, size), (memory, updates, size)
        run = run._replace(trial=trial, point=point, evaluation=now, memory=memory, status=status)
        return run, accepted


def _move(point: PyTree, direction: PyTree, size: Scalar) -> PyTree:
    """The point at a distance along a direction, in the point's own types."""
    return jax.tree.map(lambda p, d: p + size.astype(p.dtype) * d.astype(p.dtype), point, direction)


def _flat(tree: PyTree) -> Float[Array, " D"]:
    """All leaves as one vector, in the widest type."""
    return jnp.concatenate([_wide(leaf).ravel() for leaf in jax.tree.leaves(tree)])


def _unflatten(vector: Float[Array, " D"], like: PyTree) -> PyTree:
    """The tree of a vector from `_flat`."""
    leaves, structure = jax.tree.flatten(like)
    ends = list(itertools.accumulate(leaf.size for leaf in leaves))
    parts = jnp.split(vector, ends[:-1])
    pairs = zip(parts, leaves, strict=True)
    shaped = [part.reshape(leaf.shape).astype(leaf.dtype) for part, leaf in pairs]
    return jax.tree.unflatten(structure, shaped)


def _vdot(first: PyTree, second: PyTree) -> Scalar:
    """The inner product of two trees, whose leaves may differ in type."""
    pairs = zip(jax.tree.leaves(first), jax.tree.leaves(second), strict=True)
    zero = jnp.zeros((), jnp.result_type(float))
    return sum((jnp.vdot(_wide(a), _wide(b)) for a, b in pairs), zero)


def _repeat(search: _LineSearch, point: PyTree, now: Evaluation) -> _LineSearch:
    """Evaluate the point itself once more, and forget the curvature then."""
    return search._replace(
        size=jnp.zeros_like(search.size), best=(point, now), bends=jnp.asarray(False)
    )


def _bracket(search: _LineSearch, descends: Bool[Array, ""], rise: Scalar) -> _LineSearch:
    """Choose the next step size: longer if the trial descends, else shorter."""
    size, low, high, slope = search.size, search.low, search.high, search.slope
    longer = jnp.where(jnp.isinf(high), 2.0 * size, 0.5 * (size + high))
    middle = 0.5 * (low + size)
    # The minimum of a parabola through the start, its slope and the trial.
    excess = rise - slope * size
    parabola = jnp.clip(-0.5 * slope * size * size / excess, 0.1 * size, middle)
    usable = (low == 0) & jnp.isfinite(rise) & (excess > 0)
    shorter = jnp.where(usable, parabola, middle)
    return search._replace(
        size=jnp.where(descends, longer, shorter),
        low=jnp.where(descends, size, low),
        high=jnp.where(descends, high, size),
    )


def _largest(tree: PyTree) -> Scalar:
    """The largest absolute value in a tree."""
    return jnp.max(jnp.stack([jnp.max(jnp.abs(_wide(x))) for x in jax.tree.leaves(tree) if x.size]))


def _select(condition: Bool[Array, ""], first: PyTree, second: PyTree) -> PyTree:
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), first, second)


def _wide(x: Array) -> Array:
    return x.astype(jnp.result_type(float))


def _status(status: RunStatus) -> Int[Array, ""]:
    return jnp.asarray(int(status), jnp.int32)
