"""A model joined to data: what an inference method evaluates again and again.

Marginals live in chain layout, likelihoods in observation layout. Every entry belongs to
one observation and one slot of it, so both ways are gathers and never a scatter.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import Mesh
from jaxtyping import ArrayLike

from jaxkick._parameters import resolve
from jaxkick._sharding import all_entries, gathered_positions, shared_out
from jaxkick._typing import Array, Bool, Float, Int, Scalar
from jaxkick.dataset.dataset import Dataset
from jaxkick.likelihoods.base import AbstractLikelihood, Derivatives
from jaxkick.model import Model
from jaxkick.statespace.chain import Chain
from jaxkick.statespace.smoother import Smoothed, smooth_chain
from jaxkick.statespace.step import Site, StepModel

__all__ = [
    "Problem",
    "ScoreMoments",
    "Sites",
    "add_sites",
    "cavities_of",
    "entry_means",
    "make_problem",
    "sum_over",
]

Sites = tuple[Site, ...]
"""The pseudo-observation of every entry, chain by chain."""


class ScoreMoments(NamedTuple):
    """Mean and variance, of entries or of whole observations."""

    mean: Float[Array, "..."]
    variance: Float[Array, "..."]


class Problem(eqx.Module):
    """A model whose parameters are known, and the data it is to explain.

    Attributes:
        steps: the kernel of every chain.
        likelihood: the likelihood of the outcomes.
        chains: the entries of every group of features.
        outcome: the outcome of every observation.
        weight: the weight of every observation; `None` where all are one.
        active: which observations count; the others have sites of zero.
        slots: the position of every slot's entry, slot by slot: sums over slots are then sums
            of whole arrays.
        coefficients: the coefficient of every slot, slot by slot.
        entry_coefficients: the coefficient of every entry, in chain layout.
        entry_observations: the observation of every entry, in chain layout.
        offset: the prior mean of every observation's score; `None` where it is zero.

    On a mesh observations are padded with some that are not active, so that every device has
    as many.
    """

    steps: tuple[StepModel, ...]
    likelihood: AbstractLikelihood
    chains: tuple[Chain, ...]
    outcome: Float[Array, " N"]
    weight: Float[Array, " N"] | None
    active: Bool[Array, " N"] | None
    slots: Int[Array, "P N"]
    coefficients: Float[Array, "P N"]
    entry_coefficients: tuple[Float[Array, "C R"], ...]
    entry_observations: tuple[Int[Array, "C R"], ...]
    offset: Float[Array, " N"] | None

    @property
    def mesh(self) -> Mesh | None:
        """The devices that rows and observations are shared out to; `None` for one device."""
        return self.chains[0].mesh

    def smooth(self, sites: Sites, keep_states: bool = False) -> tuple[Smoothed, ...]:
        """The cavities of every entry, chain by chain, and states for interpolation if asked."""
        chains = zip(self.steps, self.chains, sites, strict=True)
        return tuple(smooth_chain(*chain, keep_states) for chain in chains)

    def no_sites(self) -> Sites:
        """Sites that say nothing."""
        return tuple(
            Site(jnp.zeros_like(chain.gap), jnp.zeros_like(chain.gap)) for chain in self.chains
        )

    def to_observations(self, entries: tuple[ScoreMoments, ...]) -> ScoreMoments:
        """Mean and variance of every observation's score, from those of its entries.

        Entries are those of processes with mean zero; the prior mean is added here.
        """
        means, variances = zip(*entries, strict=True)
        means, variances = all_entries(means, self.mesh), all_entries(variances, self.mesh)
        mean, variance = 0.0 if self.offset is None else self.offset, 0.0
        for slots, x in zip(self.slots, self.coefficients, strict=True):
            # An empty slot reads any entry, and has coefficient zero.
            mean = mean + x * jnp.take(means, slots, mode="clip")
            # Not x² times it: XLA would keep the squares for the next step.
            variance = variance + x * (x * jnp.take(variances, slots, mode="clip"))
        return ScoreMoments(mean, variance)

    def observe(
        self,
        function: Callable[["Problem", ScoreMoments], Derivatives],
        entries: tuple[ScoreMoments, ...],
    ) -> Derivatives:
        """What a function makes of every observation's score; zero for those that do not count.

        Args:
            function: from this problem and the moments of scores to a value and derivatives.
            entries: the moments of every entry, without prior means.
        """
        shape, dtype = self.coefficients.shape[1:], self.coefficients.dtype

        def of_each(part: ArrayLike) -> Float[Array, " N"]:
            # A likelihood of the user's own may return one number for all observations.
            return self.only_active(jnp.broadcast_to(jnp.asarray(part, dtype), shape))

        def compute(entries: tuple[ScoreMoments, ...]) -> Derivatives:
            return Derivatives(*map(of_each, function(self, self.to_observations(entries))))

        # Everything here is computed once, not anew for every entry that reads it. Only speed
        # depends on the backend, which is that of the process that traces.
        if self.mesh is not None or jax.default_backend() != "cpu":
            return lax.optimization_barrier(compute(entries))

        def never(entries: tuple[ScoreMoments, ...]) -> Derivatives:
            return Derivatives(*[jnp.full(shape, jnp.nan, dtype)] * 3)

        # XLA's CPU compiler drops optimisation barriers, but keeps a branch, even one that is
        # always taken: the first entry of a chain opens a feature.
        return lax.cond(self.chains[0].first[0, 0], compute, never, entries)

    def update_entries(
        self,
        rule: Callable[..., Site],
        entries: tuple[Any, ...],
        first: Float[Array, " N"],
        second: Float[Array, " N"],
    ) -> Sites:
        """New sites from a rule and the two derivatives of every observation.

        Args:
            rule: from what it reads of an entry, its coefficient and derivatives to its site.
            entries: what the rule reads of every entry, such as its moments.
            first: the first derivative of every observation; zero where it does not count.
            second: the second derivative of every observation, likewise.

        Returns:
            The sites.
        """

        def update(entry: Any, x: Array, observations: Array) -> Site:
            return rule(
                entry,
                x,
                jnp.take(first, observations, mode="clip"),
                jnp.take(second, observations, mode="clip"),
            )

        chains = zip(entries, self.entry_coefficients, self.entry_observations, strict=True)
        return tuple(update(*chain) for chain in chains)

    def only_active(self, values: Float[Array, " N"]) -> Float[Array, " N"]:
        """`values` with zeros for the observations that do not count."""
        return values if self.active is None else jnp.where(self.active, values, 0.0)


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
    return sum(jnp.sum(function(*pair)) for pair in zip(moments, sites, strict=True))


def make_problem(model: Model, data: Dataset, active: Bool[Array, " N"] | None = None) -> Problem:
    """Join a model to data.

    Args:
        model: kernels and likelihood.
        data: the encoded observations.
        active: which observations count; all of them if `None`.

    Returns:
        The problem, with parameters in the data's floating-point type.
    """
    dtype = data.coefficients.dtype
    steps = tuple(
        StepModel(resolve(model.kernel_of(chain.group), dtype), data.epoch) for chain in data.chains
    )
    mesh = data.chains[0].mesh
    slots, coefficients = data.slots.T, data.coefficients.ravel()
    if mesh is not None:
        shapes = [chain.gap.shape for chain in data.chains]
        slots = jnp.take(gathered_positions(shapes, mesh), slots, mode="clip")
    return Problem(
        steps=steps,
        likelihood=resolve(model.likelihood, dtype),
        chains=data.chains,
        outcome=_share_out(data.outcome, mesh, mode="edge"),
        weight=_share_out(data.weight, mesh),
        active=_share_out(_real_ones(active, data), mesh),
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
    )


def _share_out(values: Array | None, mesh: Mesh | None, mode: str = "constant") -> Array | None:
    """Values of observations, along the last axis, padded and shared out to the devices."""
    if values is None or mesh is None:
        return values
    padding = [(0, 0)] * (values.ndim - 1) + [(0, -values.shape[-1] % mesh.size)]
    return shared_out(jnp.pad(values, padding, mode=mode), mesh, values.ndim - 1)


def _real_ones(active: Bool[Array, " N"] | None, data: Dataset) -> Bool[Array, " N"] | None:
    """Which observations count, where padding makes others necessary."""
    mesh = data.chains[0].mesh
    padded = mesh is not None and data.outcome.shape[0] % mesh.size
    return jnp.ones(data.outcome.shape, bool) if active is None and padded else active


def entry_means(model: Model, data: Dataset) -> tuple[Float[Array, "C R"], ...] | None:
    """The prior mean of every entry's score, chain by chain; `None` where it is zero."""
    if model.mean is None:
        return None
    dtype = data.coefficients.dtype
    return tuple(model.mean_of(chain.group, chain.feature, dtype) for chain in data.chains)


def _offset(
    data: Dataset, means: tuple[Float[Array, "C R"], ...] | None
) -> Float[Array, " N"] | None:
    """The prior mean of every observation's score, from those of its entries."""
    if means is None:
        return None
    entries = jnp.take(all_entries(means, None), data.slots, mode="clip")
    return jnp.sum(data.coefficients * entries, axis=1)
