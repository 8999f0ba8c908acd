"""Golden packings: those of the reference implementation's own tests (TestBinPacking)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from icectl.table.binpack import pack

UNLIMITED = 10**9


def packed(weights: list[int], capacity: int, lookback: int = UNLIMITED) -> list[list[int]]:
    return [[weights[at] for at in bin_] for bin_ in pack(weights, capacity, lookback)]


@pytest.mark.parametrize(
    ("capacity", "bins"),
    [
        (3, [[1, 2], [3], [4], [5]]),
        (5, [[1, 2], [3], [4], [5]]),
        (6, [[1, 2, 3], [4], [5]]),
        (8, [[1, 2, 3], [4], [5]]),
        (9, [[1, 2, 3], [4, 5]]),
        (10, [[1, 2, 3, 4], [5]]),
        (14, [[1, 2, 3, 4], [5]]),
        (15, [[1, 2, 3, 4, 5]]),
    ],
)
def test_things_go_into_the_first_bin_with_room(capacity, bins) -> None:
    assert packed([1, 2, 3, 4, 5], capacity) == bins


@pytest.mark.parametrize(
    ("lookback", "bins"),
    [
        (UNLIMITED, [[5, 1, 1, 1], [5], [5]]),
        (2, [[5, 1, 1], [5, 1], [5]]),
        (1, [[5, 1], [5, 1], [5, 1]]),
    ],
)
def test_as_many_bins_stay_open_as_one_looks_back_to(lookback, bins) -> None:
    assert packed([5, 1, 5, 1, 5, 1], 8, lookback) == bins


@pytest.mark.parametrize(
    ("weights", "bins"),
    [
        ([32, 32, 32, 32, 64, 64, 128], [[32, 32, 32, 32], [64, 64], [128]]),
        ([128, 64, 64, 32, 32, 32, 32], [[128], [64, 64], [32, 32, 32, 32]]),
    ],
)
def test_with_one_open_bin_things_stay_side_by_side(weights, bins) -> None:
    assert packed(weights, 128, 1) == bins


def test_a_thing_heavier_than_a_bin_has_one_of_its_own() -> None:
    assert packed([2, 9, 2], 4) == [[2, 2], [9]]


def test_nothing_makes_no_bin() -> None:
    assert packed([], 4) == []


@given(st.lists(st.integers(0, 40), max_size=40), st.integers(1, 50), st.integers(1, 5))
def test_each_thing_is_packed_once_and_bins_hold_what_they_can(weights, capacity, lookback) -> None:
    bins = pack(weights, capacity, lookback)
    assert sorted(at for bin_ in bins for at in bin_) == list(range(len(weights)))
    for bin_ in bins:
        assert bin_ == sorted(bin_)
        assert len(bin_) == 1 or sum(weights[at] for at in bin_) <= capacity
