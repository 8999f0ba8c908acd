"""The tail of ORC files, put together by hand, and files that are read in blocks."""

import io
import itertools

import pytest

from icectl.errors import CorruptTable
from icectl.files.orc import BlockFile, ColumnStatistics, OrcTail, Stripe, read_tail


def varint(value):
    encoded = b""
    while value >= 0x80:
        encoded += bytes([value & 0x7F | 0x80])
        value >>= 7
    return encoded + bytes([value])


def number(place, value):
    return varint(place << 3) + varint(value)


def message(place, *members):
    content = b"".join(members)
    return varint(place << 3 | 2) + varint(len(content)) + content


def tail(*members):
    return message(1, number(1, 9)) + message(2, *members) + number(3, 1000)


def statistics(*members):
    return read_tail(tail(message(7, *members))).columns[0]


def test_stripes_have_an_offset_and_rows():
    stripes = [
        message(3, number(1, 3), number(2, 20), number(5, 1000)),
        message(3, number(1, 300), number(5, 7)),
    ]
    assert read_tail(tail(*stripes)) == OrcTail((Stripe(3, 1000), Stripe(300, 7)), ())


def test_statistics_have_counts_and_bounds():
    integers = message(2, number(1, 5), number(2, 6), number(3, 1))
    assert statistics(number(1, 10), number(10, 0), integers) == ColumnStatistics(10, False, -3, 3)
    strings = message(4, message(1, b"a"), message(2, b"b"))
    assert statistics(number(10, 1), strings) == ColumnStatistics(None, True, b"a", b"b")
    decimals = message(6, message(1, b"1.5"), message(2, b"2"))
    assert statistics(number(1, 1), decimals) == ColumnStatistics(1, True, b"1.5", b"2")
    dates = message(7, number(1, 1), number(2, 2))
    assert statistics(number(1, 1), dates) == ColumnStatistics(1, True, -1, 1)


def test_bounds_that_are_not_both_there_and_other_kinds_are_left_out():
    fixed = varint(98 << 3 | 1) + b"\0" * 8 + varint(99 << 3 | 5) + b"\0" * 4
    assert statistics(fixed, number(1, 4), message(3, b"x" * 9)) == ColumnStatistics(4, True)
    assert statistics(message(2, number(1, 5))) == ColumnStatistics(None, True)


@pytest.mark.parametrize(
    "damaged",
    [
        number(2, 1), tail(message(3, message(1, b"x"))), tail(number(3, 1)),
        tail(varint(3 << 3 | 2) + b"\x05"), tail(varint(3 << 3 | 4)), tail(b"\xff" * 12),
        tail(b"\x18"),
    ],
)  # fmt: skip
def test_r099_a_damaged_tail_is_told(damaged):
    with pytest.raises(CorruptTable, match="its footer"):
        read_tail(damaged)


def test_bytes_of_all_strings_are_told_together():
    told = message(4, message(1, b"a"), message(2, b"b"), number(3, 2 * 70))
    assert statistics(number(1, 1), told) == ColumnStatistics(1, True, b"a", b"b", 70)
    assert statistics(number(1, 1), message(8, number(1, 2 * 9))).total_bytes == 9
    assert statistics(number(1, 1), message(4, number(3, 2 * 9 - 1))).total_bytes == 0  # below 0


MIB = 2**20
CONTENT = bytes(itertools.islice(itertools.cycle(range(251)), 5 * MIB // 2))


class Watched(io.BytesIO):
    """Remembers what was read of it."""

    def __init__(self, content):
        super().__init__(content)
        self.reads = []

    def read(self, size=-1):
        self.reads.append((self.tell(), size))
        return super().read(size)


@pytest.mark.parametrize(
    ("start", "size"),
    [(0, 1), (0, MIB), (MIB - 1, 2), (5, 2 * MIB), (2 * MIB, MIB), (0, -1), (7, -1)],
)
def test_reads_give_the_bytes_of_the_file(start, size):
    file = BlockFile(io.BytesIO(CONTENT))
    assert file.seek(start) == start
    end = len(CONTENT) if size < 0 else start + size
    assert file.read(size) == CONTENT[start:end]
    assert file.tell() == min(end, len(CONTENT))


def test_no_block_is_read_twice_before_it_is_forgotten():
    stored = Watched(CONTENT)
    file = BlockFile(stored)
    for start in (MIB + 5, MIB + 1, MIB + 300):
        file.seek(start)
        file.read(10)
    assert stored.reads == [(MIB, MIB)]
    file.seek(0)
    file.read(len(CONTENT))
    assert stored.reads == [(MIB, MIB), (0, MIB), (2 * MIB, MIB)]
    file.forget()
    file.seek(0)
    file.read(len(CONTENT))
    assert stored.reads[3:] == [(0, 3 * MIB)]


def test_with_a_bound_the_blocks_stay_that_were_asked_for_last():
    watched = Watched(CONTENT)
    file = BlockFile(watched).with_most(2)
    for start in (0, MIB, 0, 2 * MIB, 0, MIB):
        file.seek(start)
        assert file.read(3) == CONTENT[start : start + 3]
    assert [start for start, size in watched.reads if size] == [0, MIB, 2 * MIB, MIB]
    file.seek(0)
    assert file.read() == CONTENT
