"""Samples of score paths from the posterior, jointly over time.

A feature's posterior is that of a Markov process with Gaussian pseudo-observations. What the
sites from a time on say of the state there is carried backwards as information (η, J), which
asks for no inverse of a covariance; then the path is drawn forwards, each state given the one
before and the information that lies ahead.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxkick._parameters import resolve
from jaxkick._smallmat import AbstractMatrix, Dense, semidefinite_factor
from jaxkick._typing import Array, Bool, Float, Key
from jaxkick.kernels.base import AbstractKernel
from jaxkick.kernels.time import Epoch
from jaxkick.statespace.step import Moment, Site, StepModel

__all__ = ["Timeline", "make_timeline", "sample_paths"]


class Timeline(NamedTuple):
    """The entries of a feature and the times that are asked for, in the order of time.

    Attributes:
        moments: where the steps stand in time.
        sites: the pseudo-observations; zero at times that are only asked for.
        asked: for each time that is asked for, its step.
    """

    moments: Moment
    sites: Site
    asked: np.ndarray


def make_timeline(
    entry_times: np.ndarray, sites: Site, times: np.ndarray, epoch: float, dtype: np.dtype
) -> Timeline:
    """Merge the entries of a feature with the times that are asked for.

    Args:
        entry_times: float64 times of the feature's entries, increasing; may be none.
        sites: their pseudo-observations.
        times: float64 times to draw the score at, in any order.
        epoch: the time that offsets count from.
        dtype: floating-point type of the differences, which are taken in float64.

    Returns:
        The timeline, its steps in a number that is a power of two.
    """
    merged = np.concatenate([entry_times, times])
    order = np.argsort(merged, kind="stable")
    room = (1 << max(len(merged) - 1, 0).bit_length()) - len(merged)
    sorted_times = np.concatenate([merged[order], np.repeat(merged[order[-1:]], room)])
    first_time = entry_times[0] if len(entry_times) else sorted_times[0]
    first = np.zeros(len(sorted_times), bool)
    first[0] = True
    silent = np.zeros(len(times))

    def along(values: Array) -> np.ndarray:
        whole = np.concatenate([np.asarray(values, np.float64), silent])[order]
        return np.concatenate([whole, np.zeros(room)]).astype(dtype)

    moments = Moment(
        np.diff(sorted_times, prepend=sorted_times[:1]).astype(dtype),
        (sorted_times - epoch).astype(dtype),
        (sorted_times - first_time).astype(dtype),
        first,
    )
    places = np.empty(len(merged), np.int64)
    places[order] = np.arange(len(merged))
    return Timeline(moments, Site(*map(along, sites)), places[len(entry_times) :])


@eqx.filter_jit
def sample_paths(
    kernel: AbstractKernel,
    epoch: Epoch,
    moments: Moment,
    sites: Site,
    key: Key[Array, ""],
    count: int,
) -> Float[Array, "count T"]:
    """Draw paths of one feature's score at all steps of a timeline, around a mean of zero.

    Args:
        kernel: the kernel of the feature's group.
        epoch: the time that offsets count from.
        moments: where the steps stand in time.
        sites: their pseudo-observations.
        key: a random key.
        count: how many paths.

    Returns:
        The scores.
    """
    step = StepModel(resolve(kernel, epoch.coarse.dtype), epoch)
    moments, sites = jax.tree.map(jnp.asarray, (moments, sites))
    matrices = jax.vmap(lambda before, now: _dynamics(step, before, now))(
        _previous(moments), moments
    )
    ahead = _information(matrices, sites, step.h.to_array()[:, 0].astype(step.dtype))
    return _draw_forwards(step, matrices, ahead, key, count)


class _Dynamics(NamedTuple):
    """Transition and noise into a step; zero and the prior covariance into the first."""

    A: Float[Array, "K K"]
    Q: Float[Array, "K K"]


class _Information(NamedTuple):
    """What the sites from a step on say of its state."""

    eta: Float[Array, " K"]
    J: Float[Array, "K K"]


def _dynamics(step: StepModel, before: Moment, now: Moment) -> _Dynamics:
    first: Bool[Array, ""] = now.first

    def array(small: AbstractMatrix) -> Array:
        return small.filled(step.dtype).to_array()

    A = jnp.where(first, 0.0, array(step.transition(before, now)))
    noise = array(step.noise_cov(before, now).symmetric())
    return _Dynamics(A, jnp.where(first, array(step.prior_cov(now).symmetric()), noise))


def _information(matrices: _Dynamics, sites: Site, h: Float[Array, " K"]) -> _Information:
    """The information from every step on, backwards."""
    identity = jnp.eye(len(h), dtype=h.dtype)

    def back(following: _Information, inputs) -> tuple[_Information, _Information]:
        (A_next, Q_next), site = inputs
        # Given the present state, the next one is N(A x, Q): its information seen through Q.
        both = jnp.concatenate([following.J, following.eta[:, None]], axis=1)
        both = jnp.linalg.solve(identity + following.J @ Q_next, both)
        reach, carried = both[:, :-1], both[:, -1]
        eta = A_next.T @ carried + h * site.precision_mean
        J = A_next.T @ reach @ A_next + jnp.outer(h, h) * site.precision
        now = _Information(eta, 0.5 * (J + J.T))
        return now, now

    nothing = _Information(jnp.zeros_like(h), jnp.zeros((len(h), len(h)), h.dtype))
    after = jax.tree.map(lambda leaf: jnp.concatenate([leaf[1:], leaf[:1] * 0.0]), matrices)
    return lax.scan(back, nothing, (after, sites), reverse=True)[1]


def _draw_forwards(
    step: StepModel, matrices: _Dynamics, ahead: _Information, key: Key[Array, ""], count: int
) -> Float[Array, "count T"]:
    h = step.h.to_array()[:, 0].astype(step.dtype)
    identity = jnp.eye(len(h), dtype=h.dtype)

    def given(dynamics: _Dynamics, information: _Information):
        """How the state follows from the one before: gain, shift and factor of its noise."""
        narrowed = jnp.linalg.solve(identity + dynamics.Q @ information.J, dynamics.Q)
        narrowed = 0.5 * (narrowed + narrowed.T)
        gain = (identity - narrowed @ information.J) @ dynamics.A
        return gain, narrowed @ information.eta, _factor(narrowed)

    gains, shifts, factors = jax.vmap(given)(matrices, ahead)
    draws = jax.random.normal(key, (len(gains), count, len(h)), h.dtype)

    def forward(state, inputs):
        gain, shift, factor, draw = inputs
        state = state @ gain.T + shift + draw @ factor.T
        return state, state @ h

    start = jnp.zeros((count, len(h)), h.dtype)
    return lax.scan(forward, start, (gains, shifts, factors, draws))[1].T


def _factor(covariance: Float[Array, "K K"]) -> Float[Array, "K K"]:
    """A root of a covariance that may be singular."""
    return semidefinite_factor(Dense(covariance)).to_array()


def _previous(moments: Moment) -> Moment:
    return jax.tree.map(lambda leaf: jnp.concatenate([leaf[:1], leaf[:-1]]), moments)
