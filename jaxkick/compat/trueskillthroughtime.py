"""To and from TrueSkillThroughTime: its parameters, and whole histories of two-sided games.

A player's skill begins as N(mu, sigma²) and gains gamma² of variance in a unit of time: a
`Wiener` kernel with its origin at the player's first game. Every player of a game performs
with noise of variance beta² around the skill, so that k players on both sides together make
a probit likelihood whose noise has the variance k beta², and `p_draw` is the probability of a
tie between equals: a margin of Φ⁻¹((1 + p_draw) / 2) such deviations.
"""

import math
from collections.abc import Hashable
from statistics import NormalDist
from typing import Any

import numpy as np

import jaxkick as jk

__all__ = ["from_history", "from_parameters", "to_history", "to_parameters"]


def from_parameters(
    mu: float = 0.0,
    sigma: float = 6.0,
    beta: float = 1.0,
    gamma: float = 0.03,
    p_draw: float = 0.0,
) -> jk.Model:
    """The model of games of one against one, with scores in units of √2 beta.

    Args:
        mu: prior mean of skills.
        sigma: prior standard deviation of skills.
        beta: standard deviation of a player's performance.
        gamma: standard deviation that a skill gains in a unit of time.
        p_draw: probability of a tie between equals.

    Returns:
        The model, for data such as `Dataset.from_pairs` makes.
    """
    unit = math.sqrt(2.0) * beta
    return jk.Model(_kernel(sigma / unit, gamma / unit), _likelihood(p_draw), mu / unit)


def to_parameters(model: jk.Model, beta: float = 1.0) -> dict[str, float]:
    """The parameters of games of one against one, as arguments of `History`.

    Args:
        model: with one `Wiener` or `Constant` kernel, and `Probit` or `OrdinalProbit` with a
            margin.
        beta: standard deviation of a player's performance, which sets the scale of skills.

    Returns:
        `mu`, `sigma`, `beta`, `gamma` and `p_draw`.

    Raises:
        ValueError: if TrueSkillThroughTime has no such model.
    """
    unit = math.sqrt(2.0) * beta
    sigma, gamma = _deviations(model.kernel)
    mean = model.mean_of("default", 0, np.dtype(float))
    return {
        "mu": float(mean) * unit,
        "sigma": sigma * unit,
        "beta": beta,
        "gamma": gamma * unit,
        "p_draw": _p_draw(model.likelihood),
    }


def from_history(history: Any) -> tuple[jk.Model, jk.Dataset]:
    """Model and data of a `History`, with scores in its own units.

    The posterior means and variances are those of `history.learning_curves()` at convergence.

    Args:
        history: a `trueskillthroughtime.History` with `times`, whose games have two teams.
            Players may have their own priors, beta and gamma.

    Returns:
        The model and the data.

    Raises:
        ValueError: if a game has more than two teams, if the history has no times, or if weights
            differ from one in games that may end in a draw.
    """
    if not history.time:
        raise ValueError(
            "`history` has no `times`: its players then age by their own games, which one clock "
            "cannot tell; pass `times=` to `History`."
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
    """Arguments of `trueskillthroughtime.History` for model and data.

    Args:
        model: with `Wiener` or `Constant` kernels, and `Probit` or `OrdinalProbit` with a margin.
        data: games of two sides whose coefficients are all ±c, with c √k the same for all
            games of k players: a game of one against one always is.

    Returns:
        `composition`, `results`, `times`, `mu`, `sigma`, `beta`, `gamma` and `p_draw`. The
        skills are the scores, in the same units.

    Raises:
        ValueError: if TrueSkillThroughTime has no such model or games.
    """
    deviations = {_deviations(model.kernel_of(chain.group)) for chain in data.chains}
    means = {mean for chain in data.chains for mean in _means(model, chain)}
    if len(deviations) > 1 or len(means) > 1:
        raise ValueError(
            f"features differ in their kernels {deviations} or prior means {means}; give all of "
            "them the same, or write a `Player` for each into `priors` of `History`."
        )
    ((sigma, gamma),) = deviations
    return {
        "composition": _composition(data),
        "results": [[int(max(y, 0)), int(max(-y, 0))] for y in np.asarray(data.outcome)],
        "times": data.index.times.tolist(),
        "mu": means.pop(),
        "sigma": sigma,
        "beta": 1.0 / _noise_scale(np.asarray(data.coefficients)),
        "gamma": gamma,
        "p_draw": _p_draw(model.likelihood),
    }


def _kernel(sigma: float, gamma: float) -> jk.kernels.AbstractKernel:
    if gamma == 0:
        return jk.kernels.Constant(sigma**2)
    return jk.kernels.Wiener(gamma**2, jk.kernels.FIRST, sigma**2)


def _deviations(kernel: Any) -> tuple[float, float]:
    """`sigma` and `gamma` of a kernel."""
    if isinstance(kernel, jk.kernels.Constant):
        return math.sqrt(float(kernel.variance.value)), 0.0
    if isinstance(kernel, jk.kernels.Wiener) and kernel.origin is jk.kernels.FIRST:
        variances = kernel.origin_variance.value, kernel.variance.value
        return tuple(math.sqrt(float(variance)) for variance in variances)
    raise ValueError(
        f"TrueSkillThroughTime has no {kernel}; it has `Wiener(variance, FIRST, origin_variance)` "
        "and `Constant(variance)`."
    )


def _means(model: jk.Model, chain: Any) -> list[float]:
    """The different prior means of the features of a chain."""
    features = np.unique(chain.feature)
    return np.unique(model.mean_of(chain.group, features, chain.gap.dtype)).tolist()


def _likelihood(p_draw: float) -> jk.likelihoods.AbstractLikelihood:
    if p_draw == 0:
        return jk.likelihoods.Probit()
    return jk.likelihoods.OrdinalProbit(margin=NormalDist().inv_cdf((1.0 + p_draw) / 2.0))


def _p_draw(likelihood: Any) -> float:
    if isinstance(likelihood, jk.likelihoods.Probit):
        return 0.0
    if isinstance(likelihood, jk.likelihoods.OrdinalProbit) and likelihood.margin is not None:
        return 2.0 * NormalDist().cdf(float(likelihood.margin.value)) - 1.0
    raise ValueError(
        f"TrueSkillThroughTime has no {likelihood}; it has `Probit` and `OrdinalProbit(margin)`."
    )


def _coefficients(event: Any, players: Any, p_draw: float) -> dict[Hashable, float]:
    """The coefficients of a game's players, in units of the noise of its outcome."""
    if len(event.names) != 2:
        raise ValueError(f"{event} has {len(event.names)} teams; jaxkick's games have two sides.")
    weights = event.weights or [[1.0] * len(team) for team in event.names]
    if p_draw > 0 and any(weight != 1.0 for team in weights for weight in team):
        raise ValueError(f"{event} has weights and may end in a draw; its margin is its own.")
    signed = {}
    for team, share, sign in zip(event.names, weights, (1.0, -1.0), strict=True):
        signed |= {name: sign * weight for name, weight in zip(team, share, strict=True)}
    noise = math.hypot(*(weight * players[name].beta for name, weight in signed.items()))
    return {name: weight / noise for name, weight in signed.items()}


def _noise_scale(coefficients: np.ndarray) -> float:
    """c √k, where every game of k players has coefficients ±c."""
    counts = (coefficients != 0).sum(axis=1)
    largest = np.abs(coefficients).max(axis=1)
    unequal = ~np.isclose(np.abs(coefficients).sum(axis=1), counts * largest)
    scales = largest * np.sqrt(counts)
    different = unequal | ~np.isclose(scales, scales[0])
    if different.any():
        row = int(np.argmax(different))
        raise ValueError(
            f"the coefficients of observation {row} are {coefficients[row].tolist()}; "
            "TrueSkillThroughTime wants ±c for k players, with the same c √k in all games."
        )
    return float(scales[0])


def _composition(data: jk.Dataset) -> list[list[list[Hashable]]]:
    """The names of both teams of every game."""
    numbers = np.concatenate([np.ravel(chain.feature) for chain in data.chains] + [[-1]])
    features, coefficients = numbers[np.asarray(data.slots)], np.asarray(data.coefficients)
    return [
        [[data.names[m] for m, x in zip(*game, strict=True) if sign * x > 0] for sign in (1, -1)]
        for game in zip(features.tolist(), coefficients.tolist(), strict=True)
    ]
