"""The interface of a kernel: a Gaussian process with a finite-dimensional state.

Convention: over an interval the state evolves as ``x(end) = A x(start) + q`` with
``q ~ N(0, Q)``, and the score is ``hᵀ x``.

There are three ways to define your own kernel:

- use `LinearSDE` with the matrices of a stochastic differential equation,
- subclass `AbstractCompositeKernel` and return another kernel from `definition`,
- subclass `AbstractKernel` and implement `state_dim`, `measurement`, `state_cov`, `transition`
  and `noise_cov`, which may return plain JAX arrays of shapes [K] and [K, K].
"""

import abc
import dataclasses
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import ArrayLike

from jaxkick._math.small_matrices import AbstractMatrix, adapt, as_matrix, dot, semidefinite_factor
from jaxkick._typing import Array, Float, Key, Scalar
from jaxkick._xla import is_known
from jaxkick.errors import DataError
from jaxkick.kernels.time import FIRST, Epoch, Instant, Interval, Origin
from jaxkick.parameters import AbstractParameter, resolve

if TYPE_CHECKING:
    from jaxkick.kernels.combine import Product, Sum

__all__ = [
    "GENERAL",
    "AbstractCompositeKernel",
    "AbstractKernel",
    "AbstractStationary",
    "Matrix",
    "describe_fluctuations",
    "describe_origin",
    "deviation",
    "duration",
    "sample_prior",
    "state_space_covariance",
]

Matrix: TypeAlias = AbstractMatrix | Float[Array, "..."]
"""A small matrix, or a plain array; the vector h may be an array of shape [K]."""

GENERAL = "skill"
"""The aspect of a competitor that kernels without aspects describe; see `Aspects`."""


class AbstractKernel(eqx.Module):
    """A zero-mean Gaussian process with a finite-dimensional state.

    Combine kernels with ``first + second``, ``first * second`` and ``number * kernel``.
    """

    # Makes NumPy scalars defer to the kernel in `number * kernel`.
    __array_ufunc__ = None

    @property
    @abc.abstractmethod
    def state_dim(self) -> int:
        """The dimension K of the state."""

    @abc.abstractmethod
    def measurement(self) -> Matrix:
        """The vector h that maps the state to the score."""

    @abc.abstractmethod
    def state_cov(self, instant: Instant) -> Matrix:
        """The prior covariance P of the state at an instant."""

    @abc.abstractmethod
    def transition(self, interval: Interval) -> Matrix:
        """The matrix A that propagates the mean of the state over an interval."""

    @abc.abstractmethod
    def noise_cov(self, interval: Interval) -> Matrix:
        """The covariance Q of the noise that the state gains over an interval."""

    @property
    def aspects(self) -> tuple[str, ...]:
        """The aspects of the data that the kernel uses, besides the general skill."""
        return ()

    def measurement_at(self, aspects: Mapping[str, Scalar] | None) -> Matrix:
        """The vector h for an entry with the given coefficients of aspects.

        Args:
            aspects: coefficients by the name of the aspect; those of the general skill alone
                if `None`.
        """
        h = self.measurement()
        return h if aspects is None else as_matrix(h) * aspects[GENERAL]

    def covariance(self, first: Instant, second: Instant) -> Scalar:
        """The covariance k(t, u) of the scores at two instants of one feature."""
        return state_space_covariance(self, first, second)

    def describe(self, unit: str | None = None) -> str:
        """Describe the kernel in words.

        Args:
            unit: the unit of time of the data, such as `"year"`.
        """
        return f"a process of class {type(self).__name__}"

    def timescales(self) -> "dict[str, tuple[AbstractKernel, float]]":
        """Return the parts with a lengthscale in the data's unit, and its value, by its path."""
        parameter = getattr(self, "lengthscale", None)
        if not isinstance(parameter, AbstractParameter):
            return {}
        return {"lengthscale": (self, float(parameter.value))}

    @classmethod
    def from_scale(cls, variance: float, span: float) -> Self:
        """Make a kernel of this class with starting values for learning.

        Args:
            variance: the prior variance of the score.
            span: the time over which a typical feature is observed; positive, in the data's
                unit.

        Raises:
            TypeError: if the class does not define starting values.
        """
        raise TypeError(
            f"{cls.__name__} does not define starting values. Define `from_scale`, or pass a "
            "kernel with parameters."
        )

    def __add__(self, other: "AbstractKernel") -> "Sum":
        from jaxkick.kernels.combine import add

        return add(self, other)

    def __radd__(self, other: "AbstractKernel") -> "Sum":
        from jaxkick.kernels.combine import add

        return add(other, self)

    def __mul__(self, other: "AbstractKernel | ArrayLike") -> "Product":
        from jaxkick.kernels.combine import multiply

        return multiply(self, other)

    def __rmul__(self, other: "AbstractKernel | ArrayLike") -> "Product":
        from jaxkick.kernels.combine import multiply

        return multiply(other, self)

    def __repr__(self) -> str:
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        texts = [f"{name}={_text(value)}" for name, value in values.items() if value is not None]
        return f"{type(self).__name__}({', '.join(texts)})"


class AbstractStationary(AbstractKernel):
    """A kernel that depends only on the time between two instants."""

    @abc.abstractmethod
    def stationary_cov(self) -> Matrix:
        """The prior covariance P of the state, which is the same at all times."""

    @abc.abstractmethod
    def transition_over(self, gap: Scalar) -> Matrix:
        """The transition matrix A over a time `gap` ≥ 0."""

    @abc.abstractmethod
    def noise_cov_over(self, gap: Scalar) -> Matrix:
        """The noise covariance Q over a time `gap` ≥ 0."""

    @abc.abstractmethod
    def covariance_over(self, gap: Scalar) -> Scalar:
        """The covariance of two scores at a distance of `gap` ≥ 0 in time."""

    def describe(self, unit: str | None = None) -> str:
        return f"a stationary process of class {type(self).__name__}"

    def state_cov(self, instant: Instant) -> Matrix:
        return self.stationary_cov()

    def transition(self, interval: Interval) -> Matrix:
        return self.transition_over(interval.gap)

    def noise_cov(self, interval: Interval) -> Matrix:
        return self.noise_cov_over(interval.gap)

    def covariance(self, first: Instant, second: Instant) -> Scalar:
        return self.covariance_over(jnp.abs(first.until(second)))


class AbstractCompositeKernel(AbstractKernel):
    """A kernel that is defined by another kernel.

    Subclass it, declare parameters as fields, and return a kernel built from them in `definition`,
    such as a `LinearSDE` or a sum whose terms share a parameter. Gradients flow through the
    definition.
    """

    @abc.abstractmethod
    def definition(self) -> AbstractKernel:
        """The kernel that defines this one."""

    def describe(self, unit: str | None = None) -> str:
        return f"{type(self).__name__}: {self.definition().describe(unit)}"

    @property
    def state_dim(self) -> int:
        return self.definition().state_dim

    @property
    def aspects(self) -> tuple[str, ...]:
        return self.definition().aspects

    def measurement(self) -> Matrix:
        return self.definition().measurement()

    def measurement_at(self, aspects: Mapping[str, Scalar] | None) -> Matrix:
        return self.definition().measurement_at(aspects)

    def state_cov(self, instant: Instant) -> Matrix:
        return self._in_type_of(instant).state_cov(instant)

    def transition(self, interval: Interval) -> Matrix:
        return self._in_type_of(interval.end).transition(interval)

    def noise_cov(self, interval: Interval) -> Matrix:
        return self._in_type_of(interval.end).noise_cov(interval)

    def covariance(self, first: Instant, second: Instant) -> Scalar:
        return self._in_type_of(first).covariance(first, second)

    def _in_type_of(self, instant: Instant) -> AbstractKernel:
        """Return the definition in the floating-point type of a time."""
        return resolve(self.definition(), instant.offset.dtype)


def state_space_covariance(kernel: AbstractKernel, first: Instant, second: Instant) -> Scalar:
    """Compute the covariance of two scores from the kernel's state space: hᵀ A P h.

    It is equal to ``kernel.covariance`` if the state space is exact. For `SquaredExponential` and
    `Periodic` it is the approximation that inference uses.

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
    h = as_matrix(kernel.measurement())
    A, P = as_matrix(kernel.transition(interval)), as_matrix(kernel.state_cov(start))
    return dot(A.T @ h, P @ h)


def sample_prior(
    kernel: AbstractKernel,
    times: ArrayLike,
    key: Key[Array, ""],
    shape: tuple[int, ...] = (),
) -> Float[Array, "*shape times"]:
    """Draw scores from the prior, jointly at all `times`.

    Samples are exact for the kernel's state space. The cost is linear in the number of times.

    Args:
        kernel: the kernel.
        times: array of shape (times,) in the data's unit, in any order; the earliest counts as
            the first match of the feature. Outside of `jit`, differences of times are computed
            in float64.
        key: a random key.
        shape: the batch shape of independent draws; default: one draw.

    Returns:
        The scores, in the order of `times`.

    Raises:
        DataError: if `times` is not one-dimensional, is empty or has a missing value.
    """
    order, instants, gaps = _timeline(times)
    size = (gaps.shape[0] + 1, math.prod(shape), kernel.state_dim)
    draws = jax.random.normal(key, size, gaps.dtype)
    return _propagate(kernel, order, instants, gaps, draws).reshape(*shape, -1)


@eqx.filter_jit
def _propagate(
    kernel: AbstractKernel,
    order: Array,
    instants: Instant,
    gaps: Float[Array, " steps"],
    draws: Float[Array, "times samples K"],
) -> Float[Array, "samples times"]:
    """Propagate standard normal `draws` through the state space."""
    dtype = gaps.dtype
    resolved = resolve(kernel, dtype)
    size = kernel.state_dim

    def array(small: Matrix) -> Array:
        return as_matrix(small).to_array().astype(dtype)

    def step_of(start: Instant, end: Instant, gap: Array) -> tuple[Array, Array]:
        interval = Interval(start, end, gap)
        noise = adapt(resolved.noise_cov(interval), size, dtype)
        return array(resolved.transition(interval)), array(semidefinite_factor(noise))

    def advance(state: Array, inputs: tuple[Array, ...]) -> tuple[Array, Array]:
        transition, factor, draws = inputs
        state = state @ transition.T + draws @ factor.T
        return state, state

    before, after = (_part(instants, part) for part in (slice(None, -1), slice(1, None)))
    steps = jax.vmap(step_of)(before, after, gaps)
    initial = adapt(resolved.state_cov(_part(instants, 0)), size, dtype)
    state = draws[0] @ array(semidefinite_factor(initial)).T
    _, states = jax.lax.scan(advance, state, (*steps, draws[1:]))
    states = jnp.concatenate([state[None], states])
    scores = states @ array(resolved.measurement())[:, 0]
    return jnp.zeros_like(scores).at[order].set(scores).T


def _timeline(times: ArrayLike) -> tuple[Array | np.ndarray, Instant, Array]:
    """Return the order of the times, the sorted instants and the gaps between them."""
    dtype = jnp.result_type(float)
    traced = not is_known(times)
    numpy = jnp if traced else np
    known = jnp.asarray(times) if traced else np.asarray(times, dtype=np.float64)
    if known.ndim != 1 or known.size == 0:
        raise DataError(
            f"{{argument}} has the shape {known.shape}, but must be a list of at least one time",
            argument="times",
        )
    if not traced and not np.all(np.isfinite(known)):
        row = int(np.flatnonzero(~np.isfinite(known))[0])
        raise DataError(
            "{argument} is missing or infinite", "Drop the row.", argument="times", row=row
        )
    order = numpy.argsort(known)
    ordered = known[order]
    first = ordered[0]
    elapsed = jnp.asarray(ordered - first, dtype)
    epoch = Epoch(first.astype(dtype), jnp.zeros((), dtype)) if traced else Epoch.at(first, dtype)
    epoch = jax.tree.map(lambda part: jnp.broadcast_to(part, elapsed.shape), epoch)
    return order, Instant(elapsed, elapsed, epoch), jnp.asarray(numpy.diff(ordered), dtype)


def _part(instants: Instant, part: int | slice) -> Instant:
    return jax.tree.map(lambda array: array[part], instants)


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:g}" if float(f"{value:g}") == value else repr(value)
    if isinstance(value, tuple):
        inner = ", ".join(_text(item) for item in value)
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    return repr(value)


def deviation(variance: AbstractParameter) -> str:
    """Format a variance as "standard deviation 0.2"."""
    return f"standard deviation {_two_digits(math.sqrt(float(variance.value)))}"


def duration(parameter: AbstractParameter, unit: str | None, factor: float = 1.0) -> str:
    """Format a time as "3.3 years"."""
    text = _two_digits(factor * float(parameter.value))
    if unit is None:
        return f"{text} units of time"
    return f"{text} {unit}" if text == "1" else f"{text} {unit}s"


def describe_fluctuations(
    texture: str,
    variance: AbstractParameter,
    lengthscale: AbstractParameter,
    half_life: float,
    unit: str | None,
) -> str:
    """Describe a stationary kernel; `half_life` is in lengthscales."""
    return (
        f"{texture} with {deviation(variance)} and lengthscale {duration(lengthscale, unit)} "
        f"(half-life {duration(lengthscale, unit, half_life)})"
    )


def describe_origin(origin: Origin) -> str:
    """Describe the origin of a non-stationary kernel."""
    return "from the first match on" if origin is FIRST else f"from {origin:g} on"


def _two_digits(number: float) -> str:
    """Format a number with two digits, without an exponent unless it is huge or tiny."""
    return f"{float(f'{number:.2g}'):g}"
