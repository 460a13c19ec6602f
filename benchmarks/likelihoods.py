"""Measure the time of likelihoods in a step of expectation propagation.

    python benchmarks/likelihoods.py             # log partition functions, alone
    python benchmarks/likelihoods.py --fit       # and iterations of a whole fit

Processor time of a match, of 200,000 matches in float64; the least of several calls. `--fit`
divides the time of a compiled fit of 20,000 matches of 200 players by its iterations.
"""

import argparse
import resource
from collections.abc import Callable

import equinox as eqx
import jax
import numpy as np

jax.config.update("jax_enable_x64", True)

import jaxkick as jk  # noqa: E402
from jaxkick.likelihoods import Logit, OrdinalLogit, OrdinalProbit, Probit  # noqa: E402
from jaxkick.likelihoods.integrals import log_partition_by_quadrature  # noqa: E402

MATCHES, FITTED, CALLS = 200_000, 20_000, 8


class QuadratureLogit(Logit):
    """Logit without its closed form."""

    def log_partition(self, outcome, mean, variance, weight=None):
        return log_partition_by_quadrature(self, outcome, mean, variance, weight)


LIKELIHOODS = {
    "Probit": Probit(),
    "OrdinalProbit": OrdinalProbit(0.4),
    "Logit": Logit(),
    "Logit by quadrature": QuadratureLogit(),
    "OrdinalLogit": OrdinalLogit(0.4),
}


def least_time(function: Callable[[], object]) -> float:
    """Return the processor time of the fastest call, after a first one that compiles."""

    def processor() -> float:
        usage = resource.getrusage(resource.RUSAGE_SELF)
        return usage.ru_utime + usage.ru_stime

    times = []
    for _ in range(CALLS + 1):
        begin = processor()
        jax.block_until_ready(function())
        times.append(processor() - begin)
    return min(times[1:])


def main() -> None:
    """Print one line for each likelihood."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fit", action="store_true")
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    mean, variance = rng.normal(size=MATCHES), rng.uniform(0.01, 3.0, MATCHES)
    first = rng.integers(0, 200, FITTED)
    second = (first + rng.integers(1, 200, FITTED)) % 200
    times = np.sort(rng.uniform(0.0, 10.0, FITTED))
    for name, likelihood in LIKELIHOODS.items():
        levels = [-1.0, 0.0, 1.0] if name.startswith("Ordinal") else [-1.0, 1.0]
        arrays = tuple(map(jax.numpy.asarray, (rng.choice(levels, MATCHES), mean, variance)))
        evaluate = eqx.filter_jit(likelihood.log_partition)
        alone = least_time(lambda f=evaluate, a=arrays: f(*a))
        line = f"{name}: {1e9 * alone / MATCHES:.1f} ns a match"
        if options.fit:
            data = jk.Dataset.from_pairs(times, first, second, rng.choice(levels, FITTED))
            model = jk.Model(jk.kernels.Constant(0.3) + jk.kernels.Matern12(0.3, 2.0), likelihood)
            steps = int(jk.infer(model, data).steps)
            whole = least_time(lambda m=model, d=data: jk.infer(m, d).sites)
            line += f"; {1e9 * whole / steps / FITTED:.0f} ns a match and iteration of {steps}"
        print(line, flush=True)


if __name__ == "__main__":
    main()
