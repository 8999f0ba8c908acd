"""Files of a store as Python's own: read by ranges, counted, written a part at a time."""

import io
from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import IO, Any, BinaryIO

from icectl.files.random_access import RandomAccessFile

_READ_AHEAD_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Tail:
    """The size of a file, and the bytes at its end that are known already."""

    size_bytes: int
    content: bytes = field(default=b"", repr=False)


def range_reader(tail: Tail, read: Callable[[int, int], bytes]) -> IO[bytes]:
    """Return a seekable reader over `read(offset, length)`.

    What the tail holds is not read again.
    """
    return io.BufferedReader(_RangeReader(tail, read), _READ_AHEAD_BYTES)


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


class PartWriter(io.RawIOBase, BinaryIO):
    """Bytes on their way into a file of a store; up to a part of them waits for the next.

    Units: `part_bytes` in bytes, as many as each part has but the last.
    """

    def __init__(self, part_bytes: int) -> None:
        super().__init__()
        self._part_bytes = part_bytes
        self._waiting = bytearray()
        self.size_bytes = 0

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        """Return how many bytes were written."""
        return self.size_bytes

    def write(self, content: Any, /) -> int:
        """Take bytes, send the parts that are full, and return how many bytes were taken."""
        octets = memoryview(content).cast("B")
        self._waiting += octets
        self.size_bytes += len(octets)
        while len(self._waiting) >= self._part_bytes:
            self.send_part(bytes(self._waiting[: self._part_bytes]))
            del self._waiting[: self._part_bytes]
        return len(octets)

    def last_part(self) -> bytes:
        """Take what still waits, less than a part."""
        content = bytes(self._waiting)
        self._waiting.clear()
        return content

    @abstractmethod
    def send_part(self, content: bytes) -> None:
        """Send the next part. Raises: StorageError."""

    @abstractmethod
    def end(self) -> None:
        """Make the file of all that was written. Raises: StorageError."""

    @abstractmethod
    def abandon(self) -> None:
        """Have nothing be left of the file; raises nothing."""


@contextmanager
def whole_or_none(file: PartWriter) -> Iterator[IO[bytes]]:
    """Write a file that is there, whole, once this is left without an error.

    Raises: StorageError; then there is no file, and no part of one.
    """
    try:
        yield file
        file.end()
    except BaseException:
        file.abandon()
        raise


class CountingReader(io.BufferedIOBase):
    """A seekable reader over another one; `bytes_read` is what was asked of it."""

    def __init__(self, file: IO[bytes]) -> None:
        super().__init__()
        self.file = file
        self.bytes_read = 0

    def readable(self) -> bool:
        """Return True: the file can be read."""
        return True

    def seekable(self) -> bool:
        """Return True: reading may start anywhere."""
        return True

    def read(self, size: int | None = -1, /) -> bytes:
        """Read up to `size` bytes, all of them when it is negative."""
        content = self.file.read(-1 if size is None else size)
        self.bytes_read += len(content)
        return content

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Go to a place."""
        return self.file.seek(offset, whence)

    def tell(self) -> int:
        """Return the place in the file."""
        return self.file.tell()

    def close(self) -> None:
        """Close the file too."""
        if not self.closed:
            self.file.close()
        super().close()
