"""Processes that run for long: leagues of all sizes share programs, and programs are bounded."""

import jax
import numpy as np
import pytest

import jaxkick as jk
from jaxkick import _xla
from jaxkick.likelihoods import OrdinalProbit

MODEL = jk.Model(
    {"skill": jk.kernels.Matern32(0.3, 2.0), "home": jk.kernels.Constant(0.1)}, OrdinalProbit(0.4)
)


@pytest.fixture
def programs(caplog):
    """The names of all programs that are compiled during a test."""

    def names():
        messages = (record.getMessage() for record in caplog.records)
        return [text.split()[1] for text in messages if text.startswith("Compiling jit(")]

    with jax.log_compiles():
        yield names


def league(count, teams, seed, begin=0.0):
    generator = np.random.default_rng(seed)
    first = generator.integers(0, teams, count)
    return {
        "time": begin + np.sort(generator.uniform(0.0, 5.0, count)),
        "first": first,
        "second": (first + generator.integers(1, teams, count)) % teams,
        "outcome": generator.choice([-1, 0, 1], count),
    }


def serve(count, teams, seed, rounds):
    """Fit a league, predict, rank and update it; return its data."""
    columns = {name: name for name in ("time", "first", "second", "outcome")}
    data = jk.Dataset.from_frame(league(count, teams, seed), **columns, home=True)
    posterior = jk.infer(MODEL, data)
    coming = league(rounds, teams, seed + 100, begin=6.0)
    prediction = posterior.predict(coming["first"], coming["second"], coming["time"], home=1)
    assert prediction.p_win.shape == (rounds,)
    assert prediction.log_prob(coming["outcome"]).shape == (rounds,)
    assert len(prediction.to_frame()["p_tie"]) == rounds
    updated = posterior.update(coming)
    assert len(updated.scores(0).mean) >= len(posterior.scores(0).mean)
    assert len(updated.leaderboard(scale="elo")["name"]) == teams
    assert updated.check() is not None
    return data


def test_leagues_of_all_sizes_share_programs(programs):
    serve(34, 8, 0, rounds=3)
    compiled = len(programs())
    assert 0 < compiled < 60
    sizes = {len(serve(34 + 3 * k, 8 + k % 3, k, rounds=1 + k % 3).outcome) for k in range(1, 9)}
    assert sizes == {64}
    assert programs()[compiled:] == []


def test_updates_share_programs(programs):
    # New matches make no programs until there is no room for them.
    columns = {name: name for name in ("time", "first", "second", "outcome")}
    data = jk.Dataset.from_frame(league(40, 8, 1), **columns, home=True)
    posterior = jk.infer(MODEL, data).update(league(1, 8, 2, begin=5.0))
    compiled = len(programs())
    for step in range(12):
        posterior = posterior.update(league(1, 8, 3 + step, begin=6.0 + 5.0 * step))
    assert len(posterior.data) == 53
    assert programs()[compiled:] == []


def test_predictions_share_programs_between_sizes(programs):
    def predict(count):
        columns = {name: name for name in ("time", "first", "second", "outcome")}
        data = jk.Dataset.from_frame(league(count, 8, 1), **columns, home=True)
        posterior = jk.infer(MODEL, data)
        posterior.smoothed  # noqa: B018  # compiled for each size, as the fit is
        compiled = len(programs())
        posterior.forecast(league(5, 8, 2, begin=6.0))
        posterior.scores(3, [0.5, 2.5, 7.0], joint=False)
        return programs()[compiled:], len(data.outcome)

    jax.clear_caches()  # of other tests, which make the same predictions
    (first, small), (second, large) = predict(40), predict(300)
    assert first
    assert small < large
    assert second == []


def test_programs_are_dropped_before_memory_maps_run_out(monkeypatch, tmp_path):
    dropped = []
    monkeypatch.setattr(_xla.jax, "clear_caches", lambda: dropped.append(True))
    allowed = tmp_path / "max_map_count"
    monkeypatch.setattr(_xla, "_ALLOWED_MAPS", allowed)

    @_xla.jit_once
    def double(x):
        return x + x

    allowed.write_text("10000000")
    np.testing.assert_array_equal(double(np.ones(3)), 2.0)
    assert not dropped
    allowed.write_text("10")
    # No program is new.
    double(np.ones(3))
    assert not dropped
    double(np.ones(4))
    assert dropped == [True]


def test_programs_of_the_user_are_kept(monkeypatch):
    near_limit = iter([False, True, False, False])
    monkeypatch.setattr(_xla, "_is_near_limit", lambda: next(near_limit))
    traced = []

    @_xla.jit_once
    def ours(x):
        traced.append("ours")
        return x + x

    @jax.jit
    def users(x):
        traced.append("user's")
        return x - 1.0

    users(np.ones(3))
    ours(np.ones(3))
    ours(np.ones(4))  # near the limit
    assert traced == ["user's", "ours", "ours"]
    users(np.ones(3))
    ours(np.ones(4))
    assert traced[3:] == ["ours"]


def test_programs_that_run_often_are_optimised(monkeypatch):
    monkeypatch.setattr(_xla, "_WORTH_OPTIMIZING", 30)
    traced = []

    @_xla.jit_by_size
    def double(x):
        traced.append(x.shape)
        return x + x

    @_xla.jit_once
    def triple(x):
        traced.append(x.shape)
        return x + x + x

    for _ in range(6):
        np.testing.assert_array_equal(double(np.ones(10)), 2.0)
    assert traced == [(10,), (10,)]
    double(np.ones(9))
    assert traced[2:] == [(9,)]
    traced.clear()

    @_xla.jit_by_size
    def total(x):
        traced.append(list(x))
        return sum(x.values())

    # Arguments of another structure have another program, which has not run often.
    for _ in range(2):
        for name in "abc":
            total({name: np.ones(10)})
    assert traced == [["a"], ["b"], ["c"]]
    traced.clear()
    for _ in range(6):
        np.testing.assert_array_equal(triple(np.ones(10)), 3.0)
    assert traced == [(10,)]


def test_padded_calls_are_those_of_the_shape():
    likelihood = OrdinalProbit(0.4)
    mean, variance = np.linspace(-2.0, 2.0, 21).reshape(3, 7), np.full((3, 7), 0.5)
    for shape in [(), (1,), (7,), (3, 7), (0,)]:
        count = int(np.prod(shape))
        arrays = [jax.numpy.asarray(x.ravel()[:count].reshape(shape)) for x in (mean, variance)]
        found = _xla.call_padded(likelihood.probabilities, *arrays)
        np.testing.assert_allclose(found, likelihood.probabilities(*arrays), rtol=1e-12)
