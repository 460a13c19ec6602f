"""Compare fits in float32 with fits in float64.

    python benchmarks/precision.py                  # NBA and football
    python benchmarks/precision.py --data atp

Differences of scores at all matches are given in posterior standard deviations of the float64 fit,
differences of the log evidence relative to its value. The targets are 1e-3 and 1e-5. `warm start`
starts at the fixed point of float64, so only rounding errors remain. `cold start` starts without
sites, as a user does, and stops at a distance of `--tol`.
"""

import argparse

import jax
import numpy as np
from paper_data import READERS, as_pairs

import jaxkick as jk
from jaxkick import kernels, likelihoods

DATA = ("nba", "football", "atp")


def model_of(name: str) -> jk.Model:
    """Return a model with parameters close to the learnt ones."""
    if name == "nba":
        kernel = {
            "skill": kernels.Constant(0.03) + kernels.Matern32(0.14, 1.75),
            "advantage": kernels.Constant(0.1) + kernels.Matern32(0.05, 10.0),
        }
        return jk.Model(kernel, likelihoods.Probit())
    if name == "football":
        kernel = {
            "skill": kernels.Constant(0.3) + kernels.Matern12(0.4, 10.0),
            "advantage": kernels.Constant(0.1),
        }
        return jk.Model(kernel, likelihoods.OrdinalProbit(margin=0.35))
    return jk.Model(kernels.Constant(0.8) + kernels.Matern32(0.5, 2.0), likelihoods.Probit())


def compare(label: str, single: jk.Posterior, double: jk.Posterior) -> None:
    """Print the differences between two fits."""
    off = np.concatenate(
        [
            (np.abs(np.asarray(one.mean) - other.mean) / np.sqrt(other.variance)).ravel()
            for one, other in zip(single.entries, double.entries, strict=True)
        ]
    )
    off = off[np.isfinite(off)]
    evidence = float(double.log_marginal_likelihood)
    relative = abs(float(single.log_marginal_likelihood) - evidence) / abs(evidence)
    print(
        f"  {label:12s} {'converged' if single.converged else 'not converged':13s} "
        f"{int(single.steps):4d} steps  "
        f"scores: largest {off.max():.1e}, root mean square {np.sqrt(np.mean(off**2)):.1e}  "
        f"log evidence {relative:.1e}",
        flush=True,
    )


def main() -> None:
    """Fit each data set in both precisions."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", nargs="+", default=["nba", "football"], choices=DATA)
    parser.add_argument("--tol", type=float, default=1e-3)
    options = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    for name in options.data:
        model, data = model_of(name), as_pairs(READERS[name](), home=name != "atp")
        double = jk.infer(model, data, tol=1e-6)
        print(f"{name}: {len(data):,} matches, {int(double.steps)} steps in float64")
        single = jax.tree.map(_in_single, data)
        fit = {"tol": options.tol, "max_steps": 200, "throw": False}
        compare("warm start", jk.infer(model, single, start=double, **fit), double)
        compare("cold start", jk.infer(model, single, **fit), double)


def _in_single(leaf: jax.Array) -> jax.Array:
    return leaf.astype(np.float32) if leaf.dtype == np.float64 else leaf


if __name__ == "__main__":
    main()
