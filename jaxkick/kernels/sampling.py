"""Samples of score processes from their prior."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import ArrayLike

from jaxkick._parameters import resolve
from jaxkick._smallmat import AbstractMatrix, adapt, semidefinite_factor
from jaxkick._tracing import is_known
from jaxkick._typing import Array, Float, Key
from jaxkick.kernels.base import AbstractKernel
from jaxkick.kernels.time import Epoch, Instant, Interval

__all__ = ["sample_prior"]


def sample_prior(
    kernel: AbstractKernel,
    times: ArrayLike,
    key: Key[Array, ""],
    shape: tuple[int, ...] = (),
) -> Float[Array, "*shape times"]:
    """Draw score processes from the prior, jointly at all `times`.

    Exact for the kernel's state space, in time linear in the number of `times`.

    Args:
        kernel: the kernel of the processes.
        times: a one-dimensional array in the data's unit, in any order; the earliest is
            the first time of the feature. Times known outside `jit` are subtracted in
            float64.
        key: a random key.
        shape: the shape of the batch of independent processes.

    Returns:
        The scores, in the order of `times`.

    Raises:
        ValueError: if `times` is not one-dimensional, is empty or has a missing value.
    """
    order, instants, gaps = _timeline(times)
    size = (gaps.shape[0] + 1, math.prod(shape), kernel.state_dim)
    draws = jax.random.normal(key, size, gaps.dtype)
    return _propagate(kernel, order, instants, gaps, draws).reshape(*shape, -1)


@eqx.filter_jit
def _propagate(
    kernel: AbstractKernel,
    order: Array,
    instants: Instant,
    gaps: Float[Array, " steps"],
    draws: Float[Array, "times samples K"],
) -> Float[Array, "samples times"]:
    """Carry standard normal `draws` through the state space."""
    dtype = gaps.dtype
    resolved = resolve(kernel, dtype)
    size = kernel.state_dim

    def array(small: AbstractMatrix) -> Array:
        return small.to_array().astype(dtype)

    def step_of(start: Instant, end: Instant, gap: Array) -> tuple[Array, Array]:
        interval = Interval(start, end, gap)
        noise = adapt(resolved.noise_cov(interval), size, dtype)
        return array(resolved.transition(interval)), array(semidefinite_factor(noise))

    def advance(state: Array, inputs: tuple[Array, ...]) -> tuple[Array, Array]:
        transition, factor, draws = inputs
        state = state @ transition.T + draws @ factor.T
        return state, state

    before, after = (_part(instants, part) for part in (slice(None, -1), slice(1, None)))
    steps = jax.vmap(step_of)(before, after, gaps)
    initial = adapt(resolved.state_cov(_part(instants, 0)), size, dtype)
    state = draws[0] @ array(semidefinite_factor(initial)).T
    _, states = jax.lax.scan(advance, state, (*steps, draws[1:]))
    states = jnp.concatenate([state[None], states])
    scores = states @ array(resolved.measurement())[:, 0]
    return jnp.zeros_like(scores).at[order].set(scores).T


def _timeline(times: ArrayLike) -> tuple[Array, Instant, Array]:
    """The order of the times, the sorted instants and the gaps between them."""
    dtype = jnp.result_type(float)
    traced = not is_known(times)
    numpy = jnp if traced else np
    known = jnp.asarray(times) if traced else np.asarray(times, dtype=np.float64)
    if known.ndim != 1 or known.size == 0:
        raise ValueError(f"`times` must be a list of one time or more, not of shape {known.shape}.")
    if not traced and not np.all(np.isfinite(known)):
        row = int(np.flatnonzero(~np.isfinite(known))[0])
        raise ValueError(f"`times` is missing or infinite in row {row}; drop it.")
    order = numpy.argsort(known)
    ordered = known[order]
    first = ordered[0]
    elapsed = jnp.asarray(ordered - first, dtype)
    epoch = Epoch(first.astype(dtype), jnp.zeros((), dtype)) if traced else Epoch.at(first, dtype)
    epoch = jax.tree.map(lambda part: jnp.broadcast_to(part, elapsed.shape), epoch)
    return order, Instant(elapsed, elapsed, epoch), jnp.asarray(numpy.diff(ordered), dtype)


def _part(instants: Instant, part: int | slice) -> Instant:
    return jax.tree.map(lambda array: array[part], instants)
