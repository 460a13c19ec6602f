"""A model and its data, as inference methods evaluate them.

Marginals live in chain layout, likelihoods in observation layout. Every entry belongs to
one observation and one slot of it, so both ways are gathers and never a scatter.
"""

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh
from jaxtyping import ArrayLike

from jaxkick._typing import Array, Bool, Float, Int, Real, Scalar
from jaxkick._xla import compute_once, jit_once
from jaxkick.chains.devices import all_entries, gathered_positions, on_every_device, shared_out
from jaxkick.chains.layout import Chain
from jaxkick.chains.smoother import Smoothed, smooth_chain
from jaxkick.chains.step import Site, StepModel
from jaxkick.data.dataset import Dataset
from jaxkick.data.events import EventBlock, Events
from jaxkick.data.schema import GENERAL
from jaxkick.inference.shared import SharedEffects, find_shared
from jaxkick.kernels import Instant
from jaxkick.likelihoods import AbstractLikelihood, Derivatives
from jaxkick.likelihoods.likelihood import map_observations
from jaxkick.model import Model
from jaxkick.parameters import resolve

__all__ = [
    "Problem",
    "ScoreMoments",
    "Sites",
    "add_sites",
    "cavities_of",
    "entry_means",
    "make_problem",
    "no_sites",
    "restart_ages",
    "sum_over",
]

Sites = tuple[Site, ...]
"""The pseudo-observation of every entry, chain by chain."""

# The place of an absent side.
_ABSENT = -1.0
# A likelihood of relative scores has at most as much information about one of them as a
# measurement with this noise variance.
_LEAST_NOISE = 0.5

Evaluate = Callable[..., Derivatives]
Output = TypeVar("Output")


class ScoreMoments(NamedTuple):
    """Mean and variance, of entries or of whole observations."""

    mean: Float[Array, "..."]
    variance: Float[Array, "..."]


class Problem(eqx.Module):
    """A model with known parameters, and the data to explain.

    Attributes:
        steps: the kernel of every chain.
        likelihoods: the likelihood of every kind of observation.
        chains: the entries of every group of features.
        outcome: the outcome of every observation.
        weight: the weight of every observation; `None` where all are one.
        mask: which observations count; the others, such as padding, have sites of zero.
        slots: the position of every slot's entry, slot by slot: sums over slots are then sums
            of whole arrays.
        coefficients: the coefficient of every slot, slot by slot.
        entry_coefficients: the coefficient of every entry, in chain layout.
        entry_observations: the observation of every entry, in chain layout.
        offset: the prior mean of every observation's score; `None` where it is zero.
        events: observations that are evaluated together; `None` where there are none, or the
            likelihood evaluates each by itself.
        shared: features that many observations have in common; `None` where there are none.

    An observation here is a row of the data: one score f. Likelihoods of several scores evaluate
    the rows of an event together. On a mesh observations are padded with masked ones, so that
    every device has as many.
    """

    steps: tuple[StepModel, ...]
    likelihoods: dict[str, AbstractLikelihood]
    chains: tuple[Chain, ...]
    outcome: Real[Array, " N"]
    weight: Float[Array, " N"] | None
    mask: Bool[Array, " N"]
    slots: Int[Array, "P N"]
    coefficients: Float[Array, "P N"]
    entry_coefficients: tuple[Float[Array, "_ _"], ...]
    entry_observations: tuple[Int[Array, "_ _"], ...]
    offset: Float[Array, " N"] | None
    events: Events | None
    shared: SharedEffects | None

    @property
    def mesh(self) -> Mesh | None:
        """The devices that rows and observations are shared out to; `None` for one device."""
        return self.chains[0].mesh

    def smooth(self, sites: Sites, keep_states: bool = False) -> tuple[Smoothed, ...]:
        """The cavities of every entry, chain by chain, and states for interpolation if asked."""
        chains = zip(self.steps, self.chains, sites, strict=True)
        return tuple(smooth_chain(*chain, keep_states) for chain in chains)

    def find_cavities(self, sites: Sites) -> tuple[Smoothed, ...]:
        """The cavities of every entry: as `smooth`, but without gains for shared effects."""
        chains = zip(self.steps, self.chains, sites, strict=True)
        return tuple(
            smooth_chain(*chain)
            if self.shared is None or self.shared.place[number] is None
            else self.shared.smooth(number, *chain)
            for number, chain in enumerate(chains)
        )

    @property
    def others(self) -> "Problem":
        """The same without shared effects, to combine and distribute only."""
        if self.shared is None:
            return self
        keep = [number for number, place in enumerate(self.shared.place) if place is None]
        names = ("steps", "chains", "entry_coefficients", "entry_observations")
        parts = {name: tuple(getattr(self, name)[number] for number in keep) for name in names}
        slots, coefficients = self.shared.slots, self.shared.coefficients
        return replace(self, **parts, slots=slots, coefficients=coefficients, shared=None)

    def masked_sites(self, sites: Sites) -> Sites:
        """`sites` with zeros for the observations that do not count."""

        def mask(chain: int, site: Site) -> Site:
            counts = self.at_entries(self.mask, chain) & (self.entry_coefficients[chain] != 0)
            return Site(*(jnp.where(counts, part, 0.0) for part in site))

        return tuple(mask(chain, site) for chain, site in enumerate(sites))

    def to_observations(self, entries: tuple[ScoreMoments, ...]) -> ScoreMoments:
        """Mean and variance of every observation's score, from those of its entries.

        Entries are those of processes with mean zero; the prior mean is added here.
        """
        means, variances = zip(*entries, strict=True)
        mean = self.combine(means)
        flat = all_entries(variances, self.mesh)
        # Not x² times it: XLA would keep the squares for the next step.
        terms = (
            x * (x * jnp.take(flat, slots, mode="clip"))
            for slots, x in zip(self.slots, self.coefficients, strict=True)
        )
        offset = 0.0 if self.offset is None else self.offset
        return ScoreMoments(mean + offset, functools.reduce(jnp.add, terms))

    def observe(self, function: Evaluate, score: ScoreMoments) -> Derivatives:
        """Evaluate a function of every observation's score; zero where it is masked out.

        Args:
            function: from a likelihood, outcomes, means and variances of scores, and weights to
                a value and derivatives.
            score: the moments of every observation's score.

        Returns:
            The derivatives by observation. The value of an event is that of its first row.
        """

        def compute(score: ScoreMoments) -> Derivatives:
            if self.events is None:
                (likelihood,) = self.likelihoods.values()
                found = function(likelihood, self.outcome, *score, self.weight)
                parts = [_spread(part, score.mean) for part in found]
            else:
                found = [self._observe_block(function, b, score) for b in self.events.blocks]
                parts = [self.events.to_rows(list(part)) for part in zip(*found, strict=True)]
            return Derivatives(*map(self.masked, parts))

        return self._once(compute, score)

    def _once(self, function: Callable[[Any], Output], operand: Any) -> Output:
        """Compute a function, and the operand before, once for all consumers of the result."""
        # The first entry of a chain always opens a feature.
        true = self.chains[0].first[0, 0]
        return compute_once(function, operand, true, on_mesh=self.mesh is not None)

    def _observe_block(
        self, function: Evaluate, block: EventBlock, score: ScoreMoments
    ) -> Derivatives:
        """Evaluate the events of a block; by event and side."""
        likelihood = self.likelihood_of(block.kind)
        outcome, mean, variance = (block.gather(part) for part in (self.outcome, *score))
        weight = None if self.weight is None else block.gather(self.weight)
        if likelihood.num_predictors == 1:
            likelihood = map_observations(likelihood, block.gather)
            found = function(likelihood, outcome, mean, variance, weight)
            return Derivatives(*(_spread(part, mean) for part in found))
        outcome = jnp.where(block.present, outcome, _ABSENT)
        # Rankings have no weights, and an event of two scores has one.
        ranking = likelihood.num_predictors is None
        weight = None if weight is None or ranking else weight[:, 0]
        if ranking:
            # Events without sides take no time.
            outcome = jnp.where(block.repeated[:, None], _ABSENT, outcome)
        value, first, second = function(likelihood, outcome, mean, variance, weight)
        return Derivatives(jnp.zeros_like(mean).at[:, 0].set(value), first, second)

    def likelihood_of(self, kind: str) -> AbstractLikelihood:
        """The likelihood of a kind of observation."""
        return self.likelihoods[kind if kind in self.likelihoods else ""]

    @property
    def _relative(self) -> list[bool]:
        """True if only differences of scores matter, for every block of events."""
        blocks = () if self.events is None else self.events.blocks
        return [self.likelihood_of(block.kind).is_relative for block in blocks]

    @property
    def is_relative(self) -> bool:
        """True if only differences of scores matter in all events."""
        return self.events is not None and all(self._relative)

    @property
    def relative_rows(self) -> Bool[Array, " N"] | None:
        """The rows for whose events only differences of scores matter; `None` if there are none."""
        if self.events is None or not any(self._relative):
            return None
        blocks = zip(self.events.blocks, self._relative, strict=True)
        return self.events.spread([jnp.full(len(b.members), each) for b, each in blocks])

    def curvature(
        self, second: Float[Array, " N"], variance: Float[Array, " N"]
    ) -> Float[Array, " N"]:
        """The precision of a Gaussian factor on every score, in place of the likelihood.

        Args:
            second: second derivative of the log partition function.
            variance: cavity variance of the score.

        Returns:
            The precisions. Where only differences of an event's scores matter, its factor has
            the precision matrix E − E11ᵀE / 1ᵀE1, and this is the diagonal of E. For two scores
            the factor is exact; for more, its diagonal is nearly that of the likelihood.
        """
        alone = -second / (1.0 + second * variance)
        relative = self.relative_rows
        if relative is None:
            return alone
        share = jnp.clip(-second / _nonzero(self._sum_over_events(-second)), 0.0, 0.5)
        precision = jnp.minimum(-second / (1.0 - share), 1.0 / (variance + _LEAST_NOISE))
        return jnp.where(relative, precision / (1.0 - precision * variance), alone)

    def curve(
        self, curvature: Float[Array, " N"], scores: Float[Array, " N"]
    ) -> Float[Array, " N"]:
        """W times a vector of scores, with W the precisions of `curvature`."""
        product = curvature * scores
        if not any(self._relative):
            return product
        level = self._sum_over_events(product) / _nonzero(self._sum_over_events(curvature))
        return product - curvature * jnp.where(self.relative_rows, level, 0.0)

    def _sum_over_events(self, values: Float[Array, " N"]) -> Float[Array, " N"]:
        """The sum over the rows of every row's event."""
        return self.events.spread([block.sum(values) for block in self.events.blocks])

    def combine(self, entries: tuple[Float[Array, "_ _"], ...]) -> Float[Array, " N"]:
        """X times a vector of entries: the sum over every observation's slots."""
        flat = all_entries(entries, self.mesh)
        # An empty slot reads any entry, and has coefficient zero.
        terms = (
            x * jnp.take(flat, slots, mode="clip")
            for slots, x in zip(self.slots, self.coefficients, strict=True)
        )
        return functools.reduce(jnp.add, terms)

    def distribute(self, observations: Float[Array, " N"]) -> tuple[Float[Array, "_ _"], ...]:
        """Xᵀ times a vector of observations: its value at every entry times the coefficient."""
        # Otherwise XLA computes the vector once for each entry, with all gathers that it needs.
        observations = self._once(lambda values: values, observations)
        return tuple(
            x * self.at_entries(observations, chain)
            for chain, x in enumerate(self.entry_coefficients)
        )

    def at_entries(self, observations: Real[Array, " N"] | Bool[Array, " N"], chain: int) -> Array:
        """The value of every entry's observation, for one chain."""
        return jnp.take(observations, self.entry_observations[chain], mode="clip")

    def masked(self, values: Float[Array, " N"]) -> Float[Array, " N"]:
        """`values` with zeros for the observations that do not count."""
        return jnp.where(self.mask, values, 0.0)


def _nonzero(values: Float[Array, "..."]) -> Float[Array, "..."]:
    return jnp.where(values == 0, 1.0, values)


def _spread(part: ArrayLike, like: Float[Array, "..."]) -> Float[Array, "..."]:
    """A user's own likelihood may return one number for all observations."""
    return jnp.broadcast_to(jnp.asarray(part, like.dtype), like.shape)


def cavities_of(smoothed: tuple[Smoothed, ...]) -> tuple[ScoreMoments, ...]:
    """The moments of the cavities alone."""
    return tuple(ScoreMoments(chain.mean, chain.variance) for chain in smoothed)


def add_sites(cavities: tuple[ScoreMoments, ...], sites: Sites) -> tuple[ScoreMoments, ...]:
    """The marginals of entries from their cavities and their sites."""

    def add(cavity: ScoreMoments, site: Site) -> ScoreMoments:
        share = 1.0 / (1.0 + site.precision * cavity.variance)
        mean = (cavity.mean + site.precision_mean * cavity.variance) * share
        return ScoreMoments(mean, cavity.variance * share)

    return tuple(add(*pair) for pair in zip(cavities, sites, strict=True))


def sum_over(
    function: Callable[[ScoreMoments, Site], Float[Array, "C R"]],
    moments: tuple[ScoreMoments, ...],
    sites: Sites,
) -> Scalar:
    """The sum of a function of entries over all chains."""
    total = sum(jnp.sum(function(*pair)) for pair in zip(moments, sites, strict=True))
    return total  # pyright: ignore[reportReturnType]


def make_problem(model: Model, data: Dataset, mask: Bool[Array, " N"] | None = None) -> Problem:
    """Join a model to data.

    Args:
        model: kernels and likelihood.
        data: the encoded observations.
        mask: which observations count; all of them if `None`.

    Returns:
        The problem, with parameters in the data's floating-point type.
    """
    dtype = data.coefficients.dtype
    steps = tuple(
        StepModel(resolve(model.process_of(chain.group), dtype), data.epoch)
        for chain in data.chains
    )
    mesh = data.chains[0].mesh
    events, counted = _needed_events(model, data), _counted(mask, data)
    if events is not None and mask is not None:
        # An event counts if all of it does.
        counted = events.all_of(counted)

    def by_observation(values: Array) -> Array:
        return _share_out(_padded(values, data, "edge").T, mesh, "edge").T

    slots, coefficients = data.slots.T, data.coefficients.ravel()
    if mesh is not None:
        shapes = [chain.gap.shape for chain in data.chains]
        slots = jnp.take(gathered_positions(shapes, mesh), slots, mode="clip")
    return Problem(
        steps=steps,
        likelihoods={
            kind: map_observations(resolve(likelihood, dtype), by_observation)
            for kind, likelihood in model.likelihoods.items()
        },
        chains=data.chains,
        outcome=by_observation(data.outcome),
        weight=_share_out(_padded(data.weight, data), mesh),
        mask=_share_out(counted, mesh),
        slots=_share_out(slots, mesh),
        coefficients=_share_out(data.coefficients.T, mesh),
        entry_coefficients=tuple(
            jnp.take(coefficients, chain.source, mode="fill", fill_value=0.0)
            for chain in data.chains
        ),
        entry_observations=tuple(
            chain.source // data.coefficients.shape[1] for chain in data.chains
        ),
        offset=_share_out(_offset(data, entry_means(model, data)), mesh),
        events=events
        and Events(events.blocks, *(_share_out(x, mesh) for x in (events.place, events.number))),
        shared=_shared(steps, data),
    )


def _shared(steps: tuple[StepModel, ...], data: Dataset) -> SharedEffects | None:
    """The shared effects, on the devices of the data."""
    shared, mesh = find_shared(steps, data), data.chains[0].mesh
    if shared is None or mesh is None:
        return shared
    shapes = [
        chain.gap.shape
        for chain, place in zip(data.chains, shared.place, strict=True)
        if place is None
    ]
    positions = jnp.take(gathered_positions(shapes, mesh), shared.slots, mode="clip")
    slots, coefficients, design = (
        _share_out(x, mesh) for x in (positions, shared.coefficients, shared.design)
    )
    return replace(shared, slots=slots, coefficients=coefficients, design=design)


def _needed_events(model: Model, data: Dataset) -> Events | None:
    """The events of the data, unless one likelihood evaluates every row by itself."""
    events = data.events
    if events is None or (
        isinstance(model.likelihood, AbstractLikelihood) and model.likelihood.num_predictors == 1
    ):
        return None
    return events


def no_sites(chains: tuple[Chain, ...]) -> Sites:
    """Sites without information."""

    def zeros(gap: Array, mesh: Mesh | None) -> Array:
        # From the host, without a program for every shape.
        return (
            jax.device_put(np.zeros(gap.shape, gap.dtype)) if mesh is None else jnp.zeros_like(gap)
        )

    return tuple(Site(*[zeros(chain.gap, chain.mesh)] * 2) for chain in chains)


def restart_ages(data: Dataset, mask: Bool[Array, " N"] | None) -> Dataset:
    """Count the age of each feature from the first of its entries that counts.

    Kernels with the origin `FIRST` then start at the first entry that counts, not at one that is
    masked out or has a weight of zero. A feature without such an entry keeps its ages.
    """
    if mask is None and data.weight is None:
        return data
    chains = _restart_ages(data.without_index(), mask).chains
    return eqx.tree_at(lambda data: data.chains, data, chains)


@jit_once
def _restart_ages(data: Dataset, mask: Bool[Array, " N"] | None) -> Dataset:
    counts = _counted(mask, data)
    weight = _padded(data.weight, data)
    if weight is not None:
        counts &= weight > 0

    def restart(chain: Chain) -> Chain:
        seen = jnp.take(counts, chain.source // data.coefficients.shape[1], fill_value=False)
        # Along the rows, where the entries of a feature are consecutive.
        first, age, seen = (
            on_every_device(part.T.ravel(), chain.mesh) for part in (chain.first, chain.age, seen)
        )
        opening = lax.cummax(jnp.where(first, jnp.arange(first.size, dtype=jnp.int32), 0))
        start = jnp.full_like(age, jnp.inf).at[opening].min(jnp.where(seen, age, jnp.inf))[opening]
        age = age - jnp.where(jnp.isfinite(start), start, 0.0)
        age = age.reshape(chain.age.shape[::-1]).T
        return eqx.tree_at(lambda c: c.age, chain, shared_out(age, chain.mesh, 1))

    chains = tuple(restart(chain) for chain in data.chains)
    return eqx.tree_at(lambda data: data.chains, data, chains)


def _padded(values: Array | None, data: Dataset, mode: str = "constant") -> Array | None:
    """Pad values that a user gave in place of the data's own, one for each observation."""
    if values is None or len(values) == len(data.slots):
        return values
    room = len(data.slots) - len(values)
    return jnp.pad(values, [(0, room)] + [(0, 0)] * (values.ndim - 1), mode=mode)


def _share_out(values: Array | None, mesh: Mesh | None, mode: str = "constant") -> Array | None:
    """Values of observations, along the last axis, padded and shared out to the devices."""
    if values is None or mesh is None:
        return values
    padding = [(0, 0)] * (values.ndim - 1) + [(0, -values.shape[-1] % mesh.size)]
    return shared_out(jnp.pad(values, padding, mode=mode), mesh, values.ndim - 1)


def _counted(mask: Bool[Array, " n"] | None, data: Dataset) -> Bool[Array, " N"]:
    """Mask of the observations that are not padding and that the user's mask keeps."""
    # Only padding has no feature in its first slot.
    real = data.slots[:, 0] < sum(chain.gap.size for chain in data.chains)
    return real if mask is None else real & jnp.pad(mask, (0, len(real) - len(mask)))


def entry_means(model: Model, data: Dataset) -> tuple[Float[Array, "_ _"], ...] | None:
    """The prior mean of every entry's score, chain by chain; `None` where it is zero."""
    if model.mean is None and model.newcomers is None:
        return None
    dtype = data.coefficients.dtype

    def mean_of(chain: Chain) -> Float[Array, "_ _"]:
        instant = Instant(chain.offset, chain.age, data.epoch)
        means = model.mean_of(chain.group, chain.feature, instant, dtype)
        return means if chain.aspects is None else means * chain.aspects[GENERAL]

    return tuple(map(mean_of, data.chains))


def _offset(
    data: Dataset, means: tuple[Float[Array, "_ _"], ...] | None
) -> Float[Array, " N"] | None:
    """The prior mean of every observation's score, from those of its entries."""
    if means is None:
        return None
    entries = jnp.take(all_entries(means, None), data.slots, mode="clip")
    return jnp.sum(data.coefficients * entries, axis=1)
