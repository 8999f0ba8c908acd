"""Files of a store as Python's own: read by ranges, counted, and ahead within a byte budget.

Of files that are read ahead, small ones come by one request each, in their order; large ones in
parts, several at once, from where a reader is.
"""

import io
import os
from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import Lock
from typing import IO

from icectl.files.random_access import RandomAccessFile
from icectl.storage.location import is_local
from icectl.storage.store import Store

_RANGE_BYTES = 1 << 20
_LARGEST_BYTES = 16 << 20
"""Larger files are read in parts."""

_PART_BYTES, _PARTS_AHEAD = 4 << 20, 3
"""Parts of a large file, and how many come behind the one that is read."""

_END_BYTES = 64 << 10
"""The end of a file, where a footer is, which an open file has already."""

_BUDGET_BYTES = 96 << 20
"""Of files that are under way, or here and not closed yet."""

_AT_ONCE = 32
_BUFFER_BYTES = 1 << 18


@dataclass(frozen=True, slots=True)
class Tail:
    """The size of a file, and the bytes at its end that are known already."""

    size_bytes: int
    content: bytes = field(default=b"", repr=False)


def range_reader(
    tail: Tail, read: Callable[[int, int], bytes], buffer_bytes: int = _RANGE_BYTES
) -> IO[bytes]:
    """Return a seekable reader over `read(offset, length)`, which is not asked for the tail."""
    return io.BufferedReader(_RangeReader(tail, read), buffer_bytes)


class _RangeReader(RandomAccessFile):
    def __init__(self, tail: Tail, read: Callable[[int, int], bytes]) -> None:
        super().__init__(tail.size_bytes)
        self._tail = tail.content
        self._read = read

    def read_at(self, offset: int, length: int) -> bytes:
        """Read bytes with one request, unless the tail has them."""
        known_from = self.size_bytes - len(self._tail)
        if offset >= known_from:
            return self._tail[offset - known_from :][:length]
        return self._read(offset, min(length, known_from - offset))


class CountingReader(io.BufferedIOBase):
    """A seekable reader over another one; `bytes_read` is what was asked of it."""

    def __init__(self, file: IO[bytes]) -> None:
        super().__init__()
        self.file = file
        self.bytes_read = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def read(self, size: int | None = -1, /) -> bytes:
        """Read up to `size` bytes, all of them when it is negative."""
        content = self.file.read(-1 if size is None else size)
        self.bytes_read += len(content)
        return content

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        return self.file.seek(offset, whence)

    def tell(self) -> int:
        return self.file.tell()

    def close(self) -> None:
        if not self.closed:
            self.file.close()
        super().close()


class ReadAhead:
    """Opens files of a store; those told of in advance are read in their order. A context.

    Files of this machine are left to the store. Any thread may open; what was opened once is opened
    by the store again.
    """

    def __init__(
        self,
        store: Store,
        files: Iterable[tuple[str, int]],
        concurrency: int,
        read_in_places: Collection[str] = (),
    ) -> None:
        """Begin to read `files`, locations with sizes; `read_in_places` are read only as asked."""
        self._store = store
        self._read_in_places = frozenset(read_in_places)
        self._lock = Lock()
        self._waiting = deque(
            (location, size)
            for location, size in files
            if 0 < size <= _LARGEST_BYTES and not is_local(location)
        )
        self._running: dict[str, tuple[Future[bytes], int]] = {}
        self._passed: set[str] = set()
        self._bytes = 0
        # Its threads start as they are needed.
        self._pool = ThreadPoolExecutor(min(concurrency, _AT_ONCE), thread_name_prefix="read-ahead")
        self._start_more()

    def __enter__(self) -> "ReadAhead":
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._waiting.clear()
            self._running.clear()
        self._pool.shutdown(cancel_futures=True)

    def open(self, location: str) -> IO[bytes]:
        with self._lock:
            running = self._running.pop(location, None)
            if running is None:
                self._passed.add(location)  # it was faster than this
        if running is None:
            return self._in_parts(location)
        future, size_bytes = running
        try:
            content = future.result()
        except BaseException:
            self._released(size_bytes)
            raise
        if len(content) != size_bytes:  # metadata is wrong about it
            self._released(size_bytes)
            return self._store.open(location)
        return _WholeFile(content, lambda: self._released(size_bytes))

    def _in_parts(self, location: str) -> IO[bytes]:
        file = self._store.open(location)
        if is_local(location) or location in self._read_in_places:
            return file
        size_bytes = file.seek(0, os.SEEK_END)
        file.seek(0)
        if size_bytes <= _PART_BYTES:
            return file

        def part(number: int) -> Future[bytes]:
            offset = number * _PART_BYTES
            length = min(_PART_BYTES, size_bytes - offset)
            return self._pool.submit(self._store.read_range, location, offset, length)

        return io.BufferedReader(_InParts(file, size_bytes, part), _BUFFER_BYTES)

    def _released(self, size_bytes: int) -> None:
        with self._lock:
            self._bytes -= size_bytes
        self._start_more()

    def _start_more(self) -> None:
        with self._lock:
            while self._waiting and self._bytes + self._waiting[0][1] <= _BUDGET_BYTES:
                location, size_bytes = self._waiting.popleft()
                if location in self._passed or location in self._running:
                    continue
                # One byte more than there should be shows where metadata is wrong.
                future = self._pool.submit(self._store.read_range, location, 0, size_bytes + 1)
                self._running[location] = future, size_bytes
                self._bytes += size_bytes


class _WholeFile(io.BytesIO):
    """A file that is here as a whole; `on_close` gives its bytes back to the budget, once."""

    def __init__(self, content: bytes, on_close: Callable[[], None]) -> None:
        super().__init__(content)
        self._on_close = on_close

    def close(self) -> None:
        if not self.closed:
            super().close()
            self._on_close()


class _InParts(RandomAccessFile):
    """A large file, read on behind the place where a reader is."""

    def __init__(
        self, file: IO[bytes], size_bytes: int, read: Callable[[int], Future[bytes]]
    ) -> None:
        """Read parts by number; `file` gives the end, which it has."""
        super().__init__(size_bytes)
        self._file = file
        self._read = read
        self._parts: OrderedDict[int, Future[bytes]] = OrderedDict()

    def read_at(self, offset: int, length: int) -> bytes:
        """Read up to the end of the part that holds the offset."""
        if offset >= self.size_bytes - _END_BYTES:
            self._file.seek(offset)
            return self._file.read(length)
        number, start = divmod(offset, _PART_BYTES)
        return self._part(number)[start : start + length]

    def _part(self, number: int) -> bytes:
        last = (self.size_bytes - 1) // _PART_BYTES
        for ahead in range(number, min(number + _PARTS_AHEAD, last) + 1):
            if ahead not in self._parts:
                self._parts[ahead] = self._read(ahead)
        self._parts.move_to_end(number)
        while len(self._parts) > 2 * _PARTS_AHEAD:
            self._parts.popitem(last=False)[1].cancel()
        try:
            return self._parts[number].result()
        except BaseException:
            del self._parts[number]
            raise

    def close(self) -> None:
        if not self.closed:
            for part in self._parts.values():
                part.cancel()
            self._parts.clear()
            self._file.close()
        super().close()
