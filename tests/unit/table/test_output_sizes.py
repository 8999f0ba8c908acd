"""Golden numbers: by hand from the reference implementation's SizeBasedFileRewritePlanner, whose
tests expect those of `expected_files`."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from icectl.errors import UsageError
from icectl.table.output_sizes import Sizes, pack, sizes_of

UNLIMITED = 10**9


def packed(weights: list[int], capacity: int, lookback: int = UNLIMITED) -> list[list[int]]:
    return [[weights[at] for at in bin_] for bin_ in pack(weights, capacity, lookback)]


@pytest.mark.parametrize(
    ("capacity", "bins"),
    [
        (3, [[1, 2], [3], [4], [5]]), (5, [[1, 2], [3], [4], [5]]), (6, [[1, 2, 3], [4], [5]]),
        (8, [[1, 2, 3], [4], [5]]), (9, [[1, 2, 3], [4, 5]]), (10, [[1, 2, 3, 4], [5]]),
        (14, [[1, 2, 3, 4], [5]]), (15, [[1, 2, 3, 4, 5]]),
    ],
)  # fmt: skip
def test_things_go_into_the_first_bin_with_room(capacity, bins):
    assert packed([1, 2, 3, 4, 5], capacity) == bins


@pytest.mark.parametrize(
    ("lookback", "bins"),
    [
        (UNLIMITED, [[5, 1, 1, 1], [5], [5]]),
        (2, [[5, 1, 1], [5, 1], [5]]),
        (1, [[5, 1], [5, 1], [5, 1]]),
    ],
)
def test_as_many_bins_stay_open_as_one_looks_back_to(lookback, bins):
    assert packed([5, 1, 5, 1, 5, 1], 8, lookback) == bins


@pytest.mark.parametrize(
    ("weights", "bins"),
    [
        ([32, 32, 32, 32, 64, 64, 128], [[32, 32, 32, 32], [64, 64], [128]]),
        ([128, 64, 64, 32, 32, 32, 32], [[128], [64, 64], [32, 32, 32, 32]]),
    ],
)
def test_with_one_open_bin_things_stay_side_by_side(weights, bins):
    assert packed(weights, 128, 1) == bins


def test_a_thing_heavier_than_a_bin_has_one_of_its_own():
    assert packed([2, 9, 2], 4) == [[2, 2], [9]]


def test_nothing_makes_no_bin():
    assert packed([], 4) == []


@given(st.lists(st.integers(0, 40), max_size=40), st.integers(1, 50), st.integers(1, 5))
def test_each_thing_is_packed_once_and_bins_hold_what_they_can(weights, capacity, lookback):
    bins = pack(weights, capacity, lookback)
    assert sorted(at for bin_ in bins for at in bin_) == list(range(len(weights)))
    for bin_ in bins:
        assert bin_ == sorted(bin_)
        assert len(bin_) == 1 or sum(weights[at] for at in bin_) <= capacity


MB = 2**20


@pytest.mark.parametrize(
    ("size", "files"),
    [
        (0, 1),
        (99, 1),
        (100, 1),
        (109, 1),  # grows by less than a tenth
        (111, 2),
        (145, 2),
        (150, 2),
        (200, 2),
        (1000, 10),
        (1010, 10),  # 10.1 targets: ten of 1.01, not eleven
        (1074, 10),
        (1076, 11),  # the remainder is large enough for a file of its own
        (1099, 11),
    ],
)
def test_a_small_remainder_is_spread_over_the_other_files(size, files):
    assert Sizes(100, 75, 180).expected_files(size) == files


def test_sizes_default_to_parts_of_the_target():
    sizes = sizes_of(512 * MB, None, None)
    assert sizes == Sizes(512 * MB, 384 * MB, 966_367_641)
    assert sizes.roll == 512 * MB + (966_367_641 - 512 * MB) // 2


@pytest.mark.parametrize(
    ("size", "bytes_"),
    [
        (50_000_000, 100_000_000),
        (145_000_000, 100_000_000),
        (1_010_000_000, 101_005_120),
        (1_099_000_000, 100_000_000),
    ],
)
def test_a_bin_is_at_least_a_target(size, bytes_):
    assert Sizes(100_000_000, 75_000_000, 180_000_000).bin_bytes(size) == bytes_


def test_sizes_that_make_every_new_file_a_candidate_are_wrong_usage():
    with pytest.raises(UsageError, match=r"--min-file-size` \(100 B\) is not below the target"):
        sizes_of(100, 100, None)
    with pytest.raises(UsageError, match=r"--max-file-size` \(100 B\) is not above the target"):
        sizes_of(100, None, 100)


def test_small_bins_are_merged_as_long_as_a_file_may_hold_them():
    sizes = Sizes(100_000, 75_000, 180_000)
    assert sizes.bins([60_000, 60_000, 60_000]) == [[0, 1], [2]]
    assert sizes.bins([72_000, 72_000]) == [[0], [1]]
    assert sizes.bins([70_000, 70_000]) == [[0, 1]]


@given(st.lists(st.integers(1, 140), min_size=1, max_size=60))
def test_no_two_small_bins_would_fit_one_file(weights):
    sizes = Sizes(100, 75, 180)
    bins = sizes.bins(weights)
    assert sorted(at for bin_ in bins for at in bin_) == list(range(len(weights)))
    filled = sorted(sum(weights[at] for at in bin_) for bin_ in bins)
    if len(filled) > 1 and filled[0] < sizes.smallest:
        assert filled[0] + filled[1] > sizes.roll


@pytest.mark.parametrize(
    ("size", "parts", "roll"), [(140, 1, 140), (141, 2, 75), (280, 2, 140), (1000, 8, 132)]
)
def test_a_large_bin_becomes_files_of_about_one_size(size, parts, roll):
    sizes = Sizes(100, 75, 180)
    assert (sizes.parts(size), sizes.roll_of(size)) == (parts, roll)
