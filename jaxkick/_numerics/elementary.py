"""Elementary functions that neither overflow nor lose their sign."""

import jax
import jax.numpy as jnp
from jax import lax

from jaxkick._typing import Array, Float

__all__ = ["bounded_exp", "exp_limit", "logistic_split"]


def exp_limit(dtype: jnp.dtype) -> float:
    """The exponent beyond which `bounded_exp` follows its tangent."""
    return 300.0 if dtype == jnp.float64 else 60.0


def bounded_exp(x: Float[Array, "..."]) -> Float[Array, "..."]:
    """exp(x), continued by its tangent where it would overflow.

    The value stays finite and the derivative positive, so that an optimiser is still told
    where to go.

    Args:
        x: exponents.

    Returns:
        The exponential up to e³⁰⁰ (e⁶⁰ in single precision), a straight line beyond.
    """
    limit = exp_limit(x.dtype)
    return jnp.exp(jnp.minimum(x, limit)) * (1 + jnp.maximum(x - limit, 0.0))


@jax.custom_jvp
def logistic_split(x: Float[Array, "..."]) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
    """The logistic function as exp(exponent) · factor, without a logarithm.

    Args:
        x: log-odds.

    Returns:
        The exponent min(x, 0) and the factor 1 / (1 + exp(−|x|)). Derivatives are taken of
        their product: all of it is attributed to the exponent.
    """
    return jnp.minimum(x, 0.0), 1 / (1 + jnp.exp(-jnp.abs(x)))


@logistic_split.defjvp
def _logistic_split_jvp(primals, tangents):
    (x,), (dx,) = primals, tangents
    exponent, factor = logistic_split(x)
    return (exponent, factor), (lax.logistic(-x) * dx, jnp.zeros_like(factor))
