"""A single step of the filter and of the backward pass for one feature.

The smoother runs these steps along the rows of a chain. `jaxkick._typing` explains the letters. A
site is a Gaussian pseudo-observation of the score with natural parameters ``precision_mean`` (ν)
and ``precision`` (τ).
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
    """Time since the previous entry, since the epoch and since the first entry of the feature.

    `aspects` are the coefficients of the entry by the name of the aspect, in data with aspects.
    """

    gap: Scalar
    offset: Scalar
    age: Scalar
    first: Bool
    aspects: dict[str, Scalar] | None = None


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
    """Compute the gain of a site on a score with predicted mean `mu` and variance `v`."""
    s = 1.0 / (1.0 + site.precision * v)
    return Gain(s, (site.precision_mean - site.precision * mu) * s)


def log_normaliser(
    site: Site,
    mu: Float[Array, "*entries"],
    v: Float[Array, "*entries"],
    s: Float[Array, "*entries"],
) -> Float[Array, "*entries"]:
    """Compute the logarithm of the integral of N(f; mu, v) exp(ν f − τ f² / 2).

    If a negative τ makes the integral infinite, the result is its analytic continuation. A later
    site with a large enough τ compensates for it, and the sum over the chain is correct.
    """
    nu, tau = site
    # `log1p` takes several times as long, and small terms do not matter in the sum over a chain.
    log_abs = log(jnp.abs(1.0 + tau * v))
    return 0.5 * ((nu * nu * v + 2.0 * nu * mu - tau * mu * mu) * s - log_abs)


class StepModel(eqx.Module):
    """The matrices of a kernel at the steps of a chain."""

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

    def h(self, time: StepTime) -> AbstractMatrix:
        """The measurement vector, which depends on the aspects of an entry."""
        return self._adapt(self.kernel.measurement_at(time.aspects))

    def origin(self) -> State:
        """A zero state, as the initial carry of a loop."""
        return State(self._zeros(1), self._zeros(self.state_dim))

    def no_information(self) -> Adjoint:
        """The adjoint if no observation follows."""
        return Adjoint(self._zeros(1), self._zeros(self.state_dim))

    def identity(self) -> AbstractMatrix:
        """The identity matrix, as the initial carry of a loop."""
        return self._adapt(identity(self.state_dim)).filled(self.dtype)

    def prior_cov(self, moment: StepTime) -> AbstractMatrix:
        """The prior covariance of the state at a step."""
        return self._read(self.kernel.state_cov, self._instant(moment))

    def transition(self, start: StepTime, end: StepTime) -> AbstractMatrix:
        """The transition A between two steps of one feature."""
        return self._read(self.kernel.transition, self._interval(start, end))

    def noise_cov(self, start: StepTime, end: StepTime) -> AbstractMatrix:
        """The noise covariance Q between two steps of one feature."""
        return self._read(self.kernel.noise_cov, self._interval(start, end))

    def carry(self, A: AbstractMatrix, state: AbstractMatrix, end: StepTime) -> AbstractMatrix:
        """Compute A times `state`, or zero if `end` is the first entry of a feature."""
        moved = A @ state
        return select(end.first, self._zeros(moved.shape[1]), moved)

    def predict_cov(
        self, A: AbstractMatrix, P: AbstractMatrix, start: StepTime, end: StepTime
    ) -> AbstractMatrix:
        """Compute A P Aᵀ + Q, or the prior covariance if `end` is the first entry of a feature."""
        moved = (A @ P @ A.T + self.noise_cov(start, end)).symmetric()
        return select(end.first, self.prior_cov(end), moved).filled(self.dtype)

    def _zeros(self, columns: int) -> AbstractMatrix:
        return self._adapt(zeros(self.state_dim, columns)).filled(self.dtype)

    def _read(
        self, function: Callable[..., AbstractMatrix], when: Instant | Interval
    ) -> AbstractMatrix:
        """Evaluate a matrix of the kernel, in full precision on accelerators too."""
        with jax.default_matmul_precision("highest"):
            return self._adapt(function(when))

    def _adapt(self, small: AbstractMatrix) -> AbstractMatrix:
        return adapt(small, self.state_dim, self.dtype)

    def _instant(self, moment: StepTime) -> Instant:
        return Instant(moment.offset, moment.age, self.epoch)

    def _interval(self, start: StepTime, end: StepTime) -> Interval:
        return Interval(self._instant(start), self._instant(end), end.gap)


def update(state: State, phi: AbstractMatrix, site: Site, move: Gain) -> State:
    """Compute the state after a site: m + φ g and P − τ s φ φᵀ."""
    shrink = (phi @ phi.T) * (site.precision * move.s)
    return State(state.m + phi * move.g, (state.P - shrink).symmetric())


def absorb(
    adjoint: Adjoint, h: AbstractMatrix, phi: AbstractMatrix, site: Site, move: Gain
) -> Adjoint:
    """Compute the adjoint of a predicted state from the adjoint of the state after its site."""
    weight = site.precision * move.s
    r = adjoint.r + h * (move.g - weight * dot(phi, adjoint.r))
    closed = closed_loop(adjoint.N, h, phi, weight)
    N = closed_loop(closed.T, h, phi, weight) + (h @ h.T) * weight
    return Adjoint(r, N.symmetric())


def closed_loop(
    small: AbstractMatrix, h: AbstractMatrix, phi: AbstractMatrix, weight: Scalar
) -> AbstractMatrix:
    """Compute (I − w h φᵀ) times a matrix."""
    return small - h @ (phi.T @ small) * weight
