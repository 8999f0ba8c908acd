"""Reading files in threads: in order, several small ones at once."""

import threading

import pytest

from icectl.errors import CorruptTable, MissingFile, StorageError, Unsupported
from icectl.storage.failures import ACCESS_DENIED, NOT_A_FILE
from icectl.table.reading import in_threads, read_in_threads, read_or_none


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("count", [0, 1, 11, 200])
def test_results_come_in_order_however_many_a_thread_reads(threads, count):
    found = read_in_threads(lambda n: n * n, range(count), [1] * count, threads=threads)
    assert list(found) == [n * n for n in range(count)]


def read_by(count: int, size: int) -> list[int]:
    """The files that two threads have read when the first one is taken and no more are wanted."""
    started: list[int] = []

    def read(number: int) -> int:
        started.append(number)
        return number

    found = read_in_threads(read, range(count), [size] * count, threads=2)
    assert next(found) == 0
    found.close()
    return started


def test_a_thread_reads_small_files_in_a_row_and_large_ones_alone():
    assert len(read_by(400, 1)) >= 16
    assert len(read_by(400, 60 * 2**20)) <= 2


def test_an_error_of_one_file_ends_the_reading():
    def read(number: int) -> int:
        if number == 70:
            raise OSError("lost")
        return number

    before = threading.active_count()
    with pytest.raises(OSError, match="lost"):
        list(read_in_threads(read, range(100), [1] * 100, threads=2))
    assert threading.active_count() == before


def test_work_runs_ahead_by_twice_the_threads():
    started: list[int] = []

    def work(number: int) -> int:
        started.append(number)
        return number

    done = in_threads(work, range(100), [1] * 100, threads=2)
    assert next(done) == 0
    done.close()
    assert len(started) <= 5


@pytest.mark.parametrize(
    "error",
    [
        FileNotFoundError("a"),
        MissingFile("a"),
        CorruptTable("damaged", rule="R-008"),
        Unsupported("encrypted"),
        StorageError("denied", id=ACCESS_DENIED),
        StorageError("a folder", id=NOT_A_FILE),
    ],
)
def test_what_is_wrong_with_one_file_is_none(error):
    def read() -> bytes:
        raise error

    assert read_or_none(read) is None


def test_what_is_wrong_with_the_store_is_raised():
    def read() -> bytes:
        raise StorageError("no route to host")

    with pytest.raises(StorageError, match="no route"):
        read_or_none(read)
    assert read_or_none(lambda: b"a") == b"a"
