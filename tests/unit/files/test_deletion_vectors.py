import struct
import tracemalloc
import zlib

import numpy as np
import pytest

from icectl.errors import CorruptTable
from icectl.files import deletion_vectors as dv
from icectl.files import puffin
from icectl.files.deletion_vectors import BLOB_TYPE, read_bitmap, write_bitmap, write_dv

BITMAP_1_2_3 = bytes.fromhex("3a300000010000000000020010000000010002000300")
"""{1, 2, 3} as one array container, by the portable Roaring specification."""

RUN_5_TO_9 = bytes.fromhex("3b3000000100000400010005000400")
"""{5, …, 9} as one run container: no offsets below four containers."""


def bitmap64(*parts: tuple[int, bytes]) -> bytes:
    return struct.pack("<Q", len(parts)) + b"".join(
        struct.pack("<I", key) + bitmap for key, bitmap in parts
    )


def blob_of(bitmap: bytes, magic: bytes = bytes.fromhex("d1d33964")) -> bytes:
    vector = magic + bitmap
    return struct.pack(">I", len(vector)) + vector + struct.pack(">I", zlib.crc32(vector))


def container(key: int, values: bytes, cardinality: int) -> bytes:
    """A bitmap of one container that is no run."""
    return struct.pack("<IIHHI", 12346, 1, key, cardinality - 1, 16) + values


def test_vectors_of_many_positions_take_little_more_memory_than_these():
    positions = np.flatnonzero(np.random.default_rng(1).random(2_000_000) < 0.3)
    tracemalloc.start()
    try:
        vector = write_dv(positions)
        of_writing = tracemalloc.get_traced_memory()[1]
        tracemalloc.reset_peak()
        read = dv.read_dv(vector, len(positions))
        of_reading = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert np.array_equal(read, positions)
    assert of_writing < 2 * len(positions)
    assert of_reading < 13 * len(positions)


def test_positions_are_written_part_by_part(monkeypatch):
    positions = [9, 1 << 40, 3, 3, 70_000, 1]
    whole = write_dv(positions)
    monkeypatch.setattr(dv, "_AT_ONCE", 2)
    assert write_dv(np.array(positions)) == whole
    assert dv.read_dv(whole).tolist() == sorted(set(positions))


def test_r119_an_array_container_is_read():
    assert dv.read_dv(blob_of(bitmap64((0, BITMAP_1_2_3)))).tolist() == [1, 2, 3]


def test_r119_a_run_container_is_read():
    assert dv.read_dv(blob_of(bitmap64((0, RUN_5_TO_9)))).tolist() == [5, 6, 7, 8, 9]


def test_r119_a_bitset_container_is_read():
    odd = list(range(1, 65536, 2))
    content = bitmap64((0, container(2, b"\xaa" * 8192, len(odd))))
    assert dv.read_positions(content).tolist() == [(2 << 16) + number for number in odd]


def test_positions_beyond_32_bits_carry_the_key_of_their_bitmap():
    content = bitmap64((0, BITMAP_1_2_3), (1, RUN_5_TO_9), (0x7FFFFFFF, BITMAP_1_2_3))
    high = 0x7FFFFFFF << 32
    expected = [1, 2, 3, *((1 << 32) + number for number in range(5, 10))]
    assert dv.read_positions(content).tolist() == [*expected, high + 1, high + 2, high + 3]


def test_empty_bitmaps_between_others_are_read_as_the_reference_writes_them():
    content = bitmap64((0, bytes.fromhex("3a30000000000000")), (1, BITMAP_1_2_3))
    assert dv.read_positions(content).tolist() == [(1 << 32) + number for number in (1, 2, 3)]


def test_a_vector_without_positions_is_written_as_the_reference_writes_it():
    written = bytes.fromhex("0000000cd1d339640000000000000000bf18480c")
    assert dv.write_dv([]) == written
    assert dv.read_dv(written).tolist() == []
    assert dv.read_dv(written).dtype == np.uint64


def test_positions_are_written_sorted_and_once():
    assert dv.write_dv([3, 1, 2, 1]) == dv.write_dv(np.array([1, 2, 3], dtype=np.uint64))
    assert dv.read_dv(dv.write_dv([3, 1, 2, 1])).tolist() == [1, 2, 3]


def test_long_runs_are_written_as_runs():
    blob = dv.write_dv(np.arange(1_000_000, dtype=np.uint64))
    assert len(blob) < 400
    assert np.array_equal(dv.read_dv(blob), np.arange(1_000_000, dtype=np.uint64))


def test_a_position_with_the_sign_bit_is_refused():
    with pytest.raises(ValueError, match=str(1 << 63)):
        dv.write_dv(np.array([1 << 63], dtype=np.uint64))


def test_r119_a_blob_says_its_data_file_and_cardinality():
    new = dv.dv_blob([4, 4, 9], "s3://bucket/a.parquet")
    (blob,) = puffin.read_puffin(puffin.write_puffin([new], {})).blobs
    assert blob.type == "deletion-vector-v1" == BLOB_TYPE
    assert (blob.snapshot_id, blob.sequence_number) == (-1, -1)
    assert blob.compression_codec is None
    assert blob.properties == {"referenced-data-file": "s3://bucket/a.parquet", "cardinality": "2"}
    assert dv.read_dv(new.content).tolist() == [4, 9]


def test_r118_cardinality_must_be_what_the_manifest_says():
    positions = dv.read_dv(dv.write_dv([1, 2]))
    dv.check_cardinality(positions, 2)
    with pytest.raises(CorruptTable, match="2 positions where 3") as caught:
        dv.check_cardinality(positions, 3)
    assert caught.value.rule == "R-118"


GOOD = blob_of(bitmap64((0, BITMAP_1_2_3)))


@pytest.mark.parametrize(
    "blob",
    [
        b"",
        GOOD[:19],
        GOOD[:-1],
        GOOD + b"\x00",
        struct.pack(">I", len(GOOD)) + GOOD[4:],
        GOOD[:-1] + bytes([GOOD[-1] ^ 1]),
        GOOD[:20] + b"\x01" + GOOD[21:],
        blob_of(bitmap64((0, BITMAP_1_2_3)), magic=bytes.fromhex("d1d33965")),
    ],
)
def test_r119_a_blob_with_a_wrong_frame_is_corrupt(blob):
    with pytest.raises(CorruptTable) as caught:
        dv.read_dv(blob)
    assert caught.value.rule == "R-119"


@pytest.mark.parametrize(
    "bitmap",
    [
        b"",
        bytes(7),
        struct.pack("<Q", 1),
        struct.pack("<Q", 1 << 63),
        bitmap64((0, b"")),
        bitmap64((0, struct.pack("<I", 12345) + bytes(12))),
        bitmap64((0, BITMAP_1_2_3)) + b"\x00",
        bitmap64((0, BITMAP_1_2_3[:-1])),
        bitmap64((1, BITMAP_1_2_3), (1, BITMAP_1_2_3)),
        bitmap64((1, BITMAP_1_2_3), (0, BITMAP_1_2_3)),
        bitmap64((1 << 31, BITMAP_1_2_3)),
        bitmap64((0, struct.pack("<II", 12346, 1 << 31))),
        bitmap64((0, container(0, struct.pack("<HH", 5, 5), 2))),
        bitmap64((0, container(0, struct.pack("<HH", 6, 5), 2))),
        bitmap64((0, container(0, b"\xff" * 8192, 5000))),
        bitmap64((0, struct.pack("<IIHHHHII", 12346, 2, 1, 0, 1, 0, 0, 0) + bytes(4))),
        bitmap64((0, bytes.fromhex("3b30000001000004000000"))),
        bitmap64((0, bytes.fromhex("3b3000000100000500010005000400"))),
        bitmap64((0, bytes.fromhex("3b30000001000004000100ffff0400"))),
        bitmap64((0, bytes.fromhex("3b300000010000030002000500010006000100"))),
    ],
)
def test_r119_a_damaged_bitmap_is_corrupt(bitmap):
    with pytest.raises(CorruptTable) as caught:
        dv.read_positions(bitmap)
    assert caught.value.rule == "R-119"


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
