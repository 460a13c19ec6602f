"""Smoothed means for given gains.

For fixed site precisions τ, the smoothed means are a linear function of the precision-means b:
M⁻¹b with M = K⁻¹ + diag(τ). Variances and gains do not change, so a pass propagates one vector
forward and one backward instead of matrices. Conjugate gradients for the joint means of all
competitors apply this pass repeatedly (`jaxkick.inference.means`).
"""

import functools

import jax
import jax.numpy as jnp
from jax import lax

from jaxkick._math.small_matrices import AbstractMatrix, dot
from jaxkick._typing import Array, Float
from jaxkick.chains.filter import step_times
from jaxkick.chains.layout import Chain
from jaxkick.chains.rows import Link, incoming_states
from jaxkick.chains.smoother import Gains
from jaxkick.chains.step import StepModel, StepTime

__all__ = ["smooth_means"]


def smooth_means(
    model: StepModel,
    chain: Chain,
    precision: Float[Array, "C R"],
    gains: Gains,
    precision_mean: Float[Array, "C R"],
) -> Float[Array, "C R"]:
    """Compute M⁻¹b, the smoothed means of all entries of a chain.

    Args:
        model: the kernel of the chain's group.
        chain: the times of the entries.
        precision: the site precisions τ for which the gains were computed.
        gains: the gains from `smooth_chain` for these precisions.
        precision_mean: the vector b.

    Returns:
        The smoothed means.
    """
    times = step_times(chain)
    v = _over_entries(lambda time, phi: dot(model.h(time), phi))(times, gains.phi)
    s = 1.0 / (1.0 + precision * v)
    weight = precision * s
    before = jax.tree.map(lambda x: jnp.roll(x[-1], 1), times)
    after = jax.tree.map(lambda x: jnp.roll(x[0], -1), times)
    pull = precision_mean * s
    forward = jax.vmap(functools.partial(_forward, model), in_axes=(0, 1, 1, 1, 1), out_axes=(0, 1))
    leaving, mu = forward(before, times, gains.phi, weight, pull)
    if chain.linked:
        incoming = _walk(model, gains.across, leaving, chain, reverse=False)
        mu = mu + _over_rows(gains.forward, incoming)
    g = pull - weight * mu
    backward = jax.vmap(
        functools.partial(_backward, model), in_axes=(0, 1, 1, 1, 1), out_axes=(0, 1)
    )
    leaving, p = backward(after, times, gains.phi, weight, g)
    if chain.linked:
        incoming = _walk(model, gains.back_across, leaving, chain, reverse=True)
        p = p + _over_rows(gains.backward, incoming)
    return mu + v * g + s * p


def _forward(
    model: StepModel,
    before: StepTime,
    times: StepTime,
    phi: AbstractMatrix,
    weight: Float[Array, " C"],
    pull: Float[Array, " C"],
) -> tuple[AbstractMatrix, Float[Array, " C"]]:
    """Propagate the mean along one row from zero; return the outgoing mean and predicted scores."""

    def step(carry, inputs):
        mean, previous = carry
        time, phi, weight, pull = inputs
        mean = model.carry(model.transition(previous, time), mean, time)
        mu = dot(model.h(time), mean)
        return (mean + phi * (pull - weight * mu), time), mu

    (mean, _), mu = lax.scan(step, (model.origin().m, before), (times, phi, weight, pull))
    return mean, mu


def _backward(
    model: StepModel,
    after: StepTime,
    times: StepTime,
    phi: AbstractMatrix,
    weight: Float[Array, " C"],
    g: Float[Array, " C"],
) -> tuple[AbstractMatrix, Float[Array, " C"]]:
    """Propagate the adjoint r back along one row from zero; return the outgoing r and φᵀr."""

    def step(carry, inputs):
        r, following = carry
        time, phi, weight, g = inputs
        r = model.carry(model.transition(time, following).T, r, following)
        p = dot(phi, r)
        return (r + model.h(time) * (g - weight * p), time), p

    start = (model.no_information().r, after)
    (r, _), p = lax.scan(step, start, (times, phi, weight, g), reverse=True)
    return r, p


def _walk(
    model: StepModel, across: AbstractMatrix, leaving: AbstractMatrix, chain: Chain, reverse: bool
) -> AbstractMatrix:
    """Compute the incoming vector of every row, given the maps x ↦ `across` x + `leaving`."""
    zero = model.origin().m

    def follow(x: AbstractMatrix, row: tuple) -> AbstractMatrix:
        return row[0] @ x + row[1]

    def join(one: tuple, two: tuple) -> tuple:
        return two[0] @ one[0], follow(one[1], two)

    link = Link(follow, join, (model.identity(), zero))
    return incoming_states(link, zero, (across, leaving), chain, reverse)


def _over_rows(reach: AbstractMatrix, incoming: AbstractMatrix) -> Float[Array, "C R"]:
    return jax.vmap(jax.vmap(dot), in_axes=(0, None))(reach, incoming)


def _over_entries(function):
    return jax.vmap(jax.vmap(function))
