"""Sums and products of kernels."""

import functools
import math
import numbers
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
from jaxtyping import ArrayLike

from jaxkick._math.small_matrices import (
    AbstractMatrix,
    as_matrix,
    block_diagonal,
    kronecker,
    stack_columns,
)
from jaxkick._typing import Scalar
from jaxkick.kernels.base import AbstractKernel
from jaxkick.kernels.stationary import Constant
from jaxkick.kernels.time import Instant, Interval
from jaxkick.parameters import AbstractParameter, Fixed, Positive

__all__ = ["Product", "Sum", "add", "multiply"]


class Sum(AbstractKernel):
    """The sum of independent processes: k(t, u) = Σ kᵢ(t, u). The states are stacked."""

    terms: tuple[AbstractKernel, ...]

    def __init__(self, *terms: AbstractKernel):
        """Add kernels; nested sums are flattened.

        Args:
            *terms: at least one kernel.

        Raises:
            TypeError: if there is no argument, or one is not a kernel.
        """
        self.terms = _flattened(Sum, "terms", terms)

    @property
    def state_dim(self) -> int:
        return sum(term.state_dim for term in self.terms)

    @property
    def aspects(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for term in self.terms for name in term.aspects))

    def measurement(self) -> AbstractMatrix:
        return self.measurement_at(None)

    def measurement_at(self, aspects: Mapping[str, Scalar] | None) -> AbstractMatrix:
        return functools.reduce(
            stack_columns, [as_matrix(term.measurement_at(aspects)) for term in self.terms]
        )

    def state_cov(self, instant: Instant) -> AbstractMatrix:
        return _diagonal_blocks([as_matrix(term.state_cov(instant)) for term in self.terms])

    def transition(self, interval: Interval) -> AbstractMatrix:
        return _diagonal_blocks([as_matrix(term.transition(interval)) for term in self.terms])

    def noise_cov(self, interval: Interval) -> AbstractMatrix:
        return _diagonal_blocks([as_matrix(term.noise_cov(interval)) for term in self.terms])

    def covariance(self, first: Instant, second: Instant) -> Scalar:
        values = [term.covariance(first, second) for term in self.terms]
        return functools.reduce(lambda a, b: a + b, values)

    def describe(self, unit: str | None = None) -> str:
        return ", plus ".join(term.describe(unit) for term in self.terms)

    def timescales(self) -> dict[str, tuple[AbstractKernel, float]]:
        return _timescales("terms", self.terms)

    def __repr__(self) -> str:
        return " + ".join(repr(term) for term in self.terms)


class Product(AbstractKernel):
    """The product of kernels: k(t, u) = Π kᵢ(t, u).

    The state is the Kronecker product of the factors' states. The noise covariance of two factors
    is Q₁ ⊗ P₂(end) + (A₁ P₁(start) A₁ᵀ) ⊗ Q₂, a sum of positive semi-definite terms.
    """

    factors: tuple[AbstractKernel, ...]

    def __init__(self, *factors: AbstractKernel):
        """Multiply kernels; nested products are flattened.

        Args:
            *factors: at least one kernel.

        Raises:
            TypeError: if there is no argument, one is not a kernel, or several have aspects.
        """
        self.factors = _flattened(Product, "factors", factors)
        if sum(bool(factor.aspects) for factor in self.factors) > 1:
            raise TypeError("Only one factor of a product may have aspects.")

    @property
    def state_dim(self) -> int:
        return functools.reduce(lambda a, b: a * b, [factor.state_dim for factor in self.factors])

    @property
    def aspects(self) -> tuple[str, ...]:
        return tuple(name for factor in self.factors for name in factor.aspects)

    def measurement(self) -> AbstractMatrix:
        return self.measurement_at(None)

    def measurement_at(self, aspects: Mapping[str, Scalar] | None) -> AbstractMatrix:
        # One factor has the coefficients.
        own = [bool(factor.aspects) for factor in self.factors]
        own = own if any(own) else [place == 0 for place in range(len(own))]
        vectors = [
            as_matrix(factor.measurement_at(aspects if mine else None))
            for mine, factor in zip(own, self.factors, strict=True)
        ]
        return functools.reduce(kronecker, vectors)

    def state_cov(self, instant: Instant) -> AbstractMatrix:
        return functools.reduce(
            kronecker, [as_matrix(factor.state_cov(instant)) for factor in self.factors]
        )

    def transition(self, interval: Interval) -> AbstractMatrix:
        steps = [as_matrix(factor.transition(interval)) for factor in self.factors]
        return functools.reduce(kronecker, steps)

    def noise_cov(self, interval: Interval) -> AbstractMatrix:
        noise: Any = None
        carried: Any = None
        for factor in self.factors:
            step, gained = (
                as_matrix(factor.transition(interval)),
                as_matrix(factor.noise_cov(interval)),
            )
            kept = (step @ as_matrix(factor.state_cov(interval.start)) @ step.T).symmetric()
            if noise is None:
                noise, carried = gained, kept
                continue
            at_end = as_matrix(factor.state_cov(interval.end))
            noise = kronecker(noise, at_end) + kronecker(carried, gained)
            carried = kronecker(carried, kept)
        return noise

    def covariance(self, first: Instant, second: Instant) -> Scalar:
        values = [factor.covariance(first, second) for factor in self.factors]
        return functools.reduce(lambda a, b: a * b, values)

    def describe(self, unit: str | None = None) -> str:
        scales = [_fixed_scale(factor) for factor in self.factors]
        rest = [f for f, scale in zip(self.factors, scales, strict=True) if scale is None]
        total = math.prod(scale for scale in scales if scale is not None)
        if not rest:
            return Constant(total).describe(unit)
        text = " times ".join(factor.describe(unit) for factor in rest)
        return text if total == 1.0 else f"{text}, with {total:.3g} times the variance"

    def timescales(self) -> dict[str, tuple[AbstractKernel, float]]:
        return _timescales("factors", self.factors)

    def __repr__(self) -> str:
        texts = [_factor_text(factor) for factor in self.factors]
        return " * ".join(texts) if len(texts) > 1 else repr(self.factors[0])


def add(first: AbstractKernel, second: AbstractKernel) -> Sum:
    """Add two kernels.

    Args:
        first: a kernel.
        second: another kernel.

    Raises:
        TypeError: if one is not a kernel.
    """
    for item in (first, second):
        if not isinstance(item, AbstractKernel):
            raise TypeError(
                f"A kernel can be added to another kernel, not to {_type_name(item)}. "
                "For a score that never changes, add `Constant(variance)`."
            )
    return Sum(first, second)


def multiply(first: AbstractKernel | ArrayLike, second: AbstractKernel | ArrayLike) -> Product:
    """Multiply two kernels, or a kernel by a number.

    A Python or NumPy number scales the variance and is not learnt. A JAX array or a parameter is
    learnt, as in ``Constant(variance) * kernel``.

    Args:
        first: a kernel or a positive number.
        second: a kernel or a positive number.

    Raises:
        TypeError: if one is neither.
        ValueError: if a known number is not positive.
    """
    return Product(_as_factor(first), _as_factor(second))


def _as_factor(item: AbstractKernel | ArrayLike) -> AbstractKernel:
    if isinstance(item, AbstractKernel):
        return item
    if isinstance(item, AbstractParameter):
        return Constant(item)
    if isinstance(item, jax.Array) and item.ndim == 0:
        return Constant(Positive(item))
    plain = isinstance(item, numbers.Real) or (isinstance(item, np.ndarray) and item.ndim == 0)
    if not plain or isinstance(item, bool):
        raise TypeError(
            "A kernel can be multiplied by another kernel or by a number, "
            f"not by {_type_name(item)}."
        )
    if not 0.0 < float(item) < float("inf"):
        raise ValueError(f"A kernel can be scaled by a positive finite number, not by {item}.")
    return Constant(Fixed(float(item)))


def _flattened(kind: type, name: str, parts: tuple) -> tuple[AbstractKernel, ...]:
    """Flatten nested sums or products."""
    if not parts or not all(isinstance(part, AbstractKernel) for part in parts):
        found = ", ".join(_type_name(part) for part in parts) or "nothing"
        raise TypeError(f"`{name}` of {kind.__name__} must be at least one kernel, not {found}.")
    nested = [getattr(part, name) if isinstance(part, kind) else (part,) for part in parts]
    return tuple(part for inner in nested for part in inner)


def _diagonal_blocks(blocks: list[AbstractMatrix]) -> AbstractMatrix:
    return functools.reduce(block_diagonal, blocks)


def _timescales(
    name: str, parts: tuple[AbstractKernel, ...]
) -> dict[str, tuple[AbstractKernel, float]]:
    return {
        f"{name}[{place}].{path}": found
        for place, part in enumerate(parts)
        for path, found in part.timescales().items()
    }


def _fixed_scale(factor: AbstractKernel) -> float | None:
    """Return the number of a factor that only scales the variance, otherwise `None`."""
    if isinstance(factor, Constant) and isinstance(factor.variance, Fixed):
        return float(factor.variance.value)
    return None


def _factor_text(factor: AbstractKernel) -> str:
    if isinstance(factor, Sum) and len(factor.terms) > 1:
        return f"({factor!r})"
    if isinstance(factor, Constant) and isinstance(factor.variance, Fixed):
        return repr(factor.variance)
    return repr(factor)


def _type_name(item: object) -> str:
    return f"an object of type `{type(item).__name__}`"
