"""Bare 32-bit Roaring bitmaps: the bytes that the version 4 paper lists, and damage."""

import numpy as np
import pytest

from icectl.errors import CorruptTable
from icectl.files.deletion_vectors import read_bitmap, write_bitmap, write_dv

# sfc-1 6.4.
INLINE = [
    ([0], "3a300000 01000000 00000000 10000000 0000"),
    ([1], "3a300000 01000000 00000000 10000000 0100"),
    ([0, 1], "3a300000 01000000 00000100 10000000 0000 0100"),
    ([0, 1, 2], "3a300000 01000000 00000200 10000000 0000 0100 0200"),
    ([0, 65536], "3a300000 02000000 00000000 01000000 18000000 1a000000 0000 0000"),
    (list(range(1000)), "3b300000 01 0000e703 0100 0000 e703"),
]
BLOBS = [
    ([1], "00000022 d1d33964 0100000000000000 00000000" + INLINE[1][1] + "eebd85f4"),
    ([0, 1], "00000024 d1d33964 0100000000000000 00000000" + INLINE[2][1] + "e2be924e"),
    ([0, 1, 2], "00000026 d1d33964 0100000000000000 00000000" + INLINE[3][1] + "748ad0d0"),
    (
        [5, 12],
        (
            "00000024 d1d33964 0100000000000000 00000000"
            "3a300000 01000000 00000100 10000000 0500 0c00 60ce1c31"
        ),
    ),
]


@pytest.mark.parametrize(("positions", "text"), INLINE)
def test_bitmaps_have_the_bytes_of_the_paper(positions, text):
    assert write_bitmap(positions) == bytes.fromhex(text)
    assert read_bitmap(bytes.fromhex(text)).tolist() == positions


@pytest.mark.parametrize(("positions", "text"), BLOBS)
def test_blobs_have_the_bytes_of_the_paper(positions, text):
    assert write_dv(positions) == bytes.fromhex(text)


def test_the_order_and_repetition_of_positions_do_not_matter():
    assert write_bitmap([2, 0, 1, 1]) == write_bitmap([0, 1, 2])


def test_a_dense_container_is_a_bitset():
    positions = np.arange(0, 65536, 2)
    content = write_bitmap(positions)
    assert len(content) == 16 + 8192
    assert read_bitmap(content).tolist() == positions.tolist()


@pytest.mark.parametrize(
    "damaged",
    [
        b"",
        bytes.fromhex(INLINE[0][1]) + b"\x00",
        bytes.fromhex(INLINE[0][1])[:-1],
        bytes.fromhex(INLINE[2][1].replace("0000 0100", "0100 0000")),
        bytes.fromhex("ffffffff 01000000 00000000 10000000 0000"),
    ],
    ids=["empty", "trailing byte", "cut short", "falling values", "cookie"],
)
def test_v4_082_a_damaged_bitmap_is_refused(damaged):
    with pytest.raises(CorruptTable) as caught:
        read_bitmap(damaged)
    assert caught.value.rule == "V4-082"
