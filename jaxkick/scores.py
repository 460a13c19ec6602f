"""Scores of features over time, as arrays and as tables."""

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxkick._typing import Array, Float
from jaxkick.dataset.index import Index
from jaxkick.tables import make_table, name_column

__all__ = ["Scores", "join_scores"]


class _Moments(NamedTuple):
    times: np.ndarray
    means: Float[Array, " T"]
    variances: Float[Array, " T"]


class Scores(_Moments):
    """A feature's score at times.

    Attributes:
        times: float64 times in the data's unit.
        means: posterior means.
        variances: posterior variances.
    """

    _name: Hashable = None
    _index: Index | None = None

    @classmethod
    def of(cls, name: Hashable, index: Index, times: np.ndarray, means: Any, variances: Any):
        """Scores that know whose they are."""
        scores = cls(times, means, variances)
        scores._name, scores._index = name, index
        return scores

    def to_frame(self, library: str | None = None) -> Any:
        """The scores as a table: name, group, time, mean and deviation.

        Args:
            library: `"pandas"`, `"polars"` or `"pyarrow"`; that of the data if `None`.
        """
        return join_scores([self], library)


def join_scores(parts: Sequence[Scores], library: str | None = None) -> Any:
    """Scores of several features of one data set as one table.

    Args:
        parts: the scores of each feature.
        library: the library of the table; that of the data if `None`.
    """
    index = parts[0]._index
    counts = [len(part.times) for part in parts]
    names = [part._name for part in parts]
    times = np.concatenate([part.times for part in parts])
    variances = np.concatenate([np.asarray(part.variances) for part in parts])
    columns = {
        "name": np.repeat(name_column(names), counts),
        "group": np.repeat(name_column(map(index.group_of, names)), counts),
        "time": index.scale.to_user(times),
        "mean": np.concatenate([np.asarray(part.means) for part in parts]),
        "deviation": np.sqrt(variances),
    }
    return make_table(columns, library or index.library)
