"""Can we beat FiveThirtyEight's own Elo on the games of the NBA?

    python benchmarks/best_models.py                # blocks of a week: minutes
    python benchmarks/best_models.py --every day    # as FiveThirtyEight predicts: longer

The 20,300 games from 2003-03-16 on, each block predicted from all earlier ones; parameters are
learnt on the games from the season of 1985 to that date. The difference of points is a normal
number around the difference of two scores, plus a home advantage that changes slowly, one of
each team's own, one of the playoffs, and what it costs to have played the day before, which the
schedule tells beforehand. Reads ../shared/data, or the folder in JAXKICK_DATA. Needs pandas.
"""

import argparse

import numpy as np
import pandas as pd
from paper_data import read_nba

import jaxkick as jk
from jaxkick import evaluation as ev
from jaxkick.kernels import Constant, Matern12, Matern32

START = "2003-03-16"
FIRST_SEASON = 1985


def days_since_last_game(games: pd.DataFrame) -> np.ndarray:
    """How long ago the two teams of each game have played, [games, 2]."""
    days = pd.to_datetime(games.date).to_numpy("datetime64[D]").astype(np.int64)
    sides = pd.DataFrame(
        {
            "team": np.stack([games["first"], games["second"]], axis=1).ravel(),
            "day": np.repeat(days, 2),
        }
    )
    return sides.groupby("team").day.diff().fillna(99).to_numpy().reshape(-1, 2)


def read_games() -> tuple[pd.DataFrame, jk.Dataset]:
    """The games, and what takes part in each of them."""
    games = read_nba().query(f"season >= {FIRST_SEASON}").reset_index(drop=True)
    tired = days_since_last_game(games) == 1
    teams = pd.factorize(np.concatenate([games["first"], games["second"]]))[0]
    first, second = teams.reshape(2, -1)
    number = teams.max() + 1
    one, home = np.ones(len(games)), games.home.to_numpy()
    columns = [
        (first, one),
        (second, -one),
        (number + first, home),
        (np.full(len(games), 2 * number), home),
        (np.full(len(games), 2 * number + 1), home * games.playoff),
        (np.full(len(games), 2 * number + 2), tired[:, 1] * 1.0 - tired[:, 0]),
    ]
    names = ["team"] * number + ["team at home"] * number + ["home", "playoffs", "tired"]
    features, coefficients = (np.stack(part, axis=1) for part in zip(*columns, strict=True))
    data = jk.Dataset.from_arrays(
        games.date.to_numpy(str),
        np.where(coefficients == 0, -1, features),
        coefficients,
        games.difference.to_numpy(),
        groups=lambda feature: names[feature],
    )
    return games, data


def make_model() -> jk.Model:
    """Starting values, in points."""
    return jk.Model(
        {
            "team": Matern12(17.0, lengthscale=3.3),
            "team at home": Constant(1.0),
            "home": Constant(9.0) + Matern32(1.0, lengthscale=5.0),
            "playoffs": Constant(1.0),
            "tired": Constant(3.0),
        },
        jk.likelihoods.Gaussian(130.0),
    )


def main() -> None:
    """Parse the command line, predict, compare."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--every", choices=["day", "week"], default="week")
    options = parser.parse_args()
    games, data = read_games()
    forecaster = ev.Refit(make_model(), learning={"max_steps": 12, "tol": 0.5})
    ours = ev.walk_forward(
        forecaster, data, START, every=options.every, relearn="start", ties=False, progress=True
    )
    print(f"ours\n{ours.summary()}")
    win = games.elo_prob1.to_numpy()[ours.rows]
    happened = np.where(ours.places == 1, win, 1.0 - win)
    theirs = -np.log(happened)
    print(f"\nFiveThirtyEight's Elo\nlog loss {theirs.mean():.4f}")
    print(f"accuracy {np.mean(happened > 0.5):.4f}")
    difference = ev.estimate_mean(ours.log_losses - theirs, ours.blocks)
    print(f"\nour log loss less theirs: {difference}")


if __name__ == "__main__":
    main()
