"""Whole fits against kickscore 0.2.0, and the paper's model of the NBA."""

import numpy as np
import pandas as pd
import pytest

import jaxkick as jk
from tests import reference as ref
from tests.shared_data import shared_data
from tests.translation import dataset_of, model_of

pytestmark = pytest.mark.optimized

CASES = {
    "probit": (ref.probit(), "ep", 1e-6),
    "ordinal probit": (ref.ordinal_probit(margin=0.4), "ep", 1e-6),
    "gaussian": (ref.gaussian(2.0), "ep", 1e-6),
    "logit": (ref.logit(), "ep", 2e-3),
    "probit by reverse KL": (ref.probit(), "kl", 1e-6),
}


@pytest.mark.parametrize("name", CASES)
def test_equals_kickscore(name):
    likelihood, method, tolerance = CASES[name]
    problem = ref.random_league(likelihood, seed=11)
    theirs = ref.kickscore_fit(problem, method, damping=0.2 if method == "ep" else 0.5)
    ours = jk.infer(
        model_of(problem),
        dataset_of(problem),
        jk.ExpectationPropagation() if method == "ep" else jk.ReverseKL(),
        tol=1e-9,
    )
    for feature, (times, means, variances) in theirs.scores.items():
        if not len(times):
            continue
        scores = ours.scores(feature, joint=False)
        np.testing.assert_allclose(scores.times, times)
        np.testing.assert_allclose(scores.mean, means, atol=tolerance)
        np.testing.assert_allclose(scores.variance, variances, atol=tolerance)
    np.testing.assert_allclose(
        ours.log_marginal_likelihood, theirs.log_likelihood, atol=tolerance, rtol=1e-7
    )


def test_the_papers_model_of_the_nba():
    games = pd.read_csv(shared_data("nba_games.csv.gz"))
    home_won = games.score1 > games.score2
    games["winner"] = np.where(home_won, games.team1, games.team2)
    games["loser"] = np.where(home_won, games.team2, games.team1)
    data = jk.Dataset.from_frame(games, time="date", first="winner", second="loser")
    model = jk.Model(
        jk.kernels.Constant(0.003) + jk.kernels.Matern12(0.152, 3.324), jk.likelihoods.Probit()
    )
    quick = jk.infer(model, data)
    assert abs(quick.log_marginal_likelihood - -42806.14619) < 0.05
    assert quick.steps < 32  # what kickscore's rule takes, to end one nat short
    exact = jk.infer(model, data, start=quick, tol=1e-5)
    assert abs(exact.log_marginal_likelihood - -42806.14619) < 1e-4
