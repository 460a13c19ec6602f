"""Experiments of the paper other than backtests: intransitivity, exact inference, speed."""

import time
from typing import Any

import numpy as np
import pandas as pd
from paper_data import FOLDER, as_pairs, read_nba
from scipy.linalg import solve_triangular
from scipy.special import log_ndtr
from scipy.stats import norm

import jaxkick as jk
from jaxkick import evaluation as ev
from jaxkick.kernels import Constant, Matern12
from jaxkick.likelihoods import Gaussian, Probit

# Variances of players and of pairs (paper, appendix B.2).
STARCRAFT = {"wol": (4.821, 3.734), "hots": (4.996, 4.342)}
SPLITS = 10
FIRST_MONDAY = np.datetime64("1900-01-01")
MATERN, CONSTANT, NOISE = (17.667, 3.310), 0.059, 143.451


def starcraft(name: str, model: str, setting: Any, *, learnt: bool = False) -> list[float | None]:
    """Compute the log loss on 30 % of the games from a random 50 %, over several splits.

    The paper uses the remaining 20 % to choose its parameters. `naive` is the frequency of wins of
    each pair, with one win added for each side.

    Returns:
        Mean and standard deviation over the splits.
    """
    games = pd.read_csv(FOLDER / f"starcraft_{name}.csv.gz").query("winner != loser")
    losses = [
        _starcraft_loss(games, model, STARCRAFT[name], seed, learnt)
        for seed in range(2 if setting.quick else SPLITS)
    ]
    return [float(np.mean(losses)), float(np.std(losses, ddof=1))]


def _starcraft_loss(
    games: pd.DataFrame, model: str, variances: tuple, seed: int, learnt: bool
) -> float:
    rank = np.random.default_rng(seed).permutation(len(games)) / len(games)
    train, test = rank < 0.5, rank >= 0.7
    low, high = np.sort(games[["winner", "loser"]].to_numpy(), axis=1).T
    won_by_low = np.where(games.winner == low, 1.0, -1.0)
    pair = pd.factorize(low.astype(np.int64) * 1_000_000 + high)[0]
    if model == "naive":
        wins = np.bincount(pair[train], weights=won_by_low[train] > 0, minlength=pair.max() + 1)
        total = np.bincount(pair[train], minlength=pair.max() + 1)
        chance = ((wins + 1) / (total + 2))[pair]
        return float(-np.mean(np.log(np.where(won_by_low > 0, chance, 1 - chance)[test])))
    players = 1 + max(low.max(), high.max())
    features = np.stack([low, high, players + pair], axis=1)
    coefficients = np.tile([1.0, -1.0, 1.0 if model == "ours" else 0.0], (len(games), 1))

    def encode(rows: np.ndarray) -> jk.Dataset:
        return jk.Dataset.from_arrays(
            np.zeros(rows.sum()),
            features[rows],
            coefficients[rows],
            won_by_low[rows],
            groups=lambda number: "player" if number < players else "pair",
        )

    kernels = {"player": Constant(variances[0]), "pair": Constant(variances[1])}
    skills = jk.Model(kernels, Probit())
    if learnt:
        skills, _ = jk.learn(skills, encode(train))
    posterior = jk.infer(skills, encode(train | ~train), mask=train)
    mean, variance = (np.asarray(part) for part in posterior.observations)
    return float(-np.mean(log_ndtr(won_by_low * mean / np.sqrt(1 + variance))[test]))


def mean_field(exact: bool, setting: Any, *, learnt: bool = False) -> list[float | None]:
    """Backtest the last season of the NBA from 2000 to 2005 week by week, on points."""
    games = read_nba()
    games = games[(games.date >= "2000-08-01") & (games.date < "2005-08-01")].reset_index(drop=True)
    data = as_pairs(games, points=True)
    start = np.datetime64("2005-05-15" if setting.quick else "2004-08-01")
    model = jk.Model(Constant(CONSTANT) + Matern12(*MATERN), Gaussian(NOISE))
    if learnt:
        model, _ = jk.learn(model, as_pairs(games[games.date < str(start)], points=True))

    if not exact:
        forecasts = ev.walk_forward(ev.Refit(model, tol=0.01), data, start, every="week")
        chances, labels = forecasts.probabilities, forecasts.labels
    else:
        dates = games.date.to_numpy("datetime64[D]")
        weeks = (dates - FIRST_MONDAY).astype(int) // 7
        win, tested = _exact_chances(games, model, data.index.times, weeks, dates >= start)
        labels = (games.difference.to_numpy()[tested] > 0).astype(int)
        chances = np.stack([1 - win, win], axis=1)
    return [
        float(np.mean(ev.log_loss(chances, labels))),
        float(np.mean(ev.accuracy(chances, labels))),
    ]


def _exact_chances(
    games: pd.DataFrame,
    model: jk.Model,
    times: np.ndarray,
    blocks: np.ndarray,
    tested: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Compute win probabilities under the exact posterior.

    The Cholesky factor of the first rows is a corner of the factor of all rows, so one
    factorization serves all blocks.

    Returns:
        The probabilities and their rows.
    """
    order = np.argsort(times, kind="stable")
    codes = pd.factorize(np.concatenate([games["first"], games["second"]]))[0].reshape(2, -1)
    design = np.zeros((len(games), codes.max() + 1))
    for side, sign in zip(codes, (1.0, -1.0), strict=True):
        design[np.arange(len(games)), side] = sign
    design, times, blocks = design[order], times[order], blocks[order]
    y = games.difference.to_numpy()[order]
    gap = np.abs(times[:, None] - times)
    constant, matern = model.kernel_of("skill").terms
    level, spread, scale, noise = (
        float(part.value)
        for part in (
            constant.variance,
            matern.variance,
            matern.lengthscale,
            model.likelihood.variance,
        )
    )
    prior = (design @ design.T) * (level + spread * np.exp(-gap / scale))
    factor = np.linalg.cholesky(prior + noise * np.eye(len(y)))
    white = solve_triangular(factor, y, lower=True)
    chances = np.full(len(y), np.nan)
    for block in np.unique(blocks[tested[order]]):
        rows = np.flatnonzero(blocks == block)
        past = factor[rows, : rows[0]]
        variance = prior[rows, rows] - np.sum(past**2, axis=1) + noise
        chances[rows] = norm.cdf(past @ white[: rows[0]] / np.sqrt(variance))
    chosen = tested[order]
    return chances[chosen], order[chosen]


def scalability(matches: int, setting: Any) -> list[float | None]:
    """Measure seconds per iteration of EP, with 21 matches per player as in the chess data."""
    if setting.quick and matches > 1_000_000:
        return [None]
    random = np.random.default_rng(0)
    players = max(2, matches // 21)
    # Few players have many games, as in real data.
    first = (players * random.random(matches) ** 2).astype(np.int32)
    second = (first + 1 + (players - 1) * random.random(matches)).astype(np.int32) % players
    data = jk.Dataset.from_arrays(
        40.0 * random.random(matches),
        np.stack([first, second], axis=1),
        np.tile([1.0, -1.0], (matches, 1)),
        random.choice([-1.0, 1.0], matches),
    )
    model = jk.Model(Constant(0.3) + Matern12(0.2, 30.0), Probit())

    def seconds_per_iteration() -> float:
        start = time.perf_counter()
        posterior = jk.infer(model, data)
        posterior.observations.mean.block_until_ready()
        return (time.perf_counter() - start) / int(posterior.steps)

    seconds_per_iteration()
    return [min(seconds_per_iteration() for _ in range(2))]
