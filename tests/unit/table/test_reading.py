"""Reading files in threads: in order, several small ones at once."""

import threading

import pytest

from icectl.errors import CorruptTable, MissingFile, StorageError, Unsupported
from icectl.storage.failures import ACCESS_DENIED, NOT_A_FILE
from icectl.table.reading import in_threads, read_in_threads, read_or_none, streamed_in_threads


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
        FileNotFoundError("a"), MissingFile("a"), CorruptTable("damaged", rule="R-008"),
        Unsupported("encrypted"), StorageError("denied", id=ACCESS_DENIED),
        StorageError("a folder", id=NOT_A_FILE),
    ],
)  # fmt: skip
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


def counting(number, up_to, started=None):
    """A source of some items, each with its number."""

    def items():
        for at in range(up_to):
            if started is not None:
                started.append((number, at))
            yield number, at

    return items


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("most_bytes", [1, 1_000])
def test_streams_come_in_order_whatever_waits(threads, most_bytes):
    lengths = [3, 0, 40, 1, 7, 0]
    sources = [counting(number, length) for number, length in enumerate(lengths)]
    found = streamed_in_threads(sources, lambda _: 10, threads=threads, most_bytes=most_bytes)
    assert list(found) == [
        (number, at) for number, length in enumerate(lengths) for at in range(length)
    ]


def test_streams_wait_for_whoever_takes_their_items():
    started: list[tuple[int, int]] = []
    sources = [counting(number, 1_000, started) for number in range(4)]
    found = streamed_in_threads(sources, lambda _: 10, threads=2, most_bytes=100)
    assert next(found) == (0, 0)
    found.close()
    assert len(started) <= 2 * (5 + 2) + 1  # five wait in each of two, one is held, one was taken
    assert {number for number, _ in started} <= {0, 1}


def test_an_error_of_a_stream_comes_behind_the_items_before_it():
    def broken():
        yield 1
        raise CorruptTable("damaged", rule="R-099")

    found = streamed_in_threads([broken, broken], lambda _: 1, threads=2, most_bytes=10)
    assert next(found) == 1
    with pytest.raises(CorruptTable, match="damaged"):
        next(found)
