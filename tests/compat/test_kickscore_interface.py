"""kickscore's interface besides its numbers: exceptions, order, pickles, plots."""

import pickle
from datetime import datetime

import jax
import matplotlib
import numpy as np
import pytest

import jaxkick as jk
import jaxkick.compat.kickscore as ks
from tests.compat.programs import kickscore

matplotlib.use("Agg")

SMOOTH = {"var": 1.2, "lscale": 0.8}
MATCHES = [("Ada", "Ben", 0.0), ("Ben", "Cleo", 0.5), ("Cleo", "Ada", 0.5), ("Ada", "Ben", 1.5)]
TIMES = np.array([0.25, 0.5, 3.0])


def league(module=ks, matches=MATCHES):
    """Build a small league that is not fitted yet."""
    model = module.BinaryModel()
    for name in ("Ada", "Ben", "Cleo", "Dan"):
        model.add_item(name, kernel=module.kernel.Matern32(**SMOOTH))
    for winner, loser, t in matches:
        model.observe(winners=[winner], losers=[loser], t=t)
    return model


@pytest.fixture(scope="module")
def fitted():
    model = league()
    assert model.fit(tol=1e-7)
    return model


def assert_same(ours, theirs):
    for item in ("Ada", "Ben", "Cleo", "Dan"):
        pairs = [(ours.item[item].scores, theirs.item[item].scores)]
        pairs += [(ours.item[item].predict(TIMES), theirs.item[item].predict(TIMES))]
        for own, other in pairs:
            for a, b in zip(own, other, strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-6)
    assert ours.log_likelihood == pytest.approx(theirs.log_likelihood, rel=1e-6)


def test_observations_in_any_order(fitted):
    shuffled = league(matches=[MATCHES[3], MATCHES[1], MATCHES[0], MATCHES[2]])
    shuffled.fit(tol=1e-7)
    assert_same(shuffled, fitted)
    assert shuffled.last_t == fitted.last_t == 1.5


def test_float64_without_the_global_setting(fitted):
    theirs = league(kickscore)
    theirs.fit(tol=1e-12, max_iter=1000)
    with jax.enable_x64(False):
        ours = league()
        ours.fit(tol=1e-7)
        ours = pickle.loads(pickle.dumps(ours))
        assert_same(ours, theirs)
        assert ours.item["Ada"].predict(TIMES)[0].dtype == np.float64
        np.testing.assert_allclose(
            ours.probabilities(["Ada"], ["Dan"], t=1.0),
            theirs.probabilities(["Ada"], ["Dan"], t=1.0),
            rtol=1e-6,
        )


def test_a_pickled_model_continues(fitted):
    model = pickle.loads(pickle.dumps(fitted))
    assert model.item.keys() == fitted.item.keys()
    assert [seen.t for seen in model.observations] == [match[2] for match in MATCHES]
    model.observe(winners=["Dan"], losers=["Ada"], t=2.0)
    with pytest.raises(RuntimeError, match="new data since last call"):
        model.item["Dan"].scores  # noqa: B018
    np.testing.assert_array_equal(model.item["Ben"].scores[1], fitted.item["Ben"].scores[1])


def test_before_the_first_fit():
    model = league()
    for stale in (
        lambda: model.item["Ada"].scores,
        lambda: model.item["Ada"].predict(TIMES),
        lambda: model.log_likelihood,
        lambda: model.probabilities(["Ada"], ["Dan"], t=1.0),
    ):
        with pytest.raises(RuntimeError, match="new data since last call"):
            stale()
    means, variances = model.item["Dan"].predict(TIMES)
    np.testing.assert_array_equal(means, np.zeros(3))
    np.testing.assert_allclose(variances, np.full(3, 1.2))
    assert all(part.shape == (0,) for part in model.item["Dan"].scores)
    model.add_item("Eve", kernel=ks.kernel.Constant(0.8))
    assert model.probabilities(["Dan"], {"Eve": 2.0}, t=1.0) == pytest.approx((0.5, 0.5))


def test_nothing_observed():
    model = ks.BinaryModel()
    model.add_item("Ada", kernel=ks.kernel.Constant(1.0))
    assert model.fit() is True
    assert model.fit(max_iter=0) is False
    assert model.log_likelihood == 0.0


def test_fits_have_a_warm_start(fitted):
    model = league()
    assert model.fit(max_iter=2, tol=1e-7) is False
    far = abs(model.log_likelihood - fitted.log_likelihood)
    while not model.fit(max_iter=2, tol=1e-7):
        pass
    near = abs(model.log_likelihood - fitted.log_likelihood)
    assert near < 1e-6 < far


def test_a_match_after_a_fit(fitted, capsys):
    model = league(matches=MATCHES[:3])
    model.fit(tol=1e-7)
    assert not capsys.readouterr().out
    for grown in (model, pickle.loads(pickle.dumps(model))):
        grown.observe(["Ada"], ["Ben"], t=1.5)
        assert grown.fit(tol=1e-7, verbose=True)
        assert capsys.readouterr().out.startswith("iteration 1, max diff: ")
        assert_same(grown, fitted)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda m: m.add_item("Ada", ks.kernel.Constant(1.0)), ValueError, "already added"),
        (lambda m: m.add_item("Eve", ks.kernel.Constant(1.0), "fast"), ValueError, "fitter"),
        (lambda m: m.fit(method="mcmc"), ValueError, "one of: 'ep', 'kl'"),
        (lambda m: m.fit(lr=0.0), ValueError, "`lr`"),
        (lambda m: m.observe("Ada", ["Ben"], t=9.0), ValueError, "a list, a tuple or a dict"),
        (lambda m: m.observe(["Ada"], ["Eve"], t=9.0), KeyError, "Eve"),
        (lambda m: m.probabilities(["Ada"], ["Eve"], t=9.0), KeyError, "Eve"),
        (lambda m: m.observe([], [], t=9.0), AssertionError, "at least one item"),
        (lambda m: m.observe(["Ada"], ["Ada"], t=9.0), ValueError, "at least one item"),
        (lambda m: m.observe(["Ada"], ["Ben"], t=np.nan), ValueError, "nan"),
        (lambda m: m.observe(["Ada"], ["Ben"], t=9.0, weight=-1.0), ValueError, "-1.0"),
        (lambda m: ks.BinaryModel("cauchit"), ValueError, "unknown observation type"),
        (lambda m: ks.TernaryModel(obs_type="cauchit"), ValueError, "unknown observation type"),
        (lambda m: ks.CountModel().observe([], [], -1), AssertionError, "`count`"),
        (lambda m: ks.CountModel().observe([], [], 1.5), ValueError, "`count`"),
        (lambda m: ks.CountDiffModel().observe([], [], 1.5), ValueError, "`diff`"),
        (lambda m: ks.DifferenceModel().observe([], [], 1.5, var=0.0), ValueError, "`var`"),
        (lambda m: ks.kernel.PeriodicExponential(1.0, 1.0, 1.0), NotImplementedError, "Periodic"),
        (lambda m: ks.Item(ks.kernel.Constant(1.0), fitter="fast"), ValueError, "fitter"),
    ],
)
def test_errors(fitted, call, error, message):
    with pytest.raises(error, match=message):
        call(fitted)
    assert len(fitted.observations) == len(MATCHES)


def test_items_that_were_never_added(fitted):
    model = ks.BinaryModel(kernel=ks.kernel.Matern32(**SMOOTH))
    for winner, loser, t in MATCHES:
        model.observe(winners=[winner], losers=[loser], t=t)
    model.fit(tol=1e-7)
    np.testing.assert_allclose(
        model.probabilities(["Ada"], ["Dan"], t=1.0), fitted.probabilities(["Ada"], ["Dan"], t=1.0)
    )
    assert model.log_likelihood == pytest.approx(fitted.log_likelihood)


def test_weights_and_reverse_kl_of_gaussian_observations():
    """With one item per match the posterior is exact, and weight 2 equals half the variance."""
    means = []
    for weight, var, method in [(2.0, 1.0, "ep"), (2.0, 1.0, "kl"), (1.0, 0.5, "ep")]:
        model = ks.DifferenceModel(var=var, kernel=ks.kernel.Matern32(**SMOOTH))
        for diff, t in [(1.0, 0.0), (-0.5, 0.7), (2.0, 1.0)]:
            model.observe(["Ada"], [], diff, t=t, weight=weight)
        assert model.fit(method=method, tol=1e-8)
        means.append(np.concatenate(model.item["Ada"].scores))
    theirs = kickscore.DifferenceModel(var=0.5)
    theirs.add_item("Ada", kickscore.kernel.Matern32(**SMOOTH))
    for diff, t in [(1.0, 0.0), (-0.5, 0.7), (2.0, 1.0)]:
        theirs.observe(["Ada"], [], diff, t=t)
    theirs.fit(tol=1e-12)
    np.testing.assert_allclose(means, [np.concatenate(theirs.item["Ada"].scores)] * 3, rtol=1e-6)


def test_scores_at_coefficients_of_zero(fitted):
    model = league()
    model.observe({"Ada": 1.0, "Dan": 0.0}, ["Ben"], t=2.0)
    model.fit(tol=1e-7)
    times, means, variances = model.item["Dan"].scores
    np.testing.assert_allclose([*times, *means, *variances], [2.0, 0.0, 1.2])


KERNELS = [
    ("Constant", {"var": 0.7}),
    ("Exponential", SMOOTH),
    ("Matern32", SMOOTH),
    ("Matern52", SMOOTH),
    ("Wiener", {"var": 0.3, "t0": -1.0, "var_t0": 0.5}),
    ("Affine", {"var_offset": 0.0, "var_slope": 2.0, "t0": 0.5}),
    ("PiecewiseConstant", {"var": 0.4, "bounds": np.array([2.0, 0.0])}),
]


@pytest.mark.parametrize(("name", "arguments"), KERNELS)
def test_covariances(name, arguments):
    ours = getattr(ks.kernel, name)(**arguments) + ks.kernel.Constant(0.1)
    theirs = getattr(kickscore.kernel, name)(**arguments) + kickscore.kernel.Constant(0.1)
    times = np.array([-0.5, 0.0, 0.7, 2.0, 3.1])
    np.testing.assert_allclose(ours.k_mat(times), theirs.k_mat(times), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(ours.k_diag(times), theirs.k_diag(times), rtol=1e-12)
    other = times[:2] + 0.3
    np.testing.assert_allclose(ours.k_mat(times, other), theirs.k_mat(times, other), atol=1e-12)
    again = getattr(ks.kernel, name)(**arguments) + ks.kernel.Constant(0.1)
    assert ours == again
    assert hash(ours) == hash(again)


def test_simulations_follow_the_seed():
    kernel, times = ks.kernel.Constant(1.0), np.linspace(-2.0, 7.0, 10)
    np.random.seed(0)  # noqa: NPY002
    first = kernel.simulate(times)
    np.random.seed(0)  # noqa: NPY002
    np.testing.assert_array_equal(first, kernel.simulate(times))
    np.testing.assert_array_equal(first, np.full(10, first[0]))


def test_items_with_equal_kernels_form_one_group(fitted):
    model, data = fitted.to_jaxkick()
    assert list(model.kernel) == ["Matern32(var=1.2, lscale=0.8)"]
    assert len(data.chains) == 1
    assert len(data) == len(MATCHES)
    assert isinstance(model.likelihood, jk.likelihoods.Probit)


def test_plot_scores(fitted):
    figure, axes = fitted.plot_scores(["Ada", "Ben"], figsize=(5.0, 3.0))
    assert [line.get_label() for line in axes.lines] == ["Ada", "Ben"]
    times, means = axes.lines[0].get_data()
    assert (len(times), times[0], times[-1]) == (100, 0.0, 1.5)
    np.testing.assert_allclose(means, fitted.item["Ada"].predict(times)[0])
    assert len(axes.collections) == 2
    matplotlib.pyplot.close(figure)
    figure, axes = fitted.plot_scores(["Cleo"], resolution=2.0, timestamps=True)
    assert list(axes.lines[0].get_xdata()) == [datetime.fromtimestamp(0.5)]
    matplotlib.pyplot.close(figure)
