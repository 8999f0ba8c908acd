"""64-bit hashes of byte strings, against the published algorithm, one string at a time."""

import numpy as np
import pyarrow as pa
import pytest

from icectl.entries.columns import LOCATION_HASH, byte_hashes, byte_strings, with_location_hashes


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
