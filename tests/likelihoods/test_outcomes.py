"""Outcomes of likelihoods: probabilities, moments, quantiles, draws and domains."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from jaxkick import likelihoods

# One program instead of one for every operation.
from jaxkick._xla import call_compiled
from tests import reference as ref
from tests.likelihoods.cases import CASES

MEANS, VARIANCES = (
    np.ravel(part) for part in np.meshgrid([-40.0, -1.5, 0.0, 0.8, 40.0], [0.0, 1e-6, 0.7, 1e4])
)
LEVELS = ["probit", "logit", "ordinal_probit-margin", "ordinal_logit-cuts"]
DRAWS = 20_000


def exact_probability(name, outcome, mean, variance):
    """The probability of an outcome by the references' quadrature."""
    ones = np.ones_like(mean)
    return np.exp(ref.log_partition(CASES[name].truth, outcome * ones, mean, variance).value)


@pytest.mark.parametrize("name", LEVELS)
def test_probabilities_of_levels(name):
    likelihood = CASES[name].likelihood
    found = np.asarray(call_compiled(likelihood.probabilities, MEANS, VARIANCES))
    assert np.all((found >= 0) & (found <= 1))
    np.testing.assert_allclose(found.sum(axis=-1), 1.0, atol=1e-12)
    spread = VARIANCES > 0
    for place, level in enumerate(likelihood.levels):
        expected = exact_probability(name, level, MEANS[spread], VARIANCES[spread])
        np.testing.assert_allclose(found[spread, place], expected, atol=1e-9)


@pytest.mark.parametrize("name", LEVELS[:3])
def test_swapping_sides_mirrors_probabilities(name):
    likelihood = CASES[name].likelihood
    ours = call_compiled(likelihood.probabilities, MEANS, VARIANCES)
    theirs = call_compiled(likelihood.probabilities, -MEANS, VARIANCES)
    np.testing.assert_allclose(ours, theirs[:, ::-1], atol=1e-12)


# Score's mean and variance at which sums over outcomes are short enough to be exact.
MODERATE = [(-0.5, 0.3), (0.9, 0.05), (1.2, 0.1)]


@pytest.mark.parametrize(("mean", "variance"), MODERATE)
@pytest.mark.parametrize("name", ["poisson", "negative_binomial", "skellam"])
def test_moments_and_quantiles_of_counts(name, mean, variance):
    likelihood = CASES[name].likelihood
    outcomes = np.arange(-60.0, 61.0) if name == "skellam" else np.arange(401.0)
    arguments = np.full_like(outcomes, mean), np.full_like(outcomes, variance)
    weights = np.exp(ref.log_partition(CASES[name].truth, outcomes, *arguments).value)
    np.testing.assert_allclose(weights.sum(), 1.0, atol=1e-7)
    first = weights @ outcomes
    second = weights @ (outcomes - first) ** 2
    score = np.array(mean), np.array(variance)
    found = call_compiled(likelihood.predictive_mean, *score)
    np.testing.assert_allclose(found, first, rtol=1e-5)
    found = call_compiled(likelihood.predictive_variance, *score)
    np.testing.assert_allclose(found, second, rtol=1e-3)
    reached = np.cumsum(weights)
    for probability in (0.05, 0.5, 0.95):
        found = call_compiled(likelihood.predictive_quantile, np.array(probability), *score)
        assert found == outcomes[np.argmax(reached >= probability)]


def test_moments_and_quantiles_of_differences():
    likelihood = likelihoods.Gaussian(2.0)
    found = likelihood.predictive_quantile(0.9, 1.0, 7.0)
    np.testing.assert_allclose(found, scipy.stats.norm.ppf(0.9, 1.0, 3.0), rtol=1e-12)
    assert likelihood.predictive_mean(1.0, 7.0) == 1.0
    np.testing.assert_allclose(likelihood.predictive_variance(1.0, 7.0), 9.0)


@pytest.mark.parametrize("name", [*LEVELS, "gaussian", "poisson", "negative_binomial", "skellam"])
def test_draws_have_the_distribution(name):
    """Frequencies of draws within four standard errors of the probabilities at the score."""
    likelihood, truth, _ = CASES[name]
    score = 0.6
    draws = np.asarray(call_compiled(likelihood.sample, jax.random.key(3), jnp.full(DRAWS, score)))
    if name == "gaussian":
        assert scipy.stats.kstest(draws, "norm", (score, np.sqrt(2.0))).pvalue > 1e-4
        return
    assert not likelihood.check(draws).any()
    values, counts = np.unique(draws, return_counts=True)
    exact = np.exp(call_compiled(likelihood.log_prob, values, np.full(len(values), score)))
    error = np.sqrt(exact * (1 - exact) / DRAWS) + 1e-12
    frequent = exact * DRAWS > 20
    assert frequent.sum() >= 2
    assert np.all(np.abs(counts / DRAWS - exact)[frequent] < 4 * error[frequent])
    np.testing.assert_allclose(exact, np.exp(truth.log_prob(values, score)), rtol=1e-9)


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("probit", [-1, 1], [0, 2, 0.5, np.nan]),
        ("logit", [-1, 1], [0, np.inf]),
        ("ordinal_probit-margin", [-1, 0, 1], [2, 0.5, np.nan]),
        ("ordinal_logit-cuts", [0, 1, 2, 3], [-1, 4, 1.5]),
        ("gaussian", [-3.7, 0, 1e6], [np.nan, np.inf]),
        ("poisson", [0, 1, 500], [-1, 0.5, np.nan, np.inf]),
        ("negative_binomial", [0, 1, 500], [-1, 0.5, np.nan, np.inf]),
        ("skellam", [-30, 0, 7], [0.5, np.nan, -np.inf]),
    ],
)
def test_domains(name, good, bad):
    likelihood = CASES[name].likelihood
    assert not np.any(likelihood.check(np.array(good, float)))
    assert np.all(likelihood.check(np.array(bad, float)))
    assert isinstance(likelihood.domain, str)


def test_negative_binomial_against_scipy_and_poisson():
    counts, score = jnp.arange(30.0), jnp.linspace(-3.0, 4.0, 30)
    for dispersion in (5.0, 0.4, 0.011, 0.009, 1e-4):
        size, mean = 1 / dispersion, np.exp(score)
        likelihood = likelihoods.NegativeBinomial(dispersion)
        found = call_compiled(likelihood.log_prob, counts, score)
        right = scipy.stats.nbinom.logpmf(counts, size, size / (size + mean))
        np.testing.assert_allclose(found, right, rtol=1e-10, atol=1e-10)
    found = call_compiled(likelihoods.NegativeBinomial(1e-11).log_prob, counts, score)
    right = call_compiled(likelihoods.Poisson().log_prob, counts, score)
    np.testing.assert_allclose(found, right, atol=1e-7)


def test_levels_of_differences():
    likelihood = likelihoods.OrdinalLogit(margin=[0.3, 0.5, 0.8])
    assert likelihood.levels == (-3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0)
    assert likelihood.has_results
    assert likelihood.has_ties
    # The same as seven levels with cuts at ±0.3, ±0.8 and ±1.6.
    cuts = likelihoods.OrdinalLogit(cuts=[-1.6, -0.8, -0.3, 0.3, 0.8, 1.6])
    means, variances = jnp.asarray(MEANS), jnp.asarray(VARIANCES)
    found = call_compiled(likelihood.probabilities, means, variances)
    expected = call_compiled(cuts.probabilities, means, variances)
    np.testing.assert_allclose(found, expected, atol=1e-12)
    results = call_compiled(likelihood.result_probabilities, means, variances)
    expected = [found[:, :3].sum(1), found[:, 3], found[:, 4:].sum(1)]
    np.testing.assert_allclose(results, np.stack(expected, 1), atol=1e-12)
    # Larger differences count as the outer levels; only whole numbers are differences.
    outer, levels = (
        call_compiled(likelihood.predictive_log_prob, jnp.array(outcomes), 0.4, 0.7)
        for outcomes in ([-9.0, 3.0, 7.0], [-3.0, 3.0, 3.0])
    )
    np.testing.assert_allclose(outer, levels)
    outcomes = np.array([-9.0, 0.0, 3.0, 0.5, np.nan, np.inf])
    np.testing.assert_array_equal(likelihood.check(outcomes), [0, 0, 0, 1, 1, 1])
    drawn = call_compiled(likelihood.sample, jax.random.key(0), jnp.zeros(DRAWS))
    assert set(np.unique(drawn)) == set(likelihood.levels)
    with pytest.raises(ValueError, match=r"no win, tie and loss.*need `margin` in place of `cuts`"):
        cuts.result_probabilities(0.0, 1.0)


def test_starting_values_of_differences():
    differences = np.repeat([-4.0, -1.0, 0.0, 1.0, 2.0, 9.0], [1, 30, 25, 30, 13, 1])
    likelihood = likelihoods.OrdinalLogit.from_outcomes(differences)
    assert likelihood.levels == (-2.0, -1.0, 0.0, 1.0, 2.0)
    found = np.asarray(call_compiled(likelihood.probabilities, 0.0, 0.0))
    np.testing.assert_allclose(found[2], 0.25, atol=0.01)
    np.testing.assert_allclose(found[1] + found[3], 0.6, atol=0.02)
    np.testing.assert_allclose(found, found[::-1], atol=1e-12)
