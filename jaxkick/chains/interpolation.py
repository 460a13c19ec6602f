"""Scores at any time, between, before or after the entries of a feature."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxkick._math.small_matrices import dot
from jaxkick._typing import Array, Float, Int, Scalar
from jaxkick.chains.layout import Chain
from jaxkick.chains.smoother import States
from jaxkick.chains.step import Adjoint, State, StepModel, StepTime

__all__ = ["Queries", "interpolate"]


class Queries(NamedTuple):
    """Times at which to evaluate scores of features of one chain.

    Attributes:
        left: flat position in the chain of the last entry at or before the time; -1 if none.
        right: flat position in the chain of the next entry; -1 if none.
        left_gap: time since the left entry.
        right_gap: time until the right entry.
        offset: time since the data's epoch.
        age: time since the feature's first entry; used where there is no neighbour.
        aspects: coefficients by the name of the aspect; `None` for the general skill.
    """

    left: Int[Array, " Q"]
    right: Int[Array, " Q"]
    left_gap: Float[Array, " Q"]
    right_gap: Float[Array, " Q"]
    offset: Float[Array, " Q"]
    age: Float[Array, " Q"]
    aspects: dict[str, Float[Array, " Q"]] | None = None


def interpolate(
    model: StepModel, chain: Chain, states: States, queries: Queries
) -> tuple[Float[Array, " Q"], Float[Array, " Q"]]:
    """Compute posterior means and variances of scores at any times, in constant time each.

    Args:
        model: the kernel of the chain's group.
        chain: the entries and their times.
        states: the states from the smoother.
        queries: the times and their neighbouring entries.

    Returns:
        Means and variances; those of the prior for features without entries.
    """

    def at(tree, positions):
        return jax.tree.map(lambda leaf: _take(leaf, positions, chain.gap.ndim), tree)

    def neighbour(positions, gap):
        return StepTime(gap, at(chain.offset, positions), at(chain.age, positions), positions < 0)

    # From a neighbour, whose age counts from the first entry that is not masked out.
    age = jnp.where(
        queries.left >= 0,
        at(chain.age, queries.left) + queries.left_gap,
        jnp.where(
            queries.right >= 0, at(chain.age, queries.right) - queries.right_gap, queries.age
        ),
    )
    now = StepTime(queries.left_gap, queries.offset, age, queries.left < 0, queries.aspects)
    return jax.vmap(_between, in_axes=(None, 0, 0, 0, 0, 0))(
        model,
        at(states.past, queries.left),
        neighbour(queries.left, queries.left_gap),
        now,
        neighbour(queries.right, queries.right_gap),
        at(states.future, queries.right),
    )


def _take(leaf: Array, positions: Int[Array, " Q"], chain_ndim: int) -> Array:
    """Take values at flat positions of the chain; arbitrary values for position -1."""
    flat = leaf.reshape(-1, *leaf.shape[chain_ndim:])
    return jnp.take(flat, jnp.maximum(positions, 0), axis=0, mode="clip")


def _between(
    model: StepModel, past: State, left: StepTime, now: StepTime, right: StepTime, future: Adjoint
) -> tuple[Scalar, Scalar]:
    """Compute mean hᵀ(m + P r) and variance hᵀ(P − P N P) h from both neighbours."""
    h = model.h(now)
    A, back = model.transition(left, now), model.transition(now, right).T
    m = model.carry(A, past.m, now)
    P = model.predict_cov(A, past.P.symmetric(), left, now)
    r = model.carry(back, future.r, right)
    N = model.carry(back, future.N.symmetric() @ back.T, right)
    phi = P @ h
    # Rounding may make a variance of zero slightly negative.
    variance = jnp.maximum(dot(h, phi) - dot(phi, N @ phi), 0.0)
    return dot(h, m) + dot(phi, r), variance
