"""Files of this machine, by plain system calls (no fsspec, which costs start-up time)."""

import ctypes
import errno
import io
import itertools
import logging
import os
import shutil
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache, partial
from typing import IO, Any

import pyarrow as pa

from icectl.errors import Refused, StorageError
from icectl.storage import location as locations
from icectl.storage.listing import ListingRows, ListingStep, first_directories, run_steps
from icectl.storage.local.folders import OpenFolder, Roots
from icectl.storage.local.scan import (
    LocalScan,
    OpenDirectory,
    open_regular,
    path_used_to,
    regular,
    status_of,
)
from icectl.storage.new_files import temporary_name
from icectl.storage.store import (
    Assembly,
    FailedRemoval,
    FileStatus,
    ListingPart,
    ListingSplit,
    remove_in_batches,
)
from icectl.units import is_text

_LOGGER = logging.getLogger(__name__)
_NO_LINKS = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK}
_LONGEST_NAME = 200
"""Bytes that file systems take for a name, 255 as a rule, less what comes before it."""

_PART = 250
"""Files that one thread removes in a row."""

_WRITE_BYTES = 1 << 18
_WRITE_OUT_BYTES = 1 << 23
_SYNC_FILE_RANGE_WRITE = 2

_COUNTER = itertools.count()


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
        """Yield files, by no link to a folder; a link has its target's size and no time."""
        return _below([location.rstrip("/") or "/"], self.concurrency)

    def split(self, location: str, count: int) -> ListingSplit:
        with closing(LocalScan()) as scan:
            whole = partial(_read_whole, scan)
            return first_directories(location.rstrip("/") or "/", whole, self.concurrency, count)

    def list_parts(self, parts: Sequence[ListingPart]) -> Iterator[pa.RecordBatch]:
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
        with (
            path_used_to("write", location) as path,
            self.roots.new(path, location) as (folder, name, _),
            _new_file(folder, name) as (_, file),
        ):
            file.write(content)

    def replace(self, location: str, content: bytes) -> None:
        with (
            path_used_to("write", location) as path,
            self.roots.new(path, location) as (folder, name, _),
            _replacing(folder, name) as file,
        ):
            file.write(content)

    @contextmanager
    def open_new(self, location: str) -> Iterator[IO[bytes]]:
        """A file to write, which is there, whole, once this is left without an error (R-162)."""
        with ExitStack() as stack:
            with path_used_to("write", location) as path:
                folder, name, resolved = stack.enter_context(self.roots.new(path, location))
                temporary, _ = stack.enter_context(_new_file(folder, name))
            with write_to(os.path.join(os.path.dirname(resolved), temporary), location) as file:
                yield file
            with path_used_to("write", location):
                stack.close()

    def assemble(self, location: str) -> AbstractContextManager[Assembly] | None:  # noqa: ARG002
        """Return None: the bytes are to be looked at, and are here anyway."""
        return None

    def copy(self, source: str, target: str) -> None:
        """Link or copy a file to a name of this run; its folder is found as in remove."""
        with (
            path_used_to("copy", source) as path,
            path_used_to("write", target) as new_path,
            closing(OpenFolder(self.roots)) as folders,
        ):
            folder, name = folders.of(path, source)
            with self.roots.new(new_path, target) as (new_folder, new_name, _):
                _copy(name, folder, new_name, new_folder)

    def clock_ms(self, location: str) -> int | None:  # noqa: ARG002
        """Return None: files are dated by this machine's clock."""
        return None

    def remove(self, removed: Iterable[str]) -> Sequence[FailedRemoval]:
        """Delete files through no link below the roots, and without a root, through none at all."""
        return remove_in_batches(tuple(removed), self._remove, self.concurrency, _PART)

    def _remove(self, removed: Sequence[str]) -> Sequence[FailedRemoval]:
        failed = []
        with closing(OpenFolder(self.roots)) as folders:
            for location in removed:
                try:
                    with path_used_to("delete", location) as path:
                        _unlink(folders, path, location)
                except FileNotFoundError:
                    continue
                except StorageError as error:
                    failed.append(FailedRemoval(location, error.reason))
        return failed


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


def write_to(path: str, location: str) -> IO[bytes]:
    """Open the temporary file of a new one, by the `name` that open_new's has, in any process."""
    return io.BufferedWriter(_Written(path, location), _WRITE_BYTES)


class _Written(io.FileIO):
    """A file to write to, with errors as the Store protocol has them; the disk is kept at work."""

    def __init__(self, path: str, location: str) -> None:
        super().__init__(path, "wb", opener=_empty_file)
        self._location = location
        self._written_bytes = self._begun_bytes = 0

    def write(self, content: Any, /) -> int:
        with path_used_to("write", self._location):
            count = super().write(content)
        self._written_bytes += count
        if self._written_bytes - self._begun_bytes >= _WRITE_OUT_BYTES:
            begin_to_write_out(self.fileno(), self._begun_bytes, self._written_bytes)
            self._begun_bytes = self._written_bytes
        return count


def _empty_file(path: str, _: int) -> int:
    """Open the temporary file, as an `opener`: only if it is there, and empty. Raises: OSError."""
    flags = os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    descriptor = os.open(path, flags)
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode) or status.st_size:
        os.close(descriptor)
        raise FileExistsError(errno.EEXIST, "another file has replaced it", path)
    return descriptor


@contextmanager
def _new_file(folder: int, name: str) -> Iterator[tuple[str, IO[bytes]]]:
    """A file to write, with its own name, which gets `name` once this is left without an error.

    `open("xb")` would show an empty file to readers before it has content, and a rename overwrites;
    a second link fails (R-162). Raises: FileExistsError, when the name is taken; Refused, on a file
    system without hard links; OSError otherwise. The file exists whole, or not at all.
    """
    with _temporary(folder, name) as (temporary, file):
        yield temporary, file
        _sync(file)
        try:
            os.link(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
        except OSError as error:
            if error.errno == errno.EEXIST:
                raise FileExistsError(error.errno, error.strerror, name) from error
            if error.errno not in _NO_LINKS:
                raise
            raise Refused(
                f"the file system of the new file {name} has no hard links, which commits need",
                hint="keep tables that icectl changes on a file system with hard links",
            ) from error
    _sync_directory(folder)


@contextmanager
def _replacing(folder: int, name: str) -> Iterator[IO[bytes]]:
    """A file to write, which is put in the place of another; readers see the old or the new one."""
    with _temporary(folder, name) as (temporary, file):
        yield file
        _sync(file)
        os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    _sync_directory(folder)


def _copy(name: str, folder: int, new_name: str, new_folder: int) -> None:
    """Give a file of an open folder a second name; on another file system, copy it.

    A link is none. Raises: OSError. The copy exists whole, or not at all.
    """
    try:
        os.link(name, new_name, src_dir_fd=folder, dst_dir_fd=new_folder, follow_symlinks=False)
    except OSError as error:
        if error.errno not in _NO_LINKS | {errno.EXDEV}:
            raise
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        with (
            os.fdopen(os.open(name, flags, dir_fd=folder), "rb") as source,
            _replacing(new_folder, new_name) as file,
        ):
            mode = os.fstat(source.fileno()).st_mode
            os.fchmod(file.fileno(), stat.S_IMODE(mode) & 0o777)
            shutil.copyfileobj(source, file)
    else:
        _sync_directory(new_folder)


@contextmanager
def _temporary(folder: int, name: str) -> Iterator[tuple[str, IO[bytes]]]:
    """An empty file in a folder, by its own name, which is gone afterwards unless it is renamed."""
    temporary, descriptor = _open_temporary(folder, name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            group = os.fstat(folder).st_gid
            if os.fstat(descriptor).st_gid != group:
                with suppress(PermissionError):  # as far as the user may
                    os.fchown(descriptor, -1, group)
            yield temporary, file
    finally:
        with suppress(OSError):
            os.unlink(temporary, dir_fd=folder)


def _sync(file: IO[bytes]) -> None:
    file.flush()
    os.fsync(file.fileno())


def begin_to_write_out(descriptor: int, start: int, end: int) -> None:
    """Have the system begin to write bytes to the disk, if it can; nothing relies on it."""
    begin = _sync_file_range()
    if begin is not None:
        begin(descriptor, start, end - start, _SYNC_FILE_RANGE_WRITE)


@cache
def _sync_file_range() -> Callable[[int, int, int, int], int] | None:
    """Return the call of Linux; None on other systems."""
    call = getattr(ctypes.CDLL(None), "sync_file_range", None)
    if call is not None:
        call.argtypes = [ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint]
    return call


def _open_temporary(folder: int, name: str) -> tuple[str, int]:
    """Make a file whose name ends as the one to come, as who looks for leftovers expects."""
    end = name if len(os.fsencode(name)) <= _LONGEST_NAME else ".tmp"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    while True:
        temporary = temporary_name(next(_COUNTER), end)
        with suppress(FileExistsError):  # of a process of this number on another host, or long ago
            return temporary, os.open(temporary, flags, 0o666, dir_fd=folder)


def _sync_directory(folder: int) -> None:
    """Make new names outlast a power cut; not every file system can."""
    try:
        descriptor = os.open(".", os.O_RDONLY, dir_fd=folder)
    except OSError:
        _LOGGER.debug("cannot open a directory to sync it")
        return
    try:
        os.fsync(descriptor)
    except OSError:
        _LOGGER.debug("cannot sync a directory")
    finally:
        os.close(descriptor)
