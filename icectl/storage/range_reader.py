"""A remote file as a stream of ranges."""

import io
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import IO, Any

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


class _RangeReader(io.RawIOBase):
    def __init__(self, tail: Tail, read: Callable[[int, int], bytes]) -> None:
        self._tail = tail
        self._read = read
        self._position = 0

    def readable(self) -> bool:
        """Return True: the file can be read."""
        return True

    def seekable(self) -> bool:
        """Return True: reading may start anywhere."""
        return True

    def tell(self) -> int:
        """Return the place in the file."""
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move to a place, and return it."""
        starts = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._tail.size_bytes}
        self._position = max(0, starts[whence] + offset)
        return self._position

    def readinto(self, buffer: Any) -> int:
        """Read the next bytes with one request, and return how many came."""
        length = min(len(buffer), max(0, self._tail.size_bytes - self._position))
        known_from = self._tail.size_bytes - len(self._tail.content)
        if not length:
            content = b""
        elif self._position >= known_from:
            start = self._position - known_from
            content = self._tail.content[start : start + length]
        else:
            content = self._read(self._position, min(length, known_from - self._position))
        buffer[: len(content)] = content
        self._position += len(content)
        return len(content)
