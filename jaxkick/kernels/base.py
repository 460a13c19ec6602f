"""What a kernel is: a Gaussian process as a linear stochastic differential equation.

Convention, used everywhere: over an interval, ``x(end) = A x(start) + q`` with
``q ~ N(0, Q)``, and the score is ``hᵀ x``.
"""

import abc
import dataclasses
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import ArrayLike

from jaxkick._parameters import resolve
from jaxkick._smallmat import AbstractMatrix, dot
from jaxkick._typing import Scalar
from jaxkick.kernels.time import Instant, Interval

if TYPE_CHECKING:
    from jaxkick.kernels.combine import Product, Sum

__all__ = ["AbstractDerived", "AbstractKernel", "AbstractStationary", "state_space_covariance"]


class AbstractKernel(eqx.Module):
    """A zero-mean Gaussian process with a finite-dimensional state.

    Kernels combine by ``first + second``, ``first * second`` and ``number * kernel``.
    """

    # NumPy's numbers then leave `number * kernel` to the kernel.
    __array_ufunc__ = None

    @property
    @abc.abstractmethod
    def state_dim(self) -> int:
        """The dimension K of the state."""

    @abc.abstractmethod
    def measurement(self) -> AbstractMatrix:
        """The column h that reads the score off the state."""

    @abc.abstractmethod
    def state_cov(self, instant: Instant) -> AbstractMatrix:
        """The prior covariance P of the state at an instant."""

    @abc.abstractmethod
    def transition(self, interval: Interval) -> AbstractMatrix:
        """The matrix A that carries the mean of the state over an interval."""

    @abc.abstractmethod
    def noise_cov(self, interval: Interval) -> AbstractMatrix:
        """The covariance Q that the state gains over an interval."""

    @abc.abstractmethod
    def covariance(self, first: Instant, second: Instant) -> Scalar:
        """The covariance k(t, u) of the scores at two instants of one feature."""

    def __add__(self, other: "AbstractKernel") -> "Sum":
        """The kernel of the sum of two independent processes."""
        from jaxkick.kernels.combine import add

        return add(self, other)

    def __radd__(self, other: "AbstractKernel") -> "Sum":
        """The kernel of the sum of two independent processes."""
        from jaxkick.kernels.combine import add

        return add(other, self)

    def __mul__(self, other: "AbstractKernel | ArrayLike") -> "Product":
        """The product with a kernel, or with a number above zero."""
        from jaxkick.kernels.combine import multiply

        return multiply(self, other)

    def __rmul__(self, other: "AbstractKernel | ArrayLike") -> "Product":
        """The product with a kernel, or with a number above zero."""
        from jaxkick.kernels.combine import multiply

        return multiply(other, self)

    def __repr__(self) -> str:
        """The call that makes this kernel."""
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        texts = [f"{name}={_text(value)}" for name, value in values.items() if value is not None]
        return f"{type(self).__name__}({', '.join(texts)})"


class AbstractStationary(AbstractKernel):
    """A kernel that knows of time only the distance between two instants."""

    @abc.abstractmethod
    def stationary_cov(self) -> AbstractMatrix:
        """The covariance P of the state, the same at every instant."""

    @abc.abstractmethod
    def transition_over(self, gap: Scalar) -> AbstractMatrix:
        """The matrix A over a gap of time."""

    @abc.abstractmethod
    def noise_cov_over(self, gap: Scalar) -> AbstractMatrix:
        """The covariance Q that the state gains over a gap of time."""

    @abc.abstractmethod
    def covariance_over(self, gap: Scalar) -> Scalar:
        """The covariance of two scores that lie `gap` ≥ 0 apart."""

    def state_cov(self, instant: Instant) -> AbstractMatrix:
        """The prior covariance P of the state at an instant."""
        return self.stationary_cov()

    def transition(self, interval: Interval) -> AbstractMatrix:
        """The transition A over an interval."""
        return self.transition_over(interval.gap)

    def noise_cov(self, interval: Interval) -> AbstractMatrix:
        """The noise covariance Q over an interval."""
        return self.noise_cov_over(interval.gap)

    def covariance(self, first: Instant, second: Instant) -> Scalar:
        """The covariance k(t, u) of the scores at two instants."""
        return self.covariance_over(jnp.abs(first.until(second)))


class AbstractDerived(AbstractKernel):
    """A kernel written in terms of another one.

    The way to a kernel of one's own: subclass, declare the parameters as fields and return
    from `definition` the kernel that they make, be it a combination with tied parameters
    or a `StochasticDifferentialEquation`. Gradients flow through the definition.
    """

    @abc.abstractmethod
    def definition(self) -> AbstractKernel:
        """The kernel that this one stands for."""

    @property
    def state_dim(self) -> int:
        """The dimension K of the state."""
        return self.definition().state_dim

    def measurement(self) -> AbstractMatrix:
        """The column h that reads the score off the state."""
        return self.definition().measurement()

    def state_cov(self, instant: Instant) -> AbstractMatrix:
        """The prior covariance P of the state at an instant."""
        return self._in_type_of(instant).state_cov(instant)

    def transition(self, interval: Interval) -> AbstractMatrix:
        """The transition A over an interval."""
        return self._in_type_of(interval.end).transition(interval)

    def noise_cov(self, interval: Interval) -> AbstractMatrix:
        """The noise covariance Q over an interval."""
        return self._in_type_of(interval.end).noise_cov(interval)

    def covariance(self, first: Instant, second: Instant) -> Scalar:
        """The covariance k(t, u) of the scores at two instants."""
        return self._in_type_of(first).covariance(first, second)

    def _in_type_of(self, instant: Instant) -> AbstractKernel:
        """The definition, with the numbers in it in the floating-point type of a time."""
        return resolve(self.definition(), instant.offset.dtype)


def state_space_covariance(kernel: AbstractKernel, first: Instant, second: Instant) -> Scalar:
    """The covariance of two scores under the kernel's state space: hᵀ A P h.

    Equal to ``kernel.covariance`` where the state space is exact; for `SquaredExponential`
    and `Periodic` it is the approximation that inference uses.

    Args:
        kernel: any kernel.
        first: an instant of a feature.
        second: another instant of the same feature, before or after.
    """
    gap = first.until(second)
    forward = gap >= 0
    start = jax.tree.map(lambda a, b: jnp.where(forward, a, b), first, second)
    end = jax.tree.map(lambda a, b: jnp.where(forward, b, a), first, second)
    interval = Interval(start, end, jnp.abs(gap))
    h = kernel.measurement()
    return dot(kernel.transition(interval).T @ h, kernel.state_cov(start) @ h)


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:g}" if float(f"{value:g}") == value else repr(value)
    if isinstance(value, tuple):
        inner = ", ".join(_text(item) for item in value)
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    return repr(value)
