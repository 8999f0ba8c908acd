"""A store that keeps the manifests that a run reads, for those who read them again in it.

A plan reads manifests to choose from, then statistics of what it has chosen; a commit copies
entries out of the stored bytes. Files of a table never change (R-157), so each is fetched once.
"""

import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import IO

import pyarrow as pa

from icectl.storage.store import (
    Assembly,
    FailedRemoval,
    FileStatus,
    ListingPart,
    ListingSplit,
    Store,
)

_KEPT_BYTES = 32 << 20
"""Stored bytes that are kept: the first ones, since those who read again begin with them too."""

_KEPT = (".avro", ".parquet")
"""Ends of the names of manifests, manifest lists, roots and leaves."""


class KeepingStore:
    """A Store that passes all calls on but those that read a kept file. Cost: 32 MiB of memory."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._kept: dict[str, bytes] = {}
        self._room = _KEPT_BYTES
        self._lock = threading.Lock()

    def read(self, location: str) -> bytes:
        content = self._kept.get(location)
        if content is None:
            content = self.store.read(location)
            with self._lock:
                if location.endswith(_KEPT) and len(content) <= self._room:
                    self._kept[location] = content
                    self._room -= len(content)
        return content

    def read_range(self, location: str, offset: int, length: int) -> bytes:
        return self.store.read_range(location, offset, length)

    def open(self, location: str) -> IO[bytes]:
        return self.store.open(location)

    def stat(self, location: str) -> FileStatus | None:
        return self.store.stat(location)

    def list(self, location: str) -> Iterator[pa.RecordBatch]:
        return self.store.list(location)

    def split(self, location: str, count: int) -> ListingSplit:
        return self.store.split(location, count)

    def list_parts(self, parts: Sequence[ListingPart]) -> Iterator[pa.RecordBatch]:
        return self.store.list_parts(parts)

    def list_directory(self, location: str) -> Sequence[FileStatus]:
        return self.store.list_directory(location)

    def create(self, location: str, content: bytes) -> None:
        self.store.create(location, content)

    def replace(self, location: str, content: bytes) -> None:
        self.store.replace(location, content)

    def open_new(self, location: str) -> AbstractContextManager[IO[bytes]]:
        return self.store.open_new(location)

    def assemble(self, location: str) -> AbstractContextManager[Assembly] | None:
        return self.store.assemble(location)

    def copy(self, source: str, target: str) -> None:
        self.store.copy(source, target)

    def clock_ms(self, location: str) -> int | None:
        return self.store.clock_ms(location)

    def remove(self, removed: Iterable[str]) -> Sequence[FailedRemoval]:
        return self.store.remove(removed)
