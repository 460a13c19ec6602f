"""Several skills of one competitor in one state.

A match of an entry sees a linear combination Σ a_c s_c(t) of the competitor's skills, with
coefficients a_c that the data gives: 1 for "clay" in a match on clay, 1 for "home" of the side at
home. The skills share one state, so that their posterior is joint. The aspect "skill" is the
general skill: its coefficient is one, and every kernel without aspects is a part of it.
"""

import functools
from collections.abc import Mapping, Sequence

import equinox as eqx
import numpy as np
from jaxtyping import ArrayLike

from jaxkick._math.small_matrices import AbstractMatrix, as_matrix, stack_columns
from jaxkick._typing import Array, Float, Scalar
from jaxkick.errors import DataError
from jaxkick.kernels.base import GENERAL, AbstractKernel
from jaxkick.kernels.combine import Sum
from jaxkick.kernels.time import Instant, Interval
from jaxkick.parameters import AbstractParameter, correlation_factor, named, positive

__all__ = ["Aspects", "CorrelatedAspects"]


class Aspects(AbstractKernel):
    """Independent skills of one competitor, combined by the coefficients of each match.

    The score of an entry is Σ a_c s_c(t), where s_c has the kernel of aspect c and a_c is the
    coefficient that the data gives to it. `Aspects(skill=first, home=second)` is the same as
    `first + Aspects(home=second)`.

    Attributes:
        names: the names of the aspects.
        kernels: the kernel of each aspect.
    """

    names: tuple[str, ...] = eqx.field(static=True)
    kernels: tuple[AbstractKernel, ...]

    def __init__(self, **kernels: AbstractKernel):
        """Combine skills by name.

        Args:
            **kernels: the kernel of each aspect. `skill` is the general skill, which counts in
                every match; the others are names of aspects of the data, such as `home`, or the
                labels of a column (`Aspects(skill=..., **{"Clay": ..., "Grass": ...})`).

        Raises:
            TypeError: if there is no argument, or one is not a kernel or has aspects itself.
        """
        for name, kernel in kernels.items():
            _check_plain(name, kernel)
        if not kernels:
            raise TypeError("`Aspects` needs at least one kernel, such as `skill=Constant(1.0)`.")
        self.names = tuple(kernels)
        self.kernels = tuple(kernels.values())

    @property
    def state_dim(self) -> int:
        return sum(kernel.state_dim for kernel in self.kernels)

    @property
    def aspects(self) -> tuple[str, ...]:
        return tuple(name for name in self.names if name != GENERAL)

    def measurement(self) -> AbstractMatrix:
        return self.measurement_at(None)

    def measurement_at(self, aspects: Mapping[str, Scalar] | None) -> AbstractMatrix:
        parts = zip(self.names, self.kernels, strict=True)
        return functools.reduce(
            stack_columns,
            [as_matrix(each.measurement()) * _coefficient(aspects, name) for name, each in parts],
        )

    def state_cov(self, instant: Instant) -> AbstractMatrix:
        return Sum(*self.kernels).state_cov(instant)

    def transition(self, interval: Interval) -> AbstractMatrix:
        return Sum(*self.kernels).transition(interval)

    def noise_cov(self, interval: Interval) -> AbstractMatrix:
        return Sum(*self.kernels).noise_cov(interval)

    def describe(self, unit: str | None = None) -> str:
        parts = zip(self.names, self.kernels, strict=True)
        return "; ".join(f"{name}: {kernel.describe(unit)}" for name, kernel in parts)

    def timescales(self) -> dict[str, tuple[AbstractKernel, float]]:
        return {
            f"kernels[{place}].{path}": value
            for place, kernel in enumerate(self.kernels)
            for path, value in kernel.timescales().items()
        }

    def __repr__(self) -> str:
        parts = zip(self.names, self.kernels, strict=True)
        if all(map(str.isidentifier, self.names)):
            return f"Aspects({', '.join(f'{name}={kernel!r}' for name, kernel in parts)})"
        return f"Aspects(**{{{', '.join(f'{name!r}: {kernel!r}' for name, kernel in parts)}}})"


class CorrelatedAspects(AbstractKernel):
    """Skills of one competitor that share a kernel and are correlated.

    The covariance of skill b at time t and skill c at time u is σ_b σ_c C_bc k(t, u), with the
    correlation matrix C and the scales σ. C is learnt by the unconstrained elements of its
    Cholesky factor L: the skills are L times independent processes with the kernel k.

    Attributes:
        kernel: the kernel k of all skills.
        names: the names of the aspects.
        correlation: the factor L of the correlation matrix; see `correlations`.
        scales: the scale σ of each skill; `None` if all are one.
    """

    kernel: AbstractKernel
    names: tuple[str, ...] = eqx.field(static=True)
    correlation: AbstractParameter
    scales: AbstractParameter | None

    def __init__(
        self,
        kernel: AbstractKernel,
        names: Sequence[str],
        correlation: ArrayLike | AbstractParameter = 0.0,
        scales: ArrayLike | AbstractParameter | None = None,
    ):
        """Combine correlated skills.

        Args:
            kernel: the kernel of all skills.
            names: the names of at least two aspects, such as `["attack", "defence"]`.
            correlation: the correlation of all pairs, or a correlation matrix in the order of
                `names`. It is learnt, unless it is `Fixed(...)`.
            scales: positive numbers, one for each aspect, by which skills are multiplied: their
                standard deviations if the kernel has variance one. They are learnt, unless
                `Fixed(...)`. All are one, and not learnt, if `None`.

        Raises:
            TypeError: if `kernel` is not a kernel or has aspects itself.
            DataError: if the names or numbers are not valid.
        """
        _check_plain("kernel", kernel)
        names = tuple(names) if isinstance(names, (list, tuple)) else ()
        texts = all(isinstance(name, str) for name in names)
        if len(names) < 2 or not texts or len(set(names)) < len(names):
            raise DataError("{argument} must be at least two different names", argument="names")
        self.kernel = kernel
        self.names = names
        self.correlation = named("correlation", correlation_factor(len(names)))(correlation)
        self.scales = None if scales is None else named("scales", positive)(scales)
        if self.scales is not None and self.scales.value.shape != (len(names),):
            problem = f"{{argument}} must be {len(names)} numbers, one for each aspect"
            raise DataError(problem, argument="scales")

    @property
    def state_dim(self) -> int:
        return len(self.names) * self.kernel.state_dim

    @property
    def aspects(self) -> tuple[str, ...]:
        return tuple(name for name in self.names if name != GENERAL)

    @property
    def correlations(self) -> Float[Array, "c c"]:
        """The correlation matrix of the skills, in the order of `names`."""
        factor = self.correlation.value
        return factor @ factor.T

    def measurement(self) -> AbstractMatrix:
        return self.measurement_at(None)

    def measurement_at(self, aspects: Mapping[str, Scalar] | None) -> AbstractMatrix:
        factor = self.correlation.value
        scales = None if self.scales is None else self.scales.value
        given = [_coefficient(aspects, name) for name in self.names]
        if scales is not None:
            given = [scales[place] * x for place, x in enumerate(given)]
        h = as_matrix(self.kernel.measurement())
        parts = [
            # The factor is lower triangular.
            h * sum(factor[row, column] * given[row] for row in range(column, len(given)))
            for column in range(len(given))
        ]
        return functools.reduce(stack_columns, parts)

    def state_cov(self, instant: Instant) -> AbstractMatrix:
        return self._stacked.state_cov(instant)

    def transition(self, interval: Interval) -> AbstractMatrix:
        return self._stacked.transition(interval)

    def noise_cov(self, interval: Interval) -> AbstractMatrix:
        return self._stacked.noise_cov(interval)

    def describe(self, unit: str | None = None) -> str:
        matrix = np.asarray(self.correlations)
        text = f"{_listed(self.names)}: {self.kernel.describe(unit)}"
        if self.scales is not None:
            scales = zip(self.names, np.asarray(self.scales.value), strict=True)
            text += f", times {_listed([f'{scale:.2g} ({name})' for name, scale in scales])}"
        pairs = [
            f"{first} and {second} correlate {matrix[i, i + 1 + j]:.2f}"
            for i, first in enumerate(self.names)
            for j, second in enumerate(self.names[i + 1 :])
        ]
        return f"{text}; {', '.join(pairs)}"

    def timescales(self) -> dict[str, tuple[AbstractKernel, float]]:
        return {f"kernel.{path}": value for path, value in self.kernel.timescales().items()}

    @property
    def _stacked(self) -> Sum:
        """The independent processes that the skills are made of."""
        return Sum(*[self.kernel] * len(self.names))


def _check_plain(name: str, kernel: object) -> None:
    if not isinstance(kernel, AbstractKernel):
        raise TypeError(f"`{name}` must be a kernel, not {type(kernel).__name__}.")
    if kernel.aspects:
        raise TypeError(f"`{name}` has aspects itself. Add kernels with aspects to each other.")


def _coefficient(aspects: Mapping[str, Scalar] | None, name: str) -> Scalar | float:
    """The coefficient of an aspect; that of the general skill is one unless it is given."""
    general = 1.0 if name == GENERAL else 0.0
    return general if aspects is None else aspects.get(name, general)


def _listed(words: Sequence[str]) -> str:
    return f"{', '.join(words[:-1])} and {words[-1]}"
