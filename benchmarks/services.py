"""Serve leagues of many sizes in one process: fit, predict, rank and update each.

    python benchmarks/services.py --leagues 500

Every league has 30 to 3,000 matches of 5 to 40 teams. Linux allows a process 65,530 memory maps,
and every compiled program takes some of them. Prints how many programs were compiled, and how
many memory maps and how much memory the process has.
"""

import argparse
import time
from collections import Counter
from pathlib import Path

import numpy as np

COMPILED = "/jax/core/compile/backend_compile_duration"


def draw_league(generator: np.random.Generator, matches: int, teams: int, begin: float) -> dict:
    """Draw random matches within five years."""
    first = generator.integers(0, teams, matches)
    return {
        "time": begin + np.sort(generator.uniform(0.0, 5.0, matches)),
        "first": first,
        "second": (first + generator.integers(1, teams, matches)) % teams,
        "outcome": generator.choice([-1, 0, 1], matches),
    }


def serve(jk, model, generator: np.random.Generator) -> None:
    """Fit a league, predict a round, rank its teams, and add the round."""
    matches = int(np.exp(generator.uniform(np.log(30), np.log(3000))))
    teams = int(generator.integers(5, 41))
    columns = {name: name for name in ("time", "first", "second", "outcome")}
    league = draw_league(generator, matches, teams, 0.0)
    data = jk.Dataset.from_frame(league, **columns, home=True)
    posterior = jk.infer(model, data)
    coming = draw_league(generator, int(generator.integers(1, 20)), teams, 6.0)
    known = [np.isin(coming[side], data.names) for side in ("first", "second")]
    coming = {name: column[known[0] & known[1]] for name, column in coming.items()}
    if len(coming["time"]):
        posterior.predict(coming["first"], coming["second"], coming["time"], home=1).to_frame()
        posterior = posterior.update(coming)
    posterior.leaderboard()


def main() -> None:
    """Serve leagues; print a row after every twentieth part of them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--leagues", type=int, default=500)
    arguments = parser.parse_args()
    import jax

    import jaxkick as jk

    jax.config.update("jax_enable_x64", True)
    programs: Counter[str] = Counter()
    jax.monitoring.register_event_duration_secs_listener(
        lambda event, _, **__: programs.update([event])
    )
    kernel = jk.kernels.Constant(0.1) + jk.kernels.Matern32(variance=0.3, lengthscale=2.0)
    kernels = {"skill": kernel, "home": jk.kernels.Constant(0.1)}
    model = jk.Model(kernels, jk.likelihoods.OrdinalProbit(0.4))
    generator, begin, most = np.random.default_rng(0), time.perf_counter(), (0, 0)
    print(
        f"{'leagues':>8}{'programs':>10}{'maps':>8}{'MB':>8}{'most maps':>11}{'most MB':>9}{'s':>8}"
    )
    for number in range(1, arguments.leagues + 1):
        serve(jk, model, generator)
        maps = Path("/proc/self/maps").read_bytes().count(b"\n")
        memory = int(Path("/proc/self/statm").read_text().split()[1]) * 4096 // 10**6
        most = max(most[0], maps), max(most[1], memory)
        if number % max(arguments.leagues // 20, 1) == 0:
            seconds = time.perf_counter() - begin
            print(
                f"{number:>8}{programs[COMPILED]:>10}{maps:>8}{memory:>8}{most[0]:>11}{most[1]:>9}"
                f"{seconds:>8.0f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
