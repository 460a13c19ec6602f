"""Events of several scores: rankings, mixed with matches of two sides."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import cumulative_simpson
from scipy.stats import norm

import jaxkick as jk
from jaxkick.data import events as events_module

KERNEL = jk.kernels.Constant(0.5) + jk.kernels.Matern12(0.7, 2.0)
RANKING = jk.likelihoods.Ranking()


def races(count=14, sides=3, drivers=5, seed=0, first=0):
    """A table of races, one row for each driver."""
    rng = np.random.default_rng(seed)
    skill = rng.normal(size=drivers)
    table = {"time": [], "race": [], "driver": [], "rank": []}
    for race in range(count):
        who = rng.permutation(drivers)[:sides]
        order = np.argsort(-(skill[who] + np.sqrt(0.5) * rng.normal(size=sides)))
        table["time"] += [0.3 * (first + race)] * sides
        table["race"] += [first + race] * sides
        table["driver"] += [f"d{k}" for k in who[order]]
        table["rank"] += range(1, sides + 1)
    return {name: np.array(column) for name, column in table.items()}


def read(table, **options):
    return jk.Dataset.from_rankings(
        table, time="time", event="race", competitor="driver", rank="rank", **options
    )


@functools.cache
def fitted():
    data = read(races())
    return data, jk.infer(jk.Model(KERNEL, RANKING), data, tol=1e-8)


def moments_of_order(mean, variance):
    """log Z and derivatives for sides in the order of their places, on a fine grid."""
    deviation = np.sqrt(variance + 0.5)
    u = np.linspace((mean - 12 * deviation).min(), (mean + 12 * deviation).max(), 6001)
    density = norm.pdf(u, mean[:, None], deviation[:, None])
    below, above = [np.ones_like(u)], [np.ones_like(u)]
    for k in range(len(mean) - 1, 0, -1):
        below.insert(0, cumulative_simpson(density[k] * below[0], x=u, initial=0.0))
    for k in range(len(mean) - 1):
        flipped = cumulative_simpson((density[k] * above[-1])[::-1], x=-u[::-1], initial=0.0)
        above.append(flipped[::-1])
    tilted = density * np.array(below) * np.array(above)
    total = np.trapezoid(tilted, u, axis=1)
    centre = np.trapezoid(tilted * u, u, axis=1) / total
    spread = np.trapezoid(tilted * (u - centre[:, None]) ** 2, u, axis=1) / total
    scale = deviation**2
    return np.log(total[0]), (centre - mean) / scale, (spread - scale) / scale**2


@pytest.mark.optimized
def test_against_dense_ep():
    """The fixed point, by plain sweeps over a dense Gaussian and integrals of its own."""
    data, posterior = fitted()
    seen = data.observations
    times, who = seen.times, seen.features[:, 0]
    same = who[:, None] == who[None]
    gaps = np.abs(times[:, None] - times[None])
    prior = np.where(same, 0.5 + 0.7 * np.exp(-gaps / 2.0), 0.0)
    events = [np.flatnonzero(seen.events == each) for each in np.unique(seen.events)]
    events = [rows[np.argsort(seen.outcome[rows])] for rows in events]
    nu, tau = np.zeros(len(times)), np.zeros(len(times))
    for _ in range(100):
        joint = np.linalg.inv(np.eye(len(times)) + prior * tau) @ prior
        mean, variance = joint @ nu, np.diag(joint)
        cavity_variance = 1.0 / (1.0 / variance - tau)
        cavity_mean = cavity_variance * (mean / variance - nu)
        log_z, first, second = 0.0, np.zeros_like(nu), np.zeros_like(nu)
        for rows in events:
            value, first[rows], second[rows] = moments_of_order(
                cavity_mean[rows], cavity_variance[rows]
            )
            log_z += value
        shrink = 1.0 + second * cavity_variance
        nu, tau = (first - cavity_mean * second) / shrink, -second / shrink
    np.testing.assert_allclose(posterior.observations.mean, mean, atol=2e-5)
    np.testing.assert_allclose(posterior.observations.variance, variance, rtol=2e-5)
    normaliser = 0.5 * nu @ mean - 0.5 * np.linalg.slogdet(np.eye(len(nu)) + prior * tau)[1]
    k = 1.0 + tau * cavity_variance
    sites = 0.5 * (
        (2 * nu * cavity_mean + nu**2 * cavity_variance - tau * cavity_mean**2) / k - np.log(k)
    )
    evidence = log_z + normaliser - sites.sum()
    np.testing.assert_allclose(posterior.log_marginal_likelihood, evidence, atol=2e-4)


def test_two_sides_are_probit():
    table = races(count=30, sides=2)
    pairs = {name: column.reshape(-1, 2) for name, column in table.items()}
    duels = jk.Dataset.from_pairs(
        pairs["time"][:, 0], pairs["driver"][:, 0].tolist(), pairs["driver"][:, 1].tolist()
    )

    def evidence(variance, data, likelihood):
        kernel = jk.kernels.Constant(0.5) + jk.kernels.Matern12(variance, 2.0)
        return jk.log_marginal_likelihood(jk.Model(kernel, likelihood), data, tol=1e-9)

    one = jax.value_and_grad(evidence)(jnp.asarray(0.7), read(table), RANKING)
    two = jax.value_and_grad(evidence)(jnp.asarray(0.7), duels, jk.likelihoods.Probit())
    np.testing.assert_allclose(one, two, rtol=1e-9)


def test_gradients_against_differences():
    """Of the evidence, and of the posterior through the fixed point."""
    data = read(races(count=8))

    def model(numbers):
        return jk.Model(jk.kernels.Matern12(numbers[0], numbers[1]), RANKING)

    def fit(numbers):
        posterior = jk.infer(model(numbers), data, tol=1e-10)
        return jnp.append(posterior.observations.mean[:3], posterior.log_marginal_likelihood)

    numbers, along, step = jnp.array([0.7, 2.0]), jnp.array([1.0, -0.7]), 1e-4
    # One program for values and derivatives.
    both = jax.jit(lambda numbers: jax.jvp(fit, (numbers,), (along,)))
    _, found = both(numbers)
    moved = both(numbers + step * along)[0] - both(numbers - step * along)[0]
    np.testing.assert_allclose(found, moved / (2 * step), rtol=2e-4, atol=2e-6)

    def evidence(numbers):
        return jk.log_marginal_likelihood(model(numbers), data, tol=1e-10)

    slope = jax.jit(jax.grad(evidence))(numbers)
    np.testing.assert_allclose(slope @ along, found[-1], rtol=1e-6)


def test_a_mask_leaves_whole_events_out():
    data, _ = fitted()
    # Enough events to fit the rest with the same program.
    mask = np.repeat(np.arange(14) % 5 > 0, 3)
    model = jk.Model(KERNEL, RANKING)
    masked = jk.infer(model, data, mask=mask, tol=1e-8)
    alone = jk.infer(model, data.subset(mask), tol=1e-8)
    np.testing.assert_allclose(
        masked.log_marginal_likelihood, alone.log_marginal_likelihood, rtol=1e-8
    )
    np.testing.assert_allclose(masked.observations.mean[mask], alone.observations.mean, atol=1e-6)
    # One side of an event less is the event less.
    mask = mask.copy()
    mask[3] = False
    without = mask.copy()
    without[3:6] = False
    part, whole = (jk.infer(model, data, mask=each, tol=1e-8) for each in (mask, without))
    np.testing.assert_allclose(
        part.log_marginal_likelihood, whole.log_marginal_likelihood, rtol=1e-9
    )


def test_update_is_a_joint_fit():
    data, _ = fitted()
    model, more = jk.Model(KERNEL, RANKING), races(count=2, seed=1, first=14)
    updated = jk.infer(model, data).update(more, tol=1e-8)
    whole = {name: np.concatenate([column, more[name]]) for name, column in races().items()}
    together = jk.infer(model, read(whole), tol=1e-8)
    assert len(updated.data) == 48
    np.testing.assert_allclose(
        updated.log_marginal_likelihood, together.log_marginal_likelihood, rtol=1e-8
    )
    with pytest.raises(jk.DataError, match="already has"):
        updated.update(more)


def test_blocks_of_different_sizes(monkeypatch):
    tables = [races(count=6, sides=sides, seed=sides, first=10 * sides) for sides in (2, 3, 5)]
    table = {name: np.concatenate([part[name] for part in tables]) for name in tables[0]}
    model = jk.Model(KERNEL, RANKING)
    together = read(table)
    assert [block.members.shape[1] for block in together.events.blocks] == [5]
    monkeypatch.setattr(events_module, "_BLOCK_COST", 0)
    apart = read(table)
    assert [block.members.shape[1] for block in apart.events.blocks] == [2, 3, 5]
    one, other = (jk.infer(model, data, tol=1e-8) for data in (together, apart))
    np.testing.assert_allclose(
        one.log_marginal_likelihood, other.log_marginal_likelihood, atol=1e-5
    )
    np.testing.assert_allclose(one.observations.mean, other.observations.mean, atol=1e-5)


def test_order_of_rows_does_not_matter():
    data, posterior = fitted()
    shuffled = np.random.default_rng(3).permutation(len(data))
    table = {name: column[shuffled] for name, column in races().items()}
    other = jk.infer(jk.Model(KERNEL, RANKING), read(table), tol=1e-8)
    np.testing.assert_allclose(
        other.log_marginal_likelihood, posterior.log_marginal_likelihood, rtol=1e-9
    )
    np.testing.assert_allclose(
        other.observations.mean, np.asarray(posterior.observations.mean)[shuffled], atol=1e-7
    )


def test_duels_and_races_in_one_model():
    duel = races(count=5, sides=2, seed=4)
    pairs = {name: column.reshape(-1, 2) for name, column in duel.items()}
    duels = jk.Dataset.from_pairs(
        pairs["time"][:, 0], pairs["driver"][:, 0].tolist(), pairs["driver"][:, 1].tolist()
    )
    data = jk.concat({"duels": duels, "races": read(races())})
    suggested = jk.suggest_model(data)
    assert suggested.likelihood == {"duels": jk.likelihoods.Probit(), "races": RANKING}
    assert suggested.kernel == jk.suggest_model(data.of_kind("races")).kernel
    with pytest.raises(jk.DataError, match="mapping from the kinds"):
        jk.suggest_model(data, jk.likelihoods.Probit)
    kinds = {"duels": jk.likelihoods.Probit(), "races": RANKING}
    both = jk.infer(jk.Model(KERNEL, kinds), data, tol=1e-8)
    alike = jk.concat([read({**duel, "race": duel["race"] + 100}), read(races())])
    one = jk.infer(jk.Model(KERNEL, RANKING), alike, tol=1e-8)
    np.testing.assert_allclose(both.log_marginal_likelihood, one.log_marginal_likelihood, atol=1e-5)
    np.testing.assert_allclose(both.scores("d1").mean[0], one.scores("d1").mean[0], atol=1e-5)
    np.testing.assert_allclose(
        both.predict("d0", "d1", 1.0).p_win, one.predict("d0", "d1", 1.0).p_win, atol=1e-5
    )
    assert "duels: " in both.describe()
    with pytest.raises(jk.DataError, match="kind 'duels'"):
        jk.infer(jk.Model(KERNEL, {"races": RANKING}), data)


def test_float32():
    _, exact = fitted()
    posterior = jk.infer(jk.Model(KERNEL, RANKING), read(races(), dtype=np.float32))
    assert posterior.converged
    off = np.abs(np.asarray(posterior.observations.mean) - np.asarray(exact.observations.mean))
    assert np.max(off / np.sqrt(np.asarray(exact.observations.variance))) < 0.05


def test_devices():
    data, exact = fitted()
    mesh = jax.make_mesh((3,), ("rows",))
    posterior = jk.infer(jk.Model(KERNEL, RANKING), data.shard(mesh), tol=1e-8)
    np.testing.assert_allclose(
        posterior.log_marginal_likelihood, exact.log_marginal_likelihood, rtol=1e-9
    )


def test_save_and_load(tmp_path):
    data, posterior = fitted()
    jk.save(tmp_path / "races.jk", posterior)
    loaded = jk.load(tmp_path / "races.jk")
    np.testing.assert_array_equal(loaded.observations.mean, posterior.observations.mean)
    assert loaded.data.index == data.index
    again = jk.infer(loaded.model, loaded.data, start=loaded)
    assert again.steps <= 3


def test_sides_of_an_event_meet():
    _, posterior = fitted()
    assert "comparability" not in [each.kind for each in posterior.check()]


def test_refusals():
    data, _ = fitted()
    table = races(count=4)
    table["rank"][:3] = [1, 1, 3]
    with pytest.raises(jk.DataError, match="margin"):
        jk.infer(jk.Model(KERNEL, RANKING), read(table))
    with pytest.raises(jk.DataError, match="ExpectationPropagation"):
        jk.infer(jk.Model(KERNEL, RANKING), data, jk.ReverseKL())
    with pytest.raises(jk.DataError, match="Use `likelihoods"):
        jk.infer(jk.Model(KERNEL, jk.likelihoods.Gaussian(1.0)), data)
    goals = {"t": [0.0] * 2, "a": ["x"] * 2, "b": ["y"] * 2, "x": [3, 2], "y": [1, 0]}
    counts = jk.Dataset.from_frame(goals, time="t", first="a", second="b", counts=("x", "y"))
    with pytest.raises(jk.DataError, match="likelihood of places"):
        jk.infer(jk.Model(KERNEL, RANKING), counts)
    pairs = jk.Dataset.from_pairs([0.0], ["a"], ["b"])
    mixed = jk.concat({"duels": pairs, "races": data})
    with pytest.raises(jk.DataError, match="only one side"):
        jk.infer(jk.Model(KERNEL, RANKING), mixed)
    with pytest.raises(jk.DataError, match="no kinds"):
        jk.infer(jk.Model(KERNEL, {"a": RANKING, "b": RANKING}), pairs)
    with pytest.raises(jk.DataError, match="from_rankings"):
        jk.infer(jk.Model(KERNEL, RANKING), pairs)
    both = jk.likelihoods.DixonColes(0.1)
    uneven = eqx.tree_at(
        lambda x: x.weight, counts, jnp.array([1.0, 2.0, 1.0, 1.0]), is_leaf=lambda x: x is None
    )
    with pytest.raises(jk.DataError, match=r"Row 0: `weight` is \[1, 2\] within one event"):
        jk.infer(jk.Model(KERNEL, both), uneven)
    # Counts may be apart, but not for a likelihood of both.
    with pytest.raises(jk.DataError, match=r"Row 1: the outcomes \[2\] are not valid for Dixon"):
        jk.infer(jk.Model(KERNEL, both), counts.subset([0, 1, 2]))
    many = {name: column * 10 for name, column in goals.items()} | {"t": list(range(20))}
    counts = jk.Dataset.from_frame(many, time="t", first="a", second="b", counts=("x", "y"))
    # The padding of events is not counted.
    with pytest.raises(jk.DataError, match=r"Row 0: .* not below zero\. Complete the event"):
        jk.infer(jk.Model(KERNEL, both), counts.subset(slice(1, None)))
    with pytest.raises(
        jk.DataError, match="The data has rankings, but Elo predicts matches of two"
    ):
        jk.evaluation.walk_forward(jk.evaluation.Elo(), data, start=3.0, every=np.floor)
    posterior = jk.infer(jk.Model(KERNEL, RANKING), data)
    with pytest.raises(jk.DataError, match=r"`competitors` is 'd1', but must be a list"):
        posterior.predict_ranking("d1", 3.0)
    with pytest.raises(jk.DataError, match=r"only matches of two sides .* `jaxkick predict"):
        posterior.simulate({"time": [5.0]})
    with pytest.raises(jk.DataError, match="Only matches of one score can be predicted"):
        jk.learn(jk.Model(KERNEL, RANKING), data, objective="predictive")
