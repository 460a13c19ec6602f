"""The logarithm of the modified Bessel function of the first kind, for any order ≥ 0."""

from fractions import Fraction

import jax.numpy as jnp

from jaxkick._typing import Array, Float

__all__ = ["log_ive"]

LOG_2PI = 1.8378770664093453
# The expansion is used at this much higher an order, where it has converged to full precision.
SHIFT = 16
TERMS = 9


def log_ive(order: Float[Array, "..."], z: Float[Array, "..."]) -> Float[Array, "..."]:
    """log(I_order(z) e^−z), differentiable in z.

    Debye's uniform expansion at order + 16, then the recurrence downwards, which is the
    stable direction.

    Args:
        order: real numbers not below zero.
        z: arguments above zero.

    Returns:
        The logarithm of the exponentially scaled Bessel function.
    """
    top = order + float(SHIFT)
    log_top = _debye(top, z)
    ratio = jnp.exp(_debye(top + 1.0, z) - log_top)  # I_{n+1} / I_n
    result = log_top
    for down in range(SHIFT):
        inverse = 2.0 * (top - float(down)) / z + ratio
        result = result + jnp.log(inverse)
        ratio = 1 / inverse
    return result


def _debye(order: Float[Array, "..."], z: Float[Array, "..."]) -> Float[Array, "..."]:
    """log(I_order(z) e^−z) for large orders, uniformly in z."""
    root = jnp.hypot(order, z)
    t = order / root
    square = t * t
    series = jnp.zeros_like(root)
    for coefficients in reversed(_COEFFICIENTS):
        polynomial = jnp.zeros_like(root)
        for coefficient in reversed(coefficients):
            polynomial = polynomial * square + coefficient
        # u_k(t) = t^k × polynomial in t², divided by order^k: powers of 1 / root.
        series = (series + polynomial) / root
    exponent = order * t / (1 + z / root) - order * jnp.arcsinh(order / z)
    return exponent - 0.5 * (LOG_2PI + jnp.log(root)) + jnp.log1p(series)


def _debye_coefficients(terms: int) -> tuple[tuple[float, ...], ...]:
    """Coefficients of u_k(t) / t^k in powers of t², k = 1 … terms.

    u_{k+1} = ½ t² (1 − t²) u_k' + ⅛ ∫₀ᵗ (1 − 5 s²) u_k(s) ds.
    """
    current = {0: Fraction(1)}
    found = []
    for k in range(1, terms + 1):
        following: dict[int, Fraction] = {}
        for power, value in current.items():
            for shift, factor in (
                (1, Fraction(power, 2) + Fraction(1, 8 * (power + 1))),
                (3, -Fraction(power, 2) - Fraction(5, 8 * (power + 3))),
            ):
                before = following.get(power + shift, Fraction(0))
                following[power + shift] = before + factor * value
        current = following
        found.append(tuple(float(current[k + 2 * j]) for j in range(k + 1)))
    return tuple(found)


_COEFFICIENTS = _debye_coefficients(TERMS)
