"""Rankings against closed forms, other likelihoods, Monte Carlo and finer grids."""

import itertools
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxkick._xla import call_compiled
from jaxkick.errors import DataError
from jaxkick.likelihoods import Logit, OrdinalLogit, OrdinalProbit, Probit, Ranking, ranking

MEAN, VARIANCE = jnp.array([0.3, -0.5, 0.2]), jnp.array([1.0, 0.3, 2.0])
NOISES = ("normal", "gumbel")


def weak_orders(sides, ties):
    """Places of all orders."""
    ranks = {
        tuple(sorted(set(p)).index(a) + 1 for a in p)
        for p in itertools.product(range(sides), repeat=sides)
    }
    return np.array(sorted(r for r in ranks if ties or len(set(r)) == sides), float)


@partial(jax.jit, static_argnums=0)
def evaluate(noise, margin, outcome, mean, variance):
    return Ranking(margin, noise).log_partition(outcome, mean, variance)


def random_events(seed, events, sides, widest):
    rng = np.random.default_rng(seed)
    total = np.exp(rng.uniform(np.log(0.6), np.log(widest), (events, sides)))
    place = 1.0 + np.argsort(rng.normal(size=(events, sides)), axis=-1)
    return place, rng.normal(size=(events, sides)), total - 0.5


def error_in_deviations(found, truth, variance):
    """The largest error of tilted means and variances of performances."""
    total = variance + 0.5
    deviation = np.sqrt(total + total**2 * truth.second)
    mean = np.abs(found.first - truth.first) * total / deviation
    return max(np.max(mean), np.max(np.abs(found.second - truth.second) * total**2 / deviation**2))


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("margin", [None, 0.4])
def test_orders_of_three_sides(noise, margin):
    orders = weak_orders(3, ties=margin is not None)
    assert len(orders) == (6 if margin is None else 13)
    run = partial(evaluate, noise, margin, orders)
    found = run(MEAN, VARIANCE)
    assert abs(np.exp(found.value).sum() - 1) < 1e-6

    # Derivatives against differences, and translation of all scores.
    for i, step in enumerate(1e-4 * np.eye(3)):
        up, down = run(MEAN + step, VARIANCE), run(MEAN - step, VARIANCE)
        np.testing.assert_allclose((up.value - down.value) / 2e-4, found.first[:, i], atol=3e-6)
        slope = (up.first[:, i] - down.first[:, i]) / 2e-4
        np.testing.assert_allclose(slope, found.second[:, i], atol=3e-6)
    moved = run(MEAN + 7.0, VARIANCE)
    for a, b in zip(found, moved, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-10)

    # A side that is unplaced is below the others, in any order.
    first_alone = (orders[:, 0] == 1) & (np.sum(orders == 1, axis=1) == 1)
    partly = evaluate(noise, margin, np.tile([1.0, 0.0, 0.0], (len(orders), 1)), MEAN, VARIANCE)
    assert abs(np.exp(partly.value[0]) - np.exp(found.value)[first_alone].sum()) < 1e-6

    # Permuting sides permutes derivatives.
    turned = evaluate(noise, margin, np.roll(orders, 1, 1), np.roll(MEAN, 1), np.roll(VARIANCE, 1))
    np.testing.assert_allclose(turned.value, found.value, atol=1e-12)
    np.testing.assert_allclose(turned.second, np.roll(found.second, 1, 1), atol=1e-11)

    # Draws.
    key, other = jax.random.split(jax.random.key(0))
    score = MEAN + jnp.sqrt(VARIANCE) * jax.random.normal(key, (100_000, 3))
    draws = np.asarray(Ranking(margin, noise).sample(other, score))
    above = np.sign(draws[:, :, None] - draws[:, None])
    for order, value in zip(orders, found.value, strict=True):
        share = np.mean(np.all(above == np.sign(order[:, None] - order), axis=(1, 2)))
        assert abs(share - np.exp(value)) < 0.006


@pytest.mark.parametrize("noise", NOISES)
def test_gradients(noise):
    orders = weak_orders(3, ties=True)

    def total(margin, mean, variance):
        return jnp.sum(evaluate(noise, margin, orders, mean, variance).value)

    point = jnp.asarray(0.4), MEAN, VARIANCE
    slopes = jax.jit(jax.grad(total, argnums=(0, 1, 2)))(*point)
    for k, slope in enumerate(slopes):
        for i in range(slope.size):
            step = np.zeros(slope.shape)
            step.flat[i] = 1e-4
            moved = [
                [p + sign * step if j == k else p for j, p in enumerate(point)] for sign in (1, -1)
            ]
            difference = (total(*moved[0]) - total(*moved[1])) / 2e-4
            np.testing.assert_allclose(slope.flatten()[i], difference, atol=2e-5)

    # Forward mode over the derivatives, as implicit gradients need it.
    def first(margin):
        return evaluate(noise, margin, orders, MEAN, VARIANCE).first

    _, change = jax.jvp(first, (point[0],), (jnp.ones(()),))
    difference = (first(0.4 + 1e-4) - first(0.4 - 1e-4)) / 2e-4
    np.testing.assert_allclose(change, difference, atol=1e-5)


@pytest.mark.parametrize(
    ("noise", "margin", "duel"),
    [
        ("normal", None, Probit()),
        ("normal", 0.3, OrdinalProbit(0.3)),
        ("gumbel", None, Logit()),
        ("gumbel", 0.3, OrdinalLogit(0.3)),
    ],
)
def test_two_sides(noise, margin, duel):
    outcome = np.array([[1.0, 2.0], [3.0, 2.0], [5.0, 0.0], [2.0, 2.0]])[
        : 3 if margin is None else 4
    ]
    result = np.array([1.0, -1.0, 1.0, 0.0])[: len(outcome)]
    mean, variance = np.array([0.4, -0.9]), np.array([0.7, 2.0])
    found = evaluate(noise, margin, outcome, mean, variance)
    truth = call_compiled(duel.log_partition, result, jnp.asarray(1.3), jnp.asarray(2.7))
    np.testing.assert_allclose(found.value, truth.value, atol=1e-12)
    np.testing.assert_allclose(found.first, np.stack([truth.first, -truth.first], -1), atol=1e-12)
    np.testing.assert_allclose(found.second, np.stack([truth.second] * 2, -1), atol=1e-12)

    # A third side that is absent takes the grid, and does not matter.
    padded = np.pad(outcome, ((0, 0), (0, 1)), constant_values=-1.0)
    grid = evaluate(noise, margin, padded, np.append(mean, 1e3), np.append(variance, 1e3))
    np.testing.assert_allclose(grid.value, truth.value, atol=3e-6)
    np.testing.assert_allclose(grid.first[:, :2], found.first, atol=3e-6)
    np.testing.assert_allclose(grid.second[:, :2], found.second, atol=3e-6)
    assert not np.any(grid.first[:, 2])
    assert not np.any(grid.second[:, 2])


def test_plackett_luce():
    outcome = jnp.array([1.0, 3.0, 2.0, 0.0, -1.0])
    score = jnp.array([0.3, -0.2, 0.5, 0.1, 9.0])
    strength = np.exp(score)
    truth = sum(
        np.log(strength[i] / strength[rest].sum())
        for i, rest in [(0, [0, 1, 2, 3]), (2, [1, 2, 3]), (1, [1, 3])]
    )
    likelihood = Ranking(noise="gumbel")
    value, slopes = jax.jit(jax.value_and_grad(likelihood.log_prob, argnums=1))(outcome, score)
    assert abs(value - truth) < 1e-12
    assert np.all(np.isfinite(slopes))
    assert slopes[-1] == 0
    grid = evaluate("gumbel", None, outcome, score, 0 * score)
    assert abs(grid.value - truth) < 1e-5
    np.testing.assert_allclose(grid.first, slopes, atol=1e-5)


def test_accuracy_and_order_of_convergence(monkeypatch):
    bounds = {4.0: 1e-5, 18.0: 2e-5}
    events = {widest: random_events(1, 100, 8, widest) for widest in bounds}
    default = ranking._BLOCKS

    def run(refinement):
        monkeypatch.setattr(ranking, "_BLOCKS", refinement * default)
        evaluate = jax.jit(lambda *x: Ranking().log_partition(*x))
        return {widest: evaluate(*each) for widest, each in events.items()}

    found = run(1)
    monkeypatch.setattr("jaxkick._math.order._REACH", 8.0)
    coarse, fine, truth = run(1), run(2), run(6)
    for widest, bound in bounds.items():
        errors = [
            error_in_deviations(each[widest], truth[widest], events[widest][2])
            for each in (found, coarse, fine)
        ]
        assert errors[0] < bound
        assert errors[1] > 30 * errors[2]  # twice the points: up to 1/64 of the error


@pytest.mark.parametrize(("dtype", "margin"), [(jnp.float32, 0.4), (jnp.float64, None)])
def test_surprising_rankings_are_finite(dtype, margin):
    mean = jnp.asarray(
        [[0.0, 40.0, 80.0, 120.0], [0.0, 12.0, 0.0, 12.0], [-40.0, 0.0, 40.0, 0.0]], dtype
    )
    outcome = jnp.asarray(
        [[1.0, 2.0, 3.0, 4.0], [1.0, 2.0, 0.0, 0.0], [1.0, 0.0, 2.0, -1.0]], dtype
    )
    variance = jnp.asarray([0.3, 1.0, 2.0, 0.5], dtype)

    def run(mean, variance):
        return Ranking(margin).log_partition(outcome, mean, variance)

    @jax.jit
    def everything(*point):
        found, changes = jax.jvp(run, point, jax.tree.map(jnp.ones_like, point))
        slopes = jax.grad(lambda *x: jnp.sum(run(*x).value), argnums=(0, 1))(*point)
        return found, changes, slopes

    found, changes, slopes = everything(mean, variance)
    for leaf in jax.tree.leaves((found, changes, slopes)):
        assert leaf.dtype == dtype
        assert np.all(np.isfinite(leaf))
    assert np.all(found.second <= 0)
    assert np.all(found.second >= -1 / (variance + 0.5) - 1e-5)
    # The most probable performances in the wrong order are all equal, but for margins.
    total = variance + 0.5
    centre = mean[0] + (margin or 0.0) * jnp.arange(4, dtype=dtype)
    level = jnp.sum(centre / total) / jnp.sum(1 / total)
    np.testing.assert_allclose(found.first[0], (level - centre) / total, rtol=1e-3)


def test_single_precision_agrees():
    events = random_events(2, 20, 5, 4.0)
    double = evaluate("normal", None, *events)
    single = evaluate("normal", None, *(jnp.asarray(x, jnp.float32) for x in events))
    np.testing.assert_allclose(single.value, double.value, rtol=1e-5)
    np.testing.assert_allclose(single.first, double.first, atol=2e-4)


def test_hundred_sides():
    rng = np.random.default_rng(3)
    mean, variance = rng.normal(size=100), np.full(100, 0.7)
    place = 1.0 + np.argsort(np.argsort(-mean - rng.normal(size=100)))
    place[place > 60] = 0
    found = jax.jit(lambda *x: Ranking().log_partition(*x))(place, mean, variance)
    assert abs(np.sum(found.first)) < 1e-3
    assert np.all(found.second < 0)
    assert np.all(found.second > -1 / 1.2)
    ranks = Ranking().rank_probabilities(mean, variance)
    np.testing.assert_allclose(np.sum(ranks, 0), 1.0, atol=1e-6)


def test_many_unplaced_favourites():
    mean = np.random.default_rng(0).normal(size=60)
    mean[:3] -= 9.0
    place = np.array([1.0, 2.0, 3.0] + 57 * [0.0])
    found = jax.jit(lambda *x: Ranking().log_partition(*x))(place, mean, np.full(60, 0.2))
    assert -300 < found.value < -200
    assert abs(np.sum(found.first)) < 1e-3
    assert np.all(found.first[3:] < 0)


@pytest.mark.parametrize("noise", NOISES)
def test_rank_probabilities(noise):
    likelihood = Ranking(noise=noise)
    orders = weak_orders(3, ties=False)
    probability = np.exp(evaluate(noise, None, orders, MEAN, VARIANCE).value)
    truth = np.array([[probability[orders[:, i] == r].sum() for r in (1, 2, 3)] for i in range(3)])
    ranks = call_compiled(likelihood.rank_probabilities, MEAN, VARIANCE)
    np.testing.assert_allclose(ranks, truth, atol=2e-6)
    np.testing.assert_allclose(np.sum(ranks, 0), 1.0, atol=1e-6)
    np.testing.assert_allclose(np.sum(ranks, 1), 1.0, atol=1e-12)

    pairs = call_compiled(likelihood.pairwise_probabilities, MEAN, VARIANCE)
    ahead = [[probability[orders[:, i] < orders[:, j]].sum() for j in range(3)] for i in range(3)]
    np.testing.assert_allclose(pairs, np.array(ahead) + 0.5 * np.eye(3), atol=2e-6)
    present = np.array([True, False, True])
    two = call_compiled(likelihood.rank_probabilities, MEAN, VARIANCE, present)
    np.testing.assert_allclose(two[0], [pairs[0, 2], pairs[2, 0], 0.0], atol=1e-6)
    assert not np.any(two[1])


def test_events_that_say_nothing():
    outcome = np.array([[0.0, 0.0, 0.0], [-1.0, 1.0, -1.0], [-1.0, -1.0, -1.0]])
    found = evaluate("normal", 0.4, outcome, MEAN, VARIANCE)
    for leaf in found:
        np.testing.assert_allclose(leaf, 0.0, atol=1e-6)


def test_outcomes_and_words():
    likelihood = Ranking()
    bad = likelihood.check(np.array([1.0, 3.0, 0.0, -1.0, 1.5, -2.0, np.nan, np.inf]))
    assert bad.tolist() == [False] * 4 + [True] * 4
    events = np.array([[1.0, 2.0, 2.0], [1.0, 0.0, 0.0], [1.0, -1.0, -1.0]])
    assert likelihood.check_events(events).tolist() == [True, False, False]
    assert not np.any(Ranking(0.4).check_events(events))
    assert evaluate("normal", None, events[0], MEAN, VARIANCE).value == -jnp.inf
    assert Ranking.from_outcomes(events).margin is not None
    assert Ranking.from_outcomes(events[1:]).margin is None
    assert "84 %" in likelihood.describe()
    assert "31 %" in Ranking(0.4).describe()
    assert "73 %" in Ranking(noise="gumbel").describe()
    assert "ties need a `margin`" in likelihood.domain
    assert "equal for ties" in Ranking(0.4).domain
    assert likelihood.levels == ()
    assert likelihood.is_relative
    assert Ranking(1e-5).warnings()[0][0] == "margin"


def test_refusals():
    outcome = np.array([1.0, 2.0, 3.0])
    with pytest.raises(DataError, match="takes no weights"):
        Ranking().log_partition(outcome, MEAN, VARIANCE, 1.0)
    with pytest.raises(DataError, match="ExpectationPropagation"):
        Ranking().expectation(outcome, MEAN, VARIANCE)
    with pytest.raises(ValueError, match="gumbel"):
        Ranking(noise="logistic")
