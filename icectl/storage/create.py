"""Whole new files, atomically: all of it under its name, or nothing; or a refusal.

`open("xb")` would show an empty file to readers before it has content, and a rename overwrites; a
second link fails. So a file is written under a name of its own and then linked (R-162).
"""

import errno
import itertools
import logging
import os
import shutil
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO, Any

from icectl.errors import Refused
from icectl.storage import location as locations
from icectl.storage.temporary import temporary_name

_LOGGER = logging.getLogger(__name__)
_NO_LINKS = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK}
_AZURE = {"abfs", "abfss", "az", "wasb", "wasbs"}
CREATABLE = {"", "file", "memory", "s3", "s3a", "s3n", "gs", "gcs", "hdfs"} | _AZURE
_LONGEST_NAME = 200
"""Bytes that file systems take for a name, 255 as a rule, less what comes before it."""

_COUNTER = itertools.count()
_MEMORY_LOCK = threading.Lock()


def check_creatable(location: str) -> None:
    """Do nothing where `create` is offered: on local paths, on S3, Azure, GCS and HDFS, in memory.

    Raises: Refused elsewhere.
    """
    scheme = locations.scheme(location)
    if scheme not in CREATABLE:
        raise Refused(
            f"committing to {scheme}: storage is not offered, and "
            f"{locations.shown(location)} would be changed",
            hint="commands that only read work there",
        )


def create_local(path: str, content: bytes) -> None:
    """Write a new file; missing directories are made.

    Raises: FileExistsError, when the name is taken; Refused, on a file system without hard links;
    OSError otherwise. The file exists whole, or not at all.
    """
    with _temporary(path) as (temporary, file):
        file.write(content)
        _sync(file)
        _link(temporary, path)
    _sync_directory(path)


@contextmanager
def new_local(path: str) -> Iterator[str]:
    """The path of a file to write, which gets its name once this is left without an error.

    Raises: as create_local.
    """
    with _temporary(path) as (temporary, file):
        yield temporary
        _sync(file)
        _link(temporary, path)
    _sync_directory(path)


def _link(temporary: str, path: str) -> None:
    """Give a whole file its name."""
    try:
        os.link(temporary, path)
    except OSError as error:
        if error.errno == errno.EEXIST:
            raise FileExistsError(error.errno, error.strerror, path) from error
        if error.errno not in _NO_LINKS:
            raise
        raise Refused(
            f"the file system of {path} has no hard links, so a new file cannot be told from one "
            "that another writer put there first",
            hint="keep tables that icectl changes on a file system with hard links",
        ) from error


def replace_local(path: str, content: bytes) -> None:
    """Write a file or put new content in its place; readers see the old or the new one.

    Raises: OSError.
    """
    with _temporary(path) as (temporary, file):
        file.write(content)
        _sync(file)
        os.replace(temporary, path)
    _sync_directory(path)


def copy_local(name: str, folder: int, target: str) -> None:
    """Give a file of an open folder a second name; on another file system, copy it.

    A link is none. Raises: OSError. The copy exists whole, or not at all.
    """
    os.makedirs(os.path.dirname(target), exist_ok=True)
    try:
        os.link(name, target, src_dir_fd=folder, follow_symlinks=False)
    except OSError as error:
        if error.errno not in _NO_LINKS | {errno.EXDEV}:
            raise
        _copy_bytes(name, folder, target)
    _sync_directory(target)


def _copy_bytes(name: str, folder: int, target: str) -> None:
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with _temporary(target) as (temporary, file):
        with os.fdopen(os.open(name, flags, dir_fd=folder), "rb") as source:
            mode = os.fstat(source.fileno()).st_mode
            os.fchmod(file.fileno(), stat.S_IMODE(mode) & 0o777)
            shutil.copyfileobj(source, file)
        _sync(file)
        os.replace(temporary, target)


def create_in_memory(filesystem: Any, path: str, content: bytes) -> None:
    """Write a new file of fsspec's memory file system, which all of a process shares.

    Raises: FileExistsError, when the name is taken.
    """
    with _MEMORY_LOCK:
        if filesystem.exists(path):
            raise FileExistsError(path)
        filesystem.pipe_file(path, content)


@contextmanager
def _temporary(path: str) -> Iterator[tuple[str, IO[bytes]]]:
    """An empty file beside a path, by its own, which is gone afterwards unless it is renamed."""
    directory = os.path.dirname(path) or "."
    os.makedirs(directory, exist_ok=True)
    temporary, descriptor = _open_temporary(directory, os.path.basename(path))
    try:
        with os.fdopen(descriptor, "wb") as file:
            _take_group(descriptor, directory)
            yield temporary, file
    finally:
        with suppress(OSError):
            os.unlink(temporary)


def _sync(file: IO[bytes]) -> None:
    file.flush()
    os.fsync(file.fileno())


def _open_temporary(directory: str, name: str) -> tuple[str, int]:
    """A file whose name ends as the one to come, so that who looks for that finds what a kill left.

    Shape: its path, and its descriptor.
    """
    end = name if len(os.fsencode(name)) <= _LONGEST_NAME else ".tmp"
    while True:
        temporary = os.path.join(directory, temporary_name(next(_COUNTER), end))
        with suppress(FileExistsError):  # of a process of this number on another host, or long ago
            return temporary, os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)


def _take_group(descriptor: int, directory: str) -> None:
    """Give a new file the group of its directory, as far as the user may."""
    group = os.stat(directory).st_gid
    if os.fstat(descriptor).st_gid != group:
        with suppress(PermissionError):
            os.fchown(descriptor, -1, group)


def _sync_directory(path: str) -> None:
    """Make the new name outlast a power cut; not every file system can."""
    try:
        descriptor = os.open(os.path.dirname(path) or ".", os.O_RDONLY)
    except OSError:
        _LOGGER.debug("cannot open the directory of %s to sync it", path)
        return
    try:
        os.fsync(descriptor)
    except OSError:
        _LOGGER.debug("cannot sync the directory of %s", path)
    finally:
        os.close(descriptor)
