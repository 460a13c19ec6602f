"""How a table was read: kept with the data, so that later tables are read alike."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

__all__ = ["Pair", "Recipe", "SideColumns", "as_pair", "as_side"]

Pair: TypeAlias = tuple[str, str]
SideColumns: TypeAlias = str | Sequence[str] | Mapping[str, str | float]


@dataclass(frozen=True)
class Recipe:
    """The arguments of `Dataset.from_frame` that say what the columns of a table mean.

    Attributes:
        time: the column of times, or one time for all matches.
        first: the column of the first side, or pairs of a column of names and a column of
            coefficients (or one number) for a line-up over several columns.
        second: the same for the second side.
        outcome: the column of outcomes, one outcome for all, or `None`.
        result: two columns of points, read as win, tie or loss.
        difference: two columns of points, read as their difference.
        counts: two columns of points, read as two counts.
        home: the column that says who is at home, `True` for the first side, or `None`.
        neutral: the column that says which matches are on neutral ground, or `None`.
        weight: the column of weights, one weight for all, or `None`.
        covariates: names of further features with their columns or numbers.
        library: the kind of table: `"pandas"`, `"polars"`, `"pyarrow"`, or `None` for a
            mapping from names to columns.
    """

    time: str | float
    first: str | tuple[tuple[str, str | float], ...]
    second: str | tuple[tuple[str, str | float], ...]
    outcome: str | float | None = None
    result: Pair | None = None
    difference: Pair | None = None
    counts: Pair | None = None
    home: str | bool | None = None
    neutral: str | None = None
    weight: str | float | None = None
    covariates: tuple[tuple[Hashable, str | float], ...] = ()
    library: str | None = None

    def __post_init__(self) -> None:
        given = [f"`{name}`" for name in _OUTCOMES if getattr(self, name) is not None]
        if len(given) > 1:
            raise ValueError(
                f"{' and '.join(given)} each say what the outcomes are; give only one of them."
            )
        if self.has_home and any(name == "home" for name, _ in self.covariates):
            raise ValueError(
                "`covariates` has the name 'home', which is that of the home advantage; choose "
                "another name for the covariate, or leave out `home` and `neutral`."
            )

    @property
    def has_home(self) -> bool:
        """Whether matches have a side at home."""
        return self.neutral is not None or self.home not in (None, False)

    def describe(self) -> str:
        """The meaning of the columns in one line."""
        words = [f"first {_show_side(self.first)}", f"second {_show_side(self.second)}"]
        for name, text in _OUTCOMES.items():
            value = getattr(self, name)
            if value is not None:
                words.append(text.format(*(value if isinstance(value, tuple) else [value])))
        if len(words) == 2:
            words.append("the first always won")
        if self.has_home:
            words.append(f"home {self.home!r}" if isinstance(self.home, str) else "first at home")
        if self.neutral is not None:
            words.append(f"neutral {self.neutral!r}")
        if self.weight is not None:
            words.append(f"weight {self.weight!r}")
        words += [f"covariate {name!r} = {value!r}" for name, value in self.covariates]
        return ", ".join(words)


_OUTCOMES = {
    "outcome": "outcome {0!r}",
    "result": "result of {0!r} and {1!r}",
    "difference": "difference of {0!r} and {1!r}",
    "counts": "counts {0!r} and {1!r}",
}


def as_pair(argument: str, columns: Any) -> Pair | None:
    """Two names of columns.

    Raises:
        ValueError: if they are something else.
    """
    if columns is None:
        return None
    if isinstance(columns, (list, tuple)) and len(columns) == 2:
        first, second = columns
        if isinstance(first, str) and isinstance(second, str):
            return first, second
    raise ValueError(
        f"`{argument}` is {columns!r}, but must be the names of two columns: the points of the "
        f"first side and those of the second, as in `{argument}=('home_goals', 'away_goals')`."
    )


def as_side(argument: str, columns: Any) -> str | tuple[tuple[str, str | float], ...]:
    """The columns of one side: a name, or names with coefficients.

    Raises:
        ValueError: if they are something else.
    """
    if isinstance(columns, str):
        return columns
    if isinstance(columns, Mapping) and columns:
        return tuple(columns.items())
    if isinstance(columns, (list, tuple)) and columns and all(isinstance(c, str) for c in columns):
        return tuple((column, 1.0) for column in columns)
    raise ValueError(
        f"`{argument}` is {columns!r}, but must be the name of a column, a list of columns for a "
        "line-up, or a mapping from the columns of its names to those of their fractions."
    )


def _show_side(side: str | tuple[tuple[str, str | float], ...]) -> str:
    if isinstance(side, str):
        return repr(side)
    parts = [repr(names) if part == 1.0 else f"{part!r} of {names!r}" for names, part in side]
    return " + ".join(parts)
