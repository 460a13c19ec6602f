"""A kernel defined by a linear stochastic differential equation.

Transition and noise covariance are computed by a series over a short step, which is then doubled
repeatedly. The code works with A − I instead of A, so that slow components keep their accuracy
next to fast ones. The noise covariance grows as Q ← Q + A Q Aᵀ, a sum of positive terms.
"""

from typing import Any

import equinox as eqx
import equinox.internal as eqxi
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import ArrayLike

from jaxkick._math.small_matrices import AbstractMatrix, Dense, adapt
from jaxkick._typing import Array, Float, Int, Scalar
from jaxkick._xla import is_known
from jaxkick.errors import DataError
from jaxkick.kernels.base import AbstractKernel
from jaxkick.kernels.time import FIRST, Instant, Interval, Origin, as_origin
from jaxkick.parameters import AbstractParameter, named, real

__all__ = ["LinearSDE", "discretise"]

Parameter = ArrayLike | AbstractParameter

MAX_DOUBLINGS = 64
SHORT = 0.5
"""Upper bound on the norm of F times the short step."""

GAUSS_NODES = 6
"""Enough for full precision at steps up to `SHORT`."""


class LinearSDE(AbstractKernel):
    """The score hᵀx of dx = F x dt + L dβ, where β is Brownian motion with spectral density q.

    The process is stationary, or starts at an origin with a given covariance and is constant
    before it. All entries of the arrays are learnt independently; wrap an array in `Fixed` to keep
    it constant. If entries depend on common parameters, subclass `AbstractCompositeKernel` and
    build this kernel in `definition`.
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
        """Set F, L, q and h.

        Args:
            feedback: F, of shape [K, K].
            noise_effect: L, of shape [K, D], or [K] if the noise is scalar.
            noise_density: q, of shape [D, D], or a number; positive semi-definite.
            measurement_vector: h, of shape [K].
            state_covariance: the stationary covariance P of the state. If `None`, P is the
                solution of F P + P Fᵀ + L q Lᵀ = 0.
            initial_covariance: for a non-stationary process, the covariance of the state at
                `origin`.
            origin: the start of a non-stationary process: a time in the data's unit, or `FIRST`
                (default), the first match of each feature.

        Raises:
            DataError: if shapes do not match, both covariances are given, or known arrays do
                not define a stationary process.
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
        return self.measurement_vector.value.shape[0]

    def measurement(self) -> AbstractMatrix:
        return self._matrix(self.measurement_vector.value[:, None])

    def state_cov(self, instant: Instant) -> AbstractMatrix:
        if self.initial_covariance is None:
            return self._matrix(self._stationary()).symmetric()
        elapsed = jnp.maximum(instant.since(self.origin), 0.0)
        step, gained = discretise(self.feedback.value, *self._noise(), elapsed)
        return self._matrix(step @ self.initial_covariance.value @ step.T + gained).symmetric()

    def transition(self, interval: Interval) -> AbstractMatrix:
        return self._matrix(_propagator(self.feedback.value, self._moving(interval)))

    def noise_cov(self, interval: Interval) -> AbstractMatrix:
        step = self._moving(interval)
        return self._matrix(discretise(self.feedback.value, *self._noise(), step)[1]).symmetric()

    def _moving(self, interval: Interval) -> Scalar:
        """Return the time in the interval during which the process moves."""
        if self.initial_covariance is None:
            return interval.gap
        return interval.beyond(self.origin)

    def _noise(self) -> tuple[Float[Array, "K D"], Float[Array, "D D"]]:
        effect = self.noise_effect.value.reshape(self.state_dim, -1)
        return effect, self.noise_density.value.reshape(effect.shape[1], effect.shape[1])

    def _stationary(self) -> Float[Array, "K K"]:
        if self.state_covariance is not None:
            return self.state_covariance.value
        return _stationary_covariance(self.feedback.value, *self._noise())

    def _matrix(self, array: Float[Array, "rows columns"]) -> AbstractMatrix:
        return adapt(Dense(array), self.state_dim, array.dtype)

    def _check_shapes(self) -> None:
        shape = jnp.shape(self.measurement_vector.value)
        if len(shape) != 1 or shape[0] == 0:
            raise DataError(
                f"{{argument}} has the shape {list(shape)}, but must have the shape [K]",
                argument="measurement_vector",
            )
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
                wanted = " or ".join(str(list(shape)) for shape in shapes)
                raise DataError(
                    f"{{argument}} has the shape {list(jnp.shape(parameter.value))}, but with a "
                    f"`measurement_vector` of length {size} it must be {wanted}",
                    argument=name,
                )

    def _check_stationary(self) -> None:
        """Raise an error if known values do not allow a stationary process."""
        if self.initial_covariance is not None:
            if self.state_covariance is not None:
                raise DataError(
                    "{argument} and `initial_covariance` are both given",
                    "Pass one of them.",
                    argument="state_covariance",
                )
            return
        arrays = [self.feedback.value, *self._noise()]
        if self.state_covariance is not None:
            arrays.append(self.state_covariance.value)
        if not all(is_known(array) for array in arrays):
            return
        F, L, q, *given = [np.asarray(array, dtype=np.float64) for array in arrays]
        if not given:
            if np.max(np.linalg.eigvals(F).real) >= 0:
                raise DataError(
                    "{argument} is not stable (an eigenvalue has a real part of zero or more), so "
                    "it has no stationary covariance",
                    "Pass `state_covariance` or `initial_covariance`.",
                    argument="feedback",
                )
            return
        drift, diffusion = F @ given[0], L @ q @ L.T
        scale = np.max(np.abs(drift)) + np.max(np.abs(diffusion))
        if np.max(np.abs(drift + drift.T + diffusion)) > 1e-4 * scale:
            raise DataError(
                "{argument} is not stationary: F P + P Fᵀ + L q Lᵀ is not zero",
                "Leave it out to have it computed, or pass it as `initial_covariance`.",
                argument="state_covariance",
            )


def _optional(name: str, value: Any) -> AbstractParameter | None:
    return None if value is None else named(name, real)(value)


def _propagator(feedback: Float[Array, "K K"], gap: Scalar) -> Float[Array, "K K"]:
    """Compute the transition A = exp(F gap).

    Args:
        feedback: F.
        gap: a length of time, not negative.
    """
    step, doublings = _short_step(feedback, gap)
    change = _short_change(feedback, step)

    def double(change: Float[Array, "K K"]) -> Float[Array, "K K"]:
        return 2.0 * change + change @ change

    return _repeat(double, change, doublings) + _identity_like(feedback)


def discretise(
    feedback: Float[Array, "K K"],
    noise_effect: Float[Array, "K D"],
    noise_density: Float[Array, "D D"],
    gap: Scalar,
) -> tuple[Float[Array, "K K"], Float[Array, "K K"]]:
    """Compute A and the noise covariance Q = ∫₀^gap exp(F s) L q Lᵀ exp(F s)ᵀ ds.

    Args:
        feedback: F.
        noise_effect: L.
        noise_density: q, positive semi-definite.
        gap: a length of time, not negative.
    """
    step, doublings = _short_step(feedback, gap)
    identity = _identity_like(feedback)
    change = _short_change(feedback, step)
    noise = _short_noise(feedback, noise_effect, noise_density, step)

    def double(carry):
        change, noise = carry
        transition = change + identity
        gained = transition @ noise @ transition.T
        return 2.0 * change + change @ change, noise + gained

    change, noise = _repeat(double, (change, noise), doublings)
    return change + identity, noise


def _stationary_covariance(
    feedback: Float[Array, "K K"],
    noise_effect: Float[Array, "K D"],
    noise_density: Float[Array, "D D"],
) -> Float[Array, "K K"]:
    """Solve F P + P Fᵀ + L q Lᵀ = 0 for P.

    Args:
        feedback: F, stable.
        noise_effect: L.
        noise_density: q.
    """
    size = feedback.shape[0]
    identity = _identity_like(feedback)
    operator = jnp.kron(feedback, identity) + jnp.kron(identity, feedback)
    diffusion = noise_effect @ noise_density @ noise_effect.T
    return jnp.linalg.solve(operator, -diffusion.reshape(-1)).reshape(size, size)


def _short_step(feedback: Float[Array, "K K"], gap: Scalar) -> tuple[Scalar, Int[Array, ""]]:
    """Return a step with a small norm of F times step, and the number of doublings to the gap."""
    norm = lax.stop_gradient(jnp.max(jnp.sum(jnp.abs(feedback), axis=0)))
    longest = SHORT * 2.0**MAX_DOUBLINGS
    # Beyond `longest` time constants a stable process is independent of its start.
    gap = jnp.minimum(gap, longest / jnp.maximum(norm, jnp.finfo(norm.dtype).tiny * longest))
    ratio = jnp.maximum(norm * lax.stop_gradient(gap) / SHORT, 1.0)
    doublings = jnp.ceil(jnp.log2(ratio)).astype(jnp.int32)
    return gap * jnp.ldexp(jnp.ones_like(gap), -doublings), doublings


def _series(
    feedback: Float[Array, "K K"], start: Float[Array, "K D"], step: Scalar
) -> Float[Array, "terms K D"]:
    """Return the terms Fᵏ stepᵏ / k! `start` for k = 1, 2, … of exp(F step) `start`."""

    def advance(term, k):
        term = (feedback @ term) * (step / k)
        return term, term

    orders = jnp.arange(1.0, _series_length(feedback) + 1.0, dtype=feedback.dtype)
    return lax.scan(advance, start, orders)[1]


def _short_change(feedback: Float[Array, "K K"], step: Scalar) -> Float[Array, "K K"]:
    """A − I over a short step."""
    return jnp.sum(_series(feedback, _identity_like(feedback), step), axis=0)


def _short_noise(
    feedback: Float[Array, "K K"],
    noise_effect: Float[Array, "K D"],
    noise_density: Float[Array, "D D"],
    step: Scalar,
) -> Float[Array, "K K"]:
    """Q over a short step, by Gauss–Legendre quadrature: positive weights keep it positive."""
    nodes, weights = np.polynomial.legendre.leggauss(GAUSS_NODES)
    powers = (0.5 * (nodes + 1.0))[:, None] ** np.arange(1, _series_length(feedback) + 1)
    terms = _series(feedback, noise_effect, step)
    effects = noise_effect + jnp.einsum("gk,kad->gad", jnp.asarray(powers, step.dtype), terms)
    shares = jnp.asarray(0.5 * weights, step.dtype) * step
    return jnp.einsum("g,gad,de,gbe->ab", shares, effects, noise_density, effects)


def _series_length(feedback: Float[Array, "K K"]) -> int:
    """Return the number of terms that the exponential series needs at a norm of `SHORT`."""
    precision, term, length = float(jnp.finfo(feedback.dtype).eps), SHORT, 1
    while term > precision / 8:
        length += 1
        term *= SHORT / length
    return length


def _repeat(body, carry, count: Int[Array, ""]):
    """Apply `body` `count` times; unlike `lax.fori_loop`, this has reverse-mode derivatives."""

    def advance(state):
        done, inner = state
        return done + 1, body(inner)

    start = (jnp.zeros_like(count), carry)
    loop = eqxi.while_loop(
        lambda state: state[0] < count,
        advance,
        start,
        max_steps=MAX_DOUBLINGS,
        kind="bounded",
        base=8,
    )
    return loop[1]


def _identity_like(feedback: Float[Array, "K K"]) -> Float[Array, "K K"]:
    return jnp.eye(feedback.shape[0], dtype=feedback.dtype)
