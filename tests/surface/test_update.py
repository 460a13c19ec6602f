"""Further matches: as if all had been there from the start, and without compiling anew."""

import jax
import numpy as np
import pytest

import jaxkick as jk
from jaxkick.dataset import Dataset
from jaxkick.dataset.growth import by_slot
from jaxkick.likelihoods import AbstractLikelihood
from jaxkick.updating import grow

TIGHT = {"tol": 1e-9}
MODEL = jk.Model(jk.kernels.Matern12(1.0, 2.0), jk.likelihoods.OrdinalProbit(margin=0.4))


def matches(count, seed, names="abcdef", begin=0.0):
    generator = np.random.default_rng(seed)
    pairs = np.array([generator.choice(list(names), 2, replace=False) for _ in range(count)])
    return {
        "time": begin + np.sort(generator.uniform(0, 5, count)),
        "first": pairs[:, 0],
        "second": pairs[:, 1],
        "outcome": generator.integers(-1, 2, count).astype(float),
    }


def dataset(table):
    columns = {name: name for name in ("time", "first", "second", "outcome")}
    return Dataset.from_frame(table, **columns, home=True)


def joined(*tables):
    return {name: np.concatenate([table[name] for table in tables]) for name in tables[0]}


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
    np.testing.assert_allclose(one.predict(**asked).mean, other.predict(**asked).mean, atol=1e-7)
    return True


def test_updates_equal_a_fresh_fit():
    first, second = matches(30, 0), matches(5, 1, "abyz", begin=3.0)
    earlier = matches(2, 2, begin=-9.0)
    start = jk.infer(MODEL, dataset(first), **TIGHT)
    updated = start.update(second, **TIGHT).update(dataset(earlier), **TIGHT)
    assert alike(updated, jk.infer(MODEL, dataset(joined(first, second, earlier)), **TIGHT))
    assert start.data.num_observations == 30


def test_old_matches_start_from_their_sites():
    table = matches(10, 7)
    posterior = jk.infer(MODEL, dataset(table))
    new = dataset(matches(4, 8, "axyz", begin=1.0)).disassembled()
    whole, roomy = grow(posterior.data, posterior.sites, None, new)
    assert whole.num_observations == 14
    for part in range(2):
        old = by_slot([site[part] for site in posterior.sites], np.asarray(posterior.data.slots))
        now = by_slot([site[part] for site in roomy.sites], np.asarray(roomy.data.slots))
        np.testing.assert_array_equal(now[:10], old)
        assert np.all(now[10:] == 0)


class Watched(AbstractLikelihood):
    """A probit that counts how often it is traced."""

    def log_prob(self, outcome, score):
        return jk.likelihoods.Probit().log_prob(outcome, score)

    def log_partition(self, outcome, mean, variance, weight=None):
        TRACES.append(1)
        return jk.likelihoods.Probit().log_partition(outcome, mean, variance, weight)


TRACES = []


def test_new_matches_do_not_compile():
    table = matches(40, 3)
    table["outcome"] = np.where(table["outcome"] > 0, 1.0, -1.0)
    model = jk.Model(jk.kernels.Matern12(1.0, 2.0), Watched())
    posterior = jk.infer(model, dataset(table))
    traces = []
    for step in range(6):
        new = matches(1 + step, 10 + step, "abcxyz"[: step + 2], begin=5.0 + step)
        new["outcome"] = np.ones(1 + step)
        posterior = posterior.update(new)
        posterior.predict("a", "b", 20.0)
        traces.append(len(TRACES))
    assert posterior.data.num_observations == 61
    # The first update compiles; 40 and 20 fit into the room of the first 41 and half as much.
    assert traces[0] > 0
    assert len(set(traces)) <= 2
    assert len(set(traces[:5])) == 1


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


def test_prior_means_of_every_feature_follow_their_names():
    table, new = matches(10, 5, "bcd"), matches(3, 6, "abz", begin=5.0)
    kernel, likelihood = jk.kernels.Constant(0.5), jk.likelihoods.OrdinalProbit(margin=0.4)
    model = jk.Model(kernel, likelihood, mean=np.array([0.1, 0.2, 0.3, 0.0]))
    updated = jk.infer(model, dataset(table), **TIGHT).update(new, **TIGHT)
    assert updated.data.names == ("a", "b", "c", "d", "home", "z")
    fresh = jk.Model(kernel, likelihood, mean=np.array([0.0, 0.1, 0.2, 0.3, 0.0, 0.0]))
    assert alike(updated, jk.infer(fresh, dataset(joined(table, new)), **TIGHT))


def test_refusals():
    data = Dataset.from_pairs([0.0], ["a"], ["b"])
    posterior = jk.infer(jk.Model(jk.kernels.Constant(1.0), jk.likelihoods.Probit()), data)
    with pytest.raises(ValueError, match=r"was not made of a table .*pass a `Dataset`"):
        posterior.update({"first": ["a"]})
    with pytest.raises(ValueError, match="times as dates in years, but the data has times as num"):
        posterior.update(Dataset.from_pairs(["2001-01-01"], ["a"], ["b"]))
    with pytest.raises(ValueError, match="`outcome` is 3 in row 1"):
        posterior.update(Dataset.from_pairs([1.0], ["a"], ["b"], [3.0]))
