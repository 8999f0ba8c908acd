"""Files in memory that other processes of this machine read and write too, by a path.

What they take from there passes through no pipe, and nobody waits for the other's end of it. Where
a system keeps processes apart the path leads them nowhere: who opens it needs another way.
"""

import io
import os
import sys
from typing import IO


class MemoryFile(io.FileIO):
    """An empty file in memory; `path` is where others find it for as long as it is open here."""

    def __init__(self) -> None:
        """Make one. Raises: OSError, where the system has no such files."""
        if sys.platform != "linux":
            raise OSError("files in memory are of Linux")
        super().__init__(os.memfd_create("icectl"), "r+b")
        self.path = f"/proc/{os.getpid()}/fd/{self.fileno()}"

    def fill(self, content: bytes) -> None:
        """Have it begin with these bytes. Raises: OSError, where memory runs out."""
        left = memoryview(content)
        while left:
            left = left[os.pwrite(self.fileno(), left, len(content) - len(left)) :]


def memory_file() -> MemoryFile | None:
    """Return an empty file in memory; None where the system has none."""
    try:
        return MemoryFile()
    except OSError:
        return None


def path_in_memory(file: IO[bytes]) -> str | None:
    """Return where other processes find a file that is in memory; None for all others."""
    return file.path if isinstance(file, MemoryFile) else None
