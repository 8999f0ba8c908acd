"""Files of this machine, by plain system calls (no fsspec, which costs start-up time)."""

import errno
import io
import os
import stat
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import IO, Any

import pyarrow as pa

from icectl.errors import StorageError
from icectl.storage import location as locations
from icectl.storage.listing import ListingRows, ListingStep, first_steps, run_steps
from icectl.storage.local.create import (
    begin_to_write_out,
    copy_local,
    create_local,
    new_local,
    replace_local,
)
from icectl.storage.local.folders import OpenFolder, Roots
from icectl.storage.local.scan import (
    LocalScan,
    OpenDirectory,
    is_text,
    open_regular,
    path_used_to,
    regular,
    status_of,
)
from icectl.storage.store import (
    Assembly,
    FailedRemoval,
    FileStatus,
    ListingPart,
    ListingSplit,
    remove_in_batches,
)

_PART = 250
"""Files that one thread removes in a row."""

_WRITE_BYTES = 1 << 18
_WRITE_OUT_BYTES = 1 << 23


@dataclass(frozen=True, slots=True)
class LocalStore:
    """A Store over `file:/p`, `file:///p`, `file://localhost/p`, `/p` and relative paths."""

    concurrency: int = 8
    roots: Roots = field(default_factory=Roots, compare=False, repr=False)

    def read(self, location: str) -> bytes:
        with path_used_to("read", location) as path:
            return _read_part(path, 0, sys.maxsize)

    def read_range(self, location: str, offset: int, length: int) -> bytes:
        with path_used_to("read", location) as path:
            return _read_part(path, offset, length)

    def open(self, location: str) -> IO[bytes]:
        with path_used_to("read", location) as path:
            return open(path, "rb", opener=regular)

    def stat(self, location: str) -> FileStatus | None:
        """Size and time of one file; None where there is none, or a directory."""
        try:
            with path_used_to("look up", location) as path:
                status = os.stat(path)
        except FileNotFoundError:
            return None
        return None if stat.S_ISDIR(status.st_mode) else _file_status(location, status)

    def list(self, location: str) -> Iterator[pa.RecordBatch]:
        """Yield all files below a location; symbolic links to directories are not followed.

        Those to files have the size of what they lead to, and no time of their own.
        """
        return _below([location.rstrip("/") or "/"], self.concurrency)

    def split(self, location: str, count: int) -> ListingSplit:
        """Begin to list a location; the parts are directories."""
        with closing(LocalScan()) as scan:
            whole = partial(_read_whole, scan)
            begun = first_steps(location.rstrip("/") or "/", whole, self.concurrency, count)
        return ListingSplit(
            begun.rows.take_all(), [ListingPart(directory) for directory in begun.next]
        )

    def list_parts(self, parts: Sequence[ListingPart]) -> Iterator[pa.RecordBatch]:
        """Yield all files below some directories."""
        return _below([part.location for part in parts], self.concurrency)

    def list_directory(self, location: str) -> Sequence[FileStatus]:
        statuses = []
        try:
            with path_used_to("list", location) as path, os.scandir(path) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False) or not is_text(entry.name):
                        continue
                    status = status_of(entry)
                    if status is not None and stat.S_ISREG(status.st_mode):  # no pipe: it blocks
                        statuses.append(_file_status(locations.join(location, entry.name), status))
        except FileNotFoundError:
            return ()
        return sorted(statuses, key=lambda file: file.location)

    def create(self, location: str, content: bytes) -> None:
        with path_used_to("write", location) as path, self.roots.new(path, location) as new:
            create_local(*new[:2], content)

    def replace(self, location: str, content: bytes) -> None:
        with path_used_to("write", location) as path, self.roots.new(path, location) as new:
            replace_local(*new[:2], content)

    @contextmanager
    def open_new(self, location: str) -> Iterator[IO[bytes]]:
        """A file to write, which is there, whole, once this is left without an error (R-162)."""
        with ExitStack() as stack:
            with path_used_to("write", location) as path:
                folder, name, own = stack.enter_context(self.roots.new(path, location))
                temporary, _ = stack.enter_context(new_local(folder, name))
            with write_to(os.path.join(os.path.dirname(own), temporary), location) as file:
                yield file
            with path_used_to("write", location):
                stack.close()

    def assemble(self, location: str) -> AbstractContextManager[Assembly] | None:  # noqa: ARG002
        """Return None: the bytes are to be looked at, and are here anyway."""
        return None

    def copy(self, source: str, target: str) -> None:
        """Link or copy a file to a name that nobody else uses; its folder is found as in remove."""
        with (
            path_used_to("copy", source) as path,
            path_used_to("write", target) as new_path,
            self.roots.folders() as folders,
        ):
            folder, name = folders.of(path, source)
            with self.roots.new(new_path, target) as (new_folder, new_name, _):
                copy_local(name, folder, new_name, new_folder)

    def clock_ms(self, location: str) -> int | None:  # noqa: ARG002
        """Return None: files are dated by this machine's clock."""
        return None

    def remove(self, removed: Iterable[str]) -> Sequence[FailedRemoval]:
        """Delete files; those already gone count as removed.

        No link is followed to them below the roots, and without one, none at all.
        """
        return remove_in_batches(tuple(removed), self._remove, self.concurrency, _PART)

    def _remove(self, removed: Sequence[str]) -> Sequence[FailedRemoval]:
        failed = []
        with self.roots.folders() as folders:
            for location in removed:
                try:
                    with path_used_to("delete", location) as path:
                        _unlink(folders, path, location)
                except FileNotFoundError:
                    continue
                except StorageError as error:
                    failed.append(FailedRemoval(location, error.message))
        return failed


def write_to(path: str, location: str) -> IO[bytes]:
    """Open the temporary file of a new one, by the `name` that open_new's has, in any process."""
    return io.BufferedWriter(_Written(path, location), _WRITE_BYTES)


class _Written(io.FileIO):
    """A file to write to, whose errors come out as the Store protocol promises.

    The disk is kept at work, so that little is left to wait for at the end.
    """

    def __init__(self, path: str, location: str) -> None:
        super().__init__(path, "wb", opener=_empty_file)
        self._location = location
        self._written_bytes = self._begun_bytes = 0

    def write(self, content: Any, /) -> int:
        """Write bytes, and return how many."""
        with path_used_to("write", self._location):
            count = super().write(content)
        self._written_bytes += count
        if self._written_bytes - self._begun_bytes >= _WRITE_OUT_BYTES:
            begin_to_write_out(self.fileno(), self._begun_bytes, self._written_bytes)
            self._begun_bytes = self._written_bytes
        return count


def _empty_file(path: str, _: int) -> int:
    """Open the temporary file, as an `opener`: no other is made, nor loses what it holds.

    Raises: OSError.
    """
    flags = os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    descriptor = os.open(path, flags)
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode) or status.st_size:
        os.close(descriptor)
        raise FileExistsError(errno.EEXIST, "another file has taken its place", path)
    return descriptor


def _below(
    directories: Sequence[str | OpenDirectory], concurrency: int
) -> Iterator[pa.RecordBatch]:
    with closing(LocalScan()) as scan:
        yield from run_steps(directories, scan.step, concurrency)


def _read_whole(scan: LocalScan, directory: str) -> ListingStep[str]:
    """Return all entries of one directory, in as many steps as that takes."""
    rows = ListingRows()
    below: list[str] = []
    left: list[str | OpenDirectory] = [directory]
    while left:
        done = scan.step(left.pop())
        rows.extend(done.rows)
        for request in done.next:
            if isinstance(request, OpenDirectory):
                left.append(request)
            else:
                below.append(request)
    return ListingStep(rows, tuple(below))


def _unlink(folders: OpenFolder, path: str, location: str) -> None:
    try:
        folder, name = folders.of(path, location)
        os.unlink(name, dir_fd=folder)
    except OSError as error:
        if error.errno != errno.ENAMETOOLONG:  # a name that no file ever got
            raise


def _read_part(path: str, offset: int, length: int) -> bytes:
    """Read bytes of a regular file, as far as it goes; an offset below 0 counts from its end.

    Cost: half of what a file object of Python takes, which counts among thousands of manifests.
    """
    descriptor, status = open_regular(path, os.O_RDONLY)
    try:
        start = max(0, status.st_size + offset) if offset < 0 else offset
        length = max(0, min(length, status.st_size - start))
        content = os.pread(descriptor, length, start)
        while len(content) < length:  # one read gives 2 GiB at most
            more = os.pread(descriptor, length - len(content), start + len(content))
            if not more:
                break
            content += more
        return content
    finally:
        os.close(descriptor)


def _file_status(location: str, status: os.stat_result) -> FileStatus:
    return FileStatus(location, status.st_size, status.st_mtime_ns // 1_000_000)
