"""`learn(objective="predictive")` against streams, and its gradient against differences."""

import equinox as eqx
import jax
import numpy as np
import pytest
from scipy import stats

import jaxkick as jk
from jaxkick.learning.objective import split

COLUMNS = {"time": "time", "first": "first", "second": "second", "outcome": "outcome"}
KERNEL = jk.kernels.Constant(0.3) + jk.kernels.Matern32(0.7, 2.0)
MODEL = jk.Model(
    {"skill": KERNEL, "home": jk.kernels.Constant(0.2)},
    jk.likelihoods.Probit(),
    mean={"home": 0.1},
    newcomers={"skill": jk.Newcomers(2.0, -0.3, 0.8)},
)


def table(count=60, seed=0):
    rng = np.random.default_rng(seed)
    times = np.sort(np.round(rng.uniform(0.0, 6.0, count), 1))
    there = np.where(times < 2.0, 4, 6)
    sides = np.array([rng.choice(n, 2, replace=False) for n in there])
    first, second = np.array(list("abcdef"))[sides].T
    outcome = np.where(rng.normal(size=count) + 0.5 * (sides[:, 1] - sides[:, 0]) > 0, 1.0, -1.0)
    return {"time": times, "first": first, "second": second, "outcome": outcome}


def read(columns, used=slice(None)):
    columns = {name: values[used] for name, values in columns.items()}
    return jk.Dataset.from_frame(columns, **COLUMNS, home=True)


@pytest.fixture(scope="module")
def data():
    return read(table())


def by_streams(columns, label, start):
    """The log-probability of the matches from `start` on, block by block."""
    total, labels = 0.0, label(columns["time"])
    for block in np.unique(labels):
        here = (labels == block) & (columns["time"] >= start)
        past = labels < block
        if not here.any():
            continue
        stream = jk.Stream.start(MODEL, read(columns, past))
        for row in np.flatnonzero(here):
            sides = (columns[side][row] for side in ("first", "second"))
            time = columns["time"][row]
            found = stream.predict(*sides, time, home=1, allow_unknown=True)
            z = float(found.mean) / np.sqrt(1.0 + float(found.variance))
            total += stats.norm.logcdf(columns["outcome"][row] * z)
    return total


@pytest.mark.parametrize("every", [None, np.floor], ids=["times", "blocks"])
def test_value_is_that_of_streams(data, every):
    objective = jk.Predictive(start=3.0, every=every)
    _, history = jk.learn(MODEL, data, objective=objective, max_steps=0)
    expected = by_streams(table(), every or (lambda times: times), 3.0)
    np.testing.assert_allclose(history.values[0], expected, rtol=1e-9)
    assert "predictive log-probability" in repr(history)


def test_a_tenth_of_the_matches_does_not_count(data):
    _, history = jk.learn(MODEL, data, objective="predictive", max_steps=0)
    begin = np.sort(table()["time"])[6]
    _, same = jk.learn(MODEL, data, objective=jk.Predictive(start=begin), max_steps=0)
    assert history.values[0] == same.values[0]


def test_gradient_agrees_with_central_differences(data):
    free, template = split(MODEL)
    goal = jk.Predictive(start=2.0, every=np.floor).prepare(data, None, template, None, None)
    found = goal.evaluate(free, (), False)
    loss = eqx.filter_jit(lambda free: goal.loss(free, ())[0])
    leaves, structure = jax.tree.flatten(free)
    for place, slope in enumerate(jax.tree.leaves(found.gradient)):
        values = []
        for step in (1e-4, -1e-4):
            moved = [leaf + step * (number == place) for number, leaf in enumerate(leaves)]
            values.append(float(loss(jax.tree.unflatten(structure, moved))))
        difference = (values[0] - values[1]) / 2e-4
        np.testing.assert_allclose(slope, difference, rtol=1e-5, atol=1e-7)


def test_learns_better_forecasts(data):
    model, history = jk.learn(MODEL, data, objective="predictive")
    assert history.converged
    assert history.values[-1] > history.values[0] + 0.5
    _, evidence = jk.learn(MODEL, data)
    assert "log marginal likelihood" in repr(evidence)
    again, _ = jk.learn(model, data, objective="predictive", max_steps=0)
    assert eqx.tree_equal(again, model)


def test_masked_matches_have_no_influence(data):
    columns = table()
    mask = columns["time"] < 4.0
    changed = {**columns, "outcome": np.where(mask, 1.0, -1.0) * columns["outcome"]}
    values = [
        jk.learn(MODEL, *args, objective="predictive", max_steps=2, **options)[1].values
        for args, options in [
            ((data,), {"mask": mask}),
            ((read(changed),), {"mask": mask}),
            ((read(columns, mask),), {}),
        ]
    ]
    np.testing.assert_array_equal(values[0], values[1])
    np.testing.assert_allclose(values[0], values[2], rtol=1e-9)


def test_in_a_backtest(data):
    refit = jk.evaluation.Refit(MODEL, learn_options={"objective": "predictive", "max_steps": 2})
    found = jk.evaluation.walk_forward(refit, data, 4.0, every=np.floor, relearn="start")
    mask = table()["time"] < 4.0
    learnt, _ = jk.learn(MODEL, data, objective="predictive", mask=mask, max_steps=2)
    assert eqx.tree_equal(found.model, learnt)


def test_errors(data):
    with pytest.raises(jk.DataError, match="`objective` is 'loss', but must be \"evidence\""):
        jk.learn(MODEL, data, objective="loss")
    with pytest.raises(jk.DataError, match="No match is at or after `start`"):
        jk.learn(MODEL, data, objective=jk.Predictive(start=7.0))
    means = jk.Model(KERNEL, jk.likelihoods.Probit(), mean=np.zeros(data.num_features))
    with pytest.raises(jk.DataError, match="`mean` of the model has one value for each feature"):
        jk.learn(means, data, objective="predictive")
