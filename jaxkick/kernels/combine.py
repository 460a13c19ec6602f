"""Sums and products of kernels."""

import functools
import numbers

import jax
import numpy as np
from jaxtyping import ArrayLike

from jaxkick._parameters import Fixed, Positive
from jaxkick._smallmat import AbstractMatrix, block_diagonal, kronecker, stack_columns
from jaxkick._typing import Scalar
from jaxkick.kernels.base import AbstractKernel
from jaxkick.kernels.stationary import Constant
from jaxkick.kernels.time import Instant, Interval

__all__ = ["Product", "Sum", "add", "multiply"]


class Sum(AbstractKernel):
    """The sum of independent processes: k(t, u) = Σ kᵢ(t, u); states side by side."""

    terms: tuple[AbstractKernel, ...]

    def __init__(self, *terms: AbstractKernel):
        """Add kernels; sums among them are opened up.

        Args:
            terms: one kernel or more.

        Raises:
            TypeError: if there is none, or one of them is not a kernel.
        """
        self.terms = _flattened(Sum, "terms", terms)

    @property
    def state_dim(self) -> int:
        """The dimension K of the state."""
        return sum(term.state_dim for term in self.terms)

    def measurement(self) -> AbstractMatrix:
        """The column h that reads the score off the state."""
        return functools.reduce(stack_columns, [term.measurement() for term in self.terms])

    def state_cov(self, instant: Instant) -> AbstractMatrix:
        """The prior covariance P of the state at an instant."""
        return _diagonal_blocks([term.state_cov(instant) for term in self.terms])

    def transition(self, interval: Interval) -> AbstractMatrix:
        """The transition A over an interval."""
        return _diagonal_blocks([term.transition(interval) for term in self.terms])

    def noise_cov(self, interval: Interval) -> AbstractMatrix:
        """The noise covariance Q over an interval."""
        return _diagonal_blocks([term.noise_cov(interval) for term in self.terms])

    def covariance(self, first: Instant, second: Instant) -> Scalar:
        """The covariance k(t, u) of the scores at two instants."""
        values = [term.covariance(first, second) for term in self.terms]
        return functools.reduce(lambda a, b: a + b, values)

    def __repr__(self) -> str:
        """The terms with plus signs between them."""
        return " + ".join(repr(term) for term in self.terms)


class Product(AbstractKernel):
    """The product of kernels: k(t, u) = Π kᵢ(t, u); the Kronecker product of the states.

    The noise covariance of two factors is Q₁ ⊗ P₂(end) + (A₁ P₁(start) A₁ᵀ) ⊗ Q₂, a sum of
    positive parts.
    """

    factors: tuple[AbstractKernel, ...]

    def __init__(self, *factors: AbstractKernel):
        """Multiply kernels; products among them are opened up.

        Args:
            factors: one kernel or more.

        Raises:
            TypeError: if there is none, or one of them is not a kernel.
        """
        self.factors = _flattened(Product, "factors", factors)

    @property
    def state_dim(self) -> int:
        """The dimension K of the state."""
        return functools.reduce(lambda a, b: a * b, [factor.state_dim for factor in self.factors])

    def measurement(self) -> AbstractMatrix:
        """The column h that reads the score off the state."""
        return functools.reduce(kronecker, [factor.measurement() for factor in self.factors])

    def state_cov(self, instant: Instant) -> AbstractMatrix:
        """The prior covariance P of the state at an instant."""
        return functools.reduce(kronecker, [factor.state_cov(instant) for factor in self.factors])

    def transition(self, interval: Interval) -> AbstractMatrix:
        """The transition A over an interval."""
        steps = [factor.transition(interval) for factor in self.factors]
        return functools.reduce(kronecker, steps)

    def noise_cov(self, interval: Interval) -> AbstractMatrix:
        """The noise covariance Q over an interval."""
        noise, carried = None, None
        for factor in self.factors:
            step, gained = factor.transition(interval), factor.noise_cov(interval)
            kept = (step @ factor.state_cov(interval.start) @ step.T).symmetric()
            if noise is None:
                noise, carried = gained, kept
                continue
            at_end = factor.state_cov(interval.end)
            noise = kronecker(noise, at_end) + kronecker(carried, gained)
            carried = kronecker(carried, kept)
        return noise

    def covariance(self, first: Instant, second: Instant) -> Scalar:
        """The covariance k(t, u) of the scores at two instants."""
        values = [factor.covariance(first, second) for factor in self.factors]
        return functools.reduce(lambda a, b: a * b, values)

    def __repr__(self) -> str:
        """The factors with multiplication signs between them, sums in parentheses."""
        texts = [_factor_text(factor) for factor in self.factors]
        return " * ".join(texts) if len(texts) > 1 else repr(self.factors[0])


def add(first: AbstractKernel, second: AbstractKernel) -> Sum:
    """The sum of two kernels.

    Args:
        first: a kernel.
        second: another kernel.

    Raises:
        TypeError: if one of them is not a kernel.
    """
    for item in (first, second):
        if not isinstance(item, AbstractKernel):
            raise TypeError(
                f"a kernel can be added to another kernel, not to {_type_name(item)}; "
                "for a score that never changes add `Constant(variance)`."
            )
    return Sum(first, second)


def multiply(first: AbstractKernel | ArrayLike, second: AbstractKernel | ArrayLike) -> Product:
    """The product of two kernels, or of a kernel and a number.

    A plain number is a fixed scale of the variance, which learning leaves alone; a JAX array
    is a parameter, as in ``Constant(variance) * kernel``.

    Args:
        first: a kernel or a number above zero.
        second: a kernel or a number above zero.

    Raises:
        TypeError: if one of them is neither.
        ValueError: if a known number is not above zero.
    """
    return Product(_as_factor(first), _as_factor(second))


def _as_factor(item: AbstractKernel | ArrayLike) -> AbstractKernel:
    if isinstance(item, AbstractKernel):
        return item
    if isinstance(item, jax.Array) and item.ndim == 0:
        return Constant(Positive(item))
    plain = isinstance(item, numbers.Real) or (isinstance(item, np.ndarray) and item.ndim == 0)
    if not plain or isinstance(item, bool):
        raise TypeError(
            "a kernel can be multiplied by another kernel or by a number, "
            f"not by {_type_name(item)}."
        )
    if not 0.0 < float(item) < float("inf"):
        raise ValueError(f"a kernel can be scaled by a finite number above zero, not by {item}.")
    return Constant(Fixed(float(item)))


def _flattened(kind: type, name: str, parts: tuple) -> tuple[AbstractKernel, ...]:
    """The parts, with those of the same kind opened up."""
    if not parts or not all(isinstance(part, AbstractKernel) for part in parts):
        found = ", ".join(_type_name(part) for part in parts) or "nothing"
        raise TypeError(f"`{name}` of {kind.__name__} must be one kernel or more, not {found}.")
    nested = [getattr(part, name) if isinstance(part, kind) else (part,) for part in parts]
    return tuple(part for inner in nested for part in inner)


def _diagonal_blocks(blocks: list[AbstractMatrix]) -> AbstractMatrix:
    return functools.reduce(block_diagonal, blocks)


def _factor_text(factor: AbstractKernel) -> str:
    if isinstance(factor, Sum) and len(factor.terms) > 1:
        return f"({factor!r})"
    if isinstance(factor, Constant) and isinstance(factor.variance, Fixed):
        return repr(factor.variance)
    return repr(factor)


def _type_name(item: object) -> str:
    return f"an object of type `{type(item).__name__}`"
