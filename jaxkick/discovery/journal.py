"""The journal of a search: results of learning, from which an interrupted search continues.

A search depends only on its arguments and on what it learns. A new search with the same arguments
therefore takes the same course. It finds in the journal what was learnt before, and learns the
rest.
"""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from jaxkick.discovery.model_comparison import LearntModel
from jaxkick.io import Checkpoint, fingerprint
from jaxkick.learning.objective import split
from jaxkick.model import Model

__all__ = ["Entry", "key_of", "read_journal", "write_journal"]


class Entry(NamedTuple):
    """The result of learning from one start; see `LearntModel` for the fields not named here.

    Attributes:
        values: the learnt parameters, in unconstrained form; empty where learning failed.
    """

    values: np.ndarray
    log_evidence: float
    score: float
    seconds: float
    converged: bool
    note: str

    @staticmethod
    def of(row: LearntModel) -> "Entry":
        """Record a learnt model."""
        values = np.empty(0) if row.failed else np.asarray(ravel_pytree(split(row.model)[0])[0])
        numbers = (row.log_evidence, row.score, row.seconds, row.converged)
        return Entry(values.astype(np.float64), *numbers, row.note)

    def to_row(self, name: str, start: Model) -> LearntModel:
        """The learnt model again, from the start of its learning."""
        values, *rest = self
        if len(values):
            free, template = split(start)
            flat, unravel = ravel_pytree(free)
            start = template.fill(unravel(jnp.asarray(values, flat.dtype)))
        fields = dict(zip(self._fields[1:], rest, strict=True))
        return LearntModel(name, start, num_parameters=len(values), **fields)


def key_of(start: Model, limits: Mapping[str, Any]) -> str:
    """The key of learning from a start in the journal."""
    return fingerprint(eqx.filter(start, eqx.is_array), np.array(repr(sorted(limits.items()))))


def write_journal(file: Checkpoint, journal: Mapping[str, Entry]) -> None:
    """Write all entries, atomically."""
    file.save(_pack(journal))


def read_journal(file: Checkpoint) -> dict[str, Entry]:
    """Read the entries; none if there is no file yet.

    Raises:
        DataError: if the file is not a checkpoint, or of another search.
    """
    saved = file.load(_pack({}))
    if saved is None:
        return {}
    values, sizes, numbers, text = saved
    keys, notes = json.loads(bytes(text))
    parts = np.split(values, np.cumsum(sizes)[:-1])
    return {
        key: Entry(part, evidence, score, seconds, bool(converged), note)
        for key, part, (evidence, score, seconds, converged), note in zip(
            keys, parts, numbers.tolist(), notes, strict=True
        )
    }


def _pack(journal: Mapping[str, Entry]) -> tuple[np.ndarray, ...]:
    """All entries as arrays whose first axis has any length."""
    entries = list(journal.values())
    values = [np.empty(0), *(entry.values for entry in entries)]
    sizes = np.array([len(entry.values) for entry in entries], np.int64)
    numbers = np.array([entry[1:5] for entry in entries], np.float64).reshape(-1, 4)
    text = json.dumps([list(journal), [entry.note for entry in entries]]) if journal else ""
    return np.concatenate(values), sizes, numbers, np.frombuffer(text.encode(), np.uint8)
