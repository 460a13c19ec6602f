"""Bessel and incomplete gamma functions, and the Skellam distribution."""

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxkick._typing import Array, Bool, Float, Scalar
from jaxkick._xla import square_once

__all__ = [
    "FAR",
    "incomplete_gammas",
    "integer_quantile",
    "log_ive",
    "scaled_bessels",
    "skellam_cdf",
]

LOG_2PI = 1.8378770664093453
# The expansion is used at an order higher by this, where it has full precision.
DEBYE_SHIFT = 16
DEBYE_TERMS = 9

CIRCLE_NODES = 24
MOST_HALVINGS = 64

FAR = 800.0
"""A normalised gap beyond which exp(-x) is zero in all floating-point types."""

BESSEL_NODES = 128

_NEAR = Fraction(3, 5)


def log_ive(order: Float[Array, "..."], z: Float[Array, "..."]) -> Float[Array, "..."]:
    """Compute log(I_order(z) e^−z), differentiable in z.

    Uses Debye's uniform expansion at order + 16, and then the recurrence downwards, which is the
    stable direction.

    Args:
        order: real numbers ≥ 0.
        z: positive arguments.
    """
    top = order + float(DEBYE_SHIFT)
    log_top = _debye(top, z)
    ratio = jnp.exp(_debye(top + 1.0, z) - log_top)  # I_{n+1} / I_n
    result = log_top
    for down in range(DEBYE_SHIFT):
        inverse = 2.0 * (top - float(down)) / z + ratio
        result = result + jnp.log(inverse)
        ratio = 1 / inverse
    return result


def _debye(order: Float[Array, "..."], z: Float[Array, "..."]) -> Float[Array, "..."]:
    """Compute log(I_order(z) e^−z) for large orders, uniformly in z."""
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
    """Compute the coefficients of u_k(t) / t^k in powers of t², for k = 1, …, terms.

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


_COEFFICIENTS = _debye_coefficients(DEBYE_TERMS)


def scaled_bessels(x: Scalar, order: int) -> Float[Array, " orders"]:
    """Compute exp(−x) I_j(x), scaled modified Bessel functions, for j = 0, …, `order`.

    Uses the trapezoidal rule for (1/π) ∫₀^π exp(x (cos θ − 1)) cos(jθ) dθ. Its error with M nodes
    is exp(−x) I_{2 M − j}(x), which is negligible for x up to several hundred.

    Args:
        x: the argument; positive.
        order: the largest order.
    """
    theta = np.linspace(0.0, np.pi, BESSEL_NODES + 1)
    weights = np.full(theta.shape, 1.0 / BESSEL_NODES)
    weights[[0, -1]] *= 0.5
    waves = weights * np.cos(np.arange(order + 1)[:, None] * theta)
    density = jnp.exp(x * jnp.asarray(np.cos(theta) - 1.0, dtype=x.dtype))
    # Rounding may make tiny coefficients negative.
    return jnp.maximum(jnp.asarray(waves, dtype=x.dtype) @ density, 0.0)


def skellam_cdf(
    count: Float[Array, "..."], up: Float[Array, "..."], down: Float[Array, "..."]
) -> Float[Array, "..."]:
    """Compute P(A − B ≤ count) for independent Poisson counts A and B with rates `up` and `down`.

    Uses Cauchy's integral of the generating function over a circle |z| = eᵗ near its saddle point.
    The trapezoidal rule converges exponentially, and by symmetry half of the circle suffices. A
    circle outside the unit circle gives the upper tail, a circle inside gives the lower tail.

    Args:
        count: integers.
        up: rate of A.
        down: rate of B; zero gives the Poisson distribution.

    Returns:
        Probabilities, accurate to about ten digits in float64.
    """
    tiny = 1e-30
    up, down = jnp.maximum(up, tiny), jnp.maximum(down, tiny)
    level = count + 0.5
    root = jnp.sqrt(level**2 + 4 * up * down)
    saddle = jnp.where(
        level > 0,
        jnp.log(jnp.abs(level + root) / (2 * up)),
        jnp.log(2 * down / jnp.abs(root - level)),
    )
    # The integrand has a pole on the unit circle: keep two widths away from it.
    away = jnp.minimum(2 * lax.rsqrt(up + down), 1.0)
    upper = saddle > 0
    t = jnp.where(upper, jnp.maximum(saddle, away), jnp.minimum(saddle, -away))
    weight_up, weight_down = up * jnp.exp(t), down * jnp.exp(-t)
    reach = jnp.minimum(12 * lax.rsqrt(weight_up + weight_down), math.pi)

    theta = ((jnp.arange(CIRCLE_NODES, dtype=up.dtype) + 0.5) / CIRCLE_NODES) * reach[..., None]
    sine, cosine = jnp.sin(theta), jnp.cos(theta)
    each = lambda x: x[..., None]  # noqa: E731
    size = each(weight_up) * cosine - each(up) + each(weight_down) * cosine - each(down)
    size = jnp.exp(size - each(level * t))
    phase = each(weight_up - weight_down) * sine - each(level) * theta
    real, imaginary = (
        each(jnp.sinh(0.5 * t)) * jnp.cos(0.5 * theta),
        each(jnp.cosh(0.5 * t)) * jnp.sin(0.5 * theta),
    )
    part = size * (jnp.cos(phase) * real + jnp.sin(phase) * imaginary)
    integral = (
        reach / (2 * math.pi * CIRCLE_NODES) * jnp.sum(part / (real**2 + imaginary**2), axis=-1)
    )
    return jnp.clip(jnp.where(upper, 1 - integral, -integral), 0.0, 1.0)


def integer_quantile(
    reached: Callable[[Array], Bool[Array, "..."]],
    low: Float[Array, "..."],
    high: Float[Array, "..."],
) -> Float[Array, "..."]:
    """Find the smallest integer in (low, high] for which a monotone condition holds.

    Args:
        reached: the condition, assumed to hold at `high` and not at `low`.
        low: integers.
        high: integers above `low`.
    """

    def unfinished(state):
        step, low, high = state
        return (step < MOST_HALVINGS) & jnp.any(high - low > 1)

    def halve(state):
        step, low, high = state
        middle = jnp.floor(0.5 * (low + high))
        holds = reached(middle)
        return step + 1, jnp.where(holds, low, middle), jnp.where(holds, middle, high)

    return lax.while_loop(unfinished, halve, (jnp.int32(0), low, high))[2]


@functools.partial(jax.custom_jvp, nondiff_argnums=(1,))
def incomplete_gammas(x: Scalar, count: int) -> tuple[Scalar, ...]:
    """Compute regularised lower incomplete gamma functions P(n, 2x) for n = 1, …, `count`.

    P(n, y) = 1 − exp(−y) Σ_{k<n} yᵏ/k! = exp(−y) Σ_{k≥n} yᵏ/k!. For n = `count` it is computed from
    the first form if y is large and from the second if y is small. The others follow by adding
    positive terms. Nothing cancels, so all have full relative accuracy for all y ≥ 0.

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
    # A quotient on purpose: XLA recomputes products for each use of them, but not quotients.
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
    """Compute exp(−2x) (2x)ᵏ/k! for k < `count`."""
    decay = jnp.exp(-x)
    terms = [square_once(decay)]
    for k in range(1, count):
        terms.append(terms[-1] * x * (2.0 / k))
    return terms


@functools.cache
def _series_fraction(count: int, eps: float) -> tuple[list[float], list[float]]:
    """Compute the Padé approximant of Σ yᵐ (count − 1)!/(count + m)!.

    It has the lowest degree with a relative error below `eps` / 16 for all y where it is used; the
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
    """Compute the coefficients (count − 1)!/(count + m)!, lowest order first."""
    return [Fraction(math.factorial(count - 1), math.factorial(count + m)) for m in range(terms)]


def _value(coefficients: Sequence[Fraction], y: Fraction) -> Fraction:
    return sum((c * y**k for k, c in enumerate(coefficients)), Fraction(0))


def _polynomial(coefficients: Sequence[float], x: Scalar) -> Scalar:
    value = jnp.full_like(x, coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        value = value * x + coefficient
    return value
