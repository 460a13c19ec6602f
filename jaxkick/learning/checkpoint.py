"""Saving a run as it goes, so that a killed one goes on where it was."""

import hashlib
import re
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from jaxkick.storage.archive import read_archive, write_archive

__all__ = ["fingerprint", "load", "save"]

_MARK = "run"
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


def fingerprint(*trees: PyTree) -> str:
    """A short text that differs where the arrays or structures of trees differ."""
    digest = hashlib.blake2b(digest_size=16)
    for tree in trees:
        leaves, structure = jax.tree.flatten(tree)
        # Where a function lies in memory differs from one process to the next.
        digest.update(_ADDRESS.sub("", str(structure)).encode())
        for leaf in leaves:
            array = np.ascontiguousarray(_as_numbers(leaf))
            digest.update(f"{array.dtype}{array.shape}".encode())
            digest.update(array.tobytes())
    return digest.hexdigest()


def save(path: Path, mark: str, state: PyTree) -> None:
    """Write the leaves of a tree; the file appears whole or not at all.

    Args:
        path: the file.
        mark: the fingerprint of the run.
        state: a tree of arrays.
    """
    leaves = {_name(number): np.asarray(leaf) for number, leaf in enumerate(jax.tree.leaves(state))}
    write_archive(path, {_MARK: mark}, leaves)


def load(path: Path, mark: str, like: PyTree) -> PyTree | None:
    """Read a tree back.

    Args:
        path: the file.
        mark: the fingerprint of the run that goes on.
        like: a tree of the same structure.

    Returns:
        The tree, or `None` if there is no file yet.

    Raises:
        ValueError: if the file is of another run, or is no checkpoint, or there is no such
            folder.
    """
    if not path.exists():
        if not path.parent.is_dir():
            raise ValueError(f"`checkpoint` is {str(path)!r}, but there is no such folder.")
        return None
    try:
        content, arrays = read_archive(path)
    except ValueError as error:
        raise ValueError(
            f"`checkpoint` is {str(path)!r}, which is not a checkpoint of this run ({error}); "
            "remove it or name another file."
        ) from error
    structure = jax.tree.structure(like)
    names = [_name(number) for number in range(structure.num_leaves)]
    if content != {_MARK: mark} or set(arrays) != set(names):
        raise ValueError(
            f"`checkpoint` is {str(path)!r}, which was written by a run with another model, "
            "data, method or other arguments; remove it or name another file."
        )
    return jax.tree.unflatten(structure, [arrays[name] for name in names])


def _name(number: int) -> str:
    return f"leaf{number}"


def _as_numbers(leaf: object) -> np.ndarray:
    if isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return np.asarray(jax.random.key_data(leaf))
    return np.asarray(leaf)
