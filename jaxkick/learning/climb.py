"""One step of learning: where to go from here.

A step is a generator: it yields points whose loss it wants to know and is sent their
evaluations, so that the same code serves one climb and several that are evaluated together.
"""

import abc
import enum
import functools
from collections.abc import Generator
from typing import NamedTuple, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import PyTree

from jaxkick._typing import Array, Int, Scalar
from jaxkick.learning.line_search import Search, inner, move, search
from jaxkick.learning.objective import Evaluation, Objective

__all__ = ["AbstractOptimiser", "Climber", "LineSearch", "Optax", "Status"]


# Optax mixes types of integers, which a user who asks for strict promotion could not run.
_OPTAX_PROMOTES = functools.partial(jax.numpy_dtype_promotion, "standard")


class Status(enum.IntEnum):
    """Why a climb goes on or not."""

    RUNNING = 0
    CONVERGED = 1
    STALLED = 2
    FAILED = 3


class Climber(NamedTuple):
    """Where a climb stands; arrays only, so that it can be saved.

    Attributes:
        point: the free leaves.
        evaluation: the objective there.
        memory: the optimiser's own state.
        best_point: the best point so far.
        best_loss: the loss there.
        reference_loss: the best loss when progress was last noted.
        waited: steps since progress was last noted.
        status: a `Status`.
    """

    point: PyTree
    evaluation: Evaluation
    memory: PyTree
    best_point: PyTree
    best_loss: Scalar
    reference_loss: Scalar
    waited: Int[Array, ""]
    status: Int[Array, ""]

    def moved(self, point: PyTree, evaluation: Evaluation, memory: PyTree) -> "Climber":
        """The climber at another point."""
        better = bool(evaluation.loss < self.best_loss)
        return self._replace(
            point=point,
            evaluation=evaluation,
            memory=memory,
            best_point=point if better else self.best_point,
            best_loss=evaluation.loss if better else self.best_loss,
        )

    def ended(self, status: Status) -> "Climber":
        """The climber at its end."""
        return self._replace(status=np.asarray(int(status)))

    def watched(self, tol: float, patience: int) -> "Climber":
        """The climber, ended if it has not gained `tol` for `patience` steps."""
        if float(self.best_loss) < float(self.reference_loss) - tol:
            return self._replace(reference_loss=self.best_loss, waited=np.asarray(0))
        waited = np.asarray(int(self.waited) + 1)
        following = self._replace(waited=waited)
        return following.ended(Status.CONVERGED) if waited >= patience else following


Step: TypeAlias = Generator[PyTree, Evaluation, Climber]


class AbstractOptimiser(eqx.Module):
    """A rule that takes a climber one step on."""

    @abc.abstractmethod
    def init(self, point: PyTree) -> PyTree:
        """The memory that a climb starts with."""

    @abc.abstractmethod
    def step(self, climber: Climber, objective: Objective, tol: float) -> Step:
        """Take a climber one step on.

        Args:
            climber: where it stands.
            objective: what is descended.
            tol: the gain in nats that is not worth a step.
        """


class LineSearch(AbstractOptimiser):
    """Directions of L-BFGS with a line search for the weak Wolfe conditions.

    Every trial is a run of inference from the sites of the last accepted point, and gives its
    gradient at once. The search leaves positive curvature behind, which L-BFGS needs.

    Attributes:
        directions: a transformation from gradients to (negative) directions.
    """

    directions: optax.GradientTransformation = eqx.field(
        static=True, default_factory=lambda: optax.scale_by_lbfgs(memory_size=10)
    )

    def init(self, point: PyTree) -> PyTree:
        return self.directions.init(point)

    def step(self, climber: Climber, objective: Objective, tol: float) -> Step:
        point, now = climber.point, climber.evaluation
        direction, memory = _directions(self.directions, now.gradient, climber.memory, point)
        slope = inner(now.gradient, direction)
        fresh = int(climber.memory.count) == 0
        if slope <= 0 and max(-0.5 * slope, _gain_along_axes(now.gradient)) < tol:
            return climber.ended(Status.CONVERGED)
        found = Search(None, False)
        if slope < 0 and np.isfinite(slope):
            found = yield from search(point, now, direction, slope)
        if found.end is None:
            if fresh:
                return climber.ended(Status.STALLED)
            # Forget the curvature and look along the gradient, with inference carried further.
            again = yield point
            again = again if np.isfinite(again.loss) else now
            return climber.moved(point, again, self.init(point))
        trial, evaluation = found.end
        return climber.moved(trial, evaluation, memory if found.curved else self.init(trial))


class Optax(AbstractOptimiser):
    """Any optimiser of optax; a step that inference cannot follow is halved.

    Attributes:
        transformation: the optimiser.
    """

    transformation: optax.GradientTransformationExtraArgs = eqx.field(static=True)

    def __init__(self, transformation: optax.GradientTransformation):
        """Wrap an optimiser.

        Args:
            transformation: the optimiser.
        """
        self.transformation = optax.with_extra_args_support(transformation)

    def init(self, point: PyTree) -> PyTree:
        return self.transformation.init(point)

    def step(self, climber: Climber, objective: Objective, tol: float) -> Step:
        point, now = climber.point, climber.evaluation
        updates, memory = _updates(self.transformation, objective, point, now, climber.memory)
        size = 1.0
        while size > 1e-3:
            trial = move(point, updates, size)
            evaluation = yield trial
            if np.isfinite(evaluation.loss):
                return climber.moved(trial, evaluation, memory)
            size *= 0.5
        return climber.ended(Status.FAILED)


def _gain_along_axes(gradient: PyTree) -> float:
    """The most that one parameter could gain if its curvature were 1.

    L-BFGS takes directions that it has not tried to be as steep as the others. The evidence
    of a variance that a single feature tells of has a curvature of about one half in the
    logarithm, whatever that of its neighbours.
    """
    leaves = (leaf for leaf in jax.tree.leaves(gradient) if leaf.size)
    return max(0.5 * float(jnp.max(jnp.square(leaf))) for leaf in leaves)


@eqx.filter_jit
def _directions(
    directions: optax.GradientTransformation, gradient: PyTree, memory: PyTree, point: PyTree
) -> tuple[PyTree, PyTree]:
    with _OPTAX_PROMOTES():
        updates, memory = directions.update(gradient, memory, point)
    return jax.tree.map(jnp.negative, updates), memory


@eqx.filter_jit
def _updates(
    transformation: optax.GradientTransformationExtraArgs,
    objective: Objective,
    point: PyTree,
    now: Evaluation,
    memory: PyTree,
) -> tuple[PyTree, PyTree]:
    def loss(free: PyTree) -> Scalar:
        return objective.loss(free, now.sites)[0]

    with _OPTAX_PROMOTES():
        return transformation.update(
            now.gradient, memory, point, value=now.loss, grad=now.gradient, value_fn=loss
        )
