"""Sample paths of a feature's score from the posterior, jointly over time.

The posterior of a feature is a Markov process with Gaussian pseudo-observations. A backward pass
computes the information (η, J) of all later sites about the state, without inverting a covariance.
A forward pass then draws each state given the previous state and this information.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxkick._math.small_matrices import AbstractMatrix, Dense, semidefinite_factor
from jaxkick._typing import Array, Bool, Float, Key
from jaxkick.chains.step import Site, StepModel, StepTime
from jaxkick.kernels import AbstractKernel, Epoch
from jaxkick.parameters import resolve

__all__ = ["Timeline", "make_timeline", "sample_paths"]


class Timeline(NamedTuple):
    """The entries of a feature and the requested times, in time order.

    Attributes:
        times: the time of each step.
        sites: the pseudo-observations; zero at requested times.
        asked: the step of each requested time.
    """

    times: StepTime
    sites: Site
    asked: np.ndarray


def make_timeline(
    entry_times: np.ndarray,
    sites: Site,
    times: np.ndarray,
    epoch: float,
    dtype: np.dtype,
    aspects: dict[str, tuple[np.ndarray, float]] | None = None,
) -> Timeline:
    """Merge the entries of a feature with the requested times.

    Args:
        entry_times: float64 times of the feature's entries, increasing; may be empty.
        sites: their pseudo-observations.
        times: float64 times to sample the score at, in any order.
        epoch: the origin of time offsets.
        dtype: floating-point type of the time differences, which are computed in float64.
        aspects: for each aspect the coefficients of the entries, and that of requested times.

    Returns:
        The timeline, padded to a power of two to limit the number of compiled programs.
    """
    merged = np.concatenate([entry_times, times])
    order = np.argsort(merged, kind="stable")
    room = (1 << max(len(merged) - 1, 0).bit_length()) - len(merged)
    sorted_times = np.concatenate([merged[order], np.repeat(merged[order[-1:]], room)])
    first_time = entry_times[0] if len(entry_times) else sorted_times[0]

    def pad_and_sort(values: np.ndarray | Array, asked: float = 0.0) -> np.ndarray:
        whole = np.concatenate([np.asarray(values, np.float64), np.full(len(times), asked)])[order]
        return np.concatenate([whole, np.zeros(room)]).astype(dtype)

    steps = StepTime(
        np.diff(sorted_times, prepend=sorted_times[:1]).astype(dtype),
        (sorted_times - epoch).astype(dtype),
        (sorted_times - first_time).astype(dtype),
        np.arange(len(sorted_times)) == 0,
        aspects and {name: pad_and_sort(*values) for name, values in aspects.items()},
    )
    places = np.argsort(order)
    return Timeline(steps, Site(*map(pad_and_sort, sites)), places[len(entry_times) :])


@eqx.filter_jit
def sample_paths(
    kernel: AbstractKernel,
    epoch: Epoch,
    times: StepTime,
    sites: Site,
    key: Key[Array, ""],
    count: int,
) -> Float[Array, "count T"]:
    """Draw sample paths of one feature's score at all steps of a timeline, with prior mean zero.

    Args:
        kernel: the kernel of the feature's group.
        epoch: the origin of time offsets.
        times: the time of each step.
        sites: the pseudo-observation of each step.
        key: a random key.
        count: the number of paths.
    """
    step = StepModel(resolve(kernel, epoch.coarse.dtype), epoch)
    times, sites = jax.tree.map(jnp.asarray, (times, sites))
    before = jax.tree.map(lambda leaf: jnp.concatenate([leaf[:1], leaf[:-1]]), times)
    dynamics = jax.vmap(lambda before, now: _dynamics(step, before, now))(before, times)
    h = jax.vmap(lambda time: step.h(time).to_array()[:, 0].astype(step.dtype))(times)
    return _draw_forwards(dynamics, _information(dynamics, sites, h), h, key, count)


class _Dynamics(NamedTuple):
    """Transition and noise of each step; zero and the prior covariance for the first."""

    A: Float[Array, "*T K K"]
    Q: Float[Array, "*T K K"]


class _Information(NamedTuple):
    """The information of the sites at and after a step about its state."""

    eta: Float[Array, "*T K"]
    J: Float[Array, "*T K K"]


def _dynamics(step: StepModel, before: StepTime, now: StepTime) -> _Dynamics:
    first: Bool[Array, ""] = now.first

    def array(small: AbstractMatrix) -> Array:
        return small.filled(step.dtype).to_array()

    A = jnp.where(first, 0.0, array(step.transition(before, now)))
    noise = array(step.noise_cov(before, now).symmetric())
    return _Dynamics(A, jnp.where(first, array(step.prior_cov(now).symmetric()), noise))


def _information(dynamics: _Dynamics, sites: Site, h: Float[Array, "T K"]) -> _Information:
    """Propagate the information backwards, from the last step to the first."""
    identity = jnp.eye(h.shape[1], dtype=h.dtype)

    def back(following: _Information, inputs) -> tuple[_Information, _Information]:
        (A_next, Q_next), site, h = inputs
        # Given this state x, the next state is N(A x, Q), so Q reduces its information about x.
        both = jnp.concatenate([following.J, following.eta[:, None]], axis=1)
        both = jnp.linalg.solve(identity + following.J @ Q_next, both)
        J_seen, eta_seen = both[:, :-1], both[:, -1]
        eta = A_next.T @ eta_seen + h * site.precision_mean
        J = A_next.T @ J_seen @ A_next + jnp.outer(h, h) * site.precision
        now = _Information(eta, 0.5 * (J + J.T))
        return now, now

    nothing = _Information(jnp.zeros_like(h[0]), jnp.zeros_like(identity))
    after = jax.tree.map(lambda leaf: jnp.concatenate([leaf[1:], leaf[:1] * 0.0]), dynamics)
    return lax.scan(back, nothing, (after, sites, h), reverse=True)[1]


def _draw_forwards(
    dynamics: _Dynamics,
    ahead: _Information,
    h: Float[Array, "T K"],
    key: Key[Array, ""],
    count: int,
) -> Float[Array, "count T"]:
    size = h.shape[1]
    identity = jnp.eye(size, dtype=h.dtype)

    def given_previous(A: Array, Q: Array, eta: Array, J: Array) -> tuple[Array, Array, Array]:
        """Compute gain, shift and a root of the covariance of a state given the previous state."""
        covariance = jnp.linalg.solve(identity + Q @ J, Q)
        covariance = 0.5 * (covariance + covariance.T)
        root = semidefinite_factor(Dense(covariance)).to_array()
        return (identity - covariance @ J) @ A, covariance @ eta, root

    gains, shifts, roots = jax.vmap(given_previous)(*dynamics, *ahead)
    draws = jax.random.normal(key, (len(gains), count, size), h.dtype)

    def forward(state, inputs):
        gain, shift, root, draw, h = inputs
        state = state @ gain.T + shift + draw @ root.T
        return state, state @ h

    start = jnp.zeros((count, size), h.dtype)
    return lax.scan(forward, start, (gains, shifts, roots, draws, h))[1].T
