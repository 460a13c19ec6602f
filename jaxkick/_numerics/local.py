"""The likelihood of given outcomes as a function of the score alone."""

from typing import NamedTuple

import jax.numpy as jnp

from jaxkick._typing import Array, Float

__all__ = ["Derivatives", "Local"]


class Derivatives(NamedTuple):
    """A function's value and its first two derivatives.

    Attributes:
        value: the value.
        first: first derivative with respect to the mean (or the score).
        second: second derivative.
    """

    value: Float[Array, "..."]
    first: Float[Array, "..."]
    second: Float[Array, "..."]


class Local(NamedTuple):
    """A likelihood at one score, p = factor · exp(exponent), and the slopes of log p.

    The factor spares a logarithm and an exponential in each quadrature node where the
    likelihood is a quotient, as the logistic function is.

    Attributes:
        exponent: logarithm of the likelihood, up to the factor.
        first: first derivative of log p with respect to the score.
        second: second derivative of log p.
        factor: a factor near one; `None` for one.
    """

    exponent: Float[Array, "..."]
    first: Float[Array, "..."]
    second: Float[Array, "..."]
    factor: Float[Array, "..."] | None = None

    @property
    def log_prob(self) -> Float[Array, "..."]:
        """Logarithm of the likelihood."""
        if self.factor is None:
            return self.exponent
        return self.exponent + jnp.log(self.factor)
