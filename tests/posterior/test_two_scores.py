"""Fits of matches with two scores: goals of both sides, and ties that depend on who plays."""

import functools

import numpy as np
import pytest
from scipy.stats import norm

import jaxkick as jk
from jaxkick import Feature
from jaxkick.evaluation import Elo, walk_forward
from jaxkick.kernels import Constant
from jaxkick.likelihoods import DixonColes, NegativeBinomial, OrdinalProbit, Poisson, VaryingTies

NAMES = ["ant", "bee", "cat", "dog", "elk"]
EFFECTS = np.array([-0.8, -0.4, 0.0, 0.4, 0.8])


def sides(count, seed):
    rng = np.random.default_rng(seed)
    first = rng.integers(0, 5, count)
    return rng, first, (first + rng.integers(1, 5, count)) % 5


@functools.cache
def goals():
    rng, first, second = sides(40, 1)
    rates = 0.3 + np.array([1, -1])[:, None] * (EFFECTS[first] - EFFECTS[second]) / 2
    one, two = rng.poisson(np.exp(rates))
    names = np.array(NAMES)
    return {"t": np.arange(40.0), "a": names[first], "b": names[second], "x": one, "y": two}


@functools.cache
def fit_goals(correlation=None):
    """Fit Dixon and Coles' model, or independent Poisson counts."""
    likelihood = Poisson() if correlation is None else DixonColes(correlation)
    columns = {"time": "t", "first": "a", "second": "b", "counts": ("x", "y"), "home": True}
    columns["aspects"] = False
    data = jk.Dataset.from_frame(goals(), **columns, row_length=64)
    groups = dict.fromkeys(("attack", "defence", "home", "level"), Constant(0.3))
    # A mask, because backtests use the same program with masks.
    return jk.infer(jk.Model(groups, likelihood), data, mask=np.ones(80, bool), tol=1e-8)


def test_unrelated_goals_fit_as_poisson_counts():
    """Also with a level in both scores: each reads its own cavity, as two Poisson counts do."""
    right, ours = fit_goals(), fit_goals(0.0)
    evidence = right.log_marginal_likelihood
    np.testing.assert_allclose(ours.log_marginal_likelihood, evidence, rtol=1e-7)
    for mine, exact in zip(ours.entries, right.entries, strict=True):
        np.testing.assert_allclose(mine.mean, exact.mean, atol=1e-6)
        np.testing.assert_allclose(mine.variance, exact.variance, atol=1e-6)


def test_predictions_of_related_goals():
    posterior = fit_goals(-0.1)
    match = posterior.predict("ant", "bee", 41.0, home=1)
    grid = np.asarray(match.grid())
    low = float(match.log_prob([0, 0])), float(match.log_prob([2, 1]))
    np.testing.assert_allclose(np.exp(low), [grid[0, 0], grid[2, 1]], rtol=1e-5)
    # Dixon and Coles' factors leave the counts of each side as they are, and make more ties.
    counts = np.arange(len(grid))
    for axis, side in ((1, match.first), (0, match.second)):
        _, chances = side.distribution(counts)
        np.testing.assert_allclose(grid.sum(axis), chances, atol=1e-6)
    assert float(match.p_tie) > float(fit_goals().predict("ant", "bee", 41.0, home=1).p_tie)
    np.testing.assert_allclose(match.p_win + match.p_tie + match.p_loss, 1.0)
    forecast = posterior.forecast(goals())
    assert set(forecast) >= {"first_expected", "p_tie"}
    board = posterior.leaderboard(scale="elo")
    assert board["name"][0] in ("dog", "elk")
    assert not posterior.check()


def test_backtest_of_related_goals():
    posterior = fit_goals(-0.1)
    found = walk_forward(posterior.model, posterior.data, 39.0, every=np.floor)
    assert (found.levels, found.rows.tolist()) == ((-1.0, 0.0, 1.0), [39])
    table = goals()
    past = {name: column[:39] for name, column in table.items()}
    data = jk.Dataset.from_frame(
        past,
        time="t",
        first="a",
        second="b",
        counts=("x", "y"),
        home=True,
        row_length=64,
        aspects=False,
    )
    match = jk.infer(posterior.model, data).predict(table["a"][39], table["b"][39], 39.0, home=1)
    right = match.log_prob([table["x"][39], table["y"][39]])
    np.testing.assert_allclose(found.log_prob[0], right, atol=3e-3)
    np.testing.assert_allclose(found.probabilities[0, 1], match.p_tie, atol=1e-3)


def test_suggested_models_of_goals():
    data = fit_goals().data
    for kind in (DixonColes, NegativeBinomial):
        assert isinstance(jk.suggest_model(data, kind).likelihood, kind)


@functools.cache
def results():
    rng, first, second = sides(600, 2)
    skill = np.array([0.6, -0.3, 0.0, -0.6, 0.3])
    score = skill[first] - skill[second] + rng.normal(size=600)
    ties = np.abs(score) < 0.5 * np.exp(EFFECTS[first] + EFFECTS[second])
    names = np.array(NAMES)
    outcome = np.where(ties, 0.0, np.sign(score))
    return {"t": np.arange(600.0), "a": names[first], "b": names[second], "y": outcome}


COLUMNS = {"time": "t", "first": "a", "second": "b", "outcome": "y", "row_length": 64}


def read(tie_effects=True, **options):
    return jk.Dataset.from_frame(results(), tie_effects=tie_effects, **COLUMNS, **options)


@functools.cache
def fit_ties():
    groups = {"skill": Constant(0.3), "tie": Constant(0.1)}
    return jk.infer(jk.Model(groups, VaryingTies(0.5)), read(), tol=1e-8)


def test_reading_of_ties():
    data = read(home=True)
    seen, table = data.observations, results()
    assert (len(data), len(data.first_rows)) == (1200, 600)
    model = jk.suggest_model(data, mask=seen.times < 500)
    assert (set(model.kernel), type(model.likelihood)) == ({"home", "skill", "tie"}, VaryingTies)
    np.testing.assert_array_equal(seen.rows, np.repeat(np.arange(600), 2))
    np.testing.assert_array_equal(seen.outcome, np.ravel([table["y"], np.zeros(600)], order="F"))
    for row in (0, 1):
        there = seen.features[row] >= 0
        names = [data.names[k] for k in seen.features[row][there]]
        expected = {
            0: {table["a"][0]: 1.0, table["b"][0]: -1.0, "home": 1.0},
            1: {Feature(table["a"][0], "tie"): 1.0, Feature(table["b"][0], "tie"): 1.0},
        }
        assert dict(zip(names, seen.coefficients[row][there], strict=True)) == expected[row]
    for name, column in data.to_frame().items():
        np.testing.assert_array_equal(column, table[name])
    assert f"0 ({np.sum(table['y'] == 0)})" in repr(data)
    broken = {**table, "y": np.where(np.arange(600) == 3, np.nan, table["y"])}
    with pytest.warns(UserWarning, match="row 3"):
        kept = jk.Dataset.from_frame(broken, tie_effects=True, on_invalid="drop", **COLUMNS)
    assert len(kept) == 1198


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"outcome": None, "counts": ("x", "y")}, "not for `counts`"),
        ({"covariates": {"tie": 1.0}}, "which `tie_effects` adds|that `tie_effects` adds"),
        ({"interactions": "tie"}, "names of other groups"),
    ],
)
def test_refusals(changes, message):
    with pytest.raises(jk.DataError, match=message):
        jk.Dataset.from_frame(results(), tie_effects=True, **(COLUMNS | changes))


def test_likelihoods_of_one_score_are_refused():
    model = jk.Model(Constant(0.3), OrdinalProbit(0.5))
    for fit in (
        lambda: jk.infer(model, read()),
        lambda: walk_forward(Elo(), read(), 590.0, every=np.floor),
    ):
        with pytest.raises(jk.DataError, match="tie_effects=True"):
            fit()


def test_ties_without_effects_are_an_ordinal_probit():
    groups = {"skill": Constant(0.3), "tie": Constant(1e-12)}
    ours = jk.infer(jk.Model(groups, VaryingTies(0.5)), read(), tol=1e-8)
    right = jk.infer(jk.Model(groups["skill"], OrdinalProbit(0.5)), read(False), tol=1e-8)
    evidence = right.log_marginal_likelihood
    np.testing.assert_allclose(ours.log_marginal_likelihood, evidence, rtol=1e-8)
    mine, exact = (each.predict("ant", "bee", 600.0) for each in (ours, right))
    np.testing.assert_allclose([mine.mean, mine.variance], [exact.mean, exact.variance], atol=1e-7)
    np.testing.assert_allclose(mine.results, exact.results, atol=1e-7)


def test_effects_are_recovered_and_predicted(tmp_path):
    posterior = fit_ties()
    board = posterior.leaderboard(group="tie")
    assert list(board["name"]) == [f"{name} tie" for name in NAMES[::-1]]
    assert posterior.leaderboard(scale="elo")["name"][0] == "ant"
    match = posterior.predict(["elk", "ant"], ["dog", "bee"], 600.0)
    margin, draws = float(posterior.model.likelihood.margin.value), np.random.default_rng(0)
    for row, (one, two) in enumerate((("elk", "dog"), ("ant", "bee"))):
        effects = {Feature(one, "tie"): 1.0, Feature(two, "tie"): 1.0}
        mean, variance = map(float, posterior.linear_combination(effects, 600.0))
        factor = margin * np.exp(mean + np.sqrt(variance) * draws.normal(size=100_000))
        f_mean, scale = float(match.mean[row]), np.sqrt(1 + float(match.variance[row]))
        tie = norm.cdf((factor - f_mean) / scale) - norm.cdf((-factor - f_mean) / scale)
        np.testing.assert_allclose(match.p_tie[row], tie.mean(), atol=2e-3)
    np.testing.assert_allclose(np.exp(match.log_prob(0.0)), match.p_tie, rtol=1e-6)
    together = posterior.predict("elk", ["dog", "eel"], 600.0, joint=True, allow_unknown=True)
    for row, other in enumerate(("dog", "eel")):
        effects = {Feature("elk", "tie"): 1.0, Feature(other, "tie"): 1.0}
        exact = posterior.covariance(effects, 600.0, allow_unknown=True)[0, 0]
        np.testing.assert_allclose(together.likelihood.variance[row], exact, rtol=1e-5)
        exact = posterior.compare("elk", other, 600.0, allow_unknown=True).deviation ** 2
        np.testing.assert_allclose(together.variance[row], exact, rtol=1e-5)
    assert float(match.p_tie[0]) > 2 * float(match.p_tie[1])
    with pytest.raises(jk.DataError, match="'eel' in `first` is not in the data"):
        posterior.predict("eel", "ant", 600.0)
    assert float(posterior.predict("eel", "ant", 600.0, allow_unknown=True).variance) > 0.3
    assert not posterior.check()
    jk.save(tmp_path / "ties.jk", posterior)
    again = jk.load(tmp_path / "ties.jk").predict("elk", "dog", 600.0)
    np.testing.assert_allclose(again.p_tie, match.p_tie[0])


def test_backtest_and_update_of_ties():
    posterior, table = fit_ties(), results()
    new = {name: column[-2:] for name, column in table.items()} | {"t": np.array([600.0, 601.0])}
    later = posterior.update(new)
    assert len(later.data) == 1204
    found = walk_forward(posterior.model, later.data, 600.0, every=lambda t: t >= 600)
    assert (found.rows.tolist(), found.outcome.tolist()) == ([600, 601], new["y"].tolist())
    match = posterior.predict(new["a"], new["b"], new["t"])
    np.testing.assert_allclose(found.probabilities, match.results, atol=2e-3)
    chosen = match.results[np.arange(2), new["y"].astype(int) + 1]
    np.testing.assert_allclose(found.log_prob, np.log(chosen), atol=5e-3)
