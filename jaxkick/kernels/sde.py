"""A kernel given by its stochastic differential equation."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import ArrayLike

from jaxkick._parameters import AbstractParameter, named, real
from jaxkick._smallmat import AbstractMatrix, Dense, adapt
from jaxkick._tracing import is_known
from jaxkick._typing import Array, Float, Scalar
from jaxkick.kernels._matrix_exponential import discretise, propagator, stationary_covariance
from jaxkick.kernels.base import AbstractKernel, state_space_covariance
from jaxkick.kernels.time import FIRST, Instant, Interval, Origin, as_origin

__all__ = ["StochasticDifferentialEquation"]

Parameter = ArrayLike | AbstractParameter


class StochasticDifferentialEquation(AbstractKernel):
    """The score hᵀx of dx = F x dt + L dβ, where β is Brownian motion of density q.

    The process is stationary, or starts at an origin with a covariance of its own and stands
    still before. Each array is a parameter that learning may move entry by entry; wrap in
    `Fixed` what it should leave alone. Where entries depend on each other, subclass
    `AbstractDerived` and build this kernel in its `definition`.
    """

    feedback: AbstractParameter
    noise_effect: AbstractParameter
    noise_density: AbstractParameter
    measurement_vector: AbstractParameter
    state_covariance: AbstractParameter | None
    initial_covariance: AbstractParameter | None
    origin: Origin = eqx.field(static=True)

    def __init__(
        self,
        feedback: Parameter,
        noise_effect: Parameter,
        noise_density: Parameter,
        measurement_vector: Parameter,
        state_covariance: Parameter | None = None,
        *,
        initial_covariance: Parameter | None = None,
        origin: Origin = FIRST,
    ):
        """A kernel from F, L, q and h.

        Args:
            feedback: F, of shape [K, K].
            noise_effect: L, of shape [K, D], or [K] where the noise is scalar.
            noise_density: q, of shape [D, D], or a number; positive semi-definite.
            measurement_vector: h, of shape [K].
            state_covariance: the stationary covariance P of the state. If it is left out,
                F P + P Fᵀ + L q Lᵀ = 0 is solved whenever P is needed, so that P follows
                the other parameters.
            initial_covariance: the covariance of the state at `origin`, for a process that
                is not stationary.
            origin: where such a process starts, a number in the data's unit or `FIRST`.

        Raises:
            ValueError: if shapes do not fit, both covariances are given, or the arrays are
                known and allow no stationary process.
        """
        self.feedback = named("feedback", real)(feedback)
        self.noise_effect = named("noise_effect", real)(noise_effect)
        self.noise_density = named("noise_density", real)(noise_density)
        self.measurement_vector = named("measurement_vector", real)(measurement_vector)
        self.state_covariance = _optional("state_covariance", state_covariance)
        self.initial_covariance = _optional("initial_covariance", initial_covariance)
        self.origin = as_origin(origin)
        self._check_shapes()
        self._check_stationary()

    @property
    def state_dim(self) -> int:
        """The dimension K of the state."""
        return self.measurement_vector.value.shape[0]

    def measurement(self) -> AbstractMatrix:
        """The column h that reads the score off the state."""
        return self._matrix(self.measurement_vector.value[:, None])

    def state_cov(self, instant: Instant) -> AbstractMatrix:
        """The prior covariance P of the state at an instant."""
        if self.initial_covariance is None:
            return self._matrix(self._stationary()).symmetric()
        elapsed = jnp.maximum(instant.since(self.origin), 0.0)
        step, gained = discretise(self.feedback.value, *self._noise(), elapsed)
        return self._matrix(step @ self.initial_covariance.value @ step.T + gained).symmetric()

    def transition(self, interval: Interval) -> AbstractMatrix:
        """The transition A over an interval."""
        return self._matrix(propagator(self.feedback.value, self._moving(interval)))

    def noise_cov(self, interval: Interval) -> AbstractMatrix:
        """The noise covariance Q over an interval."""
        step = self._moving(interval)
        return self._matrix(discretise(self.feedback.value, *self._noise(), step)[1]).symmetric()

    def covariance(self, first: Instant, second: Instant) -> Scalar:
        """The covariance k(t, u) of the scores at two instants."""
        return state_space_covariance(self, first, second)

    def _moving(self, interval: Interval) -> Scalar:
        """The time in the interval during which the process moves."""
        if self.initial_covariance is None:
            return interval.gap
        return interval.beyond(self.origin)

    def _noise(self) -> tuple[Float[Array, "K D"], Float[Array, "D D"]]:
        effect = self.noise_effect.value.reshape(self.state_dim, -1)
        return effect, self.noise_density.value.reshape(effect.shape[1], effect.shape[1])

    def _stationary(self) -> Float[Array, "K K"]:
        if self.state_covariance is not None:
            return self.state_covariance.value
        return stationary_covariance(self.feedback.value, *self._noise())

    def _matrix(self, array: Float[Array, "rows columns"]) -> AbstractMatrix:
        return adapt(Dense(array), self.state_dim, array.dtype)

    def _check_shapes(self) -> None:
        shape = jnp.shape(self.measurement_vector.value)
        if len(shape) != 1 or shape[0] == 0:
            raise ValueError(f"`measurement_vector` must have the shape [K], not {list(shape)}.")
        (size,) = shape
        noise = [*jnp.shape(self.noise_effect.value), 1, 1][1]
        allowed = {
            "feedback": [(size, size)],
            "noise_effect": [(size,), (size, noise)],
            "noise_density": [(noise, noise)] + [()] * (noise == 1),
            "state_covariance": [(size, size)],
            "initial_covariance": [(size, size)],
        }
        for name, shapes in allowed.items():
            parameter = getattr(self, name)
            if parameter is not None and jnp.shape(parameter.value) not in shapes:
                raise ValueError(
                    f"`{name}` has the shape {list(jnp.shape(parameter.value))}, but with a "
                    f"`measurement_vector` of length {size} it must be "
                    f"{' or '.join(str(list(shape)) for shape in shapes)}."
                )

    def _check_stationary(self) -> None:
        """Refuse what cannot be stationary, where the values are known."""
        if self.initial_covariance is not None:
            if self.state_covariance is not None:
                raise ValueError("give `state_covariance` or `initial_covariance`, not both.")
            return
        arrays = [self.feedback.value, *self._noise()]
        if self.state_covariance is not None:
            arrays.append(self.state_covariance.value)
        if not all(is_known(array) for array in arrays):
            return
        F, L, q, *given = [np.asarray(array, dtype=np.float64) for array in arrays]
        if not given:
            if np.max(np.linalg.eigvals(F).real) >= 0:
                raise ValueError(
                    "`feedback` is not stable (an eigenvalue has a real part of zero or more), "
                    "so that no stationary covariance follows from it; pass `state_covariance` "
                    "or `initial_covariance`."
                )
            return
        drift, diffusion = F @ given[0], L @ q @ L.T
        scale = np.max(np.abs(drift)) + np.max(np.abs(diffusion))
        if np.max(np.abs(drift + drift.T + diffusion)) > 1e-4 * scale:
            raise ValueError(
                "`state_covariance` is not stationary: F P + P Fᵀ + L q Lᵀ is not zero; leave it "
                "out to have it solved for, or pass it as `initial_covariance`."
            )


def _optional(name: str, value: Any) -> AbstractParameter | None:
    return None if value is None else named(name, real)(value)
