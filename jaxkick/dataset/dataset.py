"""The data set: observations in the user's order, and the chains that the smoother reads."""

from collections.abc import Callable, Hashable
from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jax.typing import ArrayLike, DTypeLike

from jaxkick._typing import Array, Float, Int
from jaxkick.dataset.assembly import Assembled
from jaxkick.dataset.constructors import AbstractConstructors
from jaxkick.dataset.encoding import encode
from jaxkick.dataset.growth import disassemble
from jaxkick.dataset.index import Entries, Index
from jaxkick.dataset.location import Location, locate
from jaxkick.dataset.room import Room
from jaxkick.dataset.sharding import shard_dataset
from jaxkick.dataset.shares import gather_shares
from jaxkick.dataset.summary import summarise
from jaxkick.kernels.time import Epoch
from jaxkick.statespace.chain import Chain

__all__ = ["Dataset"]


class Dataset(AbstractConstructors, eqx.Module):
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
        Under `jax.distributed` every process gives the same data and the same mesh; see
        `from_shares` for processes that each read rows of their own.

        Args:
            mesh: the devices, such as `jax.make_mesh((jax.device_count(),), ("rows",))`.

        Returns:
            The data with its rows, and where their number allows it its observations, shared
            out evenly.
        """
        return shard_dataset(self, mesh)

    @classmethod
    def from_shares(cls, read: Callable[[], "Dataset | None"], mesh: Mesh) -> "Dataset":
        """The data of all processes under `jax.distributed`, each of which reads its own rows.

        Every process calls this with the same mesh. Each reads, checks and names its share
        only; the shares are then exchanged as numbers, and joined. All get the same data, with
        all names: that which one process would have made of the shares' rows, process after
        process, and then shared out with `shard`. Shares may differ in size, in features and
        slots, and some may lack weights.

        If `read` raises in one process, or the shares do not fit together, all processes raise
        the same error, and none waits for the others.

        Args:
            read: returns the data set of this process's rows, made with any constructor, or
                `None` if there are none, as in
                `lambda: Dataset.from_frame(pandas.read_parquet(part), ...)`.
            mesh: the devices of all processes,
                `jax.make_mesh((jax.device_count(),), ("rows",))`.

        Returns:
            The data of all processes, shared out to the devices. Rows of tables are counted
            from share to share; how tables are read, in `posterior.update`, is as in the first
            share.

        Raises:
            ValueError: in every process, if a share cannot be read, or shares differ in the
                kind of times, `unit`, `dtype`, `row_length`, mesh or group of a feature.
        """
        return cls.from_assembled(*gather_shares(read, mesh)).shard(mesh)

    @property
    def mesh(self) -> Mesh | None:
        """The devices that the data is shared out to, if it is."""
        return self.chains[0].mesh

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
