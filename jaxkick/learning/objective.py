"""What learning descends: the negative log-marginal likelihood, and its gradient."""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import PyTree

from jaxkick._typing import Array, Bool, Int, Scalar
from jaxkick.dataset.dataset import Dataset
from jaxkick.inference.acceleration import inner
from jaxkick.inference.ending import Result
from jaxkick.inference.evidence import log_evidence
from jaxkick.inference.loop import Settings
from jaxkick.inference.method import AbstractMethod
from jaxkick.inference.problem import Sites, make_problem
from jaxkick.inference.solve import fixed_point
from jaxkick.learning.free import Frame

__all__ = ["Evaluation", "Objective"]


class Evaluation(NamedTuple):
    """The objective at one point.

    Attributes:
        loss: minus the log-marginal likelihood and log-prior; infinite where inference failed
            or the gradient is not finite.
        gradient: its derivative in the free leaves.
        sites: the fixed point, from which inference at the next point starts.
        steps: how many steps inference took.
    """

    loss: Scalar
    gradient: PyTree
    sites: Sites
    steps: Int[Array, ""]


class Objective(eqx.Module):
    """Minus the log-marginal likelihood (and log-prior) as a function of the free leaves.

    Attributes:
        frame: the rest of what is learnt.
        data: the observations, without their index.
        method: how to approximate the posterior.
        settings: when inference stops.
        active: which observations count; all of them if `None`.
        log_prior: a function of what is learnt, added to the log-marginal likelihood.
        build: from what is learnt to the model.
    """

    frame: Frame
    data: Dataset
    method: AbstractMethod
    settings: Settings
    active: Bool[Array, " N"] | None
    log_prior: Callable[[Any], Scalar] | None
    build: Callable[[Any], Any] | None

    def model(self, free: PyTree) -> Any:
        """The model at a point."""
        learnt = self.frame.fill(free)
        return learnt if self.build is None else self.build(learnt)

    def no_sites(self, free: PyTree) -> Sites:
        """Sites that say nothing, to start the first inference from."""
        return make_problem(self.model(free), self.data).no_sites()

    def prior(self, free: PyTree) -> Scalar:
        """The log-prior at a point; zero without one."""
        if self.log_prior is None:
            return jnp.zeros((), self.data.coefficients.dtype)
        return jnp.asarray(self.log_prior(self.frame.fill(free)))

    def loss(self, free: PyTree, start: Sites) -> tuple[Scalar, tuple[Sites, Array]]:
        """The loss, differentiable in `free`, and where inference ended.

        The evidence is stationary in the sites, so that they count as constants.
        """
        problem = make_problem(self.model(free), self.data, self.active)
        end = fixed_point(_held(problem), self.method, start, self.settings, None)
        value = log_evidence(problem, self.method, end)
        value = value + self.prior(free).astype(value.dtype)
        usable = (end.result == int(Result.CONVERGED)) & jnp.isfinite(value)
        loss = jnp.where(usable, -value, jnp.inf)
        return loss, (end.sites, end.steps)

    @eqx.filter_jit
    def evaluate(self, free: PyTree, start: Sites) -> Evaluation:
        """The loss and its gradient, from one run of inference."""
        return self._evaluate(free, start)

    @eqx.filter_jit
    def evaluate_many(self, free: PyTree, start: Sites) -> Evaluation:
        """The same at several points at once, stacked along a leading axis."""
        return eqx.filter_vmap(self._evaluate)(free, start)

    def _evaluate(self, free: PyTree, start: Sites) -> Evaluation:
        (loss, (sites, steps)), gradient = eqx.filter_value_and_grad(self.loss, has_aux=True)(
            free, start
        )
        usable = jnp.isfinite(inner(gradient, gradient))
        return Evaluation(jnp.where(usable, loss, jnp.inf), gradient, sites, steps)


def _held(tree: PyTree) -> PyTree:
    """The tree as a constant to differentiation."""
    return jax.tree.map(lambda leaf: lax.stop_gradient(leaf) if eqx.is_array(leaf) else leaf, tree)
