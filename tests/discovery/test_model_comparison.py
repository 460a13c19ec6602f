"""Comparison of models: each row is what `learn` and `walk_forward` give."""

import math

import jax
import matplotlib
import numpy as np
import pytest

import jaxkick as jk
from jaxkick import evaluation, kernels, likelihoods, plotting

matplotlib.use("Agg")
from matplotlib import pyplot

MATCHES = 120


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(1)
    times = np.sort(rng.uniform(0.0, 8.0, MATCHES))
    keys = jax.random.split(jax.random.key(1), 5)
    skills = [kernels.sample_prior(kernels.Matern12(2.0, 3.0), times, key) for key in keys]
    sides = np.array([rng.choice(5, 2, replace=False) for _ in range(MATCHES)])
    row = np.arange(MATCHES)
    lead = np.stack(skills)[sides.T, row]
    outcome = np.where(lead[0] - lead[1] + rng.normal(size=MATCHES) > 0, 1.0, -1.0)
    return jk.Dataset.from_pairs(times, sides[:, 0], sides[:, 1], outcome)


MODELS = {
    "level": jk.Model(kernels.Constant(1.0), likelihoods.Probit()),
    "moving": jk.Model(kernels.Matern12(1.0, 2.0), likelihoods.Probit()),
    "wrong": jk.Model(kernels.Constant(1.0), likelihoods.Poisson()),
}
WINDOW = {"start": 6.0, "every": np.floor}


@pytest.fixture(scope="module")
def table(data):
    return jk.compare_models(MODELS, data, **WINDOW)


def test_rows_are_those_of_learning(table, data):
    model, history = jk.learn(MODELS["moving"], data)
    row = table["moving"]
    assert row.log_evidence == pytest.approx(history.values.max(), abs=1e-9)
    assert row.converged == history.converged
    assert row.num_parameters == 2
    # Five competitors: half the logarithm of five is less than one.
    assert row.score == pytest.approx(row.log_evidence - 2.0)
    assert row.parameters["kernel.lengthscale"] == pytest.approx(float(model.kernel.lengthscale))


def test_backtests_are_paired_and_order_the_table(table, data):
    names = [row.name for row in table]
    found = {
        name: evaluation.walk_forward(MODELS[name], data, relearn="start", **WINDOW)
        for name in ("level", "moving")
    }
    losses = {name: each.summary().log_loss.value for name, each in found.items()}
    assert names == [*sorted(losses, key=losses.get), "wrong"]
    assert table.best.log_loss.value == min(losses.values())
    assert table.best.difference is None
    paired = evaluation.compare(found[names[1]], found[names[0]]).difference
    assert table[names[1]].difference == paired


def test_a_model_that_cannot_be_learnt_is_a_row_that_says_so(table):
    row = table["wrong"]
    assert row.failed
    assert "Poisson" in row.note
    assert math.isnan(row.log_evidence)
    with pytest.raises(KeyError, match="There is no model 'other'"):
        table["other"]


def test_without_a_backtest_the_score_orders_the_table(data):
    models = {name: MODELS[name] for name in ("level", "moving")}
    free = jk.compare_models(models, data, penalty=0.0)
    assert free.best.score == free.best.log_evidence == max(row.log_evidence for row in free)
    dear = jk.compare_models(models, data, penalty=1000.0)
    assert [row.name for row in dear] == ["level", "moving"]
    frame = free.to_frame("pandas")
    assert list(frame["model"]) == [row.name for row in free]
    assert frame["below_best"].min() == 0.0
    assert "log_loss" not in frame
    assert "moving" in str(free)
    only = jk.compare_models({"wrong": MODELS["wrong"]}, data)
    with pytest.raises(jk.DataError, match=r"No model could be learnt \(wrong: "):
        _ = only.best


def test_densities_and_probabilities_are_not_comparable():
    rng = np.random.default_rng(0)
    sides = np.array([rng.choice(5, 2, replace=False) for _ in range(MATCHES)])
    whole = jk.Dataset.from_pairs(
        np.sort(rng.uniform(0.0, 8.0, MATCHES)),
        sides[:, 0],
        sides[:, 1],
        rng.poisson(2.0, MATCHES) - rng.poisson(2.0, MATCHES).astype(float),
    )
    kernel = kernels.Constant(0.1)
    models = {
        "density": jk.Model(kernel, likelihoods.Gaussian(1.0)),
        "probability": jk.Model(kernel, likelihoods.Skellam(0.5)),
    }
    with pytest.warns(UserWarning, match="log evidences are not comparable"):
        jk.compare_models(models, whole, learn_options={"max_steps": 2})


def test_arguments_are_checked(data):
    with pytest.raises(TypeError, match="must be a mapping"):
        jk.compare_models([MODELS["level"]], data)
    with pytest.raises(TypeError, match=r"`models\['a'\]` must be a `Model`, not str"):
        jk.compare_models({"a": "b"}, data)
    with pytest.raises(jk.DataError, match="`models` is empty"):
        jk.compare_models({}, data)
    with pytest.raises(jk.DataError, match="`penalty` is -1"):
        jk.compare_models(MODELS, data, penalty=-1.0)


def test_the_plot_shows_differences_from_the_best(table):
    ax = plotting.model_table(table)
    assert [text.get_text() for text in ax.get_yticklabels()] == [row.name for row in table][:2]
    second = table.rows[1].difference
    assert ax.collections[1].get_offsets()[1, 0] == pytest.approx(second.value)
    pyplot.close(ax.figure)
