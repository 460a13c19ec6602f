"""Objects as JSON and arrays, and back: known classes by name, field by field, no code."""

import dataclasses
import math
from collections.abc import Iterator, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxkick.kernels.time import FIRST

__all__ = ["Decoder", "Encoder"]

_SHOWN = 300


class Encoder:
    """Turns objects into what JSON holds, and gathers their arrays.

    Attributes:
        arrays: the arrays by name.
    """

    def __init__(self, kinds: Mapping[str, type]):
        """Start without arrays.

        Args:
            kinds: the classes that every reader knows, by name.
        """
        self.arrays: dict[str, np.ndarray] = {}
        self._kinds = kinds

    def encode(self, value: Any) -> Any:
        """A value as JSON.

        Raises:
            TypeError: if it is something that cannot be saved.
        """
        if value is None or isinstance(value, (bool, str)):
            return value
        if value is FIRST:
            return {"first": True}
        if isinstance(value, (jax.Array, np.ndarray, np.generic)):
            return self._array(value)
        if isinstance(value, int):
            return {"int": str(value)}
        if isinstance(value, float):
            return value if math.isfinite(value) else {"float": repr(value)}
        names = _field_names(type(value))
        if names is not None:
            return self._object(value, names)
        if isinstance(value, (tuple, list)):
            kind = "tuple" if isinstance(value, tuple) else "list"
            return {kind: [self.encode(item) for item in value]}
        if isinstance(value, Mapping):
            return {"dict": [[self.encode(key), self.encode(item)] for key, item in value.items()]}
        raise TypeError(
            f"an object of type `{type(value).__name__}` cannot be saved: {value!r}; a file holds "
            "numbers, texts, arrays, and modules made of them."
        )

    def _array(self, value: Any) -> dict:
        array = np.asarray(value)
        if array.dtype.kind not in "biuf":
            raise TypeError(f"an array of type {array.dtype} cannot be saved.")
        name = f"array{len(self.arrays)}"
        self.arrays[name] = array
        return {"array": name, "device": isinstance(value, jax.Array)}

    def _object(self, value: Any, names: tuple[str, ...]) -> dict:
        name = type(value).__name__
        if self._kinds.get(name, type(value)) is not type(value):
            raise TypeError(
                f"a class of your own is called `{name}`, as one of jaxkick; give it another name "
                "to save objects of it."
            )
        fields = {field: self.encode(getattr(value, field)) for field in names}
        return {"kind": name, "fields": fields}


class Decoder:
    """Turns JSON and arrays back into objects of classes that it is given."""

    def __init__(self, kinds: Mapping[str, type], arrays: Mapping[str, np.ndarray]):
        """Start with what there is.

        Args:
            kinds: the classes that may be made, by name.
            arrays: the arrays by name.
        """
        self._kinds = kinds
        self._arrays = arrays
        self._place: list[str] = []

    def decode(self, node: Any) -> Any:
        """A value from JSON.

        Raises:
            ValueError: if the file holds something unknown; the error says where.
        """
        try:
            return self._decode(node)
        except _WRONG as error:
            place = "".join(self._place).removeprefix(".")
            where = f" (at `{_short(place)}`)" if place else ""
            raise ValueError(f"{_short(str(error)).removesuffix('.')}{where}.") from error

    def _decode(self, node: Any) -> Any:
        if node is None or isinstance(node, (bool, str, float)):
            return node
        if not isinstance(node, dict) or not node:
            raise ValueError(f"the file holds {_short(repr(node))} where an object was expected.")
        tag = next(iter(node))
        reader = getattr(self, f"_read_{tag}", None) if tag in _TAGS else None
        if reader is None:
            raise ValueError(f"the file holds something unknown: {tag!r}.")
        return reader(node)

    def _inside(self, part: str, node: Any) -> Any:
        """A part of an object; its place is kept where an error is raised inside."""
        self._place.append(part)
        value = self._decode(node)
        self._place.pop()
        return value

    def _items(self, nodes: Any) -> Iterator[Any]:
        if not isinstance(nodes, list):
            raise ValueError(f"the file holds {_short(repr(nodes))} where a list was expected.")
        for number, node in enumerate(nodes):
            yield self._inside(f"[{number}]", node)

    def _read_first(self, node: dict) -> Any:
        return FIRST

    def _read_int(self, node: dict) -> int:
        return int(node["int"])

    def _read_float(self, node: dict) -> float:
        return float(node["float"])

    def _read_tuple(self, node: dict) -> tuple:
        return tuple(self._items(node["tuple"]))

    def _read_list(self, node: dict) -> list:
        return list(self._items(node["list"]))

    def _read_dict(self, node: dict) -> dict:
        made = {}
        for pair in node["dict"]:
            if not isinstance(pair, list) or len(pair) != 2:
                raise ValueError(f"the file holds {_short(repr(pair))} where a pair was expected.")
            key = self._inside(".keys", pair[0])
            made[key] = self._inside(f"[{key!r}]", pair[1])
        return made

    def _read_array(self, node: dict) -> Any:
        if node["array"] not in self._arrays:
            raise ValueError(f"the file lacks the array {node['array']!r}.")
        array = self._arrays[node["array"]]
        return as_device_array(array) if node.get("device") else array

    def _read_kind(self, node: dict) -> Any:
        name, fields = node["kind"], node["fields"]
        if name not in self._kinds:
            raise ValueError(
                f"the file holds a `{name}`, which is no part of jaxkick; pass its class, as in "
                f"`load(path, classes=[{name}])`."
            )
        kind = self._kinds[name]
        names = _field_names(kind)
        if names is None or set(fields) != set(names):
            raise ValueError(
                f"the file holds a `{name}` with the fields {', '.join(fields)}, but here it has "
                f"{', '.join(names or ())}; it was written by another version."
            )
        values = {field: self._inside(f".{field}", fields[field]) for field in names}
        return _make(kind, values)


_WRONG = (
    ValueError,
    TypeError,
    KeyError,
    AttributeError,
    IndexError,
    OverflowError,
    RecursionError,
)
_TAGS = {"first", "int", "float", "tuple", "list", "dict", "array", "kind"}


def _short(text: str) -> str:
    """A text of a file that may be of any length."""
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def as_device_array(array: np.ndarray) -> jax.Array:
    """An array for JAX, with all of its digits.

    Raises:
        ValueError: if JAX is set to fewer bits.
    """
    if array.dtype.itemsize == 8 and jnp.result_type(float) != np.float64:
        raise ValueError(
            f"the file holds {array.dtype}, but JAX is set to 32 bits; switch on `jax_enable_x64` "
            "to read it."
        )
    return jnp.asarray(array)


def _make(kind: type, values: dict[str, Any]) -> Any:
    """An object with these fields, as it was; constructors would compute them anew."""
    if issubclass(kind, tuple):
        return kind(**values)
    made = object.__new__(kind)
    for name, value in values.items():
        object.__setattr__(made, name, value)
    return made


def _field_names(kind: type) -> tuple[str, ...] | None:
    """The names of the fields of a module, data class or named tuple."""
    if dataclasses.is_dataclass(kind):
        return tuple(field.name for field in dataclasses.fields(kind))
    return getattr(kind, "_fields", None) if issubclass(kind, tuple) else None
