"""One file: a zip of numeric arrays and of one JSON text; nothing in it is ever executed."""

import io
import json
import math
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from jaxkick._files import written_whole

__all__ = ["VERSION", "read_archive", "write_archive"]

VERSION = 1
"""The version of the format that is written, and the latest that is read."""

_FORMAT = "jaxkick"
_HEADER = "jaxkick.json"
_KINDS = "biuf"
_MAX_HEADER = 1 << 30
_SHOWN = 200
_UNREADABLE = (
    zipfile.BadZipFile,
    EOFError,
    OSError,
    NotImplementedError,
    MemoryError,
    UnicodeDecodeError,
)


def write_archive(path: Path, content: Any, arrays: Mapping[str, np.ndarray]) -> None:
    """Write a file that appears whole or not at all.

    Args:
        path: the file.
        content: what JSON can hold.
        arrays: arrays of numbers or booleans by name.
    """
    header = {"format": _FORMAT, "version": VERSION, "content": content}
    with written_whole(path) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(_HEADER, json.dumps(header, allow_nan=False))
        for name, array in arrays.items():
            archive.writestr(f"{name}.npy", _to_bytes(array))


def read_archive(path: Path) -> tuple[Any, dict[str, np.ndarray]]:
    """Read a file back.

    Args:
        path: the file.

    Returns:
        What JSON held, and the arrays by name.

    Raises:
        ValueError: if it is damaged, of another kind, or of a later version.
        FileNotFoundError: if there is none.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            _check_parts(archive, path)
            content = _read_header(archive, path)
            arrays = {
                info.filename.removesuffix(".npy"): _read_array(archive, info, path)
                for info in archive.infolist()
                if info.filename != _HEADER
            }
    except FileNotFoundError:
        raise
    except _UNREADABLE as error:
        reason = str(error)[:_SHOWN]
        raise ValueError(f"{str(path)!r} cannot be read: it is damaged ({reason}).") from error
    return content, arrays


def _check_parts(archive: zipfile.ZipFile, path: Path) -> None:
    """Refuse what unfolds, and parts that lie over each other: both could fill any memory."""
    for info in archive.infolist():
        if info.compress_type != zipfile.ZIP_STORED or info.flag_bits & 1:
            raise ValueError(
                f"{_part(info, path)} is compressed or encrypted, which jaxkick never does."
            )
    claimed, there = sum(info.file_size for info in archive.infolist()), path.stat().st_size
    if claimed > there:
        raise ValueError(
            f"{str(path)!r} claims to hold {claimed:,} bytes, but has {there:,} bytes itself."
        )


def _read_header(archive: zipfile.ZipFile, path: Path) -> Any:
    if _HEADER not in archive.namelist():
        raise ValueError(f"{str(path)!r} is a zip file, but not one of jaxkick.")
    info = archive.getinfo(_HEADER)
    if info.file_size > _MAX_HEADER:
        raise ValueError(f"{str(path)!r} has a description of {info.file_size:,} bytes.")
    try:
        header = json.loads(archive.read(info))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{str(path)!r} has a description that is not JSON ({error}).") from error
    if not isinstance(header, dict) or header.get("format") != _FORMAT:
        raise ValueError(f"{str(path)!r} is not a file of jaxkick.")
    version = header.get("version")
    if not isinstance(version, int) or not 1 <= version <= VERSION:
        raise ValueError(
            f"{str(path)!r} has the version {str(version)[:20]} of the format, but this jaxkick "
            f"reads up to {VERSION}; update jaxkick."
        )
    return header.get("content")


def _read_array(archive: zipfile.ZipFile, info: zipfile.ZipInfo, path: Path) -> np.ndarray:
    """An array whose header fits its size, so that no more is reserved than there is."""
    with archive.open(info) as file:
        try:
            version = np.lib.format.read_magic(file)
            read = {(1, 0): np.lib.format.read_array_header_1_0}[version]
            shape, fortran, dtype = read(file)
        except (ValueError, KeyError, SyntaxError, TypeError) as error:
            raise ValueError(f"{_part(info, path)} is not an array ({error}).") from error
        size = math.prod(shape) * dtype.itemsize
        plain = (
            dtype.kind in _KINDS and dtype.isnative and not fortran and min(shape, default=0) >= 0
        )
        if not plain or file.tell() + size != info.file_size:
            raise ValueError(
                f"{_part(info, path)} is not an array of numbers of the size it claims."
            )
        return np.frombuffer(file.read(), dtype).reshape(shape).copy()


def _part(info: zipfile.ZipInfo, path: Path) -> str:
    return f"{info.filename[:80]!r} of {str(path)!r}"


def _to_bytes(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, np.asarray(array, order="C"), (1, 0), allow_pickle=False)
    return buffer.getvalue()
