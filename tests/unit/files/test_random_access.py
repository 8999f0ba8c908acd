"""The base of files that are read at any place."""

import io

import pytest

from icectl.files.random_access import RandomAccessFile

CONTENT = bytes(range(10))


class Digits(RandomAccessFile):
    """Ten bytes, of which a read gives four at most."""

    def __init__(self):
        super().__init__(len(CONTENT))
        self.asked = []

    def read_at(self, offset, length):
        self.asked.append((offset, length))
        return CONTENT[offset : offset + min(length, 4)]


def test_reads_go_on_where_the_last_one_ended():
    file = Digits()
    assert (file.readable(), file.seekable(), file.writable()) == (True, True, False)
    assert file.read(6) == CONTENT[:4]
    assert file.tell() == 4
    assert io.BufferedReader(file).read() == CONTENT[4:]
    assert file.read(1) == b""
    assert file.asked == [(0, 6), (4, 6), (8, 2)]


@pytest.mark.parametrize(
    ("offset", "whence", "place"),
    [(3, 0, 3), (-1, 0, 0), (2, 1, 7), (-9, 1, 0), (-2, 2, 8), (5, 2, 15), (-11, 2, 0)],
)
def test_places_count_from_the_start_from_here_and_from_the_end(offset, whence, place):
    file = Digits()
    file.seek(5)
    assert file.seek(offset, whence) == place
    assert file.tell() == place
    assert file.read(2) == CONTENT[place : place + 2]
