"""One pass over matches: predict, look at the outcome, match moments, go on.

With predicted mean μ and variance v of a feature's score, φ = P h, coefficient x, and δ₁ and
δ₂ the derivatives of the match's log-partition function, the state moves to

    m + φ x δ₁      P + x² δ₂ φ φᵀ,

which is the first step of expectation propagation, taken once (assumed-density filtering).
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxkick._parameters import resolve
from jaxkick._smallmat import AbstractMatrix
from jaxkick._typing import Array, Bool, Float, Int
from jaxkick.kernels.base import AbstractKernel
from jaxkick.kernels.time import Epoch
from jaxkick.likelihoods.base import AbstractLikelihood
from jaxkick.statespace.step import Moment, StepModel

__all__ = ["Batch", "GroupBatch", "GroupState", "carry_scores", "empty_state", "run_batch"]


class GroupState(NamedTuple):
    """The states of all features of a group, each after its last match; the last row is spare."""

    m: Float[Array, "M K"]
    P: Float[Array, "M K K"]


class GroupBatch(NamedTuple):
    """Who of a group takes part in matches.

    Attributes:
        row: the row of each slot's feature; the spare one in an empty slot.
        coefficient: its coefficient; 0 in an empty slot.
        mean: its prior mean.
        moment: where it stands in time, since its previous match.
    """

    row: Int[np.ndarray, "B S"]
    coefficient: Float[np.ndarray, "B S"]
    mean: Float[np.ndarray, "B S"]
    moment: Moment


class Batch(NamedTuple):
    """Matches in the order of time.

    Attributes:
        groups: who takes part, group by group.
        outcome: the outcome of each match.
        weight: its weight, or `None`.
        there: whether it is a match, and not padding.
    """

    groups: tuple[GroupBatch, ...]
    outcome: Float[np.ndarray, " B"]
    weight: Float[np.ndarray, " B"] | None
    there: Bool[np.ndarray, " B"]


def empty_state(kernel: AbstractKernel, rows: int, dtype: np.dtype) -> GroupState:
    """States of zero for some features and a spare one."""
    size = kernel.state_dim
    return GroupState(jnp.zeros((rows + 1, size), dtype), jnp.zeros((rows + 1, size, size), dtype))


@eqx.filter_jit
def run_batch(
    kernels: tuple[AbstractKernel, ...],
    likelihood: AbstractLikelihood,
    epoch: Epoch,
    states: tuple[GroupState, ...],
    batch: Batch,
) -> tuple[tuple[GroupState, ...], Float[Array, " B"]]:
    """See matches one after the other.

    Args:
        kernels: the kernel of each group.
        likelihood: how outcomes follow from scores.
        epoch: the time that offsets count from.
        states: the states of all features, group by group.
        batch: the matches.

    Returns:
        The new states, and the log-probability of each outcome before it was seen.
    """
    dtype = epoch.coarse.dtype
    steps = [StepModel(resolve(kernel, dtype), epoch) for kernel in kernels]
    likelihood = resolve(likelihood, dtype)

    def see(states: tuple[GroupState, ...], match: Batch):
        parts = list(zip(steps, states, match.groups, strict=True))
        predicted = [_predict(step, state, part) for step, state, part in parts]
        means, variances = zip(
            *(
                _combine(step, part, at)
                for (step, _, part), at in zip(parts, predicted, strict=True)
            ),
            strict=True,
        )
        value, first, second = likelihood.log_partition(
            match.outcome, sum(means), sum(variances), match.weight
        )
        first, second = (jnp.where(match.there, part, 0.0) for part in (first, second))
        moved = tuple(
            _absorb(step, state, part, at, first, second)
            for (step, state, part), at in zip(parts, predicted, strict=True)
        )
        return moved, jnp.where(match.there, value, 0.0)

    return lax.scan(see, states, jax.tree.map(jnp.asarray, batch))


@eqx.filter_jit
def carry_scores(
    kernel: AbstractKernel,
    epoch: Epoch,
    state: GroupState,
    rows: Int[np.ndarray, " Q"],
    moments: Moment,
) -> tuple[Float[Array, " Q"], Float[Array, " Q"]]:
    """Means and variances of scores at later times, around a mean of zero."""
    step = StepModel(resolve(kernel, epoch.coarse.dtype), epoch)
    moments = jax.tree.map(jnp.asarray, moments)
    at = jax.vmap(lambda m, P, now: _carry(step, m, P, now))(state.m[rows], state.P[rows], moments)
    h = _array(step, step.h)[:, 0]
    return at.m @ h, jnp.einsum("i,qij,j->q", h, at.P, h)


def _predict(step: StepModel, state: GroupState, part: GroupBatch) -> GroupState:
    """The states of a match's features at its time."""
    carry = jax.vmap(lambda m, P, now: _carry(step, m, P, now))
    return carry(state.m[part.row], state.P[part.row], part.moment)


def _carry(step: StepModel, m: Array, P: Array, now: Moment) -> GroupState:
    before = Moment(now.gap, now.offset - now.gap, now.age - now.gap, now.first)
    A = jnp.where(now.first, 0.0, _array(step, step.transition(before, now)))
    noise = _array(step, step.noise_cov(before, now).symmetric())
    prior = _array(step, step.prior_cov(now).symmetric())
    return GroupState(A @ m, A @ P @ A.T + jnp.where(now.first, prior, noise))


def _combine(step: StepModel, part: GroupBatch, at: GroupState) -> tuple[Array, Array]:
    """What a group adds to mean and variance of a match's score."""
    h, x = _array(step, step.h)[:, 0], part.coefficient
    mean = jnp.sum(x * (at.m @ h + part.mean))
    return mean, jnp.sum(x * x * jnp.einsum("i,sij,j->s", h, at.P, h))


def _absorb(
    step: StepModel,
    state: GroupState,
    part: GroupBatch,
    at: GroupState,
    first: Array,
    second: Array,
) -> GroupState:
    """The states with those of a match's features moved by its outcome."""
    phi = at.P @ _array(step, step.h)[:, 0]
    x = part.coefficient[:, None]
    m = at.m + phi * x * first
    P = at.P + (phi[:, :, None] * phi[:, None, :]) * (x * x * second)[:, :, None]
    P = 0.5 * (P + jnp.swapaxes(P, 1, 2))
    return GroupState(state.m.at[part.row].set(m), state.P.at[part.row].set(P))


def _array(step: StepModel, small: AbstractMatrix) -> Array:
    return small.filled(step.dtype).to_array()
