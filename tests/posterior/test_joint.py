"""The joint posterior, against dense Gaussian processes."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import norm

import jaxkick as jk
from jaxkick import kernels, likelihoods
from jaxkick.posterior import joint
from jaxkick.posterior.joint import covariance_of, draw_scores
from jaxkick.posterior.predictor import make_query

COUNT = 40
RNG = np.random.default_rng(0)
TIMES = np.sort(RNG.uniform(0.0, 6.0, COUNT))
# Some matches are at the same time.
TIMES[1::5] = TIMES[0::5]
FIRST = RNG.integers(0, 5, COUNT)
SECOND = (FIRST + RNG.integers(1, 5, COUNT)) % 5
ROWS = [{f"t{i}": 1.0, f"t{j}": -1.0, "home": 1.0} for i, j in zip(FIRST, SECOND, strict=True)]
KERNEL = {
    "team": kernels.Constant(0.3) + kernels.Matern32(0.8, 2.0),
    "home": kernels.Constant(0.2),
}
# Before, between, at and after matches; times after the last match; names that are not in the data.
POINTS = [
    ("t0", 2.0), ("t0", -1.0), ("t0", TIMES[3]), ("t1", 8.0), ("t1", 9.0), ("home", 3.0),
    ("t2", 2.1), ("t2", 2.11), ("new", 2.0), ("new", 3.0), ("other", 2.0),
]  # fmt: skip
FUTURE = [("t1", 8.0 + 0.1 * k) for k in range(9)] + [("t2", 8.0 + 0.1 * k) for k in range(9)]


def star(variance, dtype):
    """One player against ten others, with a covariate and a prior that says nothing."""
    rng = np.random.default_rng(3)
    other, covariate = rng.integers(1, 11, 240), rng.normal(size=240)
    outcome = rng.normal(size=240)
    data = jk.Dataset.from_pairs(
        np.zeros(240),
        ["p0"] * 240,
        [f"p{k}" for k in other],
        outcome,
        covariates={"x": covariate},
        dtype=dtype,
    )
    design = np.zeros((240, 12))
    design[:, 0], design[:, 11] = 1.0, covariate
    design[np.arange(240), other] = -1.0
    truth = np.linalg.inv(np.eye(12) / variance + design.T @ design)
    model = jk.Model(kernels.Constant(variance), likelihoods.Gaussian(1.0))
    return jk.infer(model, data, throw=False), truth


@pytest.mark.parametrize("variance", [1e3, 1e5])
def test_wide_priors(variance):
    """The level is unknown, the covariate is not: float32 would round its variance to noise."""
    posterior, truth = star(variance, "float64")
    names = [f"p{k}" for k in range(11)] + ["x"]
    found = posterior.covariance(names, 0.0)
    np.testing.assert_allclose(np.diagonal(found), np.diagonal(truth), rtol=1e-3)
    assert np.linalg.eigvalsh(found).min() > 0
    alone = [float(posterior.scores(name, 0.0).variance[0]) for name in names]
    np.testing.assert_allclose(alone, np.diagonal(truth), rtol=1e-3)


def test_wide_priors_in_single_precision():
    posterior, _ = star(1e5, "float32")
    with pytest.warns(
        UserWarning, match="rounding in float32 .* Read the data with dtype='float64'"
    ):
        found = posterior.scores("x", 0.0)
    assert float(found.variance[0]) >= 0.0


def test_intervals_of_a_tiny_league_by_monte_carlo():
    names, first, second = "xyz", "xxyxzy", "yzzyxx"
    won = np.array([1.0, 1, -1, -1, 1, 1])
    clay = np.array([1, 0, 1, 0, 1, 1])
    games = jk.Dataset.from_pairs(
        np.zeros(6),
        list(first),
        list(second),
        won,
        aspects={"surface": np.where(clay, "clay", "grass")},
    )
    kernel = kernels.Constant(1.0) + kernels.Aspects(clay=kernels.Constant(0.5))
    posterior = jk.infer(jk.Model(kernel, likelihoods.Probit()), games, tol=1e-8)
    # Draws from the prior, weighted by the likelihood.
    draws = RNG.normal(size=(2, 400_000, 3)) * np.sqrt([1.0, 0.5])[:, None, None]
    weights = np.ones(400_000)
    for one, other, y, on in zip(first, second, won, clay, strict=True):
        scores = draws[0] + on * draws[1]
        gap = scores[:, names.index(one)] - scores[:, names.index(other)]
        weights *= norm.cdf(y * gap)
    weights /= weights.sum()
    for aspects, scores in ((None, draws[0]), ({"clay": 1}, draws.sum(axis=0))):
        mean = weights @ scores
        truth = (scores - mean).T @ ((scores - mean) * weights[:, None])
        found = posterior.covariance(list(names), 0.0, aspects=aspects)
        np.testing.assert_allclose(found, truth, atol=0.015)
        order = posterior.compare("x", "y", 0.0, aspects=aspects).probability
        assert order == pytest.approx(weights @ (scores[:, 0] > scores[:, 1]), abs=0.015)
        board = posterior.leaderboard(aspects=aspects)
        for name, best in zip(board["name"], board["best"], strict=True):
            share = weights @ (scores.argmax(axis=1) == names.index(name))
            assert best == pytest.approx(share, abs=0.02)
        paths = posterior.sample_paths(
            list(names), [0.0], 20_000, jax.random.key(1), aspects=aspects
        )
        np.testing.assert_allclose(np.cov(paths[..., 0].T), found, atol=0.04)
    for court, place in (("grass", 0), ("clay", 1)):
        match = {"covariates": {"surface": court}, "joint": True}
        found = posterior.predict("x", "y", 0.0, **match).variance
        truth = posterior.compare("x", "y", 0.0, aspects={"clay": place}).deviation ** 2
        assert float(found) == pytest.approx(truth)
    with pytest.raises(jk.DataError, match="`features` is empty"):
        posterior.covariance([], 0.0)
    with pytest.raises(jk.DataError, match="`draws` is 0, but must be a positive whole number"):
        posterior.sample_paths(["x"], [0.0], 0, jax.random.key(1))
    with pytest.raises(jk.DataError, match="`n` is 0, but must be a positive whole number"):
        posterior.suggest_matches(n=0)
    found = posterior.suggest_matches(n=2, goal="ranking", aspects={"clay": 1})
    assert found.best == "z"
    parts = posterior.explain("z", aspects={"clay": 1})
    mean = float(posterior.linear_combination("z", 0.0, aspects={"clay": 1}).mean)
    assert parts.rating == pytest.approx(mean)
    assert parts.contribution.sum() == pytest.approx(mean, abs=1e-5)


def data(outcome, row_length=None, dtype=None):
    groups = lambda name: "home" if name == "home" else "team"  # noqa: E731
    return jk.Dataset.from_mappings(
        TIMES, ROWS, outcome, groups=groups, row_length=row_length, dtype=dtype
    )


@functools.cache
def fit(kind, row_length=None, dtype=None):
    """Fits of the same matches by name."""
    rng = np.random.default_rng(1)
    if kind == "gaussian":
        likelihood, outcome = likelihoods.Gaussian(0.5), rng.normal(size=COUNT)
    else:
        likelihood, outcome = likelihoods.Probit(), rng.choice([-1.0, 1.0], COUNT)
    method = jk.ReverseKL() if kind == "kl" else jk.ExpectationPropagation()
    mean = {"team": 0.7} if kind == "masked" else None
    mask = np.arange(COUNT) % 4 > 0 if kind == "masked" else None
    tol = 1e-9 if dtype is None else 0.05
    matches = data(outcome, row_length, dtype)
    return jk.infer(jk.Model(KERNEL, likelihood, mean=mean), matches, method, mask=mask, tol=tol)


def prior(name, time, other, another):
    if name != other:
        return 0.0
    if name == "home":
        return 0.2
    gap = np.sqrt(3.0) * abs(time - another) / 2.0
    return 0.3 + 0.8 * (1.0 + gap) * np.exp(-gap)


def dense(points, precision, rows=ROWS, times=TIMES, prior=prior):
    """The posterior covariance of scores under Gaussian factors on the matches."""
    entries = [(name, times[n], n, x) for n, row in enumerate(rows) for name, x in row.items()]
    every = [*points, *((name, time) for name, time, _, _ in entries)]
    covariance = np.array([[prior(*one, *two) for two in every] for one in every])
    design = np.zeros((len(rows), len(every)))
    for place, (_, _, row, x) in enumerate(entries, start=len(points)):
        design[row, place] = x
    precision = np.diag(precision) if np.ndim(precision) == 1 else precision
    cross = design @ covariance
    reduction = np.linalg.solve(np.eye(len(rows)) + precision @ cross @ design.T, precision @ cross)
    return (covariance - cross.T @ reduction)[: len(points), : len(points)]


def cavities(posterior):
    """Mean and variance of every match's score, without its own sites and with them."""
    index, mean, variance = posterior.data.index, [], []
    for without in (1.0, 0.0):
        total = np.zeros((2, COUNT))
        for name in index.names:
            entries = index.entries(name)
            place = index.groups.index(index.group_of(name))
            here = entries.positions - index.bases[place]
            m, v = (np.ravel(part)[here] for part in posterior.entries[place])
            nu, tau = (without * np.ravel(part)[here] for part in posterior.sites[place])
            if posterior.model.mean is not None and name != "home":
                nu = nu + tau * 0.7
            x = np.array([ROWS[n][name] for n in entries.observations])
            cavity = 1.0 / (1.0 / v - tau)
            np.add.at(total[0], entries.observations, x * cavity * (m / v - nu))
            np.add.at(total[1], entries.observations, x * x * cavity)
        mean.append(total[0])
        variance.append(total[1])
    return mean, variance


def factors(kind, posterior):
    """The precision of every match's factor, from the fit's marginals."""
    outcome = posterior.data.observations.outcome
    mean, variance = cavities(posterior)
    if kind == "gaussian":
        return np.full(COUNT, 2.0)
    if kind == "kl":
        nodes, weights = np.polynomial.hermite_e.hermegauss(80)
        score = mean[1][:, None] + np.sqrt(variance[1])[:, None] * nodes
        z = outcome[:, None] * score
        ratio = np.exp(norm.logpdf(z) - norm.logcdf(z))
        return (ratio * (z + ratio)) @ weights / weights.sum()
    z = outcome * mean[0] / np.sqrt(1.0 + variance[0])
    ratio = np.exp(norm.logpdf(z) - norm.logcdf(z))
    second = -ratio * (z + ratio) / (1.0 + variance[0])
    counts = np.arange(COUNT) % 4 > 0 if kind == "masked" else np.ones(COUNT)
    return counts * -second / (1.0 + second * variance[0])


def query(posterior, points, sides=None):
    names, times = zip(*points, strict=True)
    features = {"features": (list(names) if sides is None else sides, 1.0)}
    return make_query(posterior, list(times), features, {}, True)


def close(found, expected, tolerance=1e-8):
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance)


@pytest.mark.parametrize(
    ("kind", "row_length"),
    [("gaussian", None), ("probit", 7), ("masked", None), ("kl", None)],
)
def test_covariances_are_those_of_a_dense_process(kind, row_length):
    posterior = fit(kind, row_length)
    precision = factors(kind, posterior)
    exact = dense(POINTS, precision)
    close(covariance_of(posterior, query(posterior, POINTS), 1e-9), exact)
    # Few components of states give many scores after the last match.
    found = covariance_of(posterior, query(posterior, FUTURE), 1e-9)
    close(found, dense(FUTURE, precision))


def test_combinations_and_draws():
    posterior = fit("gaussian")
    points = [("t0", 2.0), ("t1", 2.0), ("home", 2.0), ("t2", 7.0), ("t0", 7.0)]
    design = np.array([[1, -1, 0.5, 0, 0], [0, 0, 0, 2, -1]])
    sides = [{"t0": 1.0, "t1": -1.0, "home": 0.5}, {"t2": 2.0, "t0": -1.0}]
    asked = query(posterior, [(None, 2.0), (None, 7.0)], sides)
    exact = design @ dense(points, np.full(COUNT, 2.0)) @ design.T
    close(covariance_of(posterior, asked, 1e-9), exact)
    close(posterior.covariance(sides, [2.0, 7.0]), exact, 1e-5)
    draws = np.asarray(draw_scores(posterior, asked, jax.random.key(0), 40_000))
    close(draws.mean(axis=0), posterior.linear_combination(sides, [2.0, 7.0]).mean, 0.03)
    close(np.cov(draws.T), exact, 0.03)


def test_paths_are_coherent():
    posterior = fit("gaussian")
    paths = posterior.sample_paths(["t0", "t1"], [1.0, 4.0, 7.0], 40_000, jax.random.key(1))
    assert paths.shape == (40_000, 2, 3)
    points = [(name, time) for name in ("t0", "t1") for time in (1.0, 4.0, 7.0)]
    close(np.cov(paths.reshape(40_000, 6).T), dense(points, np.full(COUNT, 2.0)), 0.03)


def test_differences_and_changes():
    posterior = fit("gaussian")
    points = [("t0", 3.0), ("t1", 3.0), ("t0", 5.0)]
    exact = dense(points, np.full(COUNT, 2.0))
    found = posterior.compare("t0", "t1", 3.0)
    deviation = np.sqrt(exact[0, 0] + exact[1, 1] - 2 * exact[0, 1])
    close(found.deviation, deviation, 1e-5)
    close(found.probability, norm.cdf(found.mean / deviation), 1e-5)
    alone = posterior.compare("t0", "t1", 3.0, joint=False)
    assert abs(alone.deviation - deviation) > 1e-3
    assert alone.mean == found.mean
    changed = posterior.change("t0", 3.0, 5.0)
    close(changed.deviation, np.sqrt(exact[0, 0] + exact[2, 2] - 2 * exact[0, 2]), 1e-5)
    means = posterior.linear_combination("t0", [3.0, 5.0]).mean
    close(changed.mean, means[1] - means[0])
    rated = posterior.change("t0", 3.0, 5.0, scale="elo", interval=0.5)
    factor = jk.Scale().factor(posterior.model.likelihood)
    close(rated.mean, factor * changed.mean, 1e-5)
    close(rated.upper - rated.lower, 2 * norm.ppf(0.75) * factor * changed.deviation, 1e-5)
    several = posterior.change(["t0", "t1"], 3.0, 5.0)
    close(several.deviation[0], changed.deviation, 1e-6)


def test_forecasts():
    """The variance of a match between two who hardly met is wrong without the joint posterior."""
    rng = np.random.default_rng(5)
    table = {
        "t": np.sort(rng.uniform(0, 4, 30)),
        "one": [["a", "b"], ["c", "d"]] * 15,
        "two": rng.permuted(np.tile(["c", "e", "f"], 10)),
        "gap": rng.normal(size=30),
    }
    table["two"][1::2] = rng.permuted(["a", "e", "f"] * 5)
    table["one"] = [side if other not in side else ["e", "f"] for side, other in zip(
        table["one"], table["two"], strict=True)]  # fmt: skip
    read = {"time": "t", "first": "one", "second": "two", "outcome": "gap"}
    games = jk.Dataset.from_frame(table, **read)
    posterior = jk.infer(
        jk.Model(kernels.Constant(1.5), likelihoods.Gaussian(0.5)), games, tol=1e-8
    )
    design = np.zeros((30, len(games.names)))
    for row, (one, two) in enumerate(zip(table["one"], table["two"], strict=True)):
        for name in one:
            design[row, games.names.index(name)] += 1.0
        design[row, games.names.index(two)] -= 1.0
    exact = np.linalg.inv(np.eye(design.shape[1]) / 1.5 + design.T @ design / 0.5)
    fixtures = {"t": [5.0, 5.0], "one": ["a", ["a", "c"]], "two": ["b", ["b", "d"]]}
    signs = [{"a": 1, "b": -1}, {"a": 1, "b": -1, "c": 1, "d": -1}]
    for place, sign in enumerate(signs):
        x = np.array([float(sign.get(name, 0)) for name in games.names])
        found, alone = (
            posterior.forecast(fixtures, joint=how)["score_deviation"][place]
            for how in (True, False)
        )
        close(found**2, x @ exact @ x, 2e-5)
        assert abs(alone / found - 1.0) > 0.2


def test_curves():
    """At all times if there are few of them, otherwise with an interpolated ratio."""
    posterior = fit("gaussian")
    few, many = np.linspace(0.5, 7.0, 7), np.linspace(0.5, 7.0, 60)
    exact = [
        np.diag(dense([("t0", t) for t in times], np.full(COUNT, 2.0))) for times in (few, many)
    ]
    close(posterior.scores("t0", few).variance, exact[0], 1e-5)
    np.testing.assert_allclose(posterior.scores("t0", many).variance, exact[1], rtol=0.03)
    alone = posterior.scores("t0", many, joint=False).variance
    assert np.max(np.abs(alone / exact[1] - 1.0)) > 0.05
    table = posterior.to_frame(["t0", "t1"], few)
    close(np.asarray(table["deviation"])[:7] ** 2, exact[0], 1e-5)
    own = posterior.scores("t0")
    points = [("t0", time) for time in own.times]
    exact = np.diag(dense(points, np.full(COUNT, 2.0)))
    np.testing.assert_allclose(own.variance, exact, rtol=0.03)


def test_ranks():
    posterior = fit("gaussian")
    names = [f"t{k}" for k in range(5)]
    board = posterior.leaderboard(7.0, names=names)
    order = list(board["name"])
    exact = dense([(name, 7.0) for name in order], np.full(COUNT, 2.0))
    close(np.asarray(board["deviation"]), np.sqrt(np.diag(exact)), 1e-5)
    draws = np.random.default_rng(0).multivariate_normal(board["rating"], exact, 200_000)
    best = np.bincount(draws.argmax(axis=1), minlength=5) / len(draws)
    close(np.asarray(board["best"]), best, 0.02)


def exact_of(rows, variance):
    return np.linalg.inv(np.eye(rows.shape[1]) / variance + rows.T @ rows)


@pytest.mark.parametrize("case", ["wide", "together", "confounded"])
def test_where_independence_fails(case):
    """A wide prior of forty competitors; two players who always play together; a shared effect.

    The last one is always that of one competitor: too badly conditioned for float32.
    """
    if case == "wide":
        skills, variance = np.eye(40), 9.0
        rows = [skills[i] - skills[j] for i, j in itertools.combinations(range(40), 2)] * 7
    elif case == "confounded":
        skills, variance = np.eye(42), 1000.0
        rows = [skills[0] - skills[j] + skills[41] for j in range(1, 41)] * 6
    else:
        skills, variance = np.eye(12), 1.5
        rows = [skills[0] + skills[1] - skills[j] for j in range(2, 12)] * 12
    rows = np.array(rows)
    sides = [{j: row[j] for j in np.flatnonzero(row).tolist()} for row in rows]
    games = jk.Dataset.from_mappings(np.zeros(len(rows)), sides, 0.0)
    posterior = jk.infer(jk.Model(kernels.Constant(variance), likelihoods.Gaussian(1.0)), games)
    exact = exact_of(rows, variance)
    np.testing.assert_allclose(
        posterior.covariance(list(range(len(skills))), 0.0), exact, atol=1e-3 * exact.max()
    )
    alone = posterior.scores(0, joint=False).variance[0]
    assert exact[0, 0] > 50 * alone


def test_rankings():
    """Two sides are a pairwise comparison; more are coupled within their event."""
    rng = np.random.default_rng(2)
    model = jk.Model(kernels.Matern32(0.8, 2.0), likelihoods.Ranking())
    first, second = [f"t{k}" for k in FIRST], [f"t{k}" for k in SECOND]
    table = {
        "event": np.repeat(np.arange(COUNT), 2),
        "time": np.repeat(TIMES, 2),
        "name": np.ravel([first, second], order="F"),
        "rank": np.tile([1, 2], COUNT),
    }
    columns = {"event": "event", "time": "time", "competitor": "name", "rank": "rank"}
    ranked = jk.infer(model, jk.Dataset.from_rankings(table, **columns), tol=1e-8)
    pairs = jk.Dataset.from_pairs(TIMES, first, second, np.ones(COUNT))
    paired = jk.infer(jk.Model(model.kernel, likelihoods.Probit()), pairs, tol=1e-8)
    points = [(f"t{k}", time) for k in range(3) for time in (2.0, 6.5)]
    expected = covariance_of(paired, query(paired, points), 1e-9)
    close(covariance_of(ranked, query(ranked, points), 1e-9), expected, 1e-6)

    names = np.array([f"t{k}" for k in rng.permuted(np.tile(np.arange(5), (20, 1)), axis=1)[:, 0]])
    order = rng.permuted(np.tile(np.arange(5), (20, 1)), axis=1)[:, :3]
    names = np.array([f"t{k}" for k in order.ravel()])
    times = np.repeat(np.linspace(0.0, 5.0, 20), 3)
    table = {"event": np.repeat(np.arange(20), 3), "time": times, "name": names}
    table["rank"] = np.tile([1, 2, 3], 20)
    races = jk.infer(model, jk.Dataset.from_rankings(table, **columns), tol=1e-8)
    single = np.asarray(races.factors.linear.curvature)[:60].reshape(20, 3)
    precision = np.zeros((60, 60))
    for event, own in enumerate(single):
        here = slice(3 * event, 3 * event + 3)
        precision[here, here] = np.diag(own) - np.outer(own, own) / own.sum()
    rows = [{name: 1.0} for name in names]

    def only_matern(*pair):
        return prior(*pair) - 0.3 * (pair[0] == pair[2])

    exact = dense(points, precision, rows, times, only_matern)
    close(covariance_of(races, query(races, points), 1e-9), exact)

    # The influence of an event on a rating, from the Gaussian factors of the others.
    explained = races.explain("t0", 6.5)
    factor = races.factors.linear
    score = precision @ np.asarray(factor.score)[:60]
    strength = np.asarray(factor.pull)[:60] + score
    event = int(np.argmax(np.abs(explained.influence)))
    here = slice(3 * event, 3 * event + 3)
    rest = precision.copy()
    rest[here, here] = 0.0
    every = [("t0", 6.5), *zip(names, times, strict=True)]
    without = dense(every, rest, rows, times, only_matern)[0, 1:]
    without = np.delete(without, np.r_[here]) @ np.delete(strength, np.r_[here])
    close(explained.influence[event], explained.rating - without, 1e-5)

    # Places of an event: two competitors, a team of two, and an unknown one.
    sides, members = ["t0", "t1", {"t2": 0.5, "t3": 0.5}, "new"], ["t0", "t1", "t2", "t3", "new"]
    design = np.array([[1, 0, 0, 0, 0], [0, 1, 0, 0, 0], [0, 0, 0.5, 0.5, 0], [0, 0, 0, 0, 1]])
    exact = dense([(name, 2.0) for name in members], precision, rows, times, only_matern)
    exact = design @ exact @ design.T
    found, alone = (
        races.predict_ranking(sides, 2.0, joint=how, allow_unknown=True) for how in (True, False)
    )
    close(found.covariance, exact, 1e-5)
    close(found.variance, np.diag(exact), 1e-5)
    assert alone.covariance is None
    draws = rng.multivariate_normal(found.mean, exact + 0.5 * np.eye(4), 400_000)
    ranks = np.argsort(np.argsort(-draws, axis=1), axis=1)
    truth = np.stack([np.bincount(column, minlength=4) for column in ranks.T]) / len(draws)
    close(found.probabilities, truth, 0.006)
    gap = found.mean[0] - found.mean[1]
    apart = exact[0, 0] + exact[1, 1] - 2 * exact[0, 1]
    ahead = found.p_ahead("t0", "t1")
    close(ahead, norm.cdf(gap / np.sqrt(1.0 + apart)), 1e-5)
    close(ahead, races.predict("t0", "t1", 2.0, joint=True).p_win, 1e-6)
    entries = {"event": [7, 7, 8, 7, 8], "time": [2.0] * 5, "name": ["t0", "t1", "t0", "t2", "t1"]}
    forecast = races.forecast(entries, joint=True)
    for event, names in ((7, ["t0", "t1", "t2"]), (8, ["t0", "t1"])):
        here = np.array(entries["event"]) == event
        wanted = races.predict_ranking(names, 2.0, joint=True)
        close(np.asarray(forecast["p_win"])[here], wanted.p_win, 1e-6)
        close(np.asarray(forecast["score_deviation"])[here] ** 2, wanted.variance, 1e-6)


@pytest.mark.parametrize(("count", "error"), [(2, 3e-3), (3, 1e-2), (6, 1.5e-2)])
def test_places_of_correlated_scores(count, error):
    """Against draws; what all scores share does not matter."""
    rng = np.random.default_rng(count)
    # Sides 0 and 1 have much in common, such as a car.
    factor = rng.normal(size=(count, 3 * count))
    factor[1] = 0.8 * factor[0] + 0.6 * factor[1]
    covariance, mean = factor @ factor.T / len(factor.T) + 3.0, rng.normal(size=count)
    names = tuple(map(str, range(count)))
    parts = (jnp.asarray(mean), jnp.diagonal(jnp.asarray(covariance)), likelihoods.Ranking(), names)
    found = jk.RankPrediction(*parts, covariance=jnp.asarray(covariance)).probabilities
    draws = rng.multivariate_normal(mean, covariance + 0.5 * np.eye(count), 400_000)
    ranks = np.argsort(np.argsort(-draws, axis=1), axis=1)
    truth = np.stack([np.bincount(rank, minlength=count) for rank in ranks.T]) / len(draws)
    close(found, truth, error)
    alone = jk.RankPrediction(*parts).probabilities
    assert np.abs(alone - truth).max() > 4 * error


def test_single_precision():
    posterior = fit("gaussian", None, "float32")
    found = covariance_of(posterior, query(posterior, POINTS))
    close(found, dense(POINTS, np.full(COUNT, 2.0)), 2e-4)


def test_several_devices():
    alone = fit("probit", 7)
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:3]), ("rows",))
    shared = alone.data.shard(mesh)
    posterior = jk.infer(alone.model, shared, tol=1e-9)
    close(
        covariance_of(posterior, query(posterior, POINTS), 1e-9),
        covariance_of(alone, query(alone, POINTS), 1e-9),
    )


def test_large_problems_warn(monkeypatch):
    posterior = fit("gaussian")
    monkeypatch.setattr(joint, "_AFFORDABLE", 0)
    with pytest.warns(UserWarning, match="joint=True") as caught:
        found = posterior.compare("t0", "t1", 3.0)
    assert caught[0].filename == __file__
    assert found.deviation == posterior.compare("t0", "t1", 3.0, joint=False).deviation
    assert found.deviation != posterior.compare("t0", "t1", 3.0, joint=True).deviation
