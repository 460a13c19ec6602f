"""Small leagues of every unpleasant kind, and what must hold of a fit to each.

All leagues of a setting have one shape, so that a setting is compiled once.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

import jaxkick as jk
from jaxkick import kernels, likelihoods

__all__ = ["KINDS", "SETTINGS", "Setting", "faults", "make_league"]

COUNT, PLAYERS = 24, 6


class Setting(NamedTuple):
    """What is fitted to a league: a model, a method and a floating-point type."""

    kernel: jk.kernels.AbstractKernel
    likelihood: jk.likelihoods.AbstractLikelihood
    method: jk.inference.AbstractMethod
    dtype: str


EP, KL = jk.ExpectationPropagation(), jk.ReverseKL()
WANDERING = kernels.Constant(0.5) + kernels.Matern32(1.0, 2.0)
SETTINGS = {
    "probit ep": Setting(WANDERING, likelihoods.Probit(), EP, "float64"),
    "probit ep 32": Setting(WANDERING, likelihoods.Probit(), EP, "float32"),
    "logit kl": Setting(kernels.Matern12(2.0, 1.0), likelihoods.Logit(), KL, "float64"),
    "ties ep": Setting(
        kernels.Wiener(0.5, origin=kernels.FIRST, origin_variance=1.0),
        likelihoods.OrdinalProbit(margin=1e-4),
        EP,
        "float64",
    ),
    "wide ep": Setting(kernels.Constant(1e6), likelihoods.Probit(), EP, "float64"),
    "points ep 32": Setting(WANDERING, likelihoods.Gaussian(1.0), EP, "float32"),
    "points kl": Setting(kernels.Matern52(4.0, 3.0), likelihoods.Gaussian(1.0), KL, "float64"),
    "goals ep": Setting(WANDERING, likelihoods.Poisson(), EP, "float64"),
    "goals kl": Setting(kernels.Matern52(1.0, 3.0), likelihoods.Poisson(), KL, "float64"),
}

KINDS = (
    "plain",
    "one instant",
    "huge gaps",
    "far times",
    "never lost",
    "two pools",
    "weights",
    "line-ups",
)


def make_league(kind: str, seed: int, setting: Setting, mirrored: bool = False) -> jk.Dataset:
    """A league of a kind; `mirrored` with sides and outcomes swapped."""
    rng = np.random.default_rng([KINDS.index(kind), seed])
    times = np.sort(rng.uniform(0.0, 6.0, COUNT))
    if kind == "one instant":
        times[:] = 3.0
    if kind == "huge gaps":
        times = np.cumsum(10.0 ** rng.uniform(-9, 6, COUNT))
    if kind == "far times":
        times += 1e12
    first, gap = rng.integers(0, PLAYERS, COUNT), rng.integers(1, PLAYERS, COUNT)
    second = (first + gap) % PLAYERS
    if kind == "two pools":
        second = np.where(first < 3, (first + 1 + gap % 2) % 3, 3 + (first + 1 + gap % 2) % 3)
    outcome = _outcomes(setting, rng)
    if kind == "never lost" and not isinstance(setting.likelihood, likelihoods.Poisson):
        outcome = np.abs(outcome) + (outcome == 0)
        second = np.where(first == 0, second, np.maximum(second, 1))
        first = np.where(second == first, 0, first)
    weight = 10.0 ** rng.uniform(-3, 2, COUNT) if kind == "weights" else np.ones(COUNT)
    scales = rng.uniform(0.1, 3.0, (COUNT, 2)) if kind == "line-ups" else np.ones((COUNT, 2))
    sign = -1.0 if mirrored else 1.0
    coefficients = sign * scales * np.array([1.0, -1.0])
    if isinstance(setting.likelihood, likelihoods.Poisson):
        sign = 1.0
    return jk.Dataset.from_arrays(
        times,
        np.stack([first, second], axis=1),
        coefficients,
        sign * outcome,
        weight=weight,
        dtype=setting.dtype,
        row_length=2 * COUNT,
    )


def _outcomes(setting: Setting, rng: np.random.Generator) -> np.ndarray:
    likelihood = setting.likelihood
    if isinstance(likelihood, likelihoods.Poisson):
        return rng.choice([0.0, 1.0, 3.0, 300.0], COUNT, p=[0.3, 0.4, 0.25, 0.05])
    if isinstance(likelihood, likelihoods.Gaussian):
        # Single precision cannot tell scores of a million to a standard deviation of one.
        large = 1e3 if setting.dtype == "float32" else 1e6
        return rng.normal(size=COUNT) * rng.choice([1.0, large], COUNT, p=[0.9, 0.1])
    return rng.choice(np.array(likelihood.levels), COUNT)


def faults(kind: str, seed: int, setting: Setting) -> Iterator[str]:
    """What is wrong with a fit to a league of a kind; nothing if all is well."""
    model = jk.Model(setting.kernel, setting.likelihood)
    posterior = jk.infer(model, make_league(kind, seed, setting), setting.method, throw=False)
    if not posterior.converged:
        yield f"ended as {jk.Result(int(posterior.result)).name} after {int(posterior.steps)} steps"
        return
    (entries,), observations = posterior.entries, posterior.observations
    numbers = [*entries, *observations, posterior.log_marginal_likelihood]
    if not all(np.all(np.isfinite(each)) for each in numbers):
        yield "numbers that are not finite"
    if np.any(np.asarray(entries.variance) < 0):
        yield "a negative variance"
    prior = jk.infer(
        model,
        posterior.data,
        setting.method,
        active=np.zeros(COUNT, bool),
    )
    allowed = 1.0 + (1e-4 if setting.dtype == "float32" else 1e-9)
    if np.any(observations.variance > allowed * prior.observations.variance):
        yield "a variance above the prior's"
    if setting.likelihood.levels:
        chances = setting.likelihood.probabilities(*observations)
        if np.any((chances < 0) | (chances > 1)) or not np.allclose(chances.sum(-1), 1, atol=1e-5):
            yield "probabilities that are not proper"
    if not isinstance(setting.likelihood, likelihoods.Poisson):
        yield from _not_mirrored(kind, seed, setting, posterior)


def _not_mirrored(kind: str, seed: int, setting: Setting, posterior: jk.Posterior) -> Iterator[str]:
    swapped = make_league(kind, seed, setting, mirrored=True)
    mirror = jk.infer(posterior.model, swapped, setting.method, throw=False)
    spread = np.sqrt(np.asarray(posterior.observations.variance)) + 1e-6
    off = np.abs(np.asarray(mirror.observations.mean + posterior.observations.mean)) / spread
    # Both ends are within about 0.05 of the fixed point, by an estimate.
    if not np.all(off < 0.5):
        yield f"swapping sides does not mirror the scores: {off.max():.2g} standard deviations"
