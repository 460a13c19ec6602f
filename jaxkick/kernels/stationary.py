"""Stationary kernels: constant, Matérn and squared exponential."""

import functools
import math
from typing import ClassVar, Self

import equinox as eqx
import jax.numpy as jnp

from jaxkick._math.small_matrices import (
    AbstractMatrix,
    column,
    diagonal,
    identity,
    lower_toeplitz,
    matrix,
    zeros,
)
from jaxkick._math.special import FAR, incomplete_gammas
from jaxkick._typing import Scalar
from jaxkick.kernels.base import AbstractStationary, describe_fluctuations, deviation
from jaxkick.parameters import AbstractParameter, named, positive

__all__ = ["Constant", "Matern12", "Matern32", "Matern52", "SquaredExponential"]

# The initial lengthscale of learning is a quarter of the time over which a feature is observed.
SPANS_PER_LENGTHSCALE = 4.0


class Constant(AbstractStationary):
    """A score that never changes: k(t, u) = variance.

    Attributes:
        variance: the prior variance of the score; positive.
    """

    variance: AbstractParameter = eqx.field(converter=named("variance", positive))

    def describe(self, unit: str | None = None) -> str:
        return f"a constant level with {deviation(self.variance)}"

    @classmethod
    def from_scale(cls, variance: float, span: float) -> Self:
        return cls(variance)

    @property
    def state_dim(self) -> int:
        return 1

    def measurement(self) -> AbstractMatrix:
        return column([1.0])

    def stationary_cov(self) -> AbstractMatrix:
        return matrix([[self.variance.value]])

    def transition_over(self, gap: Scalar) -> AbstractMatrix:
        return identity(1)

    def noise_cov_over(self, gap: Scalar) -> AbstractMatrix:
        return zeros(1, 1)

    def covariance_over(self, gap: Scalar) -> Scalar:
        return self.variance.value


class _AbstractMatern(AbstractStationary):
    """The Matérn family with half-integer smoothness p + ½.

    In normalised time x = √(2p + 1) t / lengthscale the score solves (1 + d/dx)^{p+1} f =
    white noise. With the state f, (1 + d/dx) f, …, (1 + d/dx)ᵖ f the transition is
    triangular, exp(−x) xʲ⁻ⁱ/(j − i)!, and entry (i, j) of the noise covariance is that of
    the stationary covariance times the incomplete gamma function P(2p − i − j + 1, 2x). This
    takes one exponential and does not cancel for short gaps.
    """

    smoothness: ClassVar[int]
    texture: ClassVar[str]
    half_life: ClassVar[float]
    """The time after which the autocorrelation has fallen to one half, in lengthscales."""
    variance: AbstractParameter = eqx.field(converter=named("variance", positive))
    lengthscale: AbstractParameter = eqx.field(converter=named("lengthscale", positive))

    def describe(self, unit: str | None = None) -> str:
        return describe_fluctuations(
            self.texture, self.variance, self.lengthscale, self.half_life, unit
        )

    @classmethod
    def from_scale(cls, variance: float, span: float) -> Self:
        return cls(variance, span / SPANS_PER_LENGTHSCALE)

    @property
    def state_dim(self) -> int:
        return self.smoothness + 1

    def measurement(self) -> AbstractMatrix:
        return column([1.0] + [None] * self.smoothness)

    def stationary_cov(self) -> AbstractMatrix:
        return matrix(_matern_weights(self.smoothness)) * self.variance.value

    def transition_over(self, gap: Scalar) -> AbstractMatrix:
        x = self._normalised(gap)
        terms = [jnp.exp(-x)]
        for k in range(1, self.state_dim):
            terms.append(terms[-1] * x * (1.0 / k))
        size = range(self.state_dim)
        return matrix([[terms[j - i] if j >= i else None for j in size] for i in size])

    def noise_cov_over(self, gap: Scalar) -> AbstractMatrix:
        size, top = range(self.state_dim), 2 * self.smoothness
        gammas = incomplete_gammas(self._normalised(gap), top + 1)
        parts = [gamma * self.variance.value for gamma in gammas]
        weights = _matern_weights(self.smoothness)
        return matrix([[parts[top - i - j] * weights[i][j] for j in size] for i in size])

    def _normalised(self, gap: Scalar) -> Scalar:
        # Divide instead of multiplying by a rate: otherwise XLA moves the rates of A and Q out of
        # the loop and computes exp(−x) twice.
        x = gap / self.lengthscale.value * math.sqrt(2 * self.smoothness + 1)
        return jnp.minimum(x, FAR)


class Matern12(_AbstractMatern):
    """Matérn 1/2, the Ornstein–Uhlenbeck process, with paths as rough as Brownian motion.

    k(t, u) = variance exp(−x) with x = |t − u| / lengthscale.

    Attributes:
        variance: the prior variance of the score; positive.
        lengthscale: in the data's unit of time; positive.
    """

    smoothness = 0
    texture = "rough fluctuations"
    half_life = 0.693147

    def covariance_over(self, gap: Scalar) -> Scalar:
        return self.variance.value * jnp.exp(-self._normalised(gap))


class Matern32(_AbstractMatern):
    """Matérn 3/2, with paths that are differentiable once.

    k(t, u) = variance (1 + x) exp(−x) with x = √3 |t − u| / lengthscale.

    Attributes:
        variance: the prior variance of the score; positive.
        lengthscale: in the data's unit of time; positive.
    """

    smoothness = 1
    texture = "fluctuations"
    half_life = 0.968994

    def covariance_over(self, gap: Scalar) -> Scalar:
        x = self._normalised(gap)
        return self.variance.value * (1.0 + x) * jnp.exp(-x)


class Matern52(_AbstractMatern):
    """Matérn 5/2, with paths that are differentiable twice.

    k(t, u) = variance (1 + x + x²/3) exp(−x) with x = √5 |t − u| / lengthscale.

    Attributes:
        variance: the prior variance of the score; positive.
        lengthscale: in the data's unit of time; positive.
    """

    smoothness = 2
    texture = "smooth fluctuations"
    half_life = 1.042122

    def covariance_over(self, gap: Scalar) -> Scalar:
        x = self._normalised(gap)
        return self.variance.value * (1.0 + x + jnp.square(x) / 3.0) * jnp.exp(-x)


@functools.cache
def _matern_weights(smoothness: int) -> list[list[float]]:
    """Compute the stationary covariance of the state for a score of variance one."""
    size, top = range(smoothness + 1), 2 * smoothness

    def moment(i: int, j: int) -> float:
        """∫ exp(−2x) xᵃ xᵇ / (a! b!) dx with a = p − i and b = p − j."""
        return math.comb(top - i - j, smoothness - i) / 2.0 ** (top - i - j + 1)

    return [[moment(i, j) / moment(0, 0) for j in size] for i in size]


class SquaredExponential(AbstractStationary):
    """The squared-exponential (RBF) kernel: k(t, u) = variance exp(−(t − u)² / (2 lengthscale²)).

    The state space is an approximation with `order` dimensions. Its variance is exact, paths are
    differentiable twice (from order 3 on), and the largest error of the covariance, relative to
    the variance, is

        order   1     2     3     4     5       6       7       8       9       10      11      12
        error   0.16  0.07  0.04  0.02  8.2e-3  2.5e-3  1.2e-3  2.8e-4  1.0e-4  5.0e-5  1.9e-5  8e-6

    The kernel has no finite-dimensional state, so its spectrum is approximated by a rational
    function. The usual choice, a Taylor polynomial in the denominator (Hartikainen and Särkkä,
    2010), has distinct complex poles. Their modes cancel: at order 6 by a factor of 100 in the
    score and of 1e4 in its variance, which is too much for float32. Here all poles are at −λ, and
    the measurement vector is optimised instead. In the basis of Laguerre functions the components
    of the state are independent with equal variance, the transition takes one exponential, and
    the error is smaller from order 6 on.

    Attributes:
        variance: the prior variance of the score; positive.
        lengthscale: in the data's unit of time; positive.
        order: the dimension of the state, from 1 to 12; default 6.
    """

    variance: AbstractParameter = eqx.field(converter=named("variance", positive))
    lengthscale: AbstractParameter = eqx.field(converter=named("lengthscale", positive))
    order: int = eqx.field(default=6, static=True)

    def __check_init__(self):
        if self.order not in _FILTERS:
            raise ValueError(
                f"`order` must be an integer from 1 to {max(_FILTERS)}, not {self.order!r}."
            )

    def describe(self, unit: str | None = None) -> str:
        return describe_fluctuations(
            "very smooth fluctuations", self.variance, self.lengthscale, 1.177410, unit
        )

    @classmethod
    def from_scale(cls, variance: float, span: float) -> Self:
        return cls(variance, span / SPANS_PER_LENGTHSCALE)

    @property
    def state_dim(self) -> int:
        return self.order

    def measurement(self) -> AbstractMatrix:
        return column(_readout(self.order))

    def stationary_cov(self) -> AbstractMatrix:
        return diagonal([self.variance.value] * self.order)

    def transition_over(self, gap: Scalar) -> AbstractMatrix:
        return lower_toeplitz(_laguerre_steps(self._normalised(gap), self.order))

    def noise_cov_over(self, gap: Scalar) -> AbstractMatrix:
        """Compute Q = variance (I − A Aᵀ) from E = A − I."""
        x = self._normalised(gap)
        steps = _laguerre_steps(x, self.order)
        (lost,) = incomplete_gammas(x, 1)
        change = lower_toeplitz([-lost / (1.0 + steps[0]), *steps[1:]])
        return ((change + change.T + change @ change.T) * -self.variance.value).symmetric()

    def covariance_over(self, gap: Scalar) -> Scalar:
        ratio = jnp.minimum(gap / self.lengthscale.value, FAR)
        return self.variance.value * jnp.exp(-0.5 * jnp.square(ratio))

    def _normalised(self, gap: Scalar) -> Scalar:
        rate, _ = _FILTERS[self.order]
        # This order lets XLA share one exponential between A and Q; see Matérn.
        return jnp.minimum(gap / self.lengthscale.value * rate, FAR)


def _laguerre_steps(x: Scalar, count: int) -> list[Scalar]:
    """Compute the entries of the transition by their distance below the diagonal.

    a₀ = exp(−x) and aₖ = exp(−x) (Lₖ(2x) − Lₖ₋₁(2x)) = −(2x/k) exp(−x) L¹ₖ₋₁(2x), by the
    recurrence of the generalised Laguerre polynomials L¹. The last form does not cancel.
    """
    decay = jnp.exp(-x)
    steps, before, now = [decay], None, decay
    for k in range(1, count):
        steps.append(now * x * (-2.0 / k))
        upcoming = now * (2.0 - x * (2.0 / k))
        before, now = now, upcoming if before is None else upcoming - before
    return steps


@functools.cache
def _readout(order: int) -> list[float]:
    """Return the measurement vector h, which has unit length."""
    _, numbers = _FILTERS[order]
    length = math.hypot(*numbers)
    return [number / length for number in numbers]


# order: (rate λ, readout h) at a lengthscale of one; found by minimising the largest error of
# the covariance, see benchmarks/fit_squared_exponential.py.
_FILTERS: dict[int, tuple[float, tuple[float, ...]]] = {
    1: (0.6427945028, (1.0,)),
    2: (1.509628648, (0.7071067812, -0.7071067812)),
    3: (2.065859583, (0.4082482905, -0.8164965809, 0.4082482905)),
    4: (1.494354713, (0.498464463, -0.8338219552, 0.1722505214, 0.1631069708)),
    5: (3.451017158, (0.2185471071, -0.5200427173, 0.6029877439, -0.5200357645,
        0.2185436307)),
    6: (2.800684938, (0.229875539, -0.5826054512, 0.6540321592, -0.4162794831,
        0.05150659841, 0.06347063769)),
    7: (2.373328051, (0.2561816172, -0.6490013711, 0.6547434623, -0.2730475101,
        -0.07542323753, 0.05893230878, 0.02761473049)),
    8: (3.858864921, (0.1183857161, -0.3604411773, 0.5622409159, -0.587862067, 0.4033344588,
        -0.1756455278, 0.01547841863, 0.02450926263)),
    9: (3.377075875, (0.1181574927, -0.3877038854, 0.6125744089, -0.5889429217,
        0.3266905483, -0.07127071046, -0.03711410656, 0.01921356201, 0.008395612102)),
    10: (3.011590126, (0.1257008958, -0.4251490994, 0.6558252164, -0.5636514425, 0.22939932,
        0.01451046901, -0.05145276427, -0.0007809913794, 0.01189867281, 0.003699723538)),
    11: (4.205306811, (0.06140029212, -0.230383296, 0.4485458574, -0.5825256496,
        0.5269600404, -0.3301176341, 0.1245302213, -0.01120445908, -0.0166281606,
        0.006336171969, 0.003086616149)),
    12: (3.841295329, (0.05662139245, -0.2299949722, 0.4690770112, -0.6077700713,
        0.5204533761, -0.2802077464, 0.06544247545, 0.02072059734, -0.01888511262,
        -0.001077441336, 0.004370173118, 0.001250318046)),
}  # fmt: skip
