"""Checks of the arguments of inference, and observations that are ignored."""

import jax.numpy as jnp
import numpy as np
import pytest

import jaxkick as jk
from jaxkick import kernels, likelihoods


def pairs(outcome=1.0, dtype="float64"):
    return jk.Dataset.from_pairs(
        [0.0, 1.0, 2.0], list("aba"), list("bcc"), outcome, dtype=dtype, row_length=8
    )


MODEL = jk.Model(kernels.Constant(1.0), likelihoods.Probit())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"method": jk.ReverseKL}, r"`method` must be .*, not <class"),
        ({"method": "ep"}, r"`method` must be .*, not 'ep'"),
        ({"max_steps": 0}, "`max_steps` is 0"),
    ],
)
def test_settings_that_make_no_sense(arguments, message):
    with pytest.raises((TypeError, ValueError), match=message):
        jk.infer(MODEL, pairs(), **arguments)


def test_arguments_in_the_wrong_place():
    with pytest.raises(TypeError, match="`model` must be a `Model`, not Dataset"):
        jk.infer(pairs(), MODEL)
    with pytest.raises(TypeError, match="`data` must be a `Dataset`, not dict"):
        jk.infer(MODEL, {"a": 1})


def test_a_mean_of_a_group_that_the_data_lacks():
    model = jk.Model(kernels.Constant(1.0), likelihoods.Probit(), mean={"plyer": 3.0})
    with pytest.raises(ValueError, match="`mean` of the model has the group 'plyer'"):
        jk.infer(model, pairs())


def test_an_outcome_outside_the_domain_that_does_not_count():
    model = jk.Model(kernels.Constant(1.0), likelihoods.Poisson())
    mask = np.array([True, True, False])
    found = jk.infer(model, pairs([1.0, 2.0, -50.0]), mask=mask, tol=1e-6)
    expected = jk.infer(model, pairs([1.0, 2.0, 0.0]), mask=mask, tol=1e-6)
    np.testing.assert_allclose(found.observations.mean, expected.observations.mean, rtol=1e-9)


class Half(kernels.AbstractCompositeKernel):
    """A kernel that holds a number of its own."""

    scale: jk.AbstractParameter

    def definition(self):
        return kernels.Constant(0.5) + kernels.Matern12(self.scale, 2.0)


def test_a_derived_kernel_in_single_precision():
    model = jk.Model(Half(jk.Positive(1.0)), likelihoods.Probit())
    found = jk.infer(model, pairs(dtype="float32"), tol=1e-3)
    assert found.observations.mean.dtype == jnp.float32
    expected = jk.infer(model, pairs(), tol=1e-6)
    np.testing.assert_allclose(found.observations.mean, expected.observations.mean, atol=1e-3)


class StudentT(likelihoods.AbstractLikelihood):
    """Heavy tails: sites of outliers are negative."""

    def log_prob(self, outcome, score):
        return -2.5 * jnp.log1p((outcome - score) ** 2 / 4.0)


def test_an_outlier_counts_the_same_wherever_it_stands():
    """First in time it makes the past improper, which the matches that follow repair."""
    model = jk.Model(kernels.Constant(100.0), StudentT())
    evidences = []
    for place in (0, 24):
        outcome = np.zeros(25)
        outcome[place] = 10.0
        data = jk.Dataset.from_mappings(np.arange(25.0), [{"a": 1.0}] * 25, outcome, row_length=32)
        posterior = jk.infer(model, data, tol=1e-9)
        evidences.append(float(posterior.log_marginal_likelihood))
    assert np.isfinite(evidences[0])
    np.testing.assert_allclose(evidences[0], evidences[1], rtol=1e-9)


class Bumps(jk.likelihoods.AbstractLikelihood):
    """Two peaks: at the outcome, and at -3."""

    width: float

    def log_prob(self, outcome, score):
        def bump(centre):
            z = (score - centre) / self.width
            return -0.5 * z * z - jnp.log(2.0 * self.width * jnp.sqrt(2.0 * jnp.pi))

        return jnp.logaddexp(bump(outcome), bump(-3.0))


@pytest.mark.parametrize("width", [1.0, 0.05, 0.01])
def test_a_missed_peak_is_found_or_has_a_status(width):
    """Quadrature looks for one peak; where even grids do not help, the status says so."""
    data = jk.Dataset.from_pairs([0.0], ["a"], ["b"], [1.0])
    likelihood = Bumps(width)
    model = jk.Model(jk.kernels.Constant(2.0), likelihood)
    posterior = jk.infer(model, data, throw=False)
    x = np.linspace(-20.0, 20.0, 400_001)
    density = np.exp(np.asarray(likelihood.log_prob(1.0, jnp.asarray(x))) - x * x / 8.0)
    truth = np.log(np.sum(density) * (x[1] - x[0]) / np.sqrt(8.0 * np.pi))
    if abs(float(posterior.log_marginal_likelihood) - truth) > 0.05:
        assert posterior.status == jk.Status.INACCURATE
        with pytest.raises(jk.InferenceError, match="could not be integrated"):
            jk.infer(model, data)
    else:
        assert posterior.converged
    assert posterior.converged == (width >= 0.05)
    assert posterior.method.on_grid == (width < 1.0)


class Laplace(jk.likelihoods.AbstractLikelihood):
    """Noise with a kink at zero."""

    def log_prob(self, outcome, score):
        return -jnp.abs(outcome - score) - jnp.log(2.0)


@pytest.mark.parametrize("method", [jk.ExpectationPropagation(), jk.ReverseKL()])
def test_a_kink_is_integrated_on_a_grid(method):
    rng = np.random.default_rng(3)
    first, gap = rng.integers(0, 5, 30), rng.integers(1, 5, 30)
    data = jk.Dataset.from_pairs(np.zeros(30), first, (first + gap) % 5, rng.normal(size=30))
    model = jk.Model(jk.kernels.Constant(1.0), Laplace())
    posterior = jk.infer(model, data, method, tol=1e-6)
    assert posterior.converged
    assert posterior.method.on_grid
    once = data.subset(np.arange(30) < 1)
    if isinstance(method, jk.ExpectationPropagation):
        learnt, _ = jk.learn(model, data)
        assert jk.log_marginal_likelihood(learnt, data) > posterior.log_marginal_likelihood
        evidence = float(jk.infer(model, once, method, tol=1e-6).log_marginal_likelihood)
        x = np.linspace(-15.0, 15.0, 200_001)
        outcome = float(data.outcome[0])
        density = 0.5 * np.exp(-np.abs(outcome - x) - x * x / 4.0) / np.sqrt(4.0 * np.pi)
        np.testing.assert_allclose(evidence, np.log(np.sum(density) * (x[1] - x[0])), rtol=1e-4)
