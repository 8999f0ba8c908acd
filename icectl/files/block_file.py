"""A file that is read in blocks, for readers that ask for many small parts here and there."""

import io
from typing import IO

_BLOCK_BYTES = 2**20


class BlockFile(io.RawIOBase):
    """A file that keeps every block that it has read until `forget`, so that none is read twice.

    With `most` it keeps so many, those that were asked for last.
    """

    def __init__(self, file: IO[bytes], most: int | None = None) -> None:
        self._file = file
        self._most = most
        self._size = file.seek(0, io.SEEK_END)
        self._position = 0
        self._blocks: dict[int, bytes] = {}

    def with_most(self, most: int) -> "BlockFile":
        """Return the same file by blocks of its own, of which it keeps so many."""
        return BlockFile(self._file, most)

    def forget(self) -> None:
        """Drop all blocks."""
        self._blocks.clear()

    def readable(self) -> bool:
        """Return True: blocks can be read."""
        return True

    def seekable(self) -> bool:
        """Return True: reading may start anywhere."""
        return True

    def tell(self) -> int:
        """Return where the next read starts."""
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Set where the next read starts."""
        starts = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}
        self._position = starts[whence] + offset
        return self._position

    def read(self, size: int = -1) -> bytes:
        """Return the bytes from here on, as many as asked for or as there are."""
        start = min(self._position, self._size)
        end = self._size if size < 0 else min(start + size, self._size)
        self._position = end
        if start == end:
            return b""
        first, last = start // _BLOCK_BYTES, (end - 1) // _BLOCK_BYTES
        self._load(first, last)
        parts = [self._blocks.pop(number) for number in range(first, last + 1)]
        self._blocks.update(zip(range(first, last + 1), parts, strict=True))
        while self._most is not None and len(self._blocks) > self._most:
            del self._blocks[next(iter(self._blocks))]
        content = parts[0] if len(parts) == 1 else b"".join(parts)
        return content[start - first * _BLOCK_BYTES : end - first * _BLOCK_BYTES]

    def _load(self, first: int, last: int) -> None:
        """Read the blocks that are not there yet, those side by side at once."""
        missing = [number for number in range(first, last + 1) if number not in self._blocks]
        while missing:
            start = stop = missing[0]
            while stop in missing:
                stop += 1
            self._file.seek(start * _BLOCK_BYTES)
            content = self._file.read((stop - start) * _BLOCK_BYTES)
            for number in range(start, stop):
                at = (number - start) * _BLOCK_BYTES
                self._blocks[number] = content[at : at + _BLOCK_BYTES]
            missing = [number for number in missing if number >= stop]
