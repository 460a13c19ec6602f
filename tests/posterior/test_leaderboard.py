"""Leaderboards: ranks and probabilities against quadrature, scales against their definition."""

import numpy as np
import polars as pl
import pytest
from scipy import integrate, stats

import jaxkick as jk
from jaxkick.posterior.leaderboard import Scale, rank_intervals, read_scale

MEAN = np.array([0.5, 0.3, -0.2, 0.45, -3.0])
DEVIATION = np.array([0.2, 0.5, 1.0, 0.01, 0.3])
# Four standard errors of a probability from 10,000 draws.
ERROR = 4 * 0.005


def test_probability_of_being_best():
    def best(i):
        others = [j for j in range(len(MEAN)) if j != i]

        def integrand(x):
            below = stats.norm.cdf(x, MEAN[others], DEVIATION[others])
            return stats.norm.pdf(x, MEAN[i], DEVIATION[i]) * np.prod(below)

        ends = MEAN[i] + 8 * DEVIATION[i] * np.array([-1, 1])
        points = np.sort(np.clip(np.concatenate([MEAN, [0.42, 0.48]]), *ends))
        return integrate.quad(integrand, *ends, points=points, limit=200)[0]

    expected = [best(i) for i in range(len(MEAN))]
    assert sum(expected) == pytest.approx(1, abs=1e-6)
    np.testing.assert_allclose(rank_intervals(MEAN, DEVIATION, 0.9).best, expected, atol=ERROR)


def test_rank_intervals():
    def probability_of_first(gap):
        return stats.norm.cdf(gap / np.sqrt(2))

    for gap in (0.0, 3.5):
        chances = rank_intervals(np.array([gap, 0.0]), np.ones(2), 0.9)
        wide = probability_of_first(gap) < 0.95
        assert chances.lower.tolist() == ([1, 1] if wide else [1, 2])
        assert chances.upper.tolist() == ([2, 2] if wide else [1, 2])
    certain = rank_intervals(np.array([1.0, 2.0, 0.0]), np.zeros(3), 0.9)
    assert certain.best.tolist() == [0, 1, 0]
    assert certain.lower.tolist() == certain.upper.tolist() == [2, 1, 3]
    assert rank_intervals(np.zeros(1), np.ones(1), 0.9).best.tolist() == [1]


@pytest.mark.parametrize(
    ("likelihood", "win", "loss"),
    [
        (jk.likelihoods.Probit(), lambda f: stats.norm.cdf(f), lambda f: stats.norm.cdf(-f)),
        (jk.likelihoods.Logit(), lambda f: 1 / (1 + np.exp(-f)), lambda f: 1 / (1 + np.exp(f))),
        (
            jk.likelihoods.OrdinalProbit(margin=0.4),
            lambda f: stats.norm.cdf(f - 0.4),
            lambda f: stats.norm.cdf(-f - 0.4),
        ),
        (
            jk.likelihoods.Gaussian(100.0),
            lambda f: stats.norm.cdf(f / 10),
            lambda f: stats.norm.cdf(-f / 10),
        ),
        (
            jk.likelihoods.Skellam(0.2),
            lambda f: 1 - stats.skellam.cdf(0, np.exp(0.2 + f), np.exp(0.2 - f)),
            lambda f: stats.skellam.cdf(-1, np.exp(0.2 + f), np.exp(0.2 - f)),
        ),
    ],
)
def test_four_hundred_points_are_odds_of_ten_to_one(likelihood, win, loss):
    score = 400 / Scale(1500, 400).factor(likelihood)
    expected = win(score) + 0.5 * (1 - win(score) - loss(score))
    assert expected == pytest.approx(10 / 11, abs=2e-6)


def test_scales():
    assert read_scale("elo") == Scale(1500, 400) == read_scale((1500, 400))
    with pytest.raises(
        ValueError, match="`scale` is 'fide', but must be 'elo', 'trueskill' or two"
    ):
        read_scale("fide")
    for wrong in ((1500, 0), (1500, -400), ("a", "b"), Scale(1500, np.inf)):
        with pytest.raises(ValueError, match=r"two numbers are .* for odds of 10 to 1, above zero"):
            read_scale(wrong)
    with pytest.raises(ValueError, match=r"`scale` needs .* but Poisson has no win and loss: its"):
        Scale().factor(jk.likelihoods.Poisson())


@pytest.fixture(scope="module")
def posterior():
    matches = pl.DataFrame(
        {
            "t": [0.0, 1.0, 2.0, 3.0, 9.0],
            "a": ["ant", "bee", "cat", "ant", "cat"],
            "b": ["bee", "cat", "ant", "cat", "dog"],
            "x": [3, 1, 0, 2, 1],
            "y": [1, 1, 2, 0, 0],
        }
    )
    data = jk.Dataset.from_frame(
        matches, time="t", first="a", second="b", result=("x", "y"), home=True
    )
    model = jk.Model(jk.kernels.Matern12(1.0, 5.0), jk.likelihoods.OrdinalProbit(margin=0.3))
    return jk.infer(model, data)


def test_leaderboard(posterior):
    board = posterior.leaderboard(3.0, scale=(100.0, 10.0), interval=0.5, joint=False)
    assert isinstance(board, pl.DataFrame)
    assert sorted(board["name"]) == ["ant", "bee", "cat"]
    scores = [posterior.linear_combination(name, 3.0) for name in board["name"]]
    factor = 10.0 / (400 / Scale().factor(posterior.model.likelihood))
    means = np.array([float(score.mean) for score in scores])
    deviations = np.sqrt([float(score.variance) for score in scores])
    np.testing.assert_allclose(board["rating"], 100 + factor * means)
    assert np.all(np.diff(means) < 0)
    np.testing.assert_allclose(board["upper"], 100 + factor * (means + 0.6744897502 * deviations))
    rows = dict(zip(board["name"], board.iter_rows(named=True), strict=True))
    assert [rows[name]["matches"] for name in ("ant", "bee", "cat")] == [3, 2, 3]
    assert [rows[name]["last_active"] for name in ("ant", "bee", "cat")] == [3, 1, 3]
    assert board["best"].sum() == pytest.approx(1, abs=3 * ERROR)


def test_choice_of_competitors(posterior):
    assert sorted(posterior.leaderboard()["name"]) == ["ant", "bee", "cat", "dog"]
    assert sorted(posterior.leaderboard(3.0, min_matches=3)["name"]) == ["ant", "cat"]
    assert sorted(posterior.leaderboard(active_within=1.0)["name"]) == ["cat", "dog"]
    assert posterior.leaderboard(group="home")["name"].to_list() == ["home"]
    assert posterior.leaderboard(names=["dog", "ant"])["name"].len() == 2
    assert posterior.leaderboard(names="dog")["name"].to_list() == ["dog"]
    with pytest.raises(ValueError, match=r"'cow' in `names` is not in the data\..*known names\.$"):
        posterior.leaderboard(names=["cow"])
    with pytest.raises(ValueError, match=r"'Ant' in `names` .* Did you mean 'ant'\?$"):
        posterior.leaderboard(names=["Ant"])
    with pytest.raises(
        ValueError, match="`group` is 'teams', but the groups of the data are 'home', 'skill'"
    ):
        posterior.leaderboard(group="teams")
    with pytest.raises(ValueError, match="`names` has a name twice"):
        posterior.leaderboard(names=["ant", "ant"])
    with pytest.raises(ValueError, match="No competitor remains"):
        posterior.leaderboard(-1.0)
    with pytest.raises(ValueError, match="`interval` is 90, but must be a probability"):
        posterior.leaderboard(interval=90)


def test_names_that_read_alike():
    data = jk.Dataset.from_pairs([0.0, 1.0, 2.0], [1, "1", "a"], ["1", "a", 1])
    posterior = jk.infer(jk.Model(jk.kernels.Constant(1.0), jk.likelihoods.Probit()), data)
    assert sorted(posterior.leaderboard()["name"]) == ["'1'", "1", "a"]
    assert sorted(set(posterior.to_frame()["name"])) == ["'1'", "1", "a"]
    with pytest.raises(ValueError, match=r"'2' in `name` is not in the data\. See `data"):
        posterior.scores("2")
    numbers = jk.Dataset.from_pairs([0.0, 1.0], [1, 2], [2, 3])
    posterior = jk.infer(posterior.model, numbers)
    with pytest.raises(ValueError, match=r"'1' in `name` is not in the data\. Did you mean 1\?"):
        posterior.scores("1")


def test_table_of_scores(posterior):
    whole = posterior.to_frame()
    assert isinstance(whole, pl.DataFrame)
    assert whole.columns == ["name", "group", "time", "mean", "deviation"]
    assert (
        whole["name"].to_list() == ["ant"] * 3 + ["bee"] * 2 + ["cat"] * 4 + ["dog"] + ["home"] * 5
    )
    times, means, variances = posterior.scores("cat")
    ours = whole.filter(pl.col("name") == "cat")
    np.testing.assert_array_equal(ours["time"], times)
    np.testing.assert_array_equal(ours["mean"], means)
    np.testing.assert_allclose(ours["deviation"] ** 2, variances)
    assert posterior.scores("cat").to_frame("pandas").shape == (4, 5)
    new = {"allow_unknown": True}
    asked = posterior.to_frame(["ant", "new"], [0.5, 0.7], library="pandas", **new)
    assert asked["name"].tolist() == ["ant", "ant", "new", "new"]
    for name in ("ant", "new"):
        alone = posterior.scores(name, [0.5, 0.7], **new)
        np.testing.assert_allclose(asked["mean"][asked["name"] == name], alone.mean, rtol=1e-12)
    assert posterior.to_frame("ant", 0.5, library="pyarrow").num_rows == 1
    for times in (None, 0.5):
        with pytest.raises(ValueError, match="'new' in `names` is not in the data"):
            posterior.to_frame(["ant", "new"], times)
    with pytest.raises(ValueError, match="`names` is empty"):
        posterior.to_frame([])
    with pytest.raises(ValueError, match="`library` is 'excel', but must be 'pandas', 'polars'"):
        posterior.to_frame(library="excel")


def test_forecast_of_fixtures(posterior):
    fixtures = pl.DataFrame({"t": [10.0, 11.0], "a": ["ant", "cow"], "b": ["bee", "cat"]})
    with pytest.raises(
        ValueError, match=r"^Row 1: 'cow' in `first` \(column 'a'\) is not in the data"
    ):
        posterior.forecast(fixtures)
    new = {"allow_unknown": True}
    table = posterior.forecast(fixtures, **new)
    assert isinstance(table, pl.DataFrame)
    assert table.columns[:3] == ["t", "a", "b"]
    prediction = posterior.predict(["ant", "cow"], ["bee", "cat"], [10.0, 11.0], home=1, **new)
    loss, tie, win = np.asarray(prediction.probabilities).T
    np.testing.assert_allclose(table["p_win"], win)
    np.testing.assert_allclose(table["p_tie"], tie)
    np.testing.assert_allclose(table["p_loss"], loss)
    frame = prediction.to_frame()
    np.testing.assert_allclose(frame["score_mean"], prediction.mean)
    columns = posterior.forecast(fixtures.to_dict(as_series=False), **new)
    assert "p_win" in repr(columns).splitlines()[0]
    np.testing.assert_array_equal(columns["p_tie"], table["p_tie"])
    with pytest.raises(ValueError, match=r"`first` \(column 'a'\) is not in the table"):
        posterior.forecast(fixtures.drop("a"))
