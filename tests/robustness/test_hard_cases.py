"""Cases on which expectation propagation is known to fail elsewhere, against independent truths."""

import numpy as np
import pandas as pd
import pytest
import scipy.integrate
import scipy.optimize
import scipy.stats

import jaxkick as jk
from jaxkick import kernels, likelihoods
from tests.shared_data import shared_data

CONSTANT = kernels.Constant(1.0)


def games(name):
    return pd.read_csv(shared_data(name))


def one_match(outcome, likelihood, kernel=CONSTANT, method=None, dtype="float64"):
    """The posterior moments of the first side after one match of two."""
    data = jk.Dataset.from_pairs([0.0], ["a"], ["b"], [outcome], dtype=dtype)
    tol = 1e-8 if dtype == "float64" else 1e-3
    posterior = jk.infer(jk.Model(kernel, likelihood), data, method, tol=tol)
    scores = posterior.scores("a", joint=False)
    return float(scores.mean[0]), float(scores.variance[0]), posterior


def test_two_against_two_once_each_way_and_once_more():
    """Three matches at one time, on which plain parallel updates walk away."""
    strong, weak = ["a", "b"], ["c", "d"]
    data = jk.Dataset.from_pairs(np.zeros(3), [weak, strong, strong], [strong, weak, weak])
    posterior = jk.infer(jk.Model(CONSTANT, likelihoods.Probit()), data, tol=1e-9)
    (entries,) = posterior.entries
    mean, variance = (float(part.ravel()[0]) for part in entries)
    # At the fixed point each match changes the product of the other two, as a brief iteration
    # in one dimension finds: by symmetry all competitors share |mean| and variance.
    expected = _two_against_two(signs=np.array([-1.0, 1.0, 1.0]))
    np.testing.assert_allclose((abs(mean), variance), expected, rtol=1e-6)


def _two_against_two(signs, damping=0.5):
    """Damped EP over one site for each match and competitor, in plain NumPy."""
    precision, shift = np.zeros(3), np.zeros(3)
    for _ in range(2000):
        total, total_shift = 1.0 + precision.sum(), shift.sum()
        cavity_variance = 1.0 / (total - precision)
        cavity_mean = (total_shift - shift) * cavity_variance
        scale = np.sqrt(1.0 + 4.0 * cavity_variance)
        z = signs * 4.0 * cavity_mean / scale
        ratio = np.exp(scipy.stats.norm.logpdf(z) - scipy.stats.norm.logcdf(z))
        first, second = signs * ratio / scale, -ratio * (z + ratio) / scale**2
        tilted_mean = cavity_mean + cavity_variance * first
        tilted_variance = cavity_variance + cavity_variance**2 * second
        precision += (1 - damping) * (1 / tilted_variance - 1 / cavity_variance - precision)
        shift += (1 - damping) * (
            tilted_mean / tilted_variance - cavity_mean / cavity_variance - shift
        )
    return shift.sum() / (1.0 + precision.sum()), 1.0 / (1.0 + precision.sum())


@pytest.mark.parametrize("count", [300, 900])
def test_counts_in_the_hundreds(count):
    """One count: EP has the moments of the posterior, here by quadrature."""
    likelihood = likelihoods.Poisson()

    def weigh(score, power):
        log_prob = count * score - np.exp(score) - score**2 / 4.0
        return score**power * np.exp(log_prob - (count * np.log(count) - count))

    limits = np.log(count) - 1.0, np.log(count) + 1.0
    total, first, second = (
        scipy.integrate.quad(weigh, *limits, args=(power,), epsabs=0, epsrel=1e-11)[0]
        for power in range(3)
    )
    mean, variance = first / total, second / total - (first / total) ** 2
    found = one_match(count, likelihood)[:2]
    # The score of the first side is half of the combined one, with the prior's half around it.
    np.testing.assert_allclose(found, (mean / 2, variance / 4 + 0.5), rtol=1e-6)


def test_counts_in_the_hundreds_by_reverse_kl():
    """The bound at its highest, over one mean and one variance that both sides share."""
    count = 300

    def loss(point):
        mean, variance = point[0], np.exp(point[1])
        divergence = variance + mean**2 - 1.0 - np.log(variance)
        return np.exp(2 * mean + variance) - 2 * count * mean + divergence

    best = scipy.optimize.minimize(loss, [2.5, -1.0], method="BFGS", options={"gtol": 1e-9})
    found = one_match(count, likelihoods.Poisson(), method=jk.ReverseKL())[:2]
    np.testing.assert_allclose(found, (best.x[0], np.exp(best.x[1])), rtol=1e-5)


def test_ties_within_a_tiny_margin_are_measurements_of_zero():
    """P(tie) is 2 margin N(0; score, 1), up to a relative error of margin²."""
    margin, count = 1e-6, 12
    first, second = np.arange(count) % 4, (np.arange(count) + 1 + np.arange(count) // 4) % 4
    ties, measured = (
        jk.infer(
            jk.Model(kernels.Constant(1.0) + kernels.Matern12(2.0, 1.0), likelihood),
            jk.Dataset.from_pairs(np.arange(12.0), first, second, 0.0, row_length=24),
            tol=1e-8,
        )
        for likelihood in (likelihoods.OrdinalProbit(margin=margin), likelihoods.Gaussian(1.0))
    )
    np.testing.assert_allclose(ties.observations, measured.observations, atol=1e-7)
    np.testing.assert_allclose(
        ties.log_marginal_likelihood,
        measured.log_marginal_likelihood + count * np.log(2 * margin),
        rtol=1e-9,
    )


@pytest.mark.parametrize(("dtype", "tolerance"), [("float64", 1e-8), ("float32", 1e-3)])
def test_a_variance_of_a_million(dtype, tolerance):
    """One win: the moments of the posterior in closed form."""
    prior = 1e6
    mean, variance, posterior = one_match(
        1.0, likelihoods.Probit(), kernels.Constant(prior), dtype=dtype
    )
    ratio = np.sqrt(2 / np.pi) / np.sqrt(1 + 2 * prior)
    np.testing.assert_allclose(mean, prior * ratio, rtol=tolerance)
    np.testing.assert_allclose(variance, prior - (prior * ratio) ** 2, rtol=tolerance)
    np.testing.assert_allclose(posterior.log_marginal_likelihood, np.log(0.5), rtol=tolerance)


def test_thousands_of_matches_at_one_instant():
    rng = np.random.default_rng(0)
    strength = rng.normal(size=30)
    first, gap = rng.integers(0, 30, 4000), rng.integers(1, 30, 4000)
    second = (first + gap) % 30
    won = strength[first] - strength[second] + rng.normal(size=4000) > 0
    data = jk.Dataset.from_pairs(np.full(4000, 7.0), first, second, won, dtype="float32")
    posterior = jk.infer(jk.Model(CONSTANT, likelihoods.Probit()), data)
    found = posterior.linear_combination(list(range(30)), 7.0)
    off = (np.asarray(found.mean) - strength) / np.sqrt(np.asarray(found.variance))
    # The level of all scores together is the prior's alone.
    off -= off.mean()
    assert np.sqrt(np.mean(off**2)) < 2.0
    assert np.corrcoef(found.mean, strength)[0, 1] > 0.98


def test_pairs_of_players_with_scores_of_their_own():
    """Interactions in StarCraft: a score for every player, and for every pair who met."""
    table = games("starcraft_hots.csv.gz").query("winner != loser").tail(5000)
    low, high = np.sort(table[["winner", "loser"]].to_numpy(), axis=1).T
    pair = [f"{one} {other}" for one, other in zip(low, high, strict=True)]
    observations = [
        {int(one): 1.0, int(other): -1.0, both: 1.0}
        for one, other, both in zip(low, high, pair, strict=True)
    ]
    data = jk.Dataset.from_mappings(
        np.zeros(len(table)),
        observations,
        np.where(table.winner == low, 1.0, -1.0),
        groups=lambda name: "pair" if isinstance(name, str) else "player",
    )
    kernel = {"player": kernels.Constant(4.996), "pair": kernels.Constant(4.342)}
    posterior = jk.infer(jk.Model(kernel, likelihoods.Probit()), data)
    further = jk.infer(posterior.model, data, start=posterior, tol=1e-4)
    off = np.abs(further.observations.mean - posterior.observations.mean)
    assert np.all(off < 0.3 * np.sqrt(further.observations.variance))


def test_single_precision_on_the_last_games_of_the_nba():
    """`benchmarks/precision.py` does the same for all games, football and tennis."""
    table = games("nba_games.csv.gz").tail(1500)
    model = jk.Model(kernels.Constant(0.03) + kernels.Matern32(0.14, 1.75), likelihoods.Probit())
    single, double = (
        jk.infer(
            model,
            jk.Dataset.from_pairs(
                table.date.to_list(),
                table.team1.to_list(),
                table.team2.to_list(),
                (table.score1 > table.score2).to_list(),
                dtype=dtype,
            ),
            tol=tol,
        )
        for dtype, tol in (("float32", 3e-4), ("float64", 1e-6))
    )
    mean, variance = map(np.asarray, double.entries[0])
    off = np.abs(np.asarray(single.entries[0].mean) - mean)
    assert np.all(off <= 1e-3 * np.sqrt(variance))
    np.testing.assert_allclose(
        float(single.log_marginal_likelihood), double.log_marginal_likelihood, rtol=1e-5
    )
    assert "precision" not in {finding.kind for finding in single.check()}
