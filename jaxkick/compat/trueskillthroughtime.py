"""Convert models and histories of TrueSkillThroughTime to jaxkick, and back.

A player's skill starts as N(mu, sigma²) and gains a variance of gamma² per unit of time. This is a
`Wiener` kernel with its origin at the player's first game. The performance of each player is the
skill plus noise of variance beta². A game of k players therefore has a probit likelihood with noise
of variance k beta². `p_draw` is the probability of a tie between equals, which corresponds to a
margin of Φ⁻¹((1 + p_draw) / 2) standard deviations of that noise.
"""

import math
from collections.abc import Hashable
from statistics import NormalDist
from typing import Any

import numpy as np

import jaxkick as jk
from jaxkick.errors import DataError
from jaxkick.kernels import Instant

__all__ = ["from_history", "from_parameters", "to_history", "to_parameters"]


def from_parameters(
    mu: float = 0.0,
    sigma: float = 6.0,
    beta: float = 1.0,
    gamma: float = 0.03,
    p_draw: float = 0.0,
) -> jk.Model:
    """Build the model of one-on-one games, with scores in units of √2 beta.

    Use it for data from `Dataset.from_pairs`, for instance.

    Args:
        mu: prior mean of skills.
        sigma: prior standard deviation of skills.
        beta: standard deviation of a player's performance.
        gamma: standard deviation that a skill gains per unit of time.
        p_draw: probability of a tie between equals.
    """
    unit = math.sqrt(2.0) * beta
    return jk.Model(_kernel(sigma / unit, gamma / unit), _likelihood(p_draw), mu / unit)


def to_parameters(model: jk.Model, beta: float = 1.0) -> dict[str, float]:
    """Convert a model of one-on-one games to arguments of `History`.

    Args:
        model: a model with one `Wiener` or `Constant` kernel, and `Probit` or `OrdinalProbit`
            with a margin.
        beta: standard deviation of a player's performance, which sets the scale of skills.

    Returns:
        `mu`, `sigma`, `beta`, `gamma` and `p_draw`.

    Raises:
        DataError: if TrueSkillThroughTime has no equivalent model.
    """
    unit = math.sqrt(2.0) * beta
    sigma, gamma = _deviations(
        model.kernel if model.newcomers is None else model.process_of("skill")
    )
    mean = model.mean_of("skill", 0, Instant.at(0.0), np.dtype(float))
    return {
        "mu": float(mean) * unit,
        "sigma": sigma * unit,
        "beta": beta,
        "gamma": gamma * unit,
        "p_draw": _p_draw(model.likelihood),
    }


def from_history(history: Any) -> tuple[jk.Model, jk.Dataset]:
    """Convert a `History` to a model and data, with scores in the units of the history.

    Posterior means and variances equal those of `history.learning_curves()` at convergence.

    Args:
        history: a `trueskillthroughtime.History` with `times` and two teams in each game. Players
            may have their own priors, beta and gamma.

    Raises:
        DataError: if a game has more than two teams, if the history has no times, or if weights
            differ from one in games that may end in a draw.
    """
    if not history.time:
        raise DataError(
            "{argument} has no `times`; time would be the number of games of each player",
            "Pass `times=` to `History`, because jaxkick needs a common time.",
            argument="history",
        )
    players = {name: agent.player for name, agent in history.agents.items()}
    times, games, outcomes = [], [], []
    for batch in history.batches:
        for event in batch.events:
            times.append(float(batch.time))
            games.append(_coefficients(event, players, history.p_draw))
            first, second = event.result
            outcomes.append(float(np.sign(first - second)))
    groups = {name: f"sigma {p.prior.sigma}, gamma {p.gamma}" for name, p in players.items()}
    kernels = {groups[name]: _kernel(p.prior.sigma, p.gamma) for name, p in players.items()}
    data = jk.Dataset.from_mappings(times, games, outcomes, groups=groups)
    means = [players[name].prior.mu for name in data.names]
    mean = means[0] if len(set(means)) == 1 else np.array(means)
    return jk.Model(kernels, _likelihood(history.p_draw), mean), data


def to_history(model: jk.Model, data: jk.Dataset) -> dict[str, Any]:
    """Convert a model and data to arguments of `trueskillthroughtime.History`.

    Args:
        model: a model with `Wiener` or `Constant` kernels, and `Probit` or `OrdinalProbit` with a
            margin.
        data: games of two sides. The coefficients of a game of k players must be ±c, with the
            same c √k in all games; one-on-one games always satisfy this.

    Returns:
        `composition`, `results`, `times`, `mu`, `sigma`, `beta`, `gamma` and `p_draw`. The
        skills are the scores, in the same units.

    Raises:
        DataError: if TrueSkillThroughTime has no equivalent model or games.
    """
    deviations = {_deviations(model.process_of(chain.group)) for chain in data.chains}
    means: set[float] = set()
    for chain in data.chains:
        features = np.unique(chain.feature)
        instant = Instant.at(np.zeros(len(features)))
        found = model.mean_of(chain.group, features, instant, chain.gap.dtype)
        means |= set(np.atleast_1d(found).tolist())
    if len(deviations) > 1 or len(means) > 1:
        raise DataError(
            f"The features differ in kernels {deviations} or prior means {means}",
            "Give all of them the same, or pass a `Player` for each as `priors` of `History`.",
        )
    ((sigma, gamma),) = deviations
    return {
        "composition": _composition(data),
        "results": [[int(max(y, 0)), int(max(-y, 0))] for y in data.observations.outcome],
        "times": data.index.times.tolist(),
        "mu": means.pop(),
        "sigma": sigma,
        "beta": 1.0 / _noise_scale(data.observations.coefficients),
        "gamma": gamma,
        "p_draw": _p_draw(model.likelihood),
    }


def _kernel(sigma: float, gamma: float) -> jk.kernels.AbstractKernel:
    if gamma == 0:
        return jk.kernels.Constant(sigma**2)
    return jk.kernels.Wiener(gamma**2, jk.kernels.FIRST, sigma**2)


def _deviations(kernel: Any) -> tuple[float, float]:
    """Return `sigma` and `gamma` of a kernel."""
    if isinstance(kernel, jk.kernels.Constant):
        return math.sqrt(float(kernel.variance.value)), 0.0
    if isinstance(kernel, jk.kernels.Wiener) and kernel.origin is jk.kernels.FIRST:
        sigma, gamma = kernel.origin_variance.value, kernel.variance.value
        return math.sqrt(float(sigma)), math.sqrt(float(gamma))
    raise DataError(
        f"TrueSkillThroughTime has no {kernel}",
        "Use `Wiener(variance, FIRST, origin_variance)` or `Constant(variance)`.",
    )


def _likelihood(p_draw: float) -> jk.likelihoods.AbstractLikelihood:
    if p_draw == 0:
        return jk.likelihoods.Probit()
    return jk.likelihoods.OrdinalProbit(margin=NormalDist().inv_cdf((1.0 + p_draw) / 2.0))


def _p_draw(likelihood: Any) -> float:
    if isinstance(likelihood, jk.likelihoods.Probit):
        return 0.0
    if isinstance(likelihood, jk.likelihoods.OrdinalProbit) and likelihood.margin is not None:
        return 2.0 * NormalDist().cdf(float(likelihood.margin.value)) - 1.0
    raise DataError(
        f"TrueSkillThroughTime has no {likelihood}", "Use `Probit` or `OrdinalProbit(margin=)`."
    )


def _coefficients(event: Any, players: Any, p_draw: float) -> dict[Hashable, float]:
    """Compute the coefficients of a game's players, in units of the noise of its outcome."""
    if len(event.names) != 2:
        raise DataError(f"{event} has {len(event.names)} teams, but jaxkick's games have two sides")
    weights = event.weights or [[1.0] * len(team) for team in event.names]
    if p_draw > 0 and any(weight != 1.0 for team in weights for weight in team):
        raise DataError(
            f"{event} has weights and may end in a draw, so its margin depends on the weights"
        )
    signed = {}
    for team, share, sign in zip(event.names, weights, (1.0, -1.0), strict=True):
        signed |= {name: sign * weight for name, weight in zip(team, share, strict=True)}
    noise = math.hypot(*(weight * players[name].beta for name, weight in signed.items()))
    return {name: weight / noise for name, weight in signed.items()}


def _noise_scale(coefficients: np.ndarray) -> float:
    """Return c √k, where each game of k players has coefficients ±c."""
    counts = (coefficients != 0).sum(axis=1)
    largest = np.abs(coefficients).max(axis=1)
    unequal = ~np.isclose(np.abs(coefficients).sum(axis=1), counts * largest)
    scales = largest * np.sqrt(counts)
    different = unequal | ~np.isclose(scales, scales[0])
    if different.any():
        row = int(np.argmax(different))
        raise DataError(
            f"The coefficients are {coefficients[row].tolist()}",
            "TrueSkillThroughTime needs ±c for k players, with the same c √k in all games.",
            row=row,
            count=int(different.sum()),
        )
    return float(scales[0])


def _composition(data: jk.Dataset) -> list[list[list[Hashable]]]:
    """List the names of both teams of each game."""
    features, coefficients = data.observations.features, data.observations.coefficients
    return [
        [[data.names[m] for m, x in zip(*game, strict=True) if sign * x > 0] for sign in (1, -1)]
        for game in zip(features.tolist(), coefficients.tolist(), strict=True)
    ]
