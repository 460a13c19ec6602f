"""Several skills of one competitor in one state, against dense Gaussian processes."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import multivariate_normal

import jaxkick as jk
from jaxkick import kernels, likelihoods
from jaxkick.chains.smoother import smooth_chain
from jaxkick.chains.step import Site, StepModel
from jaxkick.parameters import resolve
from tests import reference as ref
from tests.differences import assert_gradient

NUM, PLAYERS = 24, 4
CORRELATION, SCALES = 0.6, (1.0, 0.7)
KERNEL = (
    kernels.Constant(0.3)
    + kernels.Aspects(skill=kernels.Matern12(0.8, 2.0), home=kernels.Constant(0.2))
    + kernels.CorrelatedAspects(kernels.Matern12(0.5, 3.0), ["clay", "grass"], CORRELATION, SCALES)
)
GENERAL = ref.constant(0.3) + ref.matern12(0.8, 2.0)
HOME, SURFACE = ref.constant(0.2), ref.matern12(0.5, 3.0)


class League:
    """Matches at times of their own, so that coefficients are functions of player and time."""

    def __init__(self):
        rng = np.random.default_rng(1)
        self.times = np.sort(rng.uniform(0.0, 6.0, NUM))
        self.features = np.array([rng.permutation(PLAYERS)[:2] for _ in range(NUM)])
        self.x = np.tile([1.0, -1.0], (NUM, 1)) * rng.uniform(0.7, 1.3, (NUM, 2))
        surface = rng.integers(0, 2, NUM)
        self.aspects = {
            "home": np.tile([1.0, 0.0], (NUM, 1)),
            "clay": np.stack([surface == 0] * 2, axis=1).astype(float),
            "grass": np.stack([surface == 1] * 2, axis=1) * rng.uniform(0.5, 1.0, (NUM, 2)),
        }
        self.outcomes = np.where(rng.random(NUM) < 0.6, 1.0, -1.0)

    def coefficients(self, player, times):
        """Coefficients of home, clay and grass of a player's entries at given times."""
        rows = np.searchsorted(self.times, times)
        slots = (self.features[rows] == player).argmax(axis=-1)
        return [self.aspects[name][rows, slots] for name in ("home", "clay", "grass")]

    def covariance(self, player):
        """The covariance of a player's scores in its matches, as a function of two times."""

        def function(t, u):
            return combine(t, u, self.coefficients(player, t), self.coefficients(player, u))

        return ref.Covariance(function, "aspects")

    @functools.cached_property
    def problem(self):
        rows = [
            {f"p{k}": x for k, x in zip(*row, strict=True)}
            for row in zip(self.features, self.x, strict=True)
        ]
        covariances = {f"p{k}": self.covariance(k) for k in range(PLAYERS)}
        ones = np.ones(NUM)
        return ref.SmallProblem(self.times, rows, self.outcomes, ones, covariances, ref.probit())

    @functools.cache  # noqa: B019
    def data(self, row_length=None, dtype="float64"):
        return jk.Dataset.from_arrays(
            self.times,
            self.features,
            self.x,
            self.outcomes,
            names=[f"p{k}" for k in range(PLAYERS)],
            aspects=self.aspects,
            row_length=row_length,
            dtype=dtype,
        )


def combine(t, u, one, other):
    """The covariance of two scores with coefficients `one` and `other` of home, clay, grass."""
    (h, c, g), (k, d, e) = one, other
    c, g, d, e = c * SCALES[0], g * SCALES[1], d * SCALES[0], e * SCALES[1]
    mixed = c * d + g * e + CORRELATION * (c * e + g * d)
    return GENERAL(t, u) + h * k * HOME(t, u) + mixed * SURFACE(t, u)


@pytest.fixture(scope="module")
def league():
    return League()


@pytest.fixture(scope="module")
def dense(league):
    return ref.dense_ep(league.problem)


@pytest.fixture(scope="module")
def model():
    return jk.Model(KERNEL, likelihoods.Probit())


@pytest.fixture(scope="module")
def posterior(league, model):
    # Linked rows, which compile slowly: all other fits are packed.
    return jk.infer(model, league.data(7), tol=1e-9)


@pytest.mark.parametrize("row_length", [None, 7], ids=["packed", "linked"])
def test_smoother_equals_dense_process(league, model, row_length):
    data = league.data(row_length)
    assert data.chains[0].linked == (row_length is not None)
    rng = np.random.default_rng(2)
    nu, tau = rng.normal(size=(NUM, 2)), rng.uniform(0.2, 2.0, (NUM, 2))
    sites = Site(data.to_chains(nu)[0], data.to_chains(tau)[0])
    step = StepModel(resolve(model.kernel, jnp.float64), data.epoch)
    smoothed = eqx.filter_jit(smooth_chain)(step, data.chains[0], sites)
    mean, variance = (data.to_slots([part]) for part in smoothed[:2])
    total = 0.0
    for player in range(PLAYERS):
        rows, slots = np.nonzero(league.features == player)
        whole = ref.GaussianPosterior(
            league.covariance(player).matrix(league.times[rows]), tau[rows, slots], nu[rows, slots]
        )
        total += whole.log_normaliser
        marginal, spread = whole.posterior_mean, np.diag(whole.posterior_covariance)
        share = 1.0 - tau[rows, slots] * spread
        np.testing.assert_allclose(variance[rows, slots], spread / share, atol=1e-10)
        cavity = (marginal - nu[rows, slots] * spread) / share
        np.testing.assert_allclose(mean[rows, slots], cavity, atol=1e-10)
    np.testing.assert_allclose(smoothed.log_normaliser, total, atol=1e-10)


@pytest.mark.optimized
def test_fit_equals_dense_fit(posterior, dense):
    check_fit(posterior, dense)


@pytest.mark.parametrize("aspects", [None, {"clay": 1}, {"skill": 0, "grass": 1.5, "home": 1}])
def test_combinations_at_any_time_equal_dense_conditionals(league, posterior, dense, aspects):
    times, player = np.array([-1.0, 0.7, 3.3, 9.0]), 1
    given = {"skill": 1, "home": 0, "clay": 0, "grass": 0} | (aspects or {})
    asked = [np.full(1, given[name], float) for name in ("home", "clay", "grass")]
    rows, slots = np.nonzero(league.features == player)
    own = league.coefficients(player, league.times[rows])

    def between(t, u, one, other):
        # Without the general skill on one side, that part is missing.
        return combine(t, u, one, other) + (given["skill"] - 1) * GENERAL(t, u)

    across = between(times[:, None], league.times[rows][None], asked, own)
    there = between(times, times, asked, asked) + (given["skill"] - 1) * given["skill"] * GENERAL(
        times, times
    )
    sites = dense.sites
    process = ref.GaussianPosterior(
        league.covariance(player).matrix(league.times[rows]),
        sites.precision[rows, slots],
        sites.precision_mean[rows, slots],
    )
    mean, variance = process.predict(across, there)
    found = posterior.scores("p1", times, aspects=aspects, joint=False)
    np.testing.assert_allclose(found.mean, mean, atol=1e-6)
    np.testing.assert_allclose(found.variance, variance, atol=1e-6)


def test_samples_have_the_moments_of_scores(posterior):
    times, aspects = [0.7, 3.3], {"clay": 1, "home": -0.5}
    paths = posterior.sample("p1", times, jax.random.key(0), 20_000, aspects=aspects)
    exact = posterior.scores("p1", times, aspects=aspects, joint=False)
    np.testing.assert_allclose(paths.mean(axis=0), exact.mean, atol=0.03)
    np.testing.assert_allclose(paths.var(axis=0), exact.variance, rtol=0.04)


def test_gradient_of_the_evidence(league):
    kernel = kernels.Aspects(skill=kernels.Constant(0.8), home=kernels.Constant(0.2))
    kernel += kernels.CorrelatedAspects(
        kernels.Matern12(0.5, 3.0), ["clay", "grass"], CORRELATION, SCALES
    )
    model = jk.Model(kernel, likelihoods.Probit())
    assert_gradient(model, league.data(), jk.ExpectationPropagation())


def check_fit(posterior, dense):
    for ours, theirs in (("mean", dense.mean), ("variance", dense.variance)):
        found = posterior.data.to_slots([getattr(part, ours) for part in posterior.entries])
        np.testing.assert_allclose(found, theirs, atol=1e-6)
    np.testing.assert_allclose(
        posterior.log_marginal_likelihood, dense.log_marginal_likelihood, atol=1e-6
    )


def test_reverse_kl_equals_dense_fit(league, model):
    found = jk.infer(model, league.data(), jk.ReverseKL(), tol=1e-9)
    check_fit(found, ref.dense_kl(league.problem))


def test_posterior_means_have_implicit_gradients(league):
    @jax.jit
    @jax.value_and_grad
    def mean(variance):
        kernel = kernels.Constant(0.3) + kernels.Aspects(home=kernels.Constant(variance))
        fit = jk.infer(jk.Model(kernel, likelihoods.Probit()), league.data(), tol=1e-10)
        return fit.observations.mean[0]

    step = 1e-4
    difference = (mean(0.2 + step)[0] - mean(0.2 - step)[0]) / (2 * step)
    assert abs(difference) > 1e-3
    np.testing.assert_allclose(mean(0.2)[1], difference, rtol=1e-4)


def test_devices_share_the_work(league, model, posterior):
    mesh = jax.make_mesh((3,), ("rows",))
    found = jk.infer(model, league.data().shard(mesh), tol=1e-9)
    np.testing.assert_allclose(found.observations.mean, posterior.observations.mean, atol=1e-7)


def test_single_precision(league, model, posterior):
    found = jk.infer(model, league.data(dtype="float32"))
    assert found.observations.mean.dtype == np.float32
    np.testing.assert_allclose(found.observations.mean, posterior.observations.mean, atol=1e-2)


def test_one_aspect_equals_the_plain_kernel(league):
    part = kernels.Constant(0.3) + kernels.Matern12(0.8, 2.0)
    bare = jk.Dataset.from_arrays(league.times, league.features, league.x, league.outcomes)
    plain = jk.infer(jk.Model(part, likelihoods.Probit()), bare, tol=1e-9)
    for kernel in (kernels.Aspects(skill=part), part):
        found = jk.infer(jk.Model(kernel, likelihoods.Probit()), league.data(), tol=1e-9)
        np.testing.assert_allclose(
            found.log_marginal_likelihood, plain.log_marginal_likelihood, rtol=1e-12
        )
        np.testing.assert_allclose(
            found.scores("p1", joint=False).variance,
            plain.scores(1, joint=False).variance,
            rtol=1e-10,
        )


def test_a_feature_in_two_slots_has_the_sum_of_its_scores():
    # Attack minus half of the defence of one competitor, in one observation.
    rng = np.random.default_rng(3)
    times, outcome = np.arange(6.0), rng.normal(size=6)
    attack, defence = np.tile([1.0, 0.0], (6, 1)), np.tile([0.0, 1.0], (6, 1))
    data = jk.Dataset.from_arrays(
        times,
        np.zeros((6, 2), int),
        np.tile([1.0, -0.5], (6, 1)),
        outcome,
        aspects={"attack": attack, "defence": defence},
    )
    kernel = kernels.Aspects(
        skill=kernels.Constant(0.4),
        attack=kernels.Matern12(0.5, 2.0),
        defence=kernels.Constant(0.3),
    )
    posterior = jk.infer(jk.Model(kernel, likelihoods.Gaussian(0.6)), data, tol=1e-9)
    covariance = 0.25 * 0.4 + ref.matern12(0.5, 2.0).matrix(times) + 0.25 * 0.3 + 0.6 * np.eye(6)
    exact = multivariate_normal.logpdf(outcome, np.zeros(6), covariance)
    np.testing.assert_allclose(posterior.log_marginal_likelihood, exact, atol=1e-8)


def test_evidence_of_own_home_advantages():
    """Own home advantages change the evidence as in the exact model, unlike separate features."""
    rng = np.random.default_rng(4)
    teams, rounds, variance = 8, 4, 0.3
    pairs = np.array([(i, j) for i in range(teams) for j in range(teams) if i != j] * rounds)
    skill, own = rng.normal(0, 0.7, teams), rng.normal(0, variance**0.5, teams)
    count = len(pairs)
    outcome = skill[pairs[:, 0]] - skill[pairs[:, 1]] + own[pairs[:, 0]] + rng.normal(size=count)
    first, second = (np.eye(teams)[pairs[:, side]] for side in (0, 1))

    def exact(v):
        design = np.concatenate([0.7 * (first - second), np.sqrt(v) * first], axis=1)
        covariance = design @ design.T + np.eye(count)
        return multivariate_normal.logpdf(outcome, np.zeros(count), covariance)

    times, x, noise = np.zeros(count), np.tile([1.0, -1.0], (count, 1)), likelihoods.Gaussian(1.0)
    joint = jk.Dataset.from_arrays(
        times, pairs, x, outcome, aspects={"home": np.tile([1.0, 0.0], (count, 1))}
    )
    apart = jk.Dataset.from_arrays(
        times,
        np.concatenate([pairs, pairs[:, :1] + teams], axis=1),
        np.concatenate([x, np.ones((count, 1))], axis=1),
        outcome,
        groups=lambda number: "skill" if number < teams else "home",
    )

    def gain(make, data):
        values = [
            jk.log_marginal_likelihood(jk.Model(make(v), noise), data) for v in (1e-8, variance)
        ]
        return float(values[1] - values[0])

    general = kernels.Constant(0.49)
    together = gain(lambda v: kernels.Aspects(skill=general, home=kernels.Constant(v)), joint)
    factorised = gain(lambda v: {"skill": general, "home": kernels.Constant(v)}, apart)
    wanted = exact(variance) - exact(1e-8)
    assert abs(together - wanted) < 0.5
    assert wanted - factorised > 2.0


def test_correlation_is_learnt_from_data():
    rng = np.random.default_rng(5)
    players, games, truth = 150, 3000, 0.8
    factor = np.linalg.cholesky([[1.0, truth], [truth, 1.0]])
    skills = rng.normal(size=(players, 2)) @ factor.T
    pairs = np.array([rng.permutation(players)[:2] for _ in range(games)])
    surface = rng.integers(0, 2, games)
    outcome = skills[pairs[:, 0], surface] - skills[pairs[:, 1], surface]
    data = jk.Dataset.from_arrays(
        np.zeros(games),
        pairs,
        np.tile([1.0, -1.0], (games, 1)),
        outcome + rng.normal(0, 0.7, games),
        aspects={name: np.stack([surface == k] * 2, 1) for k, name in enumerate(["hard", "clay"])},
    )
    kernel = kernels.CorrelatedAspects(kernels.Constant(0.5), ["hard", "clay"])
    model, _ = jk.learn(jk.Model(kernel, likelihoods.Gaussian(1.0)), data)
    assert abs(float(model.kernel.correlations[0, 1]) - truth) < 0.07
    assert "hard and clay correlate 0." in model.describe()


@pytest.mark.parametrize(
    ("names", "options", "message"),
    [
        (["hard"], {}, "`names` must be at least two different names"),
        (["hard", "hard"], {}, "`names` must be at least two different names"),
        (["hard", "clay"], {"correlation": 1.5}, "is 1.5, .* a number between -1 and 1"),
        (["a", "b", "c"], {"correlation": -0.6}, "is -0.6, .* a number between -0.5 and 1"),
        (["a", "b"], {"correlation": [[1, 0.5], [0.4, 1]]}, "must be symmetric"),
        (["a", "b"], {"correlation": [[1.0]]}, r"matrix of shape \(2, 2\)"),
        (["a", "b"], {"scales": [1.0]}, "`scales` must be 2 numbers"),
        (["a", "b"], {"scales": [1.0, -1.0]}, "`scales` is .*must be positive"),
    ],
)
def test_invalid_correlations_are_refused(names, options, message):
    with pytest.raises(jk.DataError, match=message):
        kernels.CorrelatedAspects(kernels.Constant(1.0), names, **options)


def test_kernel_with_unknown_aspects_is_refused(league):
    model = jk.Model(kernels.Aspects(carpet=kernels.Constant(1.0)), likelihoods.Probit())
    with pytest.raises(jk.DataError, match="the aspect 'carpet', but the data has only 'home'"):
        jk.infer(model, league.data())
    bare = jk.Dataset.from_pairs([0.0], ["a"], ["b"])
    with pytest.raises(jk.DataError, match="the data has no aspects"):
        jk.infer(model, bare)
