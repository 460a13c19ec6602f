"""Random programs, run with kickscore 0.2.0 and with its replacement."""

import numpy as np
import pytest

import jaxkick.compat.kickscore as drop_in
from tests import reference as ref
from tests.compat.programs import PROGRAMS, kickscore, random_program, run

NODES = np.linspace(-12.0, 12.0, 801)


def exact_moments(log_prob, mean, variance):
    """Compute the log-partition function and its derivatives by a fine trapezoidal rule."""
    heights = log_prob(mean + np.sqrt(variance) * NODES) - 0.5 * NODES**2
    weights = np.exp(heights - heights.max())
    total = weights.sum() * (NODES[1] - NODES[0]) / np.sqrt(2.0 * np.pi)
    weights /= weights.sum()
    first = weights @ NODES / np.sqrt(variance)
    second = weights @ (NODES**2 - 1.0) / variance - first**2
    return float(np.log(total) + heights.max()), float(first), float(second)


@pytest.fixture
def exact_integrals(monkeypatch):
    """kickscore with fine integrals in place of its 30 nodes and its mixture of probits."""
    ordinal, counts = kickscore.observation.ordinal, kickscore.observation.poisson

    def replace(kind, log_prob_of):
        def match_moments(self, mean, variance):
            return exact_moments(log_prob_of(self), mean, variance)

        monkeypatch.setattr(kind, "match_moments", match_moments)

    def predict(kind, log_prob_of):
        def probability(items, *outcome, t, **named):
            moments = kickscore.observation.Observation.f_params(items, t)
            return np.exp(exact_moments(log_prob_of(*outcome, **named), *moments)[0])

        monkeypatch.setattr(kind, "probability", staticmethod(probability))

    def logit(outcome):
        return lambda o: lambda f: ref.ordinal_logit(margin=o._margin)(outcome, f)

    def skellam(diff, base_rate):
        return lambda f: ref.skellam(base_rate=base_rate)(diff, f)

    replace(ordinal.LogitWinObservation, logit(1.0))
    replace(ordinal.LogitTieObservation, logit(0.0))
    replace(counts.SkellamObservation, lambda o: skellam(o._diff, o._base_rate))
    predict(counts.SkellamObservation, skellam)
    predict(counts.PoissonObservation, lambda count: lambda f: ref.poisson()(count, f))


@pytest.mark.parametrize("name", PROGRAMS)
def test_equal_results(name, exact_integrals):
    program = random_program(name)
    rate = 0.5 if program.method == "kl" else 0.8
    theirs = run(kickscore, program, tol=1e-10, max_iter=2000, lr=rate)
    ours = run(drop_in, program, tol=1e-7)
    assert ours.log_likelihood == pytest.approx(theirs.log_likelihood, rel=1e-6)
    for item in program.kernels:
        for own, other in zip(ours.item[item].scores, theirs.item[item].scores, strict=True):
            np.testing.assert_allclose(own, other, rtol=1e-6, atol=1e-6)
    times = np.array([-1.0, 0.33, 2.0, 5.0, 20.0])
    for item in ("Ada", "Eve"):
        for own, other in zip(
            ours.item[item].predict(times), theirs.item[item].predict(times), strict=True
        ):
            np.testing.assert_allclose(own, other, rtol=1e-6, atol=1e-6)
    # kickscore predicts logit outcomes by a mixture of probits, accurate to four digits.
    tolerance = 1e-4 if name == "ternary logit" else 1e-6
    for query in program.queries:
        np.testing.assert_allclose(
            ours.probabilities(**query), theirs.probabilities(**query), atol=tolerance
        )
