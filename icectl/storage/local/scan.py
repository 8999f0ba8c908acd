"""Directories of this machine as steps of a recursive listing.

The first files are read by Python; when there are many, the others by a compiled loop, which is
faster, and which threads run at the same time.
"""

import errno
import logging
import os
import stat
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from icectl.entries.columns import not_text
from icectl.errors import StorageError
from icectl.files.compiled import address, loops
from icectl.storage import location as locations
from icectl.storage.failures import local_failure
from icectl.storage.listing import LISTING_SCHEMA, ListingRows, ListingStep
from icectl.units import is_text

_LOGGER = logging.getLogger(__name__)
_NO_TEXT = "a name below %s is not UTF-8, so no metadata names it"
_MANY = 50_000
"""Files from which the loop pays, with the room that every thread fills."""
_ENTRIES, _NAME_BYTES = 1 << 14, 1 << 23
"""What one step reads of a large directory at most; the longest path fits before each name."""

_Array = npt.NDArray[Any]

_DIRECTORY, _OTHER = -1, -2
"""Sizes of entries that are no files; of the others (links, say) only the name is known."""

_MORE = 1
"""Says that the loop ended because its arrays are full; below 0 is a failure's errno."""


def has_loop() -> bool:
    """Return whether the loop is there: it was built, on a system that has the calls."""
    return hasattr(loops(), "read_entries")


def _read_entries(
    directory: int, prefix: _Array, names: _Array, ends: _Array, sizes: _Array, times: _Array
) -> tuple[int, int]:
    """Read entries of an open directory, and return (_MORE, 0 or a failure, how many entries).

    The name of each follows the prefix, and its row n is names[ends[n] : ends[n + 1]]. It asks for
    32 KiB of entries at once, and ends with _MORE where the arrays may have no room for those.
    Units: bytes; milliseconds since 1970.
    """
    count = np.zeros(1, np.int64)
    outcome: int = loops().read_entries(
        directory,
        *(address(prefix, np.uint8), len(prefix)),
        *(address(names, np.uint8), len(names)),
        address(ends, np.int32),
        address(sizes, np.int64),
        *(address(times, np.int64), len(sizes)),
        address(count, np.int64),
    )
    return outcome, int(count[0])


@dataclass(frozen=True, slots=True)
class OpenDirectory:
    """A large directory, of which a part may have been read."""

    location: str
    descriptor: int


class _Buffers(threading.local):
    """The arrays that the loop fills: names, where each ends, sizes, times."""

    def __init__(self) -> None:
        self.arrays: tuple[_Array, ...] = (
            np.empty(_NAME_BYTES, np.uint8),
            np.empty(_ENTRIES + 1, np.int32),
            np.empty(_ENTRIES, np.int64),
            np.empty(_ENTRIES, np.int64),
        )


class LocalScan:
    """The steps of one recursive listing. A request is a directory, or the rest of one."""

    def __init__(self) -> None:
        self._seen = 0
        self._descriptors: set[int] = set()
        self._buffers = _Buffers()

    def close(self) -> None:
        """Close directories that have not been read to their end."""
        for descriptor in self._descriptors:
            os.close(descriptor)

    def step(self, request: str | OpenDirectory) -> ListingStep[str | OpenDirectory]:
        """Read a directory, or some thousand entries of it; symbolic links are not followed."""
        location = request.location if isinstance(request, OpenDirectory) else request
        try:
            with path_used_to("list", location) as path:
                if isinstance(request, OpenDirectory):
                    return self._read_on(request)
                return self._begin(request, path)
        except FileNotFoundError:  # gone since its parent was listed
            _LOGGER.debug("%s is gone", location)
            return ListingStep(ListingRows())

    def _begin(self, location: str, path: str) -> ListingStep[str | OpenDirectory]:
        if self._seen < _MANY or not has_loop():
            with os.scandir(path) as entries:
                some = list(islice(entries, _MANY))
                if len(some) < _MANY or not has_loop():
                    return self._scanned(location, chain(some, entries))
            self._seen += _MANY
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        self._descriptors.add(descriptor)
        return self._read_on(OpenDirectory(location, descriptor))

    def _scanned(
        self, location: str, entries: Iterable[os.DirEntry[str]]
    ) -> ListingStep[str | OpenDirectory]:
        rows, below = ListingRows(), []
        for entry in entries:
            if not is_text(entry.name):
                _LOGGER.debug(_NO_TEXT, location)
            elif entry.is_dir(follow_symlinks=False):
                below.append(locations.join(location, entry.name))
            elif (status := status_of(entry)) and not stat.S_ISDIR(status.st_mode):
                path = locations.join(location, entry.name)
                modified_ms = status.st_mtime_ns // 1_000_000
                rows.add(path, status.st_size, None if entry.is_symlink() else modified_ms)
        self._seen += rows.waiting  # threads may lose some of it, which does not matter
        return ListingStep(rows, tuple(below))

    def _read_on(self, opened: OpenDirectory) -> ListingStep[str | OpenDirectory]:
        arrays = self._buffers.arrays
        prefix = np.array(memoryview(locations.join(opened.location, "").encode()))
        outcome, count = _read_entries(opened.descriptor, prefix, *arrays)
        if outcome != _MORE:
            self._descriptors.remove(opened.descriptor)
            os.close(opened.descriptor)
        if outcome < 0:
            raise OSError(-outcome, os.strerror(-outcome))
        rows, below, others = _sorted(arrays, count)
        for location in others:
            _look_up(location, rows, below)
        return ListingStep(rows, (*below, opened) if outcome == _MORE else tuple(below))


def _sorted(arrays: tuple[_Array, ...], count: int) -> tuple[ListingRows, list[str], list[str]]:
    """Return files, directories and others among the entries that the loop has read."""
    names, ends, sizes, times = arrays
    ends = ends[: count + 1].copy()
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(names[: ends[-1]].copy())]
    places = pa.Array.from_buffers(pa.binary(), count, buffers)
    text = ~not_text(places)
    sizes, times = sizes[:count].copy(), times[:count].copy()
    rows = ListingRows()
    mask = (sizes >= 0) & text
    if mask.all():
        rows.add_batch(_batch(places, sizes, times))
        return rows, [], []

    def those(chosen: _Array) -> pa.Array:
        return places.filter(pa.array(chosen & text))

    rows.add_batch(_batch(those(mask), sizes[mask], times[mask]))
    directories, others = (those(sizes == kind) for kind in (_DIRECTORY, _OTHER))
    return rows, _texts(directories), _texts(others)


def _batch(places: pa.Array, sizes: _Array, times: _Array) -> pa.RecordBatch:
    columns = [places.cast(pa.string()), pa.array(sizes), pa.array(times)]
    return pa.RecordBatch.from_arrays(columns, schema=LISTING_SCHEMA)


def _texts(places: pa.Array) -> list[str]:
    texts: list[str] = places.cast(pa.string()).to_pylist()
    return texts


def _look_up(location: str, rows: ListingRows, below: list[str]) -> None:
    path = locations.local_path(location)
    try:
        entry = os.lstat(path)
        if stat.S_ISDIR(entry.st_mode):
            below.append(location)
            return
        status = os.stat(path)
    except FileNotFoundError:  # gone since, or a link to nowhere
        return
    if not stat.S_ISDIR(status.st_mode):
        is_link = stat.S_ISLNK(entry.st_mode)
        rows.add(location, status.st_size, None if is_link else status.st_mtime_ns // 1_000_000)


def regular(path: str, flags: int) -> int:
    """Open a regular file, as an `opener`: nothing else is opened or awaited. Raises: OSError."""
    return open_regular(path, flags)[0]


def open_regular(path: str, flags: int) -> tuple[int, os.stat_result]:
    """Open a regular file, and look at it. Raises: OSError, where it is anything else."""
    _check_regular(os.stat(path))  # opening a device may do something
    descriptor = os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY)
    try:
        status = os.fstat(descriptor)
        _check_regular(status)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor, status


def _check_regular(status: os.stat_result) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.ENXIO, "It is a pipe, a socket or a device")


def status_of(entry: os.DirEntry[str]) -> os.stat_result | None:
    """Look up an entry, or what it links to; None where there is nothing."""
    try:
        return entry.stat()
    except FileNotFoundError:  # gone since, or a link to nowhere
        return None


@contextmanager
def path_used_to(doing: str, location: str) -> Iterator[str]:
    """The path of a location; errors inside come out as the Store protocol promises."""
    try:
        path = locations.local_path(location)
    except ValueError as error:
        raise StorageError(
            f"cannot {doing} {locations.redacted(location)}: it is not on this machine",
            hint="write local locations as /path or file:///path",
        ) from error
    try:
        yield path
    except (FileNotFoundError, FileExistsError) as error:
        error.filename = path  # it may name the last part alone
        raise
    except NotADirectoryError as error:
        if doing == "write":  # then it is not the file that is missing
            raise local_failure(doing, location, error) from error
        raise FileNotFoundError(error.errno, error.strerror, path) from error
    except OSError as error:
        raise local_failure(doing, location, error) from error
    except ValueError as error:  # a NUL byte, which no file has in its name
        raise FileNotFoundError(f"no file can be named {location!r}") from error
