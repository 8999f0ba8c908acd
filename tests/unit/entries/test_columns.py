"""Columns as numpy sees them; hashes against the published algorithm, one string at a time."""

import time

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from icectl.entries.columns import (
    LOCATION_HASH,
    Spans,
    byte_hashes,
    byte_strings,
    distinct_count,
    mask_of,
    not_text,
    packed,
    whole,
    with_location_hashes,
)


@pytest.mark.parametrize(
    ("values", "count"), [([], 0), ([7], 1), ([3, 1, 3, 3, 2, 1], 3), ([0, 2**64 - 1, 0], 2)]
)
def test_each_value_counts_once(values, count):
    assert distinct_count(np.array(values, np.uint64)) == count


def test_counting_millions_of_hashes_takes_little_longer_than_sorting_them():
    hashes = np.random.default_rng(5).integers(0, 2**64, 4_000_000, np.uint64)
    start = time.process_time()
    np.sort(hashes)
    sorting = time.process_time() - start
    start = time.process_time()
    assert distinct_count(hashes) == 4_000_000
    assert time.process_time() - start < 4 * sorting + 0.1


@pytest.mark.parametrize("pieces", [[], [[1, 2]], [[1], [], [2]]])
def test_a_column_in_pieces_becomes_one(pieces):
    column = whole(pa.chunked_array(pieces, pa.int8()))
    assert isinstance(column, pa.Array)
    assert (column.type, column.to_pylist()) == (
        pa.int8(),
        [one for piece in pieces for one in piece],
    )


def test_flags_that_are_null_are_false():
    flags = pa.array([True, None, False])
    assert mask_of(flags).tolist() == [True, False, False]
    assert mask_of(pa.chunked_array([flags[:1], flags])).tolist() == [True, True, False, False]
    assert mask_of(pa.chunked_array([], pa.bool_())).tolist() == []


def spans(*values: bytes) -> Spans:
    """The values with a byte between them, so that none stands where a number would be aligned."""
    lengths = np.array([len(value) for value in values], np.int64)
    starts = np.cumsum(lengths + 1) - lengths
    content = np.frombuffer(b"".join(b"\xee" + value for value in values), np.uint8)
    return Spans(content, starts, lengths)


def test_numbers_at_any_byte():
    found = spans(b"\x01\0\0\0", b"\xff\xff\xff\xff", b"ab", b"\x02\0\0\0")
    assert found.numbers(np.array([3, 0, 1]), "<i4").tolist() == [2, 1, -1]
    assert found.numbers(np.array([], np.int64), "<i8").tolist() == []
    assert spans(b"").numbers(np.array([], np.int64), "<i8").tolist() == []


def test_values_are_cut_out_of_the_content():
    assert packed(spans(b"ab", b"", b"c")).to_pylist() == [b"ab", b"", b"c"]
    assert packed(spans()).to_pylist() == []


@given(st.lists(st.integers(-(2**127), 2**127 - 1), min_size=1), st.integers(0, 3))
def test_decimals_are_what_python_makes_of_them(values, spare):
    lengths = [min(value.bit_length() // 8 + 1 + spare, 16) for value in values]
    stored = [
        value.to_bytes(length, "big", signed=True)
        for value, length in zip(values, lengths, strict=True)
    ]
    high, low = spans(*stored).decimals(np.arange(len(values)))
    assert [int(top) * 2**64 + int(rest) for top, rest in zip(high, low, strict=True)] == values


@pytest.mark.parametrize(
    ("values", "wrong"),
    [
        ([b"a", "é".encode(), b""], [False, False, False]),
        ([b"a", b"\xff", None, b"\xc3"], [False, True, False, True]),
        ([], []),
    ],
)
def test_not_text_is_what_does_not_decode(values, wrong):
    assert not_text(pa.array(values, pa.binary())).tolist() == wrong


def murmur_64a(content: bytes) -> int:
    """Austin Appleby's MurmurHash64A with seed 0, as MurmurHash2.cpp has it."""
    mask, factor = (1 << 64) - 1, 0xC6A4A7935BD1E995
    state = len(content) * factor & mask
    blocks = len(content) // 8
    for block in range(blocks):
        word = int.from_bytes(content[8 * block : 8 * block + 8], "little") * factor & mask
        word = (word ^ word >> 47) * factor & mask
        state = (state ^ word) * factor & mask
    if tail := content[8 * blocks :]:
        state = (state ^ int.from_bytes(tail, "little")) * factor & mask
    state = (state ^ state >> 47) * factor & mask
    return state ^ state >> 47


def hashes_of(strings: list[bytes]) -> list[int]:
    return byte_hashes(byte_strings(pa.array(strings, pa.binary()))).tolist()


def test_strings_of_every_length_have_the_published_hash():
    strings = [bytes(range(1, length + 1)) for length in range(60)]
    assert hashes_of(strings) == [murmur_64a(string) for string in strings]


def test_a_hash_does_not_depend_on_the_strings_beside_it():
    strings = [b"long " * 40, b"", b"short", b"x" * 7, b"x" * 8, b"\xff" * 9]
    alone = [hashes_of([string])[0] for string in strings]
    assert hashes_of(strings) == alone
    assert hashes_of(strings[::-1]) == alone[::-1]
    assert byte_hashes(byte_strings(pa.array(strings)[2:4])).tolist() == alone[2:4]


def test_no_strings_have_no_hashes():
    assert hashes_of([]) == []


@pytest.mark.parametrize("form", ["{0:08d}", "{0:05d}-{1}-uuid-{0:05d}.parquet", "{1}/{0:x}"])
def test_names_that_differ_in_few_digits_have_different_hashes(form):
    names = [form.format(number, number % 7).encode() for number in range(200_000)]
    assert len(np.unique(hashes_of(names))) == len(names)


def test_locations_give_way_to_their_hashes_row_by_row():
    texts = pa.chunked_array([["s3://b/1", "s3://b/2"], [], ["é"]], pa.string())
    table = pa.table({"status": [1, 1, 0], "location": texts, "manifest": [0, 0, 1]})
    hashed = with_location_hashes(table)
    assert hashed.column_names == ["status", LOCATION_HASH, "manifest"]
    assert hashed[LOCATION_HASH].to_pylist() == [
        murmur_64a(text.encode()) for text in ("s3://b/1", "s3://b/2", "é")
    ]
    assert with_location_hashes(table.slice(0, 0))[LOCATION_HASH].to_pylist() == []
