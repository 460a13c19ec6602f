"""Where a tilted density peaks and where a log-likelihood bends; nothing here is differentiated."""

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
from jax import lax

from jaxkick._numerics.local import Local
from jaxkick._typing import Array, Float

__all__ = ["find_bend", "find_edges", "find_mode"]

MOST_STEPS = 40


class _Search(NamedTuple):
    count: Array
    score: Array
    lower: Array
    upper: Array
    previous: Array
    growth: Array
    done: Array


def find_mode(
    local: Callable[[Array], Local],
    mean: Float[Array, "..."],
    variance: Float[Array, "..."],
    weight: Float[Array, "..."] | float,
    guess: Float[Array, "..."] | None,
) -> Float[Array, "..."]:
    """A local maximum of weight · log p(f) − (f − mean)² / (2 variance), to 5 % of its width.

    Newton's method between brackets: bisection where it stalls, longer steps where it has
    not yet found a bracket. A maximum is bracketed by the sign of the slope, so curvature of
    the wrong sign does no harm.

    Args:
        local: the likelihood as a function of the score.
        mean: mean of the Gaussian.
        variance: its variance.
        weight: power on the likelihood.
        guess: a score near which the likelihood bends, if known.

    Returns:
        The maximiser.
    """
    huge = jnp.finfo(mean.dtype).max / 4

    def newton(score):
        at = local(score)
        pull = variance * weight * at.first - (score - mean)
        return pull, jnp.maximum(1 - variance * weight * at.second, 1.0)

    def improve(search: _Search) -> _Search:
        pull, stiffness = newton(search.score)
        step = pull / stiffness
        lower = jnp.where(pull > 0, search.score, search.lower)
        upper = jnp.where(pull < 0, search.score, search.upper)
        bracketed = (lower > -huge) & (upper < huge)
        slow = jnp.abs(pull) > 0.5 * search.previous
        growth = jnp.where(slow & ~bracketed, 2 * search.growth, 1.0)
        target = search.score + growth * step
        bisect = bracketed & (slow | (target <= lower) | (target >= upper))
        target = jnp.where(bisect, 0.5 * (lower + upper), target)
        found = step * step * stiffness <= 0.0025 * variance
        target = jnp.where(found, search.score + step, target)
        score = jnp.where(search.done, search.score, target)
        done = search.done | found
        return _Search(search.count + 1, score, lower, upper, jnp.abs(pull), growth, done)

    pull, stiffness = newton(mean)
    lower, upper = jnp.where(pull > 0, mean, -huge), jnp.where(pull < 0, mean, huge)
    start = mean + pull / stiffness
    if guess is not None:
        clipped = jnp.clip(guess, lower, upper)
        start = jnp.where(clipped == mean, start, clipped)
    previous, growth = jnp.full_like(mean, huge), jnp.ones_like(mean)
    done = jnp.zeros(mean.shape, dtype=bool)
    first = _Search(jnp.int32(0), start, lower, upper, previous, growth, done)
    last = lax.while_loop(lambda s: (s.count < MOST_STEPS) & ~jnp.all(s.done), improve, first)
    return last.score
