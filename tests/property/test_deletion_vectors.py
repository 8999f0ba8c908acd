"""Deletion vectors against pyroaring, and against damage."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap64

from icectl.errors import CorruptTable
from icectl.files import deletion_vectors as dv

RANGES = st.tuples(
    st.sampled_from(
        [0, 65_530, 1 << 17, (1 << 32) - 5, 1 << 32, (1 << 40) + 7, (1 << 63) - 10_000]
    ),
    st.integers(1, 9_000),
    st.sampled_from([1, 2, 3, 17]),
)


def positions_of(ranges: list[tuple[int, int, int]]) -> list[int]:
    chosen = {
        number
        for start, count, step in ranges
        for number in range(start, start + count * step, step)
        if number < 1 << 63
    }
    return sorted(chosen)


@given(st.lists(RANGES, max_size=3), st.booleans())
def test_every_bitmap_of_pyroaring_is_read(ranges, optimised):
    expected = positions_of(ranges)
    bitmap = BitMap64(expected)
    if optimised:
        bitmap.run_optimize()
    assert dv.read_positions(bitmap.serialize()).tolist() == expected


@given(st.lists(st.integers(0, (1 << 63) - 1), max_size=50))
def test_what_is_written_is_read_back_sorted_and_once(numbers):
    assert dv.read_dv(dv.write_dv(np.array(numbers, dtype=np.uint64))).tolist() == sorted(
        set(numbers)
    )


@given(st.lists(RANGES, min_size=1, max_size=2), st.data())
def test_damage_is_corrupt_or_still_a_set_of_positions(ranges, data):
    content = bytearray(BitMap64(positions_of(ranges)).serialize())
    place = data.draw(st.integers(0, min(len(content), 200) - 1))
    content[place] ^= data.draw(st.integers(1, 255))
    try:
        positions = dv.read_positions(bytes(content))
    except CorruptTable:
        return
    assert (positions[1:] > positions[:-1]).all()
