"""One side wins, the other loses."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import ArrayLike

from jaxkick._numerics import Anchor, Derivatives, Local, logistic, normal_tail
from jaxkick._typing import Array, Float, Key
from jaxkick.likelihoods.base import AbstractLikelihood
from jaxkick.likelihoods.integrals import align, log_partition_by_quadrature

__all__ = ["Logit", "Probit"]


class Probit(AbstractLikelihood):
    """P(first wins) = Φ(f), with Φ the normal distribution function.

    Outcomes: +1 where the first side wins, −1 where the second does. Expectation propagation
    has its moments in closed form, for weights of one.
    """

    @property
    def domain(self) -> str:
        return "+1 (first wins) or -1 (second wins); ties need OrdinalProbit"

    @property
    def levels(self) -> tuple[float, ...]:
        return (-1.0, 1.0)

    def check(self, outcome: np.ndarray) -> np.ndarray:
        return _not_binary(outcome)

    def log_prob(
        self, outcome: Float[Array, "..."], score: Float[Array, "..."]
    ) -> Float[Array, "..."]:
        return normal_tail(outcome * score).log_cdf

    def log_partition(
        self,
        outcome: ArrayLike,
        mean: ArrayLike,
        variance: ArrayLike,
        weight: ArrayLike | None = None,
    ) -> Derivatives:
        if weight is not None:
            return log_partition_by_quadrature(self, outcome, mean, variance, weight)
        mean, variance, outcome = align(mean, variance, outcome)
        scale = outcome * lax.rsqrt(1 + variance)
        tail = normal_tail(mean * scale)
        return Derivatives(
            tail.log_cdf, tail.hazard * scale, -tail.hazard * tail.excess * scale * scale
        )

    def local(self, outcome: Float[Array, "..."]) -> Callable[[Array], Local]:
        def at(score):
            tail = normal_tail(outcome * score)
            return Local(tail.log_cdf, outcome * tail.hazard, -tail.hazard * tail.excess)

        return at

    def anchor(self, outcome: Float[Array, "..."], weight: Float[Array, "..."] | float) -> Anchor:
        return _step_at_zero(outcome, 2.0, weight)

    def sample(self, key: Key[Array, ""], score: Float[Array, "..."]) -> Float[Array, "..."]:
        return _sign(score + jax.random.normal(key, score.shape, score.dtype))


class Logit(AbstractLikelihood):
    """P(first wins) = 1 / (1 + exp(−f)), the Bradley–Terry model.

    Outcomes: +1 where the first side wins, −1 where the second does.
    """

    @property
    def domain(self) -> str:
        return "+1 (first wins) or -1 (second wins); ties need OrdinalLogit"

    @property
    def levels(self) -> tuple[float, ...]:
        return (-1.0, 1.0)

    def check(self, outcome: np.ndarray) -> np.ndarray:
        return _not_binary(outcome)

    def log_prob(
        self, outcome: Float[Array, "..."], score: Float[Array, "..."]
    ) -> Float[Array, "..."]:
        return jax.nn.log_sigmoid(outcome * score)

    def local(self, outcome: Float[Array, "..."]) -> Callable[[Array], Local]:
        def at(score):
            parts = logistic(outcome * score)
            return Local(
                parts.exponent, outcome * parts.loss, -parts.win * parts.loss, parts.factor
            )

        return at

    def anchor(self, outcome: Float[Array, "..."], weight: Float[Array, "..."] | float) -> Anchor:
        return _step_at_zero(outcome, 3.0, weight)

    def sample(self, key: Key[Array, ""], score: Float[Array, "..."]) -> Float[Array, "..."]:
        return _sign(score + jax.random.logistic(key, score.shape, score.dtype))


def _step_at_zero(
    outcome: Float[Array, "..."], scale: float, weight: Float[Array, "..."] | float
) -> Anchor:
    zero = jnp.zeros_like(outcome)
    return Anchor(zero, zero + scale * lax.rsqrt(jnp.maximum(zero + weight, 1.0)))


def _sign(latent: Float[Array, "..."]) -> Float[Array, "..."]:
    return jnp.where(latent >= 0, jnp.ones_like(latent), -1.0)


def _not_binary(outcome: np.ndarray) -> np.ndarray:
    return (outcome != 1) & (outcome != -1)
