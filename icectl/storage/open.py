"""From a location and the user's storage options to a Store."""

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import import_module
from typing import IO

import pyarrow as pa

from icectl.env import Env
from icectl.storage import location as locations
from icectl.storage.credentials import Places, Renewed, Vendor
from icectl.storage.local.store import LocalStore
from icectl.storage.path_map import PathMapStore
from icectl.storage.store import FailedRemoval, FileStatus, ListingPart, ListingSplit, Store

_LOGGER = logging.getLogger(__name__)
_BUCKET = "icectl.storage.bucket"
"""Imported once a bucket is used: its drivers' modules are a tenth of a short run."""
_AT_ONCE_LOCALLY = 8
_AT_ONCE_IN_STORES = 48


@dataclass(frozen=True, slots=True)
class StorageOptions:
    """The options of storage: fsspec's own, what is read elsewhere, how much at once.

    `options` win over those of `places`. Where these end, `renewed` has those that are valid now:
    it is asked before each use, and crosses to other processes. `concurrency` is by kind of storage
    where it is None. `warn` takes what the user should know of the storage itself.
    """

    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    places: Places = field(default_factory=dict, repr=False)
    path_map: tuple[tuple[str, str], ...] = ()
    concurrency: int | None = None
    warn: Callable[[str], None] = _LOGGER.debug
    renewed: Vendor | None = field(default=None, repr=False)

    def now(self) -> "StorageOptions":
        """Return the options with the places that are valid at this moment.

        Raises: StorageError.
        """
        return self if self.renewed is None else replace(self, places=self.renewed())

    def crossing(self) -> "StorageOptions":
        """Return the options for another process: what warns stays in this one."""
        return replace(self, warn=_LOGGER.debug)

    def place(self, location: str) -> str:
        """Return the prefix whose options a location has; empty where there is none."""
        fitting = (start for start in self.places if location.startswith(start))
        return max(fitting, key=len, default="")

    def of(self, location: str) -> Mapping[str, str]:
        """Return the options by which a location is reached."""
        return {**self.places.get(self.place(location), {}), **self.options}


def requests_at_once(given: int | None, location: str) -> int:
    """Return how many files are read or removed at the same time, where the user does not say.

    Those of a store wait for answers most of the time; those of a disk do not.
    """
    if given is not None:
        return given
    return _AT_ONCE_LOCALLY if locations.is_local(location) else _AT_ONCE_IN_STORES


def open_store(options: StorageOptions, env: Env) -> Store:
    """Return the store for every location of a table, whichever schemes its metadata names.

    Nothing is connected to before it is used, and each scheme's driver is imported then.
    """
    local = LocalStore(requests_at_once(options.concurrency, "/"))
    store = SchemeStore(options, env, local)
    return PathMapStore(store, options.path_map) if options.path_map else store


@dataclass(frozen=True, slots=True)
class SchemeStore:
    """A Store that passes each location on to the store of its scheme, authority and options."""

    options: StorageOptions
    env: Env
    local: LocalStore
    remote: dict[str, Callable[[], Store]] = field(default_factory=dict, repr=False)
    lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def of(self, location: str) -> Store:
        """Return the store that keeps a location."""
        if locations.is_local(location):
            return self.local
        key = _key(self.options.now(), location)
        with self.lock:
            if key not in self.remote:
                concurrency = requests_at_once(self.options.concurrency, location)
                vendor = self.options.renewed
                renewed = Renewed(
                    partial(self._now_of, location), None if vendor is None else vendor.expire
                )
                bucket = import_module(_BUCKET)
                self.remote[key] = bucket.bucket_store(
                    bucket.Driver(location, renewed, self.env, concurrency, self.options.warn)
                )
            opened = self.remote[key]
        return opened()

    def read(self, location: str) -> bytes:
        """Return all bytes of one file."""
        return self._of("read", location).read(location)

    def read_range(self, location: str, offset: int, length: int) -> bytes:
        """Read `length` bytes from `offset`, fewer at the end; below 0 it counts from there."""
        return self._of("read_range", location).read_range(location, offset, length)

    def open(self, location: str) -> IO[bytes]:
        """Open a file for reading, at any place."""
        return self._of("open", location).open(location)

    def stat(self, location: str) -> FileStatus | None:
        """Size and time of one file; None where there is none."""
        return self._of("stat", location).stat(location)

    def list(self, location: str) -> Iterator[pa.RecordBatch]:
        """Yield all files below a location."""
        return self._of("list", location).list(location)

    def split(self, location: str, count: int) -> ListingSplit:
        """Begin to list a location, until at least `count` parts are left."""
        return self._of("split", location).split(location, count)

    def list_parts(self, parts: Sequence[ListingPart]) -> Iterator[pa.RecordBatch]:
        """Yield all files of some parts of one split."""
        return self._of("list_parts", parts[0].location).list_parts(parts)

    def list_directory(self, location: str) -> Sequence[FileStatus]:
        """Return the files directly in one directory; empty where there is none."""
        return self._of("list_directory", location).list_directory(location)

    def create(self, location: str, content: bytes) -> None:
        """Write a whole new file, atomically; FileExistsError where one is there (R-162)."""
        self._of("create", location).create(location, content)

    def replace(self, location: str, content: bytes) -> None:
        """Write or overwrite a whole file, atomically."""
        self._of("replace", location).replace(location, content)

    def open_new(self, location: str) -> AbstractContextManager[IO[bytes]]:
        """Return a file to write, which is there, whole, once this is left without an error."""
        return self._of("open_new", location).open_new(location)

    def copy(self, source: str, target: str) -> None:
        """Copy a file within one kind of storage."""
        self._of("copy", source).copy(source, target)

    def clock_ms(self, location: str) -> int | None:
        """Return the time by which the storage dates new files."""
        return self._of("clock_ms", location).clock_ms(location)

    def remove(self, removed: Iterable[str]) -> Sequence[FailedRemoval]:
        """Delete files; those already gone count as removed."""
        now = self.options.now()
        by_store: dict[str, list[str]] = {}
        for location in removed:
            by_store.setdefault(_key(now, location), []).append(location)
        return [
            failed
            for group in by_store.values()
            for failed in self._of("remove", group[0]).remove(group)
        ]

    def _now_of(self, location: str) -> Mapping[str, str]:
        return self.options.now().of(location)

    def _of(self, call: str, location: str) -> Store:
        _LOGGER.debug("%s %s", call, locations.shown(location))
        return self.of(location)


def _key(options: StorageOptions, location: str) -> str:
    """What locations of one store have in common: scheme and authority, and their options."""
    return f"{locations.root(location)} {options.place(location)}"
