"""Explanations and suggested matches, against dense Gaussian regression."""

import re

import matplotlib
import numpy as np
import pytest

import jaxkick as jk

matplotlib.use("Agg")

NOISE = 0.7
NAMES = np.array(["ann", "bob", "cat", "dan", "eve"])
KERNEL = jk.kernels.Constant(0.5) + jk.kernels.Matern12(0.4, 1.5)
MODEL = jk.Model(KERNEL, jk.likelihoods.Gaussian(NOISE**2))
RANDOM = np.random.default_rng(3)
N = 40
FIRST = RANDOM.integers(0, 5, N)
SECOND = (FIRST + RANDOM.integers(1, 5, N)) % 5
TIMES = np.sort(RANDOM.uniform(0, 4, N))
OUTCOME = RANDOM.normal(size=N) + 0.8 * (SECOND - FIRST)


def data_of(outcome=OUTCOME, chosen=slice(None)) -> jk.Dataset:
    sides = NAMES[FIRST[chosen]], NAMES[SECOND[chosen]]
    return jk.Dataset.from_pairs(TIMES[chosen], *sides, outcome[chosen])


@pytest.fixture(scope="module")
def posterior() -> jk.Posterior:
    return jk.infer(MODEL, data_of(), tol=1e-9)


@pytest.fixture(scope="module")
def probit() -> jk.Posterior:
    model = jk.Model(KERNEL, jk.likelihoods.Probit())
    return jk.infer(model, data_of(np.sign(OUTCOME)), tol=1e-7)


def prior(player, time, others, times) -> np.ndarray:
    """Prior covariance of a player's score with the scores of matches."""
    k = 0.5 + 0.4 * np.exp(-np.abs(time - times) / 1.5)
    return k * ((others[0] == player) * 1.0 - (others[1] == player))


def dense_reach(player: int, time: float) -> tuple[np.ndarray, np.ndarray]:
    """Posterior covariances of a score with the scores of all matches; the weights of outcomes."""
    sides = (FIRST, SECOND)
    gram = np.stack([
        prior(FIRST[n], TIMES[n], sides, TIMES) - prior(SECOND[n], TIMES[n], sides, TIMES)
        for n in range(N)
    ])  # fmt: skip
    weights = np.linalg.solve(gram + NOISE**2 * np.eye(N), prior(player, time, sides, TIMES))
    return weights * NOISE**2, weights


def test_contributions_are_those_of_dense_regression(posterior):
    found = posterior.explain("bob", 5.0)
    reach, weights = dense_reach(1, 5.0)
    np.testing.assert_allclose(found.contribution, weights * OUTCOME, atol=1e-7)
    np.testing.assert_allclose(reach / NOISE**2 * OUTCOME, found.contribution, atol=1e-7)
    np.testing.assert_allclose(found.rating, weights @ OUTCOME, atol=1e-7)
    assert abs(found.rest) < 1e-7
    np.testing.assert_array_equal(found.own, (FIRST == 1) | (SECOND == 1))
    assert found.match[0] == f"{NAMES[FIRST[0]]} – {NAMES[SECOND[0]]}"


def test_a_change_is_the_difference_of_two_ratings(posterior):
    found = posterior.explain("cat", 3.5, since=1.0)
    expected = (dense_reach(2, 3.5)[1] - dense_reach(2, 1.0)[1]) * OUTCOME
    np.testing.assert_allclose(found.contribution, expected, atol=1e-7)
    np.testing.assert_allclose(found.rating, expected.sum(), atol=1e-7)
    assert "since 1" in found.summary()


def test_a_rating_may_fall_after_a_win():
    # Ann beats Ben by one goal, though all their results say that it should be more; and Cat,
    # whom Ann beat before, loses to everybody.
    first = ["ann", "ann", "ann", "cat", "cat", "ann"]
    second = ["ben", "cat", "ben", "ben", "dan", "ben"]
    outcome = np.array([4.0, 2, 4, -4, -4, 1])
    model = jk.Model(jk.kernels.Constant(4.0), jk.likelihoods.Gaussian(1.0))
    early = jk.infer(
        model, jk.Dataset.from_pairs(np.arange(3.0), first[:3], second[:3], outcome[:3])
    )
    late = early.update(
        jk.Dataset.from_pairs(np.arange(3.0, 6), first[3:], second[3:], outcome[3:])
    )
    found = late.explain("ann", before=early)
    assert found.rating < 0
    np.testing.assert_array_equal(found.result[[0, 5]], [1, 1])
    assert np.isnan(found.result[[3, 4]]).all()
    total = found.contribution.sum() + found.rest
    np.testing.assert_allclose(total, late.scores("ann", 5.0).mean - early.scores("ann", 5.0).mean)
    sentence = found.summary().split(". ")[0]
    assert sentence.startswith("ann won the only match since the earlier posterior, but the rating")
    assert "own results (below expectation) " in sentence
    assert "results of others " in sentence
    assert sum(map(float, re.findall(r"(?<=[a-z)] )[+-]\d\.\d+", sentence))) == pytest.approx(
        found.rating, abs=0.02
    )
    with pytest.raises(jk.DataError, match=r"`since` is 4.0, which is not before `time`"):
        late.explain("ann", 3.0, since=4.0)


def test_influence_is_what_changes_without_the_match(posterior):
    found = posterior.explain("bob", 5.0)
    order = np.argsort(-np.abs(found.influence))
    # The variance of the score of a match with little influence is the factorised one.
    for n, error in ((order[0], 1e-4), (order[1], 1e-4), (order[20], 0.1)):
        rest = np.arange(N) != n
        without = jk.infer(MODEL, data_of(chosen=rest), tol=1e-9).scores("bob", [5.0]).mean[0]
        np.testing.assert_allclose(found.influence[n], found.rating - without, rtol=error)


def test_contributions_of_results_sum_to_the_rating(probit):
    found = probit.explain("ann", scale="elo")
    total = found.baseline + found.contribution.sum() + found.rest
    np.testing.assert_allclose(total, found.rating)
    assert found.baseline == 1500
    assert abs(found.rest) < 1e-3
    board = probit.leaderboard(scale="elo")
    np.testing.assert_allclose(found.rating, board["rating"][list(board["name"]).index("ann")])
    table = found.to_frame("pandas")
    assert abs(table["contribution"][0]) == np.abs(found.contribution).max()
    assert f"ann is rated {found.rating:.0f}" in repr(found)
    axes = jk.plotting.explanation(found, top=4)
    assert len(axes.patches) == 5
    assert axes.get_yticklabels()[-1].get_text() == "36 other matches"
    ends = axes.patches[-1].get_x() + axes.patches[-1].get_width()
    np.testing.assert_allclose(ends, found.rating)


def test_what_an_update_changed(probit):
    before = jk.infer(probit.model, data_of(np.sign(OUTCOME), slice(30)), tol=1e-7)
    found = probit.explain("ann", 4.0, before=before)
    change = probit.scores("ann", [4.0]).mean[0] - before.scores("ann", [4.0]).mean[0]
    np.testing.assert_allclose(found.rating, change, atol=1e-10)
    np.testing.assert_allclose(found.contribution.sum() + found.rest, change, atol=1e-10)
    np.testing.assert_array_equal(found.new, np.arange(N) >= 30)
    assert "Matches since then contribute" in found.summary()
    with pytest.raises(jk.DataError, match="`before` is a posterior of other matches"):
        before.explain("ann", before=probit)
    with pytest.raises(jk.DataError, match="`since` and `before` are both given"):
        probit.explain("ann", since=1.0, before=before)
    with pytest.raises(jk.DataError, match="'zoe' in `name` is not in the data"):
        probit.explain("zoe")


def test_matches_of_goals_and_of_races_are_whole():
    goals = {
        "t": [0.0, 1, 2, 3],
        "a": list("xyzx"),
        "b": list("yzxz"),
        "g": [2, 0, 1, 3],
        "h": [1] * 4,
    }
    data = jk.Dataset.from_frame(goals, time="t", first="a", second="b", counts=("g", "h"))
    posterior = jk.infer(jk.suggest_model(data), data, tol=1e-6)
    found = posterior.explain("x")
    assert list(found.match) == ["x – y", "y – z", "z – x", "x – z"]
    np.testing.assert_allclose(found.baseline + found.contribution.sum(), found.rating, atol=1e-4)
    places = {"t": [0, 0, 0, 1, 1, 1, 1], "e": list("aaabbbb"), "c": list("xyzzwyx")}
    places["r"] = [2, 1, 3, 4, 1, 3, 2]
    names = {"time": "t", "event": "e", "competitor": "c", "rank": "r"}
    data = jk.Dataset.from_rankings(places, **names)
    model = jk.Model(jk.kernels.Constant(0.8), jk.likelihoods.Ranking())
    found = jk.infer(model, data, tol=1e-7).explain("y")
    assert list(found.match) == ["y, x, z", "w, x, y, …"]
    cars = {**places, "car": ["red", "blue"] * 3 + ["red"]}
    driven = jk.Dataset.from_rankings(cars, **names, features={"car": "car"})
    same = jk.infer(model, driven, tol=1e-7).explain("y")
    assert list(same.match) == list(found.match)
    np.testing.assert_allclose(found.contribution.sum(), found.rating, atol=1e-6)
    assert np.isnan(found.outcome).all()


def test_gains_of_gaussian_outcomes_are_those_of_the_dense_posterior(posterior):
    found = posterior.suggest_matches(time=4.5, goal="ranking", n=4)
    gram = np.stack([prior(k, 4.5, (FIRST, SECOND), TIMES) for k in range(5)])
    weights = np.stack([dense_reach(k, 4.5)[1] for k in range(5)])
    covariance = 0.9 * np.eye(5) - weights @ gram.T
    for first, second, gain in zip(found.first, found.second, found.gain, strict=True):
        x = (first == NAMES) * 1.0 - (second == NAMES)
        variance = x @ covariance @ x
        np.testing.assert_allclose(gain, 0.5 * np.log1p(variance / NOISE**2), rtol=1e-5)
        pairs = [np.eye(5)[k] - np.eye(5)[j] for k in range(5) for j in range(k)]
        assert variance >= max(x @ covariance @ x for x in pairs) - 1e-8
        covariance -= np.outer(covariance @ x, covariance @ x) / (NOISE**2 + variance)


def test_matches_that_find_the_best(probit):
    found = probit.suggest_matches(goal="best", n=1)
    board = probit.leaderboard(seed=1)
    assert found.best == board["name"][0]
    np.testing.assert_allclose(found.p_best, board["best"][0], atol=0.1)
    # Only the favourites can be informative.
    assert board["name"][0] in (found.first[0], found.second[0])
    assert "is the best with probability" in repr(found)
    chosen = probit.suggest_matches([("ann", "eve"), ("bob", "cat")], n=2)
    pairs = zip(chosen.to_frame("pandas")["first"], chosen.second, strict=True)
    assert set(pairs) <= {("ann", "eve"), ("bob", "cat")}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"goal": "win"}, "`goal` is 'win'"),
        ({"candidates": ["ann"]}, "fewer than two competitors"),
        ({"candidates": [("ann", "ann")]}, "not a pair of different competitors"),
        ({"candidates": ["ann", "zoe"]}, "is not in the data"),
    ],
)
def test_bad_suggestions_are_refused(probit, arguments, message):
    with pytest.raises(jk.DataError, match=message):
        probit.suggest_matches(**arguments)


def board_of(posterior, **options) -> dict[str, np.ndarray]:
    """Rows of a leaderboard in the order of names."""
    board = posterior.leaderboard(4.5, scale=(1000.0, 100.0), **options)
    order = np.argsort(np.asarray(board["name"], str))
    return {name: np.asarray(board[name])[order] for name in ("rating", "deviation")}


def test_an_exact_anchor_leaves_differences(posterior):
    free, held = board_of(posterior), board_of(posterior, anchors={"cat": 1200.0})
    np.testing.assert_allclose(held["rating"], free["rating"] - free["rating"][2] + 1200.0)
    others = [name for name in NAMES if name != "cat"]
    difference = posterior.compare(others, ["cat"] * 4, 4.5, scale=(1000.0, 100.0))
    np.testing.assert_allclose(held["deviation"][[0, 1, 3, 4]], difference.deviation, rtol=1e-4)
    np.testing.assert_allclose(held["deviation"][2], 0.0, atol=1e-4)


def test_uncertain_anchors_are_measurements_of_a_free_level(posterior):
    held = board_of(posterior, anchors={"ann": (1300.0, 30.0), "eve": (900.0, 10.0)})
    free = posterior.leaderboard(4.5, scale=(1000.0, 100.0), names=list(NAMES))
    order = np.argsort(np.asarray(free["name"], str))
    mean = np.asarray(free["rating"])[order]
    factor = np.sqrt(free["deviation"][order][0] ** 2 / posterior.covariance(["ann"], 4.5)[0, 0])
    covariance = factor**2 * np.asarray(posterior.covariance(list(NAMES), 4.5))
    # A level of large variance, and two measurements.
    covariance = covariance + 1e7
    x = np.eye(5)[[0, 4]]
    gain = covariance @ x.T @ np.linalg.inv(x @ covariance @ x.T + np.diag([900.0, 100.0]))
    expected = mean + gain @ (np.array([1300.0, 900.0]) - x @ mean)
    np.testing.assert_allclose(held["rating"], expected, rtol=1e-3)
    variance = np.diagonal(covariance - gain @ x @ covariance)
    np.testing.assert_allclose(held["deviation"], np.sqrt(variance), rtol=1e-2)


def test_anchored_intervals_cover_the_truth():
    """Leagues of unknown level, with two ratings known up to an error."""
    model, inside = jk.Model(jk.kernels.Constant(1.0), jk.likelihoods.Probit()), []
    for seed in range(30):
        rng = np.random.default_rng(seed)
        skill = rng.normal(size=12) + rng.normal(0.0, 5.0)
        first = rng.integers(0, 12, 240)
        second = (first + rng.integers(1, 12, 240)) % 12
        won = np.where(skill[first] - skill[second] + rng.normal(size=240) > 0, 1.0, -1.0)
        league = jk.Dataset.from_pairs(np.zeros(240), first, second, won)
        known = {k: (skill[k] + 0.3 * rng.normal(), 0.3) for k in (0, 1)}
        board = jk.infer(model, league).leaderboard(anchors=known, interval=0.9)
        truth = skill[board["name"]]
        inside.append((board["lower"] < truth) & (truth < board["upper"]))
    assert np.mean(inside) == pytest.approx(0.9, abs=0.04)


def test_the_mean_of_some_competitors_may_be_fixed(posterior):
    held = board_of(posterior, anchors=["bob", "dan"])
    np.testing.assert_allclose(held["rating"][[1, 3]].mean(), 1000.0)
    only = posterior.leaderboard(4.5, names=["ann"], anchors={"eve": 0.0})
    assert list(only["name"]) == ["ann"]


@pytest.mark.parametrize(
    ("anchors", "message"),
    [
        ({"zoe": 1.0}, "'zoe' in `anchors` is not in the data"),
        (["ann", "ann"], "`anchors` has a name twice"),
        (1500.0, "`anchors` is 1500.0, but must be names"),
        ({"ann": "high"}, "must be a rating, or a rating and its standard deviation"),
        ({"ann": (1.0, -2.0)}, r"anchors\['ann'\]"),
        ([], "`anchors` has no names"),
    ],
)
def test_bad_anchors_are_refused(posterior, anchors, message):
    with pytest.raises(jk.DataError, match=message):
        posterior.leaderboard(4.5, anchors=anchors)


def test_anchors_need_matches(posterior):
    with pytest.raises(jk.DataError, match="in `anchors` has no matches by then"):
        posterior.leaderboard(float(TIMES.min()), anchors=list(NAMES))
