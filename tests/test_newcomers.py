"""Newcomers against dense Gaussian processes, and everywhere that a model is used."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxkick as jk

NAMES = np.array(list("abcdef"))
LEVEL, MOVING, LENGTH, NOISE = 0.5, 1.0, 1.5, 0.4
KERNEL = jk.kernels.Constant(LEVEL) + jk.kernels.Matern12(MOVING, LENGTH)
SINCE, MEANS, RATIOS, FADE = (1.0, 2.0), (-0.8, 0.3), (2.5, 0.4), 1.2
NEWCOMERS = jk.Newcomers(SINCE, MEANS, RATIOS, FADE)
MODEL = jk.Model(KERNEL, jk.likelihoods.Gaussian(NOISE), newcomers=NEWCOMERS)


def table(count=30, seed=0):
    """Four competitors from the start, "e" from time 1.0 exactly on, and "f" from 2.3 on."""
    rng = np.random.default_rng(seed)
    times = np.sort(rng.uniform(0.0, 3.0, count))
    times[np.searchsorted(times, 1.0)] = 1.0
    there = np.where(times < 1.0, 4, np.where(times < 2.3, 5, 6))
    sides = np.array([rng.choice(n, 2, replace=False) for n in there])
    sides[np.searchsorted(times, [1.0, 2.3]), 0] = [4, 5]
    sides[np.searchsorted(times, [1.0, 2.3]), 1] = [0, 1]
    first, second = NAMES[sides].T
    return {"time": times, "first": first, "second": second, "outcome": rng.normal(size=count)}


COLUMNS = {"time": "time", "first": "first", "second": "second", "outcome": "outcome"}


def read(columns, **options):
    return jk.Dataset.from_frame(columns, **COLUMNS, **options)


@pytest.fixture(scope="module")
def data():
    return read(table())


@pytest.fixture(scope="module")
def posterior(data):
    return jk.infer(MODEL, data, tol=1e-9)


def score(stream, name, time):
    return [float(part) for part in stream.linear_combination(name, time)]


def cohort(born):
    return int(np.sum(np.asarray(SINCE) <= born)) - 1


def prior_mean(t, born):
    place = cohort(born)
    return 0.0 if place < 0 else MEANS[place] * np.exp(-max(t - born, 0.0) / FADE)


def prior_covariance(t, u, born):
    """The formula: the kernel's, and the excess of the first state, which decays."""
    ratio = 1.0 if cohort(born) < 0 else RATIOS[cohort(born)]
    plain = LEVEL + MOVING * np.exp(-abs(t - u) / LENGTH)
    if max(t, u) <= born:
        return ratio * plain
    decay = np.exp(-(abs(t - born) + abs(u - born)) / LENGTH)
    return plain + (ratio - 1.0) * (LEVEL + MOVING * decay)


class Dense:
    """The joint Gaussian of all scores at all times, by plain linear algebra."""

    def __init__(self, columns):
        self.born = {}
        self.points, rows = [], []
        for t, first, second in zip(*(columns[k] for k in COLUMNS if k != "outcome"), strict=True):
            for name in (first, second):
                self.born.setdefault(name, t)
            rows.append([len(self.points), len(self.points) + 1])
            self.points += [(first, t), (second, t)]
        self.X = np.zeros((len(rows), len(self.points)))
        self.X[np.arange(len(rows)), np.array(rows)[:, 0]] = 1.0
        self.X[np.arange(len(rows)), np.array(rows)[:, 1]] = -1.0
        self.residual = columns["outcome"] - self.X @ self.mean(self.points)
        covariance = self.X @ self.covariance(self.points, self.points) @ self.X.T
        self.system = covariance + NOISE * np.eye(len(rows))

    def mean(self, points):
        return np.array([prior_mean(t, self.born.get(name, t)) for name, t in points])

    def covariance(self, first, second):
        return np.array(
            [
                [
                    prior_covariance(t, u, self.born.get(name, t)) if name == other else 0.0
                    for other, u in second
                ]
                for name, t in first
            ]
        )

    def scores(self, points):
        """Joint mean and variance of each score."""
        across = self.covariance(points, self.points) @ self.X.T
        mean = self.mean(points) + across @ np.linalg.solve(self.system, self.residual)
        reduction = np.einsum("ij,ji->i", across, np.linalg.solve(self.system, across.T))
        prior = np.array([self.covariance([point], [point])[0, 0] for point in points])
        return mean, prior - reduction


POINTS = [(name, t) for name in "aefg" for t in (0.2, 1.0, 1.7, 2.9, 5.0)]


def test_posterior_equals_a_dense_process(data, posterior):
    dense = Dense(table())
    mean, variance = dense.scores(POINTS)
    for place, (name, t) in enumerate(POINTS):
        found = posterior.scores(name, [t], allow_unknown=True, joint=True)
        np.testing.assert_allclose(found.mean, mean[place], atol=1e-6)
        np.testing.assert_allclose(found.variance, variance[place], rtol=1e-5)


def test_evidence_of_independent_competitors():
    """Each observation is one competitor's score, so that inference is exact."""
    columns = table(24, seed=3)
    data = jk.Dataset.from_arrays(
        columns["time"],
        np.searchsorted(NAMES, columns["first"])[:, None],
        np.ones((24, 1)),
        columns["outcome"],
    )
    found = jk.log_marginal_likelihood(MODEL, data, tol=1e-9)
    exact = 0.0
    for name in NAMES:
        here = columns["first"] == name
        if not here.any():
            continue
        times, y = columns["time"][here], columns["outcome"][here]
        y = y - np.array([prior_mean(t, times[0]) for t in times])
        K = np.array([[prior_covariance(t, u, times[0]) for u in times] for t in times])
        K += NOISE * np.eye(len(times))
        exact -= 0.5 * (y @ np.linalg.solve(K, y) + np.linalg.slogdet(2 * np.pi * K)[1])
    np.testing.assert_allclose(found, exact, rtol=1e-9)


def test_gradient_agrees_with_central_differences(data):
    def evidence(values):
        newcomers = jk.Newcomers(SINCE, values[:2], jnp.exp(values[2:4]), jnp.exp(values[4]))
        model = jk.Model(KERNEL, jk.likelihoods.Gaussian(NOISE), newcomers=newcomers)
        return jk.log_marginal_likelihood(model, data, tol=1e-10)

    evidence, step = jax.jit(evidence), 1e-4 * jnp.eye(5)
    values = jnp.array([*MEANS, *np.log(RATIOS), np.log(FADE)])
    differences = [(evidence(values + e) - evidence(values - e)) / 2e-4 for e in step]
    np.testing.assert_allclose(jax.grad(evidence)(values), differences, rtol=1e-5, atol=1e-7)


def test_update_stream_and_file(data, posterior, tmp_path):
    """A newcomer that arrives later has the same prior as one that was there from the start."""
    columns = table()
    early = {name: values[:20] for name, values in columns.items()}
    late = {name: values[20:] for name, values in columns.items()}
    updated = jk.infer(MODEL, read(early)).update(late, tol=1e-9)
    stream = jk.Stream.start(MODEL, read(early)).observe(late)
    whole = jk.Stream.start(MODEL, data)
    assert not {"f"} & set(read(early).names)
    for name in "afg":
        ours, again = (
            each.scores(name, [3.5], allow_unknown=True, joint=False)
            for each in (posterior, updated)
        )
        np.testing.assert_allclose(again.mean, ours.mean, atol=1e-6)
        np.testing.assert_allclose(again.variance, ours.variance, rtol=1e-6)
        one, two = (each.predict(name, "b", 3.5, allow_unknown=True) for each in (stream, whole))
        np.testing.assert_allclose(one.mean, two.mean, atol=1e-10)
        np.testing.assert_allclose(one.variance, two.variance, rtol=1e-10)
    unseen, known = stream.predict("g", "b", 3.5, allow_unknown=True), score(stream, "b", 3.5)
    np.testing.assert_allclose(unseen.mean, MEANS[1] - known[0])
    prior = RATIOS[1] * (LEVEL + MOVING)
    np.testing.assert_allclose(unseen.variance, prior + known[1])
    jk.save(tmp_path / "model.jk", MODEL)
    assert repr(jk.load(tmp_path / "model.jk")) == repr(MODEL)


def test_first_match_of_a_stream_equals_the_formula():
    """One match of a newcomer against an established competitor, by conditioning."""
    columns = {"time": [0.0, 1.5], "first": ["a", "e"], "second": ["b", "a"], "outcome": [0.0, 1.0]}
    columns = {name: np.array(values) for name, values in columns.items()}
    stream = jk.Stream.start(MODEL, read(columns))
    prior = prior_covariance(1.5, 1.5, 1.5)
    opponent = jk.Stream.start(MODEL, read({k: v[:1] for k, v in columns.items()}))
    mean, variance = score(opponent, "a", 1.5)
    gain = prior / (prior + variance + NOISE)
    expected = MEANS[0] + gain * (1.0 - MEANS[0] + mean), prior * (1.0 - gain)
    np.testing.assert_allclose(score(stream, "e", 1.5), expected)


def test_samples_and_explanations_agree_with_scores(data, posterior):
    times = [0.5, 1.4, 2.6, 3.5]
    for name in "ef":
        draws = np.asarray(posterior.sample(name, times, jax.random.key(1), shape=20_000))
        scores = posterior.scores(name, times, joint=False)
        error = np.sqrt(np.asarray(scores.variance) / 20_000)
        assert np.all(np.abs(draws.mean(axis=0) - scores.mean) < 5 * error)
        np.testing.assert_allclose(draws.var(axis=0), scores.variance, rtol=0.06)
    born = data.entries("f").times[0]
    change = prior_mean(3.0, born) - prior_mean(2.5, born)
    factor = posterior.explain("f", 3.0, scale=(0.0, 1.0)).rating / score(posterior, "f", 3.0)[0]
    for since, prior in ((None, factor * prior_mean(3.0, born)), (2.5, factor * change)):
        parts = posterior.explain("f", 3.0, since=since, scale=(0.0, 1.0))
        np.testing.assert_allclose(parts.rest, 0.0, atol=1e-6)
        np.testing.assert_allclose(parts.baseline, prior, atol=1e-12)


def test_walk_forward_uses_no_later_match(data):
    """Predictions equal those of a fit to the earlier matches alone."""
    columns = table()
    found = jk.evaluation.walk_forward(
        jk.evaluation.Refit(MODEL, tol=1e-8), data, 2.0, every=lambda t: np.floor(2 * t)
    )
    earlier = {name: values[columns["time"] < 2.0] for name, values in columns.items()}
    alone, born = jk.infer(MODEL, read(earlier), tol=1e-8), data.entries("f").times[0]
    # Without later matches of "f", whose prior has faded a little since its first.
    block = (found.blocks == found.blocks[0]) & (columns["time"][found.rows] <= born)
    rows = found.rows[block]
    assert "f" in columns["first"][rows]
    expected = [
        alone.predict(
            *(columns[side][row] for side in ("first", "second")),
            columns["time"][row],
            allow_unknown=True,
        ).mean
        for row in rows
    ]
    np.testing.assert_allclose(found.mean[block], expected, atol=1e-6)


def test_only_the_first_match_that_counts_makes_a_newcomer(data):
    """With early matches masked out, an established competitor becomes a newcomer."""
    columns = table()
    mask = columns["time"] >= 1.0
    alone = jk.infer(MODEL, read({k: v[mask] for k, v in columns.items()}), tol=1e-9)
    masked = jk.infer(MODEL, data, mask=mask, tol=1e-9)
    np.testing.assert_allclose(
        masked.log_marginal_likelihood, alone.log_marginal_likelihood, rtol=1e-8
    )


def test_float32_keeps_cohorts():
    """A first match at the very start of a cohort belongs to it at all of its entries."""
    starts = np.array([2010.3, 2011.7])
    times = np.linspace(1900.1, 2030.0, 400)
    times = np.sort(np.append(times, starts[0]))
    names = np.where(times < starts[0], "a", "e")
    data = jk.Dataset.from_arrays(
        times,
        (names == "e").astype(int)[:, None],
        np.ones((401, 1)),
        np.zeros(401),
        dtype="float32",
    )
    newcomers = jk.Newcomers(starts, [5.0, 7.0])
    model = jk.Model(KERNEL, jk.likelihoods.Gaussian(1e6), newcomers=newcomers)
    mean = np.asarray(jk.infer(model, data).observations.mean)
    np.testing.assert_allclose(mean, np.where(names == "e", 5.0, 0.0), atol=1e-2)


def test_learning_finds_weak_newcomers():
    rng = np.random.default_rng(5)
    first = np.repeat(np.arange(60), 12)
    born = np.where(np.arange(60) < 30, 0.0, 1.0 + np.arange(60) / 100)
    skill = np.where(born > 0, -1.0, 0.0) + np.where(born > 0, 0.3, 1.0) * rng.normal(size=60)
    times = born[first] + rng.uniform(0, 1, len(first)) * (np.arange(len(first)) % 12 > 0)
    outcome = skill[first] + 0.5 * rng.normal(size=len(first))
    data = jk.Dataset.from_arrays(times, first[:, None], np.ones((len(first), 1)), outcome)
    start = jk.Model(
        jk.kernels.Constant(1.0), jk.likelihoods.Gaussian(0.25), newcomers=jk.Newcomers(1.0)
    )
    model, history = jk.learn(start, data)
    # The maximum of a balanced one-way analysis of variance.
    averages = outcome.reshape(60, 12).mean(axis=1)
    noise = np.sum(outcome.reshape(60, 12).var(axis=1)) * 12 / (60 * 11)
    np.testing.assert_allclose(model.newcomers.mean, averages[30:].mean(), atol=0.01)
    variance = float(model.newcomers.variance_ratio) * float(model.kernel.variance)
    np.testing.assert_allclose(variance, averages[30:].var() - noise / 12, rtol=0.05)
    assert history.values[-1] > history.values[0] + 10


def test_description():
    text = MODEL.describe("year")
    assert "newcomers: since 1 mean -0.8, 2.5 times the variance; since 2 mean +0.3" in text
    assert "the mean fades within 1.2 years" in text


def test_errors():
    kernels, noise = {"skill": KERNEL}, jk.likelihoods.Probit()
    with pytest.raises(jk.DataError, match="`newcomers` must name groups of `kernel`, which has"):
        jk.Model(kernels, noise, newcomers=NEWCOMERS)
    with pytest.raises(jk.DataError, match="`newcomers` must name groups"):
        jk.Model(kernels, noise, newcomers={"team": NEWCOMERS})
    with pytest.raises(TypeError, match="must be `Newcomers`, not float"):
        jk.Model(KERNEL, noise, newcomers=1990.0)
    with pytest.raises(jk.DataError, match="`since` must increase"):
        jk.Newcomers([2.0, 1.0])
    with pytest.raises(jk.DataError, match="`since` must be a finite number"):
        jk.Newcomers([])
    with pytest.raises(jk.DataError, match=r"`mean` has the shape \(3,\), but must be a number or"):
        jk.Newcomers([1.0, 2.0], mean=[1.0, 2.0, 3.0])
    with pytest.raises(jk.DataError, match="`fade` must be a number"):
        jk.Newcomers(1.0, fade=[1.0, 2.0])


def duels(arrivals, days=100, **options):
    """One match a day of all pairs that are there; competitor n arrives at `arrivals[n]`."""
    rows = []
    for day in range(days):
        there = [n for n, arrival in enumerate(arrivals) if arrival <= day]
        order = np.roll(there, day)
        rows += [(day, f"p{a}", f"p{b}") for a, b in zip(order[::2], order[1::2], strict=False)]
    day, first, second = map(np.array, zip(*rows, strict=True))
    columns = {"time": day.astype(float), "first": first, "second": second}
    columns["outcome"] = np.where(np.arange(len(day)) % 3, 1.0, -1.0)
    return read(columns, **options)


def test_suggested_newcomers():
    """After a tenth of the 1,500 matches that count, and at least twenty of either kind."""
    many, few = duels([0] * 20 + [50] * 20), duels([0] * 20 + [50] * 19)
    model = jk.suggest_model(many)
    assert model.newcomers.since == (15.0,)
    assert float(model.newcomers.mean) == 0.0
    assert float(model.newcomers.variance_ratio) == 1.0
    np.testing.assert_allclose(float(model.newcomers.fade), 0.2 * (99.0 - 15.0))
    assert jk.suggest_model(few).newcomers is None
    assert jk.suggest_model(few, newcomers=True).newcomers.since == (14.0,)
    assert jk.suggest_model(few, newcomers=True).newcomers.fade is None
    assert jk.suggest_model(many, newcomers=False).newcomers is None
    assert jk.suggest_model(few, newcomers=[30.0, 60.0]).newcomers.since == (30.0, 60.0)
    early = many.index.times < 50
    assert jk.suggest_model(many, mask=early).newcomers is None
    with pytest.raises(jk.DataError, match="`newcomers` leaves no newcomer with a first match"):
        jk.suggest_model(many, newcomers=True, mask=early)
    with pytest.raises(jk.DataError, match="or none but newcomers"):
        jk.suggest_model(many, newcomers=-1.0)


def test_suggested_newcomers_are_competitors():
    """Not covariates, home advantages or pairs that appear late."""
    data = duels([0] * 20 + [50] * 20, home=True, pairs=True)
    assert set(jk.suggest_model(data).newcomers) == {"skill"}
    columns = table(60)
    columns["rest"] = 1.0 * (columns["time"] > 1.0)
    early = np.isin(columns["first"], list("abcd")) & np.isin(columns["second"], list("abcd"))
    columns = {name: values[early] for name, values in columns.items()}
    with pytest.raises(jk.DataError, match="leaves no newcomer"):
        jk.suggest_model(read(columns, covariates={"rest": "rest"}), newcomers=True)
