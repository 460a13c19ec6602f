"""Constant and Matérn kernels."""

import functools
import math
from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp

from jaxkick._parameters import AbstractParameter, named, positive
from jaxkick._smallmat import AbstractMatrix, column, identity, matrix, zeros
from jaxkick._typing import Scalar
from jaxkick.kernels._special import FAR, incomplete_gammas
from jaxkick.kernels.base import AbstractStationary

__all__ = ["Constant", "Matern12", "Matern32", "Matern52"]


class Constant(AbstractStationary):
    """A score that never changes: k(t, u) = variance."""

    variance: AbstractParameter = eqx.field(converter=named("variance", positive))

    @property
    def state_dim(self) -> int:
        """The dimension K of the state."""
        return 1

    def measurement(self) -> AbstractMatrix:
        """The column h that reads the score off the state."""
        return column([1.0])

    def stationary_cov(self) -> AbstractMatrix:
        """The covariance P of the state, the same at every instant."""
        return matrix([[self.variance.value]])

    def transition_over(self, gap: Scalar) -> AbstractMatrix:
        """The transition A over a gap."""
        return identity(1)

    def noise_cov_over(self, gap: Scalar) -> AbstractMatrix:
        """The noise covariance Q over a gap."""
        return zeros(1, 1)

    def covariance_over(self, gap: Scalar) -> Scalar:
        """The covariance of two scores that lie `gap` apart."""
        return self.variance.value


class _AbstractMatern(AbstractStationary):
    """The Matérn family with half-integer smoothness p + ½.

    In normalised time x = √(2p + 1) t / lengthscale the score solves (1 + d/dx)^{p+1} f =
    white noise. With the state f, (1 + d/dx) f, …, (1 + d/dx)ᵖ f the transition is
    triangular, exp(−x) xʲ⁻ⁱ/(j − i)!, and entry (i, j) of the noise covariance is that of
    the stationary covariance times the incomplete gamma function P(2p − i − j + 1, 2x):
    one exponential, and no cancellation for gaps however short.
    """

    smoothness: ClassVar[int]
    variance: AbstractParameter = eqx.field(converter=named("variance", positive))
    lengthscale: AbstractParameter = eqx.field(converter=named("lengthscale", positive))

    @property
    def state_dim(self) -> int:
        """The dimension K of the state."""
        return self.smoothness + 1

    def measurement(self) -> AbstractMatrix:
        """The column h that reads the score off the state."""
        return column([1.0] + [None] * self.smoothness)

    def stationary_cov(self) -> AbstractMatrix:
        """The covariance P of the state, the same at every instant."""
        return matrix(_matern_weights(self.smoothness)) * self.variance.value

    def transition_over(self, gap: Scalar) -> AbstractMatrix:
        """The transition A over a gap."""
        x = self._normalised(gap)
        terms = [jnp.exp(-x)]
        for k in range(1, self.state_dim):
            terms.append(terms[-1] * x * (1.0 / k))
        size = range(self.state_dim)
        return matrix([[terms[j - i] if j >= i else None for j in size] for i in size])

    def noise_cov_over(self, gap: Scalar) -> AbstractMatrix:
        """The noise covariance Q over a gap."""
        size, top = range(self.state_dim), 2 * self.smoothness
        gammas = incomplete_gammas(self._normalised(gap), top + 1)
        parts = [gamma * self.variance.value for gamma in gammas]
        weights = _matern_weights(self.smoothness)
        return matrix([[parts[top - i - j] * weights[i][j] for j in size] for i in size])

    def _normalised(self, gap: Scalar) -> Scalar:
        # Divided here, not multiplied by a rate: XLA would compute the rate of A and that of Q
        # apart, outside of the loop, and no longer see that both need the same exp(−x).
        x = gap / self.lengthscale.value * math.sqrt(2 * self.smoothness + 1)
        return jnp.minimum(x, FAR)


class Matern12(_AbstractMatern):
    """Matérn 1/2, the Ornstein–Uhlenbeck process; paths as rough as Brownian motion.

    k(t, u) = variance exp(−x) with x = |t − u| / lengthscale.
    """

    smoothness = 0

    def covariance_over(self, gap: Scalar) -> Scalar:
        """The covariance of two scores that lie `gap` apart."""
        return self.variance.value * jnp.exp(-self._normalised(gap))


class Matern32(_AbstractMatern):
    """Matérn 3/2; paths with one derivative.

    k(t, u) = variance (1 + x) exp(−x) with x = √3 |t − u| / lengthscale.
    """

    smoothness = 1

    def covariance_over(self, gap: Scalar) -> Scalar:
        """The covariance of two scores that lie `gap` apart."""
        x = self._normalised(gap)
        return self.variance.value * (1.0 + x) * jnp.exp(-x)


class Matern52(_AbstractMatern):
    """Matérn 5/2; paths with two derivatives.

    k(t, u) = variance (1 + x + x²/3) exp(−x) with x = √5 |t − u| / lengthscale.
    """

    smoothness = 2

    def covariance_over(self, gap: Scalar) -> Scalar:
        """The covariance of two scores that lie `gap` apart."""
        x = self._normalised(gap)
        return self.variance.value * (1.0 + x + jnp.square(x) / 3.0) * jnp.exp(-x)


@functools.cache
def _matern_weights(smoothness: int) -> list[list[float]]:
    """The stationary covariance of the state in units of the score's variance."""
    size, top = range(smoothness + 1), 2 * smoothness

    def moment(i: int, j: int) -> float:
        """∫ exp(−2x) xᵃ xᵇ / (a! b!) dx with a = p − i and b = p − j."""
        return math.comb(top - i - j, smoothness - i) / 2.0 ** (top - i - j + 1)

    return [[moment(i, j) / moment(0, 0) for j in size] for i in size]
