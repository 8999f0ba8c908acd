"""From a location and the user's storage options to a Store."""

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import IO

import pyarrow as pa

from icectl.env import Env
from icectl.storage import location as locations
from icectl.storage.local import LocalStore
from icectl.storage.path_map import PathMapStore
from icectl.storage.remote import RemoteStore, open_remote
from icectl.storage.store import FailedRemoval, FileStatus, Part, Split, Store

_LOGGER = logging.getLogger(__name__)

Places = Mapping[str, Mapping[str, str]]
"""Options of locations that begin with a prefix, of which the longest counts."""


@dataclass(frozen=True, slots=True)
class StorageOptions:
    """How storage is reached: fsspec's options, what is read elsewhere, how much at once.

    `options` win over those of `places`. Where these end, `renewed` has those that are valid now:
    it is asked before each use, and crosses to other processes. `warn` takes what the user should
    know of the storage itself.
    """

    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    places: Places = field(default_factory=dict, repr=False)
    path_map: tuple[tuple[str, str], ...] = ()
    concurrency: int = 8
    warn: Callable[[str], None] = _LOGGER.debug
    renewed: Callable[[], Places] | None = field(default=None, repr=False)

    def now(self) -> "StorageOptions":
        """The options with the places that are valid at this moment. Raises: StorageError."""
        return self if self.renewed is None else replace(self, places=self.renewed())

    def crossing(self) -> "StorageOptions":
        """The options for another process: what warns stays in this one."""
        return replace(self, warn=_LOGGER.debug)

    def place(self, location: str) -> str:
        """The prefix whose options a location has; empty where there is none."""
        fitting = (start for start in self.places if location.startswith(start))
        return max(fitting, key=len, default="")

    def of(self, location: str) -> Mapping[str, str]:
        """The options by which a location is reached."""
        return {**self.places.get(self.place(location), {}), **self.options}


def open_store(options: StorageOptions, env: Env) -> Store:
    """The store for every location of a table, whichever schemes its metadata names.

    Nothing is connected to before it is used, and each scheme's driver is imported then.
    """
    store = SchemeStore(options, env, LocalStore(options.concurrency))
    return PathMapStore(store, options.path_map) if options.path_map else store


@dataclass(frozen=True, slots=True)
class SchemeStore:
    """A Store that passes each location on to the store of its scheme and authority.

    `remote` has each of them with the options that it was opened with.
    """

    options: StorageOptions
    env: Env
    local: LocalStore
    remote: dict[str, tuple[Mapping[str, str], RemoteStore]] = field(
        default_factory=dict, repr=False
    )
    lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def of(self, location: str) -> Store:
        """The store that keeps a location."""
        if locations.is_local(location):
            return self.local
        now = self.options.now()
        options, key = now.of(location), _key(now, location)
        with self.lock:
            opened, store = self.remote.get(key, (None, None))
            if store is None or (opened != options and not store.renews):
                renewed = None if self.options.renewed is None else partial(self._now_of, location)
                store = open_remote(location, options, self.env, now.concurrency, now.warn, renewed)
                self.remote[key] = options, store
            return store

    def read(self, location: str) -> bytes:
        """All bytes of one file."""
        return self._of("read", location).read(location)

    def read_range(self, location: str, offset: int, length: int) -> bytes:
        """`length` bytes from `offset`; fewer at the end. A negative offset counts from there."""
        return self._of("read_range", location).read_range(location, offset, length)

    def open(self, location: str) -> IO[bytes]:
        """A seekable reader."""
        return self._of("open", location).open(location)

    def stat(self, location: str) -> FileStatus | None:
        """Size and time of one file; None where there is none."""
        return self._of("stat", location).stat(location)

    def list(self, location: str) -> Iterator[pa.RecordBatch]:
        """All files below a location."""
        return self._of("list", location).list(location)

    def split(self, location: str, count: int) -> Split:
        """Begin to list a location, until at least `count` parts are left."""
        return self._of("split", location).split(location, count)

    def list_parts(self, parts: Sequence[Part]) -> Iterator[pa.RecordBatch]:
        """All files of some parts of one split."""
        return self._of("list_parts", parts[0].location).list_parts(parts)

    def list_directory(self, location: str) -> Sequence[FileStatus]:
        """The files directly in one directory; empty where there is none."""
        return self._of("list_directory", location).list_directory(location)

    def create(self, location: str, content: bytes) -> None:
        """Write a whole new file, atomically; FileExistsError where one is there (R-162)."""
        self._of("create", location).create(location, content)

    def replace(self, location: str, content: bytes) -> None:
        """Write or overwrite a whole file, atomically."""
        self._of("replace", location).replace(location, content)

    def open_new(self, location: str) -> AbstractContextManager[IO[bytes]]:
        """A file to write, which is there, whole, once this is left without an error."""
        return self._of("open_new", location).open_new(location)

    def copy(self, source: str, target: str) -> None:
        """Copy a file within one kind of storage."""
        self._of("copy", source).copy(source, target)

    def clock_ms(self, location: str) -> int | None:
        """The time by which the storage dates new files."""
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
