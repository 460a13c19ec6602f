"""The Kalman filter over a chain.

The rows of a chain are processed in parallel by `vmap`, the steps of a row by `lax.scan`. If rows
begin inside a feature, every row is first summarised as a function of its unknown incoming state.
The summaries are combined along the rows, so that the filter starts each row from the true state.
If all rows begin with a feature, this is skipped.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from jaxkick._math.small_matrices import (
    AbstractMatrix,
    Dense,
    adapt,
    conditioned,
    dot,
    identity,
    solve,
)
from jaxkick._typing import Array, Float, Scalar
from jaxkick.chains.layout import Chain
from jaxkick.chains.rows import Link, incoming_states
from jaxkick.chains.step import (
    Site,
    State,
    StepModel,
    StepTime,
    closed_loop,
    gain,
    log_normaliser,
    update,
)

__all__ = ["Filtered", "filter_chain", "step_times"]


class Filtered(NamedTuple):
    """The results of the filter.

    Attributes:
        mu: predicted mean of the score at each entry.
        phi: φ = P h of the predicted state at each entry.
        state: the state after the site of each entry, with P packed; `None` unless requested.
        log_normaliser: the logarithm of the integral of prior times sites.
        reach: the linear map from a row's incoming mean to the predicted means of its scores;
            `None` unless the chain is linked.
        across: the linear map from a row's incoming mean to its outgoing mean; `None` unless the
            chain is linked.
    """

    mu: Float[Array, "C R"]
    phi: AbstractMatrix
    state: State | None
    log_normaliser: Scalar
    reach: AbstractMatrix | None
    across: AbstractMatrix | None


class _Summary(NamedTuple):
    """A row as a function of its incoming state x₀.

    The outgoing state given x₀ has mean Φ x₀ + b and covariance P; the row's sites act on x₀
    like a Gaussian factor with information vector `eta` and precision `J`.
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
        chain: the entries and their times.
        sites: the pseudo-observation of every entry.
        keep_states: whether to return the state after every entry.

    Returns:
        The inputs of the backward pass, and the log normaliser.
    """
    times = step_times(chain)
    before = jax.tree.map(lambda x: jnp.roll(x[-1], 1), times)
    num_rows = chain.first.shape[1]
    incoming = jax.tree.map(lambda x: jnp.broadcast_to(x, (num_rows, *x.shape)), model.origin())
    if chain.linked:
        summaries = jax.vmap(_summarise_row, in_axes=(None, 0, 1, 1))(model, before, times, sites)
        link = Link(_follow, _join, _empty_row(model))
        incoming = incoming_states(link, model.origin(), summaries, chain)
    rows = jax.vmap(
        functools.partial(_filter_row, model, chain.linked, keep_states),
        in_axes=(0, 0, 1, 1),
        out_axes=(0, 0, 1),
    )
    totals, across, (mu, phi, states, reach) = rows(incoming, before, times, sites)
    return Filtered(mu, phi, states, jnp.sum(totals), reach, across)


def step_times(chain: Chain) -> StepTime:
    """Return the times of the steps of a chain."""
    return StepTime(chain.gap, chain.offset, chain.age, chain.first, chain.aspects)


def _filter_row(
    model: StepModel,
    linked: bool,
    keep_states: bool,
    incoming: State,
    before: StepTime,
    times: StepTime,
    sites: Site,
) -> tuple[Scalar, AbstractMatrix | None, tuple]:
    """Filter one row; return its log normaliser, `across`, and the output of each step."""

    def step(carry, inputs):
        state, total, previous, across = carry
        time, site = inputs
        h = model.h(time)
        A = model.transition(previous, time)
        m = model.carry(A, state.m, time)
        P = model.predict_cov(A, state.P, previous, time)
        phi = P @ h
        mu, v = dot(h, m), dot(h, phi)
        move = gain(site, mu, v)
        total = total + log_normaliser(site, mu, v, move.s)
        state = update(State(m, P), phi, site, move)
        kept = State(state.m, state.P.packed()) if keep_states else None
        reach = None
        if linked:
            across = model.carry(A, across, time)
            reach = across.T @ h
            across = closed_loop(across, phi, h, site.precision * move.s)
        return (state, total, time, across), (mu, phi, kept, reach)

    across = model.identity() if linked else None
    start = (incoming, jnp.zeros((), model.dtype), before, across)
    (_, total, _, across), kept = lax.scan(step, start, (times, sites))
    return total, across, kept


def _summarise_row(model: StepModel, before: StepTime, times: StepTime, sites: Site) -> _Summary:
    """Summarise one row as a function of its incoming state."""

    def step(carry, inputs):
        summary, previous = carry
        time, site = inputs
        A = model.transition(previous, time)
        predicted = summary._replace(
            Phi=model.carry(A, summary.Phi, time),
            b=model.carry(A, summary.b, time),
            P=model.predict_cov(A, summary.P, previous, time),
        )
        return (_observed(predicted, model.h(time), site), time), None

    (summary, _), _ = lax.scan(step, (_empty_row(model), before), (times, sites))
    return summary


def _empty_row(model: StepModel) -> _Summary:
    """Return the summary of a row without steps, which passes its incoming state on."""
    zero, nothing = model.origin(), model.no_information()
    return _Summary(model.identity(), zero.m, zero.P, nothing.r, nothing.N)


def _observed(summary: _Summary, h: AbstractMatrix, site: Site) -> _Summary:
    """Add a site on the score of the outgoing state to a summary."""
    Phi, b, P, eta, J = summary
    phi, a = P @ h, Phi.T @ h
    move = gain(site, dot(h, b), dot(h, phi))
    weight = site.precision * move.s
    state = update(State(b, P), phi, site, move)
    return _Summary(
        Phi=closed_loop(Phi, phi, h, weight),
        b=state.m,
        P=state.P,
        eta=eta + a * move.g,
        J=(J + (a @ a.T) * weight).symmetric(),
    )


def _follow(state: State, row: _Summary) -> State:
    """Compute the state after a row from the state before it."""
    P = conditioned(state.P, row.J)
    m = state.m + P @ (row.eta - row.J @ state.m)
    return State(row.Phi @ m + row.b, (row.Phi @ P @ row.Phi.T + row.P).symmetric())


def _join(first: _Summary, second: _Summary) -> _Summary:
    """Combine the summaries of two consecutive rows.

    The second row's information about the state between them enters through (I + P J)⁻¹, with P
    of the first row and J of the second.
    """
    size = first.P.shape[0]
    Phi, b, P, eta, J = (Dense(part.to_array()) for part in first)
    later = _Summary(*(Dense(part.to_array()) for part in second))
    # One elimination on dense arrays for all: unrolled, it would take minutes to compile.
    between = solve(identity(size) + P @ later.J, Phi, b + P @ later.eta, P)
    whole = _Summary(
        Phi=later.Phi @ between[0],
        b=later.Phi @ between[1] + later.b,
        P=(later.Phi @ between[2] @ later.Phi.T + later.P).symmetric(),
        eta=eta + between[0].T @ (later.eta - later.J @ b),
        J=(J + Phi.T @ later.J @ between[0]).symmetric(),
    )
    return _Summary(*(adapt(part, size, Phi.array.dtype) for part in whole))
