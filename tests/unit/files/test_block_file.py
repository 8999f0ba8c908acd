"""Files that are read in blocks."""

import io
import itertools

import pytest

from icectl.files.orc import BlockFile

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
