"""The type checker that the tests apply to every function of jaxkick, by a hook in conftest."""

from typing import Any, TypeVar, get_args

from beartype import BeartypeConf, beartype
from jaxtyping import AbstractArray

__all__ = ["typechecked"]

Function = TypeVar("Function")

# An annotation `float` accepts integers, as static type checkers do.
_beartype = beartype(conf=BeartypeConf(is_pep484_tower=True))


def typechecked(function: Function) -> Function:
    """Check the shapes and dtypes of arrays at every call.

    All other annotations are left to pyright: users pass lists for sequences and NumPy scalars
    for numbers, and tests pass wrong types to see the error.
    """
    hints = function.__annotations__
    function.__annotations__ = {name: hint for name, hint in hints.items() if _has_array(hint)}
    return _beartype(function) if function.__annotations__ else function


def _has_array(hint: Any) -> bool:
    if isinstance(hint, type) and issubclass(hint, AbstractArray):
        return True
    return any(_has_array(part) for part in get_args(hint))
