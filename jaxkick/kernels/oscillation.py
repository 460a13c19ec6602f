"""Periodic kernels: the (damped) cosine and the periodic kernel."""

import functools
import math

import equinox as eqx
import jax.numpy as jnp

from jaxkick._math.small_matrices import (
    MAX_UNROLLED,
    AbstractMatrix,
    Dense,
    block_diagonal,
    column,
    diagonal,
    identity,
    matrix,
    zeros,
)
from jaxkick._math.special import FAR, incomplete_gammas, scaled_bessels
from jaxkick._typing import Array, Float, Scalar
from jaxkick.kernels.base import AbstractKernel, AbstractStationary, deviation, duration
from jaxkick.parameters import AbstractParameter, named, positive

__all__ = ["Cosine", "Periodic"]


def _optional_positive(value: float | AbstractParameter | None) -> AbstractParameter | None:
    return None if value is None else named("lengthscale", positive)(value)


_MAX_ORDER = 100


class Cosine(AbstractStationary):
    """A sine wave with random amplitude and phase, optionally damped.

    k(t, u) = variance cos(2π (t − u) / period) exp(−|t − u| / lengthscale), without the
    exponential if `lengthscale` is `None`.

    Attributes:
        variance: the prior variance of the score; positive.
        period: the period in the data's unit of time; positive.
        lengthscale: the lengthscale of the damping in the data's unit of time; `None` (default)
            for no damping.
    """

    variance: AbstractParameter = eqx.field(converter=named("variance", positive))
    period: AbstractParameter = eqx.field(converter=named("period", positive))
    lengthscale: AbstractParameter | None = eqx.field(default=None, converter=_optional_positive)

    def describe(self, unit: str | None = None) -> str:
        text = (
            f"a sine wave with {deviation(self.variance)} and period {duration(self.period, unit)}"
        )
        if self.lengthscale is None:
            return text
        return f"{text}, fading with lengthscale {duration(self.lengthscale, unit)}"

    @property
    def state_dim(self) -> int:
        return 2

    def measurement(self) -> AbstractMatrix:
        return column([1.0, None])

    def stationary_cov(self) -> AbstractMatrix:
        return diagonal([self.variance.value] * 2)

    def transition_over(self, gap: Scalar) -> AbstractMatrix:
        fraction = _fraction_of_turn(gap, self.period.value)
        (cosine,), (sine,) = _harmonics(fraction, 1)
        rotation = _rotation(cosine, sine)
        return rotation if self.lengthscale is None else rotation * jnp.exp(-self._normalised(gap))

    def noise_cov_over(self, gap: Scalar) -> AbstractMatrix:
        if self.lengthscale is None:
            return zeros(2, 2)
        (lost,) = incomplete_gammas(self._normalised(gap), 1)
        return diagonal([self.variance.value * lost] * 2)

    def covariance_over(self, gap: Scalar) -> Scalar:
        angle = (2 * math.pi) * _fraction_of_turn(gap, self.period.value)
        swing = self.variance.value * jnp.cos(angle)
        return swing if self.lengthscale is None else swing * jnp.exp(-self._normalised(gap))

    def _normalised(self, gap: Scalar) -> Scalar:
        return jnp.minimum(gap / self.lengthscale.value, FAR)


class Periodic(AbstractStationary):
    """A score that repeats exactly after each period (MacKay's periodic kernel).

    k(t, u) = variance exp(−2 sin²(π (t − u) / period) / lengthscale²).

    The state space is the kernel's Fourier series, truncated after `order` harmonics (Solin and
    Särkkä, 2014) and scaled so that the variance of the score is exactly `variance`. With the
    default order, the largest error of the covariance is 3e-6 of the variance for lengthscales
    of at least 1, and 4e-3 for lengthscales of at least 0.5.

    Attributes:
        variance: the prior variance of the score; positive.
        lengthscale: the smoothness of the pattern within a period, without unit; positive.
        period: the period in the data's unit of time; positive.
        order: the number of harmonics, from 1 to 100; default 6.
    """

    variance: AbstractParameter = eqx.field(converter=named("variance", positive))
    lengthscale: AbstractParameter = eqx.field(converter=named("lengthscale", positive))
    period: AbstractParameter = eqx.field(converter=named("period", positive))
    order: int = eqx.field(default=6, static=True)

    def __check_init__(self):
        if not isinstance(self.order, int) or not 1 <= self.order <= _MAX_ORDER:
            raise ValueError(
                f"`order` must be an integer from 1 to {_MAX_ORDER}, not {self.order!r}."
            )

    def describe(self, unit: str | None = None) -> str:
        period = duration(self.period, unit)
        return f"a pattern with {deviation(self.variance)} that repeats every {period}"

    def timescales(self) -> dict[str, tuple[AbstractKernel, float]]:
        return {}  # The lengthscale is relative to the period.

    @property
    def state_dim(self) -> int:
        return 2 * self.order + 1

    def measurement(self) -> AbstractMatrix:
        return column([1.0] + [1.0, None] * self.order)

    def stationary_cov(self) -> AbstractMatrix:
        bessels = scaled_bessels(1.0 / jnp.square(self.lengthscale.value), self.order)
        total = bessels[0] + 2.0 * jnp.sum(bessels[1:])
        weights = bessels * (self.variance.value / total)
        swings = [2.0 * weights[j] for j in range(1, self.order + 1) for _ in range(2)]
        return diagonal([weights[0], *swings])

    def transition_over(self, gap: Scalar) -> AbstractMatrix:
        fraction = _fraction_of_turn(gap, self.period.value)
        cosines, sines = _harmonics(fraction, self.order)
        if self.state_dim > MAX_UNROLLED:
            return _dense_rotations(jnp.stack(cosines), jnp.stack(sines))
        turns = [_rotation(cosine, sine) for cosine, sine in zip(cosines, sines, strict=True)]
        return functools.reduce(block_diagonal, turns, identity(1))

    def noise_cov_over(self, gap: Scalar) -> AbstractMatrix:
        return zeros(self.state_dim, self.state_dim)

    def covariance_over(self, gap: Scalar) -> Scalar:
        sine = jnp.sin(math.pi * _fraction_of_turn(gap, self.period.value))
        return self.variance.value * jnp.exp(-2.0 * jnp.square(sine / self.lengthscale.value))


def _dense_rotations(
    cosines: Float[Array, " order"], sines: Float[Array, " order"]
) -> AbstractMatrix:
    """Build the block-diagonal matrix of 1 and rotations."""
    along = jnp.concatenate([jnp.ones_like(cosines[:1]), jnp.repeat(cosines, 2)])
    beside = jnp.stack([jnp.zeros_like(sines), sines], axis=1).reshape(-1)
    return Dense(jnp.diag(along) + jnp.diag(beside, 1) - jnp.diag(beside, -1))


def _rotation(cosine: Scalar, sine: Scalar) -> AbstractMatrix:
    return matrix([[cosine, sine], [-sine, cosine]])


def _fraction_of_turn(gap: Scalar, period: Scalar) -> Scalar:
    """Return `gap` in periods minus the nearest integer, a number within ±½."""
    turns = gap / period
    return turns - jnp.round(turns)


def _harmonics(fraction: Scalar, count: int) -> tuple[list[Scalar], list[Scalar]]:
    """Compute cosine and sine of 2π j `fraction` for j = 1, …, `count` by repeated rotation."""
    angle = (2 * math.pi) * fraction
    cosine, sine = jnp.cos(angle), jnp.sin(angle)
    cosines, sines = [cosine], [sine]
    for _ in range(1, count):
        c, s = cosines[-1], sines[-1]
        cosines.append(c * cosine - s * sine)
        sines.append(s * cosine + c * sine)
    return cosines, sines
