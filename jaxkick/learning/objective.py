"""Objectives of learning: functions of the free parameters, by default the log evidence."""

import abc
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from jaxkick._typing import Array, Bool, Int, Key, Scalar
from jaxkick._xla import call_compiled, hold_constant, jit_by_size
from jaxkick.data.dataset import Dataset
from jaxkick.inference.evidence import evidence_slope, log_evidence
from jaxkick.inference.fixed_point import Settings
from jaxkick.inference.methods import AbstractMethod
from jaxkick.inference.problem import Sites, make_problem, no_sites
from jaxkick.inference.solve import Solution, every_observation, fixed_point, solve
from jaxkick.inference.status import Status
from jaxkick.model import Model
from jaxkick.parameters import AbstractParameter, Fixed, Tied

__all__ = [
    "AbstractObjective",
    "Evaluation",
    "Evidence",
    "Template",
    "finite",
    "named_values",
    "perturb",
    "split",
    "typical_changes",
]

# Longer inference is hardly worth a step of the optimizer.
_MAX_STEPS = 1000


class Evaluation(NamedTuple):
    """The objective at one point.

    Attributes:
        loss: the negative log marginal likelihood and log prior; infinite where inference
            failed or the gradient is not finite.
        gradient: its gradient in the free leaves.
        sites: the fixed point of inference, from which the next evaluation starts.
        steps: the number of inference steps.
    """

    loss: Scalar
    gradient: PyTree
    sites: Sites
    steps: Int[Array, ""]


class Template(eqx.Module):
    """A model with `None` in place of leaves that are free, or tied to free ones."""

    rest: PyTree

    def fill(self, free: PyTree) -> Any:
        """Insert free leaves; tied parameters take the value of the first of their name."""
        leaders: dict[str, Tied] = {}

        def follow(node):
            return leaders.setdefault(node.name, node) if isinstance(node, Tied) else node

        return jax.tree.map(
            follow, eqx.combine(free, self.rest), is_leaf=lambda node: isinstance(node, Tied)
        )


class AbstractObjective(eqx.Module):
    """A function of the free leaves to maximise, plus the log prior.

    Attributes:
        template: the model without its free leaves.
        mask: observations to use; all of them if `None`.
        log_prior: function of the learnt object, added to the objective.
        build: function from the learnt object to a `Model`; the identity if `None`.
    """

    template: eqx.AbstractVar[Template]
    mask: eqx.AbstractVar[Bool[Array, " N"] | None]
    log_prior: eqx.AbstractVar[Callable[[Any], Scalar] | None]
    build: eqx.AbstractVar[Callable[[Any], Any] | None]

    @property
    @abc.abstractmethod
    def label(self) -> str:
        """The name of the objective."""

    @property
    @abc.abstractmethod
    def dtype(self) -> jnp.dtype:
        """Floating-point type of the objective."""

    @abc.abstractmethod
    def unknown(self, free: PyTree) -> Evaluation:
        """A placeholder before the first evaluation: infinite loss and empty sites."""

    @abc.abstractmethod
    def loss(self, free: PyTree, start: Sites) -> tuple[Scalar, tuple[Sites, Int[Array, ""]]]:
        """The loss, differentiable in `free`; sites and the number of inference steps."""

    @abc.abstractmethod
    def evaluate(self, free: PyTree, start: Sites, batched: bool) -> Evaluation:
        """The loss and its gradient, compiled; of several points at once if `batched`."""

    def model(self, free: PyTree) -> Any:
        """The model at a point."""
        learnt = self.template.fill(free)
        return learnt if self.build is None else call_compiled(self.build, learnt)

    def prior(self, free: PyTree) -> Scalar:
        """The log prior at a point; zero if there is none."""
        if self.log_prior is None:
            return jnp.zeros((), self.dtype)
        return jnp.asarray(self.log_prior(self.template.fill(free)))


class Evidence(AbstractObjective):
    """The log marginal likelihood.

    Attributes:
        template: as in `AbstractObjective`, as all others that are not named here.
        data: the observations, without their index.
        method: the inference method.
        tol: `tol` of inference.
    """

    template: Template
    data: Dataset
    method: AbstractMethod
    tol: Scalar
    mask: Bool[Array, " N"] | None
    log_prior: Callable[[Any], Scalar] | None
    build: Callable[[Any], Any] | None

    @property
    def label(self) -> str:
        return "log marginal likelihood"

    @property
    def dtype(self) -> jnp.dtype:
        return self.data.coefficients.dtype

    def evaluate(self, free: PyTree, start: Sites, batched: bool) -> Evaluation:
        # Two programs: inference is that of `infer`.
        fit = jax.vmap(self.fit) if batched else self.fit
        return _differentiate(self, free, fit(free, start), batched)

    def unknown(self, free: PyTree) -> Evaluation:
        return Evaluation(
            jnp.asarray(jnp.inf, self.dtype),
            jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), free),
            no_sites(self.data.chains),
            jnp.zeros((), jnp.int32),
        )

    def loss(self, free: PyTree, start: Sites) -> tuple[Scalar, tuple[Sites, Int[Array, ""]]]:
        # The evidence is stationary in the sites, which therefore count as constants.
        problem = make_problem(self.model(free), self.data, self.mask)
        settings = Settings(self.tol, jnp.asarray(_MAX_STEPS, jnp.int32))
        end = fixed_point(hold_constant(problem), self.method, start, settings, None)
        value = log_evidence(problem, self.method, end)
        value = value + self.prior(free).astype(value.dtype)
        usable = _is_usable(end.status) & jnp.isfinite(value)
        return jnp.where(usable, -value, jnp.inf), (end.sites, end.steps)

    def fit(self, free: PyTree, start: Sites) -> Solution:
        """Run inference at a point, with the program of `infer`."""
        settings = Settings(self.tol, jnp.asarray(_MAX_STEPS, jnp.int32))
        mask = every_observation(self.data) if self.mask is None else self.mask
        return solve(self.model(free), self.data, self.method, start, mask, settings, None)

    def gradient(self, free: PyTree, sites: Sites) -> PyTree:
        """The gradient of the loss at a fixed point of inference."""

        def slope(free: PyTree) -> Scalar:
            problem = make_problem(self.model(free), self.data, self.mask)
            value = evidence_slope(hold_constant(problem), self.method, sites)(problem)
            return -value - self.prior(free).astype(value.dtype)

        return eqx.filter_grad(slope)(free)

    def evaluation(self, free: PyTree, solution: Solution) -> Evaluation:
        """The loss and its gradient at a point where inference has run."""
        gradient = self.gradient(free, solution.sites)
        value = solution.log_marginal_likelihood
        value = value + self.prior(free).astype(value.dtype)
        loss = jnp.where(_is_usable(solution.status), -value, jnp.inf)
        return Evaluation(finite(loss, gradient), gradient, solution.sites, solution.steps)


@jit_by_size
def _differentiate(
    objective: Evidence, free: PyTree, solution: Solution, batched: bool
) -> Evaluation:
    evaluate = jax.vmap(objective.evaluation) if batched else objective.evaluation
    return evaluate(free, solution)


def _is_usable(status: Int[Array, ""]) -> Bool[Array, ""]:
    """Return whether inference reached a fixed point; `infer` warns of wrong integrals."""
    return (status == int(Status.CONVERGED)) | (status == int(Status.INACCURATE))


def finite(loss: Scalar, gradient: PyTree) -> Scalar:
    """Return the loss, or infinity if the loss or a part of its gradient is not finite."""
    usable = jnp.isfinite(loss)
    for leaf in jax.tree.leaves(gradient):
        usable &= jnp.all(jnp.isfinite(leaf))
    return jnp.where(usable, loss, jnp.inf)


def split(model: Any) -> tuple[PyTree, Template]:
    """Separate the parameters to learn, as a tree of the model's structure, from the rest.

    Free are all floating-point leaves except those of `Fixed` parameters. Of `Tied` parameters
    with the same name only the first is free.
    """
    leaders: dict[str, Tied] = {}

    def is_free(node):
        if isinstance(node, Tied):
            if leaders.setdefault(node.name, node) is not node:
                _check_equal(leaders[node.name], node)
                return jax.tree.map(lambda _: False, node)
            return jax.tree.map(is_free, node, is_leaf=lambda node: isinstance(node, Fixed))
        if isinstance(node, Fixed):
            return jax.tree.map(lambda _: False, node)
        return eqx.is_inexact_array(node)

    chosen = jax.tree.map(is_free, model, is_leaf=lambda node: isinstance(node, Tied | Fixed))
    free, rest = eqx.partition(model, chosen)
    if not jax.tree.leaves(free):
        raise ValueError(
            "`model` has no free parameter: all of them are `Fixed`. Pass at least one of them as "
            "a number, or use `infer`."
        )
    # Arrays with an explicit type are not weakly typed, so that one program serves all steps.
    return jax.tree.map(lambda leaf: jnp.asarray(leaf, leaf.dtype), free), Template(rest)


def typical_changes(free: PyTree, data: Dataset) -> np.ndarray:
    """Return changes of the free parameters that matter about equally, the largest being one.

    The evidence has a curvature of about one half in the logarithm of a variance for each score
    that is drawn with it: the home advantage is a single one, the skills of a league are many. A
    parameter of the likelihood is informed by all observations. All changes are one if `free` is
    not a `Model`.
    """
    leaves = jax.tree_util.tree_leaves_with_path(free)
    if not isinstance(free, Model):
        return np.ones(sum(leaf.size for _, leaf in leaves))
    index, used = data.index, data.index.counts > 0
    drawn = {
        group: int(np.sum(used & (index.feature_group == number)))
        for number, group in enumerate(index.groups)
    }

    def curvature(path: tuple, leaf: Array) -> float:
        part, group = path[0].name, getattr(path[1], "key", "")
        if part == "likelihood":
            return 0.1 * len(data)
        return 1.0 if leaf.ndim and part == "mean" else 0.5 * drawn.get(group, sum(drawn.values()))

    curvatures = [np.full(leaf.size, curvature(path, leaf)) for path, leaf in leaves]
    changes = 1.0 / np.sqrt(np.maximum(np.concatenate(curvatures), 0.5))
    return changes / changes.max()


def perturb(free: PyTree, key: Key[Array, ""], jitter: float) -> PyTree:
    """Add normal noise of standard deviation `jitter` to free leaves."""
    leaves, structure = jax.tree.flatten(free)
    keys = jax.random.split(key, len(leaves))
    moved = [
        leaf + jnp.asarray(jitter, leaf.dtype) * jax.random.normal(key, leaf.shape, leaf.dtype)
        for leaf, key in zip(leaves, keys, strict=True)
    ]
    return jax.tree.unflatten(structure, moved)


def named_values(model: Any) -> dict[str, np.ndarray]:
    """The values of all parameters of a model by their path, such as `"kernel.variance"`."""
    found = jax.tree_util.tree_leaves_with_path(
        model, is_leaf=lambda node: isinstance(node, AbstractParameter)
    )
    return {
        jax.tree_util.keystr(path).removeprefix("."): np.asarray(node.value)
        for path, node in found
        if isinstance(node, AbstractParameter)
    }


def _check_equal(first: Tied, other: Tied) -> None:
    same_kind = type(first.parameter) is type(other.parameter)
    if not (same_kind and np.array_equal(np.asarray(first.value), np.asarray(other.value))):
        raise ValueError(
            f"The parameters tied by the name {first.name!r} differ: {first!r} is "
            f"{type(first.parameter).__name__}, {other!r} is {type(other.parameter).__name__}. "
            "Give them the same value and constraint, or different names."
        )
