"""The filter over a chain: what earlier observations say of every entry.

Rows of the chain are lanes (`vmap`), their steps a `lax.scan`. A row may begin inside a
feature: then every row is first summarised as a function of its unknown incoming state,
and the summaries are combined along the rows, so that the filter starts each row from
the true state. Chains whose rows all begin with a feature skip both.
"""

import functools
from collections.abc import Callable
from typing import NamedTuple, TypeVar

import jax
import jax.numpy as jnp
from jax import lax
from jax.flatten_util import ravel_pytree
from jax.sharding import Mesh

from jaxkick._sharding import on_every_device
from jaxkick._smallmat import AbstractMatrix, conditioned, dot
from jaxkick._typing import Array, Float, Scalar
from jaxkick.statespace.chain import Chain
from jaxkick.statespace.step import (
    Moment,
    Site,
    State,
    StepModel,
    closed_loop,
    gain,
    log_normaliser,
    update,
)

__all__ = ["Filtered", "filter_chain", "moments_of", "scan_packed"]

Tree = TypeVar("Tree")


class Filtered(NamedTuple):
    """What the filter leaves behind.

    Attributes:
        mu: predicted mean of every entry's score.
        phi: φ = P h of every entry's predicted state.
        state: the state after every entry's site with P packed, if asked for.
        log_normaliser: the logarithm of the integral of prior times sites.
    """

    mu: Float[Array, "C R"]
    phi: AbstractMatrix
    state: State | None
    log_normaliser: Scalar


class _Summary(NamedTuple):
    """A row as a function of its incoming state x₀.

    The outgoing state given x₀ has mean Φ x₀ + b and covariance P; the row's sites say of
    x₀ what a Gaussian with information `eta` and precision `J` says.
    """

    Phi: AbstractMatrix
    b: AbstractMatrix
    P: AbstractMatrix
    eta: AbstractMatrix
    J: AbstractMatrix


def filter_chain(
    model: StepModel, chain: Chain, sites: Site, keep_states: bool = False
) -> Filtered:
    """Run the filter over every row of a chain.

    Args:
        model: the kernel of the chain's group.
        chain: where the entries stand in time.
        sites: the pseudo-observation of every entry.
        keep_states: whether to return the state after every entry.

    Returns:
        What the backward pass needs, and the log-normaliser.
    """
    moments = moments_of(chain)
    before = jax.tree.map(lambda x: jnp.roll(x[-1], 1), moments)
    num_rows = chain.first.shape[1]
    incoming = jax.tree.map(lambda x: jnp.broadcast_to(x, (num_rows, *x.shape)), model.origin())
    if chain.linked:
        summaries = jax.vmap(_summarise_row, in_axes=(None, 0, 1, 1))(model, before, moments, sites)
        incoming = _combine(model, summaries, chain.mesh)
    rows = jax.vmap(
        functools.partial(_filter_row, model, keep_states),
        in_axes=(0, 0, 1, 1),
        out_axes=(0, 1),
    )
    totals, (mu, phi, states) = rows(incoming, before, moments, sites)
    return Filtered(mu, phi, states, jnp.sum(totals))


def moments_of(chain: Chain) -> Moment:
    """The steps of a chain, as the smoother reads them."""
    return Moment(chain.gap, chain.offset, chain.age, chain.first)


def _filter_row(
    model: StepModel,
    keep_states: bool,
    incoming: State,
    before: Moment,
    moments: Moment,
    sites: Site,
) -> tuple[Scalar, tuple[Float[Array, " C"], AbstractMatrix, State | None]]:
    """One row from its incoming state: its log-normaliser, and what every step leaves."""
    h = model.h

    def step(carry, inputs):
        state, total, previous = carry
        moment, site = inputs
        A = model.transition(previous, moment)
        m = model.carry(A, state.m, moment)
        P = model.predict_cov(A, state.P, previous, moment)
        phi = P @ h
        mu, v = dot(h, m), dot(h, phi)
        move = gain(site, mu, v)
        total = total + log_normaliser(site, mu, v, move.s)
        state = update(State(m, P), phi, site, move)
        kept = State(state.m, state.P.packed()) if keep_states else None
        return (state, total, moment), (mu, phi, kept)

    start = (incoming, jnp.zeros((), model.dtype), before)
    (_, total, _), kept = lax.scan(step, start, (moments, sites))
    return total, kept


def _summarise_row(model: StepModel, before: Moment, moments: Moment, sites: Site) -> _Summary:
    """One row as a function of its incoming state."""
    h = model.h

    def step(carry, inputs):
        summary, previous = carry
        moment, site = inputs
        A = model.transition(previous, moment)
        Phi = model.carry(A, summary.Phi, moment)
        b = model.carry(A, summary.b, moment)
        P = model.predict_cov(A, summary.P, previous, moment)
        phi = P @ h
        a = Phi.T @ h
        move = gain(site, dot(h, b), dot(h, phi))
        weight = site.precision * move.s
        state = update(State(b, P), phi, site, move)
        summary = _Summary(
            Phi=closed_loop(Phi, phi, h, weight),
            b=state.m,
            P=state.P,
            eta=summary.eta + a * move.g,
            J=(summary.J + (a @ a.T) * weight).symmetric(),
        )
        return (summary, moment), None

    zero, nothing = model.origin(), model.no_information()
    start = _Summary(model.identity(), zero.m, zero.P, nothing.r, nothing.N)
    (summary, _), _ = lax.scan(step, (start, before), (moments, sites))
    return summary


def _combine(model: StepModel, summaries: _Summary, mesh: Mesh | None) -> State:
    """The true incoming state of every row."""

    def step(state, summary):
        P = conditioned(state.P, summary.J)
        m = state.m + P @ (summary.eta - summary.J @ state.m)
        m_out = summary.Phi @ m + summary.b
        P_out = (summary.Phi @ P @ summary.Phi.T + summary.P).symmetric()
        return State(m_out, P_out), state

    return scan_packed(step, model.origin(), summaries, mesh)


def scan_packed(
    step: Callable, start: Tree, rows: Tree, mesh: Mesh | None, reverse: bool = False
) -> Tree:
    """A scan over rows whose carry is one array, and that returns what `step` emits.

    Every device of a `mesh` runs it over all rows: they are few numbers.

    Every scalar of a carry costs a program of its own at every step; for the few numbers of a
    row's summary that would be most of the time.
    """
    packed, unpack = ravel_pytree(start)
    inputs = on_every_device(jax.vmap(lambda row: ravel_pytree(row)[0])(rows), mesh)
    _, unpack_row = ravel_pytree(jax.tree.map(lambda leaf: leaf[0], rows))

    def packed_step(carry, row):
        state, emitted = step(unpack(carry), unpack_row(row))
        return ravel_pytree(state)[0], ravel_pytree(emitted)[0]

    _, emitted = lax.scan(packed_step, packed, inputs, reverse=reverse)
    return jax.vmap(unpack)(emitted)
