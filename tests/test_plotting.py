"""Plots show what they were given, on the axes they were given."""

import jax.numpy as jnp
import matplotlib
import numpy as np
import pytest
from scipy.special import ndtr

import jaxkick as jk
from jaxkick import plotting
from jaxkick.evaluation import Calibration, Comparison, Estimate

matplotlib.use("Agg")
from matplotlib import pyplot


@pytest.fixture
def ax():
    figure, ax = pyplot.subplots()
    yield ax
    pyplot.close(figure)


@pytest.fixture(scope="module")
def posterior():
    matches = {
        "date": ["2001-01-01", "2001-06-01", "2002-01-01", "2002-06-01"],
        "a": ["ant", "bee", "cat", "ant"],
        "b": ["bee", "cat", "ant", "cat"],
    }
    data = jk.Dataset.from_frame(matches, time="date", first="a", second="b")
    return jk.infer(jk.Model(jk.kernels.Matern12(1.0, 2.0), jk.likelihoods.Probit()), data)


def texts(ax):
    return [text.get_text() for text in ax.texts]


def test_scores(posterior, ax):
    assert plotting.scores(posterior, ["ant", "cat"], ax=ax) is ax
    line = ax.get_lines()[0]
    _, means, _ = posterior.scores("ant", line.get_xdata(orig=True))
    np.testing.assert_allclose(line.get_ydata(), means)
    assert line.get_xdata(orig=True).dtype.kind == "M"
    for line, debut in zip(ax.get_lines(), ("2001-01-01", "2001-06-01"), strict=True):
        late = line.get_xdata(orig=True)[0] - np.datetime64(debut)
        assert np.timedelta64(0) <= late < np.timedelta64(2, "D")
    assert texts(ax) == ["ant", "cat"]
    assert ax.get_lines()[0].get_linestyle() != ax.get_lines()[1].get_linestyle()
    with pytest.raises(ValueError, match=r"'cow' in `names` is not in the data"):
        plotting.scores(posterior, ["cow"], ax=ax)
    fresh = plotting.scores(posterior, ["ant"], times=["2001-01-01", "2003-01-01"], scale="elo")
    assert fresh is not ax
    assert fresh.get_ylabel() == "rating"
    with pytest.raises(ValueError, match="`interval` is 90, but must be a probability"):
        plotting.scores(posterior, "ant", interval=90, ax=ax)
    days = ["2001-01-01", "2003-01-01"]
    plotting.scores(posterior, "newcomer", times=days, allow_unknown=True, ax=fresh)
    assert fresh.get_lines()[-1].get_ydata().tolist() == [0.0, 0.0]
    pyplot.close(fresh.figure)


def test_names_are_not_mathematics(ax):
    names = ["$x^{$", "a_{b$", "\\$", "$y$"]
    data = jk.Dataset.from_pairs(np.arange(4.0), names, names[1:] + names[:1])
    posterior = jk.infer(jk.Model(jk.kernels.Constant(1.0), jk.likelihoods.Probit()), data)
    plotting.scores(posterior, names, ax=ax)
    plotting.win_probabilities(posterior, names, 9.0, ax=ax)
    plotting.leaderboard(posterior, ax=ax)
    # Matplotlib parses mathematics when it draws.
    ax.figure.canvas.draw()


def test_leaderboard(posterior, ax):
    board = posterior.leaderboard()
    assert plotting.leaderboard(board, ax=ax) is ax
    assert [label.get_text() for label in ax.get_yticklabels()] == list(board["name"])
    dots = ax.collections[-1].get_offsets()
    np.testing.assert_allclose(dots[:, 0], board["rating"])
    assert ax.get_ylim()[0] > ax.get_ylim()[1]
    assert len(plotting.leaderboard(posterior, top=2, ax=ax).get_yticks()) == 2
    ax.clear()
    plotting.leaderboard(posterior, time="2001-07-01", scale="elo", ax=ax)
    elo = posterior.leaderboard("2001-07-01", scale="elo")
    np.testing.assert_allclose(ax.collections[-1].get_offsets()[:, 0], elo["rating"])
    with pytest.raises(TypeError, match="`scale` needs a posterior or stream"):
        plotting.leaderboard(board, scale="elo", ax=ax)


def test_win_probabilities(posterior, ax):
    names = ["ant", "bee", "cat"]
    assert plotting.win_probabilities(posterior, names, "2003-01-01", ax=ax) is ax
    shown = np.asarray(ax.images[0].get_array().filled(np.nan))
    chance = float(posterior.predict("bee", "cat", "2003-01-01").probabilities[1])
    assert shown[1, 2] == pytest.approx(chance)
    assert shown[2, 1] == pytest.approx(1 - chance)
    assert np.isnan(shown[0, 0])
    assert ax.get_xlabel() == "probability in % that the row beats the column"
    with pytest.raises(ValueError, match="fewer than two names"):
        plotting.win_probabilities(posterior, names[:1], "2003-01-01", ax=ax)
    assert f"{100 * chance:.0f}" in texts(ax)


def test_win_probabilities_at_home(ax):
    matches = {"a": ["ant", "bee", "cat", "ant"], "b": ["bee", "cat", "ant", "cat"]}
    columns = {"time": 0.0, "first": "a", "second": "b", "outcome": 1.0}
    data = jk.Dataset.from_frame(matches, home=True, **columns)
    posterior = jk.infer(jk.Model(jk.kernels.Constant(1.0), jk.likelihoods.Probit()), data)
    pair = ["ant", "newcomer"]
    plotting.win_probabilities(posterior, pair, 0.0, home=1, allow_unknown=True, ax=ax)
    shown = np.asarray(ax.images[0].get_array().filled(np.nan))
    at_home, neutral = (
        posterior.predict(*pair, 0.0, home=home, allow_unknown=True).p_win for home in (1, 0)
    )
    assert shown[0, 1] == pytest.approx(float(at_home))
    assert at_home > neutral + 0.05
    assert shown[0, 1] + shown[1, 0] > 1.05
    assert ax.get_xlabel() == "probability in % that the row, at home, beats the column"


def test_win_probabilities_of_pairs(ax):
    def features(row, column):
        return {row: 1.0, " - ".join(sorted([row, column])): 1.0 if row < column else -1.0}

    matches = [features("ant", "bee") | {"bee": -1.0}] * 5 + [{"ant": 1.0, "cat": -1.0}]
    data = jk.Dataset.from_mappings(np.zeros(6), matches, 1.0)
    posterior = jk.infer(jk.Model(jk.kernels.Constant(1.0), jk.likelihoods.Probit()), data)
    plotting.win_probabilities(posterior, ["ant", "bee"], 0.0, features=features, ax=ax)
    asked = {"bee": 1.0, "ant": -1.0, "ant - bee": -1.0}
    moments = posterior.linear_combination(asked, 0.0)
    chance = ndtr(float(moments.mean) / np.sqrt(1 + float(moments.variance)))
    shown = np.asarray(ax.images[0].get_array().filled(np.nan))
    np.testing.assert_allclose(shown[1, 0], chance, rtol=1e-6)
    assert chance < float(posterior.predict("bee", "ant", 0.0).probabilities[1]) - 0.03


@pytest.mark.quick
def test_comparisons(ax):
    found = {
        "ours": Comparison(Estimate(-0.02, -0.03, -0.01), 0.99, 0.6),
        "theirs": Comparison(Estimate(0.01, -0.02, 0.04), 0.25, 0.5),
    }
    assert plotting.comparisons(found, rival="Elo", ax=ax) is ax
    assert [label.get_text() for label in ax.get_yticklabels()] == ["ours", "theirs"]
    np.testing.assert_allclose(ax.collections[-1].get_offsets(), [[-0.02, 0], [0.01, 1]])
    ends = [segment[:, 0] for segment in ax.collections[0].get_segments()]
    np.testing.assert_allclose(ends, [[-0.03, -0.01], [-0.02, 0.04]])
    assert texts(ax) == ["better in 99%", "better in 25%"]
    assert ax.get_xlabel() == "log loss minus that of Elo (lower is better)"
    with pytest.raises(ValueError, match="Pass at least one comparison"):
        plotting.comparisons({}, ax=ax)


@pytest.mark.quick
def test_curves(ax):
    points = np.array([0.2, 0.8])
    curve = Calibration(points, points + 0.1, points, points + 0.15, np.array([5, 9]), None)
    assert plotting.calibration(curve, ax=ax) is ax
    np.testing.assert_allclose(ax.collections[-1].get_offsets()[:, 1], points + 0.1)
    ax.clear()
    values = np.array([-9.0, -5.0, -6.0])
    record = jk.History(values, values, values, values, {}, True, values[:1])
    assert plotting.history(record, ax=ax) is ax
    np.testing.assert_array_equal(ax.get_lines()[0].get_ydata(), values)
    assert texts(ax) == ["-5.00"]
    ax.clear()
    times = np.linspace(0, 5, 20)
    kernel = jk.kernels.Matern12(1.0, 2.0)
    assert plotting.kernel_samples(kernel, times, count=3, unit="year", ax=ax) is ax
    assert len(ax.get_lines()) == 4
    assert ax.get_xlabel() == "time in years"


@pytest.mark.quick
def test_goals(ax):
    mean, variance, likelihood = jnp.array(0.3), jnp.array(0.05), jk.likelihoods.Poisson()
    side = jk.Prediction(mean, variance, likelihood)
    match = jk.CountsPrediction(side, side, jnp.array(0.0))
    assert plotting.goal_differences(match, ax=ax) is ax
    heights = [bar.get_height() for bar in ax.patches]
    assert sum(heights) == pytest.approx(1, abs=0.01)
    np.testing.assert_allclose(heights, heights[::-1], rtol=1e-6)
    assert len(texts(ax)) == 3
    ax.clear()
    points = jk.Prediction(jnp.array(3.0), jnp.array(4.0), jk.likelihoods.Gaussian(12.0))
    heights = {
        round(bar.get_center()[0]): bar.get_height()
        for bar in plotting.goal_differences(points, ax=ax).patches
    }
    assert heights[7] == pytest.approx(np.exp(-0.5) / np.sqrt(32 * np.pi))
    ax.clear()
    assert plotting.goal_grid(match, largest=3, ax=ax) is ax
    np.testing.assert_allclose(ax.images[0].get_array(), match.grid(3))


@pytest.mark.quick
def test_rank_probabilities(ax):
    mean, variance = jnp.array([-1.0, 2.0, 0.5]), jnp.array([0.1, 0.4, 0.2])
    names = ("low", "$high", "mid")
    event = jk.RankPrediction(mean, variance, jk.likelihoods.Ranking(), names)
    assert plotting.rank_probabilities(event, ax=ax) is ax
    assert [label.get_text() for label in ax.get_yticklabels()] == [r"\$high", "mid", "low"]
    assert [label.get_text() for label in ax.get_xticklabels()] == ["1", "2", "3"]
    order, chances = [1, 2, 0], np.asarray(event.probabilities)
    shown = np.ma.filled(ax.images[0].get_array(), 0.0)
    np.testing.assert_allclose(shown, np.where(chances < 0.005, 0.0, chances)[order])
    expected = [f"{place:.1f}" for place in np.asarray(event.expected_rank)[order]]
    assert texts(ax)[-4:] == [*expected, "expected"]
    ax.clear()
    plotting.rank_probabilities(event, top=1, ax=ax)
    assert [label.get_text() for label in ax.get_yticklabels()] == [r"\$high"]


def test_labels_keep_their_distance():
    wanted = np.array([0.0, 0.1, 5.0, 0.05])
    places = plotting.style.spread(wanted, 1.0)
    assert np.all(np.diff(np.sort(places)) >= 1 - 1e-12)
    assert places[2] == 5.0
    assert np.mean(places[[0, 1, 3]]) == pytest.approx(0.05)
    assert np.array_equal(np.argsort(places), np.argsort(wanted))


def test_names_with_mathematics(ax):
    names = ["$kill $team", "{a}_b$", r"c\$^2$"]
    table = {
        "name": np.array(names),
        **{column: np.arange(3.0) for column in ("rating", "lower", "upper", "best")},
    }
    plotting.leaderboard(table, ax=ax)
    ax.figure.canvas.draw()
    labels = ax.get_yticklabels()
    assert [each._preprocess_math(each.get_text()) for each in labels] == [
        (name, False) for name in names
    ]


def test_seasons(ax):
    places = np.array([[1, 2, 3], [1, 3, 2], [2, 1, 3], [1, 2, 3]])
    totals, none = np.array([[9.0, 5.0, 2.0]] * 4), np.zeros(3)
    names = ("ant", "bee", "cat")
    table = jk.simulation.LeagueTable(names, places, totals, none, none, none, (), {})
    plotting.final_places(table, ax=ax)
    shown = np.ma.filled(ax.images[0].get_array(), np.nan)
    np.testing.assert_allclose(shown[0], [0.75, 0.25, np.nan])
    assert texts(ax)[-4:] == ["9", "5", "2", "points"]
    ax.clear()
    plotting.final_places(table, top=2, ax=ax)
    assert texts(ax)[-3:] == ["9", "5", "points"]
    days = np.array([0.0, 1.0])
    chances = np.array([[[0.5, 0.5, 0.0], [0.3, 0.3, 0.4], [0.2, 0.2, 0.6]], np.eye(3)])
    scale = jk.Dataset.from_pairs([0.0], ["a"], ["b"]).index.scale
    race = jk.simulation.TitleRace(names, days, chances, totals[:2], scale)
    fresh = plotting.title_race(race, ["bee", "ant"])
    assert [line.get_ydata().tolist() for line in fresh.get_lines()] == [[0.3, 0.0], [0.5, 1.0]]
    assert texts(fresh) == ["bee", "ant"]
    assert fresh.get_ylabel() == "chance of the title"
    pyplot.close(fresh.figure)
    first = plotting.title_race(race, top=2)
    assert [line.get_ydata()[0] for line in first.get_lines()] == [1.0, 0.6, 0.4]
    assert first.get_ylabel() == "chance of the first 2"
    pyplot.close(first.figure)
    last = plotting.title_race(race, bottom=1)
    assert [line.get_ydata()[0] for line in last.get_lines()] == [0.6, 0.4, 0.0]
    pyplot.close(last.figure)
    with pytest.raises(ValueError, match="'cow' in `names` is not in the league"):
        plotting.title_race(race, ["cow"])
