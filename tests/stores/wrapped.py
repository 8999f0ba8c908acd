"""Stores around a store, for tests of what is asked of storage and of what happens when it fails.

All of them go through `WrappedStore.call`, once for each call of the Store protocol.
"""

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import IO, Any, Literal

import pyarrow as pa

from icectl.errors import StorageError
from icectl.storage.failures import AnswerLost
from icectl.storage.store import (
    Assembly,
    FailedRemoval,
    FileStatus,
    ListingPart,
    ListingSplit,
    Store,
)

WRITES = frozenset({"create", "open_new", "assemble", "replace", "copy", "remove"})


class WrappedStore:
    """A Store that passes every call on; subclasses look at it on the way."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def call(self, method: str, location: str, action: Callable[[], Any]) -> Any:
        return action()

    def read(self, location: str) -> bytes:
        return self.call("read", location, lambda: self.store.read(location))

    def read_range(self, location: str, offset: int, length: int) -> bytes:
        return self.call(
            "read_range", location, lambda: self.store.read_range(location, offset, length)
        )

    def open(self, location: str) -> IO[bytes]:
        return self.call("open", location, lambda: self.store.open(location))

    def stat(self, location: str) -> FileStatus | None:
        return self.call("stat", location, lambda: self.store.stat(location))

    def list(self, location: str) -> Iterator[pa.RecordBatch]:
        return self.call("list", location, lambda: self.store.list(location))

    def split(self, location: str, count: int) -> ListingSplit:
        return self.call("split", location, lambda: self.store.split(location, count))

    def list_parts(self, parts: Sequence[ListingPart]) -> Iterator[pa.RecordBatch]:
        where = " ".join(part.location for part in parts)
        return self.call("list_parts", where, lambda: self.store.list_parts(parts))

    def list_directory(self, location: str) -> Sequence[FileStatus]:
        return self.call("list_directory", location, lambda: self.store.list_directory(location))

    def create(self, location: str, content: bytes) -> None:
        self.call("create", location, lambda: self.store.create(location, content))

    @contextmanager
    def open_new(self, location: str) -> Iterator[IO[bytes]]:
        """Counts as one call, when the file is whole."""
        with ExitStack() as stack:
            yield stack.enter_context(self.store.open_new(location))
            self.call("open_new", location, stack.close)

    def assemble(self, location: str) -> AbstractContextManager[Assembly] | None:
        """Counts as one call, as open_new; not where there is nothing to enter."""
        assembly = self.store.assemble(location)
        return None if assembly is None else self._assembled(location, assembly)

    @contextmanager
    def _assembled(
        self, location: str, assembly: AbstractContextManager[Assembly]
    ) -> Iterator[Assembly]:
        with ExitStack() as stack:
            yield stack.enter_context(assembly)
            self.call("assemble", location, stack.close)

    def replace(self, location: str, content: bytes) -> None:
        self.call("replace", location, lambda: self.store.replace(location, content))

    def copy(self, source: str, target: str) -> None:
        self.call("copy", f"{source} {target}", lambda: self.store.copy(source, target))

    def clock_ms(self, location: str) -> int | None:
        return self.call("clock_ms", location, lambda: self.store.clock_ms(location))

    def remove(self, removed: Iterable[str]) -> Sequence[FailedRemoval]:
        every = list(removed)
        return self.call("remove", " ".join(every), lambda: self.store.remove(every))


class CountingStore(WrappedStore):
    """Remembers every call: `calls` in order as (method, location), `counts` by method."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.calls: list[tuple[str, str]] = []
        self._lock = threading.Lock()

    def call(self, method: str, location: str, action: Callable[[], Any]) -> Any:
        with self._lock:
            self.calls.append((method, location))
        return action()

    @property
    def counts(self) -> Counter[str]:
        return Counter(method for method, _ in self.calls)


class ReadOnlyStore(WrappedStore):
    """Any write or removal is an error of the test."""

    def call(self, method: str, location: str, action: Callable[[], Any]) -> Any:
        if method in WRITES:
            raise AssertionError(f"{method} of {location} under ReadOnlyStore")
        return action()


class FaultyStore(WrappedStore):
    """Fails the nth call, counted from 1 among `methods` (all when empty).

    `before`: nothing is done, StorageError. `after`: it is done, StorageError all the same.
    `lost`: it is done and no answer comes, AnswerLost. `failed` tells whether the call came.
    """

    def __init__(
        self,
        store: Store,
        nth: int,
        failure: Literal["before", "after", "lost"],
        methods: frozenset[str] = frozenset(),
    ) -> None:
        super().__init__(store)
        self.nth, self.failure, self.methods = nth, failure, methods
        self.count = 0
        self.failed = False
        self._lock = threading.Lock()

    def call(self, method: str, location: str, action: Callable[[], Any]) -> Any:
        if self.methods and method not in self.methods:
            return action()
        with self._lock:
            self.count += 1
            fails = self.count == self.nth
        if not fails:
            return action()
        self.failed = True
        if self.failure != "before":
            done = action()
            if hasattr(done, "close"):
                done.close()
        kind = AnswerLost if self.failure == "lost" else StorageError
        raise kind(f"call {self.nth}, {method} of {location}, fails {self.failure}")
