"""Scores at any time, between, before or after the entries of a feature."""

import functools
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from jaxkick._math.small_matrices import AbstractMatrix, dot
from jaxkick._typing import Array, Float, Int, Scalar
from jaxkick._xla import is_known, on_host
from jaxkick.chains.layout import Chain
from jaxkick.chains.smoother import States
from jaxkick.chains.step import Adjoint, State, StepModel, StepTime

__all__ = [
    "Functional",
    "Queries",
    "functionals",
    "interpolate",
    "keep_neighbours",
    "query_times",
    "take_entries",
]

Tree = TypeVar("Tree")


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


class Functional(NamedTuple):
    """A score at a time, as a function of its neighbours.

    Given the mean m of the state after the left entry and the adjoint (r, N) of the right one,
    its mean is Bᵀm + Fᵀr and its variance hᵀφ − FᵀNF.

    Attributes:
        time: the time.
        phi: φ = P h of the state given the left entry and all earlier ones.
        B: Aᵀh, with A the transition from the left entry; zero if there is none.
        F: A φ, with A the transition to the right entry; zero if there is none.
    """

    time: StepTime
    phi: AbstractMatrix
    B: AbstractMatrix
    F: AbstractMatrix


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

    def between(found: Functional, past: State, future: Adjoint) -> tuple[Scalar, Scalar]:
        N = future.N.symmetric()
        variance = dot(model.h(found.time), found.phi) - dot(found.F, N @ found.F)
        # Rounding may make a variance of zero slightly negative.
        return dot(found.B, past.m) + dot(found.F, future.r), jnp.maximum(variance, 0.0)

    return jax.vmap(between)(
        functionals(model, chain, states, queries),
        take_entries(states.past, queries.left),
        take_entries(states.future, queries.right),
    )


def keep_neighbours(
    chain: Chain, states: States | None, queries: Queries
) -> tuple[Chain, States | None, Queries]:
    """Keep only the entries beside the queries, whose positions are known to the host.

    A program that reads them depends on the number of queries and not on the shape of the data, so
    that it serves data of all sizes.
    """
    near = np.concatenate([queries.left, queries.right])
    count, positions = len(queries.left), np.maximum(near, 0)
    tree = (chain, states)
    if jax.default_backend() == "cpu" and all(map(is_known, jax.tree.leaves(tree))):
        chain, states = jax.tree.map(lambda leaf: on_host(_pick, leaf, positions), tree)
    else:
        # Of arrays on other devices, only the neighbours are copied.
        chain, states = _pick_all(tree, positions)
    chain = replace(chain, linked=False, slots=(), few=0, mesh=None)
    places = np.where(near >= 0, np.arange(2 * count), -1).astype(np.int32)
    return chain, states, queries._replace(left=places[:count], right=places[count:])


def _pick(leaf: Any, positions: Any) -> Any:
    """The values at flat positions, as a column; arrays of NumPy or JAX."""
    return leaf.reshape(-1, *leaf.shape[2:])[positions][:, None]


@jax.jit
def _pick_all(tree: Tree, positions: Int[Array, " n"]) -> Tree:
    return jax.tree.map(lambda leaf: _pick(leaf, positions), tree)


def functionals(model: StepModel, chain: Chain, states: States, queries: Queries) -> Functional:
    """Express scores at any times by their neighbours; see `interpolate` for the arguments."""
    left, now, right = _neighbours(chain, queries)
    covariance = take_entries(states.past.P, queries.left)
    return jax.vmap(functools.partial(_functional, model))(covariance, left, now, right)


def query_times(chain: Chain, queries: Queries) -> StepTime:
    """The times of queries, with the ages of their features."""
    return _neighbours(chain, queries)[1]


def _neighbours(chain: Chain, queries: Queries) -> tuple[StepTime, StepTime, StepTime]:
    """The times of the left entries, of the queries and of the right entries."""

    def neighbour(positions, gap):
        offset, age = take_entries((chain.offset, chain.age), positions)
        return StepTime(gap, offset, age, positions < 0)

    left = neighbour(queries.left, queries.left_gap)
    right = neighbour(queries.right, queries.right_gap)
    # From a neighbour, whose age counts from the first entry that is not masked out.
    age = jnp.where(
        queries.left >= 0,
        left.age + queries.left_gap,
        jnp.where(queries.right >= 0, right.age - queries.right_gap, queries.age),
    )
    now = StepTime(queries.left_gap, queries.offset, age, queries.left < 0, queries.aspects)
    return left, now, right


def take_entries(tree: Tree, positions: Int[Array, " Q"]) -> Tree:
    """Take values at flat positions of a chain; arbitrary values for position -1."""

    def take(leaf: Array) -> Array:
        flat = leaf.reshape(-1, *leaf.shape[2:])
        return jnp.take(flat, jnp.maximum(positions, 0), axis=0, mode="clip")

    return jax.tree.map(take, tree)


def _functional(
    model: StepModel, P: AbstractMatrix, left: StepTime, now: StepTime, right: StepTime
) -> Functional:
    h, A = model.h(now), model.transition(left, now)
    phi = model.predict_cov(A, P.symmetric(), left, now) @ h
    F = model.carry(model.transition(now, right), phi, right)
    return Functional(now, phi, model.carry(A.T, h, now), F)
