"""The fixed points of inference and its status, whatever the path."""

import functools

import jax.numpy as jnp
import numpy as np
import pytest

import jaxkick as jk
from jaxkick import kernels, likelihoods
from tests import reference as ref
from tests.translation import dataset_of, kernel_of, likelihood_of

pytestmark = pytest.mark.optimized

EP, KL = jk.ExpectationPropagation, jk.ReverseKL
SIMPLE = ref.matern12(0.8, 2.0)


def league(likelihood, seed=1):
    return ref.random_league(
        likelihood, seed, team_covariance=SIMPLE, home_covariance=SIMPLE, weighted=True
    )


def fit(problem, method, **options):
    data = dataset_of(problem, groups=None, row_length=100)
    model = jk.Model(kernel_of(SIMPLE), likelihood_of(problem.likelihood))
    return jk.infer(model, data, method, **{"tol": 1e-9, **options})


def sites_of(posterior, problem):
    """The sites by observation and slot, in the order of the reference."""
    found = np.zeros((2, *problem.coefficients.shape))
    (site,) = posterior.sites
    for feature in problem.observed:
        positions = posterior.data.entries(feature).positions
        where = problem.entries(feature)
        found[0][where] = np.asarray(site.precision).ravel()[positions]
        found[1][where] = np.asarray(site.precision_mean).ravel()[positions]
    return found


# A user's own likelihood, whose sites may be negative, and one with a closed form.
LIKELIHOODS = [ref.student_t(4.0, 0.7), ref.poisson()]


@pytest.mark.parametrize("likelihood", LIKELIHOODS, ids=lambda each: each.name)
def test_ep_ends_where_the_references_step_stands_still(likelihood):
    problem = league(likelihood)
    posterior = fit(problem, EP())
    sites = sites_of(posterior, problem)
    step = ref.ep_step(problem, ref.Sites(*sites))
    np.testing.assert_allclose(step.precision, sites[0], atol=1e-8)
    np.testing.assert_allclose(step.precision_mean, sites[1], atol=1e-8)
    evidence = ref.ep_log_marginal_likelihood(problem, ref.Sites(*sites))
    np.testing.assert_allclose(posterior.log_marginal_likelihood, evidence, rtol=1e-9)


@pytest.mark.parametrize("likelihood", LIKELIHOODS, ids=lambda each: each.name)
def test_reverse_kl_ends_at_an_optimum(likelihood):
    problem = league(likelihood)
    posterior = fit(problem, KL())
    sites = sites_of(posterior, problem)
    best = ref.elbo(problem, ref.Sites(*sites))
    np.testing.assert_allclose(posterior.log_marginal_likelihood, best, rtol=1e-9)
    rng, used = np.random.default_rng(0), problem.coefficients != 0
    losses = []
    for size in (1e-3, 1e-2):
        for _ in range(6):
            moved = sites + size * used * rng.normal(size=sites.shape)
            losses.append(best - ref.elbo(problem, ref.Sites(*moved)))
    losses = np.reshape(losses, (2, 6))
    # Stationary and concave there: the loss grows with the square of the perturbation.
    assert np.all(losses > 0)
    assert losses[1].min() > 10 * losses[0].max()


@functools.cache
def slow_problem():
    """Few competitors, many matches: modes that fade slowly."""
    rng = np.random.default_rng(0)
    first, gap = rng.integers(0, 6, 80), rng.integers(1, 6, 80)
    strength = 1.5 * rng.normal(size=6)
    second = (first + gap) % 6
    outcome = np.sign(rng.normal(size=80) + strength[first] - strength[second])
    times = np.sort(rng.uniform(0.0, 10.0, 80))
    data = jk.Dataset.from_pairs(times, first, second, outcome, row_length=160)
    kernel = kernels.Constant(1.0) + kernels.Matern12(1.0, 3.0)
    return jk.Model(kernel, likelihoods.Probit()), data


def distance_between(found, truth):
    """The largest distance of marginals, in standard deviations of the true ones."""
    (ours,), (theirs,) = found.entries, truth.entries
    mean = jnp.abs(ours.mean - theirs.mean) / jnp.sqrt(theirs.variance)
    spread = jnp.abs(ours.variance / theirs.variance - 1.0)
    return float(jnp.maximum(mean, spread).max())


@pytest.mark.parametrize("method", [EP, KL])
def test_converged_means_close_however_much_is_damped(method):
    model, data = slow_problem()
    run = functools.partial(jk.infer, model, data, max_steps=20_000)
    truth = run(method(), tol=1e-10)
    for damping in (0.0, 0.5, 0.9, 0.99):
        found = run(method(damping=damping))
        assert found.converged
        assert distance_between(found, truth) < 0.1, damping
        gap = found.log_marginal_likelihood - truth.log_marginal_likelihood
        assert abs(gap) < 0.05, damping


@pytest.mark.parametrize("variance", [1.0, 1000.0])
@pytest.mark.parametrize("count", [5, 100])
@pytest.mark.parametrize("method", [EP(), KL()], ids=["ep", "kl"])
def test_equal_matches_of_two_against_two(method, count, variance):
    """All at one time, where plain parallel updates overshoot and kickscore oscillates."""
    data = jk.Dataset.from_pairs(
        np.zeros(100), [["a", "b"]] * 100, [["c", "d"]] * 100, 1.0, row_length=400
    )
    model = jk.Model(kernels.Constant(variance), likelihoods.Probit())
    mask = np.arange(100) < count
    posterior = jk.infer(model, data, method, mask=mask, tol=1e-6)
    assert posterior.converged
    (entries,) = posterior.entries
    # The four competitors are alike but for the side they are on.
    np.testing.assert_allclose(np.ptp(np.abs(entries.mean)), 0.0, atol=1e-4 * np.sqrt(variance))
    assert entries.variance.min() > 0


def test_a_line_that_is_known_to_be_zero_somewhere():
    """Rounding leaves a variance of zero just below it, which is no reason to give up."""
    rng = np.random.default_rng(0)
    for _ in range(4):
        times = np.sort(rng.uniform(0.0, 6.0, 30))
        times[15] = 3.0
        first, gap = rng.integers(0, 4, 30), rng.integers(1, 4, 30)
        data = jk.Dataset.from_pairs(
            times, first, (first + gap) % 4, rng.choice([-1.0, 1.0], 30), row_length=64
        )
        model = jk.Model(kernels.Linear(0.4, origin=3.0), likelihoods.Probit())
        posterior = jk.infer(model, data)
        np.testing.assert_allclose(posterior.observations.variance[15], 0.0, atol=1e-12)


def test_standing_still_by_damping_is_not_called_convergence():
    model, data = slow_problem()
    with pytest.raises(jk.InferenceError, match="did not converge in 5 steps"):
        jk.infer(model, data, EP(damping=0.999), max_steps=5)
    stuck = jk.infer(model, data, EP(damping=0.999), max_steps=200, throw=False)
    assert jk.Status(int(stuck.status)) is jk.Status.MAX_STEPS
    assert stuck.distance > 0.05
