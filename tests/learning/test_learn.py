"""`learn` finds the maximum and records its course."""

import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import scipy.optimize

import jaxkick as jk
from jaxkick.learning import RunStatus
from jaxkick.learning.objective import split
from tests.learning.simulate import (
    TRUTH,
    dense_evidence,
    measurements,
    numbers,
    probit_matches,
)

POOR = jk.Model(jk.kernels.Matern12(0.2, lengthscale=20.0), jk.likelihoods.Gaussian(3.0))


@pytest.fixture(scope="module")
def data():
    return measurements()


@pytest.fixture(scope="module")
def learnt(data):
    return jk.learn(POOR, data)


def test_finds_the_maximum_that_scipy_finds_on_dense_matrices(data, learnt):
    model, history = learnt
    best = scipy.optimize.minimize(
        lambda x: -dense_evidence(x, data), np.log(numbers(TRUTH)), tol=1e-8, method="Nelder-Mead"
    )
    assert history.converged
    np.testing.assert_allclose(history.values[-1], -best.fun, atol=0.01)
    np.testing.assert_allclose(np.log(numbers(model)), best.x, atol=0.02)


def test_recovers_the_parameters_that_made_the_data(learnt):
    np.testing.assert_allclose(numbers(learnt[0]), numbers(TRUTH), rtol=0.4)


def test_history_records_every_step(data, learnt):
    model, history = learnt
    steps = len(history.values)
    assert 3 < steps < 40
    np.testing.assert_allclose(
        history.values[0], dense_evidence(np.log(numbers(POOR)), data), atol=0.01
    )
    assert (np.diff(history.values) > -0.01).all()
    assert (np.diff(history.seconds) > 0).all()
    assert history.gradient_norms[-1] < 0.5 < 50 < history.gradient_norms[0]
    assert history.inference_steps.shape == (steps,)
    assert set(history.parameters) == {
        "kernel.variance",
        "kernel.lengthscale",
        "likelihood.variance",
    }
    assert history.parameters["kernel.lengthscale"].shape == (steps,)
    np.testing.assert_allclose(history.parameters["kernel.lengthscale"][0], 20.0)
    assert history.parameters["kernel.variance"][-1] == float(model.kernel.variance.value)
    assert history.runs.shape == (1,)
    assert "converged" in repr(history)


def test_nothing_near_is_better_on_matches():
    kernel = jk.kernels.Constant(0.3) + jk.kernels.Matern12(0.6, lengthscale=3.0)
    data = probit_matches(kernel)
    start = jk.Model(
        jk.kernels.Constant(1.0) + jk.kernels.Matern12(1.0, 1.0), jk.likelihoods.Probit()
    )
    model, history = jk.learn(start, data)
    leaves, structure = jax.tree.flatten(model)

    def loss(x):
        moved = jax.tree.unflatten(structure, [jnp.asarray(each) for each in x])
        return -float(jk.log_marginal_likelihood(moved, data, tol=1e-6))

    best = scipy.optimize.minimize(
        loss, np.stack(leaves), method="Nelder-Mead", options={"fatol": 1e-3, "xatol": 0.01}
    )
    np.testing.assert_allclose(history.values.max(), -best.fun, atol=0.02)


def test_one_program_serves_all_steps(data):
    traces = []

    class Counted(jk.likelihoods.Gaussian):
        def log_partition(self, *arguments):
            traces.append(1)
            return super().log_partition(*arguments)

    class Again(Counted):
        """Another class, so that nothing is compiled yet."""

    start = jk.Model(jk.kernels.Matern12(1.0, 1.0), Counted(1.0))
    jk.learn(start, data, max_steps=0)
    first = len(traces)
    _, history = jk.learn(start, data, max_steps=5)
    assert len(history.values) == 6
    assert len(traces) == first
    # Inference before learning compiles no program twice.
    again = jk.Model(jk.kernels.Matern12(1.0, 1.0), Again(1.0))
    jk.infer(again, data)
    assert first < len(traces) < 2 * first
    jk.learn(again, data, max_steps=0)
    assert len(traces) == 2 * first


@pytest.mark.parametrize(
    "optimizer",
    [
        optax.adam(0.2),
        # One that evaluates the objective itself.
        optax.chain(optax.sgd(0.1), optax.scale_by_backtracking_linesearch(10)),
    ],
    ids=["adam", "backtracking"],
)
def test_any_optax_optimizer(data, learnt, optimizer):
    _, history = jk.learn(POOR, data, optimizer=optimizer, max_steps=150)
    assert history.values.max() > learnt[1].values.max() - 0.1


def test_the_result_is_never_worse_than_the_start(data, learnt):
    # Steps that are far too long, away from the best point.
    model, history = jk.learn(learnt[0], data, optimizer=optax.sgd(0.5), max_steps=4)
    assert history.values[1:].max() < history.values[0]
    assert eqx.tree_equal(model, learnt[0])
    assert not history.converged


def test_stops_at_the_maximum(data, learnt):
    _, history = jk.learn(learnt[0], data)
    assert history.converged
    assert len(history.values) <= 5
    still = optax.sgd(0.0)
    _, history = jk.learn(POOR, data, optimizer=still, patience=3)
    assert len(history.values) == 4
    assert history.converged
    assert history.status is RunStatus.FLAT
    assert repr(history).endswith("converged along a flat direction)")


def test_continues_along_a_flat_direction():
    # Only one feature informs the variance of its group: the evidence gains a quarter of a nat
    # there, while the curvature of the noise is hundreds of times larger.
    rng = np.random.default_rng(0)
    names = [{f"x{number % 30}": 1.0, "bias": 1.0} for number in range(600)]
    levels = rng.normal(size=30)[np.arange(600) % 30]
    data = jk.Dataset.from_mappings(
        rng.uniform(0, 1, 600),
        names,
        2.0 - levels.mean() + levels + rng.normal(size=600),
        groups={"bias": "bias"},
    )
    kernels = {"skill": jk.kernels.Constant(jk.Fixed(1.0)), "bias": jk.kernels.Constant(12.0)}
    model, history = jk.learn(jk.Model(kernels, jk.likelihoods.Gaussian(5.0)), data)
    assert history.converged
    assert abs(np.log(float(model.kernel["bias"].variance.value) / 4.0)) < 0.4
    np.testing.assert_allclose(model.likelihood.variance.value, 1.0, rtol=0.15)


def test_parameters_that_few_scores_inform_are_learnt_as_quickly(monkeypatch):
    table = {name: column[-612:] for name, column in jk.datasets.load_bundesliga().items()}
    sides = {"time": "date", "first": "home", "second": "away", "home": True}
    data = jk.Dataset.from_frame(table, result=("home_goals", "away_goals"), **sides)
    module, steps = sys.modules[jk.learn.__module__], []
    free, _ = split(jk.suggest_model(data))
    units = module.typical_changes(free, data)
    np.testing.assert_allclose(np.unique(units**-2), [1.0, len(data.names) - 1, 0.2 * len(data)])
    for changes in (units, np.ones_like(units)):
        monkeypatch.setattr(module, "typical_changes", lambda *_, changes=changes: changes)
        steps.append(jk.learn(None, data)[1].values)
    assert len(steps[0]) < 0.8 * len(steps[1])
    np.testing.assert_allclose(steps[0][-1], steps[1][-1], atol=0.05)


@pytest.mark.parametrize("batch_size", [1, 2])
def test_restarts_keep_the_best_run(data, learnt, batch_size):
    # Three steps from here are not enough; some perturbed start is nearer.
    arguments = {"max_steps": 3, "restarts": 2, "key": jax.random.key(1), "jitter": 1.5}
    model, history = jk.learn(POOR, data, batch_size=batch_size, **arguments)
    _, alone = jk.learn(POOR, data, max_steps=3)
    assert history.runs.shape == (3,)
    assert len(set(history.runs.tolist())) == 3
    np.testing.assert_allclose(history.runs[0], alone.values.max(), atol=1e-4)
    np.testing.assert_allclose(history.values.max(), history.runs.max())
    value = jk.log_marginal_likelihood(model, data)
    np.testing.assert_allclose(value, history.runs.max(), atol=0.01)


def test_reports_progress(data, capsys):
    seen = []
    jk.learn(POOR, data, max_steps=2, progress=lambda step, value: seen.append((step, value)))
    assert [step for step, _ in seen] == [1, 2]
    assert seen[1][1] > seen[0][1]
    jk.learn(POOR, data, max_steps=2, progress=True)
    assert "learning: step 2, log marginal likelihood -" in capsys.readouterr().err


def test_masked_observations_are_ignored(data):
    mask = np.arange(len(data)) % 2 == 0
    _, history = jk.learn(POOR, data, mask=mask, max_steps=0)
    expected = dense_evidence(np.log(numbers(POOR)), data, mask)
    np.testing.assert_allclose(history.values[0], expected, atol=0.01)


def test_float32(learnt):
    data = measurements()
    single = jax.tree.map(
        lambda leaf: leaf.astype(np.float32) if eqx.is_inexact_array(leaf) else leaf, data
    )
    _, history = jk.learn(POOR, single)
    np.testing.assert_allclose(history.values.max(), learnt[1].values.max(), atol=0.05)


def test_error_messages(data, monkeypatch):
    with pytest.raises(ValueError, match="`restarts` needs a `key`"):
        jk.learn(POOR, data, restarts=2)
    with pytest.raises(ValueError, match="`model` must be a `Model`, not Matern12"):
        jk.learn(POOR.kernel, data)
    with pytest.raises(TypeError, match="`data` must be a `Dataset`, not Model"):
        jk.learn(data, POOR)
    with pytest.raises(TypeError, match="`method` must be `ExpectationPropagation"):
        jk.learn(POOR, data, jk.ReverseKL)
    for name in ("max_steps", "restarts", "batch_size"):
        with pytest.raises(ValueError, match=f"`{name}` is -1, but must be at least"):
            jk.learn(POOR, data, key=jax.random.key(0), **{name: -1})
    wrong = jk.Model(POOR.kernel, jk.likelihoods.Probit())
    with pytest.raises(ValueError, match="is not valid for Probit"):
        jk.learn(wrong, data)
    hopeless = jk.Model(jk.kernels.Matern12(1e300, 1.0), jk.likelihoods.Gaussian(1e-300))
    with pytest.raises(jk.InferenceError, match=r"starting values.*ReverseKL.*`suggest_model"):
        jk.learn(hopeless, data)
    # No advice to do what was just done.
    module = sys.modules[jk.learn.__module__]
    monkeypatch.setattr(module, "suggest_model", lambda *arguments, **options: hopeless)
    for start in (None, hopeless):
        with pytest.raises(jk.InferenceError, match=r"starting values.*other values\.$"):
            jk.learn(start, data)
    with pytest.raises(jk.InferenceError, match=r"Pass method=ExpectationPropagation\(\)"):
        jk.learn(None, data, jk.ReverseKL())
