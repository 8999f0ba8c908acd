"""Mumbling bitmaps: the specification's examples, every container, and damage."""

import random
from contextlib import suppress

import numpy as np
import pytest

from icectl.codec.draft_16025.mumbling import MAX_POSITIONS, read_mumbling, write_mumbling
from icectl.codec.draft_16025.pfor import decode_bytes, encode_bytes
from icectl.errors import CorruptTable

EXAMPLES = [
    ("00 00 00", [0] * 256),
    ("00 00 05", [5] * 51),
    ("80 02 00 04 07 FF FE", [0, 0, 0, 0, 0xFF, 0, 0, 0xFE]),
    ("02 00 06 18", [6, 7, 8]),
    ("32 01 06 09 01 E0", [6, 34, 8, 7]),
]
"""Appendix A of the specification: bytes, and the values that they encode."""

BITMAPS = [
    ([], "01 000000 0000"),
    ([0, 34, 255], "01 030000 0100 00 00 03 00 22 FF"),
    (range(31), f"01 1F0000 0100 00 00 1F {bytes(range(31)).hex()}"),
    (range(32), f"01 200000 0100 00 00 20 FFFFFFFF {'00' * 28}"),
    (range(33), f"01 210000 0100 00 00 20 FFFFFFFF80 {'00' * 27}"),
    ([*range(16), *range(240, 256)], f"01 200000 0100 00 00 20 FFFF {'00' * 28} FFFF"),
    (range(0, 256, 2), f"01 800000 0100 00 00 20 {'AA' * 32}"),
    ([256 * 3 + 1], "01 010000 0400 01 00 00 10 01"),
]
"""Positions, and bitmaps put together by hand from the specification's containers."""


@pytest.mark.parametrize(("encoded", "values"), EXAMPLES)
def test_descriptors_are_packed_as_the_specification_shows(encoded, values):
    stored = bytes.fromhex(encoded)
    assert encode_bytes(np.array(values, np.uint8)) == stored
    decoded, end = decode_bytes(b"xx" + stored + b"yy", 2, len(values))
    assert decoded.tolist() == values
    assert end == 2 + len(stored)


def test_values_as_wide_as_a_byte_are_stored_as_they_are():
    values = np.random.default_rng(3).integers(0, 256, 300).astype(np.uint8)
    stored = encode_bytes(values)
    assert stored[:3] == b"\x08\x00\x00"
    assert stored[3:259] == values[:256].tobytes()
    assert decode_bytes(stored, 0, 300)[0].tolist() == values.tolist()


@pytest.mark.parametrize(("positions", "encoded"), BITMAPS)
def test_bitmaps_have_the_bytes_of_the_specification(positions, encoded):
    stored = bytes.fromhex(encoded)
    assert write_mumbling(list(positions)) == stored
    assert read_mumbling(stored).tolist() == list(positions)


@pytest.mark.parametrize("density", [0.00001, 0.001, 0.05, 0.121, 0.3, 1.0])
def test_what_was_written_is_read_at_every_density(density):
    numbers = np.random.default_rng(7)
    positions = np.flatnonzero(numbers.random(MAX_POSITIONS // 16) < density)
    stored = write_mumbling(numbers.permutation(np.concatenate([positions, positions[:5]])))
    assert read_mumbling(stored).tolist() == positions.tolist()


def test_the_last_position_that_there_is_can_be_named_and_none_behind_it():
    assert read_mumbling(write_mumbling([MAX_POSITIONS - 1])).tolist() == [MAX_POSITIONS - 1]
    for wrong in (MAX_POSITIONS, -1):
        with pytest.raises(ValueError, match=str(wrong)):
            write_mumbling([wrong])


@pytest.mark.parametrize(
    ("encoded", "reason"),
    [
        ("01 0000", "shorter"),
        ("02 000000 0000", "version 2"),
        ("01 000000 0120", "8193 containers"),
        ("01 010000 0100", "descriptors are cut short"),
        ("01 010000 0100 09 00 00 00", "header of its descriptors makes no sense"),
        ("01 010000 0100 10 02 00 00 00 80", "header of its descriptors makes no sense"),
        ("01 010000 0200 10 01 00 05 80 00", "exceptions of its descriptors are not in order"),
        ("01 010000 0100 01 00 FF 80", "more than a byte"),
        ("01 010000 0100 00 00 40", "unknown type"),
        ("01 010000 0100 00 00 80", "unknown type"),
        ("01 030000 0100 00 00 03 00 22", "end elsewhere"),
        ("01 030000 0100 00 00 03 00 22 FF 00", "end elsewhere"),
        ("01 020000 0100 00 00 03 00 22 FF", "has 3 positions"),
        ("01 030000 0100 00 00 03 00 FF 22", "do not ascend"),
        ("01 030000 0100 00 00 03 00 22 22", "do not ascend"),
    ],
)
def test_v4_202_a_damaged_bitmap_says_what_is_wrong(encoded, reason):
    with pytest.raises(CorruptTable, match=reason) as caught:
        read_mumbling(bytes.fromhex(encoded))
    assert caught.value.rule == "V4-202"


def test_low_bits_of_a_dense_descriptor_mean_nothing():
    stored = bytes.fromhex(f"01 200000 0100 00 00 2A FFFFFFFF {'00' * 28}")
    assert read_mumbling(stored).tolist() == list(range(32))


@pytest.mark.parametrize("seed", range(20))
def test_no_damage_ends_in_anything_but_the_error(seed):
    chance = random.Random(seed)
    positions = chance.sample(range(chance.choice((40, 3000, 200_000))), 40)
    stored = write_mumbling(positions)
    for _ in range(60):
        damaged = bytearray(stored)
        for _ in range(chance.randint(1, 3)):
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        end = chance.choice((len(damaged), chance.randrange(len(damaged))))
        with suppress(CorruptTable):
            found = read_mumbling(bytes(damaged[:end]))
            assert (np.diff(found.astype(np.int64)) > 0).all()
