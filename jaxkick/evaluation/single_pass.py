"""One pass over the matches in the order of time, as Elo and TrueSkill go."""

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxkick._parameters import AbstractParameter
from jaxkick._typing import Array, Float, Int
from jaxkick.dataset.dataset import Dataset
from jaxkick.evaluation.blocks import Blocks
from jaxkick.inference.problem import ScoreMoments

__all__ = ["Features", "Matches", "Rule", "by_feature", "read_matches", "run_pass"]


class Matches(NamedTuple):
    """Matches in the order of time, with their features beside them.

    Attributes:
        rows: the observation of each match.
        features: numbers of its features; one past the last in an empty slot.
        coefficients: their coefficients.
        gaps: time since the previous match of each feature; zero for its first.
        outcome: what happened.
        weight: weights, or `None`.
        blocks: number of its block.
    """

    rows: Int[Array, " n"]
    features: Int[Array, "n P"]
    coefficients: Float[Array, "n P"]
    gaps: Float[Array, "n P"]
    outcome: Float[Array, " n"]
    weight: Float[Array, " n"] | None
    blocks: Int[Array, " n"]


class Features(eqx.Module):
    """The features of a data set, with one more at the end for empty slots.

    Attributes:
        group: number of each feature's group.
        groups: names of the groups.
        dtype: floating-point type of the data.
    """

    group: Int[Array, " M"]
    groups: tuple[str, ...] = eqx.field(static=True)
    dtype: np.dtype = eqx.field(static=True)

    @staticmethod
    def of(data: Dataset) -> "Features":
        """Those of a data set."""
        group = np.append(data.index.feature_group, np.int32(0))
        return Features(group, data.index.groups, np.dtype(data.coefficients.dtype))


class Rule(NamedTuple):
    """How ratings change; what a rating system is.

    Attributes:
        variance: variance of each feature's rating before its first match.
        match_variance: what each match of a feature adds to it beforehand.
        time_variance: what a unit of time adds to it.
        update: from a match's coefficients, the means and variances of its features, outcome
            and weight to new means and variances.
    """

    variance: Float[Array, " M"]
    match_variance: Float[Array, " M"]
    time_variance: Float[Array, " M"]
    update: Callable[..., tuple[Array, Array]]


class _Ratings(NamedTuple):
    """Ratings of all features: now, and as they were before the present block."""

    mean: Float[Array, " M"]
    variance: Float[Array, " M"]
    before_mean: Float[Array, " M"]
    before_variance: Float[Array, " M"]
    elapsed: Float[Array, " M"]
    block: Int[Array, " M"]


def read_matches(data: Dataset, blocks: Blocks, before: int) -> Matches:
    """The matches of all blocks with a smaller number, in the order of time."""
    rows = np.flatnonzero(blocks.number < before)
    rows = rows[np.lexsort((rows, data.index.times[rows]))]
    slots = np.asarray(data.slots)[rows]

    def of_entries(name: str, padding: float) -> np.ndarray:
        parts = [np.asarray(getattr(chain, name)).ravel() for chain in data.chains]
        return np.append(np.concatenate(parts), parts[0].dtype.type(padding))[slots]

    return Matches(
        rows=rows,
        features=of_entries("feature", data.num_features),
        coefficients=np.asarray(data.coefficients)[rows],
        gaps=of_entries("gap", 0.0),
        outcome=np.asarray(data.outcome)[rows],
        weight=None if data.weight is None else np.asarray(data.weight)[rows],
        blocks=blocks.number[rows].astype(np.int32),
    )


def by_feature(
    value: AbstractParameter | dict[str, AbstractParameter], features: Features
) -> Float[Array, " M"]:
    """A parameter, or those of groups, as one number for each feature and an empty slot.

    Raises:
        ValueError: if a group has no value.
    """
    if isinstance(value, AbstractParameter):
        return jnp.broadcast_to(value.value.astype(features.dtype), features.group.shape)
    missing = [group for group in features.groups if group not in value]
    if missing:
        raise ValueError(
            f"a parameter has values for {', '.join(map(repr, value))}, but the data has the "
            f"group {missing[0]!r}; add a value for it."
        )
    values = [value[group].value.astype(features.dtype) for group in features.groups]
    return jnp.stack(values)[features.group]


def run_pass(rule: Rule, matches: Matches) -> ScoreMoments:
    """Predict and then learn from each match in turn; predictions look at no own block.

    A feature that has played in the present block keeps what it was before it, so that all
    matches of a block are predicted alike, at constant cost for each match.

    Args:
        rule: how ratings change.
        matches: in the order of time.

    Returns:
        Mean and variance of the combined score before each match.
    """
    zeros = jnp.zeros_like(rule.variance)
    start = _Ratings(
        mean=zeros,
        variance=rule.variance,
        before_mean=zeros,
        before_variance=rule.variance,
        elapsed=zeros,
        block=jnp.full(zeros.shape, -1, jnp.int32),
    )

    def step(ratings: _Ratings, match: Matches) -> tuple[_Ratings, ScoreMoments]:
        here = match.features
        now = jax.tree.map(lambda part: part[here], ratings)
        drift, rest = rule.time_variance[here], rule.match_variance[here]
        fresh = now.block != match.blocks
        before_mean = jnp.where(fresh, now.mean, now.before_mean)
        before_variance = jnp.where(fresh, now.variance, now.before_variance)
        elapsed = jnp.where(fresh, match.gaps, now.elapsed + match.gaps)
        x = match.coefficients
        score = ScoreMoments(
            jnp.sum(x * before_mean),
            jnp.sum(x * x * (before_variance + rest + drift * elapsed)),
        )
        mean, variance = rule.update(
            here, x, now.mean, now.variance + rest + drift * match.gaps, match.outcome, match.weight
        )
        new = _Ratings(mean, variance, before_mean, before_variance, elapsed, match.blocks)
        return jax.tree.map(lambda old, part: old.at[here].set(part), ratings, new), score

    return lax.scan(step, start, jax.tree.map(jnp.asarray, matches))[1]
