"""Smoothed means for given gains.

For fixed site precisions τ, the smoothed means are a linear function of the precision-means b:
M⁻¹b with M = K⁻¹ + diag(τ). Variances and gains do not change, so a pass propagates one vector
forward and one backward instead of matrices. Conjugate gradients for the joint means of all
competitors apply this pass repeatedly (`jaxkick.inference.conjugate_gradients`).

A score between two entries is a linear function of the state after the left one and of the adjoint
of the right one (`jaxkick.chains.interpolation`). `smooth_states` returns these, and adds pulls on
such scores: a column of M⁻¹ for a score at any time.
"""

from typing import NamedTuple

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

__all__ = ["Vectors", "smooth_means", "smooth_states"]


class Vectors(NamedTuple):
    """A vector at every entry for each direction of a pass.

    Attributes:
        past: of the forward pass: the mean of the state after the entry's site, or what is added
            to the mean of the state that is predicted for the entry.
        future: of the backward pass: the adjoint r of the predicted state, or what is added to
            the adjoint of the state after the entry's site.
    """

    past: AbstractMatrix
    future: AbstractMatrix


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
    v, s = _predicted(model, times, precision, gains)
    weight, pull = precision * s, precision_mean * s
    leaving, (mu, _) = _forward(model, times, gains.phi, weight, pull)
    if chain.linked:
        incoming = _walk(model, gains.across, leaving, chain, reverse=False)
        mu = mu + _over_rows(gains.forward, incoming)
    g = pull - weight * mu
    leaving, (p, _) = _backward(model, times, gains.phi, weight, g)
    if chain.linked:
        incoming = _walk(model, gains.back_across, leaving, chain, reverse=True)
        p = p + _over_rows(gains.backward, incoming)
    return mu + v * g + s * p


def smooth_states(
    model: StepModel,
    chain: Chain,
    precision: Float[Array, "C R"],
    gains: Gains,
    precision_mean: Float[Array, "C R"],
    added: Vectors,
) -> tuple[Float[Array, "C R"], Vectors]:
    """Compute the smoothed means of all entries, and the vectors that interpolation needs.

    Args:
        model: the kernel of the chain's group.
        chain: the times of the entries.
        precision: the site precisions τ for which the gains were computed.
        gains: the gains from `smooth_chain` for these precisions.
        precision_mean: the vector b of pulls on the entries.
        added: pulls on scores between entries.

    Returns:
        The smoothed means; the mean of the state after every entry, and the adjoint of the state
        that is predicted for it.
    """
    times = step_times(chain)
    v, s = _predicted(model, times, precision, gains)
    weight, pull = precision * s, precision_mean * s
    inputs = (model, times, gains.phi, weight, pull, added.past)
    leaving, (mu, past) = _forward(*inputs)
    if chain.linked:
        _, (mu, past) = _forward(*inputs, _walk(model, gains.across, leaving, chain, reverse=False))
    g = pull - weight * mu
    inputs = (model, times, gains.phi, weight, g, added.future)
    leaving, (p, future) = _backward(*inputs)
    if chain.linked:
        _, (p, future) = _backward(
            *inputs, _walk(model, gains.back_across, leaving, chain, reverse=True)
        )
    return mu + v * g + s * p, Vectors(past, future)


def _predicted(
    model: StepModel, times: StepTime, precision: Float[Array, "C R"], gains: Gains
) -> tuple[Float[Array, "C R"], Float[Array, "C R"]]:
    """The predicted variance v of every score, and s = 1 / (1 + τ v)."""
    v = _over_entries(lambda time, phi: dot(model.h(time), phi))(times, gains.phi)
    return v, 1.0 / (1.0 + precision * v)


def _forward(
    model: StepModel,
    times: StepTime,
    phi: AbstractMatrix,
    weight: Float[Array, "C R"],
    pull: Float[Array, "C R"],
    added: AbstractMatrix | None = None,
    incoming: AbstractMatrix | None = None,
) -> tuple[AbstractMatrix, tuple[Float[Array, "C R"], AbstractMatrix | None]]:
    """Propagate means along all rows, from zero unless `incoming` is given.

    Returns:
        The outgoing mean of every row; the predicted mean of every score and, if vectors are
        `added` to the predicted states, the mean of every state after its site.
    """

    def step(carry, inputs):
        mean, previous = carry
        time, phi, weight, pull, added = inputs
        mean = model.carry(model.transition(previous, time), mean, time)
        mean = mean if added is None else mean + added
        mu = dot(model.h(time), mean)
        mean = mean + phi * (pull - weight * mu)
        return (mean, time), (mu, None if added is None else mean)

    def run(incoming, before, *inputs):
        (mean, _), kept = lax.scan(step, (incoming, before), inputs)
        return mean, kept

    before = jax.tree.map(lambda x: jnp.roll(x[-1], 1), times)
    rows = None if incoming is None else 0
    start = model.origin().m if incoming is None else incoming
    over_rows = jax.vmap(run, in_axes=(rows, 0, 1, 1, 1, 1, 1), out_axes=(0, 1))
    return over_rows(start, before, times, phi, weight, pull, added)


def _backward(
    model: StepModel,
    times: StepTime,
    phi: AbstractMatrix,
    weight: Float[Array, "C R"],
    g: Float[Array, "C R"],
    added: AbstractMatrix | None = None,
    incoming: AbstractMatrix | None = None,
) -> tuple[AbstractMatrix, tuple[Float[Array, "C R"], AbstractMatrix | None]]:
    """Propagate adjoints r back along all rows, from zero unless `incoming` is given.

    Returns:
        The outgoing adjoint of every row; φᵀr after the site of every entry and, if vectors are
        `added` to r there, the adjoint of every predicted state.
    """

    def step(carry, inputs):
        r, following = carry
        time, phi, weight, g, added = inputs
        r = model.carry(model.transition(time, following).T, r, following)
        r = r if added is None else r + added
        p = dot(phi, r)
        r = r + model.h(time) * (g - weight * p)
        return (r, time), (p, None if added is None else r)

    def run(incoming, after, *inputs):
        (r, _), kept = lax.scan(step, (incoming, after), inputs, reverse=True)
        return r, kept

    after = jax.tree.map(lambda x: jnp.roll(x[0], -1), times)
    rows = None if incoming is None else 0
    start = model.no_information().r if incoming is None else incoming
    over_rows = jax.vmap(run, in_axes=(rows, 0, 1, 1, 1, 1, 1), out_axes=(0, 1))
    return over_rows(start, after, times, phi, weight, g, added)


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
