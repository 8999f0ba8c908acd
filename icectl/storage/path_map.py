"""Reading a table that was moved or copied: locations that begin with FROM are read at TO."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import IO

import pyarrow as pa

from icectl.errors import Refused
from icectl.storage import location as locations
from icectl.storage.store import (
    Assembly,
    FailedRemoval,
    FileStatus,
    ListingPart,
    ListingSplit,
    Store,
)


@dataclass(frozen=True, slots=True)
class PathMapStore:
    """A Store whose locations are mapped before each access; what it returns is spelled as asked.

    The longest FROM wins, and the spellings of a local path count as one. Writing is refused:
    identity of files goes by the unmapped locations.
    """

    store: Store
    path_map: tuple[tuple[str, str], ...]

    def mapped(self, location: str) -> str:
        """Return where a location is read."""
        moved = locations.moved(location, self.path_map)
        return location if moved is None else moved

    def read(self, location: str) -> bytes:
        return self.store.read(self.mapped(location))

    def read_range(self, location: str, offset: int, length: int) -> bytes:
        return self.store.read_range(self.mapped(location), offset, length)

    def open(self, location: str) -> IO[bytes]:
        return self.store.open(self.mapped(location))

    def stat(self, location: str) -> FileStatus | None:
        status = self.store.stat(self.mapped(location))
        return None if status is None else replace(status, location=location)

    def list(self, location: str) -> Iterator[pa.RecordBatch]:
        """Yield all files below a location, spelled as below the location asked for."""
        mapped = self.mapped(location)
        for batch in self.store.list(mapped):
            yield _respelled_rows(batch, mapped, location)

    def split(self, location: str, count: int) -> ListingSplit:
        """Begin to list a location, spelled as it is asked for."""
        mapped = self.mapped(location)
        begun = self.store.split(mapped, count)
        return ListingSplit(
            [_respelled_rows(batch, mapped, location) for batch in begun.batches],
            [
                replace(part, location=_respelled(part.location, mapped, location))
                for part in begun.parts
            ],
        )

    def list_parts(self, parts: Sequence[ListingPart]) -> Iterator[pa.RecordBatch]:
        for part in parts:
            mapped = self.mapped(part.location)
            for batch in self.store.list_parts([replace(part, location=mapped)]):
                yield _respelled_rows(batch, mapped, part.location)

    def list_directory(self, location: str) -> Sequence[FileStatus]:
        mapped = self.mapped(location)
        return [
            replace(file, location=_respelled(file.location, mapped, location))
            for file in self.store.list_directory(mapped)
        ]

    def create(self, location: str, content: bytes) -> None:  # noqa: ARG002
        raise _refused(location)

    def replace(self, location: str, content: bytes) -> None:  # noqa: ARG002
        raise _refused(location)

    def copy(self, source: str, target: str) -> None:  # noqa: ARG002
        raise _refused(target)

    def clock_ms(self, location: str) -> int | None:
        return self.store.clock_ms(self.mapped(location))

    def open_new(self, location: str) -> AbstractContextManager[IO[bytes]]:
        raise _refused(location)

    def assemble(self, location: str) -> AbstractContextManager[Assembly] | None:  # noqa: ARG002
        """Return None: nothing is written."""
        return None

    def remove(self, removed: Iterable[str]) -> Sequence[FailedRemoval]:
        """Refuse, unless there is nothing to remove."""
        for location in removed:
            raise _refused(location)
        return ()


def _respelled_rows(batch: pa.RecordBatch, mapped: str, location: str) -> pa.RecordBatch:
    respelled = [_respelled(path, mapped, location) for path in batch["location"].to_pylist()]
    return batch.set_column(0, batch.schema.field(0), pa.array(respelled, pa.string()))


def _respelled(path: str, mapped: str, location: str) -> str:
    return location.rstrip("/") + path[len(mapped.rstrip("/")) :]


def _refused(location: str) -> Refused:
    return Refused(
        f"nothing is written under `--path-map`, and {locations.redacted(location)} would be",
        hint="run without `--path-map`, on the table where its metadata says it is",
    )
