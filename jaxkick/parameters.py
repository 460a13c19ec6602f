"""Parameters: constrained values that are stored as unconstrained arrays.

Kernels and likelihoods store each parameter as an `AbstractParameter` and read
``parameter.value``. The array leaf is unconstrained, so any optimizer over pytrees keeps
variances positive and cuts ordered. A parameter also works as a number:
``float(kernel.variance)``, ``jnp.sqrt(kernel.variance)``, ``2.0 * kernel.variance``.
"""

import abc
import math
import operator
from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import ArrayLike

from jaxkick._typing import Array, Float
from jaxkick._xla import is_known
from jaxkick.errors import DataError, invalid

__all__ = [
    "AbstractParameter",
    "Correlation",
    "Fixed",
    "Ordered",
    "Positive",
    "Real",
    "Tied",
    "correlation_factor",
    "named",
    "nonnegative",
    "ordered",
    "positive",
    "real",
    "resolve",
]

_CORRELATION = "must be symmetric and positive definite, with ones on the diagonal"
_INCREASING = "must be a one-dimensional, strictly increasing sequence of finite numbers"

Tree = TypeVar("Tree")
Converter: TypeAlias = Callable[["ArrayLike | AbstractParameter"], "AbstractParameter"]


def _arithmetic(operation: Callable, reflected: bool = False) -> Callable:
    """Make a binary operator on the values of parameters."""

    def method(self: "AbstractParameter", other: Any) -> Any:
        if isinstance(other, AbstractParameter):
            other = other.value
        elif isinstance(other, eqx.Module):
            return NotImplemented
        return operation(other, self.value) if reflected else operation(self.value, other)

    return method


class AbstractParameter(eqx.Module):
    """A number or array with a constraint, stored as unconstrained leaves.

    Parameters work like numbers in arithmetic, `float`, NumPy and JAX functions.
    """

    # Makes NumPy scalars defer to the parameter's operators.
    __array_priority__ = 100

    @property
    @abc.abstractmethod
    def value(self) -> Float[Array, "..."]:
        """The constrained value, which formulas use."""

    def __jax_array__(self) -> Float[Array, "..."]:
        return self.value

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.asarray(self.value, dtype=dtype)

    def __float__(self) -> float:
        return float(self.value)

    def __format__(self, spec: str) -> str:
        return format(float(self), spec) if spec else repr(self)

    __add__, __radd__ = _arithmetic(operator.add), _arithmetic(operator.add, True)
    __sub__, __rsub__ = _arithmetic(operator.sub), _arithmetic(operator.sub, True)
    __mul__, __rmul__ = _arithmetic(operator.mul), _arithmetic(operator.mul, True)
    __truediv__, __rtruediv__ = _arithmetic(operator.truediv), _arithmetic(operator.truediv, True)
    __pow__, __rpow__ = _arithmetic(operator.pow), _arithmetic(operator.pow, True)
    __lt__, __gt__ = _arithmetic(operator.lt), _arithmetic(operator.gt)
    __le__, __ge__ = _arithmetic(operator.le), _arithmetic(operator.ge)

    def __neg__(self) -> Float[Array, "..."]:
        return -self.value

    def __repr__(self) -> str:
        """Show only the value, or `"?"` if it is traced."""
        known = [_is_number(leaf) for leaf in jax.tree.leaves(self)]
        return format_value(self.value) if known and all(known) else "?"


class Positive(AbstractParameter):
    """A positive parameter, stored as its logarithm.

    Args:
        value: a positive, finite number or array.

    Raises:
        DataError: if the value is known and not positive and finite.
    """

    log_value: Float[Array, "..."]

    def __init__(self, value: ArrayLike):
        _require(value, lambda known: known > 0, "must be positive and finite")
        self.log_value = jnp.log(_as_float(value))

    @property
    def value(self) -> Float[Array, "..."]:
        return jnp.exp(self.log_value)


class Real(AbstractParameter):
    """A parameter without a constraint.

    Args:
        value: a finite number or array.

    Raises:
        DataError: if the value is known and not finite.
    """

    raw: Float[Array, "..."]

    def __init__(self, value: ArrayLike):
        _require(value, np.isfinite, "must be finite")
        self.raw = _as_float(value)

    @property
    def value(self) -> Float[Array, "..."]:
        return self.raw


class Fixed(AbstractParameter):
    """A parameter that is not learnt: its gradient is zero.

    Args:
        value: a finite number or array.

    Raises:
        DataError: if the value is known and not finite.
    """

    constant: Float[Array, "..."]

    def __init__(self, value: ArrayLike):
        _require(value, np.isfinite, "must be finite")
        self.constant = _as_float(value)

    @property
    def value(self) -> Float[Array, "..."]:
        return lax.stop_gradient(self.constant)


class Ordered(AbstractParameter):
    """Strictly increasing numbers, stored as the first one and the logarithms of the steps.

    Args:
        values: a one-dimensional array, strictly increasing.

    Raises:
        DataError: if the values are known and not strictly increasing.
    """

    first: Float[Array, ""]
    log_steps: Float[Array, " steps"]

    def __init__(self, values: ArrayLike):
        _require(values, _increases, _INCREASING)
        array = _as_float(values)
        self.first = array[0]
        self.log_steps = jnp.log(jnp.diff(array))

    @property
    def value(self) -> Float[Array, " values"]:
        steps = jnp.cumsum(jnp.exp(self.log_steps))
        return jnp.concatenate([self.first[None], self.first + steps])


class Correlation(AbstractParameter):
    """A correlation matrix C, stored as unconstrained numbers; `value` is its Cholesky factor.

    Row i of the factor L is (z_i1, …, z_i,i−1, 1) divided by its length, with real numbers z, so
    that C = L Lᵀ is positive definite with ones on the diagonal.

    Args:
        matrix: a symmetric, positive definite matrix with ones on the diagonal.

    Raises:
        DataError: if the matrix is known and not such a matrix.
    """

    raw: Float[Array, " pairs"]

    def __init__(self, matrix: ArrayLike):
        _require(matrix, _is_correlation, _CORRELATION)
        factor = jnp.linalg.cholesky(_as_float(matrix))
        rows, columns = np.tril_indices(factor.shape[0], -1)
        self.raw = factor[rows, columns] / factor[rows, rows]

    @property
    def value(self) -> Float[Array, "n n"]:
        size = (1 + math.isqrt(1 + 8 * self.raw.shape[-1])) // 2
        rows = jnp.eye(size, dtype=self.raw.dtype).at[np.tril_indices(size, -1)].set(self.raw)
        return rows / jnp.sqrt(jnp.sum(rows * rows, axis=1, keepdims=True))

    @property
    def matrix(self) -> Float[Array, "n n"]:
        """The correlation matrix C."""
        return self.value @ self.value.T

    def __repr__(self) -> str:
        return format_value(self.matrix) if _is_number(self.raw) else "?"


class Tied(AbstractParameter):
    """A parameter that `learn` keeps equal to all parameters tied with the same name.

    Example: `Matern12(1.0, Tied("pace", 3.0)) + Matern32(0.1, Tied("pace", 3.0))`.

    Args:
        name: the name that tied parameters share.
        value: a number or array, which takes the constraint of the field that holds it, or a
            parameter with its own constraint.
    """

    name: str = eqx.field(static=True)
    parameter: AbstractParameter

    def __init__(self, name: str, value: ArrayLike | AbstractParameter):
        self.name = name
        given = isinstance(value, AbstractParameter)
        self.parameter = value if given else _Plain(_as_float(value))

    @property
    def value(self) -> Float[Array, "..."]:
        return self.parameter.value


class _Plain(AbstractParameter):
    """A value as it is: computed, with its gradient, or of a field that will constrain it."""

    raw: Float[Array, "..."]

    @property
    def value(self) -> Float[Array, "..."]:
        return self.raw


def positive(value: ArrayLike | AbstractParameter) -> AbstractParameter:
    """Convert a field: numbers become `Positive`, nonnegative parameters stay as they are."""
    return _converted(value, Positive, lambda known: known >= 0, "must not be negative")


def nonnegative(value: ArrayLike | AbstractParameter) -> AbstractParameter:
    """Convert a field like `positive`, but make a known zero `Fixed`."""

    def constrain(number: ArrayLike) -> AbstractParameter:
        zero = is_known(number) and bool(np.all(np.asarray(number) == 0))
        return Fixed(number) if zero else Positive(number)

    return _converted(value, constrain, lambda known: known >= 0, "must not be negative")


def real(value: ArrayLike | AbstractParameter) -> AbstractParameter:
    """Convert a field: numbers become `Real`, parameters stay as they are."""
    return _converted(value, Real, np.isfinite, "must be finite")


def ordered(value: ArrayLike | AbstractParameter) -> AbstractParameter:
    """Convert a field: sequences become `Ordered`, increasing parameters stay as they are."""
    return _converted(value, Ordered, _increases, _INCREASING)


def correlation_factor(size: int) -> Converter:
    """Make a converter of a field that holds the factor of a correlation matrix.

    One number is the correlation of all pairs. `Fixed` holds the matrix, which becomes a factor.
    """

    def full(value: ArrayLike) -> ArrayLike:
        if np.ndim(value) > 0:
            return value
        least = -1.0 / (size - 1)
        rule = f"must be a correlation matrix, or a number between {least:.3g} and 1"
        _require(value, lambda known: least < known < 1.0, rule)
        value = _as_float(value)
        return jnp.eye(size, dtype=value.dtype) * (1.0 - value) + value

    def constrain(value: ArrayLike) -> AbstractParameter:
        matrix = full(value)
        if np.shape(matrix) != (size, size):
            problem = f"{{argument}} must be a number or a matrix of shape ({size}, {size})"
            raise DataError(problem, argument="value")
        return Correlation(matrix)

    def convert(value: "ArrayLike | AbstractParameter") -> AbstractParameter:
        if isinstance(value, Fixed):
            known = np.asarray(value.constant)
            # Only a factor is triangular, apart from the identity, which is its own factor.
            is_factor = known.shape == (size, size) and np.array_equal(np.tril(known), known)
            return value if is_factor else Fixed(constrain(known).value)
        return _converted(value, constrain, np.isfinite, "must be finite")

    return convert


def named(name: str, convert: Converter) -> Converter:
    """Make a field converter that names the argument in its errors."""

    def converter(value: ArrayLike | AbstractParameter) -> AbstractParameter:
        try:
            return convert(value)
        except DataError as error:
            raise DataError(error.problem, argument=name, value=error.value) from None

    return converter


def _converted(
    value: ArrayLike | AbstractParameter,
    constrain: Callable[[ArrayLike], AbstractParameter],
    holds: Callable[[np.ndarray], Any],
    rule: str,
) -> AbstractParameter:
    """Convert a number to a parameter, and check the value of a parameter."""
    if isinstance(value, Tied) and isinstance(value.parameter, _Plain):
        return Tied(value.name, constrain(value.parameter.raw))
    if not isinstance(value, AbstractParameter):
        return constrain(value)
    leaves = jax.tree.leaves(value)
    if leaves and all(map(_is_number, leaves)):
        _require(value.value, holds, rule)
    return value


def resolve(tree: Tree, dtype: jnp.dtype | None = None) -> Tree:
    """Compute each parameter of a tree once, before loops read it.

    Args:
        tree: a kernel, likelihood, model or any pytree of them.
        dtype: floating-point type of the values; that of each parameter if `None`.

    Returns:
        The same tree with computed values.
    """

    def known(node):
        if not isinstance(node, AbstractParameter):
            return node
        value = node.value
        return _Plain(value if dtype is None else value.astype(dtype))

    return jax.tree.map(known, tree, is_leaf=lambda node: isinstance(node, AbstractParameter))


def format_value(value: ArrayLike) -> str:
    """Format a number or array briefly; `"?"` if it is traced."""
    if not _is_number(value):
        return "?"
    array = np.asarray(value)
    if array.ndim == 0:
        return f"{float(array):.4g}"
    return "[" + ", ".join(format_value(item) for item in array) + "]"


def _is_number(value: object) -> bool:
    """Return whether the host can read a value as a number."""
    concrete = isinstance(value, (np.ndarray, np.generic, jax.Array))
    return concrete and is_known(value)


def _as_float(value: ArrayLike) -> Float[Array, "..."]:
    array = jnp.asarray(value)
    floating = jnp.issubdtype(array.dtype, jnp.floating)
    # A Python number would stay weakly typed, and the first step of learning would compile again.
    return array.astype(array.dtype if floating else jnp.result_type(float))


def _require(value: ArrayLike, holds: Callable[[np.ndarray], Any], rule: str) -> None:
    """Check a value on the host if it is known; traced values pass."""
    if not is_known(value):
        return
    try:
        known = np.asarray(value, dtype=float)
    except (TypeError, ValueError):
        raise invalid("value", value, "but must be a number") from None
    if not (np.all(np.isfinite(known)) and np.all(holds(known))):
        shown = float(known) if known.ndim == 0 else known.tolist()
        raise invalid("value", shown, f"but {rule}")


def _is_correlation(known: np.ndarray) -> bool:
    square = known.ndim == 2 and known.shape[0] == known.shape[1]
    return (
        square
        and bool(np.allclose(known, known.T) and np.allclose(np.diag(known), 1.0))
        and bool(np.linalg.eigvalsh(known)[0] > 0)
    )


def _increases(known: np.ndarray) -> bool:
    return known.ndim == 1 and known.size > 0 and bool(np.all(np.diff(known) > 0))
