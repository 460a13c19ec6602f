"""Outcomes of a normal score by scipy and by brute force, one likelihood after the other."""

from typing import NamedTuple

import numpy as np
from scipy import stats

import jaxkick as jk
from jaxkick.likelihoods import AbstractLikelihood

NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(100)
WEIGHTS = WEIGHTS / WEIGHTS.sum()
LARGEST = 400


class Case(NamedTuple):
    """A likelihood, a normal score, and what the page must say of it."""

    likelihood: AbstractLikelihood
    mean: float
    variance: float
    truth: dict


def average(function, mean, variance):
    """E[function(f)] for a normal score f."""
    scores = mean + np.sqrt(variance) * NODES
    return sum(w * function(f) for w, f in zip(WEIGHTS, scores, strict=True))


def between(cdf, cuts, mean, variance):
    below = [0.0, *(average(lambda f, c=c: cdf(c - f), mean, variance) for c in cuts), 1.0]
    return np.diff(below)


def ends(outcomes, chances):
    """The interval of a distribution over whole numbers."""
    cumulative = np.cumsum(chances)
    lower, upper = (outcomes[np.searchsorted(cumulative, p)] for p in (0.05, 0.95))
    return {"lower": lower, "upper": upper}


def cases():
    """All kinds of likelihood, with sure and unsure scores."""
    likes = jk.likelihoods
    for mean, variance in [(0.3, 0.2), (-1.2, 1.7)]:
        args = mean, variance

        def result(likelihood, cdf, cuts, args=args):
            chances = between(cdf, cuts, *args)
            whole = [chances[0], 0.0, chances[1]] if len(chances) == 2 else chances
            return Case(likelihood, *args, {"result": whole})

        yield result(likes.Probit(), stats.norm.cdf, [0.0])
        yield result(likes.Logit(), stats.logistic.cdf, [0.0])
        yield result(likes.OrdinalProbit(margin=0.4), stats.norm.cdf, [-0.4, 0.4])
        yield result(likes.OrdinalLogit(margin=0.4), stats.logistic.cdf, [-0.4, 0.4])
        cuts = [-1.0, 0.2, 0.9]
        chances = between(stats.norm.cdf, cuts, *args)
        yield Case(likes.OrdinalProbit(cuts=cuts), *args, {"chances": chances})
        yield gaussian(likes.Gaussian(2.0), *args)
        yield poisson(likes.Poisson(), *args)
    yield skellam(likes.Skellam(0.3), 0.4, 0.1, 0.3)
    yield skellam(likes.Skellam(3.0), -0.2, 0.02, 3.0)


def gaussian(likelihood, mean, variance):
    total = stats.norm(mean, np.sqrt(variance + 2.0))
    win = total.sf(0.0)
    truth = {"expected": mean, "lower": total.ppf(0.05), "upper": total.ppf(0.95)}
    return Case(likelihood, mean, variance, {**truth, "result": [1 - win, 0.0, win]})


def poisson(likelihood, mean, variance):
    counts = np.arange(LARGEST)
    chances = average(lambda f: stats.poisson.pmf(counts, np.exp(f)), mean, variance)
    expected = average(np.exp, mean, variance)
    return Case(likelihood, mean, variance, {**ends(counts, chances), "expected": expected})


def skellam(likelihood, mean, variance, base):
    numbers = np.arange(-LARGEST, LARGEST + 1)

    def pmf(f):
        return stats.skellam.pmf(numbers, np.exp(base + f), np.exp(base - f))

    chances = average(pmf, mean, variance)
    signs = [chances[np.sign(numbers) == sign].sum() for sign in (-1, 0, 1)]
    expected = average(lambda f: np.exp(base + f) - np.exp(base - f), mean, variance)
    truth = {**ends(numbers, chances), "expected": expected, "result": signs}
    return Case(likelihood, mean, variance, truth)
