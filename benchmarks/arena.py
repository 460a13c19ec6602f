"""Count the votes that it takes to find the best of many models, by how pairs are chosen.

    python benchmarks/arena.py
    python benchmarks/arena.py --strategies closest --seeds 3 --round 40 --most 1600

A simulated arena: skills are standard normal, votes follow the probit model, and every model has
five votes at first. Votes come in rounds; after each, the posterior is updated. A strategy stops
when one model is the best with probability 0.95. Prints the median number of votes over seeds, and
in how many of them the model was indeed the best. Each arena has a process of its own, so that the
programs of many updates do not add up.
"""

import argparse
import multiprocessing
from concurrent.futures import ProcessPoolExecutor

import jax
import numpy as np

import jaxkick as jk

STRATEGIES = ("suggested", "random", "closest")


def pick_pairs(strategy: str, posterior: jk.Posterior, n: int, random: np.random.Generator):
    """Choose the pairs of one round; also return the favourite and its probability."""
    found = posterior.suggest_matches(n=n if strategy == "suggested" else 1, goal="best")
    if strategy == "suggested":
        first, second = found.first, found.second
    elif strategy == "random":
        names = posterior.data.names
        chosen = [random.choice(len(names), 2, replace=False) for _ in range(n)]
        first, second = np.array(names)[np.array(chosen)].T
    else:
        board = posterior.leaderboard()
        gaps = -np.diff(board["rating"]) * np.exp(0.5 * random.normal(size=len(board["name"]) - 1))
        place = np.argsort(gaps)[:n]
        first, second = board["name"][place], board["name"][place + 1]
    return first, second, found.best, found.p_best


def run(strategy: str, seed: int, models: int, n: int, most: int, wanted: float):
    """Vote until the best is known; return the number of votes and whether it is right."""
    jax.config.update("jax_enable_x64", True)
    random = np.random.default_rng(seed)
    skills = random.normal(size=models)
    names = np.array([f"model {k:02d}" for k in range(models)])

    def vote(first: np.ndarray, second: np.ndarray) -> jk.Dataset:
        places = [np.searchsorted(names, side) for side in (first, second)]
        noise = random.normal(size=len(first))
        outcome = np.where(skills[places[0]] - skills[places[1]] + noise > 0, 1.0, -1.0)
        return jk.Dataset.from_pairs(np.zeros(len(first)), first, second, outcome)

    rounds = [np.roll(names, -shift) for shift in (1, 2, 5, 11, 17)]
    data = vote(np.tile(names, len(rounds)), np.concatenate(rounds))
    model = jk.Model(jk.kernels.Constant(1.0), jk.likelihoods.Probit())
    posterior = jk.infer(model, data)
    while True:
        first, second, best, chance = pick_pairs(strategy, posterior, n, random)
        count = len(posterior.data)
        if chance >= wanted or count >= most:
            return count, best == names[np.argmax(skills)], chance >= wanted
        posterior = posterior.update(vote(first, second))


def main() -> None:
    """Run all strategies on the same arenas."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--strategies", nargs="*", choices=STRATEGIES, default=STRATEGIES)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--models", type=int, default=40)
    parser.add_argument("--round", type=int, default=20, help="votes of a round")
    parser.add_argument("--most", type=int, default=4000, help="stop after so many votes")
    parser.add_argument("--probability", type=float, default=0.95)
    arguments = parser.parse_args()
    options = (arguments.models, arguments.round, arguments.most, arguments.probability)
    spawn = multiprocessing.get_context("spawn")
    for strategy in arguments.strategies:
        with ProcessPoolExecutor(1, spawn, max_tasks_per_child=1) as pool:
            seeds = range(arguments.seeds)
            tasks = [pool.submit(run, strategy, seed, *options) for seed in seeds]
            runs = [task.result() for task in tasks]
        votes, right, ended = np.array(runs).T
        print(
            f"{strategy:10} median votes {np.median(votes):6.0f} (range {votes.min()} to "
            f"{votes.max()}), decided {int(ended.sum())} of {len(runs)}, right {int(right.sum())}",
            flush=True,
        )


if __name__ == "__main__":
    main()
