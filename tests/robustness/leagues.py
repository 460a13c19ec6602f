"""Small leagues of every unpleasant kind, and what must hold of a fit to each.

All leagues of a setting have one shape, so that a setting is compiled once.
"""

from collections.abc import Iterator, Set
from typing import NamedTuple

import equinox as eqx
import jax
import numpy as np

import jaxkick as jk
from jaxkick import kernels, likelihoods
from jaxkick.evaluation import Refit
from jaxkick.inference.methods import AbstractMethod

__all__ = ["KINDS", "SETTINGS", "League", "Setting", "Verdict", "examine", "make_fit"]

COUNT, PLAYERS = 24, 6
ALL = np.ones(COUNT, bool)
# Both fits of a comparison end within about 0.05 standard deviations of their fixed points, by
# an estimate.
ALIKE = 0.5


class Setting(NamedTuple):
    """A model, a method and a floating-point type to fit a league with."""

    kernel: kernels.AbstractKernel
    likelihood: likelihoods.AbstractLikelihood
    method: AbstractMethod
    dtype: str


class League(NamedTuple):
    """The description of a league.

    Attributes:
        kinds: what is unpleasant about it, of `KINDS`.
        seed: of everything that is left to chance.
        spread: how far the parameters of the setting are moved, in their logarithms.
    """

    kinds: Set[str]
    seed: int
    spread: float = 0.0


class Verdict(NamedTuple):
    """The outcome of the fits to a league.

    Attributes:
        converged: whether all fits said that they had converged.
        faults: what is wrong, where they said so; and numbers that are not finite anyway.
    """

    converged: bool
    faults: list[str]


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
    "one instant",
    "huge gaps",
    "far times",
    "never lost",
    "two pools",
    "weights",
    "line-ups",
)


def examine(league: League, setting: Setting, compared: bool = True) -> Verdict:
    """Fit a league in several ways and say what is wrong.

    Args:
        league: which league.
        setting: what is fitted to it.
        compared: whether fits that should be alike have to be.
    """
    (model, data), made = make_fit(league, setting), []

    def fit(data: jk.Dataset, mask: np.ndarray = ALL, start: jk.Posterior | None = None):
        start = Refit(model).init(data) if start is None else start
        made.append(jk.infer(model, data, setting.method, mask=mask, start=start, throw=False))
        return made[-1]

    posterior = fit(data)
    faults = list(_improper(posterior, fit(data, ~ALL), setting))
    if not compared:
        return Verdict(all(each.converged for each in made), faults)
    faults += _apart("starting again at the end", posterior, fit(data, start=posterior))
    few = np.random.default_rng(league.seed).random(COUNT) < 0.7
    faults += _apart("a weight of zero", fit(_weighted(data, few)), fit(data, few))
    if not isinstance(setting.likelihood, likelihoods.Poisson):
        mirror = fit(_make_data(league, setting, mirrored=True))
        faults += _apart("swapping sides", posterior, mirror, sign=-1.0)
    return Verdict(all(each.converged for each in made), faults)


def make_fit(league: League, setting: Setting) -> tuple[jk.Model, jk.Dataset]:
    """The model and the matches of a league."""
    return _make_model(league, setting), _make_data(league, setting)


def _improper(posterior: jk.Posterior, prior: jk.Posterior, setting: Setting) -> Iterator[str]:
    (entries,), observations = posterior.entries, posterior.observations
    numbers = [*entries, *observations, posterior.log_marginal_likelihood]
    if not all(np.all(np.isfinite(each)) for each in numbers):
        yield "numbers that are not finite"
    if not posterior.converged:
        return
    if np.any(np.asarray(entries.variance) < 0):
        yield "a negative variance"
    allowed = 1.0 + (1e-4 if setting.dtype == "float32" else 1e-9)
    if np.any(observations.variance > allowed * prior.observations.variance):
        yield "a variance above the prior's"
    if setting.likelihood.levels:
        chances = posterior.model.likelihood.probabilities(*observations)
        if np.any((chances < 0) | (chances > 1)) or not np.allclose(chances.sum(-1), 1, atol=1e-5):
            yield "probabilities that are not proper"


def _apart(what: str, one: jk.Posterior, other: jk.Posterior, sign: float = 1.0) -> Iterator[str]:
    """Differences between two converged fits that should be alike."""
    if not (one.converged and other.converged):
        return
    mean, variance = (np.asarray(part, np.float64) for part in one.observations)
    off = np.abs(mean - sign * np.asarray(other.observations.mean)) / (np.sqrt(variance) + 1e-6)
    if not np.all(off < ALIKE):
        yield f"{what}: scores are {off.max():.1g} standard deviations apart"
    factor = np.sqrt((variance + 1e-12) / (np.asarray(other.observations.variance) + 1e-12))
    if not np.all(np.abs(np.log(factor)) < ALIKE):
        yield f"{what}: deviations differ by a factor of {factor.max():.1g}"


def _weighted(data: jk.Dataset, kept: np.ndarray) -> jk.Dataset:
    kept = np.pad(kept, (0, len(data.weight) - len(kept))).astype(data.weight.dtype)
    return eqx.tree_at(lambda data: data.weight, data, data.weight * kept)


def _make_model(league: League, setting: Setting) -> jk.Model:
    """The setting's model, its parameters moved by chance."""
    rng = np.random.default_rng([1, league.seed])

    def moved(leaf: jax.Array) -> jax.Array:
        return leaf + league.spread * rng.normal(size=leaf.shape)

    return jax.tree.map(moved, jk.Model(setting.kernel, setting.likelihood))


def _make_data(league: League, setting: Setting, mirrored: bool = False) -> jk.Dataset:
    """The matches of a league; `mirrored` with sides and outcomes swapped."""
    rng, kinds = np.random.default_rng([0, league.seed]), league.kinds
    times = _times(kinds, rng)
    first, second = _pairs(kinds, rng)
    outcome = _outcomes(setting, rng)
    if "never lost" in kinds and not isinstance(setting.likelihood, likelihoods.Poisson):
        outcome = np.where(first == 0, np.abs(outcome) + (outcome == 0), outcome)
        outcome = np.where(second == 0, -np.abs(outcome) - (outcome == 0), outcome)
    weight = 10.0 ** rng.uniform(-3, 2, COUNT) if "weights" in kinds else np.ones(COUNT)
    scales = rng.uniform(0.1, 3.0, (COUNT, 2)) if "line-ups" in kinds else np.ones((COUNT, 2))
    sign = -1.0 if mirrored else 1.0
    return jk.Dataset.from_arrays(
        times,
        np.stack([first, second], axis=1),
        sign * scales * np.array([1.0, -1.0]),
        sign * outcome,
        weight=weight,
        dtype=setting.dtype,
        row_length=2 * COUNT,
    )


def _times(kinds: Set[str], rng: np.random.Generator) -> np.ndarray:
    times = np.sort(rng.uniform(0.0, 6.0, COUNT))
    if "huge gaps" in kinds:
        times = np.cumsum(10.0 ** rng.uniform(-9, 6, COUNT))
    if "one instant" in kinds:
        times[: COUNT // 2] = times[0]
        times[COUNT // 2 :] = times[-1] if "huge gaps" in kinds else times[0]
    return times + (1e12 if "far times" in kinds else 0.0)


def _pairs(kinds: Set[str], rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    first, gap = rng.integers(0, PLAYERS, COUNT), rng.integers(1, PLAYERS, COUNT)
    if "two pools" in kinds:
        half = PLAYERS // 2
        return first, first // half * half + (first % half + 1 + gap % (half - 1)) % half
    return first, (first + gap) % PLAYERS


def _outcomes(setting: Setting, rng: np.random.Generator) -> np.ndarray:
    likelihood = setting.likelihood
    if isinstance(likelihood, likelihoods.Poisson):
        return rng.choice([0.0, 1.0, 3.0, 300.0], COUNT, p=[0.3, 0.4, 0.25, 0.05])
    if isinstance(likelihood, likelihoods.Gaussian):
        # Single precision cannot tell scores of a million to a standard deviation of one.
        large = 1e3 if setting.dtype == "float32" else 1e6
        return rng.normal(size=COUNT) * rng.choice([1.0, large], COUNT, p=[0.9, 0.1])
    return rng.choice(np.array(likelihood.levels), COUNT)
