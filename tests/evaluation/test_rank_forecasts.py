"""Walk-forward evaluation of rankings."""

import itertools

import numpy as np
import pytest

import jaxkick as jk
from jaxkick import evaluation as ev
from jaxkick.evaluation.rank_forecasts import rank_metrics

MODEL = jk.Model(jk.kernels.Constant(0.5) + jk.kernels.Matern12(0.5, 5.0), jk.likelihoods.Ranking())


def races(count=24, sides=3, drivers=6, seed=0):
    rng = np.random.default_rng(seed)
    skill = np.linspace(-1.5, 1.5, drivers)
    table = {"day": [], "race": [], "driver": [], "rank": []}
    for race in range(count):
        who = rng.permutation(drivers)[:sides]
        order = np.argsort(-(skill[who] + np.sqrt(0.5) * rng.normal(size=sides)))
        table["day"] += [float(race)] * sides
        table["race"] += [race] * sides
        table["driver"] += who[order].tolist()
        table["rank"] += range(1, sides + 1)
    return jk.Dataset.from_rankings(
        table, time="day", event="race", competitor="driver", rank="rank", unit="day"
    )


@pytest.fixture(scope="module")
def forecasts():
    data = races()
    return data, ev.walk_forward(MODEL, data, 16.0, every=lambda times: np.floor(times / 4))


def test_predictions_are_those_of_earlier_races(forecasts):
    data, found = forecasts
    assert len(found) == 8
    assert found.rows.tolist() == list(range(48, 72, 3))
    posterior = jk.infer(MODEL, data, mask=data.index.times < 20.0, tol=0.005)
    rows = np.arange(60, 63)
    names = [data.names[data.index.features[row, 0]] for row in rows]
    again = posterior.predict_ranking(names, 20.0)
    np.testing.assert_allclose(found.p_win[4], again.p_win, atol=0.005)
    np.testing.assert_allclose(found.p_win.sum(axis=1), 1.0, atol=1e-6)
    np.testing.assert_allclose(found.log_losses[4], -np.log(found.p_win[4, 0]))


def test_summary_and_comparison(forecasts):
    data, found = forecasts
    summary = found.summary(resamples=50)
    assert summary.events == 8
    assert summary.log_loss.value < np.log(3.0)
    assert summary.pairwise_accuracy.value > 0.5
    assert "rank log loss" in str(summary)
    flat = jk.Model(jk.kernels.Constant(1e-6), jk.likelihoods.Ranking())
    rival = ev.walk_forward(flat, data, 16.0, every=lambda times: np.floor(times / 4))
    np.testing.assert_allclose(rival.log_losses, np.log(3.0), atol=1e-3)
    assert ev.compare(found, rival, resamples=50).difference.value < 0
    assert set(found.table) >= {"row", "log_loss", "pairwise_accuracy"}


def test_kinds_are_predicted_as_by_themselves(forecasts):
    """Goals share no feature with races, so that each kind is predicted as if it were alone."""
    rng = np.random.default_rng(1)
    first = rng.integers(0, 3, 20)
    table = {
        "day": np.linspace(0.0, 23.0, 20), "a": [f"t{k}" for k in first],
        "b": [f"t{(k + 1) % 3}" for k in first],
        "x": rng.poisson(1.5, 20), "y": 1 + rng.poisson(1.0, 20),
    }  # fmt: skip
    table["y"] = np.where(table["x"] == table["y"], table["x"] + 1, table["y"])
    names = {"time": "day", "first": "a", "second": "b", "unit": "day"}
    goals = jk.Dataset.from_frame(table, counts=("x", "y"), aspects=False, **names)
    teams = dict.fromkeys(["t0", "t1", "t2"], "team")
    margins = jk.Dataset.from_frame(table, difference=("x", "y"), **names, groups=teams)
    level = jk.kernels.Constant(0.2)
    kernels = {"attack": level, "defence": level, "level": level, "team": level}
    kinds = {
        "goals": jk.likelihoods.Poisson(),
        "margins": jk.likelihoods.Probit(),
        "races": MODEL.likelihood,
    }
    whole = jk.concat({"goals": goals, "margins": margins, "races": forecasts[0]})
    options = {"start": 16.0, "every": lambda times: np.floor(times / 4)}
    model = jk.Model(kernels | {"skill": MODEL.kernel}, kinds)
    found = ev.walk_forward(ev.Refit(model, tol=1e-4), whole, **options)
    parts = {"goals": goals, "margins": margins}
    for kind, part in parts.items():
        alone = ev.walk_forward(ev.Refit(jk.Model(kernels, kinds[kind]), tol=1e-4), part, **options)
        np.testing.assert_allclose(found[kind].probabilities, alone.probabilities, atol=1e-4)
        np.testing.assert_array_equal(found[kind].rows, alone.rows)
        assert found[kind].levels == alone.levels == (-1.0, 1.0)
    assert found["goals"].mean.shape == (len(found["goals"]), 2)
    np.testing.assert_allclose(found["races"].p_win, forecasts[1].p_win, atol=0.005)
    compared = ev.compare(found, found, resamples=20)
    assert list(compared) == ["goals", "margins", "races"]
    assert compared["races"].difference.value == 0.0
    with pytest.raises(jk.DataError, match="different kinds"):
        ev.compare(found, forecasts[1])


def test_metrics_against_enumeration():
    rng = np.random.default_rng(0)
    orders = list(itertools.permutations(range(4)))
    weights = rng.dirichlet(np.ones(len(orders)))
    table = np.zeros((4, 4))
    for order, weight in zip(orders, weights, strict=True):
        for place, side in enumerate(order):
            table[side, place] += weight
    cases = {
        (2, 1, 3, 4): [1, 0, 2, 3],
        (1, 1, 3, 0): [(0, 1), (0, 1), 2, 3],
        (1, 0, 0, 0): [0, (1, 2, 3), (1, 2, 3), (1, 2, 3)],
    }
    for outcome, held in cases.items():
        found = rank_metrics(np.array([outcome], float), table[None])
        chances = [np.sum(table[side, np.atleast_1d(each)]) for side, each in enumerate(held)]
        np.testing.assert_allclose(found[1][0], -np.mean(np.log(chances)))
        best = [side for side in range(4) if outcome[side] == 1]
        np.testing.assert_allclose(found[0][0], -np.mean(np.log(table[best, 0])))
        expected = table @ np.arange(1, 5)
        key = [place or 99 for place in outcome]
        pairs = [(a, b) for a in range(4) for b in range(4) if key[a] < key[b]]
        right = np.mean([expected[a] < expected[b] for a, b in pairs])
        np.testing.assert_allclose(found[2][0], right)
        ranks = [1 + np.sum(table[:, 0] > table[side, 0]) for side in best]
        np.testing.assert_allclose(found[3][0], np.mean(1.0 / np.array(ranks)))
    for sides in range(3, 60):
        even = rank_metrics(
            1.0 + rng.permutation(sides)[None], np.full((1, sides, sides), 1 / sides)
        )
        assert even[2][0] == 0.5
        np.testing.assert_allclose(even[3][0], np.mean(1.0 / np.arange(1, sides + 1)))
    even = rank_metrics(np.array([[1.0, 2.0, 3.0]]), np.full((1, 3, 3), 1 / 3))
    np.testing.assert_allclose(even[3], np.mean([1.0, 1 / 2, 1 / 3]))
