"""Joint means by conjugate gradients, against dense solves; and what `distance` promises."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxkick as jk
from jaxkick.inference import conjugate_gradients
from jaxkick.inference.problem import add_sites, cavities_of, make_problem


def divisions(outcomes):
    """Two divisions of ten, 40 rounds each, and one match between them."""
    pairs = [(a, b) for a in range(10) for b in range(a + 1, 10)] * 40
    features = np.array([*pairs, *((a + 10, b + 10) for a, b in pairs), (0, 10)], np.int32)
    count = len(features)
    strength = np.random.default_rng(7).normal(size=20)
    noise = np.random.default_rng(0).normal(size=count)
    score = strength[features[:, 0]] - strength[features[:, 1]] + noise
    score[-1] = 6.0
    signs = np.tile([1.0, -1.0], (count, 1))
    return jk.Dataset.from_arrays(np.zeros(count), features, signs, outcomes(score))


def dense_means(data, variance=1.0, noise=1.0):
    seen = data.observations
    design = np.zeros((len(data), len(data.names)))
    np.add.at(design, (np.arange(len(data))[:, None], seen.features), seen.coefficients)
    precision = np.eye(len(data.names)) / variance + design.T @ design / noise
    return np.linalg.solve(precision, design.T @ seen.outcome / noise)


def test_a_mode_that_one_match_determines():
    """The level of a division moves slowly, and used to be taken for converged."""
    data = divisions(lambda score: score)
    model = jk.Model(jk.kernels.Constant(1.0), jk.likelihoods.Gaussian(1.0))
    truth = dense_means(data)
    for tol in (0.05, 1e-3):
        posterior = jk.infer(model, data, tol=tol)
        scores = [posterior.scores(name, joint=False) for name in data.names]
        off = [
            abs(float(each.mean[0]) - mean) / np.sqrt(float(each.variance[0]))
            for each, mean in zip(scores, truth, strict=True)
        ]
        assert max(off) <= tol


@pytest.mark.parametrize("method", [jk.ExpectationPropagation(), jk.ReverseKL()])
def test_converged_is_close(method):
    data = divisions(np.sign)
    model = jk.Model(jk.kernels.Constant(1.0), jk.likelihoods.Probit())
    posterior, truth = (jk.infer(model, data, method, tol=tol) for tol in (0.05, 1e-9))
    for found, exact in zip(posterior.entries, truth.entries, strict=True):
        off = jnp.abs(found.mean - exact.mean) / jnp.sqrt(exact.variance)
        assert float(off.max()) <= 0.05
    assert posterior.steps <= 12


@pytest.mark.parametrize("large", [50_000, 0])
def test_the_error_of_means_is_bounded(large, monkeypatch):
    """After every number of iterations, in float64 and in float32."""
    monkeypatch.setattr(conjugate_gradients, "_LARGE", large)
    rng = np.random.default_rng(1)
    first = rng.integers(0, 29, 300)
    data = jk.Dataset.from_pairs(np.zeros(300), first, first + 1, rng.choice([-1.0, 1.0], 300))
    model = jk.Model(jk.kernels.Constant(4.0), jk.likelihoods.Probit())
    problem = make_problem(model, data.without_index())
    sites = jk.infer(model, data, max_steps=2, throw=False).sites
    smoothed = problem.smooth(sites)
    marginals = add_sites(cavities_of(smoothed), sites)
    real = np.asarray(problem.entry_coefficients[0] != 0, float)
    residual = (jnp.asarray(rng.normal(size=real.shape) * real),)
    curvature = problem.masked(
        jnp.asarray(rng.uniform(0.1, 1.0, real.size // 2))[: len(data.slots)]
    )

    @jax.jit
    def solve(tol):
        return conjugate_gradients.solve_means(
            problem,
            smoothed,
            sites,
            marginals,
            curvature,
            residual,
            tol,
            jnp.asarray(jnp.inf),
            jnp.asarray(False),
        )

    # A dense solve: the smoother's covariances invert M = K⁻¹ + diag(τ).
    x = np.zeros((len(data.slots), real.size))
    rows, places = np.nonzero(np.asarray(data.coefficients))
    x[rows, np.asarray(data.slots)[rows, places]] = np.asarray(data.coefficients)[rows, places]
    feature = np.asarray(data.chains[0].feature).ravel()
    prior = 4.0 * (feature[:, None] == feature) * np.outer(real.ravel(), real.ravel())
    right = prior @ np.asarray(residual[0]).ravel()
    coupled = x.T @ (np.asarray(curvature)[:, None] * x)
    exact = np.linalg.solve(np.eye(real.size) + prior @ coupled, right).reshape(real.shape)
    for tol in (3.0, 1.0, 0.3, 0.1, 0.03) + (() if large == 0 else (0.01, 1e-4)):
        step = solve(tol)
        off = jnp.abs(step.change[0] - exact) / jnp.sqrt(marginals[0].variance)
        assert float(jnp.max(real * off)) <= float(step.error)
        assert float(step.error) <= tol
        assert step.change[0].dtype == jnp.float64


def test_means_in_float32_reach_the_same_fixed_point(monkeypatch):
    data = divisions(np.sign)
    model = jk.Model(jk.kernels.Constant(1.0), jk.likelihoods.Probit())
    exact = jk.infer(model, data, tol=1e-8)
    monkeypatch.setattr(conjugate_gradients, "_LARGE", 0)
    # Rows of another length, so that the program is compiled with that setting.
    longer = jk.Dataset.from_observations(data.observations, row_length=1234)
    found = jk.infer(model, longer, tol=1e-8)
    assert jnp.allclose(found.observations.mean, exact.observations.mean, atol=1e-8, rtol=0)
    assert found.steps <= exact.steps + 2
