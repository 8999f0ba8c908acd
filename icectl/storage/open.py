"""Open a Store for a location, by its scheme, `--path-map` and the user's storage options."""

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import IO

import pyarrow as pa

from icectl.env import Deadline, Env
from icectl.errors import Refused, Unsupported
from icectl.storage import location as locations
from icectl.storage.credentials import Places, Renewed, Vendor, joined
from icectl.storage.forwarding import ForwardingStore, Named
from icectl.storage.kept import store_behind
from icectl.storage.local.store import LocalStore
from icectl.storage.store import (
    CREATABLE,
    Assembly,
    FailedRemoval,
    FileStatus,
    ListingPart,
    ListingSplit,
    Store,
)

SCHEMES = CREATABLE - {"memory"}
"""Those that metadata may name; any other only where the table itself is named by it."""

LOCAL = {"", "file"}
_WRAPPERS = {"asyncwrapper", "blockcache", "cached", "dir", "filecache", "generic", "reference"} | {
    "jlab", "jupyter", "simplecache",
}  # fmt: skip
"""Schemes of fsspec that lead to locations of others, or run what answers on this machine."""

SHARE_STORAGE = (
    "workers need the table's own storage in the same place: a bucket, or a folder that every node "
    "has"
)
"""What helps where other processes have other files at the same location."""

_LOGGER = logging.getLogger(__name__)

AT_ONCE_LOCALLY = 8
"""Files of this machine that are read or removed at once, where the user does not say."""

_AT_ONCE_IN_STORES = 48


@dataclass(slots=True)
class Home:
    """Where a table lies, which its metadata have no say in."""

    location: str | None = None

    def check(self, location: str) -> None:
        """Check that a location may be looked at. Raises: Unsupported; Refused."""
        scheme = locations.scheme(location)
        home = None if self.location is None else locations.scheme(self.location)
        if scheme in _WRAPPERS or (scheme not in SCHEMES and scheme != home):
            raise Unsupported(
                f"icectl does not open {locations.redacted(location)}: a table may not name the "
                f"scheme {scheme}:",
                hint="name the table by its location there; for a copy elsewhere, map locations "
                "with `--path-map FROM=TO`",
            )
        if scheme in LOCAL and home not in (None, *LOCAL):
            assert self.location is not None
            raise Refused(
                f"{locations.redacted(location)} is on this machine, and the table that names it "
                f"is not: it is in {locations.root(locations.redacted(self.location))}",
                hint="for a copy on this machine, map locations with `--path-map FROM=TO`",
                id="local-file-of-a-bucket",
            )


@dataclass(frozen=True, slots=True)
class StorageOptions:
    """The options of storage: fsspec's own, what is read elsewhere, how much at once.

    `options` win over those of `places`, which the user configured. `served` are those that a
    catalog's server says, which no credentials of the user follow (`origins.py`). Where these end,
    `renewed` has those that are valid now: it is asked before each use, and crosses to other
    processes. `user_locations` are those that the user named, where no catalog names the table.
    `concurrency` is by kind of storage where it is None. `warn` takes what the user should know of
    the storage itself. `home` is where the table lies by the word of the user, or of its catalog.
    """

    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    places: Places = field(default_factory=dict, repr=False)
    served: Places = field(default_factory=dict, repr=False)
    path_map: tuple[tuple[str, str], ...] = ()
    concurrency: int | None = None
    warn: Callable[[str], None] = _LOGGER.debug
    renewed: Vendor | None = field(default=None, repr=False)
    user_locations: tuple[str, ...] = ()
    home: str | None = None

    def now(self) -> "StorageOptions":
        """Return the options with what the server says at this moment. Raises: StorageError."""
        return self if self.renewed is None else replace(self, served=self.renewed())

    def crossing(self) -> "StorageOptions":
        """Return the options for another process: what warns stays in this one."""
        return replace(self, warn=_LOGGER.debug)

    def place(self, location: str) -> str:
        """Return the prefix whose options a location has; empty where there is none."""
        return _longest((*self.places, *self.served), location)

    def of(self, location: str) -> Mapping[str, str]:
        """Return the options by which a location is reached. Raises: Refused, as joined."""
        configured = self.places.get(_longest(self.places, location), {})
        served = self.served.get(_longest(self.served, location), {})
        return joined(configured, served, self.options)


def _longest(starts: Iterable[str], location: str) -> str:
    return max((start for start in starts if location.startswith(start)), key=len, default="")


def requests_at_once(concurrency: int | None, location: str) -> int:
    """Return how many files are read or removed at once: those of a store wait for answers."""
    if concurrency is not None:
        return concurrency
    return AT_ONCE_LOCALLY if locations.is_local(location) else _AT_ONCE_IN_STORES


def open_store(options: StorageOptions, env: Env, deadline: Deadline | None = None) -> Store:
    """Return the store for every location of a table; drivers are imported when they are needed."""
    local = LocalStore(requests_at_once(options.concurrency, "/"))
    home = Home(None if options.path_map else options.home)
    store = SchemeStore(options, env, local, home, deadline or Deadline(env))
    if options.home is not None:
        add_root(store, options.home)
    return PathMapStore(store, options.path_map) if options.path_map else store


def store_of_table(store: Store) -> Store:
    """Return the store for one table of several that share their connections."""
    if not isinstance(store, SchemeStore):
        return store
    return replace(store, home=Home(), local=LocalStore(store.local.concurrency))


def set_home(store: Store, location: str) -> None:
    """Note where a table's catalog says that its metadata lie, once it was read there."""
    if isinstance(store, SchemeStore) and locations.scheme(location) in SCHEMES:
        store.home.location = location


def home_of(store: Store) -> str | None:
    """Return what `set_home` has noted."""
    return store.home.location if isinstance(store, SchemeStore) else None


def add_root(store: Store, folder: str) -> None:
    """Let links lead to a folder, which the user or the catalog has named; it is resolved now."""
    local = _local(store)
    if local is not None:
        with suppress(ValueError):  # it is not here, or a name that no folder has
            local.roots.add(locations.local_path(folder))


_LOOKED_AT = 10_000
"""Names that are texts of Python at once."""


def link_finder(store: Store) -> Callable[[pa.ChunkedArray], list[str]]:
    """Return a function that lists those of some files here that only a link leads to.

    Links are below what `add_root` named. Order: kept.
    """
    local = _local(store)

    @lru_cache(_LOOKED_AT)
    def has_link(folder: str) -> bool:
        with suppress(ValueError):
            return local is not None and local.roots.has_link(locations.local_path(folder))
        return False

    def behind_links(files: pa.ChunkedArray) -> list[str]:
        return [file for file in files.to_pylist() if has_link(locations.parent(file))]

    return behind_links


def _local(store: Store) -> LocalStore | None:
    behind = store_behind(store)
    local = behind.local if isinstance(behind, SchemeStore) else behind
    return local if isinstance(local, LocalStore) else None


@dataclass(frozen=True, slots=True)
class SchemeStore(ForwardingStore):
    """A Store that passes each location on to the store of its scheme, authority and options."""

    options: StorageOptions
    env: Env
    local: LocalStore
    home: Home
    deadline: Deadline
    remote: dict[str, Callable[[str | None], Store]] = field(default_factory=dict, repr=False)
    lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def of(self, location: str, named: Named = "file") -> Store:
        """The store for a file, folder or bucket. Raises: Unsupported; Refused, as Home.check."""
        self.home.check(location)
        if locations.is_local(location):
            return self.local
        from icectl.storage.buckets.store import (  # a tenth of a short run
            Driver,
            bucket_store,
            check_owner,
        )

        now = self.options.now()
        key = _key(now, location)
        with self.lock:
            if key not in self.remote:
                concurrency = requests_at_once(self.options.concurrency, location)
                vendor = self.options.renewed
                renewed = Renewed(
                    lambda: self.options.now().of(location),
                    None if vendor is None else vendor.expire,
                )
                check_owner(location, now.of(location), now.user_locations)
                driver = Driver(
                    location, renewed, self.env, concurrency, self.options.warn, self.deadline
                )
                self.remote[key] = bucket_store(driver)
            opened = self.remote[key]
        return opened({"file": location, "folder": location.rstrip("/"), "bucket": None}[named])

    def target(self, call: str, location: str, named: Named = "file") -> Store:
        _LOGGER.debug("%s %s", call, locations.redacted(location))
        return self.of(location, named)

    def remove(self, removed: Iterable[str]) -> Sequence[FailedRemoval]:
        now = self.options.now()
        by_store: dict[str, list[str]] = {}
        for location in removed:
            by_store.setdefault(_key(now, location), []).append(location)
        return [
            failed
            for group in by_store.values()
            for failed in self.target("remove", group[0], "bucket").remove(group)
        ]


def _key(options: StorageOptions, location: str) -> str:
    """What locations of one store have in common: scheme and authority, and their options."""
    return f"{locations.root(location)} {options.place(location)}"


@dataclass(frozen=True, slots=True)
class PathMapStore:
    """A Store whose locations are mapped before each access; what it returns is spelled as asked.

    The longest FROM wins, and the spellings of a local path count as one. Writing is refused:
    identity of files goes by the unmapped locations.
    """

    store: Store
    path_map: tuple[tuple[str, str], ...]

    def mapped(self, location: str) -> str:
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
        mapped = self.mapped(location)
        for batch in self.store.list(mapped):
            yield _respelled_rows(batch, mapped, location)

    def split(self, location: str, count: int) -> ListingSplit:
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
        f"`--path-map` is only for reading, and {locations.redacted(location)} would be written",
        hint="run without `--path-map`, at the location in the table's metadata",
    )
