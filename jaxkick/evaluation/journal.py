"""How far a walk has come, kept in a file, so that a killed one goes on where it was."""

import time
from pathlib import Path
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from jaxkick.evaluation.forecaster import AbstractForecaster, Predicted
from jaxkick.learning.checkpoint import load, save

__all__ = ["Journal", "Walk"]

# Writing takes about one part of time in so many.
_SELDOM = 20.0


class Walk(NamedTuple):
    """A walk over stretches of blocks, each with parameters of its own.

    Attributes:
        stretch: the number of the stretch that is under way.
        done: the number of its blocks that are predicted; -1 before its parameters are learnt.
        mean: predictive mean of each observation's score, as far as it is known.
        variance: its variance.
        memory: what the forecaster goes on from.
        forecasters: the forecaster of every stretch, that of the user where it is to come.
    """

    stretch: np.ndarray
    done: np.ndarray
    mean: np.ndarray
    variance: np.ndarray
    memory: PyTree
    forecasters: tuple[AbstractForecaster, ...]

    @classmethod
    def begin(cls, forecaster: AbstractForecaster, memory: PyTree, size: int, stretches: int):
        """A walk before its first step."""
        nothing = np.full(size, np.nan)
        return cls(np.array(0), np.array(-1), nothing, nothing, memory, (forecaster,) * stretches)

    def tuned(self, forecaster: AbstractForecaster) -> "Walk":
        """The walk with the parameters of its stretch learnt."""
        number = int(self.stretch)
        forecasters = (*self.forecasters[:number], forecaster, *self.forecasters[number + 1 :])
        return self._replace(done=np.array(0), forecasters=forecasters)

    def followed_by(self, predicted: Predicted) -> "Walk":
        """The walk with further blocks predicted."""
        mean, variance = self.mean.copy(), self.variance.copy()
        mean[predicted.rows], variance[predicted.rows] = predicted.moments
        done = np.array(self.done + predicted.blocks)
        return self._replace(done=done, mean=mean, variance=variance, memory=predicted.memory)

    def at_next_stretch(self, memory: PyTree) -> "Walk":
        """The walk where a stretch is through."""
        return self._replace(stretch=np.array(self.stretch + 1), done=np.array(-1), memory=memory)


class Journal:
    """Keeps a walk in a file, if there is one to keep."""

    def __init__(self, path: Path | None, mark: str):
        """Open a journal.

        Args:
            path: the file, or `None` for none.
            mark: the fingerprint of the walk.
        """
        self._path, self._mark = path, mark
        self._ended, self._cost = 0.0, 0.0

    def resume(self, fresh: Walk) -> Walk:
        """The walk that the file holds; `fresh` if there is none.

        Raises:
            ValueError: if the file is of another walk, or is no checkpoint.
        """
        arrays, rest = eqx.partition(fresh, _is_array)
        found = None if self._path is None else load(self._path, self._mark, arrays)
        if found is None:
            return fresh
        return eqx.combine(jax.tree.map(self._alike, found, arrays), rest)

    def keep(self, walk: Walk) -> None:
        """Write a walk down, unless that was done just now."""
        if time.perf_counter() - self._ended >= _SELDOM * self._cost:
            self.write(walk)

    def write(self, walk: Walk) -> None:
        """Write a walk down."""
        if self._path is None:
            return
        began = time.perf_counter()
        save(self._path, self._mark, eqx.filter(walk, _is_array))
        self._ended = time.perf_counter()
        self._cost = self._ended - began

    def _alike(self, found: np.ndarray, own: jax.Array | np.ndarray) -> jax.Array | np.ndarray:
        if found.shape != own.shape or found.dtype != own.dtype:
            raise ValueError(
                f"`checkpoint` is {str(self._path)!r}, which holds an array of {found.dtype} and "
                f"the shape {found.shape} where one of {own.dtype} and {own.shape} belongs; "
                "remove it or name another file."
            )
        return jnp.asarray(found) if isinstance(own, jax.Array) else found


def _is_array(leaf: object) -> bool:
    return isinstance(leaf, (jax.Array, np.ndarray))
