"""Encoded data against a slow encoder that takes one observation after another."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxkick.data import Dataset
from jaxkick.data.encoding import padded_size


def naive_entries(times, observations):
    """For each feature, its (time, observation, slot), in order."""
    entries = {}
    for n, mapping in enumerate(observations):
        present = [(name, value) for name, value in mapping.items() if value != 0]
        for p, (name, _) in enumerate(present):
            entries.setdefault(name, []).append((times[n], n, p))
    return {name: sorted(rows) for name, rows in entries.items()}


def place_of(data, position):
    """Group and place along the rows of a flat position."""
    base = 0
    for number, chain in enumerate(data.chains):
        steps, rows = chain.gap.shape
        if position < base + steps * rows:
            step, row = divmod(position - base, rows)
            return number, row * steps + step
        base += steps * rows
    raise AssertionError(f"{position} is beyond the chains")


def check_encoding(data, times, observations, group_of=lambda name: "skill"):
    """Everything that must hold between the observations and the arrays."""
    entries = naive_entries(times, observations)
    width = max(sum(value != 0 for value in mapping.values()) for mapping in observations)
    slots, coefficients = np.asarray(data.slots), np.asarray(data.coefficients)
    size = len(data.outcome)
    assert slots.shape == coefficients.shape == (size, width)
    assert len(data) == len(times) <= size
    assert size == padded_size(len(times), len(times))
    assert data.slots.dtype == jnp.int32
    flat = {
        field: np.concatenate([np.asarray(getattr(chain, field)).ravel() for chain in data.chains])
        for field in ("gap", "offset", "age", "first", "source")
    }
    total = flat["gap"].size
    epoch = np.floor(min(times))
    kind = data.outcome.dtype
    assert float(data.epoch.coarse) + float(data.epoch.fine) == epoch

    for n, mapping in enumerate(observations):
        present = [value for value in mapping.values() if value != 0]
        expected = present + [0.0] * (width - len(present))
        np.testing.assert_array_equal(coefficients[n], np.array(expected, kind))
        assert (slots[n, len(present) :] == total).all()
        np.testing.assert_array_equal(
            flat["source"][slots[n, : len(present)]], n * width + np.arange(len(present))
        )

    assert (slots[len(times) :] == total).all()
    assert (coefficients[len(times) :] == 0).all()
    kept = data.observations
    for n, mapping in enumerate(observations):
        features = [feature for feature in kept.features[n].tolist() if feature >= 0]
        found = zip([data.names[k] for k in features], kept.coefficients[n], strict=False)
        assert dict(found) == {name: kind.type(x) for name, x in mapping.items() if x != 0}
    assert kept.times.tolist() == list(times)

    seen = set()
    for name, rows in entries.items():
        positions = [int(slots[n, p]) for _, n, p in rows]
        seen.update(positions)
        groups, places = zip(*(place_of(data, position) for position in positions), strict=True)
        assert {data.chains[group].group for group in groups} == {group_of(name)}
        assert list(places) == list(range(places[0], places[0] + len(places)))
        moments = np.array([time for time, _, _ in rows], np.float64)
        gaps = np.diff(moments, prepend=moments[0])
        np.testing.assert_array_equal(flat["gap"][positions], gaps.astype(kind))
        np.testing.assert_array_equal(flat["offset"][positions], (moments - epoch).astype(kind))
        np.testing.assert_array_equal(flat["age"][positions], (moments - moments[0]).astype(kind))
        assert flat["first"][positions].tolist() == [True] + [False] * (len(rows) - 1)
        own = data.entries(name)
        assert own.positions.tolist() == positions
        assert own.times.tolist() == moments.tolist()
        assert own.observations.tolist() == [n for _, n, _ in rows]

    blank = np.setdiff1d(np.arange(total), sorted(seen))
    assert len(seen) + blank.size == total
    assert flat["first"][blank].all()
    assert (flat["gap"][blank] == 0).all()
    assert (flat["age"][blank] == 0).all()
    assert (flat["source"][blank] == size * width).all()
    check_links(data)


def check_links(data):
    """`linked` says whether a row begins with an entry that opens no feature."""
    for chain in data.chains:
        assert chain.linked == bool(np.any(~np.asarray(chain.first)[0]))


NAMES = ["ant", "bee", "cat", "dog", "elk", 7]
coefficient = st.sampled_from([1.0, -1.0, 0.5, 0.25, 0.0, -2.0])
observation = st.dictionaries(st.sampled_from(NAMES), coefficient, min_size=1, max_size=4).filter(
    lambda mapping: any(mapping.values())
)
time = st.sampled_from([0.0, 1.0, 1.5, -3.25]) | st.floats(-1e6, 1e6, allow_subnormal=False)
tables = st.lists(st.tuples(time, observation), min_size=1, max_size=14)


@settings(max_examples=120, deadline=None)
@given(
    table=tables,
    row_length=st.none() | st.integers(1, 20),
    labels=st.lists(st.sampled_from(["x", "y", "default"]), min_size=6, max_size=6),
    kind=st.sampled_from([np.float32, np.float64]),
)
def test_encoding_equals_the_naive_encoder(table, row_length, labels, kind):
    times, observations = zip(*table, strict=True)
    groups = dict(zip(NAMES, labels, strict=True))
    data = Dataset.from_mappings(
        list(times),
        list(observations),
        [1.0] * len(times),
        groups=groups,
        row_length=row_length,
        dtype=kind,
    )
    check_encoding(data, times, observations, groups.get)
    assert list(data.index.groups) == sorted({groups[name] for name in data.names})


@pytest.mark.parametrize("row_length", [None, 1, 2, 3, 7, 64, 1000])
@pytest.mark.parametrize("ordered", [True, False])
def test_matches_of_a_season(row_length, ordered):
    rng = np.random.default_rng(3)
    times = np.round(rng.uniform(2000, 2020, 300), 1)
    times = np.sort(times) if ordered else times
    first = rng.integers(0, 20, 300)
    second = (first + rng.integers(1, 20, 300)) % 20
    data = Dataset.from_pairs(times, first, second, row_length=row_length)
    observations = [{int(a): 1.0, int(b): -1.0} for a, b in zip(first, second, strict=True)]
    check_encoding(data, times.tolist(), observations)


def test_many_short_features_are_packed():
    rng = np.random.default_rng(4)
    times = rng.uniform(0, 1, 3000)
    first = rng.integers(0, 1000, 3000)
    second = 1000 + rng.integers(0, 1000, 3000)
    data = Dataset.from_pairs(times, first, second)
    assert not data.chains[0].linked
    assert data.chains[0].gap.shape[1] > 50
    observations = [{int(a): 1.0, int(b): -1.0} for a, b in zip(first, second, strict=True)]
    check_encoding(data, times.tolist(), observations)


def test_a_feature_in_every_match_beside_others():
    rng = np.random.default_rng(5)
    times = rng.uniform(0, 1, 400)
    first, second = rng.integers(0, 50, 400), 50 + rng.integers(0, 50, 400)
    neutral = rng.integers(0, 2, 400)
    data = Dataset.from_pairs(
        times, first, second, covariates={"home": 1 - neutral}, groups={"home": "home"}
    )
    observations = [
        {int(a): 1.0, int(b): -1.0, "home": 1.0 - flag}
        for a, b, flag in zip(first, second, neutral, strict=True)
    ]
    check_encoding(
        data, times.tolist(), observations, lambda name: "home" if name == "home" else "skill"
    )
    assert data.index.groups == ("home", "skill")


@settings(max_examples=60, deadline=None)
@given(table=tables, seed=st.integers(0, 10**6), row_length=st.none() | st.integers(1, 9))
def test_order_of_rows_changes_nothing_but_the_order(table, seed, row_length):
    # Simultaneous observations stand in the order of their rows, so times differ here.
    times = [float(place) for place, _ in enumerate(table)]
    observations = [mapping for _, mapping in table]
    order = np.random.default_rng(seed).permutation(len(table))
    options = {"row_length": row_length, "groups": {7: "seven"}}
    plain = Dataset.from_mappings(times, observations, times, **options)
    mixed = Dataset.from_mappings(
        [times[n] for n in order], [observations[n] for n in order], order.astype(float), **options
    )
    assert plain.names == mixed.names
    for field in ("slots", "coefficients", "outcome"):
        one, other = np.asarray(getattr(plain, field)), np.asarray(getattr(mixed, field))
        np.testing.assert_array_equal(one[order], other[: len(order)])
    width = plain.slots.shape[1]
    for one, other in zip(plain.chains, mixed.chains, strict=True):
        for field in ("gap", "offset", "age", "first"):
            np.testing.assert_array_equal(getattr(one, field), getattr(other, field))
        number, slot = np.divmod(np.asarray(other.source), width)
        inside = number < len(order)
        back = np.where(inside, order[np.where(inside, number, 0)], len(plain.outcome))
        np.testing.assert_array_equal(one.source, back * width + slot)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_differences_are_cast_from_float64(kind):
    rng = np.random.default_rng(6)
    times = 1e12 + rng.uniform(0, 1e3, 50)
    names = rng.integers(0, 4, 50)
    data = Dataset.from_pairs(times, names, names + 4, dtype=kind)
    observations = [{int(a): 1.0, int(a) + 4: -1.0} for a in names]
    check_encoding(data, times.tolist(), observations)
    assert data.outcome.dtype == data.chains[0].gap.dtype == data.epoch.fine.dtype == kind
    # Cast before the difference, float32 would know the gaps to no better than 65,536.
    assert 0 < float(data.chains[0].gap.max()) < 1e3


def test_repeated_features_are_added_in_their_first_slot():
    data = Dataset.from_arrays(
        [0.0, 1.0, 2.0],
        [[2, 0, 2, 1], [1, 1, 0, -1], [0, 1, 0, 1]],
        [[1.0, 2.0, 0.5, 4.0], [1.0, -1.0, 3.0, np.nan], [1.0, 1.0, 1.0, 2.0]],
        [1.0, 1.0, 1.0],
    )
    check_encoding(data, [0.0, 1.0, 2.0], [{2: 1.5, 0: 2.0, 1: 4.0}, {0: 3.0}, {0: 2.0, 1: 3.0}])


@settings(max_examples=60, deadline=None)
@given(
    features=st.lists(st.lists(st.integers(-1, 4), min_size=5, max_size=5), min_size=1, max_size=8),
    seed=st.integers(0, 1000),
)
def test_adding_repeated_features_equals_a_loop(features, seed):
    values = np.random.default_rng(seed).integers(-2, 3, (len(features), 5)).astype(float)
    observations = []
    for row, numbers in zip(values, features, strict=True):
        mapping = {}
        for feature, value in zip(numbers, row, strict=True):
            if feature >= 0:
                mapping[feature] = mapping.get(feature, 0.0) + value
        observations.append(mapping)
    times = [float(n % 3) for n in range(len(features))]
    if not all(any(mapping.values()) for mapping in observations):
        with pytest.raises(ValueError, match="no feature has a coefficient other than zero"):
            Dataset.from_arrays(times, features, values, times)
        return
    check_encoding(Dataset.from_arrays(times, features, values, times), times, observations)


def test_one_trace_for_equal_content():
    traces = []

    @jax.jit
    def total(data):
        traces.append(None)
        return jnp.sum(data.outcome) + jnp.sum(data.chains[0].gap)

    def make(times, **options):
        return Dataset.from_pairs(times, ["a", "b", "c"], ["b", "c", "a"], **options)

    data, same = make([1.0, 2.0, 4.0]), make([1.0, 2.0, 4.0], outcome=[1, -1, 1])
    assert data.index == same.index
    assert hash(data.index) == hash(same.index)
    total(data), total(data), total(same)
    assert len(traces) == 1
    for other in (
        make([1.0, 2.0, 5.0]),
        make([1.0, 2.0, 4.0], unit="day"),
        make([1.0, 2.0, 4.0], groups={"unseen": "other"}),
        Dataset.from_pairs([1.0, 2.0, 4.0], ["a", "b", "d"], ["b", "d", "a"]),
    ):
        assert other.index != data.index
    assert data.index != "index"


def test_arrays_are_on_the_device_and_not_the_users():
    times, outcome = np.array([1.0, 2.0]), np.array([1.0, -1.0])
    features, coefficients = np.array([[0, 1], [1, 2]]), np.array([[1.0, -1.0], [1.0, -1.0]])
    weight = np.array([0.5, 2.0])
    data = Dataset.from_arrays(times, features, coefficients, outcome, weight)
    for array in (times, outcome, features, coefficients, weight):
        array[:] = 7
    assert all(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(data))
    kept = data.observations
    assert kept.outcome.tolist() == [1.0, -1.0]
    assert kept.weight.tolist() == [0.5, 2.0]
    assert kept.coefficients.tolist() == [[1.0, -1.0], [1.0, -1.0]]
    assert kept.features.tolist() == [[0, 1], [1, 2]]
    assert data.index.times.tolist() == [1.0, 2.0]
    with pytest.raises(ValueError, match="read-only"):
        data.index.times[0] = 3.0
