"""Models in words, and reprs that make the model again."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import jaxkick as jk
from jaxkick import kernels as k
from jaxkick import likelihoods as lik


@pytest.mark.parametrize(
    ("kernel", "text"),
    [
        (
            k.Constant(0.04) + k.Matern12(1.0, 3.3),
            "a constant level with standard deviation 0.2, plus rough fluctuations with standard "
            "deviation 1 and lengthscale 3.3 years (half-life 2.3 years)",
        ),
        (
            k.Matern32(0.25, 1.0),
            "fluctuations with standard deviation 0.5 and lengthscale 1 year (half-life 0.97 "
            "years)",
        ),
        (
            k.Matern12(1e6, 1234.5),
            "rough fluctuations with standard deviation 1000 and lengthscale 1200 years "
            "(half-life 860 years)",
        ),
        (
            k.Wiener(0.09),
            "a random walk from the first match on with standard deviation 0.3 after one year",
        ),
        (
            k.Linear(0.01, origin=2000.0),
            "a linear trend from 2000 on with standard deviation 0.1 per year",
        ),
        (
            k.Affine(1.0, 0.01),
            "a level with standard deviation 1 and a linear trend from the first match on with "
            "standard deviation 0.1 per year",
        ),
        (
            k.PiecewiseConstant(1.0, [1, 2, 3]),
            "a level with standard deviation 1 that changes at 3 boundaries",
        ),
        (
            k.Periodic(1.0, 1.0, 0.5),
            "a pattern with standard deviation 1 that repeats every 0.5 years",
        ),
        (
            k.Cosine(1.0, 2.0, 7.0) * k.Matern52(1.0, 2.0),
            "a sine wave with standard deviation 1 and period 2 years, fading with lengthscale 7 "
            "years times smooth fluctuations with standard deviation 1 and lengthscale 2 years "
            "(half-life 2.1 years)",
        ),
        (
            4.0 * k.Constant(1.0),
            "a constant level with standard deviation 1, with 4 times the variance",
        ),
        (
            k.Constant(0.04) + k.Aspects(home=k.Constant(0.09), away=k.Matern12(1.0, 1.0)),
            "a constant level with standard deviation 0.2, plus home: a constant level with "
            "standard deviation 0.3; away: rough fluctuations with standard deviation 1 and "
            "lengthscale 1 year (half-life 0.69 years)",
        ),
        (
            k.CorrelatedAspects(k.Constant(1.0), ["attack", "defence"], 0.6, [0.3, 0.2]),
            "attack and defence: a constant level with standard deviation 1, times 0.3 (attack) "
            "and 0.2 (defence); attack and defence correlate 0.60",
        ),
        (
            k.LinearSDE([[-1.0]], [1.0], 2.0, [1.0]),
            "a process of class LinearSDE",
        ),
    ],
)
def test_kernels(kernel, text):
    assert kernel.describe("year") == text


@pytest.mark.parametrize("kind", [k.Matern12, k.Matern32, k.Matern52, k.SquaredExponential])
def test_the_half_life_is_where_the_correlation_is_one_half(kind):
    words = kind(1.0, 950.0).describe("day")
    days = float(words.split("half-life ")[1].split()[0])
    correlation = float(kind(1.0, 950.0).covariance_over(jnp.asarray(days)))
    # The text has two digits.
    assert correlation == pytest.approx(0.5, abs=0.02)


@pytest.mark.parametrize(
    ("likelihood", "text"),
    [
        (
            lik.Probit(),
            f"a lead of 1 wins with probability {100 * stats.norm.cdf(1):.0f} % (Probit)",
        ),
        (
            lik.OrdinalProbit(margin=0.5),
            f"a lead of 1 wins with probability {100 * stats.norm.cdf(0.5):.0f} %; equal skills "
            f"tie with probability {100 - 200 * stats.norm.cdf(-0.5):.0f} % (OrdinalProbit)",
        ),
        (
            lik.OrdinalLogit(cuts=[-1.0, 2.0]),
            "3 ordered outcomes with cuts at -1, 2 (OrdinalLogit)",
        ),
        (lik.Gaussian(100.0), "the score plus noise with standard deviation 10 (Gaussian)"),
        (lik.Poisson(), "a count; a score higher by 0.1 raises its rate by 10.5 % (Poisson)"),
        (
            lik.Skellam(np.log(1.5)),
            "a difference of two counts with rate 1.5 each between equals; a lead of 0.1 raises "
            "the first rate by 10.5 % and lowers the second by 9.5 % (Skellam)",
        ),
    ],
)
def test_likelihoods(likelihood, text):
    assert likelihood.describe() == text


def test_models():
    model = jk.Model(
        {"skill": k.Constant(0.04), "home": k.Constant(0.01)}, lik.Probit(), mean={"home": 0.3}
    )
    assert model.describe().splitlines() == [
        "skill: a constant level with standard deviation 0.2",
        "home: a constant level with standard deviation 0.1, with mean 0.3",
        "outcome: a lead of 1 wins with probability 84 % (Probit)",
    ]
    plain = jk.Model(k.Matern12(1.0, 2.0), lik.Probit(), mean=np.zeros(3))
    assert "lengthscale 2 units of time" in plain.describe()
    assert "prior mean: one for each feature" in plain.describe()


@pytest.mark.parametrize(
    "text",
    [
        "Constant(variance=0.03) + Matern32(variance=0.9, lengthscale=7.5)",
        "2 * (Constant(variance=1) + Wiener(variance=0.5, origin=FIRST, origin_variance=0))",
        "Matern12(variance=1, lengthscale=2) * Cosine(variance=1, period=3)",
        "Probit()",
        "OrdinalProbit(margin=0.35)",
        "OrdinalLogit(cuts=[-1, 0, 2])",
        "Skellam(base_rate=0.2)",
    ],
)
def test_reprs_read_like_the_formula(text):
    made = eval(text, {**vars(k), **vars(lik)})
    assert repr(made) == text


def test_the_repr_of_what_is_not_known_yet():
    traced = jax.eval_shape(lambda kernel: kernel, k.Constant(1.0))
    assert repr(traced) == "Constant(variance=?)"


def test_the_repr_of_a_model():
    model = jk.Model(k.Constant(1.0), lik.Probit(), mean=0.5)
    assert repr(model) == "Model(kernel=Constant(variance=1), likelihood=Probit(), mean=0.5)"
