"""Read, list, write and delete files by location: the only interface to local files and objects."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import IO, Protocol

import pyarrow as pa

from icectl.env import Env
from icectl.errors import Refused
from icectl.storage import location as locations

_AZURE = {"abfs", "abfss", "az", "wasb", "wasbs"}
CREATABLE = {"", "file", "memory", "s3", "s3a", "s3n", "gs", "gcs", "hdfs"} | _AZURE
"""Schemes of locations that new files may be created at."""


@dataclass(frozen=True, slots=True)
class FileStatus:
    """The facts that a store tells of one file; None where it does not tell.

    Listings have neither `etag` nor `version_id`.
    """

    location: str
    size_bytes: int
    modified_ms: int | None
    etag: str | None = field(default=None, compare=False)
    version_id: str | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class ObjectVersion:
    """A version of an object in a bucket that keeps several.

    `size_bytes` is None of what only marks the object as deleted.
    """

    location: str
    id: str
    size_bytes: int | None
    is_newest: bool
    etag: str | None = None

    @property
    def is_marker(self) -> bool:
        return self.size_bytes is None


@dataclass(frozen=True, slots=True)
class FailedRemoval:
    """A file that is still there, and why."""

    location: str
    error: str


@dataclass(frozen=True, slots=True)
class ListingPart:
    """Part of a listing that any process can carry out: what is below a directory.

    Where a store keeps its files in order, only those behind `after` and before `until`.
    """

    location: str
    after: str = ""
    until: str | None = None


@dataclass(frozen=True, slots=True)
class ListingSplit:
    """The beginning of a listing: files found so far, and the parts that are left."""

    batches: Sequence[pa.RecordBatch]
    parts: Sequence[ListingPart]


class CopyRefused(Exception):
    """The storage does not copy ranges of files by itself; says why. There is no new file."""


class Assembly(Protocol):
    """A new file of bytes and of ranges of other files that the storage copies. For one thread."""

    @property
    def copies_whole(self) -> bool:
        """Whether files are copied as a whole only, and before all bytes."""

    def open(self, location: str) -> IO[bytes]:
        """Return a seekable reader of a file to copy from. Any thread may open.

        What is not asked for is not read, but for the end. Once it is there, so is the new file.
        Raises: CopyRefused, where the file lies elsewhere or can't be read in this way;
        FileNotFoundError; StorageError, from reads, also where another file has taken its place.
        """

    def write(self, content: bytes | memoryview, /) -> int:
        """Append bytes, and return how many. Raises: StorageError."""

    def copy(self, location: str, start: int, end: int) -> None:
        """Append the bytes of a file that was opened, from an offset up to another.

        Raises: CopyRefused; StorageError, also where another file has taken its place.
        """


class Store(Protocol):
    """Everything icectl asks of storage. Locations are strings as metadata spells them.

    Missing files raise FileNotFoundError; all other failures raise StorageError, after retries
    where the cause is transient. Methods may be called from any thread.
    """

    def read(self, location: str) -> bytes:
        """Return all bytes of one file."""

    def read_range(self, location: str, offset: int, length: int) -> bytes:
        """Read `length` bytes from `offset`, fewer at the end; below 0 it counts from there."""

    def open(self, location: str) -> IO[bytes]:
        """Return a seekable reader, for Parquet footers and row groups."""

    def stat(self, location: str) -> FileStatus | None:
        """Size and time of one file; None where there is none."""

    def list(self, location: str) -> Iterator[pa.RecordBatch]:
        """All files below, hidden too, as (location, size_bytes, modified_ms); no directories."""

    def split(self, location: str, count: int) -> ListingSplit:
        """Begin to list, until `count` parts are left, if so many; `list_parts` finds the rest."""

    def list_parts(self, parts: Sequence[ListingPart]) -> Iterator[pa.RecordBatch]:
        """Yield all files of some parts of one `split`."""

    def list_directory(self, location: str) -> Sequence[FileStatus]:
        """Return the files directly in one directory; empty where there is none."""

    def create(self, location: str, content: bytes) -> None:
        """Write a whole new file, atomically, by one request that is never repeated (R-162).

        Raises: FileExistsError, where one is there; Refused, where the storage ignores conditions;
        AnswerLost, where the file may be there or not; StorageError, where nothing was written.
        """

    def replace(self, location: str, content: bytes) -> None:
        """Write or overwrite a whole file, atomically; for hints and journals, no commits."""

    def open_new(self, location: str) -> AbstractContextManager[IO[bytes]]:
        """A file to write from its beginning to its end, of any size, under a name of one's own.

        It is there, whole, once this is left without an error, and else leaves nothing.
        FileExistsError where one was there before.
        """

    def assemble(self, location: str) -> AbstractContextManager[Assembly] | None:
        """A new file as `open_new` has it, to compose; None where no storage copies ranges.

        Raises, when it is left: CopyRefused; StorageError; then there is no file.
        """

    def copy(self, source: str, target: str) -> None:
        """Copy a file within one kind of storage, to a name that no other run uses."""

    def remove(self, locations: Iterable[str]) -> Sequence[FailedRemoval]:
        """Delete files; those already gone count as removed."""

    def clock_ms(self, location: str) -> int | None:
        """Return the time by which the storage dates new files; None where it is this machine's."""


def dating_clock_ms(store: Store, env: Env, location: str) -> int:
    """Return the time now by the clock that dates files there."""
    now_ms = store.clock_ms(location)
    return env.now_ms() if now_ms is None else now_ms


def remove_in_batches(
    removed: Sequence[str],
    remove: Callable[[Sequence[str]], Sequence[FailedRemoval]],
    concurrency: int,
    batch: int = 1000,
) -> Sequence[FailedRemoval]:
    """Remove files in batches, several at once. Raises: what removing a batch does."""
    batches = [removed[start : start + batch] for start in range(0, len(removed), batch)]
    if len(batches) < 2:
        return [failed for chunk in batches for failed in remove(chunk)]
    with ThreadPoolExecutor(concurrency, thread_name_prefix="remove") as pool:
        return [failed for chunk in pool.map(remove, batches) for failed in chunk]


def check_creatable(location: str) -> None:
    """Check that storage with this URI scheme supports `create`. Raises: Refused if not."""
    scheme = locations.scheme(location)
    if scheme not in CREATABLE:
        raise Refused(
            f"icectl cannot commit to {scheme}: storage, and {locations.redacted(location)} "
            "would be changed",
            hint="use only commands that read",
        )
