"""A store that keeps the manifests that a run reads, for those who read them again in it.

A plan reads manifests to choose from, then statistics of what it has chosen; a commit copies
entries out of the stored bytes. Files of a table never change (R-157), so each is fetched once.
"""

import threading
from collections.abc import Iterable, Sequence

from icectl.storage.forwarding import ForwardingStore, Named
from icectl.storage.store import FailedRemoval, Store

_KEPT_BYTES = 32 << 20
"""Stored bytes that are kept: the first ones, since those who read again begin with them too."""

_KEPT = (".avro", ".parquet")
"""Ends of the names of manifests, manifest lists, roots and leaves."""


class KeepingStore(ForwardingStore):
    """A Store that passes all calls on but those that read a kept file. Cost: 32 MiB of memory."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._kept: dict[str, bytes] = {}
        self._room = _KEPT_BYTES
        self._lock = threading.Lock()

    def target(self, call: str, location: str, named: Named = "file") -> Store:  # noqa: ARG002
        return self.store

    def read(self, location: str) -> bytes:
        content = self._kept.get(location)
        if content is None:
            content = self.store.read(location)
            with self._lock:
                if location.endswith(_KEPT) and len(content) <= self._room:
                    self._kept[location] = content
                    self._room -= len(content)
        return content

    def keeps(self, location: str) -> bool:
        return location in self._kept

    def remove(self, removed: Iterable[str]) -> Sequence[FailedRemoval]:
        return self.store.remove(removed)


def store_behind(store: Store) -> Store:
    """Return the store that a KeepingStore passes calls on to; any other is returned itself."""
    return store.store if isinstance(store, KeepingStore) else store
