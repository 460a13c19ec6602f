"""Compare variances under the factorised posterior with exact inference, on one season of the NBA.

    python benchmarks/intervals.py

Outcomes are differences of points with a Gaussian likelihood, so the exact posterior is Gaussian
process regression. Prints the mean ratio of variances (factorised / exact) of single skills and of
the difference in each game, for several kernels; and the largest error of the joint variances of
`Posterior.scores`, which are interpolated between 16 times of each team. Then compares forecasts of
results with `joint=False` and `joint=True`: the Bundesliga's second half of 2008/09, week by week.
Reads the folder in JAXKICK_DATA, or ../shared/data. Needs pandas (the `dev` extra).
"""

import time

import jax
import numpy as np
import pandas as pd
from paper_data import as_pairs, read_nba

import jaxkick as jk

SEASON = 2018
# Variance of the level; variance and lengthscale of the fluctuations; variance of the noise. The
# first are the paper's.
PARAMETERS = [
    (0.059, 17.667, 3.310, 143.451),
    (9.0, 9.0, 3.0, 143.0),
    (17.0, 1.0, 3.0, 143.0),
    (3.5, 14.5, 1.0, 158.0),
]


def compare(
    games: pd.DataFrame, level: float, variance: float, lengthscale: float, noise: float
) -> tuple[float, float, float]:
    """Return mean ratios of variances of single skills and of differences, and the joint error."""
    data = as_pairs(games, points=True)
    kernel = jk.kernels.Constant(level) + jk.kernels.Matern12(variance, lengthscale)
    posterior = jk.infer(jk.Model(kernel, jk.likelihoods.Gaussian(noise)), data, tol=1e-5)

    count = len(games)
    times = np.tile(data.observations.times, 2)
    teams = np.concatenate([games["first"], games["second"]])
    gap = np.abs(times[:, None] - times)
    same = teams[:, None] == teams
    prior = same * (level + variance * np.exp(-gap / lengthscale))
    design = np.hstack([np.eye(count), -np.eye(count)])
    cross = prior @ design.T
    exact = prior - cross @ np.linalg.solve(design @ cross + noise * np.eye(count), cross.T)

    dates = np.tile(games["date"].to_numpy(str), 2)
    single, joint = np.empty((2, 2 * count))
    for team in set(teams):
        own = teams == team
        single[own] = posterior.scores(team, dates[own], joint=False).variance
        joint[own] = posterior.scores(team, dates[own], joint=True).variance
    differences = np.diag(design @ exact @ design.T)
    return (
        float(np.mean(single / np.diag(exact))),
        float(np.mean(np.asarray(posterior.observations.variance) / differences)),
        float(np.max(np.abs(joint / np.diag(exact) - 1.0))),
    )


def compare_forecasts() -> None:
    """Compare probabilities, log losses and times of both kinds of forecasts."""
    games = pd.DataFrame(jk.datasets.load_bundesliga())
    games = games.assign(date=games.date.astype(str)).tail(14 * 306)
    columns = {"time": "date", "first": "home", "second": "away", "home": True}
    results = ("home_goals", "away_goals")
    rest = games[games.date >= "2009-01-15"]
    weeks = np.arange(len(rest)) // 9
    data = jk.Dataset.from_frame(games[games.date < "2009-01-15"], result=results, **columns)
    posterior = jk.infer(jk.learn(jk.suggest_model(data), data)[0], data)
    found: dict[bool, list[np.ndarray]] = {False: [], True: []}
    taken = dict.fromkeys(found, 0.0)
    for week in np.unique(weeks):
        fixtures = rest[weeks == week]
        for joint, parts in found.items():
            begin = time.perf_counter()
            table = posterior.forecast(fixtures, joint=joint)
            taken[joint] = time.perf_counter() - begin
            parts.append(table[["p_loss", "p_tie", "p_win"]].to_numpy())
        posterior = posterior.update(fixtures)
    alone, joint = (np.concatenate(parts) for parts in found.values())
    lead = np.sign(rest[results[0]] - rest[results[1]]).to_numpy(int)
    rows = np.arange(len(rest))
    losses = [-np.log(p[rows, lead + 1]) for p in (alone, joint)]
    print(
        f"{len(rest)} forecasts: log loss {losses[0].mean():.5f}, joint {losses[1].mean():.5f}; "
        f"largest difference of a probability {np.abs(joint - alone).max():.5f}; the last week "
        f"in {1e3 * taken[False]:.0f} ms, joint {1e3 * taken[True]:.0f} ms"
    )


def main() -> None:
    """Print one line for each set of parameters, and one for forecasts."""
    jax.config.update("jax_enable_x64", True)
    compare_forecasts()
    games = read_nba()
    games = games[games.season == SEASON].reset_index(drop=True)
    for parameters in PARAMETERS:
        single, difference, joint = compare(games, *parameters)
        print(
            f"{parameters}: single skills {single:.3f}, differences {difference:.3f}, "
            f"largest joint error {joint:.4f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
