"""Integrals of a likelihood over a normal score, where there is no closed form."""

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import ArrayLike

from jaxkick._numerics import Derivatives, gaussian_expectation, tilted_log_partition
from jaxkick._parameters import resolve
from jaxkick._typing import Array, Float

if TYPE_CHECKING:
    from jaxkick.likelihoods.base import AbstractLikelihood

__all__ = ["align", "expectation_by_quadrature", "log_partition_by_quadrature"]

Tree = TypeVar("Tree")


def log_partition_by_quadrature(
    likelihood: "AbstractLikelihood",
    outcome: ArrayLike,
    mean: ArrayLike,
    variance: ArrayLike,
    weight: ArrayLike | None = None,
) -> Derivatives:
    """As `AbstractLikelihood.log_partition`, for a likelihood without a closed form."""
    mean, variance, outcome = align(mean, variance, outcome)
    if weight is not None:
        mean, variance, outcome, weight = align(mean, variance, outcome, weight)
    likelihood, fixed, fixed_outcome = _prepared(likelihood, outcome)
    value, first, second = tilted_log_partition(
        likelihood.local(outcome),
        fixed.local(fixed_outcome),
        fixed.anchor(fixed_outcome, 1.0 if weight is None else lax.stop_gradient(weight)),
        mean,
        variance,
        weight,
    )
    constant = likelihood.constant(outcome)
    return Derivatives(value + (constant if weight is None else weight * constant), first, second)


def expectation_by_quadrature(
    likelihood: "AbstractLikelihood", outcome: ArrayLike, mean: ArrayLike, variance: ArrayLike
) -> Derivatives:
    """As `AbstractLikelihood.expectation`, for a likelihood without a closed form."""
    mean, variance, outcome = align(mean, variance, outcome)
    likelihood, fixed, fixed_outcome = _prepared(likelihood, outcome)
    value, first, second = gaussian_expectation(
        likelihood.local(outcome),
        fixed.local(fixed_outcome),
        fixed.anchor(fixed_outcome, 1.0),
        mean,
        variance,
    )
    return Derivatives(value + likelihood.constant(outcome), first, second)


def align(mean: ArrayLike, *others: ArrayLike) -> tuple[Float[Array, "..."], ...]:
    """Give all arguments the floating-point type of the first, and one shape.

    Args:
        mean: sets the type; JAX's default where it is not a floating-point array.
        *others: numbers or arrays.

    Returns:
        All arguments, broadcast against each other.
    """
    mean = jnp.asarray(mean)
    if not jnp.issubdtype(mean.dtype, jnp.floating):
        mean = mean.astype(jnp.result_type(float))
    rest = (jnp.asarray(other).astype(mean.dtype) for other in others)
    return tuple(jnp.broadcast_arrays(mean, *rest))


def _prepared(
    likelihood: "AbstractLikelihood", outcome: Float[Array, "..."]
) -> tuple["AbstractLikelihood", "AbstractLikelihood", Float[Array, "..."]]:
    """The likelihood in the type of the outcome; it and the outcome without derivatives."""
    ready = _map_floats(lambda leaf: leaf.astype(outcome.dtype), resolve(likelihood))
    return ready, _map_floats(lax.stop_gradient, ready), lax.stop_gradient(outcome)


def _map_floats(function: Callable, tree: Tree) -> Tree:
    return jax.tree.map(lambda leaf: function(leaf) if eqx.is_inexact_array(leaf) else leaf, tree)
