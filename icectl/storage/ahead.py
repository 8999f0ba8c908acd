"""A store that reads files ahead that will be read whole, one after another."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from icectl.storage.forwarding import ForwardingStore, Named
from icectl.storage.kept import KeepingStore
from icectl.storage.store import FailedRemoval, Store
from icectl.storage.streams import ReadAhead


class AheadStore(ForwardingStore):
    """A Store that passes all calls on but reads of files that are under way already."""

    def __init__(self, store: Store, concurrency: int) -> None:
        self.store = store
        self._concurrency = concurrency
        self._ahead: ReadAhead | None = None
        self._waiting: set[str] = set()

    def target(self, call: str, location: str, named: Named = "file") -> Store:  # noqa: ARG002
        return self.store

    def remove(self, removed: Iterable[str]) -> Sequence[FailedRemoval]:
        return self.store.remove(removed)

    def read(self, location: str) -> bytes:
        if self._ahead is None or location not in self._waiting:
            return self.store.read(location)
        self._waiting.discard(location)
        with self._ahead.open(location) as file:
            return file.read()

    @contextmanager
    def ahead(self, files: Iterable[tuple[str, int]]) -> Iterator[None]:
        """Read files, locations with sizes in bytes, ahead: in the block each is read once.

        Those that the store keeps are read there.

        Cost: memory as ReadAhead.
        """
        kept = self.store if isinstance(self.store, KeepingStore) else None
        sizes = {place: size for place, size in files if kept is None or not kept.keeps(place)}
        with ReadAhead(self.store, sizes.items(), self._concurrency) as ahead:
            self._ahead, self._waiting = ahead, set(sizes)
            try:
                yield
            finally:
                self._ahead, self._waiting = None, set()
