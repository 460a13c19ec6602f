"""Likelihoods with one number for each observation.

Noise of scale c in a match is noise of scale one where all coefficients are divided by c.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.special import log_ndtr

import jaxkick as jk

KERNEL = jk.kernels.Constant(0.5) + jk.kernels.Matern12(0.7, 2.0)
COUNT = 41
METHODS = {"ep": jk.ExpectationPropagation(), "kl": jk.ReverseKL()}


class NoisyProbit(jk.likelihoods.AbstractLikelihood):
    """A probit whose noise has another scale in every match."""

    scale: jax.Array

    def log_prob(self, outcome, score):
        return log_ndtr(outcome * score / self.scale)


def league(count=COUNT, scale=None, seed=0):
    """Matches of six teams; coefficients are divided by `scale`."""
    rng = np.random.default_rng(seed)
    first, gap = rng.integers(0, 6, count), rng.integers(1, 6, count)
    coefficients = np.tile([1.0, -1.0], (count, 1))
    return jk.Dataset.from_arrays(
        np.sort(rng.uniform(0.0, 4.0, count)),
        np.stack([first, (first + gap) % 6], axis=1).astype(np.int32),
        coefficients if scale is None else coefficients / scale[:, None],
        rng.choice([-1.0, 1.0], count),
    )


def scaled_outcomes(scale):
    """The same with coefficients and outcomes divided by `scale`."""
    observations = league(scale=scale).observations
    observations = dataclasses.replace(observations, outcome=observations.outcome / scale)
    return jk.Dataset.from_observations(observations)


def scales(count=COUNT):
    return np.random.default_rng(1).uniform(0.3, 3.0, count)


def close(found, expected, scale, tolerance=1e-6):
    np.testing.assert_allclose(
        found.log_marginal_likelihood, expected.log_marginal_likelihood, atol=tolerance
    )
    np.testing.assert_allclose(
        found.observations.mean, scale * expected.observations.mean, atol=tolerance
    )


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_equals_scaled_coefficients(method):
    scale, mask = scales(), np.arange(COUNT) % 5 != 2
    noisy = jk.Model(KERNEL, NoisyProbit(jnp.asarray(scale)))
    plain = jk.Model(KERNEL, jk.likelihoods.Probit())
    data, scaled = league(), league(scale=scale)
    assert len(data.outcome) > COUNT
    for chosen in (None, mask):
        found = jk.infer(noisy, data, method, mask=chosen, tol=1e-8)
        close(found, jk.infer(plain, scaled, method, mask=chosen, tol=1e-8), scale)


def test_a_parameter_of_a_likelihood_of_the_package():
    """And the smoothed scores, which read the likelihood again."""
    variance = scales() ** 2
    found = jk.infer(jk.Model(KERNEL, jk.likelihoods.Gaussian(variance)), league(), tol=1e-9)
    data = scaled_outcomes(np.sqrt(variance))
    expected = jk.infer(jk.Model(KERNEL, jk.likelihoods.Gaussian(1.0)), data, tol=1e-9)
    np.testing.assert_allclose(
        found.log_marginal_likelihood,
        expected.log_marginal_likelihood - 0.5 * np.sum(np.log(variance)),
        rtol=1e-9,
    )
    for joint in (False, True):
        ours, theirs = (each.scores(3, [1.0, 5.0], joint=joint) for each in (found, expected))
        np.testing.assert_allclose(ours.mean, theirs.mean, rtol=1e-6)
        np.testing.assert_allclose(ours.variance, theirs.variance, rtol=1e-6)


def test_on_three_devices():
    scale = scales()
    model = jk.Model(KERNEL, NoisyProbit(jnp.asarray(scale)))
    mesh = jax.make_mesh((3,), ("rows",))
    found = jk.infer(model, league().shard(mesh), tol=1e-8)
    close(found, jk.infer(model, league(), tol=1e-8), 1.0)


def test_one_likelihood_of_several_kinds():
    """Numbers follow the rows of the whole data."""
    scale = scales(2 * COUNT)
    parts = [league(seed=seed) for seed in (0, 1)]
    data = jk.concat(dict(zip("ab", parts, strict=True)))
    noisy = NoisyProbit(jnp.asarray(scale))
    found = jk.infer(jk.Model(KERNEL, {"a": noisy, "b": jk.likelihoods.Probit()}), data, tol=1e-8)
    halves = [league(seed=0, scale=scale[:COUNT]), parts[1]]
    expected = jk.infer(
        jk.Model(KERNEL, jk.likelihoods.Probit()),
        jk.concat(dict(zip("ab", halves, strict=True))),
        tol=1e-8,
    )
    close(found, expected, np.append(scale[:COUNT], np.ones(COUNT)))


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_gradient_agrees_with_central_differences(method):
    data = league()

    @jax.jit
    def evidence(scale):
        model = jk.Model(KERNEL, NoisyProbit(scale))
        return jk.log_marginal_likelihood(model, data, method, tol=1e-9)

    scale = jnp.asarray(scales())
    gradient = jax.jit(jax.grad(evidence))(scale)
    assert gradient.shape == (COUNT,)
    for number in (0, 7, COUNT - 1):
        step = 1e-4 * jnp.eye(COUNT)[number]
        difference = (evidence(scale + step) - evidence(scale - step)) / 2e-4
        np.testing.assert_allclose(gradient[number], difference, rtol=1e-4)


def test_kernels_are_learnt_beside_known_noise():
    variance = scales() ** 2
    kernel = jk.kernels.Constant(1.0)
    noisy = jk.Model(kernel, jk.likelihoods.Gaussian(jk.Fixed(variance)))
    found, _ = jk.learn(noisy, league(), tol=1e-8)
    expected, _ = jk.learn(
        jk.Model(kernel, jk.likelihoods.Gaussian(jk.Fixed(1.0))),
        scaled_outcomes(np.sqrt(variance)),
        tol=1e-8,
    )
    np.testing.assert_allclose(found.kernel.variance, expected.kernel.variance, rtol=1e-3)


def test_a_large_league_of_which_a_sample_is_checked():
    count = 1_300
    scale = scales(count)
    found = jk.infer(jk.Model(KERNEL, NoisyProbit(jnp.asarray(scale))), league(count), tol=1e-6)
    plain = jk.Model(KERNEL, jk.likelihoods.Probit())
    close(found, jk.infer(plain, league(count, scale), tol=1e-6), scale, 1e-4)


def test_as_many_cuts_as_matches():
    """Cuts are not numbers of observations, however many there are."""
    cuts = np.linspace(-1.0, 1.0, COUNT)
    data = league()
    assert len(cuts) == len(data)
    found = jk.infer(jk.Model(KERNEL, jk.likelihoods.OrdinalProbit(cuts=cuts)), counted(data))
    more = jk.infer(
        jk.Model(KERNEL, jk.likelihoods.OrdinalProbit(cuts=cuts)), counted(league(2 * COUNT))
    )
    assert found.converged
    assert more.converged


def counted(data):
    outcome = np.arange(float(len(data))) % COUNT
    return jk.Dataset.from_observations(dataclasses.replace(data.observations, outcome=outcome))


def test_other_lengths_are_refused():
    data = league()
    for number in (COUNT - 1, COUNT + 1, len(data.outcome)):
        likelihood = NoisyProbit(jnp.ones(number))
        with pytest.raises(jk.DataError, match=f"NoisyProbit has {number} numbers, but .* has 41"):
            jk.infer(jk.Model(KERNEL, likelihood), data)


def test_new_matches_have_no_number():
    data = league()
    posterior = jk.infer(jk.Model(KERNEL, NoisyProbit(jnp.asarray(scales()))), data)
    more = jk.Dataset.from_arrays([9.0], np.array([[0, 1]]), np.array([[1.0, -1.0]]), [1.0])
    with pytest.raises(
        jk.DataError, match=r"has 41 numbers, but the data has 42 .* numbers of all"
    ):
        posterior.update(more)
    remedy = "one number for each observation .* cannot predict.* `linear_combination`"
    with pytest.raises(jk.DataError, match=remedy):
        posterior.predict(0, 1, 9.0)
    with pytest.raises(jk.DataError, match=remedy):
        jk.evaluation.walk_forward(posterior.model, data, 3.0, every=lambda times: times)
    np.testing.assert_array_equal(posterior.linear_combination({0: 1.0}, 9.0).mean.shape, ())


def test_description_and_storage(tmp_path):
    likelihood = jk.likelihoods.Gaussian(jk.Fixed(scales() ** 2))
    posterior = jk.infer(jk.Model(KERNEL, likelihood), league())
    assert "outcome: Gaussian with one number for each observation" in posterior.describe()
    jk.save(tmp_path / "fit.npz", posterior)
    again = jk.load(tmp_path / "fit.npz")
    np.testing.assert_array_equal(again.observations.mean, posterior.observations.mean)
    np.testing.assert_array_equal(again.model.likelihood.variance.value, scales() ** 2)
