"""The layout of chains: every feature in one piece or cut end to end, and little padding."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxkick.chains.layout import build_chain, flat_positions, plan_layout


def decreasing(counts):
    return np.array(sorted(counts, reverse=True), np.int64)


def occupied(layout, counts):
    """The places of all entries, one by one."""
    return [
        start + rank
        for start, count in zip(layout.starts, counts, strict=True)
        for rank in range(count)
    ]


def padding(layout, counts):
    return 1.0 - counts.sum() / (layout.steps * layout.rows)


@settings(max_examples=200, deadline=None)
@given(
    counts=st.lists(st.integers(1, 40), min_size=1, max_size=60).map(decreasing),
    row_length=st.none() | st.integers(1, 70),
    backend=st.sampled_from(["cpu", "gpu", "tpu"]),
)
def test_every_entry_has_a_place_of_its_own(counts, row_length, backend):
    layout = plan_layout(counts, backend, row_length)
    places = occupied(layout, counts)
    assert len(set(places)) == counts.sum()
    assert min(places) >= 0
    assert max(places) < layout.steps * layout.rows
    assert layout.rows == 1 or layout.rows % 2 == 0
    begins = {start % layout.steps for start in layout.starts}
    split = any(
        start // layout.steps != (start + count - 1) // layout.steps
        for start, count in zip(layout.starts, counts, strict=True)
    )
    assert layout.linked == split
    assert 0 in begins
    expected = [place % layout.steps * layout.rows + place // layout.steps for place in places]
    np.testing.assert_array_equal(layout.positions(counts), expected)


@settings(max_examples=100, deadline=None)
@given(
    counts=st.lists(st.integers(1, 40), min_size=1, max_size=60).map(decreasing),
    row_length=st.integers(1, 39),
)
def test_features_longer_than_a_row_stand_end_to_end(counts, row_length):
    counts[0] = 40
    layout = plan_layout(counts, row_length=row_length)
    np.testing.assert_array_equal(layout.starts, np.cumsum(counts) - counts)
    assert layout.linked
    assert layout.rows * layout.steps - counts.sum() < 2 * layout.steps


def test_cut_at_a_boundary_of_features_is_not_linked():
    layout = plan_layout(np.full(6, 5), row_length=5)
    assert (layout.steps, layout.rows, layout.linked) == (5, 6, False)
    assert plan_layout(np.array([6, 4]), row_length=5).linked


def test_row_length_is_respected():
    counts = decreasing([7, 5, 3, 3, 2, 1, 1])
    for row_length in range(1, 23):
        assert plan_layout(counts, row_length=row_length).steps == row_length
    assert plan_layout(counts, row_length=1000).steps == counts.sum()


@pytest.mark.parametrize("row_length", [0, -3, 2.5])
def test_row_length_must_be_a_positive_integer(row_length):
    with pytest.raises(ValueError, match=r"`row_length` is .* must be a positive integer"):
        plan_layout(np.array([3, 1]), row_length=row_length)


def test_skewed_short_features_are_packed_with_little_padding():
    rng = np.random.default_rng(0)
    counts = decreasing([1400, *np.minimum(rng.zipf(1.5, 20_000), 1400)])
    layout = plan_layout(counts)
    assert layout.steps == 1400
    assert not layout.linked
    assert padding(layout, counts) < 0.005


def test_features_of_one_length_fill_their_rows():
    layout = plan_layout(np.full(4000, 33))
    assert layout.steps == 66
    assert padding(layout, np.full(4000, 33)) == 0.0


def test_wasteful_packing_gives_way_to_cutting():
    counts = decreasing([100] * 10 + [60] * 1000)
    layout = plan_layout(counts)
    assert layout.linked
    assert padding(layout, counts) < 0.01


def test_long_features_are_cut_into_balanced_rows():
    counts = decreasing([67_000] + [1300] * 100)
    layout = plan_layout(counts)
    assert layout.linked
    assert layout.steps == int(np.ceil(np.sqrt(counts.sum() / 6)))
    assert padding(layout, counts) < 0.01


def test_a_gpu_gets_fewer_steps_and_more_rows():
    for counts in (decreasing([67_000] + [1300] * 100), np.full(10_000, 600)):
        cpu, gpu = plan_layout(counts, "cpu"), plan_layout(counts, "gpu")
        assert gpu.steps < cpu.steps
        assert gpu.rows > cpu.rows


def test_small_data_makes_one_row():
    layout = plan_layout(np.array([4, 3, 1]))
    assert (layout.steps, layout.rows, layout.linked) == (16, 1, False)


def test_packing_a_million_features_is_quick():
    counts = -np.sort(-np.random.default_rng(1).geometric(0.05, 1_000_000))
    layout = plan_layout(counts)
    assert not layout.linked
    assert padding(layout, counts) < 1e-3


def test_chain_holds_differences_of_float64_times():
    counts = np.array([3, 2])
    times = np.array([1e12, 1e12 + 0.125, 1e12 + 0.5, 1e12 + 0.25, 1e12 + 0.25])
    layout = plan_layout(counts, row_length=4)
    positions = layout.positions(counts)
    chain = build_chain(
        layout,
        positions,
        counts,
        times,
        np.array([0, 2, 4, 1, 3], np.int32),
        features=np.array([7, 5]),
        group="team",
        epoch=1e12 - 1,
        num_slots=2,
        largest=True,
        no_source=6,
        dtype=np.dtype(np.float32),
    )
    assert chain.group == "team"
    assert {str(leaf.dtype) for leaf in (chain.gap, chain.offset, chain.age)} == {"float32"}
    assert chain.source.dtype == np.int32

    def along_chain(leaf):
        return np.asarray(leaf).ravel()[positions].tolist()

    assert along_chain(chain.gap) == [0.0, 0.125, 0.375, 0.0, 0.0]
    assert along_chain(chain.offset) == [1.0, 1.125, 1.5, 1.25, 1.25]
    assert along_chain(chain.age) == [0.0, 0.125, 0.5, 0.0, 0.0]
    assert along_chain(chain.first) == [True, False, False, True, False]
    assert along_chain(chain.source) == [0, 2, 4, 1, 3]
    assert along_chain(chain.feature) == [7, 7, 7, 5, 5]
    blank = np.setdiff1d(np.arange(chain.gap.size), positions)
    assert blank.size == 3
    for leaf, value in ((chain.gap, 0), (chain.age, 0), (chain.first, True), (chain.source, 6)):
        assert (np.asarray(leaf).ravel()[blank] == value).all()
    # An offset of the data, so that no kernel is asked about times that do not occur.
    assert (np.asarray(chain.offset).ravel()[blank] == 1.0).all()


def test_flat_positions_run_along_rows():
    assert flat_positions(np.arange(6), 3, 2).tolist() == [0, 2, 4, 1, 3, 5]
