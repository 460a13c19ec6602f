"""What processes tell each other: every process gives one object, and gets those of all.

Objects travel as bytes, so that no number is rounded whatever JAX's settings: a JSON text for
names and small things, and the arrays as they are. Nothing that arrives is executed.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np
from jax.experimental.multihost_utils import process_allgather

from jaxkick._tree import Decoder, Encoder

__all__ = ["exchange", "pack", "unpack"]

_SMALLEST_PIECE = 1 << 16
_ALL_PIECES = 1 << 28


def exchange(make: Callable[[], Any], kinds: Mapping[str, type]) -> list[Any]:
    """The objects of all processes, in the order of the processes.

    All of them must call this. If one fails to make its object, all raise the same error, so
    that none waits for it.

    Args:
        make: makes the object of this process.
        kinds: the classes that objects may be made of, by name.

    Returns:
        What each process made.

    Raises:
        ValueError: if a process could not make its object, or the object cannot be sent.
    """
    if jax.process_count() == 1:
        return [make()]
    own_fault = None
    try:
        message = pack({"made": make()}, kinds)
    except Exception as error:
        own_fault = error
        message = pack({"fault": f"{type(error).__name__}: {error}"}, {})
    contents = [unpack(each, kinds) for each in _gather(message)]
    for process, content in enumerate(contents):
        if "fault" in content:
            cause = own_fault if process == jax.process_index() else None
            raise ValueError(
                f"process {process} of {len(contents)} found a fault, so that none can go on. "
                f"{content['fault']}"
            ) from cause
    return [content["made"] for content in contents]


def pack(content: Any, kinds: Mapping[str, type]) -> bytes:
    """An object as bytes: the length of a JSON text, the text, and the arrays.

    Raises:
        TypeError: if a part of it is neither a number, a text, an array nor of a known class.
    """
    encoder = Encoder(kinds)
    try:
        body = encoder.encode(content)
    except TypeError as error:
        raise TypeError(f"the data cannot be sent to other processes: {error}") from error
    arrays = [[name, array.dtype.str, array.shape] for name, array in encoder.arrays.items()]
    text = json.dumps([body, arrays]).encode()
    parts = [np.ascontiguousarray(array).tobytes() for array in encoder.arrays.values()]
    return b"".join([len(text).to_bytes(8, "little"), text, *parts])


def unpack(message: bytes | bytearray, kinds: Mapping[str, type]) -> Any:
    """The object that `pack` turned into bytes."""
    begin = 8 + int.from_bytes(message[:8], "little")
    body, described = json.loads(message[8:begin])
    arrays = {}
    for name, kind, shape in described:
        size = int(np.prod(shape, dtype=np.int64))
        arrays[name] = np.frombuffer(message, kind, size, begin).reshape(shape)
        begin += arrays[name].nbytes
    return Decoder(kinds, arrays).decode(body)


def _gather(message: bytes) -> list[bytearray]:
    """The messages of all processes, sent piece by piece.

    Few different sizes of pieces, so that few programs are compiled; none so large that those
    of all processes would fill a device.
    """
    sizes = _gather_numbers(np.array([len(message)], np.int64)).ravel()
    largest = int(sizes.max())
    piece = min(1 << max(largest - 1, _SMALLEST_PIECE - 1).bit_length(), _ALL_PIECES // len(sizes))
    piece = max(piece - piece % 4, 4)
    received = [bytearray(size) for size in sizes.tolist()]
    for begin in range(0, largest, piece):
        part = np.frombuffer(message[begin : begin + piece].ljust(piece, b"\0"), np.int32)
        for whole, arrived in zip(received, process_allgather(part), strict=True):
            whole[begin : begin + piece] = arrived.tobytes()[: max(0, len(whole) - begin)]
    return received


def _gather_numbers(numbers: np.ndarray) -> np.ndarray:
    """Numbers of 64 bits of all processes; JAX may be set to 32."""
    return np.ascontiguousarray(process_allgather(numbers.view(np.int32))).view(numbers.dtype)
