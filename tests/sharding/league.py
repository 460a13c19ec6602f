"""A league that does not divide evenly: for tests with several devices or processes."""

import numpy as np

import jaxkick as jk
from jaxkick import kernels, likelihoods

NAMES = [f"team {k}" for k in range(9)]


def league(
    row_length: int | None = None,
    dtype: str = "float64",
) -> jk.Dataset:
    """An odd number of matches of nine teams, with a home advantage and weights."""
    rng = np.random.default_rng(4)
    count = 101
    first, gap = rng.integers(0, 9, count), rng.integers(1, 9, count)
    return jk.Dataset.from_pairs(
        np.sort(rng.uniform(0.0, 8.0, count)),
        [NAMES[k] for k in first],
        [NAMES[k] for k in ((first + gap) % 9)],
        rng.choice([-1.0, 1.0], count),
        weight=rng.uniform(0.5, 2.0, count),
        covariates={"home": rng.choice([0.0, 1.0], count)},
        groups={"home": "advantage"},
        row_length=row_length,
        dtype=dtype,
    )


def model() -> jk.Model:
    """Two groups with different dynamics, and a prior mean."""
    kernel = {"skill": kernels.Matern32(0.9, 2.0), "advantage": kernels.Wiener(0.1, origin=0.0)}
    return jk.Model(kernel, likelihoods.Probit(), mean={"advantage": 0.3})
