"""The smoother over a chain: the score at each entry given all other entries, in linear time.

The backward pass is the Rauch–Tung–Striebel smoother in its adjoint (modified Bryson–Frazier)
form. It needs no matrix inverse, and only μ and φ from the filter. It returns cavities (marginals
without the entry's own site). Marginals follow from cavities without cancellation, but not the
other way round.

If rows begin inside a feature, each row is first processed as if nothing followed, and then
corrected for the following rows. The correction is affine and exact.
"""

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from jaxkick._math.small_matrices import AbstractMatrix, dot
from jaxkick._typing import Array, Float, Scalar
from jaxkick.chains.filter import filter_chain, step_times
from jaxkick.chains.layout import Chain
from jaxkick.chains.rows import Link, incoming_states
from jaxkick.chains.step import (
    Adjoint,
    Site,
    State,
    StepModel,
    StepTime,
    absorb,
    closed_loop,
    gain,
)

__all__ = ["Smoothed", "States", "smooth_chain"]


class Smoothed(NamedTuple):
    """The cavity of each entry: the distribution of its score given all sites but its own.

    Attributes:
        mean: mean of each cavity.
        variance: variance of each cavity.
        log_normaliser: the logarithm of the integral of prior times sites.
        gains: the gains for later passes over means only (`chains.mean_smoother`); `None` where
            sums took the place of the smoother.
        states: the states for interpolation; `None` unless requested.
    """

    mean: Float[Array, "C R"]
    variance: Float[Array, "C R"]
    log_normaliser: Scalar
    gains: "Gains | None"
    states: "States | None"


class Gains(NamedTuple):
    """The part of a smoothing pass that does not depend on means.

    Attributes:
        phi: φ = P h of the predicted state at each entry.
        forward: the linear map from a row's incoming mean to the predicted means of its scores.
        backward: the linear map from a row's incoming adjoint r to φᵀr of its entries.
        across: the linear map from a row's incoming mean to its outgoing mean.
        back_across: the linear map from a row's incoming adjoint to its outgoing adjoint.

    All but `phi` are `None` unless rows begin inside features.
    """

    phi: AbstractMatrix
    forward: AbstractMatrix | None
    backward: AbstractMatrix | None
    across: AbstractMatrix | None
    back_across: AbstractMatrix | None


class States(NamedTuple):
    """Filtered states and adjoints at every entry; symmetric matrices are packed.

    Attributes:
        past: the state given the entry's own site and all earlier sites.
        future: the adjoint of the predicted state, from the entry's own site and all later sites.
    """

    past: State
    future: Adjoint


class _Later(NamedTuple):
    """The information of later steps about a score: p = φᵀ r and q = φᵀ N φ after its own site.

    `reach` maps the incoming adjoint of the row to its contribution to both.
    """

    p: Scalar
    q: Scalar
    reach: AbstractMatrix | None


class _Outgoing(NamedTuple):
    """The adjoint at a step as a function of the incoming adjoint (r, N) of its row.

    It is Ψ r + c and Ψ N Ψᵀ + D, or c and D if Ψ is `None`.
    """

    Psi: AbstractMatrix | None
    c: AbstractMatrix
    D: AbstractMatrix


def smooth_chain(
    model: StepModel, chain: Chain, sites: Site, keep_states: bool = False
) -> Smoothed:
    """Compute the cavity of the score at each entry of a chain.

    Args:
        model: the kernel of the chain's group.
        chain: the entries and their times.
        sites: the pseudo-observation of every entry.
        keep_states: whether to return the states for interpolation.

    Returns:
        Means and variances of the cavities, the log normaliser, and the gains.
    """
    filtered = filter_chain(model, chain, sites, keep_states)
    times = step_times(chain)
    after = jax.tree.map(lambda x: jnp.roll(x[0], -1), times)
    rows = jax.vmap(
        functools.partial(_run_back, model, chain.linked, keep_states),
        in_axes=(0, 1, 1, 1, 1),
        out_axes=(1, 1, 0),
    )
    found, outgoing, first = rows(after, times, sites, filtered.mu, filtered.phi)
    incoming, backward = None, None
    if chain.linked:
        backward = found.reach  # pyright: ignore[reportAttributeAccessIssue]
        no_row = _Outgoing(model.identity(), *model.no_information())
        incoming = incoming_states(
            Link(_add_incoming, _join, no_row),
            model.no_information(),
            first,
            chain,
            reverse=True,
        )
        found = _over_entries(functools.partial(_cavity, model))(
            incoming, times, found, sites, filtered.mu, filtered.phi
        )
    states = None
    if keep_states:
        states = States(filtered.state, _over_entries(_resolve)(incoming, outgoing))
    mean, variance = found[0], _without_rounding(found[1])
    gains = Gains(filtered.phi, filtered.reach, backward, filtered.across, first.Psi)
    return Smoothed(mean, variance, filtered.log_normaliser, gains, states)


def _without_rounding(variance: Float[Array, "C R"]) -> Float[Array, "C R"]:
    """Set variances that are negative only by rounding to zero; keep others."""
    rounding = float(jnp.finfo(variance.dtype).eps) ** 0.75 * jnp.max(variance)
    return jnp.where((variance < 0) & (variance > -rounding), 0.0, variance)


def _over_entries(function: Callable) -> Callable:
    """Vectorise a function of a row's incoming adjoint and an entry's values over entries."""

    def apply(incoming, *values):
        # Steps outside, rows inside, as in memory: otherwise XLA transposes all arrays.
        axes = (None, *[0] * len(values))
        return jax.vmap(jax.vmap(function), in_axes=axes)(incoming, *values)

    return apply


def _run_back(
    model: StepModel,
    linked: bool,
    keep_states: bool,
    after: StepTime,
    times: StepTime,
    sites: Site,
    mu: Float[Array, " C"],
    phi: AbstractMatrix,
) -> tuple[_Later | tuple[Float[Array, " C"], Float[Array, " C"]], _Outgoing | None, _Outgoing]:
    """Run the backward pass over one row as if nothing followed it.

    Returns:
        The cavities, or their parts as functions of the incoming adjoint if the chain is
        `linked`; the adjoints of all steps if states are kept; the adjoint of the first step.
    """

    def step(carry, inputs):
        outgoing, following = carry
        time, site, mu, phi = inputs
        h = model.h(time)
        back = model.transition(time, following).T
        r = model.carry(back, outgoing.c, following)
        N = model.carry(back, outgoing.D @ back.T, following).symmetric()
        move = gain(site, mu, dot(h, phi))
        Psi, reach = None, None
        if linked:
            Psi = model.carry(back, outgoing.Psi, following)
            reach = Psi.T @ phi
            Psi = closed_loop(Psi, h, phi, site.precision * move.s)
        outgoing = _Outgoing(Psi, *absorb(Adjoint(r, N), h, phi, site, move))
        kept = outgoing._replace(D=outgoing.D.packed()) if keep_states else None
        found = _Later(dot(phi, r), dot(phi, N @ phi), reach)
        if not linked:
            found = _cavity(model, None, time, found, site, mu, phi)
        return (outgoing, time), (found, kept)

    start = _Outgoing(model.identity() if linked else None, *model.no_information())
    inputs = (times, sites, mu, phi)
    (first, _), (found, kept) = lax.scan(step, (start, after), inputs, reverse=True)
    return found, kept, first


def _join(later: _Outgoing, earlier: _Outgoing) -> _Outgoing:
    """Combine two consecutive rows, the later one first because the pass runs backwards."""
    Psi = earlier.Psi @ later.Psi  # pyright: ignore[reportOperatorIssue]
    return _Outgoing(Psi, *_add_incoming(Adjoint(later.c, later.D), earlier))


def _resolve(incoming: Adjoint | None, outgoing: _Outgoing) -> Adjoint:
    """Compute the adjoint of an entry's predicted state, packed, from the incoming adjoint."""
    adjoint = _add_incoming(incoming, outgoing._replace(D=outgoing.D.symmetric()))
    return Adjoint(adjoint.r, adjoint.N.packed())


def _add_incoming(incoming: Adjoint | None, outgoing: _Outgoing) -> Adjoint:
    Psi, c, D = outgoing
    if incoming is None or Psi is None:
        return Adjoint(c, D)
    return Adjoint(Psi @ incoming.r + c, (Psi @ incoming.N @ Psi.T + D).symmetric())


def _cavity(
    model: StepModel,
    incoming: Adjoint | None,
    time: StepTime,
    later: _Later,
    site: Site,
    mu: Scalar,
    phi: AbstractMatrix,
) -> tuple[Scalar, Scalar]:
    """Compute mean (μ + p + ν s q) / k and variance (v − s q) / k of a cavity, k = 1 + τ s q."""
    p, q = later.p, later.q
    if incoming is not None and later.reach is not None:
        p = p + dot(later.reach, incoming.r)
        q = q + dot(later.reach, incoming.N @ later.reach)
    v = dot(model.h(time), phi)
    s = gain(site, mu, v).s
    k = 1.0 + site.precision * s * q
    return (mu + p + site.precision_mean * s * q) / k, (v - s * q) / k
