"""Models in words, and reprs that make the model again."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import jaxkick as jk
from jaxkick import kernels as k
from jaxkick import likelihoods as lik
from jaxkick.describe import describe_kernel, describe_likelihood


@pytest.mark.parametrize(
    ("kernel", "text"),
    [
        (
            k.Constant(0.04) + k.Matern12(1.0, 3.3),
            "a constant level of ± 0.2 plus rough fluctuations of ± 1 that fade over about 3.3 "
            "years",
        ),
        (k.Matern32(0.25, 1 / 1.2391), "fluctuations of ± 0.5 that fade over about 1 year"),
        (k.Matern12(1e6, 1234.5), "rough fluctuations of ± 1000 that fade over about 1200 years"),
        (k.Wiener(0.09), "a random walk from the first match on that moves by ± 0.3 in one year"),
        (k.Linear(0.01, origin=2000.0), "a straight trend of ± 0.1 in one year from 2000 on"),
        (
            k.Affine(1.0, 0.01),
            "a level of ± 1 and a straight trend of ± 0.1 in one year from the first match on",
        ),
        (k.PiecewiseConstant(1.0, [1, 2, 3]), "a level of ± 1 that is drawn afresh 3 times"),
        (k.Periodic(1.0, 1.0, 0.5), "a pattern of ± 1 that repeats every 0.5 years"),
        (
            k.Cosine(1.0, 2.0, 7.0) * k.Matern52(1.0, 2.0),
            "a wave of ± 1 with a period of 2 years that fades over about 7 years times smooth "
            "fluctuations of ± 1 that fade over about 2.6 years",
        ),
        (4.0 * k.Constant(1.0), "a constant level of ± 1, with 4 times the variance"),
    ],
)
def test_kernels(kernel, text):
    assert describe_kernel(kernel, "year") == text


@pytest.mark.parametrize("kind", [k.Matern12, k.Matern32, k.Matern52, k.SquaredExponential])
def test_fading_is_where_the_correlation_is_one_in_e(kind):
    words = describe_kernel(kind(1.0, 1000.0), "day")
    days = float(words.split("about ")[1].split()[0])
    correlation = float(kind(1.0, 1000.0).covariance_over(jnp.asarray(days)))
    # The text has two digits.
    assert correlation == pytest.approx(np.exp(-1), abs=0.02)


@pytest.mark.parametrize(
    ("likelihood", "text"),
    [
        (lik.Probit(), f"who is ahead by 1 wins with {100 * stats.norm.cdf(1):.0f} % (Probit)"),
        (
            lik.OrdinalProbit(margin=0.5),
            f"who is ahead by 1 wins with {100 * stats.norm.cdf(0.5):.0f} %; equals tie with "
            f"{100 - 200 * stats.norm.cdf(-0.5):.0f} % (OrdinalProbit)",
        ),
        (
            lik.OrdinalLogit(cuts=[-1.0, 2.0]),
            "3 ordered outcomes with cuts at -1, 2 (OrdinalLogit)",
        ),
        (lik.Gaussian(100.0), "the outcome is the score with noise of ± 10 (Gaussian)"),
    ],
)
def test_likelihoods(likelihood, text):
    assert describe_likelihood(likelihood) == text


def test_models():
    model = jk.Model(
        {"default": k.Constant(0.04), "home": k.Constant(0.01)}, lik.Probit(), mean={"home": 0.3}
    )
    assert model.describe().splitlines() == [
        "default: a constant level of ± 0.2",
        "home: a constant level of ± 0.1, around 0.3",
        "outcomes: who is ahead by 1 wins with 84 % (Probit)",
    ]
    plain = jk.Model(k.Matern12(1.0, 2.0), lik.Probit(), mean=np.zeros(3))
    assert (
        "fade over about 2 units of time\nevery score around a mean of its own" in plain.describe()
    )


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
