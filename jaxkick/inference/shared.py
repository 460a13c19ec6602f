"""Shared effects: few features with constant scores, such as a home advantage or covariates.

Each of them has one unknown, but takes part in many or all matches, so its chain is as long as the
data. Sums replace the smoother's recursions there, and the solve for the joint means
eliminates shared effects exactly (`jaxkick.inference.conjugate_gradients`).
"""

import itertools

import equinox as eqx
import jax
import jax.numpy as jnp

from jaxkick._math.normal import log
from jaxkick._math.small_matrices import dot
from jaxkick._typing import Array, Float, Int, Scalar
from jaxkick.chains.devices import on_every_device, shared_out
from jaxkick.chains.filter import step_times
from jaxkick.chains.layout import Chain
from jaxkick.chains.smoother import Smoothed
from jaxkick.chains.step import Site, StepModel
from jaxkick.data.dataset import Dataset
from jaxkick.kernels import Constant

__all__ = ["SharedEffects", "find_shared"]


class SharedEffects(eqx.Module):
    """The shared effects of a problem, and the slots of all other features.

    Attributes:
        place: the number of every entry's effect within its chain, −1 in padding; `None` for the
            chains of other features.
        counts: the number of effects of every chain.
        design: the coefficient of every effect in every observation.
        slots: the position of every slot's entry among the entries of other chains.
        coefficients: the coefficient of every such slot; 0 where it holds a shared effect.
    """

    place: tuple[Int[Array, "_ _"] | None, ...]
    counts: tuple[int, ...] = eqx.field(static=True)
    design: Float[Array, "Q N"]
    slots: Int[Array, "P N"]
    coefficients: Float[Array, "P N"]

    def sum(self, entries: tuple[Float[Array, "_ _"], ...]) -> Float[Array, " Q"]:
        """The sum over the entries of every effect."""
        parts = zip(self.place, self.counts, entries, strict=True)
        return jnp.concatenate([_sums(*part) for part in parts if part[0] is not None])

    def spread(self, values: Float[Array, " Q"], chain: int) -> Float[Array, "_ _"]:
        """The value of every entry's effect, for a chain of shared effects; 0 in padding."""
        begin = sum(self.counts[:chain])
        return _pick(values[begin : begin + self.counts[chain]], self.place[chain], 0.0)

    def prior_variances(
        self, steps: tuple[StepModel, ...], chains: tuple[Chain, ...]
    ) -> Float[Array, " Q"]:
        """The prior variance of every effect."""
        parts = zip(steps, chains, self.counts, strict=True)
        return jnp.concatenate([jnp.full(n, _prior_variance(s, c)) for s, c, n in parts if n])

    def smooth(self, number: int, step: StepModel, chain: Chain, site: Site) -> Smoothed:
        """Compute the cavities of a chain of shared effects; `gains` is `None`.

        The precision of an effect is that of its prior and all of its sites together.
        """
        place, count = self.place[number], self.counts[number]
        prior = _prior_variance(step, chain)
        shift = _sums(place, count, site.precision_mean)
        scale = 1.0 + prior * _sums(place, count, site.precision)
        others = _pick(scale, place, 1.0) / prior - site.precision
        mean = (_pick(shift, place, 0.0) - site.precision_mean) / others
        normaliser = 0.5 * jnp.sum(shift * shift * prior / scale - log(jnp.abs(scale)))
        return Smoothed(mean, 1.0 / others, normaliser, None, None)


def find_shared(steps: tuple[StepModel, ...], data: Dataset) -> SharedEffects | None:
    """Find the shared effects of a model; `None` if there are none, or nothing else.

    Args:
        steps: the kernel of every chain.
        data: the encoded observations.
    """
    chains = data.chains
    counts = tuple(
        chain.few if isinstance(step.kernel, Constant) and chain.aspects is None else 0
        for step, chain in zip(steps, chains, strict=True)
    )
    if not any(counts) or all(counts):
        return None
    place = tuple(
        _places(chain, data.slots.size) if count else None
        for chain, count in zip(chains, counts, strict=True)
    )
    slots, coefficients = data.slots.T, data.coefficients.T
    begins = [0, *itertools.accumulate(chain.gap.size for chain in chains)]
    kept = [chain.slots for chain, count in zip(chains, counts, strict=True) if not count]
    kept = jnp.array(sorted(set(itertools.chain(*kept))))
    positions, others = slots[kept], coefficients[kept]
    design = []
    for chain, begin, numbers in zip(chains, begins, place, strict=False):
        if numbers is None:
            continue
        numbers, end = on_every_device(numbers, chain.mesh).ravel(), begin + chain.gap.size
        columns = jnp.zeros((chain.few, slots.shape[1]), coefficients.dtype)
        for slot in chain.slots:
            here = (slots[slot] >= begin) & (slots[slot] < end)
            number = jnp.take(numbers, slots[slot] - begin, mode="clip")
            chosen = here & (number == jnp.arange(chain.few, dtype=number.dtype)[:, None])
            columns = columns + jnp.where(chosen, coefficients[slot], 0.0)
        design.append(columns)
        others = jnp.where((slots[kept] >= begin) & (slots[kept] < end), 0.0, others)
        positions = positions - jnp.where(slots[kept] >= end, chain.gap.size, 0)
    return SharedEffects(place, counts, jnp.concatenate(design), positions, others)


def _places(chain: Chain, no_source: int) -> Int[Array, "C R"]:
    """Number the features of a chain, whose entries are consecutive along the rows."""
    real = chain.source < no_source
    opening = on_every_device((chain.first & real).T.ravel(), chain.mesh)
    number = jnp.cumsum(opening, dtype=jnp.int32).reshape(chain.first.shape[::-1]).T - 1
    return jnp.where(real, shared_out(number, chain.mesh, 1), -1)


def _prior_variance(step: StepModel, chain: Chain) -> Scalar:
    first = jax.tree.map(lambda x: x[0, 0], step_times(chain))
    h = step.h(first)
    return dot(h, step.prior_cov(first) @ h)


def _sums(
    place: Int[Array, "C R"], count: int, values: Float[Array, "C R"]
) -> Float[Array, " count"]:
    return jnp.stack([jnp.sum(jnp.where(place == j, values, 0.0)) for j in range(count)])


def _pick(
    values: Float[Array, " count"], place: Int[Array, "C R"], padding: float
) -> Float[Array, "C R"]:
    """The value of every entry's place, by comparisons: faster than a gather for a few."""
    found = jnp.full(place.shape, padding, values.dtype)
    for j in range(len(values)):
        found = jnp.where(place == j, values[j], found)
    return found
