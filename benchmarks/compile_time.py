"""Measure the compilation time of the first `infer` of a model.

    python benchmarks/compile_time.py            # the first call minus the second
    python benchmarks/compile_time.py --often    # programs of small data, with optimisation or not
    python benchmarks/compile_time.py --levels   # the options of XLA that jaxkick chooses from

For models with states of up to four dimensions, with 2,000 and with 100,000 matches. `--often`
measures processor time: of the first fit, of warm fits in a backtest, and of fits from a cold
start, with 300 and with 1,000 matches. `--levels` measures processor time of compiling a fit of the
Bundesliga, and of the compiled fit.
"""

import argparse
import resource
import time

import equinox as eqx
import jax
import numpy as np

jax.config.update("jax_enable_x64", True)

import jaxkick as jk  # noqa: E402
from jaxkick import _xla, datasets  # noqa: E402
from jaxkick.inference import solve as engine  # noqa: E402
from jaxkick.kernels import Affine, Constant, Cosine, Matern12, Matern32, Matern52, Wiener  # noqa: E402
from jaxkick.likelihoods import Logit, OrdinalLogit, OrdinalProbit, Probit, Skellam  # noqa: E402

PLAYERS, REPEATS = 50, 100
SIZES = (2_000, 100_000)


def make_models() -> dict[str, tuple[jk.Model, jk.ReverseKL | None]]:
    """Return models and methods by name; `None` means expectation propagation."""
    slow, rough, smooth = Constant(0.3), Matern32(1.0, 2.0), Matern52(1.0, 2.0)
    return {
        "Constant + Matern12, probit": (jk.Model(slow + Matern12(1.0, 2.0), Probit()), None),
        "Constant + Matern32, probit": (jk.Model(slow + rough, Probit()), None),
        "Affine + Wiener, ordinal probit": (
            jk.Model(Affine(0.3, 0.1) + Wiener(0.1), OrdinalProbit(0.3)),
            None,
        ),
        "Matern32 + Matern32, probit": (jk.Model(rough + Matern32(0.5, 9.0), Probit()), None),
        "Constant + Matern52, probit": (jk.Model(slow + smooth, Probit()), None),
        "Matern32 * Cosine, probit": (jk.Model(rough * Cosine(1.0, 1.0), Probit()), None),
        "Constant + Matern52, logit": (jk.Model(slow + smooth, Logit()), None),
        "Constant + Matern52, ordinal logit": (jk.Model(slow + smooth, OrdinalLogit(0.3)), None),
        "Constant + Matern52, Skellam, reverse KL": (
            jk.Model(slow + smooth, Skellam(1.5)),
            jk.ReverseKL(),
        ),
    }


def make_matches(number: int) -> jk.Dataset:
    """Simulate random matches between few players."""
    rng = np.random.default_rng(0)
    first = rng.integers(0, PLAYERS, number)
    second = (first + rng.integers(1, PLAYERS, number)) % PLAYERS
    return jk.Dataset.from_arrays(
        np.sort(10.0 * rng.random(number)),
        np.stack([first, second], axis=1),
        np.tile([1.0, -1.0], (number, 1)),
        rng.choice([-1.0, 1.0], number),
    )


def seconds(model: jk.Model, data: jk.Dataset, method: jk.ReverseKL | None) -> float:
    """Measure three iterations, compilation included."""
    start = time.perf_counter()
    posterior = jk.infer(model, data, method, max_steps=3, throw=False)
    jax.block_until_ready(posterior.sites)
    return time.perf_counter() - start


def processor_time() -> float:
    """Return the processor time of this process."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def often(number: int, optimized: bool) -> None:
    """Print the time of the first and of later fits of a league."""
    engine.solve._worth = 0.0 if optimized else float("inf")
    rng = np.random.default_rng(0)
    players = max(10, number // 40)
    first = rng.integers(0, players, number)
    data = jk.Dataset.from_pairs(
        np.sort(5.0 * rng.random(number)),
        first,
        (first + rng.integers(1, players, number)) % players,
        rng.choice([-1.0, 0.0, 1.0], number),
        covariates={"home": 1.0},
        groups={"home": "home"},
    )
    kernel = {"skill": Constant(0.3) + Matern12(0.3, 1.0), "home": Constant(0.1)}
    model = jk.Model(kernel, OrdinalProbit(0.4))
    times = [processor_time()]
    posterior = jk.infer(model, data)
    times.append(processor_time())
    # Compiles what only fits with a mask need.
    posterior = jk.infer(model, data, start=posterior, mask=np.arange(number) < number // 2)
    begin = processor_time()
    for k in range(REPEATS):
        mask = np.arange(number) < number // 2 + k * number // (2 * REPEATS)
        posterior = jk.infer(model, data, start=posterior, mask=mask)
    times.append(processor_time() - begin)
    begin = processor_time()
    for _ in range(REPEATS):
        jax.block_until_ready(jk.infer(model, data).sites)
    times.append(processor_time() - begin)
    label = "optimised" if optimized else "not optimised"
    print(
        f"{number:,} matches, {label}: first fit {times[1] - times[0]:.1f} s, "
        f"warm {1e3 * times[2] / REPEATS:.1f} ms, cold {1e3 * times[3] / REPEATS:.1f} ms",
        flush=True,
    )


def compare_levels() -> None:
    """Print the time to compile a fit of the Bundesliga with different options, and of the fit."""
    columns = {"time": "date", "first": "home", "second": "away", "home": True}
    points = ("home_goals", "away_goals")
    data = jk.Dataset.from_frame(datasets.load_bundesliga(), result=points, **columns)
    recorded = []
    program, engine.solve = engine.solve, lambda *args: recorded.append(args) or program(*args)
    jk.infer(jk.suggest_model(data), data)
    arrays, rest = eqx.partition(recorded[0], eqx.is_array)
    lowered = jax.jit(lambda arrays: program.__wrapped__(*eqx.combine(arrays, rest))).lower(arrays)
    third = {**_xla._QUICK, "xla_backend_optimization_level": 3}
    levels = {"default": {}, "level 3": third, "level 1": _xla._QUICK, "level 0": _xla._UNOPTIMIZED}
    for name, options in levels.items():
        times = [processor_time()]
        compiled = lowered.compile(compiler_options=options)
        times.append(processor_time())
        for _ in range(REPEATS // 10):
            jax.block_until_ready(compiled(arrays))
        times.append(processor_time())
        fit = (times[2] - times[1]) / (REPEATS // 10)
        print(f"{name}: compile {times[1] - times[0]:.1f} s, fit {1e3 * fit:.0f} ms", flush=True)


def main() -> None:
    """Print one row for each model, or for each league."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--often", action="store_true")
    parser.add_argument("--levels", action="store_true")
    options = parser.parse_args()
    if options.levels:
        return compare_levels()
    if options.often:
        for number in (300, 1_000):
            for optimized in (False, True):
                often(number, optimized)
        return
    leagues = [make_matches(number) for number in SIZES]
    print("model | " + " | ".join(f"{number:,} matches" for number in SIZES))
    for name, (model, method) in make_models().items():
        waits = []
        for data in leagues:
            first = seconds(model, data, method)
            waits.append(first - seconds(model, data, method))
        print(f"{name} | " + " | ".join(f"{wait:.1f} s" for wait in waits), flush=True)


if __name__ == "__main__":
    main()
