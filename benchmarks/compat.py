"""Measure a program that uses kickscore's interface with 100,000 observations.

    python benchmarks/compat.py             # 100,000 matches of 1,000 players
    python benchmarks/compat.py --size 10000

Adds simulated matches one by one, fits them, and reads scores and predictions. Prints seconds,
compilation included.
"""

import argparse
import time

import numpy as np

import jaxkick.compat.kickscore as ks


def simulate(size: int, players: int, seed: int = 0) -> list[tuple[int, int, float]]:
    """Simulate winners, losers and times with constant skills."""
    rng = np.random.default_rng(seed)
    skill = rng.normal(size=players)
    first = rng.integers(players, size=size)
    second = (first + rng.integers(1, players, size=size)) % players
    won = rng.random(size) < 1.0 / (1.0 + np.exp(skill[second] - skill[first]))
    winner, loser = np.where(won, first, second), np.where(won, second, first)
    times = np.sort(rng.uniform(0.0, 10.0, size))
    return list(zip(winner.tolist(), loser.tolist(), times.tolist(), strict=True))


def main() -> None:
    """Run the program and print the time of each part."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=100_000)
    parser.add_argument("--players", type=int, default=1_000)
    options = parser.parse_args()
    matches = simulate(options.size, options.players)
    laps = {}
    start = time.perf_counter()

    def lap(name: str) -> None:
        nonlocal start
        now = time.perf_counter()
        laps[name], start = now - start, now

    model = ks.BinaryModel()
    for name in range(options.players):
        model.add_item(name, kernel=ks.kernel.Constant(0.5) + ks.kernel.Matern32(0.5, 2.0))
    lap("add items")
    for winner, loser, t in matches:
        model.observe(winners=[winner], losers=[loser], t=t)
    lap("observe")
    converged = model.fit()
    lap("fit")
    for item in model.item.values():
        item.scores  # noqa: B018
    lap("scores of all items")
    for winner, loser, _ in matches[:100]:
        model.probabilities([winner], [loser], t=11.0)
    lap("100 predictions")
    for name, seconds in laps.items():
        print(f"{name:>20} {seconds:8.2f} s")
    print(f"{'observe and fit':>20} {laps['observe'] + laps['fit']:8.2f} s, {converged=}")


if __name__ == "__main__":
    main()
