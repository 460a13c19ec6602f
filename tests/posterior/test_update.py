"""Further matches: as if all had been there from the start, and without compiling anew."""

import functools

import jax
import numpy as np
import pytest

import jaxkick as jk
from jaxkick.data import Dataset
from jaxkick.posterior.posterior import carry_sites
from tests.posterior.league import COLUMNS, Watched, joined, matches

TIGHT = {"tol": 1e-9}
FIRST = matches(30, 0)


def dataset(table):
    return Dataset.from_frame(table, **COLUMNS, home=True)


def model(means):
    """A prior mean of its own for every feature."""
    kernel, likelihood = jk.kernels.Matern12(1.0, 2.0), jk.likelihoods.OrdinalProbit(margin=0.4)
    return jk.Model(kernel, likelihood, np.array(means), newcomer_mean=0.0)


@functools.cache
def start():
    return jk.infer(model([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7]), dataset(FIRST), **TIGHT)


def alike(one, other):
    np.testing.assert_allclose(
        one.log_marginal_likelihood, other.log_marginal_likelihood, rtol=1e-9
    )
    np.testing.assert_allclose(one.observations, other.observations, atol=1e-7)
    assert one.data.names == other.data.names
    for name in one.data.names:
        for ours, theirs in zip(one.scores(name), other.scores(name), strict=True):
            np.testing.assert_allclose(ours, theirs, atol=1e-7)
    asked = {"first": ["a", "z"], "second": ["b", "new"], "time": [2.3, 9.0], "home": [1, 0]}
    asked["allow_unknown"] = True
    np.testing.assert_allclose(one.predict(**asked).mean, other.predict(**asked).mean, atol=1e-7)
    return True


def test_updates_equal_a_fresh_fit():
    second, earlier = matches(5, 1, "abBz", begin=3.0), matches(2, 2, begin=-9.0)
    updated = start().update(second, **TIGHT).update(dataset(earlier), **TIGHT)
    # Means follow the names of their features, among which new ones stand.
    assert updated.data.names == ("B", "a", "b", "c", "d", "e", "f", "home", "z")
    fresh = model([0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.0])
    assert alike(updated, jk.infer(fresh, dataset(joined(FIRST, second, earlier)), **TIGHT))
    assert len(start().data) == 30


def test_many_new_names_at_once_are_reported():
    renamed = matches(5, 1, ["a", "F.C. b", "F.C. c", "F.C. d", "F.C. e"], begin=4.0)
    pattern = r"^4 of the 6 names .* such as 'F\.C\. b'\. .* use their old names\.$"
    with pytest.warns(UserWarning, match=pattern) as caught:
        start().update(renamed)
    assert caught[0].filename == __file__
    stream = jk.Stream.start(jk.Model(jk.kernels.Constant(1.0), Watched()), dataset(FIRST))
    with pytest.warns(UserWarning, match=pattern):
        stream.observe(renamed)


def columns(sites):
    return list(zip(*sites, strict=True))


def test_old_matches_start_from_their_sites():
    posterior = start()
    old = posterior.data
    new = jk.concat([old, dataset(matches(4, 8, "axyz", begin=1.0))])
    assert len(new) == 34
    carried = carry_sites(posterior.sites, old, new)
    for before, after in zip(*map(columns, (posterior.sites, carried)), strict=True):
        values = new.to_slots(after)
        np.testing.assert_array_equal(values[:30], old.to_slots(before))
        assert np.all(values[30:] == 0)


def test_new_matches_do_not_compile():
    def wins(count, seed, names="abcdef", begin=0.0):
        return matches(count, seed, names, begin, outcomes=(-1.0, 1.0))

    watched = jk.Model(jk.kernels.Matern12(1.0, 2.0), Watched())
    posterior = jk.infer(watched, dataset(wins(57, 3)))
    shapes = jax.tree.map(np.shape, posterior.data.without_index())
    before = len(Watched.traces)
    # The padded shapes have room for seven more, and inference compiled for a warm start.
    for step in range(7):
        posterior = posterior.update(wins(1, 10 + step, "abcxyz", begin=5.0 + step))
        assert jax.tree.map(np.shape, posterior.data.without_index()) == shapes
    assert len(Watched.traces) == before
    posterior = posterior.update(wins(1, 50, begin=20.0))
    assert len(posterior.data) == 65
    traces = len(Watched.traces)
    # Once they overflow, the next ones have room again.
    for step in range(7):
        posterior = posterior.update(wins(1, 60 + step, "abcxyz", begin=25.0 + step))
    assert len(Watched.traces) == traces > before


def test_updates_stay_on_their_devices():
    mesh = jax.make_mesh((2,), ("rows",), devices=jax.devices()[:2])
    model = jk.Model(jk.kernels.Constant(0.5), jk.likelihoods.Gaussian(1.0))
    first, second, third = (Dataset.from_pairs([t], ["a"], [b], [y]) for t, b, y in GAMES)
    shared = jk.infer(model, first.shard(mesh)).update(second, **TIGHT).update(third, **TIGHT)
    times, sides, outcomes = (list(part) for part in zip(*GAMES, strict=True))
    alone = jk.infer(model, Dataset.from_pairs(times, ["a"] * 3, sides, outcomes), **TIGHT)
    np.testing.assert_allclose(shared.observations, alone.observations, atol=1e-7)
    for array in (*shared.sites[0], *shared.entries[0], shared.data.chains[0].gap):
        assert len(array.sharding.device_set) == 2


GAMES = [(0.0, "b", 1.5), (1.0, "c", -0.5), (2.0, "b", 0.3)]


def test_refusals():
    data = Dataset.from_pairs([0.0], ["a"], ["b"])
    posterior = jk.infer(jk.Model(jk.kernels.Constant(1.0), jk.likelihoods.Probit()), data)
    with pytest.raises(ValueError, match=r"was not made from a table, .*Pass a `Dataset`"):
        posterior.update({"first": ["a"]})
    kinds = jk.concat({"duels": data})
    posterior_of_kinds = jk.infer(posterior.model, kinds)
    with pytest.raises(ValueError, match=r"kinds of observations \('duels'\), .* with their kind"):
        posterior_of_kinds.update({"first": ["a"]})
    with pytest.raises(ValueError, match=r"kinds of .*, or `predict_ranking\(competitors, time\)`"):
        posterior_of_kinds.forecast({"first": ["a"]})
    with pytest.raises(ValueError, match="times as dates in years, but the data has times as num"):
        posterior.update(Dataset.from_pairs(["2001-01-01"], ["a"], ["b"]))
    with pytest.raises(ValueError, match=r"^Row 1: outcome 3 is not valid for Probit"):
        posterior.update(Dataset.from_pairs([1.0], ["a"], ["b"], [3.0]))


def repeats(times=(0.0, 1.0, 2.0)):
    table = {"t": list(times), "a": list("aba"), "b": list("bcc"), "y": [1, 1, -1]}
    columns = {"time": "t", "first": "a", "second": "b", "outcome": "y"}
    likelihood = jk.likelihoods.Probit()
    data = Dataset.from_frame(table, **columns)
    return table, jk.infer(jk.Model(jk.kernels.Constant(1.0), likelihood), data)


def test_matches_of_the_data_are_refused():
    table, posterior = repeats()
    message = r"^Row 1: the data already has a match of the same sides at the same time\. Remove"
    again = {"t": [9.0, 1.0], "a": ["a", "b"], "b": ["b", "c"], "y": [1, 1]}
    with pytest.raises(jk.DataError, match=message):
        posterior.update(again)
    # A corrected result, too, is not another match.
    with pytest.raises(jk.DataError, match=r"^Row 1: .* or pass `allow_repeats=True` if they met"):
        posterior.update(again | {"y": [1, -1]})
    with pytest.raises(jk.DataError, match=r"\(3 rows affected\)"):
        posterior.update(posterior.data)
    assert len(posterior.update(again, allow_repeats=True).data) == 5
    assert len(posterior.update(table | {"t": [3.0, 4.0, 5.0]}).data) == 6
    other = {"t": [1.0], "a": ["c"], "b": ["d"], "y": [1]}
    assert len(posterior.update(other).data) == 4


def test_matches_without_times_may_be_repeated():
    table, posterior = repeats(times=(0.0, 0.0, 0.0))
    assert len(posterior.update(table).data) == 6
