"""Values of columns as numpy sees them."""

import time

import numpy as np
import pytest

from icectl.entries.columns.values import distinct_count


@pytest.mark.parametrize(
    ("values", "count"), [([], 0), ([7], 1), ([3, 1, 3, 3, 2, 1], 3), ([0, 2**64 - 1, 0], 2)]
)
def test_each_value_counts_once(values: list[int], count: int) -> None:
    assert distinct_count(np.array(values, np.uint64)) == count


def test_counting_millions_of_hashes_takes_little_longer_than_sorting_them() -> None:
    hashes = np.random.default_rng(5).integers(0, 2**64, 4_000_000, np.uint64)
    start = time.process_time()
    np.sort(hashes)
    sorting = time.process_time() - start
    start = time.process_time()
    assert distinct_count(hashes) == 4_000_000
    assert time.process_time() - start < 4 * sorting + 0.1
