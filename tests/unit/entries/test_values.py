"""Values of columns as numpy sees them."""

import time

import numpy as np
import pyarrow as pa
import pytest

from icectl.entries.columns.values import distinct_count, mask_of, whole


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


@pytest.mark.parametrize("pieces", [[], [[1, 2]], [[1], [], [2]]])
def test_a_column_in_pieces_becomes_one(pieces: list[list[int]]) -> None:
    column = whole(pa.chunked_array(pieces, pa.int8()))
    assert isinstance(column, pa.Array)
    assert (column.type, column.to_pylist()) == (
        pa.int8(),
        [one for piece in pieces for one in piece],
    )


def test_flags_that_are_null_are_false() -> None:
    flags = pa.array([True, None, False])
    assert mask_of(flags).tolist() == [True, False, False]
    assert mask_of(pa.chunked_array([flags[:1], flags])).tolist() == [True, True, False, False]
    assert mask_of(pa.chunked_array([], pa.bool_())).tolist() == []
