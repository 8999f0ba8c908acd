"""Files of a store read before they are asked for, each by one request, within a byte budget."""

import io
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Lock
from types import TracebackType
from typing import IO

from icectl.storage.location import is_local
from icectl.storage.memory_file import MemoryFile
from icectl.storage.store import Store

_LARGEST_BYTES = 16 << 20
"""Larger files are read by their column chunks, each long enough for its request."""

_BUDGET_BYTES = 96 << 20
"""Of files that are under way, or here and not closed yet."""

_AT_ONCE = 32


class ReadAhead:
    """Opens files of a store; those told of in advance are read in their order. A context.

    Files of this machine, and large ones, are left to the store. Any thread may open; what was
    opened once is opened anew by the store.
    """

    def __init__(self, store: Store, files: Iterable[tuple[str, int]], concurrency: int) -> None:
        """Begin to read; `files` are locations with their sizes by metadata."""
        self._store = store
        self._lock = Lock()
        self._waiting = deque(
            (location, size)
            for location, size in files
            if 0 < size <= _LARGEST_BYTES and not is_local(location)
        )
        self._running: dict[str, tuple[Future[bytes], int]] = {}
        self._passed: set[str] = set()
        self._bytes = 0
        self._pool = (
            ThreadPoolExecutor(min(concurrency, _AT_ONCE), thread_name_prefix="read-ahead")
            if self._waiting
            else None
        )
        self._start_more()

    def __enter__(self) -> "ReadAhead":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._lock:
            self._waiting.clear()
            self._running.clear()
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def open(self, location: str) -> IO[bytes]:
        """A seekable reader. Raises: as the store's reading does."""
        with self._lock:
            found = self._running.pop(location, None)
            if found is None:
                self._passed.add(location)  # it was faster than this
        if found is None:
            return self._store.open(location)
        future, size_bytes = found
        try:
            content = future.result()
        except BaseException:
            self._released(size_bytes)
            raise
        if len(content) != size_bytes:  # metadata is wrong about it
            self._released(size_bytes)
            return self._store.open(location)
        return _held(content, lambda: self._released(size_bytes))

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
                assert self._pool is not None
                # One byte more than there should be shows where metadata is wrong.
                future = self._pool.submit(self._store.read_range, location, 0, size_bytes + 1)
                self._running[location] = future, size_bytes
                self._bytes += size_bytes


class _Told:
    """A file that tells when it is closed."""

    on_close: Callable[[], None] | None = None

    def close(self) -> None:
        """Give its bytes back to the budget."""
        super().close()  # type: ignore[misc]
        if self.on_close is not None:
            told, self.on_close = self.on_close, None
            told()


class _Shared(_Told, MemoryFile):
    """A file that is here as a whole, for other processes too."""


class _Held(_Told, io.BytesIO):
    """A file that is here as a whole."""


def _held(content: bytes, closed: Callable[[], None]) -> IO[bytes]:
    """A file of these bytes, where others find it if the system has that."""
    held: _Shared | _Held
    try:
        held = _Shared()
        held.fill(content)
    except OSError:
        held = _Held(content)
    held.on_close = closed
    return held
