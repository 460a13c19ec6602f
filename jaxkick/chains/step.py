"""One step of the filter and of the backward pass, for one feature, on small matrices.

The smoother runs these steps along the rows of a chain. Letters as in `jaxkick._typing`;
a site is a Gaussian pseudo-observation of the score with natural parameters
``precision_mean`` (ν) and ``precision`` (τ).
"""

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp

from jaxkick._math.normal import log
from jaxkick._math.small_matrices import AbstractMatrix, adapt, dot, identity, select, zeros
from jaxkick._typing import Array, Bool, Float, Scalar
from jaxkick.kernels import AbstractKernel, Epoch, Instant, Interval

__all__ = [
    "Adjoint",
    "Gain",
    "Site",
    "State",
    "StepModel",
    "StepTime",
    "absorb",
    "closed_loop",
    "gain",
    "log_normaliser",
    "update",
]


class StepTime(NamedTuple):
    """The time of a step."""

    gap: Scalar
    offset: Scalar
    age: Scalar
    first: Bool


class Site(NamedTuple):
    """The natural parameters of a Gaussian pseudo-observation."""

    precision_mean: Scalar
    precision: Scalar


class State(NamedTuple):
    """Mean and covariance of the state."""

    m: AbstractMatrix
    P: AbstractMatrix


class Adjoint(NamedTuple):
    """The information of later observations: the state has mean m + P r, covariance P − P N P."""

    r: AbstractMatrix
    N: AbstractMatrix


class Gain(NamedTuple):
    """The gain of a site on the score: s = 1 / (1 + τ v) and g = (ν − τ μ) s."""

    s: Scalar
    g: Scalar


def gain(site: Site, mu: Float[Array, "*entries"], v: Float[Array, "*entries"]) -> Gain:
    """The gain of a site on a score with predicted mean `mu` and variance `v`."""
    s = 1.0 / (1.0 + site.precision * v)
    return Gain(s, (site.precision_mean - site.precision * mu) * s)


def log_normaliser(
    site: Site,
    mu: Float[Array, "*entries"],
    v: Float[Array, "*entries"],
    s: Float[Array, "*entries"],
) -> Float[Array, "*entries"]:
    """Logarithm of the integral of N(f; mu, v) exp(ν f − τ f² / 2).

    Where a negative τ makes the integral infinite, its analytic continuation: a later site
    that is positive enough makes up for it, and the sum of both is right.
    """
    nu, tau = site
    # Not `log1p`, which takes several times as long: the sum over a chain counts, not small terms.
    log_abs = log(jnp.abs(1.0 + tau * v))
    return 0.5 * ((nu * nu * v + 2.0 * nu * mu - tau * mu * mu) * s - log_abs)


class StepModel(eqx.Module):
    """A kernel read at the steps of a chain, in the representation that suits its size."""

    kernel: AbstractKernel
    epoch: Epoch

    @property
    def state_dim(self) -> int:
        """The dimension of the state."""
        return self.kernel.state_dim

    @property
    def dtype(self) -> jnp.dtype:
        """The floating-point type of times and states."""
        return self.epoch.coarse.dtype

    @property
    def h(self) -> AbstractMatrix:
        """The measurement vector."""
        return self._adapt(self.kernel.measurement())

    def origin(self) -> State:
        """A state of zeros, as a loop's first carry."""
        return State(self._zeros(1), self._zeros(self.state_dim))

    def no_information(self) -> Adjoint:
        """The adjoint where no observation follows."""
        return Adjoint(self._zeros(1), self._zeros(self.state_dim))

    def identity(self) -> AbstractMatrix:
        """The identity, as a loop's first carry."""
        return self._adapt(identity(self.state_dim)).filled(self.dtype)

    def prior_cov(self, moment: StepTime) -> AbstractMatrix:
        """The covariance of the state before any observation."""
        return self.prior_cov_at(moment.offset, moment.age)

    def prior_cov_at(self, offset: Scalar, age: Scalar) -> AbstractMatrix:
        """The covariance of the state before any observation, at a time."""
        return self._read(self.kernel.state_cov, Instant(offset, age, self.epoch))

    def transition(self, start: StepTime, end: StepTime) -> AbstractMatrix:
        """A between two steps of one feature."""
        return self._read(self.kernel.transition, self._interval(start, end))

    def noise_cov(self, start: StepTime, end: StepTime) -> AbstractMatrix:
        """Q between two steps of one feature."""
        return self._read(self.kernel.noise_cov, self._interval(start, end))

    def carry(self, A: AbstractMatrix, state: AbstractMatrix, end: StepTime) -> AbstractMatrix:
        """A times `state`, or zero where `end` opens a feature."""
        moved = A @ state
        return select(end.first, self._zeros(moved.shape[1]), moved)

    def predict_cov(
        self, A: AbstractMatrix, P: AbstractMatrix, start: StepTime, end: StepTime
    ) -> AbstractMatrix:
        """A P Aᵀ + Q, or the prior covariance where `end` opens a feature."""
        moved = (A @ P @ A.T + self.noise_cov(start, end)).symmetric()
        return select(end.first, self.prior_cov(end), moved).filled(self.dtype)

    def _zeros(self, columns: int) -> AbstractMatrix:
        return self._adapt(zeros(self.state_dim, columns)).filled(self.dtype)

    def _read(
        self, function: Callable[..., AbstractMatrix], when: Instant | Interval
    ) -> AbstractMatrix:
        """A matrix of the kernel, with all digits on accelerators, too."""
        with jax.default_matmul_precision("highest"):
            return self._adapt(function(when))

    def _adapt(self, small: AbstractMatrix) -> AbstractMatrix:
        return adapt(small, self.state_dim, self.dtype)

    def _instant(self, moment: StepTime) -> Instant:
        return Instant(moment.offset, moment.age, self.epoch)

    def _interval(self, start: StepTime, end: StepTime) -> Interval:
        return Interval(self._instant(start), self._instant(end), end.gap)


def update(state: State, phi: AbstractMatrix, site: Site, move: Gain) -> State:
    """The state after a site: m + φ g and P − τ s φ φᵀ."""
    shrink = (phi @ phi.T) * (site.precision * move.s)
    return State(state.m + phi * move.g, (state.P - shrink).symmetric())


def absorb(
    adjoint: Adjoint, h: AbstractMatrix, phi: AbstractMatrix, site: Site, move: Gain
) -> Adjoint:
    """The adjoint of a predicted state, from that of the state after its site."""
    weight = site.precision * move.s
    r = adjoint.r + h * (move.g - weight * dot(phi, adjoint.r))
    closed = closed_loop(adjoint.N, h, phi, weight)
    N = closed_loop(closed.T, h, phi, weight) + (h @ h.T) * weight
    return Adjoint(r, N.symmetric())


def closed_loop(
    small: AbstractMatrix, h: AbstractMatrix, phi: AbstractMatrix, weight: Scalar
) -> AbstractMatrix:
    """(I − w h φᵀ) times a matrix."""
    return small - h @ (phi.T @ small) * weight
