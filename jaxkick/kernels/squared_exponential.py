"""The squared-exponential kernel, by a state space of Laguerre filters.

The kernel has no finite-dimensional state; some rational spectrum must stand in for it. The
usual choice, a Taylor polynomial in the denominator (Hartikainen and Särkkä, 2010), has
distinct complex poles, and its modes cancel each other: at order 6 a hundred-fold in the
score and 1e4-fold in its variance, more than float32 can bear. Here all poles fall
together instead, at −λ, and the freedom goes into how the score reads the state. In the
basis of Laguerre functions the state then has independent components of equal variance, the
transition needs a single exponential, and from order 6 on the error is smaller, too.
"""

import functools
import math

import equinox as eqx
import jax.numpy as jnp

from jaxkick._parameters import AbstractParameter, named, positive
from jaxkick._smallmat import AbstractMatrix, column, diagonal, lower_toeplitz
from jaxkick._typing import Scalar
from jaxkick.kernels._special import FAR, incomplete_gammas
from jaxkick.kernels.base import AbstractStationary

__all__ = ["SquaredExponential"]


class SquaredExponential(AbstractStationary):
    """Very smooth scores: k(t, u) = variance exp(−(t − u)² / (2 lengthscale²)).

    The state space approximates it with a state of `order` dimensions: the variance is exact,
    paths have two derivatives (from order 3), and the largest error of the covariance, as a
    part of the variance, is

        order   1     2     3     4     5       6       7       8       9       10      11      12
        error   0.16  0.07  0.04  0.02  8.2e-3  2.5e-3  1.2e-3  2.8e-4  1.0e-4  5.0e-5  1.9e-5  8e-6
    """

    variance: AbstractParameter = eqx.field(converter=named("variance", positive))
    lengthscale: AbstractParameter = eqx.field(converter=named("lengthscale", positive))
    order: int = eqx.field(default=6, static=True)

    def __check_init__(self):
        if self.order not in _FILTERS:
            raise ValueError(
                f"`order` must be an integer from 1 to {max(_FILTERS)}, not {self.order!r}."
            )

    @property
    def state_dim(self) -> int:
        """The dimension K of the state."""
        return self.order

    def measurement(self) -> AbstractMatrix:
        """The column h that reads the score off the state."""
        return column(_readout(self.order))

    def stationary_cov(self) -> AbstractMatrix:
        """The covariance P of the state, the same at every instant."""
        return diagonal([self.variance.value] * self.order)

    def transition_over(self, gap: Scalar) -> AbstractMatrix:
        """The transition A over a gap."""
        return lower_toeplitz(_laguerre_steps(self._normalised(gap), self.order))

    def noise_cov_over(self, gap: Scalar) -> AbstractMatrix:
        """The noise covariance Q = variance (I − A Aᵀ) over a gap, by way of E = A − I."""
        x = self._normalised(gap)
        steps = _laguerre_steps(x, self.order)
        (lost,) = incomplete_gammas(x, 1)
        change = lower_toeplitz([-lost / (1.0 + steps[0]), *steps[1:]])
        return ((change + change.T + change @ change.T) * -self.variance.value).symmetric()

    def covariance_over(self, gap: Scalar) -> Scalar:
        """The covariance of two scores that lie `gap` apart."""
        ratio = jnp.minimum(gap / self.lengthscale.value, FAR)
        return self.variance.value * jnp.exp(-0.5 * jnp.square(ratio))

    def _normalised(self, gap: Scalar) -> Scalar:
        rate, _ = _FILTERS[self.order]
        # In this order for the reason that `Matern12` gives: one exponential for A and Q.
        return jnp.minimum(gap / self.lengthscale.value * rate, FAR)


def _laguerre_steps(x: Scalar, count: int) -> list[Scalar]:
    """The entries of the transition by distance below the diagonal.

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
    """The vector h, of unit length."""
    _, numbers = _FILTERS[order]
    length = math.hypot(*numbers)
    return [number / length for number in numbers]


# order: (rate λ, readout h) at a lengthscale of one; found by minimising the largest error of
# the covariance, see benchmarks/fit_squared_exponential.py.
_FILTERS: dict[int, tuple[float, tuple[float, ...]]] = {
    1: (0.6427945028, (1.0,)),
    2: (
        1.509628648,
        (
            0.7071067812,
            -0.7071067812,
        ),
    ),
    3: (
        2.065859583,
        (
            0.4082482905,
            -0.8164965809,
            0.4082482905,
        ),
    ),
    4: (
        1.494354713,
        (
            0.498464463,
            -0.8338219552,
            0.1722505214,
            0.1631069708,
        ),
    ),
    5: (
        3.451017158,
        (
            0.2185471071,
            -0.5200427173,
            0.6029877439,
            -0.5200357645,
            0.2185436307,
        ),
    ),
    6: (
        2.800684938,
        (
            0.229875539,
            -0.5826054512,
            0.6540321592,
            -0.4162794831,
            0.05150659841,
            0.06347063769,
        ),
    ),
    7: (
        2.373328051,
        (
            0.2561816172,
            -0.6490013711,
            0.6547434623,
            -0.2730475101,
            -0.07542323753,
            0.05893230878,
            0.02761473049,
        ),
    ),
    8: (
        3.858864921,
        (
            0.1183857161,
            -0.3604411773,
            0.5622409159,
            -0.587862067,
            0.4033344588,
            -0.1756455278,
            0.01547841863,
            0.02450926263,
        ),
    ),
    9: (
        3.377075875,
        (
            0.1181574927,
            -0.3877038854,
            0.6125744089,
            -0.5889429217,
            0.3266905483,
            -0.07127071046,
            -0.03711410656,
            0.01921356201,
            0.008395612102,
        ),
    ),
    10: (
        3.011590126,
        (
            0.1257008958,
            -0.4251490994,
            0.6558252164,
            -0.5636514425,
            0.22939932,
            0.01451046901,
            -0.05145276427,
            -0.0007809913794,
            0.01189867281,
            0.003699723538,
        ),
    ),
    11: (
        4.205306811,
        (
            0.06140029212,
            -0.230383296,
            0.4485458574,
            -0.5825256496,
            0.5269600404,
            -0.3301176341,
            0.1245302213,
            -0.01120445908,
            -0.0166281606,
            0.006336171969,
            0.003086616149,
        ),
    ),
    12: (
        3.841295329,
        (
            0.05662139245,
            -0.2299949722,
            0.4690770112,
            -0.6077700713,
            0.5204533761,
            -0.2802077464,
            0.06544247545,
            0.02072059734,
            -0.01888511262,
            -0.001077441336,
            0.004370173118,
            0.001250318046,
        ),
    ),
}
