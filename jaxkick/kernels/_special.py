"""Special functions of the kernels: accurate for every gap, cheap inside a loop."""

import functools
import itertools
import math
from collections.abc import Sequence
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np

from jaxkick._typing import Array, Float, Scalar

__all__ = ["FAR", "fraction_of_turn", "harmonics", "incomplete_gammas", "scaled_bessels"]

FAR = 800.0
"""A normalised gap beyond which exp(-x) is zero in every precision."""

BESSEL_NODES = 128

_NEAR = Fraction(3, 5)


@functools.partial(jax.custom_jvp, nondiff_argnums=(1,))
def incomplete_gammas(x: Scalar, count: int) -> tuple[Scalar, ...]:
    """The regularised lower incomplete gamma functions P(n, 2x) for n = 1, …, `count`.

    P(n, y) = 1 − exp(−y) Σ_{k<n} yᵏ/k! = exp(−y) Σ_{k≥n} yᵏ/k!. The last one comes from
    the first form where y is large and from the second where y is small; the others follow
    by adding the positive terms between them. So nothing cancels, and each has full relative
    accuracy from y → 0, where it behaves as yⁿ/n!, to y → ∞.

    Args:
        x: half the argument, from zero to `FAR`, so that exp(−x) is shared with a
            transition matrix.
        count: the number of functions.
    """
    y = 2.0 * x
    terms = _poisson_terms(x, count)
    limit = float(_NEAR * count)
    small = jnp.minimum(y, limit)
    numerator, denominator = _series_fraction(count, float(jnp.finfo(y.dtype).eps))
    # XLA computes a quotient once, but products anew for everything that reads them.
    near = terms[-1] * small * _polynomial(numerator, small) / _polynomial(denominator, small)
    values = [jnp.where(y < limit, near, 1.0 - sum(terms[1:], terms[0]))]
    for term in reversed(terms[1:]):
        values.append(values[-1] + term)
    return tuple(reversed(values))


@incomplete_gammas.defjvp
def _incomplete_gammas_jvp(count, primals, tangents):
    (x,), (dx,) = primals, tangents
    slopes = tuple(2.0 * term * dx for term in _poisson_terms(x, count))
    return incomplete_gammas(x, count), slopes


def _poisson_terms(x: Scalar, count: int) -> list[Scalar]:
    """exp(−2x) (2x)ᵏ/k! for k < `count`."""
    decay = jnp.exp(-x)
    # XLA would make exp(-x) exp(-x) a second exponential, did the maximum not stand between.
    terms = [decay * jnp.maximum(decay, 0.0)]
    for k in range(1, count):
        terms.append(terms[-1] * x * (2.0 / k))
    return terms


@functools.cache
def _series_fraction(count: int, eps: float) -> tuple[list[float], list[float]]:
    """Σ yᵐ (count − 1)!/(count + m)! as a quotient of polynomials in y: its Padé approximant.

    Of the lowest degree that is right to a sixteenth of `eps` for all y where it is used: the
    error grows with y.

    Returns:
        Coefficients of numerator and denominator, the lowest first.
    """
    y = _NEAR * count
    exact = _value(_series(count, 60), y)
    numerator, denominator = next(
        pair
        for pair in map(functools.partial(_pade, count), itertools.count(1))
        if abs(_value(pair[0], y) / _value(pair[1], y) / exact - 1) < eps / 16
    )
    return list(map(float, numerator)), list(map(float, denominator))


def _pade(count: int, degree: int) -> tuple[list[Fraction], list[Fraction]]:
    size, series = range(degree + 1), _series(count, degree + 1)
    denominator = [
        (-1) ** j * Fraction(math.comb(degree, j), math.perm(2 * degree + count, j)) for j in size
    ]
    numerator = [
        sum((denominator[j] * series[i - j] for j in range(i + 1)), Fraction(0)) for i in size
    ]
    return numerator, denominator


def _series(count: int, terms: int) -> list[Fraction]:
    """The coefficients (count − 1)!/(count + m)!, the lowest first."""
    return [Fraction(math.factorial(count - 1), math.factorial(count + m)) for m in range(terms)]


def _value(coefficients: Sequence[Fraction], y: Fraction) -> Fraction:
    return sum((c * y**k for k, c in enumerate(coefficients)), Fraction(0))


def _polynomial(coefficients: Sequence[float], x: Scalar) -> Scalar:
    value = jnp.full_like(x, coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        value = value * x + coefficient
    return value


def fraction_of_turn(gap: Scalar, period: Scalar) -> Scalar:
    """The part of a period, within ±½, by which `gap` exceeds whole periods."""
    turns = gap / period
    return turns - jnp.round(turns)


def harmonics(fraction: Scalar, count: int) -> tuple[list[Scalar], list[Scalar]]:
    """Cosine and sine of 2π j `fraction` for j = 1, …, `count`, by repeated rotation."""
    angle = (2 * math.pi) * fraction
    cosine, sine = jnp.cos(angle), jnp.sin(angle)
    cosines, sines = [cosine], [sine]
    for _ in range(1, count):
        c, s = cosines[-1], sines[-1]
        cosines.append(c * cosine - s * sine)
        sines.append(s * cosine + c * sine)
    return cosines, sines


def scaled_bessels(x: Scalar, order: int) -> Float[Array, " orders"]:
    """exp(−x) I_j(x) for j = 0, …, `order`: modified Bessel functions of the first kind.

    By the trapezoidal rule of (1/π) ∫₀^π exp(x (cos θ − 1)) cos(jθ) dθ, whose error is
    the neighbouring coefficient exp(−x) I_{2 M − j}(x) with M nodes: nothing up to x of
    several hundreds.

    Args:
        x: the argument, above zero.
        order: the largest order.
    """
    theta = np.linspace(0.0, np.pi, BESSEL_NODES + 1)
    weights = np.full(theta.shape, 1.0 / BESSEL_NODES)
    weights[[0, -1]] *= 0.5
    waves = weights * np.cos(np.arange(order + 1)[:, None] * theta)
    density = jnp.exp(x * jnp.asarray(np.cos(theta) - 1.0, dtype=x.dtype))
    # Rounding may leave a coefficient that is truly tiny just below zero.
    return jnp.maximum(jnp.asarray(waves, dtype=x.dtype) @ density, 0.0)
