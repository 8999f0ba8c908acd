"""Whole new files of this machine, atomically: all of it under its name, or nothing.

`open("xb")` would show an empty file to readers before it has content, and a rename overwrites; a
second link fails. So a file is written under a name of its own and then linked (R-162).
"""

import ctypes
import errno
import itertools
import logging
import os
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from typing import IO

from icectl.errors import Refused
from icectl.storage.temporary import temporary_name

_LOGGER = logging.getLogger(__name__)
_NO_LINKS = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK}
_LONGEST_NAME = 200
"""Bytes that file systems take for a name, 255 as a rule, less what comes before it."""

_SYNC_FILE_RANGE_WRITE = 2

_COUNTER = itertools.count()


def create_local(folder: int, name: str, content: bytes) -> None:
    """Write a new file in an open folder.

    Raises: FileExistsError, when the name is taken; Refused, on a file system without hard links;
    OSError otherwise. The file exists whole, or not at all.
    """
    with new_local(folder, name) as (_, file):
        file.write(content)


@contextmanager
def new_local(folder: int, name: str) -> Iterator[tuple[str, IO[bytes]]]:
    """A file to write, with its own name, which gets `name` once this is left without an error.

    Raises: as create_local.
    """
    with _temporary(folder, name) as (temporary, file):
        yield temporary, file
        _sync(file)
        _link(folder, temporary, name)
    _sync_directory(folder)


def _link(folder: int, temporary: str, name: str) -> None:
    """Give a whole file its name."""
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


def replace_local(folder: int, name: str, content: bytes) -> None:
    """Write a file or put new content in its place; readers see the old or the new one.

    Raises: OSError.
    """
    with _replacing(folder, name) as file:
        file.write(content)
    _sync_directory(folder)


@contextmanager
def _replacing(folder: int, name: str) -> Iterator[IO[bytes]]:
    with _temporary(folder, name) as (temporary, file):
        yield file
        _sync(file)
        os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)


def copy_local(name: str, folder: int, new_name: str, new_folder: int) -> None:
    """Give a file of an open folder a second name; on another file system, copy it.

    A link is none. Raises: OSError. The copy exists whole, or not at all.
    """
    try:
        os.link(name, new_name, src_dir_fd=folder, dst_dir_fd=new_folder, follow_symlinks=False)
    except OSError as error:
        if error.errno not in _NO_LINKS | {errno.EXDEV}:
            raise
        _copy_bytes(name, folder, new_name, new_folder)
    _sync_directory(new_folder)


def _copy_bytes(name: str, folder: int, new_name: str, new_folder: int) -> None:
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with (
        os.fdopen(os.open(name, flags, dir_fd=folder), "rb") as source,
        _replacing(new_folder, new_name) as file,
    ):
        mode = os.fstat(source.fileno()).st_mode
        os.fchmod(file.fileno(), stat.S_IMODE(mode) & 0o777)
        shutil.copyfileobj(source, file)


@contextmanager
def _temporary(folder: int, name: str) -> Iterator[tuple[str, IO[bytes]]]:
    """An empty file in a folder, by its own name, which is gone afterwards unless it is renamed."""
    temporary, descriptor = _open_temporary(folder, name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            _take_group(descriptor, folder)
            yield temporary, file
    finally:
        with suppress(OSError):
            os.unlink(temporary, dir_fd=folder)


def _sync(file: IO[bytes]) -> None:
    file.flush()
    os.fsync(file.fileno())


def begin_to_write_out(descriptor: int, start: int, end: int) -> None:
    """Have the system begin to write bytes of a file to the disk, where it can be asked to.

    Nothing waits for it, or relies on it.
    """
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
    """A file whose name ends as the one to come, so that who looks for that finds what a kill left.

    Shape: its name, and its descriptor.
    """
    end = name if len(os.fsencode(name)) <= _LONGEST_NAME else ".tmp"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    while True:
        temporary = temporary_name(next(_COUNTER), end)
        with suppress(FileExistsError):  # of a process of this number on another host, or long ago
            return temporary, os.open(temporary, flags, 0o666, dir_fd=folder)


def _take_group(descriptor: int, folder: int) -> None:
    """Give a new file the group of its folder, as far as the user may."""
    group = os.fstat(folder).st_gid
    if os.fstat(descriptor).st_gid != group:
        with suppress(PermissionError):
            os.fchown(descriptor, -1, group)


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
