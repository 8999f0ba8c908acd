"""Files of this machine, by plain system calls (no fsspec, which costs start-up time)."""

import logging
import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO

import pyarrow as pa

from icectl.errors import StorageError
from icectl.storage import location as locations
from icectl.storage.create import create_local, replace_local
from icectl.storage.failures import local_failure
from icectl.storage.listing import Rows, Step, run_steps
from icectl.storage.store import FailedRemoval, FileStatus

_LOGGER = logging.getLogger(__name__)
_PART = 250
"""Files that one thread removes in a row."""


@dataclass(frozen=True, slots=True)
class LocalStore:
    """A Store over `file:/p`, `file:///p`, `file://localhost/p`, `/p` and relative paths."""

    concurrency: int = 8

    def read(self, location: str) -> bytes:
        """All bytes of one file."""
        with _translated("read", location) as path, open(path, "rb") as file:
            return file.read()

    def read_range(self, location: str, offset: int, length: int) -> bytes:
        """`length` bytes from `offset`; fewer at the end. A negative offset counts from there."""
        with _translated("read", location) as path, open(path, "rb", buffering=0) as file:
            if offset < 0:
                offset = max(0, os.fstat(file.fileno()).st_size + offset)
            return os.pread(file.fileno(), length, offset)

    def open(self, location: str) -> IO[bytes]:
        """A seekable reader."""
        with _translated("read", location) as path:
            return open(path, "rb")

    def stat(self, location: str) -> FileStatus | None:
        """Size and time of one file; None where there is none, or a directory."""
        try:
            with _translated("look up", location) as path:
                status = os.stat(path)
        except FileNotFoundError:
            return None
        return None if stat.S_ISDIR(status.st_mode) else _file_status(location, status)

    def list(self, location: str) -> Iterator[pa.RecordBatch]:
        """All files below a location; symbolic links to directories are not followed."""
        return run_steps(location.rstrip("/") or "/", _scan, self.concurrency)

    def list_directory(self, location: str) -> Sequence[FileStatus]:
        """The files directly in one directory; empty where there is none."""
        found = []
        try:
            with _translated("list", location) as path, os.scandir(path) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False) or not _is_text(entry.name):
                        continue
                    status = _status_of(entry)
                    if status is not None and not stat.S_ISDIR(status.st_mode):
                        found.append(_file_status(locations.join(location, entry.name), status))
        except FileNotFoundError:
            return ()
        return sorted(found, key=lambda file: file.location)

    def create(self, location: str, content: bytes) -> None:
        """Write a whole new file, atomically; FileExistsError where one is there (R-162)."""
        with _translated("write", location) as path:
            create_local(path, content)

    def replace(self, location: str, content: bytes) -> None:
        """Write or overwrite a whole file, atomically."""
        with _translated("write", location) as path:
            replace_local(path, content)

    def remove(self, removed: Iterable[str]) -> Sequence[FailedRemoval]:
        """Delete files; those already gone count as removed."""
        every = tuple(removed)
        parts = [every[start : start + _PART] for start in range(0, len(every), _PART)]
        if len(parts) < 2:
            return _remove(every)
        with ThreadPoolExecutor(self.concurrency, thread_name_prefix="remove") as pool:
            return [failed for part in pool.map(_remove, parts) for failed in part]


def _remove(removed: Sequence[str]) -> Sequence[FailedRemoval]:
    failed = []
    for location in removed:
        try:
            with _translated("delete", location) as path:
                os.unlink(path)
        except FileNotFoundError:
            continue
        except StorageError as error:
            failed.append(FailedRemoval(location, error.message))
    return failed


@contextmanager
def _translated(doing: str, location: str) -> Iterator[str]:
    """The path of a location; errors inside come out as the Store protocol promises."""
    try:
        path = locations.local_path(location)
    except ValueError as error:
        raise StorageError(
            f"cannot {doing} {locations.shown(location)}: it is not on this machine",
            hint="local locations are spelled /path or file:///path",
        ) from error
    try:
        yield path
    except (FileNotFoundError, FileExistsError):
        raise
    except NotADirectoryError as error:
        raise FileNotFoundError(error.errno, error.strerror, path) from error
    except OSError as error:
        raise local_failure(doing, location, error) from error
    except ValueError as error:  # a NUL byte, which no file has in its name
        raise FileNotFoundError(f"no file can be named {location!r}") from error


def _scan(directory: str) -> Step[str]:
    rows, below = Rows(), []
    try:
        with _translated("list", directory) as path, os.scandir(path) as entries:
            for entry in entries:
                if not _is_text(entry.name):
                    _LOGGER.debug("a name below %s is no UTF-8, so no metadata names it", directory)
                elif entry.is_dir(follow_symlinks=False):
                    below.append(locations.join(directory, entry.name))
                elif (status := _status_of(entry)) and not stat.S_ISDIR(status.st_mode):
                    location = locations.join(directory, entry.name)
                    rows.add(location, status.st_size, status.st_mtime_ns // 1_000_000)
    except FileNotFoundError:  # gone since its parent was listed
        _LOGGER.debug("%s is gone", directory)
    return Step(rows, tuple(below))


def _status_of(entry: os.DirEntry[str]) -> os.stat_result | None:
    try:
        return entry.stat()
    except FileNotFoundError:  # gone meanwhile, or a link to nowhere
        return None


def _is_text(name: str) -> bool:
    """Whether a file name is UTF-8: no other is expressible in metadata or Arrow."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _file_status(location: str, status: os.stat_result) -> FileStatus:
    return FileStatus(location, status.st_size, status.st_mtime_ns // 1_000_000)
