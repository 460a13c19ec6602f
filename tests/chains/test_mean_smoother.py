"""A pass over means alone finds the means of the whole smoother."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest

import jaxkick as jk
from jaxkick import kernels
from jaxkick.chains.mean_smoother import smooth_means
from jaxkick.chains.step import Site
from jaxkick.inference.problem import add_sites, cavities_of, make_problem

KERNELS = {
    "sum": kernels.Constant(1.0) + kernels.Matern32(0.7, 2.0),
    "wiener": kernels.Wiener(0.5),
    "product": kernels.Matern12(0.5, 1.0) * kernels.Cosine(1.0, period=3.0),
    "periodic": kernels.Periodic(1.0, period=2.0, lengthscale=1.0, order=5),
}


@pytest.mark.parametrize("row_length", [500, 7, 2], ids=["packed", "linked", "grouped"])
@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_means_are_those_of_the_smoother(kernel, row_length):
    rng = np.random.default_rng(0)
    first, second = rng.integers(0, 4, 150), rng.integers(4, 8, 150)
    times = np.sort(rng.uniform(0.0, 9.0, 150))
    data = jk.Dataset.from_pairs(times, first, second, row_length=row_length)
    problem = make_problem(jk.Model(kernel, jk.likelihoods.Probit()), data.without_index())
    (chain,), (step,) = problem.chains, problem.steps
    real = np.asarray(problem.entry_coefficients[0] != 0, float)
    site = Site(
        jnp.asarray(rng.normal(size=real.shape) * real),
        jnp.asarray(rng.uniform(0.0, 3.0, real.shape) * real),
    )
    (smoothed,) = smooth = eqx.filter_jit(problem.smooth)((site,))
    (truth,) = add_sites(cavities_of(smooth), (site,))
    found = eqx.filter_jit(smooth_means)(
        step, chain, site.precision, smoothed.gains, site.precision_mean
    )
    np.testing.assert_allclose(found * real, truth.mean * real, atol=1e-12)
