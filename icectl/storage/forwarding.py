"""A store that passes calls on to others."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import IO, Literal

import pyarrow as pa

from icectl.storage.store import Assembly, FileStatus, ListingPart, ListingSplit, Store

Named = Literal["file", "folder", "bucket"]
"""What a location names: one file, a folder, or any place of a bucket."""


class ForwardingStore(ABC):
    """A Store that passes each call on to the store that `target` returns; `remove` is left out."""

    __slots__ = ()

    @abstractmethod
    def target(self, call: str, location: str, named: Named = "file") -> Store:
        """Return the store for a call on a location."""

    def read(self, location: str) -> bytes:
        return self.target("read", location).read(location)

    def read_range(self, location: str, offset: int, length: int) -> bytes:
        return self.target("read_range", location).read_range(location, offset, length)

    def open(self, location: str) -> IO[bytes]:
        return self.target("open", location).open(location)

    def stat(self, location: str) -> FileStatus | None:
        return self.target("stat", location).stat(location)

    def list(self, location: str) -> Iterator[pa.RecordBatch]:
        return self.target("list", location, "folder").list(location)

    def split(self, location: str, count: int) -> ListingSplit:
        return self.target("split", location, "folder").split(location, count)

    def list_parts(self, parts: Sequence[ListingPart]) -> Iterator[pa.RecordBatch]:
        return self.target("list_parts", parts[0].location, "folder").list_parts(parts)

    def list_directory(self, location: str) -> Sequence[FileStatus]:
        return self.target("list_directory", location, "folder").list_directory(location)

    def create(self, location: str, content: bytes) -> None:
        self.target("create", location).create(location, content)

    def replace(self, location: str, content: bytes) -> None:
        self.target("replace", location).replace(location, content)

    def open_new(self, location: str) -> AbstractContextManager[IO[bytes]]:
        return self.target("open_new", location).open_new(location)

    def assemble(self, location: str) -> AbstractContextManager[Assembly] | None:
        return self.target("assemble", location).assemble(location)

    def copy(self, source: str, target: str) -> None:
        self.target("copy", source).copy(source, target)

    def clock_ms(self, location: str) -> int | None:
        return self.target("clock_ms", location, "bucket").clock_ms(location)
