"""The natural logarithm, quick inside a loop."""

import math

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxkick._typing import Array, Float

__all__ = ["log"]

_EXPONENT_AT = 52
_BIAS = 1023
_SQRT_HALF_BITS = 0x3FE6A09E667F3BCD
_TWO_TO_52_BITS, _TWO_TO_52 = 0x4330000000000000, 2.0**52
_TERMS = 10


@jax.custom_jvp
def log(x: Float[Array, "..."]) -> Float[Array, "..."]:
    """The natural logarithm of numbers from zero up.

    XLA's CPU compiler calls the C library for every float64, which takes ten nanoseconds; where
    it does, this one is made of arithmetic that it vectorises. It is right to a few units in
    the last place. Below the smallest normal number it is −∞.

    Args:
        x: the numbers.
    """
    if x.dtype != jnp.float64 or jax.dtypes.canonicalize_dtype(np.int64) != np.int64:
        return jnp.log(x)
    # Elsewhere bits of a float64 are not to be had (TPU), or the compiler does better (GPU).
    return lax.platform_dependent(x, cpu=_log_of_bits, default=jnp.log)


@log.defjvp
def _log_jvp(primals, tangents):
    (x,), (dx,) = primals, tangents
    return log(x), dx / x


def _log_of_bits(x: Float[Array, "..."]) -> Float[Array, "..."]:
    """log x = e log 2 + 2 artanh((m − 1) / (m + 1)), with x = 2ᵉ m and √½ ≤ m < √2."""
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
