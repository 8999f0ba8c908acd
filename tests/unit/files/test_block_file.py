"""Files that are read in blocks."""

import io
import itertools

import pytest

from icectl.files.block_file import BlockFile

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
    [(0, 1), (0, MIB), (MIB - 1, 2), (5, 2 * MIB), (2 * MIB, MIB), (0, -1), (7, -1), (9 * MIB, 5)],
)
def test_reads_give_the_bytes_of_the_file(start, size) -> None:
    file = BlockFile(io.BytesIO(CONTENT))
    assert file.seek(start) == start
    end = len(CONTENT) if size < 0 else start + size
    assert file.read(size) == CONTENT[start:end]
    assert file.tell() == min(end, len(CONTENT))


def test_positions_count_from_the_start_from_here_and_from_the_end() -> None:
    file = BlockFile(io.BytesIO(CONTENT))
    assert (file.readable(), file.seekable()) == (True, True)
    assert file.seek(-4, io.SEEK_END) == len(CONTENT) - 4
    assert file.read(2) == CONTENT[-4:-2]
    assert file.seek(1, io.SEEK_CUR) == len(CONTENT) - 1
    assert file.read() == CONTENT[-1:]
    assert file.read() == b""


def test_no_block_is_read_twice_before_it_is_forgotten() -> None:
    stored = Watched(CONTENT)
    file = BlockFile(stored)
    for start in (MIB + 5, MIB + 1, MIB + 300):
        file.seek(start)
        file.read(10)
    assert stored.reads == [(MIB, MIB)]
    file.seek(0)
    file.read()
    assert stored.reads == [(MIB, MIB), (0, MIB), (2 * MIB, MIB)]
    file.forget()
    file.seek(0)
    file.read()
    assert stored.reads[3:] == [(0, 3 * MIB)]


def test_with_a_bound_the_blocks_stay_that_were_asked_for_last() -> None:
    watched = Watched(CONTENT)
    file = BlockFile(watched).with_most(2)
    for start in (0, MIB, 0, 2 * MIB, 0, MIB):
        file.seek(start)
        assert file.read(3) == CONTENT[start : start + 3]
    assert [start for start, size in watched.reads if size] == [0, MIB, 2 * MIB, MIB]
    file.seek(0)
    assert file.read() == CONTENT
