"""The data set: checked observations, and the chains that the smoother reads."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, Mesh
from jax.typing import ArrayLike, DTypeLike

from jaxkick._typing import Array, Float, Int, Real
from jaxkick._xla import is_known
from jaxkick.chains.devices import put
from jaxkick.chains.layout import Chain
from jaxkick.data.columns import look_like_dates, show_time
from jaxkick.data.encoding import Entries, Index, Location, Room, encode
from jaxkick.data.events import Events, make_events
from jaxkick.data.observations import Observations, OutcomeDomain, join_observations
from jaxkick.data.reading import (
    Columns,
    Rules,
    library_of,
    library_of_columns,
    read_arrays,
    read_observations,
    read_table,
    tabulate_pairs,
)
from jaxkick.data.schema import NO_TABLE, Groups, Pair, Schema, SideColumns, read_mapping
from jaxkick.data.sides import Side
from jaxkick.data.tables import write_observations
from jaxkick.errors import DataError, OnInvalid
from jaxkick.kernels import Epoch

_ENABLE = "Call `jax.config.update('jax_enable_x64', True)`"
_FEW = 10
_SAMPLE = 100_000


class Dataset(eqx.Module):
    """Observations of sparse linear combinations of features, ready for inference.

    Made by `from_frame` (tables), `from_pairs` (names on two sides), `from_mappings` (names
    with coefficients) or `from_arrays` (feature numbers). Rows may come in any order, and
    observations keep it. A feature named twice in an observation has its coefficients added.

    Arguments that all of them take:
        outcome: a number for each observation, such as +1 if the first side won, -1 if the
            second side won and 0 for a tie. Or booleans (True if the first side won), words (win,
            draw and loss; W, D and L; H, D and A; 1-0, ½-½ and 0-1), or the names of the winners.
            `None` if the first side always won. A single number applies to all observations.
        weight: factors on the observations' log-likelihoods, at least zero; 1 if `None`.
        groups: the group of each feature; features of a group share a kernel. A mapping from
            feature names to group names, a function of a feature's name, or `None`. Features
            that a mapping does not contain, including covariates, belong to the group `"skill"`.
        unit: the unit of dates: `"year"` (the default), `"month"`, `"week"`, `"day"`, `"hour"`,
            `"minute"` or `"second"`. Lengthscales are in this unit. Numeric times are
            not converted, and `unit` only names their unit.
        dtype: floating-point type; JAX's default at the time of the call if `None`. Time
            differences are computed in float64 before they are cast.
        on_invalid: `"raise"` raises a `DataError` for rows that cannot be used; `"drop"` drops
            them with a `UserWarning` that gives counts and reasons.
        likelihood: if given, outcomes outside its domain are invalid.
        row_length: number of steps in a row of the chains; chosen from the data and the
            backend if `None`.

    Times are numbers or dates (NumPy's, Python's, a table's, or ISO texts); dates with a time
    zone are converted to UTC. Rows in errors count from 0.

    The arrays by observation are padded to one of a few sizes, so that data sets of similar
    sizes share compiled programs; see `observations` for the observations alone. Padding
    observations have no features and are masked out of inference.

    Attributes:
        outcome: outcome of each observation.
        coefficients: coefficients of the features in an observation's slots; 0 if empty.
        weight: weights, or `None`.
        slots: flat position of each slot's entry in the concatenation of the chains' raveled
            arrays; one past the end in an empty slot.
        chains: the entries of each group of features.
        epoch: the time that offsets count from.
        index: names, groups, times and features, on the host.
        events: the observations that likelihoods of several scores evaluate together; `None`
            if there are none.
    """

    outcome: Real[Array, " _"]
    coefficients: Float[Array, "N P"]
    weight: Float[Array, " _"] | None
    slots: Int[Array, "N P"]
    chains: tuple[Chain, ...]
    epoch: Epoch
    index: Index = eqx.field(static=True)
    events: Events | None = None

    @classmethod
    def from_frame(  # noqa: D417
        cls,
        frame: Any,
        *,
        time: str | float,
        first: SideColumns,
        second: SideColumns,
        outcome: str | float | None = None,
        outcomes: Mapping[Any, float | None] | str | None = None,
        result: Pair | None = None,
        difference: Pair | None = None,
        counts: Pair | None = None,
        home: str | bool | None = None,
        neutral: str | None = None,
        weight: str | float | None = None,
        covariates: Mapping[Hashable, str | float] | None = None,
        interactions: str | Sequence[str] | None = None,
        pairs: bool = False,
        tie_effects: bool = False,
        noise_effects: bool = False,
        aspects: Mapping[str, Any] | bool | None = None,
        groups: Groups = None,
        unit: str | None = None,
        dtype: DTypeLike | None = None,
        on_invalid: OnInvalid = "raise",
        likelihood: OutcomeDomain | None = None,
        row_length: int | None = None,
    ) -> "Dataset":
        """Read matches from a table.

        Pass at most one of `outcome`, `result`, `difference` and `counts`; without any of
        them the first side always won. The repr shows how the columns were read.

        Args:
            frame: a table of pandas, polars or pyarrow, or a mapping from names to columns.
            time: the column of times; a number if all matches are at one time.
            first: the column of the first side; see `from_pairs` for its values. For a line-up
                over several columns, which may have empty cells: a list of columns, or a mapping
                from columns of names to columns of fractions (or numbers).
            second: the same for the second side.
            outcome: the column of outcomes; see the class.
            outcomes: the meaning of the values in this column, such as `{1: 1, 0.5: 0, 0: -1}`
                or `{"model_a": 1, "tie": 0, "model_b": -1}`; `None` marks a missing outcome. If
                not given, words (`"words"`) and names of winners (`"winner"`) are recognised.
            result: two columns of points, read as win (+1), tie (0) or loss (-1) of the first
                side. Points are whole or half numbers of at least 0.
            difference: two columns of points of at least 0, read as the first side's minus the
                second's.
            counts: two columns of points, read as two observations of every match: the count
                of each side, from its attack and the other's defence, which are aspects of its
                skill, and from the feature `"level"` in its own group, which all counts share.
                With `aspects=False`, attack and defence are separate features,
                `Feature(name, "attack")` and `Feature(name, "defence")`, in the groups
                `"attack"` and `"defence"`.
            home: the side at home: `True` for the first side, or a column of +1 (first), -1
                (second) and 0 (neutral ground), or of names. Adds the
                feature `"home"` in the group `"home"`.
            neutral: the column that is true for matches on neutral ground. In other matches the
                first side is at home, unless `home` says otherwise.
            weight: the column of weights.
            covariates: further features by name, each with the column of its coefficients or
                one number for all matches. A coefficient of 0 leaves the feature out of that
                match. With `counts`, the second side's count has the opposite sign. A column of
                texts makes a feature of each label: `Feature("Wembley", "stadium")` in the group
                `"stadium"` for `covariates={"stadium": "ground"}`.
            interactions: a column of labels, such as the surface, or a list of columns. Each
                competitor has a further skill for each label: `Feature("Ada", "surface", "clay")`
                in the group `"surface"`.
            pairs: whether every pair of opponents has a further skill, so that A can beat B, B
                beat C, and C beat A (paper, section 4.2.3): `Feature("Ada", "pair", "Ben")` in
                the group `"pair"`, with sorted names.
            tie_effects: whether competitors differ in how often they tie, for
                `likelihoods.VaryingTies`. Each has a feature `Feature("Ada", "tie")` in the group
                `"tie"`. The margin of ties is multiplied by exp(g), where g is the sum of these
                features over both sides. Every match then has two observations: the score, and
                g with an outcome of 0.
            noise_effects: whether the scale of noise changes with time, for
                `likelihoods.VaryingNoise`: results become more predictable, or less. All matches
                share the feature g named `"noise"` in the group `"noise"`; noise is multiplied by
                exp(g). Every match then has two observations, as with `tie_effects`.
            aspects: further skills of competitors that share one state with the general skill,
                for `kernels.Aspects`, by name. `True` is an aspect of the side at home:
                `{"home": True}`. A column of labels has an aspect for each label:
                `{"surface": "surface"}`. A column of numbers has the coefficient of both sides;
                two columns or numbers have one for each side: `{"white": (1, 0)}`.
            groups: as for the class; a function is also called with the features that this
                method adds.

        See the class for the other arguments.

        Raises:
            DataError: if a column is unknown, or a row cannot be used and is not dropped.
        """
        schema = Schema.of(
            time=time,
            first=first,
            second=second,
            outcome=outcome,
            outcomes=outcomes,
            result=result,
            difference=difference,
            counts=counts,
            home=home,
            neutral=neutral,
            weight=weight,
            covariates=covariates,
            interactions=interactions,
            pairs=pairs,
            tie_effects=tie_effects,
            noise_effects=noise_effects,
            aspects=aspects,
        )
        rules = Rules(groups, unit, on_invalid, likelihood, schema, library_of(frame))
        return cls.from_observations(read_table(frame, rules), dtype, row_length)

    @classmethod
    def from_rankings(  # noqa: D417
        cls,
        table: Any,
        *,
        time: str | float,
        competitor: str | Sequence[str],
        event: str | None = None,
        rank: str | None = None,
        points: str | None = None,
        team: str | None = None,
        features: Mapping[Hashable, str | float] | None = None,
        aspects: Mapping[str, str] | None = None,
        dnf: Literal["last", "drop"] = "last",
        groups: Groups = None,
        unit: str | None = None,
        dtype: DTypeLike | None = None,
        on_invalid: OnInvalid = "raise",
        row_length: int | None = None,
    ) -> "Dataset":
        """Read races, tournaments and other events of two or more sides, for `Ranking`.

        The table has one row for each side of an event: `Dataset.from_rankings(table,
        time="date", event="race", competitor="driver", rank="position")`. Or it has one row for
        each event, with competitors from the first place to the last: `competitor=["gold",
        "silver", "bronze"]`.

        The outcome of a row is the place of its side: 1 for the best, equal for ties, 0 for a
        side without a place. A mask over observations has one boolean for each row; an event
        counts if all its rows do.

        Args:
            table: a table of pandas, polars or pyarrow, or a mapping from names to columns.
            time: the column of times; a number if all events are at one time.
            competitor: the column of competitors. A list of columns if each row is an event,
                whose cells may be empty at the end.
            event: the column of events, such as names of races.
            rank: the column of ranks: 1 is the best, and equal ranks are ties. A side without a
                number (nothing, or a word such as DNF) has no place.
            points: the column of points, instead of `rank`; more points are better.
            team: the column of teams. The rows of a team are one side, whose score is the sum
                of its members' scores.
            features: further features of a side by name, each with a column. A column of texts
                makes a feature of each label: `Feature("Ferrari", "car")` in the group `"car"`
                for `features={"car": "constructor"}`. A column of numbers is a covariate.
            aspects: further skills of competitors that share one state with the general skill,
                by name, as in `from_frame`: a column of labels has an aspect for each label, and
                a column of numbers the coefficients of each side.
            dnf: `"last"` ranks sides without a place below all others, in unknown order;
                `"drop"` leaves them out.

        See the class for the other arguments.

        Raises:
            DataError: if a column is unknown, or an event cannot be used and is not dropped,
                because a competitor is in it twice, it has only one side or several times, or
                ranks are missing.
        """
        schema = Schema.of_rankings(
            time=time,
            competitor=competitor,
            event=event,
            rank=rank,
            points=points,
            team=team,
            features=features,
            aspects=aspects,
            dnf=dnf,
        )
        rules = Rules(groups, unit, on_invalid, None, schema, library_of(table))
        return cls.from_observations(read_table(table, rules), dtype, row_length)

    @classmethod
    def from_pairs(  # noqa: D417
        cls,
        times: Any,
        first: Sequence[Side],
        second: Sequence[Side],
        outcome: Any = None,
        *,
        weight: Any = None,
        covariates: Mapping[Hashable, Any] | None = None,
        aspects: Mapping[str, Any] | None = None,
        groups: Groups = None,
        unit: str | None = None,
        dtype: DTypeLike | None = None,
        on_invalid: OnInvalid = "raise",
        likelihood: OutcomeDomain | None = None,
        row_length: int | None = None,
    ) -> "Dataset":
        """Read matches of two sides.

        Args:
            times: time of each match.
            first: for each match the name of the first side, a list or tuple of names (a team
                of equal parts) or a mapping from names to coefficients.
            second: the same for the second side; its coefficients get a minus sign. A name on
                both sides of a match is invalid.
            covariates: further features by name, each with its coefficients or one number
                for all matches; 0 leaves the feature out of that match.
            aspects: further skills of competitors that share one state with the general skill,
                by name, as in `from_frame`: a list of labels or numbers with one for each match,
                or a tuple with a list or a number for each side. `update` and `forecast` then
                read tables with the columns "time", "first", "second", "outcome" and "weight",
                and one for each covariate and aspect.

        See the class for the other arguments.
        """
        if aspects is not None:
            table, schema = tabulate_pairs(
                times, first, second, outcome, weight, covariates, aspects
            )
            rules = Rules(groups, unit, on_invalid, likelihood, schema)
            return cls.from_observations(read_table(table, rules), dtype, row_length)
        sides = {"first": (first, 1.0), "second": (second, -1.0)}
        columns = Columns(times, sides, read_mapping("covariates", covariates), outcome, weight)
        library = library_of_columns(times, first, second, outcome)
        rules = Rules(groups, unit, on_invalid, likelihood, library=library)
        return cls.from_observations(read_observations(columns, rules), dtype, row_length)

    @classmethod
    def from_mappings(  # noqa: D417
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
        """Read observations of any linear combination of named features.

        Args:
            times: time of each observation.
            observations: for each observation a mapping from names to coefficients; a name or
                a list of names has coefficients of 1.

        See the class for the other arguments.
        """
        columns = Columns(times, {"observations": (observations, 1.0)}, {}, outcome, weight)
        library = library_of_columns(times, observations, outcome)
        rules = Rules(groups, unit, on_invalid, likelihood, library=library)
        return cls.from_observations(read_observations(columns, rules), dtype, row_length)

    @classmethod
    def from_arrays(  # noqa: D417
        cls,
        times: Any,
        features: ArrayLike,
        coefficients: ArrayLike,
        outcome: Any,
        weight: Any = None,
        names: Sequence[Hashable] | None = None,
        groups: Groups = None,
        *,
        events: ArrayLike | None = None,
        aspects: Mapping[str, ArrayLike] | None = None,
        unit: str | None = None,
        dtype: DTypeLike | None = None,
        on_invalid: OnInvalid = "raise",
        likelihood: OutcomeDomain | None = None,
        row_length: int | None = None,
    ) -> "Dataset":
        """Read observations of any linear combination of numbered features.

        Args:
            times: time of each observation.
            features: integers [N, P] that count the features from 0; -1 in an empty slot.
            coefficients: numbers [N, P]; ignored in an empty slot.
            names: name of each feature; its number if `None`. May name features that are part
                of no observation.
            events: integers [N], for likelihoods of several scores: rows with the same number
                are the scores of one event, and their outcomes its outcome.
            aspects: for each aspect of the features its coefficients [N, P], for
                `kernels.Aspects`. The score in a slot is the sum of the feature's general skill
                and of its aspects times these numbers. A feature in several slots of an
                observation has the sum of their scores.

        See the class for the other arguments.
        """
        library = library_of_columns(times, outcome)
        rules = Rules(groups, unit, on_invalid, likelihood, library=library)
        observations = read_arrays(
            times, features, coefficients, outcome, weight, names, events, rules, aspects
        )
        return cls.from_observations(observations, dtype, row_length)

    @classmethod
    def from_observations(
        cls,
        observations: Observations,
        dtype: DTypeLike | None = None,
        row_length: int | None = None,
        like: "Dataset | None" = None,
    ) -> "Dataset":
        """Encode checked observations, in the shapes of the data set `like` if they fit."""
        kind = _float_type(dtype)
        count, width = observations.features.shape
        room = None
        if like is not None:
            width = max(width, like.slots.shape[1])
            observations = replace(observations, **observations.block.widen(width)._asdict())
            room = Room(len(like.slots), {chain.group: chain for chain in like.chains}, len(like))
        index, chains, slots = encode(observations, kind, row_length, room)
        size, growth, events = len(slots), 1.0, None
        if like is not None and room is not None:
            growth = room.growth(count)
            if size == room.observations and index.shapes == like.index.shapes:
                events = like.events
        outcome, weight = observations.outcome, observations.weight
        coefficients = _padded(observations.coefficients, (size, width), kind)
        return cls(
            # Padding outcomes are valid ones, so that no likelihood makes NaN of them.
            outcome=jax.device_put(_padded(outcome, (size,), kind, outcome[0])),
            coefficients=jax.device_put(coefficients),
            weight=None if weight is None else jax.device_put(_padded(weight, (size,), kind)),
            slots=jax.device_put(slots),
            chains=chains,
            epoch=jax.device_put(Epoch.at(index.epoch, kind)),
            index=index,
            events=make_events(observations, size, events, growth),
        )

    @property
    def observations(self) -> Observations:
        """The checked observations without padding, on the host.

        Coefficients, outcomes and weights are read from the arrays of the data set, even if these
        have been replaced.
        """
        count = len(self)
        return Observations(
            **self.index.record(),
            coefficients=np.asarray(self.coefficients)[:count],
            outcome=np.asarray(self.outcome)[:count],
            weight=None if self.weight is None else np.asarray(self.weight)[:count],
        )

    def event_outcomes(self) -> np.ndarray:
        """The outcomes [E, S] of the sides of every event, on the host; -1 for absent sides."""
        outcome, events = np.asarray(self.outcome)[: len(self)], self.index.event_numbers
        _, number, sizes = np.unique(events, return_inverse=True, return_counts=True)
        order = np.argsort(number, kind="stable")
        side = np.arange(len(self)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        found = np.full((len(sizes), sizes.max()), -1.0)
        found[number[order], side] = outcome[order]
        return found

    @property
    def first_rows(self) -> np.ndarray:
        """The number of the first observation of every event."""
        return np.unique(self.index.event_numbers, return_index=True)[1]

    def __len__(self) -> int:
        """The number of observations, without padding."""
        return len(self.index.times)

    def subset(self, chosen: Any) -> "Dataset":
        """Choose observations. All names stay, so that feature numbers do not change.

        The sides of an event belong together: choose all of them or none. The two counts of a
        match may be chosen separately, because most likelihoods treat them separately.

        Args:
            chosen: a boolean mask over the observations, a slice, or an array of their numbers.

        Raises:
            DataError: if no observation is chosen, a number is out of range, or only a part of an
                event is chosen.
        """
        if not isinstance(chosen, slice):
            chosen = np.asarray(chosen)
            count, kind = len(self), chosen.dtype.kind if chosen.size else "i"
            right = chosen.ndim == 1 and kind in "biu" and (kind != "b" or len(chosen) == count)
            if not right or (kind in "iu" and np.any((chosen < -count) | (chosen >= count))):
                raise DataError(
                    f"{{argument}} must be a mask of {count:,} booleans, a slice, or numbers of "
                    f"observations from 0 to {count - 1:,}",
                    argument="chosen",
                )
            chosen = chosen.astype(bool if kind == "b" else np.int64)
        observations = self.observations.take(chosen)
        if not len(observations.times):
            raise DataError("No observation is chosen", argument="chosen")
        self._refuse_cut_events(observations)
        return self._rebuilt(observations)

    def _refuse_cut_events(self, chosen: Observations) -> None:
        whole = self.index.events
        if whole is None or chosen.events is None:
            return
        sizes = np.bincount(chosen.events, minlength=whole.max() + 1)
        cut = sizes[chosen.events] != np.bincount(whole)[chosen.events]
        schemas = chosen.kind_schemas or (chosen.schema,)
        counts = np.array([(schema or NO_TABLE).counts is not None for schema in schemas])
        cut &= ~counts[chosen.kind_numbers]
        if cut.any():
            raise DataError(
                "{argument} has only a part of the event of this row",
                "Choose all rows of an event, or read the table without the side.",
                argument="chosen",
                row=int(chosen.row_numbers[np.argmax(cut)]),
                count=int(cut.sum()),
            )

    def of_kind(self, kind: str) -> "Dataset":
        """Choose the observations of one kind; all names stay, so that numbers do not change.

        Args:
            kind: a kind that `concat({kind: data, ...})` gave them.

        Raises:
            DataError: if there is no such kind.
        """
        return self._rebuilt(self.observations.of_kind(kind))

    def extended(self, matches: Observations) -> "Dataset":
        """Append observations; the shapes stay the same if everything fits."""
        return self._rebuilt(join_observations([self.observations, matches]), like=self)

    def to_slots(self, parts: Sequence[ArrayLike]) -> np.ndarray:
        """Arrange values of entries, given chain by chain, by observation and slot [N, P].

        Empty slots are 0. Observation and slot identify an entry in any layout of the chains, so
        that this and `to_chains` convert from one layout to another.
        """
        flat = np.concatenate([np.asarray(part).ravel() for part in parts])
        slots = np.asarray(self.slots)[: len(self)]
        return np.append(flat, np.zeros(1, flat.dtype))[np.minimum(slots, len(flat))]

    def to_chains(self, values: np.ndarray) -> tuple[Array, ...]:
        """Arrange values by observation and slot in the layout of the chains; padding is 0.

        Args:
            values: an array [n, p] for the first n observations and p slots.
        """
        sizes = [steps * rows for steps, rows in self.index.shapes]
        flat = np.zeros(sum(sizes) + 1, values.dtype)
        flat[np.asarray(self.slots)[: len(values), : values.shape[1]]] = values
        # Empty slots have been written to the last place.
        parts = np.split(flat[:-1], np.cumsum(sizes)[:-1])
        arrays = [part.reshape(shape) for part, shape in zip(parts, self.index.shapes, strict=True)]
        if self.mesh is None:
            return tuple(map(jax.device_put, arrays))
        return tuple(put(array, self.mesh, 1) for array in arrays)

    def to_frame(self, library: str | None = None) -> Any:
        """Write the observations as a table.

        For data from `from_frame` and `from_rankings`, the table has the original columns, and
        the same arguments read the same data from it. Points have the same result or difference
        as the original ones, or the same order in rankings; line-ups with fractions are mappings.
        Events are numbers if two of them have the same name, as in joined data. For other data,
        the table has one row for each observation and feature.

        Args:
            library: `"pandas"`, `"polars"` or `"pyarrow"`. If `None`, the library of the original
                table; a mapping from names to arrays if there was none.
        """
        return write_observations(self.observations, library or self.index.library)

    def without_index(self) -> "Dataset":
        """Drop names and times, and keep the arrays only.

        Data sets of the same shape can then be stacked and passed through `vmap`. Inference and
        the log marginal likelihood work without names; scores by name and predictions do not.
        """
        return replace(self, index=None)

    def shard(self, mesh: Mesh) -> "Dataset":
        """Distribute the data over devices: cores of a CPU, or GPUs, on one host or several.

        Everything computed from it (`infer`, `learn`, predictions) then runs on all devices,
        with the same results up to rounding. To use two cores of a CPU, call
        `jax.config.update("jax_num_cpu_devices", 2)` before any other use of JAX.
        Under `jax.distributed` every process passes the same data and the same mesh.

        Args:
            mesh: the devices, such as `jax.make_mesh((jax.device_count(),), ("rows",))`.
        """
        if not isinstance(mesh, Mesh):
            raise TypeError(
                f"`mesh` must be a `jax.sharding.Mesh`, not {type(mesh).__name__}; make one with "
                '`jax.make_mesh((jax.device_count(),), ("rows",))`.'
            )
        # The compiler chooses how to distribute what is computed.
        automatic = (AxisType.Auto,) * len(mesh.axis_names)
        mesh = Mesh(mesh.devices, mesh.axis_names, axis_types=automatic)
        chains = tuple(_shard_chain(chain, mesh, self.slots.size) for chain in self.chains)
        axis = 0 if len(self.outcome) % mesh.size == 0 else None
        place = lambda leaf, axis: jax.tree.map(lambda array: put(array, mesh, axis), leaf)  # noqa: E731
        index = self.index
        return Dataset(
            outcome=place(self.outcome, axis),
            coefficients=place(self.coefficients, axis),
            weight=place(self.weight, axis),
            slots=place(_moved_slots(self, chains), axis),
            chains=chains,
            epoch=place(self.epoch, None),
            index=index and replace(index, shapes=tuple(chain.gap.shape for chain in chains)),
            events=self.events and self.events.shard(mesh),
        )

    @property
    def mesh(self) -> Mesh | None:
        """The devices over which the data is distributed; `None` if it is not."""
        return self.chains[0].mesh

    @property
    def schema(self) -> Schema | None:
        """The meaning of the original table; `None` if there was none."""
        return self.index.schema

    @property
    def names(self) -> tuple[Hashable, ...]:
        """The names of the features; feature numbers count along them."""
        return self.index.names

    @property
    def num_features(self) -> int:
        """The number of features."""
        return len(self.index.names)

    def feature_id(self, name: Hashable) -> int:
        """The number of a feature; -1 if it is unknown."""
        return int(self.index.feature_ids([name])[0])

    def entries(self, name: Hashable) -> Entries:
        """Positions, times and observations of a feature's entries, in the order of time."""
        return self.index.entries(name)

    def locate(self, features: ArrayLike, times: ArrayLike) -> Location:
        """Find times among the entries of features, for prediction.

        Args:
            features: feature numbers; -1 for an unknown feature.
            times: float64 times in the data's unit, as from `index.to_time`.

        Returns:
            The neighbouring entries and the time differences, in the data's type.
        """
        return self.index.locate(features, times, np.dtype(self.outcome.dtype))

    def __repr__(self) -> str:
        index = self.index
        if index is None:
            return f"Dataset of {self.outcome.shape} observations without index"
        schema = index.meaning
        sizes = _plural(len(self), "observation")
        if schema.is_ranking:
            sizes += f" in {_plural(len(np.unique(np.asarray(index.events))), 'event')}"
        sizes += f" and {_plural(len(index.names), 'feature')}"
        outcome, count = self.outcome, len(self)
        if schema.has_second_score and is_known(outcome):
            outcome, count = np.asarray(outcome)[self.first_rows], len(self.first_rows)
        lines = [
            f"Dataset of {sizes}",
            *([] if index.schema is None else [f"  read     {schema.describe()}"]),
            *(f"  kind     {_describe_kind(index, k)}" for k in range(len(index.kind_names))),
            f"  time     {_describe_times(index)}",
            *(f"  group    {_describe_group(index, k)}" for k in range(len(self.chains))),
            f"  outcome  {_describe_values(outcome, count, signed=True)}",
        ]
        if index.aspect_names:
            lines.append(f"  aspects  {', '.join(map(repr, index.aspect_names))}")
        if self.weight is not None:
            lines.append(f"  weight   {_describe_values(self.weight, len(self), signed=False)}")
        return "\n".join(lines)

    def _rebuilt(self, observations: Observations, like: "Dataset | None" = None) -> "Dataset":
        """Other observations with this data's type, row length and devices."""
        check_bits(self)
        data = Dataset.from_observations(
            observations, self.outcome.dtype, self.index.row_length, like
        )
        return data if self.mesh is None else data.shard(self.mesh)


def concat(parts: Sequence[Dataset] | Mapping[str, Dataset]) -> Dataset:
    """Join data sets, one after the other.

    The result has the type, the schema and the groups of the first data set; mappings of groups
    are merged. It also has the shapes of the first if all observations fit, so that compiled
    programs can be reused.

    Args:
        parts: the data sets, whose times have the same kind and unit. A mapping gives their
            observations a kind: `concat({"duels": duels, "races": races})`, for a model with a
            likelihood for each kind.

    Raises:
        DataError: if the list is empty, times differ in kind or unit, points were read in
            different ways, only some parts have kinds, or a part of a mapping has kinds already.
    """
    kinds = list(parts) if isinstance(parts, Mapping) else []
    parts = list(parts.values()) if isinstance(parts, Mapping) else parts
    parts = [parts] if isinstance(parts, Dataset) else list(parts)
    if not parts or not all(isinstance(part, Dataset) for part in parts):
        raise DataError("{argument} must be a list of data sets", argument="parts")
    observations = [part.observations for part in parts]
    if kinds:
        for kind, part in zip(kinds, observations, strict=True):
            if part.kind_names:
                known = ", ".join(map(repr, part.kind_names))
                raise DataError(
                    f"{{argument}}[{kind!r}] already has the kinds {known}",
                    "Join data sets with kinds in a list: `jk.concat([first, second])`.",
                    argument="parts",
                )
        # Different kinds may have different columns.
        observations = [
            replace(part, schema=None, kinds=None, kind_names=(kind,), kind_schemas=(part.schema,))
            for part, kind in zip(observations, kinds, strict=True)
        ]
    return parts[0]._rebuilt(join_observations(observations), like=None if kinds else parts[0])


def read_alike(matches: Any, rules: Rules) -> Observations:
    """Read more matches: a table with the same columns as the first, or a data set."""
    return matches.observations if isinstance(matches, Dataset) else read_table(matches, rules)


def _float_type(dtype: DTypeLike | None) -> np.dtype:
    own = np.dtype(jnp.result_type(float))
    kind = own if dtype is None else np.dtype(dtype)
    if kind not in (np.float32, np.float64):
        raise DataError(f"{{argument}} is {kind}, but must be float32 or float64", argument="dtype")
    if kind == np.float64 and own != np.float64:
        raise DataError(
            "{argument} is float64, but JAX is set to 32 bits",
            f"{_ENABLE}, or pass float32 (time differences are computed in float64 in any case).",
            argument="dtype",
        )
    return kind


def check_bits(data: Dataset) -> None:
    """Refuse data of 64 bits while JAX is set to 32 bits."""
    if data.outcome.dtype == np.float64 and jnp.result_type(float) != np.float64:
        raise DataError(
            "{argument} holds float64 numbers, but JAX is set to 32 bits now",
            f"{_ENABLE}, or make the data again.",
            argument="data",
        )


def _padded(
    array: np.ndarray, shape: tuple[int, ...], dtype: DTypeLike, padding: float = 0
) -> np.ndarray:
    """A larger array of another type."""
    padded = np.full(shape, padding, dtype)
    padded[tuple(map(slice, array.shape))] = array
    return padded


def _shard_chain(chain: Chain, mesh: Mesh, no_source: int) -> Chain:
    """Distribute the rows of a chain; add empty ones so that all devices have the same number."""
    steps, rows = chain.gap.shape
    missing = -rows % mesh.size
    paddings = {"first": True, "source": no_source, "offset": np.min(chain.offset)}

    def extend(array: Array, padding: float = 0) -> Array:
        empty = np.full((steps, missing), padding, array.dtype)
        return put(np.concatenate([np.asarray(array), empty], axis=1), mesh, 1)

    names = ("gap", "offset", "age", "first", "source", "feature")
    arrays = {name: extend(getattr(chain, name), paddings.get(name, 0)) for name in names}
    return replace(chain, **arrays, aspects=jax.tree.map(extend, chain.aspects), mesh=mesh)


def _moved_slots(data: Dataset, chains: tuple[Chain, ...]) -> np.ndarray:
    """The positions of slots in chains that have more rows."""
    base, positions = 0, []
    for old, new in zip(data.chains, chains, strict=True):
        own = base + np.arange(new.gap.size, dtype=np.int32).reshape(new.gap.shape)
        positions.append(own[:, : old.gap.shape[1]].ravel())
        base += new.gap.size
    # The position of an empty slot is one past the end.
    return np.append(np.concatenate(positions), np.int32(base))[np.asarray(data.slots)]


def _describe_times(index: Index) -> str:
    span = np.array([index.times.min(), index.times.max()])
    unit = f", in {index.unit}s" if index.unit else ""
    if not index.scale.dates:
        likely = ", numbers that look like dates" if look_like_dates(index.times) else ""
        return f"{span[0]:.10g} to {span[1]:.10g}{unit}{likely}"
    first, last = map(show_time, index.scale.to_user(span))
    return f"{first} to {last}{unit}"


def _describe_group(index: Index, number: int) -> str:
    counts = index.counts[(index.feature_group == number) & (index.counts > 0)]
    steps, rows = index.shapes[number]
    entries, once = int(counts.sum()), int((counts == 1).sum())
    padding = 100.0 * (1.0 - entries / (steps * rows))
    return (
        f"{index.groups[number]!r}: {_plural(len(counts), 'feature')} ({once:,} seen once), "
        f"{_plural(entries, 'entry', 'entries')} in {_plural(rows, 'row')} of "
        f"{_plural(steps, 'step')} ({padding:.1f} % padding)"
    )


def _describe_kind(index: Index, number: int) -> str:
    schema, count = index.kind_schemas[number], int(np.sum(index.kinds == number))
    read = "" if schema is None else f": {schema.describe()}"
    return f"{index.kind_names[number]!r}: {_plural(count, 'observation')}{read}"


def _describe_values(values: object, count: int, signed: bool) -> str:
    """The distinct values and their counts, or their range if they are many."""
    if not isinstance(values, (np.ndarray, jax.Array)) or not is_known(values):
        return "not known here"
    known = np.asarray(values)[:count]
    # A sample is enough to find that there are many distinct values.
    if known.size and len(np.unique(known[:_SAMPLE])) <= _FEW:
        distinct, counts = np.unique(known, return_counts=True)
        if len(distinct) <= _FEW:
            results = distinct[0] < 0 or distinct[-1] == 1
            sign = "+" if signed and results else ""
            shown = [f"{value:{sign}g}" if value else "0" for value in distinct]
            pairs = list(zip(shown, counts, strict=True))[::-1]
            return ", ".join(f"{value} ({number:,})" for value, number in pairs)
    return f"{known.min():.6g} to {known.max():.6g}, mean {known.mean(dtype=np.float64):.6g}"


def _plural(number: int, word: str, words: str | None = None) -> str:
    return f"{number:,} {word if number == 1 else words or word + 's'}"
