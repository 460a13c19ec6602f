"""A kernel and a likelihood of one's own, each one class, work in every part of the library."""

from typing import Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

import jaxkick as jk
from jaxkick.kernels import AbstractKernel, Instant, Interval
from jaxkick.likelihoods import AbstractLikelihood
from jaxkick.parameters import AbstractParameter, named, positive
from jaxkick.report.content import gather_content

YEARS = np.arange(12.0) / 2
FIRST = ["ant", "bee", "cat", "ant"] * 3
SECOND = ["bee", "cat", "ant", "cat"] * 3
MARGINS = np.array([1.5, -0.5, -2.0, 3.0, 0.5, 1.0, -1.5, 2.5, 1.0, -0.5, -3.0, 2.0])


class Logistic(AbstractLikelihood):
    """outcome = score + noise with a logistic distribution: nothing but its density."""

    scale: AbstractParameter = eqx.field(converter=named("scale", positive))

    def log_prob(self, outcome, score):
        z = (outcome - score) / self.scale.value
        return jax.nn.log_sigmoid(z) + jax.nn.log_sigmoid(-z) - jnp.log(self.scale.value)

    @classmethod
    def from_outcomes(cls, outcome: np.ndarray) -> Self:
        return cls(float(np.std(outcome)) / 2)


class Geometric(AbstractLikelihood):
    """A count with odds exp(-score) of stopping: P(y) = p (1 - p)^y."""

    @property
    def domain(self):
        return "a whole number not below zero"

    def check(self, outcome):
        return ~((outcome >= 0) & (outcome == np.round(outcome)))

    def log_prob(self, outcome, score):
        return jax.nn.log_sigmoid(-score) + outcome * jax.nn.log_sigmoid(score)


class Cauchit(AbstractLikelihood):
    """P(win) = ½ + arctan(score) / π: two levels that say who won."""

    @property
    def levels(self):
        return (-1.0, 1.0)

    @property
    def domain(self):
        return "+1 or -1"

    def check(self, outcome):
        return (outcome != 1) & (outcome != -1)

    def log_prob(self, outcome, score):
        return jnp.log(0.5 + jnp.arctan(outcome * score) / jnp.pi)


class Smooth(AbstractKernel):
    """Matérn 3/2 by plain arrays, in the state of the score and its derivative."""

    variance: AbstractParameter = eqx.field(converter=named("variance", positive))
    lengthscale: AbstractParameter = eqx.field(converter=named("lengthscale", positive))

    @property
    def state_dim(self):
        return 2

    def measurement(self):
        return jnp.array([1.0, 0.0])

    def state_cov(self, instant):
        rate = jnp.sqrt(3.0) / self.lengthscale.value
        return self.variance.value * jnp.diag(jnp.stack([jnp.ones_like(rate), rate**2]))

    def transition(self, interval):
        rate = jnp.sqrt(3.0) / self.lengthscale.value
        x = rate * interval.gap
        rows = [[1.0 + x, interval.gap], [-rate * x, 1.0 - x]]
        return jnp.exp(-x) * jnp.stack([jnp.stack(row) for row in rows])

    def noise_cov(self, interval):
        P, A = self.state_cov(interval.end), self.transition(interval)
        return P - A @ P @ A.T

    @classmethod
    def from_scale(cls, variance: float, span: float) -> Self:
        return cls(variance, span / 4)


def league(outcome=MARGINS):
    return jk.Dataset.from_pairs(YEARS, FIRST, SECOND, outcome)


@pytest.fixture(scope="module")
def posterior():
    return jk.infer(jk.Model(Smooth(2.0, 3.0), Logistic(1.0)), league())


def test_a_kernel_of_plain_arrays_is_the_one_it_writes_out(posterior):
    own, built_in = Smooth(2.0, 3.0), jk.kernels.Matern32(2.0, 3.0)
    for gap in (0.1, 1.0, 20.0):
        times = Instant.at(1.0), Instant.at(1.0 + gap)
        found = own.covariance(*times)
        np.testing.assert_allclose(found, built_in.covariance(*times), rtol=1e-9, atol=1e-12)
    same = jk.infer(jk.Model(built_in, Logistic(1.0)), league())
    np.testing.assert_allclose(
        posterior.log_marginal_likelihood, same.log_marginal_likelihood, rtol=1e-7
    )
    for name in ("ant", "bee"):
        ours, theirs = (each.scores(name, [0.3, 9.0], joint=False) for each in (posterior, same))
        np.testing.assert_allclose(ours.mean, theirs.mean, rtol=1e-6, atol=1e-8)
        np.testing.assert_allclose(ours.variance, theirs.variance, rtol=1e-6)


def test_plain_arrays_combine_with_other_kernels():
    interval = Interval.between(1.0, 2.5)
    for join in (lambda k: k + jk.kernels.Constant(0.5), lambda k: 2.0 * k * k):
        own, built_in = join(Smooth(2.0, 3.0)), join(jk.kernels.Matern32(2.0, 3.0))
        times = interval.start, interval.end
        np.testing.assert_allclose(own.covariance(*times), built_in.covariance(*times), rtol=1e-9)
        shape = (own.state_dim, own.state_dim)
        assert own.noise_cov(interval).to_array().shape == shape


def test_words(posterior):
    lines = posterior.describe()
    assert "a process of class Smooth" in lines
    assert "outcome: a finite number (Logistic)" in lines
    assert repr(posterior.model.likelihood) == "Logistic(scale=1)"


def test_predictions_of_a_continuous_outcome(posterior):
    prediction = posterior.predict("ant", "bee", 7.0)
    assert "expected" in repr(prediction)
    assert set(prediction.columns()) >= {"score_mean", "expected", "expected_deviation"}
    # Noise does not move the mean, and adds its variance π²/3.
    np.testing.assert_allclose(prediction.outcome_mean, prediction.mean, atol=1e-4)
    np.testing.assert_allclose(
        prediction.outcome_variance, prediction.variance + np.pi**2 / 3, rtol=1e-4
    )
    outcomes, densities = prediction.distribution()
    mass = np.sum(np.asarray(densities)) * (outcomes[1] - outcomes[0])
    assert mass == pytest.approx(1, abs=1e-3)
    np.testing.assert_allclose(prediction.outcome_quantile(0.5), prediction.mean, atol=1e-4)


class Student(AbstractLikelihood):
    """Student's t with some degrees of freedom around the score, up to a constant."""

    freedom: float

    def log_prob(self, outcome, score):
        return -0.5 * (self.freedom + 1) * jnp.log1p((outcome - score) ** 2 / self.freedom)


@pytest.mark.parametrize(
    ("freedom", "mean", "variance"), [(1.0, np.nan, np.nan), (2.0, 0.3, np.nan), (5.0, 0.3, 5 / 3)]
)
def test_moments_that_do_not_exist_are_left_out(freedom, mean, variance):
    prediction = jk.Prediction(jnp.array(0.3), jnp.array(0.2), Student(freedom))
    np.testing.assert_allclose(prediction.outcome_mean, mean, rtol=1e-3)
    np.testing.assert_allclose(prediction.outcome_variance, variance + 0.2, rtol=1e-3)
    names = {"expected": mean, "expected_deviation": variance}
    expected = {name for name, value in names.items() if np.isfinite(value)}
    assert set(prediction.columns()) - {"score_mean", "score_deviation"} == expected
    assert repr(prediction).startswith("Prediction of 1 match")


def test_learning_and_starting_values():
    data = league()
    start = jk.suggest_model(data, Logistic, Smooth)
    np.testing.assert_allclose(start.likelihood.scale, np.std(MARGINS) / 2)
    constant, changing = start.kernel.terms
    np.testing.assert_allclose(changing.variance, constant.variance)
    assert 1.0 < float(changing.lengthscale) < 2.0
    model, history = jk.learn(start, data, max_steps=3)
    assert history.values[-1] > history.values[0]
    assert isinstance(model.kernel.terms[1], Smooth)


def test_diagnostics_leaderboard_and_report(posterior):
    slow = jk.infer(jk.Model(Smooth(2.0, 100.0), Logistic(1.0)), league())
    kinds = {found.kind: found.message for found in slow.check()}
    assert "lengthscale" in kinds["lengthscale"]
    board = posterior.leaderboard()
    assert sorted(board["name"]) == ["ant", "bee", "cat"]
    content = gather_content(posterior, "A league")
    assert content["outcome"]["columns"] == ["expected", "lower", "upper"]
    assert "Logistic" in content["description"]


def test_counts_of_ones_own():
    counts = np.abs(np.round(MARGINS))
    posterior = jk.infer(jk.Model(jk.kernels.Constant(0.5), Geometric()), league(counts))
    prediction = posterior.predict("ant", "bee", 7.0)
    likelihood = Geometric()
    assert likelihood.is_discrete
    assert not likelihood.has_results
    assert "expected" in repr(prediction)
    # At a known score the count is geometric.
    p = scipy.stats.logistic.sf(0.3)
    truth = scipy.stats.geom(p, loc=-1)
    np.testing.assert_allclose(likelihood.predictive_mean(0.3, 0.0), truth.mean(), rtol=1e-6)
    np.testing.assert_allclose(likelihood.predictive_variance(0.3, 0.0), truth.var(), rtol=1e-6)
    assert likelihood.predictive_quantile(0.9, 0.3, 0.0) == truth.ppf(0.9)
    draws = np.asarray(likelihood.sample(jax.random.key(0), jnp.full(2000, 0.3)))
    assert not likelihood.check(draws).any()
    assert abs(draws.mean() - truth.mean()) < 4 * truth.std() / np.sqrt(2000)
    with pytest.raises(ValueError, match="Geometric has no win, tie and loss"):
        _ = prediction.p_win


def test_results_of_ones_own():
    signs = np.sign(MARGINS)
    posterior = jk.infer(jk.Model(jk.kernels.Constant(0.5), Cauchit()), league(signs))
    prediction = posterior.predict("ant", "bee", 7.0)
    np.testing.assert_allclose(prediction.p_win + prediction.p_loss, 1.0)
    assert prediction.p_tie == 0.0
    assert Cauchit().describe() == "a lead of 1 wins with probability 75 % (Cauchit)"
    # Odds of ten to one are at tan(π (10/11 − ½)).
    board, scores = posterior.leaderboard(scale="elo"), posterior.leaderboard()
    factor = 400 / np.tan(np.pi * (10 / 11 - 0.5))
    np.testing.assert_allclose(board["rating"], 1500 + factor * scores["rating"], rtol=1e-6)
