"""The places of queries among the entries, against a search one by one."""

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxkick.data import Dataset, Location


def naive(data, name, time):
    """Neighbours and differences of one query, from the entries in order."""
    entries = data.entries(name)
    moments = entries.times.tolist()
    before = sum(moment <= time for moment in moments)
    left = int(entries.positions[before - 1]) if before else -1
    right = int(entries.positions[before]) if before < len(moments) else -1
    return (
        left,
        right,
        time - moments[before - 1] if left >= 0 else 0.0,
        moments[before] - time if right >= 0 else 0.0,
        time - data.index.epoch,
        time - moments[0] if moments else 0.0,
    )


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    num_matches=st.integers(1, 60),
    row_length=st.none() | st.integers(1, 30),
    kind=st.sampled_from([np.float32, np.float64]),
)
def test_queries_equal_a_search_one_by_one(seed, num_matches, row_length, kind):
    rng = np.random.default_rng(seed)
    # Few different times, so that entries and queries coincide.
    times = rng.integers(-4, 9, num_matches) * 0.5
    first = rng.integers(0, 5, num_matches)
    second = 5 + rng.integers(0, 5, num_matches)
    data = Dataset.from_pairs(
        times,
        first,
        second,
        groups=lambda name: "low" if name < 3 else "high",
        row_length=row_length,
        dtype=kind,
    )
    asked = rng.integers(0, 12, 80)
    moments = rng.integers(-8, 18, 80) * 0.25
    ids = data.index.feature_ids(asked)
    found = data.locate(ids, moments)
    for query, (name, moment) in enumerate(zip(asked.tolist(), moments.tolist(), strict=True)):
        expected = naive(data, name, moment)
        got = (
            found.left[query],
            found.right[query],
            found.left_gap[query],
            found.right_gap[query],
            found.offset[query],
            found.age[query],
        )
        assert got == expected
        group = data.index.groups.index("low" if name < 3 else "high") if ids[query] >= 0 else -1
        assert found.group[query] == group
    assert {leaf.dtype for leaf in jax.tree.leaves(found)} == {np.dtype(np.int32), np.dtype(kind)}


def test_a_time_of_simultaneous_entries_is_at_their_last():
    data = Dataset.from_pairs([1.0, 2.0, 2.0, 3.0], ["a"] * 4, list("bcde"))
    entries = data.entries("a")
    found = data.locate([data.feature_id("a")], [2.0])
    assert found.left[0] == entries.positions[2]
    assert found.right[0] == entries.positions[3]
    assert (found.left_gap[0], found.right_gap[0], found.age[0]) == (0.0, 1.0, 1.0)


def test_before_after_and_unseen():
    data = Dataset.from_pairs([1.0, 2.5], ["a", "a"], ["b", "c"])
    ids = data.index.feature_ids(["a", "a", "unseen", "c"])
    found = data.locate(ids, [0.25, 9.0, 4.0, 2.5])
    assert isinstance(found, Location)
    a, c = data.entries("a").positions, data.entries("c").positions
    assert found.left.tolist() == [-1, a[1], -1, c[0]]
    assert found.right.tolist() == [a[0], -1, -1, -1]
    assert found.left_gap.tolist() == [0.0, 6.5, 0.0, 0.0]
    assert found.right_gap.tolist() == [0.75, 0.0, 0.0, 0.0]
    assert found.age.tolist() == [-0.75, 8.0, 0.0, 0.0]
    assert found.offset.tolist() == [-0.75, 8.0, 3.0, 1.5]
    assert found.group.tolist() == [0, 0, -1, 0]


def test_differences_are_taken_in_float64():
    data = Dataset.from_pairs([1e12, 1e12 + 1], ["a", "a"], ["b", "b"], dtype=np.float32)
    found = data.locate([0], [1e12 + 0.25])
    assert (found.left_gap[0], found.right_gap[0]) == (0.25, 0.75)
    assert found.left_gap.dtype == np.float32


def test_shapes_are_broadcast():
    data = Dataset.from_pairs([1.0, 2.5], ["a", "a"], ["b", "c"])
    assert data.locate(0, [1.0, 2.0, 3.0]).left.shape == (3,)
    assert data.locate([[0], [1]], [1.0, 2.0, 3.0]).age.shape == (2, 3)
    assert data.locate(0, 1.0).left.shape == ()
    assert data.locate(np.empty(0, int), np.empty(0)).left.shape == (0,)


def test_refusals():
    data = Dataset.from_pairs([1.0, 2.5], ["a", "a"], ["b", "c"])
    for feature in (3, -2):
        with pytest.raises(ValueError, match="`features` must count from 0 to 2, or be -1"):
            data.locate([feature], [0.0])
    with pytest.raises(ValueError, match="`times` must be finite"):
        data.locate([0], [np.nan])


def test_features_without_entries_are_at_the_prior():
    data = Dataset.from_arrays([0.0], [[2]], [[1.0]], [1.0], names=list("abc"))
    found = data.locate([0, 1, 2], [1.0, 1.0, 1.0])
    assert found.left.tolist() == [-1, -1, data.entries("c").positions[0]]
    assert found.age.tolist() == [0.0, 0.0, 1.0]


def test_entries_of_an_unseen_name_are_none():
    entries = Dataset.from_pairs([1.0], ["a"], ["b"]).entries("unseen")
    assert [part.size for part in entries] == [0, 0, 0]
