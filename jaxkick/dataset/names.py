"""Names to numbers: one code for each different name, whatever its type."""

from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from itertools import count
from typing import TypeAlias

import narwhals as nw
import numpy as np

from jaxkick.dataset.columns import Column, chunks, is_missing

__all__ = ["Groups", "Vocabulary", "as_grouping", "check_names", "group_name"]

DEFAULT_GROUP = "default"

_TEXTS = (nw.String, nw.Categorical, nw.Enum)

Groups: TypeAlias = Mapping[Hashable, str] | Callable[[Hashable], str] | None


class Vocabulary:
    """The names met so far, each with a code in order of appearance."""

    def __init__(self) -> None:
        """Start without names."""
        self._codes: defaultdict[Hashable, int] = defaultdict(count().__next__)

    def __contains__(self, name: Hashable) -> bool:
        return name in self._codes

    def encode(self, column: Column, argument: str) -> np.ndarray:
        """The codes of a column of names, new names added.

        Args:
            column: one name for each row.
            argument: name of the user's argument, for the error.

        Returns:
            Codes as int32.

        Raises:
            ValueError: if a name cannot be hashed.
        """
        if isinstance(column, nw.Series) and column.dtype in _TEXTS:
            values, inverse = _factorise_texts(column)
            return self.encode(values, argument)[inverse]
        if isinstance(column, nw.Series) and column.dtype.is_integer() and not column.null_count():
            column = column.to_numpy()
        if isinstance(column, np.ndarray) and column.dtype.kind in "iu" and column.size:
            values, inverse = _factorise_integers(column)
            return self.encode(values.tolist(), argument)[inverse]
        codes = np.empty(len(column), np.int32)
        for part, names in chunks(column):
            try:
                codes[part] = np.fromiter(map(self._codes.__getitem__, names), np.int32, len(names))
            except TypeError:
                _refuse_first_unhashable(names, argument)
        return codes

    def names(self) -> list[Hashable]:
        """The names as plain Python values, by code."""
        return [_plain(name) for name in self._codes]

    def missing(self) -> np.ndarray:
        """For each code, whether its name stands for nothing."""
        return np.fromiter(map(is_missing, self._codes), bool, len(self._codes))

    def sort(self, features: np.ndarray) -> tuple[tuple[Hashable, ...], np.ndarray]:
        """The names in use, in an order that does not depend on the rows.

        Args:
            features: codes in use; -1 for none.

        Returns:
            The sorted names, and for each code the place of its name among them; the last
            element is -1, so that the code -1 keeps its meaning.
        """
        names = self.names()
        used = np.zeros(len(names) + 1, bool)
        used[features] = True
        codes = np.flatnonzero(used[:-1]).tolist()
        codes.sort(key=lambda code: _sort_key(names[code]))
        places = np.full(len(names) + 1, -1, np.int32)
        places[codes] = np.arange(len(codes))
        return tuple(names[code] for code in codes), places


def check_names(names: Sequence[Hashable], num_features: int) -> tuple[Hashable, ...]:
    """The names that a user gave to numbered features.

    Args:
        names: one name for each feature number.
        num_features: one more than the largest feature number in use.

    Returns:
        The names as plain Python values.

    Raises:
        ValueError: if there are too few, or some are missing or repeated.
    """
    plain = tuple(map(_plain, names))
    if len(plain) < num_features:
        raise ValueError(
            f"`names` has {len(plain):,} names, but `features` counts up to {num_features - 1:,}; "
            "give a name for every feature number from 0."
        )
    missing = [number for number, name in enumerate(plain) if is_missing(name)]
    if missing:
        raise ValueError(f"`names` is missing for feature {missing[0]}; give every feature a name.")
    if len(set(plain)) < len(plain):
        seen: set[Hashable] = set()
        twice = next(name for name in plain if name in seen or seen.add(name))
        raise ValueError(f"`names` has {twice!r} twice; give every feature a name of its own.")
    return plain


def group_name(groups: Groups, name: Hashable) -> str:
    """The group of a feature: by the user's mapping or function, else `"default"`.

    Raises:
        ValueError: if the user's answer is not a text.
    """
    if groups is None:
        return DEFAULT_GROUP
    group = groups(name) if callable(groups) else groups.get(name, DEFAULT_GROUP)
    if not isinstance(group, str):
        raise ValueError(
            f"`groups` gives {group!r} for the feature {name!r}; the name of a group is a text."
        )
    return group


def as_grouping(groups: Groups) -> Groups:
    """The user's rule for the groups, a mapping as a copy of its own.

    Raises:
        ValueError: if it is neither a mapping nor a function nor `None`.
    """
    if isinstance(groups, Mapping):
        return dict(groups)
    if groups is not None and not callable(groups):
        raise ValueError(
            "`groups` must be a mapping from feature names to group names, a function of a "
            f"feature's name, or None, but is a {type(groups).__name__}."
        )
    return groups


def _factorise_texts(series: nw.Series) -> tuple[list, np.ndarray]:
    """Different texts and the place of each row's text among them, by the table's own library."""
    if series.implementation.is_pandas_like():
        places, values = series.to_native().factorize()
        # Missing texts have the place -1, which is the last one.
        return [*values.tolist(), None], places
    series = series.cast(nw.String).fill_null("")
    values = series.unique().to_list()
    places = series.replace_strict(values, list(range(len(values))), return_dtype=nw.Int32)
    return values, places.to_numpy()


def _factorise_integers(column: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Different values and the place of each row's value among them."""
    low, high = int(column.min()), int(column.max())
    if high - low > 4 * column.size or high >= 2**63:
        values, inverse = np.unique(column, return_inverse=True)
        return values, inverse
    # A table over the range takes one pass where sorting takes many.
    shifted = column.astype(np.int64, copy=False) - low
    present = np.zeros(high - low + 1, bool)
    present[shifted] = True
    places = np.cumsum(present, dtype=np.int32) - np.int32(1)
    return np.flatnonzero(present) + low, places[shifted]


def _plain(name: Hashable) -> Hashable:
    """A Python value for NumPy's scalars, and whole numbers as such.

    Tables turn whole numbers into floats when one of them is missing.
    """
    name = name.item() if isinstance(name, np.generic) else name
    return int(name) if isinstance(name, float) and name.is_integer() else name


def _sort_key(name: Hashable) -> tuple:
    if isinstance(name, (int, float)):
        return (0, name, "")
    return (1, 0, name) if isinstance(name, str) else (2, 0, f"{type(name).__name__} {name!r}")


def _refuse_first_unhashable(names: list, argument: str) -> None:
    for name in names:
        try:
            hash(name)
        except TypeError:
            raise ValueError(
                f"`{argument}` holds {name!r}, which cannot be a name; use texts or numbers."
            ) from None
