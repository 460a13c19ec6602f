"""`Stream` against dense Gaussian processes and constant states with fixed sites."""

import itertools

import numpy as np
import pytest
from scipy import stats

import jaxkick as jk
from jaxkick.data import Dataset
from tests.inference.test_events import moments_of_order, races
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

    def see(self, time, nu, tau):
        self.times.append(time)
        self.sites.append((nu, tau))


def site_of(mean, variance, first, second):
    scale = 1 + variance * second
    return (first - mean * second) / scale, -second / scale


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
                feature.see(t, *site_of(m, v, x * first, second))
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
    late = r"^Row 0: `time` .column 'time'. is before the last match of '.', at [0-9.]+ \(2 rows"
    with pytest.raises(ValueError, match=late):
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


class Aspects:
    """A feature with constant aspects, by its precision and precision times mean."""

    def __init__(self, variances):
        self.precision, self.potential = (
            np.diag(1.0 / np.array(variances)),
            np.zeros(len(variances)),
        )

    def at(self, h):
        P = np.linalg.inv(self.precision)
        return h @ P @ self.potential, h @ P @ h

    def see(self, h, nu, tau):
        self.precision, self.potential = (
            self.precision + tau * np.outer(h, h),
            self.potential + nu * h,
        )


def filter_events(features, events, evaluate):
    """Pass over events, whose scores are lists of features, coefficients and their times."""
    total = 0.0
    for scores, outcome in events:
        cavities = [[features[n].at(at) for n, _, at in score] for score in scores]
        pairs = list(zip(scores, cavities, strict=True))
        mean = np.array([sum(x * m for (_, x, _), (m, _) in zip(*p, strict=True)) for p in pairs])
        variance = [sum(x * x * v for (_, x, _), (_, v) in zip(*p, strict=True)) for p in pairs]
        value, first, second = evaluate(outcome, mean, np.array(variance))
        total += value
        for score, own, slope, bend in zip(scores, cavities, first, second, strict=True):
            for (name, x, at), (m, v) in zip(score, own, strict=True):
                features[name].see(at, *site_of(m, v, x * slope, x * x * bend))
    return total


# Cars are features of several sides; "z" and its car are new in the second table.
CARS = {"a": "Volt", "b": "Volt", "c": "Apex", "d": "Apex", "e": "Apex", "z": "Zoom"}


def race_table(count, seed, names, begin):
    rng = np.random.default_rng(seed)
    table = {"time": [], "race": [], "driver": [], "car": [], "grid": [], "rank": []}
    for race in range(count):
        who = rng.permutation(list(names))[: rng.integers(2, 5)].tolist()
        table["time"] += [begin + 0.4 * race] * len(who)
        table["race"] += [race] * len(who)
        table["driver"] += who
        table["car"] += [CARS[name] for name in who]
        table["grid"] += rng.normal(size=len(who)).tolist()
        table["rank"] += (1 + rng.permutation(len(who))).tolist()
    return table


def read_races(table):
    features = {"car": "car", "grid": "grid"}
    return Dataset.from_rankings(
        table, time="time", event="race", competitor="driver", rank="rank", features=features
    )


RANKING = jk.likelihoods.Ranking()
RACES = jk.Model({"skill": KERNEL, "car": jk.kernels.Wiener(0.3, origin_variance=0.1)}, RANKING)


def test_a_stream_of_races_equals_dense_processes_with_fixed_sites(tmp_path):
    one, two = race_table(8, 3, "abcde", 0.0), race_table(4, 4, "acez", 5.0)
    stream = jk.Stream.start(RACES, read_races(one))
    jk.save(tmp_path / "races.jk", stream)
    stream = jk.load(tmp_path / "races.jk").observe(two)
    features = {name: Dense(team) for name in "abcdez"} | {"grid": Dense(team)}
    features |= {jk.Feature(car, "car"): Dense(home) for car in set(CARS.values())}
    events = []
    for table in (one, two):
        rows = sorted(zip(*table.values(), strict=True), key=lambda row: (row[0], row[-1]))
        for t, sides in itertools.groupby(rows, key=lambda row: row[0]):
            parts = [
                [(driver, 1, t), (jk.Feature(car, "car"), 1, t), ("grid", x, t)]
                for _, _, driver, car, x, _ in sides
            ]
            events.append((parts, None))
    total = filter_events(features, events, lambda _, *moments: moments_of_order(*moments))
    assert stream.log_evidence == pytest.approx(total, abs=1e-4)
    assert stream.num_observations == len(one["time"]) + len(two["time"])
    for name, feature in features.items():
        np.testing.assert_allclose(stream.linear_combination(name, 9.5), feature.at(9.5), atol=2e-5)
    entries = {"time": [9.5] * 3, "race": [0] * 3, "driver": ["a", "c", "z"]}
    entries |= {"car": ["Volt", "Zoom", "Zoom"], "grid": [0.2, -0.1, 0.0]}
    forecast = stream.forecast(entries)
    cars = {"car": ["Volt", "Zoom", "Zoom"], "grid": [0.2, -0.1, 0.0]}
    prediction = stream.predict_ranking(["a", "c", "z"], 9.5, cars)
    np.testing.assert_allclose(forecast["p_win"], prediction.p_win)
    np.testing.assert_allclose(prediction.probabilities.sum(axis=0), 1.0, atol=1e-6)


def test_a_stream_of_two_sides_is_that_of_matches():
    table = races(count=20, sides=2, drivers=4)
    pairs = {name: column.reshape(-1, 2) for name, column in table.items()}
    duels = Dataset.from_pairs(
        pairs["time"][:, 0], pairs["driver"][:, 0].tolist(), pairs["driver"][:, 1].tolist()
    )
    places = Dataset.from_rankings(
        table, time="time", event="race", competitor="driver", rank="rank"
    )
    one = jk.Stream.start(jk.Model(KERNEL, RANKING), places)
    two = jk.Stream.start(jk.Model(KERNEL, jk.likelihoods.Probit()), duels)
    assert one.log_evidence == pytest.approx(two.log_evidence, abs=1e-10)
    for name in duels.names:
        ours, theirs = (each.linear_combination(name, 9.5) for each in (one, two))
        np.testing.assert_allclose(ours, theirs, atol=1e-10)


def test_a_stream_of_one_race_is_inference():
    data = Dataset.from_rankings(
        races(count=1, sides=5), time="time", event="race", competitor="driver", rank="rank"
    )
    model = jk.Model(KERNEL, RANKING)
    stream, posterior = jk.Stream.start(model, data), jk.infer(model, data, tol=1e-10)
    assert stream.log_evidence == pytest.approx(float(posterior.log_marginal_likelihood))
    for name in data.names:
        ours, theirs = (each.linear_combination(name, 1.5) for each in (stream, posterior))
        np.testing.assert_allclose(ours, theirs, atol=1e-8)


def log_goals(outcome, mean, variance, shared=0.2):
    """log Z and derivatives of two Poisson counts with a shared part, by a product rule."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    f, g = (m + np.sqrt(v) * nodes for m, v in zip(mean, variance, strict=True))
    p = sum(
        stats.poisson.pmf(k, shared)
        * stats.poisson.pmf(outcome[0] - k, np.exp(f))[:, None]
        * stats.poisson.pmf(outcome[1] - k, np.exp(g))
        for k in range(int(min(outcome)) + 1)
    )
    p = p * weights[:, None] * weights
    shares = [p.sum(axis=1) / p.sum(), p.sum(axis=0) / p.sum()]
    first = [share @ nodes for share in shares]
    second = [share @ nodes**2 - 1 - m**2 for share, m in zip(shares, first, strict=True)]
    deviation = np.sqrt(variance)
    return np.log(p.sum() / (2 * np.pi)), first / deviation, second / variance


def test_a_stream_of_goals_of_both_sides():
    """Attack and defence of a team, home advantage and level are in both scores of a match."""
    rng = np.random.default_rng(5)
    sides = [rng.permutation(list("abcd"))[:2].tolist() for _ in range(14)]
    first, second = map(list, zip(*sides, strict=True))
    goals = rng.poisson(1.4, (2, 14))
    table = {
        "time": np.arange(14.0),
        "first": first,
        "second": second,
        "x": goals[0],
        "y": goals[1],
    }
    columns = {"time": "time", "first": "first", "second": "second", "counts": ("x", "y")}
    kernel = jk.kernels.Aspects(attack=jk.kernels.Constant(0.3), defence=jk.kernels.Constant(0.2))
    constants = {"home": jk.kernels.Constant(0.1), "level": jk.kernels.Constant(0.4)}
    model = jk.Model({"skill": kernel} | constants, jk.likelihoods.BivariatePoisson(0.2))
    stream = jk.Stream.start(model, Dataset.from_frame(table, **columns, home=True))
    features = {name: Aspects([0.3, 0.2]) for name in "abcd"}
    features |= {"home": Aspects([0.1]), "level": Aspects([0.4])}
    attack, defence, one = np.array([1.0, 0.0]), np.array([0.0, 1.0]), np.ones(1)
    events = [
        (
            [
                [(a, 1, attack), (b, -1, defence), ("home", 1, one), ("level", 1, one)],
                [(b, 1, attack), (a, -1, defence), ("home", -1, one), ("level", 1, one)],
            ],
            (x, y),
        )
        for _, a, b, x, y in zip(*table.values(), strict=True)
    ]
    total = filter_events(features, events, log_goals)
    assert stream.log_evidence == pytest.approx(total, abs=1e-5)
    for name, own in itertools.product("abcd", ("attack", "defence")):
        ours = stream.linear_combination(name, 20.0, aspects={own: 1})
        theirs = features[name].at(attack if own == "attack" else defence)
        np.testing.assert_allclose(ours, theirs, atol=1e-5)
    np.testing.assert_allclose(
        stream.linear_combination("level", 20.0), features["level"].at(one), atol=1e-5
    )
    match = stream.predict("a", "b", 20.0, home=1)
    assert float(match.p_win + match.p_tie + match.p_loss) == pytest.approx(1.0)


def test_streams_refuse_impossible_events():
    table = race_table(8, 3, "abcde", 0.0)
    stream = jk.Stream.start(RACES, read_races(table))
    more = {
        "time": [9.0, 9.0, 9.5, 9.5],
        "race": ["x", "x", "y", "y"],
        "driver": list("abcd"),
        "car": ["Volt"] * 4,
        "grid": [0.0] * 4,
        "rank": [1, 2, 1, 1],
    }
    with pytest.raises(
        jk.DataError, match=r"Row 2: the outcomes \[1, 1\] are not valid for Ranking"
    ):
        stream.observe(more)
    with pytest.raises(jk.DataError, match="Row 2: the event 'y' has only one side"):
        stream.observe({name: [*column[:2], column[3]] for name, column in more.items()})
    late = more | {"time": [9.0, 9.0, 0.1, 0.1], "rank": [1, 2, 1, 2]}
    with pytest.raises(jk.DataError, match=r"Row 2: `time` .* before the last match of 'c', at"):
        stream.observe(late)
    duels = Dataset.from_pairs([0.0], ["a"], ["b"])
    alone = jk.Model(RACES.kernel, {"races": RANKING})
    stream = jk.Stream.start(alone, jk.concat({"races": read_races(table)}))
    assert stream.observe(more | {"rank": [1, 2, 1, 2]}).num_observations == len(table["time"]) + 4
    kinds = {"duels": jk.likelihoods.Probit(), "races": RANKING}
    both = jk.concat({"duels": duels, "races": read_races(table)})
    with pytest.raises(jk.DataError, match="A stream processes observations of one kind"):
        jk.Stream.start(jk.Model(RACES.kernel, kinds), both)
