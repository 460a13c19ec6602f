"""Parameters that optimisers may change freely: constrained values over unconstrained numbers.

A kernel or likelihood stores each of its parameters as an `AbstractParameter` and reads
``parameter.value``. The array leaf below it is unconstrained, so that any optimiser over
pytrees keeps variances positive and cut points ordered without knowing of them.
"""

import abc
from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import ArrayLike

from jaxkick._tracing import is_known
from jaxkick._typing import Array, Float

__all__ = [
    "AbstractParameter",
    "Fixed",
    "Ordered",
    "Positive",
    "Real",
    "Tied",
    "named",
    "nonnegative",
    "ordered",
    "positive",
    "real",
    "resolve",
]

_UNNAMED = "a parameter"
_INCREASING = "must be a one-dimensional, strictly increasing sequence of finite numbers"

Tree = TypeVar("Tree")
Converter: TypeAlias = Callable[["ArrayLike | AbstractParameter"], "AbstractParameter"]


class AbstractParameter(eqx.Module):
    """A number or array with a constraint, stored as unconstrained leaves."""

    @property
    @abc.abstractmethod
    def value(self) -> Float[Array, "..."]:
        """The constrained value that formulas use."""

    def __repr__(self) -> str:
        """The value alone, so that kernels read like their formula; `"?"` if it is unknown."""
        known = [_is_number(leaf) for leaf in jax.tree.leaves(self)]
        return format_value(self.value) if known and all(known) else "?"


class Positive(AbstractParameter):
    """A parameter above zero, stored as its logarithm."""

    log_value: Float[Array, "..."]

    def __init__(self, value: ArrayLike):
        """Store the logarithm of `value`.

        Args:
            value: a number or array above zero.

        Raises:
            ValueError: if a known value is not above zero or not finite.
        """
        _require(value, lambda known: known > 0, "must be above zero and finite")
        self.log_value = jnp.log(_as_float(value))

    @property
    def value(self) -> Float[Array, "..."]:
        return jnp.exp(self.log_value)


class Real(AbstractParameter):
    """A parameter without a constraint."""

    raw: Float[Array, "..."]

    def __init__(self, value: ArrayLike):
        """Store `value` as it is.

        Args:
            value: any finite number or array.

        Raises:
            ValueError: if a known value is not finite.
        """
        _require(value, np.isfinite, "must be finite")
        self.raw = _as_float(value)

    @property
    def value(self) -> Float[Array, "..."]:
        return self.raw


class Fixed(AbstractParameter):
    """A parameter that learning leaves alone: gradients do not pass."""

    constant: Float[Array, "..."]

    def __init__(self, value: ArrayLike):
        """Store `value` as a constant.

        Args:
            value: any finite number or array.

        Raises:
            ValueError: if a known value is not finite.
        """
        _require(value, np.isfinite, "must be finite")
        self.constant = _as_float(value)

    @property
    def value(self) -> Float[Array, "..."]:
        return lax.stop_gradient(self.constant)


class Ordered(AbstractParameter):
    """Increasing numbers, stored as the first of them and the logarithms of the steps."""

    first: Float[Array, ""]
    log_steps: Float[Array, " steps"]

    def __init__(self, values: ArrayLike):
        """Store increasing `values`.

        Args:
            values: a one-dimensional array, strictly increasing.

        Raises:
            ValueError: if known values are not strictly increasing.
        """
        _require(values, _increases, _INCREASING)
        array = _as_float(values)
        self.first = array[0]
        self.log_steps = jnp.log(jnp.diff(array))

    @property
    def value(self) -> Float[Array, " values"]:
        steps = jnp.cumsum(jnp.exp(self.log_steps))
        return jnp.concatenate([self.first[None], self.first + steps])


class Tied(AbstractParameter):
    """A parameter that `learn` keeps equal to all others of its name.

    The name says what is tied, not where it stands, so that ties survive any change of the
    tree around them: `Matern12(1.0, Tied("pace", 3.0)) + Matern32(0.1, Tied("pace", 3.0))`.

    Attributes:
        name: what ties it to others.
        parameter: the parameter, with the constraint of the field that it stands in.
    """

    name: str = eqx.field(static=True)
    parameter: AbstractParameter

    def __init__(self, name: str, value: ArrayLike | AbstractParameter):
        """Tie a parameter to others of the same name.

        Args:
            name: the name that all of them share.
            value: a number or array, constrained as the field that it is given to asks, or a
                parameter with a constraint of its own.
        """
        self.name = name
        self.parameter = value if isinstance(value, AbstractParameter) else _Unplaced(value)

    @property
    def value(self) -> Float[Array, "..."]:
        return self.parameter.value


class _Unplaced(AbstractParameter):
    """A number whose constraint is known once it stands in a field."""

    raw: Float[Array, "..."]

    def __init__(self, value: ArrayLike):
        self.raw = _as_float(value)

    @property
    def value(self) -> Float[Array, "..."]:
        return self.raw


class _Resolved(AbstractParameter):
    """A parameter whose value has been computed; gradients pass."""

    known: Float[Array, "..."]

    @property
    def value(self) -> Float[Array, "..."]:
        return self.known


def positive(value: ArrayLike | AbstractParameter) -> AbstractParameter:
    """Field converter: numbers become `Positive`, parameters stay unless they are negative."""
    return _converted(value, Positive, lambda known: known >= 0, "must not be below zero")


def nonnegative(value: ArrayLike | AbstractParameter) -> AbstractParameter:
    """Field converter: as `positive`, but a known zero becomes `Fixed`."""

    def constrain(number: ArrayLike) -> AbstractParameter:
        zero = is_known(number) and bool(np.all(np.asarray(number) == 0))
        return Fixed(number) if zero else Positive(number)

    return _converted(value, constrain, lambda known: known >= 0, "must not be below zero")


def real(value: ArrayLike | AbstractParameter) -> AbstractParameter:
    """Field converter: numbers become `Real`, parameters stay."""
    return _converted(value, Real, np.isfinite, "must be finite")


def ordered(value: ArrayLike | AbstractParameter) -> AbstractParameter:
    """Field converter: sequences become `Ordered`, parameters stay if they increase."""
    return _converted(value, Ordered, _increases, _INCREASING)


def named(name: str, convert: Converter) -> Converter:
    """A field converter whose errors name the argument."""

    def converter(value: ArrayLike | AbstractParameter) -> AbstractParameter:
        try:
            return convert(value)
        except ValueError as error:
            raise ValueError(str(error).replace(_UNNAMED, f"`{name}`", 1)) from None

    return converter


def _converted(
    value: ArrayLike | AbstractParameter,
    constrain: Callable[[ArrayLike], AbstractParameter],
    holds: Callable[[np.ndarray], Any],
    remedy: str,
) -> AbstractParameter:
    """A number as a parameter; a parameter as it is, if its value is possible here."""
    if isinstance(value, Tied) and isinstance(value.parameter, _Unplaced):
        return Tied(value.name, constrain(value.parameter.raw))
    if not isinstance(value, AbstractParameter):
        return constrain(value)
    leaves = jax.tree.leaves(value)
    if leaves and all(map(_is_number, leaves)):
        _require(value.value, holds, remedy)
    return value


def resolve(tree: Tree, dtype: jnp.dtype | None = None) -> Tree:
    """Compute every parameter of a tree once, before loops read them.

    Args:
        tree: a kernel, likelihood, model or any pytree of them.
        dtype: floating-point type of the values; that of each parameter if `None`.

    Returns:
        The same tree with the same values, ready to be read many times.
    """

    def known(node):
        if not isinstance(node, AbstractParameter):
            return node
        value = node.value
        return _Resolved(value if dtype is None else value.astype(dtype))

    return jax.tree.map(known, tree, is_leaf=lambda node: isinstance(node, AbstractParameter))


def format_value(value: ArrayLike) -> str:
    """A short text for a number or array; `"?"` where it is being traced."""
    if not _is_number(value):
        return "?"
    array = np.asarray(value)
    if array.ndim == 0:
        return f"{float(array):.4g}"
    return "[" + ", ".join(format_value(item) for item in array) + "]"


def _is_number(value: object) -> bool:
    """Whether a value is a number that the host can read."""
    concrete = isinstance(value, (np.ndarray, np.generic, jax.Array))
    return concrete and is_known(value)


def _as_float(value: ArrayLike) -> Float[Array, "..."]:
    array = jnp.asarray(value)
    floating = jnp.issubdtype(array.dtype, jnp.floating)
    # A Python number would stay weakly typed, and the first step of learning would recompile.
    return array.astype(array.dtype if floating else jnp.result_type(float))


def _require(value: ArrayLike, holds: Callable[[np.ndarray], Any], remedy: str) -> None:
    """Check a value on the host where it is known; traced values pass."""
    if not is_known(value):
        return
    try:
        known = np.asarray(value, dtype=float)
    except (TypeError, ValueError):
        raise ValueError(
            f"{_UNNAMED} of {value!r} is not possible here: it must be a number."
        ) from None
    if not (np.all(np.isfinite(known)) and np.all(holds(known))):
        shown = float(known) if known.ndim == 0 else known.tolist()
        raise ValueError(f"{_UNNAMED} of {shown} is not possible here: it {remedy}.")


def _increases(known: np.ndarray) -> bool:
    return known.ndim == 1 and known.size > 0 and bool(np.all(np.diff(known) > 0))
