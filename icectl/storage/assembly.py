"""Objects that a storage composes out of ranges of other objects of the bucket.

An object is made of parts: copied ranges, and bytes that are sent. What is too short for a part of
its own, and what stands between, passes through here.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock
from typing import IO, Any, Protocol

from icectl.errors import StorageError
from icectl.storage import location as locations
from icectl.storage.failures import error_status
from icectl.storage.store import Assembly, CopyRefused
from icectl.storage.streams import Tail, range_reader

TAIL_BYTES = 64 << 10
"""What is read of a source when it is opened: its footer, most often."""

_SENT_BYTES = 16 << 20
"""Bytes that wait here until they are sent as a part."""

BUFFER_BYTES = 8 << 10
"""What a reader of a source asks for at least."""

_COPIES_AT_ONCE = 16
_OTHER_OBJECT = 412
"""The status of an answer about an object that is not of the ETag that was asked for."""


@dataclass(frozen=True, slots=True)
class Source:
    """An object to copy from, as it was when it was opened."""

    size_bytes: int
    etag: str
    version: str = ""


@dataclass(frozen=True, slots=True)
class PartLimits:
    """How long parts are, but for the last, and copied ones, and how many an object has."""

    least_bytes: int
    largest_copy_bytes: int
    most: int


class Parts(Protocol):
    """An object in the making, at its storage. Any thread may call open, read, copy and send."""

    @property
    def limits(self) -> PartLimits:
        """What parts may be."""

    @property
    def concurrency(self) -> int:
        """How many requests may run at once."""

    def open(self, location: str) -> tuple[Source, bytes]:
        """Return what there is to copy, and its end. Raises: CopyRefused; FileNotFoundError."""

    def read(self, location: str, source: Source, start: int, end: int) -> bytes:
        """Return bytes of a source. Raises: StorageError; FileNotFoundError."""

    def begin(self) -> None:
        """Do what goes before the first part. Raises: StorageError."""

    def copy(self, number: int, location: str, source: Source, start: int, end: int) -> str:
        """Have a range of a source copied as a part; what the part is called.

        Raises: CopyRefused; StorageError; FileNotFoundError.
        """

    def send(self, number: int, content: bytes) -> str:
        """Send bytes as a part; what the part is called. Raises: StorageError."""

    def complete(self, names: Sequence[str], size_bytes: int) -> None:
        """Make the object of its parts, where none of its name is there. Raises: StorageError."""

    def put(self, content: bytes) -> None:
        """Make the object of bytes alone. Raises: StorageError."""

    def abandon(self) -> None:
        """Free the parts; the storage forgets them in time where it can't now."""


@contextmanager
def assembled(parts: Parts, location: str) -> Iterator[Assembly]:
    """A new object to compose, whole or not at all. Raises: CopyRefused; StorageError."""
    assembly = _Assembled(parts, location)
    with ThreadPoolExecutor(
        min(parts.concurrency, _COPIES_AT_ONCE), thread_name_prefix="copy"
    ) as pool:
        assembly.pool = pool
        try:
            yield assembly
            assembly.end()
        except BaseException:
            assembly.abandon()
            raise


class _Assembled:
    """An object in the making: bytes wait for a part, a range for one that goes on at its end."""

    copies_whole = False
    pool: ThreadPoolExecutor

    def __init__(self, parts: Parts, location: str) -> None:
        self._at, self._location = parts, location
        self._limits = parts.limits
        self._sources: dict[str, Source] = {}
        self._lock = Lock()
        self._has_begun = False
        self._waiting = bytearray()
        self._range: tuple[str, int, int] | None = None
        self._parts: list[Future[str]] = []
        self.size_bytes = 0

    def open(self, location: str) -> IO[bytes]:
        if locations.root(location) != locations.root(self._location):
            raise CopyRefused("a file is in another bucket")
        source, tail = self._at.open(location)
        with self._lock:
            self._sources[location] = source

        def read(offset: int, length: int) -> bytes:
            return self._read(location, offset, offset + length)

        return range_reader(Tail(source.size_bytes, tail), read, BUFFER_BYTES)

    def _read(self, location: str, start: int, end: int) -> bytes:
        with same_object(location):
            return self._at.read(location, self._sources[location], start, end)

    def write(self, content: bytes | memoryview, /) -> int:
        self._end_range()
        self._append(content)
        return len(content)

    def copy(self, location: str, start: int, end: int) -> None:
        if self._range is not None and self._range[0] == location and self._range[2] == start:
            self._range = location, self._range[1], end
            return
        self._end_range()
        self._range = location, start, end

    def _append(self, content: bytes | memoryview) -> None:
        self.size_bytes += len(content)
        self._waiting += content
        while len(self._waiting) >= _SENT_BYTES + self._limits.least_bytes:
            self._send(bytes(self._waiting[:_SENT_BYTES]))
            del self._waiting[:_SENT_BYTES]

    def _end_range(self) -> None:
        """Copy the range that waits: as parts, or through here where it is too short for one."""
        if self._range is None:
            return
        (location, start, end), self._range = self._range, None
        least_bytes = self._limits.least_bytes
        if self._waiting and len(self._waiting) < least_bytes:
            filling = min(end, start + least_bytes - len(self._waiting))
            self._append(self._read(location, start, filling))
            start = filling
        if end - start < least_bytes:
            if end > start:
                self._append(self._read(location, start, end))
            return
        if self._waiting:
            self._send(bytes(self._waiting))
            self._waiting.clear()
        self.size_bytes += end - start
        count = -(-(end - start) // self._limits.largest_copy_bytes)
        step = -(-(end - start) // count)
        for first in range(start, end, step):
            self._add_part(self._copied, location, first, min(first + step, end))
        if len(self._parts) == 1:
            self._parts[0].result()  # where ranges are not copied, no more is asked for

    def _copied(self, number: int, location: str, start: int, end: int) -> str:
        with same_object(location):
            return self._at.copy(number, location, self._sources[location], start, end)

    def _send(self, content: bytes) -> None:
        self._add_part(self._at.send, content)
        self._parts[-1].result()

    def _add_part(self, make: Callable[..., str], *arguments: Any) -> None:
        if not self._has_begun:
            self._at.begin()
            self._has_begun = True
        if len(self._parts) == self._limits.most:
            raise CopyRefused(f"the file would have more than {self._limits.most:,} parts")
        self._parts.append(self.pool.submit(make, len(self._parts) + 1, *arguments))

    def end(self) -> None:
        self._end_range()
        if not self._has_begun:
            self._at.put(bytes(self._waiting))
            return
        if self._waiting:
            self._send(bytes(self._waiting))
        self._at.complete([part.result() for part in self._parts], self.size_bytes)

    def abandon(self) -> None:
        for part in self._parts:
            part.cancel()
        for part in self._parts:
            if not part.cancelled():
                part.exception()  # it is under way: a part that comes later would stay
        if self._has_begun:
            self._at.abandon()


@contextmanager
def same_object(location: str) -> Iterator[None]:
    """Tell that an object is no longer the one that was opened. Raises: StorageError."""
    try:
        yield
    except StorageError as error:
        if error_status(error) != _OTHER_OBJECT:
            raise
        raise other_object(location) from error


def other_object(location: str) -> StorageError:
    """Return what is told of an object that another has taken the place of."""
    return StorageError(
        f"{locations.redacted(location)} was replaced during the run",
        hint="find out what overwrites data files: they must never change",
    )
