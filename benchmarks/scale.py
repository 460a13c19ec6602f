"""How does the cost of an iteration grow with the number of games, cores and bits?

    python benchmarks/scale.py            # 10⁴ to 7.17 × 10⁶ games: half an hour
    python benchmarks/scale.py --quick    # up to 10⁵ games: two minutes

A synthetic league in the likeness of the chess data of the paper (its figure on
scalability): 343,668 players with heavy-tailed activity, 7,169,202 games over five
centuries, wins and ties. The paper reports slightly over 5 s an iteration with 16 threads of a
server, in Go. Every case runs in a process of its own.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import time

import numpy as np

PLAYERS, GAMES = 343_668, 7_169_202
SIZES = (10_000, 100_000, 1_000_000, GAMES)


def make_league(games: int, seed: int = 0) -> dict[str, np.ndarray]:
    """Players, dates and outcomes of a league; its number of players grows with its games."""
    rng = np.random.default_rng(seed)
    players = max(20, round(PLAYERS * games / GAMES))
    # A few players have thousands of games, most have a handful, as in the chess data.
    activity = np.cumsum((rng.permutation(players) + 10.0) ** -0.8)
    activity /= activity[-1]
    birth = 2017.0 - 540.0 * rng.beta(0.6, 12.0, players)
    first = np.searchsorted(activity, rng.random(games))
    second = np.searchsorted(activity, rng.random(games))
    second = np.where(second == first, (first + 1) % players, second)
    start = np.maximum(birth[first], birth[second])
    times = start + 25.0 * rng.random(games) * np.minimum(1.0, (2018.0 - start) / 25.0)
    skill = rng.normal(size=players)
    margin = 0.4 * (skill[first] - skill[second]) + 0.1 + rng.normal(size=games)
    outcome = np.where(np.abs(margin) < 0.4, 0.0, np.sign(margin))
    return {"times": times, "first": first, "second": second, "outcome": outcome}


def peak_bytes() -> int:
    """The largest resident size of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def run(games: int, devices: int, dtype: str, kernel: str, first_move: bool) -> dict:
    """Encode a league and time the steps of inference."""
    if devices == 1:
        # One device would use the other cores for large arrays.
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    import jax

    jax.config.update("jax_num_cpu_devices", devices)
    jax.config.update("jax_enable_x64", dtype == "float64")
    import jaxkick as jk

    dynamics = {
        "wiener": jk.kernels.Wiener(0.01, origin=jk.kernels.FIRST),
        "matern12": jk.kernels.Matern12(0.2, 10.0),
    }[kernel]
    players = jk.kernels.Constant(0.2) + dynamics
    model = jk.Model(
        {"default": players, "advantage": jk.kernels.Constant(0.1)},
        jk.likelihoods.OrdinalProbit(0.4),
    )
    table = make_league(games)
    start = time.perf_counter()
    extra = {"covariates": {"first move": 1.0}, "groups": {"first move": "advantage"}}
    data = jk.Dataset.from_pairs(**table, dtype=dtype, unit="year", **(extra if first_move else {}))
    if devices > 1:
        data = data.shard(jax.make_mesh((devices,), ("rows",)))
    encoded = time.perf_counter() - start
    del table

    def fit(steps: int) -> float:
        start = time.perf_counter()
        posterior = jk.infer(model, data, tol=0.0, max_steps=steps, throw=False)
        jax.block_until_ready(posterior.sites)
        return time.perf_counter() - start

    first = fit(2)
    short, long = (min(fit(steps) for _ in range(2)) for steps in (2, 8))
    step = (long - short) / 6
    return {
        "games": games,
        "encode": encoded,
        "first": first,
        "step": step,
        "each": 1e9 * step / games,
        "peak": peak_bytes(),
    }


def in_a_process(*case: object) -> dict:
    """Run one case alone and read what it prints last."""
    command = [sys.executable, __file__, "--case", *map(str, case)]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return json.loads(output.splitlines()[-1])


def compare(sizes: list[int]) -> None:
    """Print a row for every case."""
    cores = min(2, os.cpu_count() or 1)
    print("games | kernel | first move | bits | cores | encode s | s a step | ns a game | B a game")
    cases = [
        (kernel, first_move, dtype, devices)
        for kernel, first_move, dtype in (
            ("wiener", False, "float64"),
            ("wiener", True, "float64"),
            ("matern12", False, "float64"),
            ("matern12", False, "float32"),
        )
        for devices in sorted({1, cores})
    ]
    for games in sizes:
        for kernel, first_move, dtype, devices in cases:
            found = in_a_process(games, devices, dtype, kernel, int(first_move))
            print(
                f"{games} | {kernel} | {first_move} | {dtype[-2:]} | {devices} | "
                f"{found['encode']:.1f} | {found['step']:.4f} | {found['each']:.0f} | "
                f"{found['peak'] / games:.0f}",
                flush=True,
            )


def main() -> None:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="up to 10⁵ games only")
    parser.add_argument("--games", type=int, nargs="+", help="the numbers of games")
    parser.add_argument("--case", nargs=5, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.case:
        games, devices, dtype, kernel, first_move = options.case
        print(json.dumps(run(int(games), int(devices), dtype, kernel, bool(int(first_move)))))
        return
    compare(options.games or list(SIZES[:2] if options.quick else SIZES))


if __name__ == "__main__":
    main()
