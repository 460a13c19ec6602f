"""Serve leagues of many sizes in one process, or update one league month by month.

    python benchmarks/services.py --leagues 500    # fit, predict, rank and update each
    python benchmarks/services.py --months 100     # predict each month, then add it

With `--months`, a league of 10,000 matches grows by 200 a month. Otherwise every league has 30 to
3,000 matches of 5 to 40 teams. Linux allows a process 65,530 memory maps, and every compiled
program takes some of them. Prints how many programs were compiled, how many memory maps and how
much memory the process has, and its processor time.
"""

import argparse
import time
from collections import Counter
from collections.abc import Iterator
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


def serve(jk, model, generator: np.random.Generator) -> Iterator[None]:
    """Fit a league, predict a round, rank its teams, and add the round; then the next league."""
    columns = {name: name for name in ("time", "first", "second", "outcome")}
    while True:
        matches = int(np.exp(generator.uniform(np.log(30), np.log(3000))))
        teams = int(generator.integers(5, 41))
        league = draw_league(generator, matches, teams, 0.0)
        data = jk.Dataset.from_frame(league, **columns, home=True)
        posterior = jk.infer(model, data)
        coming = draw_league(generator, int(generator.integers(1, 20)), teams, 6.0)
        known = [np.isin(coming[side], data.names) for side in ("first", "second")]
        coming = {name: column[known[0] & known[1]] for name, column in coming.items()}
        if len(coming["time"]):
            first, second, times = (coming[name] for name in ("first", "second", "time"))
            posterior.predict(first, second, times, home=1).to_frame()
            posterior = posterior.update(coming)
        posterior.leaderboard()
        yield


def grow(jk, model, generator: np.random.Generator) -> Iterator[None]:
    """Fit a league of 100 teams, then predict and add month by month."""
    columns = {name: name for name in ("time", "first", "second", "outcome")}
    league = draw_league(generator, 10_000, 100, 0.0)
    posterior = jk.infer(model, jk.Dataset.from_frame(league, **columns, home=True))
    while True:
        begin = posterior.data.index.latest
        month = draw_league(generator, int(generator.integers(150, 250)), 100, begin)
        month["time"] = np.sort(generator.uniform(begin, begin + 1 / 12, len(month["time"])))
        posterior.forecast(month)
        posterior = posterior.update(month)
        yield


def main() -> None:
    """Serve leagues or months; print a row after every twentieth part of them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--leagues", type=int, default=500)
    parser.add_argument("--months", type=int, help="months of one league instead")
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
    count = arguments.months or arguments.leagues
    turns = (grow if arguments.months else serve)(jk, model, np.random.default_rng(0))
    begin, most = time.process_time(), (0, 0)
    unit = "months" if arguments.months else "leagues"
    print(
        f"{unit:>8}{'programs':>10}{'maps':>8}{'MB':>8}{'most maps':>11}{'most MB':>9}{'CPU s':>8}"
    )
    for number in range(1, count + 1):
        next(turns)
        maps = Path("/proc/self/maps").read_bytes().count(b"\n")
        memory = int(Path("/proc/self/statm").read_text().split()[1]) * 4096 // 10**6
        most = max(most[0], maps), max(most[1], memory)
        if number % max(count // 20, 1) == 0:
            seconds = time.process_time() - begin
            print(
                f"{number:>8}{programs[COMPILED]:>10}{maps:>8}{memory:>8}{most[0]:>11}{most[1]:>9}"
                f"{seconds:>8.0f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
