"""The base of files that are read at any place, whatever their bytes come from."""

import io
from abc import abstractmethod
from typing import Any


class RandomAccessFile(io.RawIOBase):
    """A file to read, of a known size; a subclass reads its bytes."""

    def __init__(self, size_bytes: int) -> None:
        super().__init__()
        self.size_bytes = size_bytes
        self.position = 0

    @abstractmethod
    def read_at(self, offset: int, length: int) -> bytes:
        """Return `length` bytes from an offset or fewer, but one at least: all lie in the file."""

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self.position

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Move to a place, which is never before the file, and return it."""
        starts = {io.SEEK_SET: 0, io.SEEK_CUR: self.position, io.SEEK_END: self.size_bytes}
        self.position = max(0, starts[whence] + offset)
        return self.position

    def readinto(self, buffer: Any, /) -> int:
        """Read the next bytes by one call of `read_at`, and return how many came."""
        octets = memoryview(buffer).cast("B")
        length = min(len(octets), self.size_bytes - self.position)
        if length <= 0:
            return 0
        content = self.read_at(self.position, length)
        octets[: len(content)] = content
        self.position += len(content)
        return len(content)
