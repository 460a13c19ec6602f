"""Saving a run after every step, so that a killed one goes on where it was."""

import hashlib
import os
import tempfile
import zipfile
from pathlib import Path

import jax
import numpy as np
from jaxtyping import PyTree

__all__ = ["fingerprint", "load", "save"]

_MARK = "fingerprint"


def fingerprint(*trees: PyTree) -> str:
    """A short text that differs where the arrays or structures of trees differ."""
    digest = hashlib.blake2b(digest_size=16)
    for tree in trees:
        leaves, structure = jax.tree.flatten(tree)
        digest.update(str(structure).encode())
        for leaf in leaves:
            array = np.ascontiguousarray(np.asarray(leaf))
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
    leaves = {
        f"leaf{number}": np.asarray(leaf) for number, leaf in enumerate(jax.tree.leaves(state))
    }
    handle, draft = tempfile.mkstemp(prefix=path.name, suffix=".part", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            np.savez(file, **{_MARK: np.array(mark)}, **leaves)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)
    except BaseException:
        Path(draft).unlink(missing_ok=True)
        raise


def load(path: Path, mark: str, like: PyTree) -> PyTree | None:
    """Read a tree back.

    Args:
        path: the file.
        mark: the fingerprint of the run that goes on.
        like: a tree of the same structure.

    Returns:
        The tree, or `None` if there is no file yet.

    Raises:
        ValueError: if the file is of another run, or is no checkpoint.
    """
    if not path.exists():
        return None
    structure = jax.tree.structure(like)
    try:
        with np.load(path, allow_pickle=False) as file:
            found = str(file[_MARK])
            leaves = [file[f"leaf{number}"] for number in range(structure.num_leaves)]
            complete = len(file.files) == structure.num_leaves + 1
    except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
        raise ValueError(
            f"`checkpoint` is {str(path)!r}, which is not a checkpoint of this run ({error}); "
            "remove it or name another file."
        ) from error
    if found != mark or not complete:
        raise ValueError(
            f"`checkpoint` is {str(path)!r}, which was written by a run with another model, "
            "data, method or optimiser; remove it or name another file."
        )
    return jax.tree.unflatten(structure, leaves)
