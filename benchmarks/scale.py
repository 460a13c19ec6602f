"""Measure time to convergence by number of games, number of cores and floating-point type.

    python benchmarks/scale.py            # 10⁴ to 7.17 × 10⁶ games: half an hour or more
    python benchmarks/scale.py --quick    # up to 10⁵ games: two minutes

A simulated league of the size of the paper's chess data (its figure on scalability): 343,668
players with heavy-tailed activity, and 7,169,202 games over five centuries with wins and ties. The
paper reports slightly over 5 s per iteration for a Go program with 16 threads on a server. Each
case runs in its own process.
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
    """Simulate a league; the number of players is proportional to the number of games."""
    rng = np.random.default_rng(seed)
    players = max(20, round(PLAYERS * games / GAMES))
    # As in the chess data, few players have thousands of games and most have a handful.
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
    """Return the peak resident size of this process."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def run(games: int, devices: int, dtype: str, kernel: str, first_move: bool) -> dict:
    """Measure encoding and inference of a league."""
    if devices == 1:
        # Without this, one device would use all cores for large arrays.
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
        {"skill": players, "advantage": jk.kernels.Constant(0.1)},
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

    def fit() -> tuple[float, int]:
        start = time.perf_counter()
        posterior = jk.infer(model, data)
        jax.block_until_ready(posterior.sites)
        return time.perf_counter() - start, int(posterior.steps)

    first, steps = fit()
    seconds = min(fit()[0] for _ in range(2))
    return {
        "encode": encoded,
        "first": first,
        "seconds": seconds,
        "steps": steps,
        "peak": peak_bytes(),
    }


def in_a_process(*case: object) -> dict:
    """Run one case in its own process and parse its last line."""
    command = [sys.executable, __file__, "--case", *map(str, case)]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return json.loads(output.splitlines()[-1])


def compare(sizes: list[int]) -> None:
    """Print one row for each case."""
    cores = min(2, os.cpu_count() or 1)
    print(
        "games | kernel | first move | bits | cores | encoding s | with compilation s | "
        "to convergence s | iterations | µs per game | bytes per game"
    )
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
                f"{found['encode']:.1f} | {found['first']:.1f} | {found['seconds']:.3f} | "
                f"{found['steps']} | {1e6 * found['seconds'] / games:.2f} | "
                f"{found['peak'] / games:.0f}",
                flush=True,
            )


def main() -> None:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="up to 10⁵ games only")
    parser.add_argument("--games", type=int, nargs="+", help="numbers of games")
    parser.add_argument("--case", nargs=5, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.case:
        games, devices, dtype, kernel, first_move = options.case
        print(json.dumps(run(int(games), int(devices), dtype, kernel, bool(int(first_move)))))
        return
    compare(options.games or list(SIZES[:2] if options.quick else SIZES))


if __name__ == "__main__":
    main()
