"""The ways to make a data set: of tables, of names, of feature numbers."""

import abc
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Self

from jax.typing import ArrayLike, DTypeLike

from jaxkick.dataset.assembly import Assembled, assemble_arrays, assemble_sides
from jaxkick.dataset.features import Side
from jaxkick.dataset.frames import library_of, read_frame
from jaxkick.dataset.names import Groups
from jaxkick.dataset.recipe import Pair, Recipe, SideColumns, as_pair, as_side
from jaxkick.dataset.table import OutcomeDomain, Table
from jaxkick.dataset.validation import OnInvalid

__all__ = ["AbstractConstructors"]


class AbstractConstructors(abc.ABC):
    """The constructors of a data set; see `Dataset` for the arguments that they share."""

    @classmethod
    @abc.abstractmethod
    def from_assembled(
        cls, assembled: Assembled, dtype: DTypeLike | None = None, row_length: int | None = None
    ) -> Self:
        """A data set of checked observations."""

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        *,
        time: str | float,
        first: SideColumns,
        second: SideColumns,
        outcome: str | float | None = None,
        result: Pair | None = None,
        difference: Pair | None = None,
        counts: Pair | None = None,
        home: str | bool | None = None,
        neutral: str | None = None,
        weight: str | float | None = None,
        covariates: Mapping[Hashable, str | float] | None = None,
        groups: Groups = None,
        unit: str | None = None,
        dtype: DTypeLike | None = None,
        on_invalid: OnInvalid = "raise",
        likelihood: OutcomeDomain | None = None,
        row_length: int | None = None,
    ) -> Self:
        """Matches from a table.

        Of `outcome`, `result`, `difference` and `counts` give at most one; without any of
        them the first side always won. What was understood is in the repr.

        Args:
            frame: a table of pandas, polars or pyarrow, or a mapping from names to columns.
            time: the column of times; a number if all matches are at one time.
            first: the column of the first side; see `from_pairs` for what it may hold. Or a
                line-up over several columns, with nothing in empty places: a list of columns,
                or a mapping from columns of names to columns of fractions (or numbers).
            second: the same for the second side.
            outcome: the column of outcomes; see the class.
            result: two columns of points, as win (+1), tie (0) or loss (-1) of the first side.
            difference: two columns of points, as the first side's less the second's.
            counts: two columns of points, as two observations of every match: the count of
                each side from its attack and the other's defence. The features are
                `"<name> attack"` and `"<name> defence"` of the groups `"attack"` and
                `"defence"`, and `"level"` of its own group, which all counts share.
            home: who is at home: `True` for the first side, or a column of +1 (first), -1
                (second) and 0 (neutral ground) or of the names of the side at home. Adds the
                feature `"home"` of the group `"home"`.
            neutral: the column that is true where a match is on neutral ground; in others the
                first side is at home, unless `home` says otherwise.
            weight: the column of weights.
            covariates: further features by name, each with the column of its coefficients or
                one number for all matches. A coefficient of 0 leaves the feature out of that
                match; of counts, that of the second side has it with a minus.
            groups: which features share a kernel; a function decides for all features, also
                for those that this method adds.
            unit: the unit of time.
            dtype: floating-point type.
            on_invalid: `"raise"` or `"drop"`.
            likelihood: checks the outcomes.
            row_length: steps of the rows of the chains.

        Returns:
            The data set.

        Raises:
            ValueError: if a column is unknown, or a row cannot be used and is not dropped.
        """
        recipe = Recipe(
            time=time,
            first=as_side("first", first),
            second=as_side("second", second),
            outcome=outcome,
            result=as_pair("result", result),
            difference=as_pair("difference", difference),
            counts=as_pair("counts", counts),
            home=home,
            neutral=neutral,
            weight=weight,
            covariates=tuple((covariates or {}).items()),
            library=library_of(frame),
        )
        columns = read_frame(frame, recipe)
        table = Table(
            columns.times, columns.outcome, columns.weight,
            groups, unit, on_invalid, likelihood, columns.labels, recipe,
        )  # fmt: skip
        sides = {"first": (columns.first, 1.0), "second": (columns.second, -1.0)}
        return cls.from_assembled(
            assemble_sides(table, sides, columns.covariates), dtype, row_length
        )

    @classmethod
    def from_pairs(
        cls,
        times: Any,
        first: Sequence[Side],
        second: Sequence[Side],
        outcome: Any = None,
        *,
        weight: Any = None,
        covariates: Mapping[Hashable, Any] | None = None,
        groups: Groups = None,
        unit: str | None = None,
        dtype: DTypeLike | None = None,
        on_invalid: OnInvalid = "raise",
        likelihood: OutcomeDomain | None = None,
        row_length: int | None = None,
    ) -> Self:
        """Matches of two sides.

        Args:
            times: time of each match.
            first: for each match the name of the first side, a list of names (a team of equal
                parts) or a mapping from names to coefficients.
            second: the same for the second side, whose coefficients count with a minus. A
                name on both sides of one match is refused.
            outcome: outcomes; see the class for this and what follows.
            weight: weights.
            covariates: further features by name, each with its coefficients or one number
                for all matches; 0 leaves the feature out of that match.
            groups: which features share a kernel.
            unit: the unit of time.
            dtype: floating-point type.
            on_invalid: `"raise"` or `"drop"`.
            likelihood: checks the outcomes.
            row_length: steps of the rows of the chains.

        Returns:
            The data set.

        Raises:
            ValueError: if a row cannot be used and is not dropped.
        """
        table = Table(times, outcome, weight, groups, unit, on_invalid, likelihood, {})
        sides = {"first": (first, 1.0), "second": (second, -1.0)}
        return cls.from_assembled(assemble_sides(table, sides, covariates), dtype, row_length)

    @classmethod
    def from_mappings(
        cls,
        times: Any,
        observations: Sequence[Side],
        outcome: Any,
        *,
        weight: Any = None,
        groups: Groups = None,
        unit: str | None = None,
        dtype: DTypeLike | None = None,
        on_invalid: OnInvalid = "raise",
        likelihood: OutcomeDomain | None = None,
        row_length: int | None = None,
    ) -> Self:
        """Observations of any linear combination of named features.

        Args:
            times: time of each observation.
            observations: for each observation a mapping from names to coefficients; a name or
                a list of names stands for coefficients of 1.
            outcome: outcomes; see the class for this and what follows.
            weight: weights.
            groups: which features share a kernel.
            unit: the unit of time.
            dtype: floating-point type.
            on_invalid: `"raise"` or `"drop"`.
            likelihood: checks the outcomes.
            row_length: steps of the rows of the chains.

        Returns:
            The data set.

        Raises:
            ValueError: if a row cannot be used and is not dropped.
        """
        table = Table(times, outcome, weight, groups, unit, on_invalid, likelihood, {})
        sides = {"observations": (observations, 1.0)}
        return cls.from_assembled(assemble_sides(table, sides, None), dtype, row_length)

    @classmethod
    def from_arrays(
        cls,
        times: Any,
        features: ArrayLike,
        coefficients: ArrayLike,
        outcome: Any,
        weight: Any = None,
        names: Sequence[Hashable] | None = None,
        groups: Groups = None,
        *,
        unit: str | None = None,
        dtype: DTypeLike | None = None,
        on_invalid: OnInvalid = "raise",
        likelihood: OutcomeDomain | None = None,
        row_length: int | None = None,
    ) -> Self:
        """Observations of any linear combination of numbered features.

        Args:
            times: time of each observation.
            features: integers [N, P] that count the features from 0; -1 in an empty slot.
            coefficients: numbers [N, P]; ignored in an empty slot.
            outcome: outcomes; see the class for this and what follows.
            weight: weights.
            names: name of each feature; its number if `None`. May name features that take
                part in no observation.
            groups: which features share a kernel.
            unit: the unit of time.
            dtype: floating-point type.
            on_invalid: `"raise"` or `"drop"`.
            likelihood: checks the outcomes.
            row_length: steps of the rows of the chains.

        Returns:
            The data set.

        Raises:
            ValueError: if a row cannot be used and is not dropped.
        """
        table = Table(times, outcome, weight, groups, unit, on_invalid, likelihood, {})
        return cls.from_assembled(
            assemble_arrays(table, features, coefficients, names), dtype, row_length
        )
