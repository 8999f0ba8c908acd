"""Read files that a table's metadata names, in parallel and in order, with bounded memory."""

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from threading import Condition
from typing import Generic, TypeVar

from icectl.errors import CorruptTable, MissingFile, OtherFile, StorageError, Unsupported
from icectl.storage.failures import ACCESS_DENIED, NOT_A_FILE
from icectl.storage.store import Store

_STORED_BYTES_IN_FLIGHT = 64 * 2**20
"""Manifest bytes, as stored, that may be read ahead of the consumer; inflated they are up to ten
times as much, which keeps a scan of any table well below 1 GiB."""

_MOST_AT_ONCE, _BYTES_AT_ONCE = 16, 2**20
"""Small files that one thread reads in a row: handing over each would cost more than reading it."""

_OF_ONE_FILE = frozenset({ACCESS_DENIED, NOT_A_FILE})
"""Ids of storage errors that say something of a file, not of the store."""

Problem = StorageError | CorruptTable | Unsupported
"""What can be wrong with one file."""

FileRead = bytes | MissingFile | StorageError
"""What reading a file has given: its bytes, or what is wrong with this one file."""

_Item = TypeVar("_Item")
_Done = TypeVar("_Done")


def read_file(store: Store, location: str) -> bytes:
    """Read a file that the table's metadata names. Raises: MissingFile; StorageError."""
    try:
        return store.read(location)
    except FileNotFoundError as error:
        raise MissingFile(location) from error


def try_file(store: Store, location: str) -> FileRead:
    """Read a file, or tell what is wrong with just it. Raises: StorageError of the store."""
    try:
        return read_file(store, location)
    except MissingFile as error:
        return error
    except StorageError as error:
        of_one_file(error)
        return error


def of_one_file(error: Problem) -> Problem:
    """Return what is wrong with one file. Raises: the error, where the store itself fails."""
    if isinstance(error, StorageError) and error.error_id not in _OF_ONE_FILE:
        raise error
    return error


def read_or_none(read: Callable[[], _Done]) -> _Done | None:
    """Read, or return None where a file is broken or gone. Raises: StorageError of the store."""
    try:
        return read()
    except FileNotFoundError:
        return None
    except (CorruptTable, Unsupported, StorageError) as error:
        of_one_file(error)
        return None


def raise_problem(problem: Problem) -> None:
    """Let no problem pass. Raises: the problem."""
    raise problem


def decode_file(location: str, decode: Callable[[], _Done]) -> _Done:
    """Run a decoder and name the file in what it raises."""
    with naming(location):
        return decode()


@contextmanager
def present(location: str) -> Iterator[None]:
    """Open and read a file that the table names. Raises: MissingFile, if it is gone."""
    try:
        yield
    except FileNotFoundError as error:
        name = error.filename or (error.args[0] if error.args else "")
        if not isinstance(name, str) or not name or not location.endswith(name):
            raise  # of another file
        raise MissingFile(location) from error


@contextmanager
def naming(location: str) -> Iterator[None]:
    """Name a file in what its decoder raises: codecs know no locations."""
    try:
        yield
    except (CorruptTable, Unsupported) as error:
        if error.location == location:
            raise
        named, reason = f"`{location}`: {error.what}", error.reason
        if isinstance(error, Unsupported):
            raise Unsupported(
                named, hint=error.hint, id=error.error_id, rule=error.rule, reason=reason,
                location=location,
            ) from error  # fmt: skip
        kind = OtherFile if isinstance(error, OtherFile) else CorruptTable
        raise kind(
            named, rule=error.rule, hint=error.hint, reason=reason, location=location
        ) from error


def in_threads(
    work: Callable[[_Item], _Done], items: Iterable[_Item], sizes: Sequence[int], *, threads: int
) -> Generator[_Done, None, None]:
    """Apply `work` in threads and yield its results in the order of `items`.

    Runs ahead of the consumer by twice the number of threads, within the byte budget.
    """
    if threads == 1 or len(sizes) <= 1:
        for item in items:
            yield work(item)
        return
    pool = ThreadPoolExecutor(threads, thread_name_prefix="icectl-read")
    running: deque[tuple[Future[_Done], int]] = deque()
    bytes_in_flight = 0
    try:
        for item, size in zip(items, sizes, strict=True):
            while running and (
                len(running) >= 2 * threads or bytes_in_flight + size > _STORED_BYTES_IN_FLIGHT
            ):
                future, released = running.popleft()
                bytes_in_flight -= released
                yield future.result()
            running.append((pool.submit(work, item), size))
            bytes_in_flight += size
        while running:
            yield running.popleft()[0].result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


class _Stream(Generic[_Done]):
    """The items of one source, of which some bytes may wait for the consumer."""

    def __init__(self, source: Callable[[], Iterator[_Done]], changed: Condition) -> None:
        self._source = source
        self._changed = changed
        self._waiting: deque[tuple[_Done, int]] = deque()
        self._waiting_bytes = 0
        self._is_complete = self._is_stopped = False
        self._error: BaseException | None = None

    def run(self, size_of: Callable[[_Done], int], most_bytes: int) -> None:
        """Let items wait, until the source ends or the stream is stopped."""
        try:
            for item in () if self._is_stopped else self._source():
                size = size_of(item)

                def has_room(size: int = size) -> bool:
                    is_small = self._waiting_bytes + size <= most_bytes
                    return self._is_stopped or is_small or not self._waiting

                with self._changed:
                    self._changed.wait_for(has_room)
                    if self._is_stopped:
                        break
                    self._waiting.append((item, size))
                    self._waiting_bytes += size
                    self._changed.notify_all()
        except BaseException as error:  # noqa: BLE001 - the consumer raises it
            self._error = error
        with self._changed:
            self._is_complete = True
            self._changed.notify_all()

    def items(self) -> Iterator[_Done]:
        """Yield the items as they come. Raises: what the source raises."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._is_complete)
                if not self._waiting:
                    break
                item, size = self._waiting.popleft()
                self._waiting_bytes -= size
                self._changed.notify_all()
            yield item
            del item
        if self._error is not None:
            raise self._error

    def stop(self) -> None:
        with self._changed:
            self._is_stopped = True
            self._changed.notify_all()


def streamed_in_threads(
    sources: Sequence[Callable[[], Iterator[_Done]]],
    size_of: Callable[[_Done], int],
    *,
    threads: int,
    most_bytes: int,
) -> Generator[_Done, None, None]:
    """Yield the items of some sources in order; as many sources as `threads` run at once.

    About `most_bytes` of items, by `size_of`, wait for the consumer, and one item a source. Close
    the generator to stop early.
    Raises: what a source raises, after the items before it.
    """
    if threads == 1 or len(sources) <= 1:
        for source in sources:
            yield from source()
        return
    changed = Condition()
    streams = [_Stream(source, changed) for source in sources]
    with ThreadPoolExecutor(threads, thread_name_prefix="icectl-rows") as pool:
        started = 0
        try:
            for number, stream in enumerate(streams):
                for begun in streams[started : number + threads]:
                    pool.submit(begun.run, size_of, most_bytes // threads)
                    started += 1
                yield from stream.items()
        finally:
            for stream in streams:
                stream.stop()


def read_in_threads(
    read: Callable[[_Item], _Done], items: Sequence[_Item], sizes: Sequence[int], *, threads: int
) -> Generator[_Done, None, None]:
    """Work as in_threads, for files that may be small and many: a thread reads several in a row."""
    ranges = bundles(sizes, max(1, min(_MOST_AT_ONCE, len(items) // (4 * threads))))

    def read_all(bundle: range) -> list[_Done]:
        return [read(items[place]) for place in bundle]

    of_bundles = [sum(sizes[bundle.start : bundle.stop]) for bundle in ranges]
    with closing(in_threads(read_all, ranges, of_bundles, threads=threads)) as results:
        for result in results:
            yield from result


def bundles(sizes: Sequence[int], most: int, most_bytes: int = _BYTES_AT_ONCE) -> Sequence[range]:
    """Return places side by side: at most so many together, of items that are small together."""
    found: list[range] = []
    start = size = 0
    for place, file_size in enumerate(sizes):
        if place > start and (place - start == most or size + file_size > most_bytes):
            found.append(range(start, place))
            start, size = place, 0
        size += file_size
    return [*found, range(start, len(sizes))] if sizes else []
