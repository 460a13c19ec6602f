"""`Stream` against dense Gaussian processes with fixed sites."""

import numpy as np
import pytest
from scipy import stats

import jaxkick as jk
from jaxkick.data import Dataset
from tests.posterior.league import COLUMNS, Watched, matches

KERNEL = jk.kernels.Constant(0.4) + jk.kernels.Matern32(1.0, 2.0)
MODEL = jk.Model(
    {"skill": KERNEL, "home": jk.kernels.Wiener(0.3, origin_variance=0.1)},
    jk.likelihoods.Probit(),
    mean={"home": 0.2},
)


def table(count, seed, names="abcd", begin=0.0):
    return matches(count, seed, names, begin, outcomes=(-1.0, 1.0))


def dataset(table):
    return Dataset.from_frame(table, **COLUMNS, home=True)


def team(times, first):
    x = np.sqrt(3) * np.abs(np.subtract.outer(times, times)) / 2.0
    return 0.4 + (1 + x) * np.exp(-x)


def home(times, first):
    return 0.3 * (np.minimum.outer(times, times) - first) + 0.1


class Dense:
    """A feature with its times, its sites and its dense Gaussian process."""

    def __init__(self, kernel):
        self.kernel, self.times, self.sites = kernel, [], []

    def at(self, time):
        K = self.kernel(np.array([*self.times, time]), self.times[0] if self.times else time)
        if not self.times:
            return 0.0, K[0, 0]
        nu, tau = np.array(self.sites).T
        gain = K[-1, :-1] @ np.linalg.inv(K[:-1, :-1] + np.diag(1 / tau))
        return gain @ (nu / tau), K[-1, -1] - gain @ K[:-1, -1]


def dense_pass(*tables):
    features, total = {"home": Dense(home)}, 0.0
    for each in tables:
        for t, a, b, y in zip(*each.values(), strict=True):
            parts = [(features.setdefault(n, Dense(team)), x) for n, x in ((a, 1), (b, -1))]
            parts.append((features["home"], 1))
            moments = [feature.at(t) for feature, _ in parts]
            mean = 0.2 + sum(x * m for (_, x), (m, _) in zip(parts, moments, strict=True))
            variance = sum(v for _, v in moments)
            z = y * mean / np.sqrt(1 + variance)
            total += stats.norm.logcdf(z)
            ratio = np.exp(stats.norm.logpdf(z) - stats.norm.logcdf(z))
            first = y * ratio / np.sqrt(1 + variance)
            second = -ratio * (z + ratio) / (1 + variance)
            for (feature, x), (m, v) in zip(parts, moments, strict=True):
                scale = 1 + v * second
                feature.times.append(t)
                feature.sites.append(((x * first - m * second) / scale, -second / scale))
    return features, total


def test_a_stream_equals_dense_processes_with_fixed_sites():
    one, two = table(12, 0), table(5, 1, "abxy", begin=4.0)
    stream = jk.Stream.start(MODEL, dataset(one)).observe(two)
    features, total = dense_pass(one, two)
    assert stream.log_evidence == pytest.approx(total, abs=1e-9)
    assert stream.num_observations == 17
    for name in "abcdxy":
        ours = stream.linear_combination(name, 9.5)
        np.testing.assert_allclose(ours, features[name].at(9.5), atol=1e-9)
    mean, variance = features["home"].at(9.5)
    np.testing.assert_allclose(
        stream.linear_combination("home", 9.5), (mean + 0.2, variance), atol=1e-9
    )
    board = stream.leaderboard(9.5)
    assert sorted(board["name"]) == list("abcdxy")
    games = [*one["first"], *one["second"], *two["first"], *two["second"]]
    assert dict(zip(board["name"], board["matches"], strict=True))["a"] == games.count("a")
    forecast = stream.forecast(
        {"time": [9.5], "first": ["a"], "second": ["new"]}, allow_unknown=True
    )
    prediction = stream.predict("a", "new", 9.5, home=1, allow_unknown=True)
    with pytest.raises(jk.DataError, match="'new' in `second` is not in the data"):
        stream.predict("a", "new", 9.5)
    prior = 1.4 + features["a"].at(9.5)[1] + variance
    assert float(prediction.variance) == pytest.approx(prior, abs=1e-9)
    assert forecast["p_win"][0] == pytest.approx(float(prediction.probabilities[1]))


def test_single_matches_cause_no_recompilation_and_states_do_not_grow():
    model = jk.Model(jk.kernels.Matern12(1.0, 2.0), Watched())
    stream = jk.Stream.start(model, dataset(table(8, 2)))
    sizes, traces, before = [], [], len(Watched.traces)
    for step in range(6):
        stream = stream.observe(table(1, step, begin=4.0 * (step + 1)))
        sizes.append([state.m.shape for state in stream.states])
        traces.append(len(Watched.traces))
    # Only the first match compiles.
    assert traces[0] > before
    assert len(set(traces)) == 1
    assert all(size == sizes[0] for size in sizes)


def test_refusals():
    stream = jk.Stream.start(MODEL, dataset(table(8, 2)))
    with pytest.raises(
        ValueError, match=r"Row 0: `time` is before the last match of a .* \(2 rows"
    ):
        stream.observe(table(2, 3, begin=-9.0))
    with pytest.raises(ValueError, match="`time` is before the last match of"):
        stream.predict("a", "b", -1.0)
    with pytest.raises(ValueError, match=r"^Row 1: outcome 0 is not valid for Probit"):
        stream.observe(table(2, 3, begin=9.0) | {"outcome": [1.0, 0.0]})
    with pytest.raises(TypeError, match="`model` must be a `Model`, not Dataset"):
        jk.Stream.start(dataset(table(8, 2)), MODEL)
    means = jk.Model(KERNEL, jk.likelihoods.Probit(), mean=np.zeros(5))
    with pytest.raises(ValueError, match="but a stream meets new features"):
        jk.Stream.start(means, dataset(table(8, 2)))
