"""Accurate logarithm, exponential, logistic function, and normal tails in log space.

Normal tails are computed from one smooth function of x ≥ 0: the excess of the hazard of the upper
tail, φ(x) / Φ(−x) − x, which falls from √(2/π) to 1/x. One polynomial in t = (x − k) / (x + k)
approximates it to full precision on the whole half line. The hazard, its derivative and log Φ are
then accurate in both tails, with one selection by sign.
"""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxkick._typing import Array, Bool, Float

__all__ = [
    "LOG_SQRT_2PI",
    "Derivatives",
    "Logistic",
    "NormalTail",
    "bounded_exp",
    "exp_limit",
    "hazard_beyond",
    "log",
    "log_growth",
    "log_interval",
    "logistic",
    "no_less_than_tiny",
    "normal_tail",
]

_EXPONENT_AT = 52
_BIAS = 1023
_SQRT_HALF_BITS = 0x3FE6A09E667F3BCD
_TWO_TO_52_BITS, _TWO_TO_52 = 0x4330000000000000, 2.0**52
_TERMS = 10

LOG_SQRT_2PI = 0.9189385332046727
INV_SQRT_2PI = 0.3989422804014327

# Chebyshev fits of (x + k) (φ(x) / Φ(−x) − x) in t = (x − k) / (x + k), as monomials in t,
# lowest order first, computed with 50 digits. The largest relative error is 5e-16 for the first
# (k = 4) and 7e-8 for the second (k = 3).
_DOUBLE = (
    1.8048571559157687, -1.1822045015192733, 0.40195670380623527, 0.0675179279220439,
    -0.13822449147915367, 0.03370366767953205, 0.031656527489777486, -0.02080045474768629,
    -0.004488589890605869, 0.007961415268805725, -0.00037358596952200143,
    -0.0024858165045068786, 0.0005948559918031812, 0.0006655903455262717,
    -0.0002892918027857523, -0.000150583452670617, 0.00010488754870985674,
    2.6065652372394897e-05, -3.170859414881326e-05, -2.0576483962949494e-06,
    8.114172816411628e-06, -6.000431220458293e-07, -1.6905634592427578e-06,
    2.608077353232417e-07, 2.5569143808187903e-07, -3.536609116764416e-08,
    -2.071114283078507e-08,
)  # fmt: skip
_SINGLE = (
    1.6985919210198792, -0.8415379677158322, 0.017164019589140163, 0.18567585003623926,
    -0.025449472604729722, -0.054442150217609196, 0.007794892589166281, 0.017722426945738563,
    -0.0012465034484041688, -0.005087844582484385, -0.00010099772331105024,
    0.0008428999306150387, 7.29884933503718e-05,
)  # fmt: skip


class Derivatives(NamedTuple):
    """The value of a function and its first two derivatives.

    Attributes:
        value: the value.
        first: the first derivative with respect to the mean (or the score).
        second: the second derivative.
    """

    value: Float[Array, "..."]
    first: Float[Array, "..."]
    second: Float[Array, "..."]


@jax.custom_jvp
def log(x: Float[Array, "..."]) -> Float[Array, "..."]:
    """Compute the natural logarithm of nonnegative numbers.

    XLA's CPU compiler calls the C library for each float64, which takes ten nanoseconds. On CPUs
    this function uses arithmetic that the compiler vectorises instead. It is accurate to a few
    units in the last place, and returns −∞ below the smallest normal number.

    Args:
        x: numbers ≥ 0.
    """
    if x.dtype != jnp.float64 or jax.dtypes.canonicalize_dtype(np.int64) != np.int64:
        return jnp.log(x)
    # Other devices do not expose the bits of a float64 (TPU), or have a fast logarithm (GPU).
    return lax.platform_dependent(x, cpu=_log_of_bits, default=jnp.log)


@log.defjvp
def _log_jvp(primals, tangents):
    (x,), (dx,) = primals, tangents
    return log(x), dx / x


def _log_of_bits(x: Float[Array, "..."]) -> Float[Array, "..."]:
    """Compute log x = e log 2 + 2 artanh((m − 1) / (m + 1)), with x = 2ᵉ m and √½ ≤ m < √2."""
    bits = lax.bitcast_convert_type(x, jnp.int64)
    exponent = lax.shift_right_arithmetic(bits - _SQRT_HALF_BITS, jnp.int64(_EXPONENT_AT))
    mantissa_bits = bits - lax.shift_left(exponent, jnp.int64(_EXPONENT_AT))
    mantissa = lax.bitcast_convert_type(mantissa_bits, jnp.float64)
    # 2⁵² + n has n in its lowest bits: a conversion that every processor can vectorise.
    shifted = lax.bitcast_convert_type(exponent + (_BIAS + _TWO_TO_52_BITS), jnp.float64)
    power = shifted - (_TWO_TO_52 + _BIAS)
    z = (mantissa - 1.0) / (mantissa + 1.0)
    square = z * z
    series = jnp.full_like(x, 2.0 / (2 * _TERMS - 1))
    for k in reversed(range(_TERMS - 1)):
        series = series * square + 2.0 / (2 * k + 1)
    value = power * math.log(2.0) + z * series
    normal = (x >= float(jnp.finfo(x.dtype).tiny)) & (x < jnp.inf)
    return jnp.where(normal, value, jnp.where(x >= 0, jnp.where(x < 1, -jnp.inf, x), jnp.nan))


def exp_limit(dtype: jnp.dtype) -> float:
    """Return the exponent beyond which `bounded_exp` is linear."""
    return 300.0 if dtype == jnp.float64 else 60.0


def bounded_exp(x: Float[Array, "..."]) -> Float[Array, "..."]:
    """Compute exp(x), extended by its tangent to avoid overflow.

    The value is finite and the derivative positive, so that optimizers can recover.

    Args:
        x: exponents.

    Returns:
        The exponential up to e³⁰⁰ (e⁶⁰ in float32), and its tangent beyond.
    """
    limit = exp_limit(x.dtype)
    return jnp.exp(jnp.minimum(x, limit)) * (1 + jnp.maximum(x - limit, 0.0))


class Logistic(NamedTuple):
    """The logistic function σ(x) = exp(exponent) · factor.

    Attributes:
        exponent: min(x, 0).
        factor: 1 / (1 + exp(−|x|)).
        win: σ(x).
        loss: σ(−x).
    """

    exponent: Float[Array, "..."]
    factor: Float[Array, "..."]
    win: Float[Array, "..."]
    loss: Float[Array, "..."]


@jax.custom_jvp
def logistic(x: Float[Array, "..."]) -> Logistic:
    """Compute the logistic function and its parts with one exponential and no logarithm.

    Args:
        x: log-odds.

    Returns:
        The parts. Under differentiation, the exponent has the derivative of log σ and the factor
        is constant.
    """
    small = jnp.exp(-jnp.abs(x))
    factor = 1 / (1 + small)
    positive = x > 0
    win = jnp.where(positive, 1.0, small) * factor
    loss = jnp.where(positive, small, 1.0) * factor
    return Logistic(jnp.minimum(x, 0.0), factor, win, loss)


@logistic.defjvp
def _logistic_jvp(primals, tangents):
    (x,), (dx,) = primals, tangents
    parts = logistic(x)
    change = parts.win * parts.loss * dx
    return parts, Logistic(parts.loss * dx, jnp.zeros_like(change), change, -change)


def no_less_than_tiny(variance: Float[Array, "..."]) -> Float[Array, "..."]:
    """Clip `variance` from below at a tiny number with a square that does not underflow."""
    return jnp.maximum(variance, 1e-150 if variance.dtype == jnp.float64 else 1e-18)


@jax.custom_jvp
def log_growth(variance: Float[Array, "..."]) -> Float[Array, "..."]:
    """Compute log(variance / its current value), which is zero but has a derivative."""
    return jnp.zeros_like(variance)


@log_growth.defjvp
def _log_growth_jvp(primals, tangents):
    (variance,), (change,) = primals, tangents
    # Bounded, for variances so small that nodes coincide.
    floor = 1e-20 if variance.dtype == jnp.float64 else 1e-10
    return log_growth(variance), change / jnp.maximum(variance, floor)


class NormalTail(NamedTuple):
    """log Φ(z), its derivative h = φ(z) / Φ(z) (the hazard), and the excess h + z."""

    log_cdf: Float[Array, "..."]
    hazard: Float[Array, "..."]
    excess: Float[Array, "..."]


def normal_tail(z: Float[Array, "..."]) -> NormalTail:
    """Compute log Φ, its derivative h = φ/Φ, and h + z accurately in both tails.

    The second derivative of log Φ is −h (h + z). The sum h + z is returned because computing it
    from h would cancel for z far below zero.

    Args:
        z: standardised values.
    """
    parts = _split_tail(z)
    return NormalTail(parts.exponent - log(parts.divisor), parts.hazard, parts.excess)


class _SplitTail(NamedTuple):
    """The parts of a tail whose logarithm is not yet taken: log Φ = exponent − log(divisor).

    Under differentiation, the exponent has the derivative of log Φ and the divisor is constant.
    """

    exponent: Float[Array, "..."]
    divisor: Float[Array, "..."]
    hazard: Float[Array, "..."]
    excess: Float[Array, "..."]


@jax.custom_jvp
def _split_tail(z: Float[Array, "..."]) -> _SplitTail:
    x = jnp.abs(z)
    beyond = hazard_beyond(x)
    upper_hazard = x + beyond
    density = INV_SQRT_2PI * jnp.exp(-0.5 * z * z)
    negative = z < 0
    # One division for both signs: φ / (1 − φ / upper_hazard) where z is positive.
    hazard = jnp.where(negative, upper_hazard, density * upper_hazard) / jnp.where(
        negative, 1.0, upper_hazard - density
    )
    excess = jnp.where(negative, beyond, z + hazard)
    far = z > (5.0 if z.dtype == jnp.float64 else 3.0)
    upper_mass = hazard / (upper_hazard + hazard)  # Φ(−z), used only for z far above zero
    exponent = jnp.where(
        far, -upper_mass - 0.5 * upper_mass * upper_mass, -0.5 * z * z - LOG_SQRT_2PI
    )
    return _SplitTail(exponent, jnp.where(far, 1.0, hazard), hazard, excess)


@_split_tail.defjvp
def _split_tail_jvp(primals, tangents):
    (z,), (dz,) = primals, tangents
    tail = _split_tail(z)
    lower = (tail.hazard, tail.excess)
    hazard, excess = _lower_slopes(lower, dz)
    return tail, _SplitTail(tail.hazard * dz, jnp.zeros_like(z), hazard, excess)


@jax.custom_jvp
def _lower_tail(z: Float[Array, "..."]) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
    """Compute the hazard h and the excess h + z of `normal_tail` for z ≤ 0, where it is cheap."""
    excess = hazard_beyond(-z)
    return excess - z, excess


@_lower_tail.defjvp
def _lower_tail_jvp(primals, tangents):
    (z,), (dz,) = primals, tangents
    tail = _lower_tail(z)
    return tail, _lower_slopes(tail, dz)


def _lower_slopes(tail: tuple, dz: Float[Array, "..."]) -> tuple:
    """The changes of hazard and excess."""
    hazard, excess = tail
    curvature = hazard * excess
    return -curvature * dz, (1 - curvature) * dz


def hazard_beyond(x: Float[Array, "..."]) -> Float[Array, "..."]:
    """Compute φ(x) / Φ(−x) − x for x ≥ 0."""
    centre, coefficients = (4.0, _DOUBLE) if x.dtype == jnp.float64 else (3.0, _SINGLE)
    inverse = 1 / (x + centre)
    return inverse * polynomial(coefficients, 1 - (2 * centre) * inverse)


def log_interval(
    near: Float[Array, "..."], width: Float[Array, "..."], bounded: Bool[Array, "..."]
) -> Derivatives:
    """Compute log[Φ(near) − Φ(near − width)] and its derivatives under a shift of both ends.

    Args:
        near: the upper end. If `bounded`, the middle of the interval must not be above zero;
            otherwise mirror the interval.
        width: length of the interval; any positive number if not `bounded`.
        bounded: whether there is a lower end; if not, the result is log Φ(near).

    Returns:
        The logarithm and its first and second derivatives.
    """
    middle = near - 0.5 * width
    short = bounded & (width * (1 - middle) < 1)
    brief = _short_interval(jnp.where(short, middle, 0.0), jnp.where(short, width, 0.5))
    long = _long_interval(near, jnp.where(short | ~bounded, 1.0, width), bounded)
    exponent, mass, first, second = (
        jnp.where(short, a, b) for a, b in zip(brief, long, strict=True)
    )
    return Derivatives(exponent + log(mass), first, second)


class _Interval(NamedTuple):
    """An interval whose logarithm is not yet taken: it is exponent + log(mass)."""

    exponent: Float[Array, "..."]
    mass: Float[Array, "..."]
    first: Float[Array, "..."]
    second: Float[Array, "..."]


def _short_interval(middle: Float[Array, "..."], width: Float[Array, "..."]) -> _Interval:
    """Integrate the expansion of φ around the middle: φ(c) w Σ He₂ₙ(c) (w/2)²ⁿ / (2n + 1)!."""
    half = 0.5 * width
    slope, square = middle * half, half * half
    # `scaled[n]` is the Hermite polynomial Heₙ(middle) · halfⁿ.
    scaled = [jnp.ones_like(middle), slope]
    series, series1, series2 = 1.0, 0.0, 0.0
    factorial = 1.0
    for n in range(1, 8):
        order = 2 * n
        while len(scaled) <= order:
            last = len(scaled) - 1
            scaled.append(slope * scaled[-1] - (last * square) * scaled[-2])
        factorial *= order * (order + 1)
        # Products with constants: divisions take several times as long.
        series = series + (1.0 / factorial) * scaled[order]
        series1 = series1 + (order / factorial) * scaled[order - 1]
        series2 = series2 + (order * (order - 1) / factorial) * scaled[order - 2]
    inverse = 1 / series
    ratio1, ratio2 = half * series1 * inverse, square * series2 * inverse
    exponent = -0.5 * middle * middle - LOG_SQRT_2PI
    return _Interval(exponent, width * series, -middle + ratio1, -1 + ratio2 - ratio1 * ratio1)


def _long_interval(
    near: Float[Array, "..."], width: Float[Array, "..."], bounded: Bool[Array, "..."]
) -> _Interval:
    """Compute Φ(near) times the fraction above the far end, without cancellation."""
    tail = _split_tail(near)
    # Not above zero, because the middle is not. Without a far end, use a finite one: far above
    # zero its hazard would underflow.
    hazard, excess = _lower_tail(jnp.where(bounded, near - width, -1.0))
    # φ(far) / φ(near), and the fraction of Φ(near) that lies above the far end.
    ratio = jnp.where(bounded, jnp.exp(jnp.where(bounded, (near - 0.5 * width) * width, 0.0)), 0.0)
    lost = ratio * (width + excess - tail.excess) / hazard
    dropped = 1 - ratio
    kept = dropped + lost
    inverse = 1 / kept
    first = tail.hazard * dropped * inverse
    bend = tail.excess - tail.hazard * lost * inverse
    second = -first * bend - tail.hazard * width * ratio * inverse
    return _Interval(tail.exponent, kept / tail.divisor, first, second)


def polynomial(coefficients: tuple[float, ...], t: Float[Array, "..."]) -> Float[Array, "..."]:
    """Evaluate a polynomial by Estrin's scheme, which vectorises well.

    Args:
        coefficients: lowest order first.
        t: argument.
    """
    terms: list[Any] = list(coefficients)
    power = t
    while len(terms) > 1:
        pairs = [low + high * power for low, high in zip(terms[::2], terms[1::2], strict=False)]
        terms = pairs + terms[len(pairs) * 2 :]
        power = power * power
    return terms[0]
