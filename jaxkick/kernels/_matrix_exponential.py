"""Transition and noise covariance of any linear stochastic differential equation.

A short step by series, then doublings of the step. The transition is carried as A − I, so
that slow parts beside fast ones keep their accuracy; the noise covariance grows as
Q ← Q + A Q Aᵀ, a sum of positive parts.
"""

import equinox.internal as eqxi
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxkick._typing import Array, Float, Int, Scalar

__all__ = ["discretise", "propagator", "stationary_covariance"]

MAX_DOUBLINGS = 64
SHORT = 0.5
"""The norm of F times the short step, at most."""

GAUSS_NODES = 6
"""Enough for full precision: the integrand's series has converged far earlier at `SHORT`."""


def propagator(feedback: Float[Array, "K K"], gap: Scalar) -> Float[Array, "K K"]:
    """The transition A = exp(F gap).

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
    """The transition A and the noise covariance Q = ∫₀^gap exp(F s) L q Lᵀ exp(F s)ᵀ ds.

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


def stationary_covariance(
    feedback: Float[Array, "K K"],
    noise_effect: Float[Array, "K D"],
    noise_density: Float[Array, "D D"],
) -> Float[Array, "K K"]:
    """The solution P of F P + P Fᵀ + L q Lᵀ = 0.

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
    """A step over which F does little, and how many doublings lead from it to the gap."""
    norm = lax.stop_gradient(jnp.max(jnp.sum(jnp.abs(feedback), axis=0)))
    longest = SHORT * 2.0**MAX_DOUBLINGS
    # Beyond `longest` time constants a stable process has forgotten all it knew.
    gap = jnp.minimum(gap, longest / jnp.maximum(norm, jnp.finfo(norm.dtype).tiny * longest))
    ratio = jnp.maximum(norm * lax.stop_gradient(gap) / SHORT, 1.0)
    doublings = jnp.ceil(jnp.log2(ratio)).astype(jnp.int32)
    return gap * jnp.ldexp(jnp.ones_like(gap), -doublings), doublings


def _series(
    feedback: Float[Array, "K K"], start: Float[Array, "K D"], step: Scalar
) -> Float[Array, "terms K D"]:
    """The terms Fᵏ stepᵏ / k! `start` for k = 1, 2, … of exp(F step) `start`."""

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
    """Q over a short step: Gauss–Legendre nodes with positive weights keep it positive."""
    nodes, weights = np.polynomial.legendre.leggauss(GAUSS_NODES)
    powers = (0.5 * (nodes + 1.0))[:, None] ** np.arange(1, _series_length(feedback) + 1)
    terms = _series(feedback, noise_effect, step)
    effects = noise_effect + jnp.einsum("gk,kad->gad", jnp.asarray(powers, step.dtype), terms)
    shares = jnp.asarray(0.5 * weights, step.dtype) * step
    return jnp.einsum("g,gad,de,gbe->ab", shares, effects, noise_density, effects)


def _series_length(feedback: Float[Array, "K K"]) -> int:
    """Terms that the exponential series needs at a norm of `SHORT`."""
    precision, term, length = float(jnp.finfo(feedback.dtype).eps), SHORT, 1
    while term > precision / 8:
        length += 1
        term *= SHORT / length
    return length


def _repeat(body, carry, count: Int[Array, ""]):
    """Apply `body` `count` times; unlike `lax.fori_loop`, reverse-mode derivatives exist."""

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
