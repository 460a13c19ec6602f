"""Prior means of scores: one number, one by group, one for every feature."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxkick as jk

NAMES = np.array(list("abcde"))
KERNEL = jk.kernels.Constant(0.5) + jk.kernels.Matern12(1.0, 1.0)
NOISE = jk.likelihoods.Gaussian(0.5)


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    sides = np.array([rng.choice(5, 2, replace=False) for _ in range(40)])
    times = rng.uniform(0.0, 3.0, 40)
    return jk.Dataset.from_pairs(
        times,
        NAMES[sides[:, 0]],
        NAMES[sides[:, 1]],
        rng.normal(size=40),
        covariates={"home": rng.integers(-1, 2, 40)},
        groups={"home": "advantage"},
    )


def offsets(data, means):
    """The prior mean of every observation's score, summed feature by feature."""
    total = np.zeros(len(data))
    coefficients, slots = np.asarray(data.coefficients), np.asarray(data.slots)
    for number, name in enumerate(data.names):
        entries = data.entries(name)
        for row, position in zip(entries.observations, entries.positions, strict=True):
            total[row] += means[number] * coefficients[row][slots[row] == position].sum()
    return total


def shifted(data, means):
    outcome = jnp.asarray(data.observations.outcome - offsets(data, means))
    return eqx.tree_at(lambda d: d.outcome, data, outcome)


MEANS = {
    "number": (0.7, lambda data: np.full(6, 0.7)),
    "groups": ({"advantage": 0.4}, lambda data: 0.4 * (np.array(data.names) == "home")),
    "features": (np.arange(6.0) / 3, lambda data: np.arange(6.0) / 3),
}


@pytest.mark.parametrize("method", [jk.ExpectationPropagation(), jk.ReverseKL()], ids=["ep", "kl"])
@pytest.mark.parametrize("kind", MEANS)
def test_equals_a_model_of_shifted_outcomes(data, kind, method):
    mean, of_features = MEANS[kind]
    means = of_features(data)
    kernels = {"skill": KERNEL, "advantage": jk.kernels.Constant(0.2)}
    posterior = jk.infer(jk.Model(kernels, NOISE, mean=mean), data, method, tol=1e-8)
    plain = jk.infer(jk.Model(kernels, NOISE), shifted(data, means), method, tol=1e-8)
    np.testing.assert_allclose(
        posterior.log_marginal_likelihood, plain.log_marginal_likelihood, rtol=1e-10
    )
    np.testing.assert_allclose(
        posterior.observations.mean,
        plain.observations.mean + offsets(data, means),
        atol=1e-7,
    )
    for number, name in enumerate(data.names):
        for times in (None, [-1.0, 0.5, 9.0]):
            with_mean, without = (
                each.scores(name, times, joint=False) for each in (posterior, plain)
            )
            np.testing.assert_allclose(with_mean.mean, without.mean + means[number], atol=1e-7)
            np.testing.assert_allclose(with_mean.variance, without.variance, rtol=1e-6)
    combined = posterior.predict("a", "b", 1.0, covariates={"home": 2.0})
    bare = plain.predict("a", "b", 1.0, covariates={"home": 2.0})
    x = {"a": 1.0, "b": -1.0, "home": 2.0}
    extra = sum(means[data.feature_id(name)] * factor for name, factor in x.items())
    np.testing.assert_allclose(combined.mean, bare.mean + extra, atol=1e-7)
    np.testing.assert_allclose(combined.variance, bare.variance, rtol=1e-6)


def test_an_unseen_feature_has_the_mean_of_its_group(data):
    kernels = {"skill": KERNEL, "advantage": jk.kernels.Constant(0.2)}
    for mean, expected in [(0.7, 0.7), ({"skill": 0.3}, 0.3), ({"advantage": 0.3}, 0.0)]:
        posterior = jk.infer(jk.Model(kernels, NOISE, mean=mean), data)
        scores = posterior.scores("new", [1.0], allow_unknown=True)
        np.testing.assert_allclose(scores.mean, [expected])


def test_newcomers_among_features_with_means_of_their_own(data):
    """Zero may be far from all of these means, so a newcomer's has to be given."""
    kernels = {"skill": KERNEL, "advantage": jk.kernels.Constant(0.2)}
    more = jk.Dataset.from_pairs([4.0], ["a"], ["new"], [0.5], groups={"home": "advantage"})
    silent = jk.infer(jk.Model(kernels, NOISE, mean=np.full(6, 40.0)), data)
    remedy = "one prior mean for each feature .* Pass `newcomer_mean=` to `Model`"
    for ask in (
        lambda: silent.predict("a", "new", 1.0, allow_unknown=True),
        lambda: silent.sample("new", [1.0], jax.random.key(0), allow_unknown=True),
        lambda: silent.update(more),
    ):
        with pytest.raises(jk.DataError, match=remedy):
            ask()
    posterior = jk.infer(jk.Model(kernels, NOISE, np.full(6, 40.0), newcomer_mean=39.0), data)
    prior = posterior.scores("new", [1.0], allow_unknown=True)
    np.testing.assert_allclose(prior.mean, [39.0])
    np.testing.assert_allclose(posterior.update(more).model.mean.value, [40] * 5 + [40, 39])
    with pytest.raises(jk.DataError, match="`newcomer_mean` is given, but `mean` has no number"):
        jk.Model(KERNEL, NOISE, mean=0.5, newcomer_mean=0.5)


def test_gradient_agrees_with_central_differences(data):
    def evidence(means):
        model = jk.Model(KERNEL, NOISE, mean=means)
        return jk.log_marginal_likelihood(model, data, tol=1e-8)

    evidence = jax.jit(evidence)
    means = jnp.asarray(np.random.default_rng(1).normal(size=6))
    step = 1e-4 * jnp.eye(6)
    differences = [(evidence(means + e) - evidence(means - e)) / 2e-4 for e in step]
    np.testing.assert_allclose(jax.jit(jax.grad(evidence))(means), differences, rtol=1e-5)


def test_mean_is_learnt():
    rng = np.random.default_rng(2)
    outcome = 3.0 + rng.normal(size=80)
    data = jk.Dataset.from_arrays(
        rng.uniform(0, 1, 80), np.arange(80)[:, None] % 20, np.ones((80, 1)), outcome
    )
    start = jk.Model(jk.kernels.Constant(0.1), NOISE, mean=0.0)
    model, _ = jk.learn(start, data)
    np.testing.assert_allclose(model.mean.value, outcome.mean(), atol=0.02)
    held, _ = jk.learn(jk.Model(start.kernel, NOISE, mean=jk.Fixed(1.0)), data, max_steps=2)
    assert float(held.mean.value) == 1.0


def test_errors(data):
    with pytest.raises(ValueError, match="has 4 numbers, but the data has 6 features"):
        jk.infer(jk.Model(KERNEL, NOISE, mean=np.zeros(4)), data)
    with pytest.raises(
        ValueError, match=r"shape \(2, 2\), but must be a number or one number for each"
    ):
        jk.Model(KERNEL, NOISE, mean=np.zeros((2, 2)))
    with pytest.raises(ValueError, match=r"`mean\['team'\]` has the shape \(2,\)"):
        jk.Model(KERNEL, NOISE, mean={"team": np.zeros(2)})
    with pytest.raises(ValueError, match="`mean` has the group 'tem', but the kernels are for"):
        jk.Model({"team": KERNEL}, NOISE, mean={"tem": 1.0})
