"""Counting the bytes that a reader of a file takes from it."""

import io
from typing import IO


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
