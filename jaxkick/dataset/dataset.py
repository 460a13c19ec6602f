"""The data set: observations in the user's order, and the chains that the smoother reads."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jax.typing import ArrayLike, DTypeLike

from jaxkick._typing import Array, Float, Int
from jaxkick.dataset.assembly import Assembled, assemble_arrays, assemble_sides
from jaxkick.dataset.encoding import encode
from jaxkick.dataset.features import Side
from jaxkick.dataset.frames import library_of, read_frame
from jaxkick.dataset.growth import disassemble
from jaxkick.dataset.index import Entries, Index
from jaxkick.dataset.location import Location, locate
from jaxkick.dataset.names import Groups
from jaxkick.dataset.recipe import Pair, Recipe, SideColumns, as_pair, as_side
from jaxkick.dataset.room import Room
from jaxkick.dataset.sharding import shard_dataset
from jaxkick.dataset.summary import summarise
from jaxkick.dataset.table import OutcomeDomain, Table
from jaxkick.dataset.validation import OnInvalid
from jaxkick.kernels.time import Epoch
from jaxkick.statespace.chain import Chain

__all__ = ["Dataset"]


class Dataset(eqx.Module):
    """Observations of sparse linear combinations of features, ready for inference.

    Made by `from_frame` (tables), `from_pairs` (names on two sides), `from_mappings` (names
    with coefficients) or `from_arrays` (feature numbers). Rows may come in any order, and
    observations keep it. A feature named twice in an observation has its coefficients added.

    Arguments that all of them take:
        outcome: a number for each observation, coded as the likelihood asks: for a winner
            +1 (first) or -1 (second). Booleans say whether the first side won. `None` where
            the first side always won. One number stands for all.
        weight: factors on the observations' log-likelihoods, not below zero; `None` for 1.
        groups: which features share a kernel: a mapping from feature names to group names, a
            function of a feature's name, or `None`. Features that a mapping does not name,
            covariates among them, belong to the group `"default"`.
        unit: the unit that dates are counted in: `"year"` (the default), `"month"`, `"week"`,
            `"day"`, `"hour"`, `"minute"` or `"second"`. Lengthscales are then in this unit.
            Times that are numbers are taken as they are, and `unit` only names their unit.
        dtype: floating-point type; that of JAX at the time of the call if `None`. Time
            differences are taken in float64 before they are cast.
        on_invalid: `"raise"` refuses rows that cannot be used with a `ValueError`; `"drop"`
            leaves them out with a `UserWarning` that says how many and why.
        likelihood: refuses outcomes outside its domain already here, if given.
        row_length: steps of the rows of the chains; chosen from the data and the backend if
            `None`.

    Times are numbers or dates (NumPy's, Python's, a table's, or ISO texts); dates with a time
    zone are taken in UTC. Rows in errors count from 0.

    Attributes:
        outcome: outcome of each observation.
        coefficients: coefficients of the features in an observation's slots; 0 if empty.
        weight: weights, or `None`.
        slots: flat position of each slot's entry in the concatenation of the chains' raveled
            arrays; one past the end in an empty slot.
        chains: the entries of each group of features.
        epoch: the time that offsets count from.
        index: names, groups and times, on the host.
    """

    outcome: Float[Array, " N"]
    coefficients: Float[Array, "N P"]
    weight: Float[Array, " N"] | None
    slots: Int[Array, "N P"]
    chains: tuple[Chain, ...]
    epoch: Epoch
    index: Index = eqx.field(static=True)

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
    ) -> "Dataset":
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
    ) -> "Dataset":
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
    ) -> "Dataset":
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
    ) -> "Dataset":
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

    def without_index(self) -> "Dataset":
        """The arrays alone, without names and times.

        Data sets of one shape can then be stacked and passed through `vmap`. Inference and
        the evidence need no more; scores by name and predictions do.
        """
        return replace(self, index=None)

    def shard(self, mesh: Mesh) -> "Dataset":
        """The same data, shared out to devices: cores of a CPU, GPUs, or those of all hosts.

        All that is computed from it (`infer`, `learn`, predictions) then runs on all devices,
        with the same results to rounding. For two cores of a CPU, say
        `jax.config.update("jax_num_cpu_devices", 2)` before anything else is done with JAX.
        Under `jax.distributed` every process gives the same data and the same mesh.

        Args:
            mesh: the devices, such as `jax.make_mesh((jax.device_count(),), ("rows",))`.

        Returns:
            The data with its rows, and where their number allows it its observations, shared
            out evenly.
        """
        return shard_dataset(self, mesh)

    @property
    def names(self) -> tuple[Hashable, ...]:
        """The names of the features; feature numbers count along them."""
        return self.index.names

    @property
    def num_observations(self) -> int:
        """The number of observations."""
        return len(self.index.times)

    @property
    def num_features(self) -> int:
        """The number of features."""
        return len(self.index.names)

    def feature_id(self, name: Hashable) -> int:
        """The number of a feature; -1 if the data lacks it."""
        return int(self.index.feature_ids([name])[0])

    def entries(self, name: Hashable) -> Entries:
        """Positions, times and observations of a feature's entries, in the order of time."""
        return self.index.entries(name)

    def locate(self, features: ArrayLike, times: ArrayLike) -> Location:
        """Where times fall among the entries of features, for prediction.

        Args:
            features: feature numbers; -1 for an unseen feature.
            times: float64 times in the data's unit, as from `index.to_time`.

        Returns:
            The neighbouring entries and the time differences, in the data's type.
        """
        return locate(self.index, features, times, np.dtype(self.outcome.dtype))

    def __repr__(self) -> str:
        return summarise(self.index, self.chains, self.outcome, self.weight)

    def disassembled(self) -> Assembled:
        """The checked observations that this data set was built of, on the host."""
        return disassemble(
            self.index,
            [np.asarray(chain.feature) for chain in self.chains],
            np.asarray(self.slots),
            np.asarray(self.coefficients),
            np.asarray(self.outcome),
            None if self.weight is None else np.asarray(self.weight),
        )

    @classmethod
    def from_assembled(
        cls,
        assembled: Assembled,
        dtype: DTypeLike | None = None,
        row_length: int | None = None,
        room: Room | None = None,
    ) -> "Dataset":
        """A data set of checked observations.

        Args:
            assembled: the observations.
            dtype: floating-point type.
            row_length: steps of the rows of the chains.
            room: shapes to fill, if there is to be room for more observations. Arrays by
                observation are then longer than there are observations; the rest must not
                count as active.
        """
        kind = _float_type(dtype)
        if room is not None:
            assembled = _with_room(assembled, room)
        index, chains, slots = encode(assembled.observations, kind, row_length, room)
        weight = assembled.weight
        return cls(
            outcome=jax.device_put(assembled.outcome.astype(kind, copy=False)),
            coefficients=jax.device_put(assembled.coefficients.astype(kind, copy=False)),
            weight=None if weight is None else jax.device_put(weight.astype(kind, copy=False)),
            slots=jax.device_put(slots),
            chains=chains,
            epoch=jax.device_put(Epoch.at(index.epoch, kind)),
            index=index,
        )


def _with_room(assembled: Assembled, room: Room) -> Assembled:
    """Observations without features at the end, up to the room that there is."""
    features = assembled.observations.features
    more = ((0, room.observations - len(features)), (0, room.slots - features.shape[1]))
    return Assembled(
        assembled.observations._replace(features=np.pad(features, more, constant_values=-1)),
        np.pad(assembled.coefficients, more),
        np.pad(assembled.outcome, more[0], constant_values=assembled.outcome[0]),
        None if assembled.weight is None else np.pad(assembled.weight, more[0]),
    )


def _float_type(dtype: DTypeLike | None) -> np.dtype:
    own = np.dtype(jnp.result_type(float))
    kind = own if dtype is None else np.dtype(dtype)
    if kind not in (np.float32, np.float64):
        raise ValueError(f"`dtype` is {kind}, but must be float32 or float64.")
    if kind == np.float64 and own != np.float64:
        raise ValueError(
            "`dtype` is float64, but JAX is set to 32 bits; switch on `jax_enable_x64`, or pass "
            "float32 (time differences are taken in float64 all the same)."
        )
    return kind
