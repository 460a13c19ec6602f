"""Measure the compilation time of the first `infer` of a model.

    python benchmarks/compile_time.py

The time of the first call minus that of the second, for models with states of up to four
dimensions, with 2,000 and with 100,000 matches.
"""

import time

import jax
import numpy as np

jax.config.update("jax_enable_x64", True)

import jaxkick as jk  # noqa: E402
from jaxkick.kernels import Affine, Constant, Cosine, Matern12, Matern32, Matern52, Wiener  # noqa: E402
from jaxkick.likelihoods import Logit, OrdinalLogit, OrdinalProbit, Probit, Skellam  # noqa: E402

PLAYERS = 50
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


def main() -> None:
    """Print one row for each model."""
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
