"""Delete vectors of version 4 snapshots that lie in Puffin files, against what names them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from icectl.checks.finding import Finding, finding
from icectl.engine.kernels.check_data_file import Recorded
from icectl.engine.kernels.check_delete_file import (
    RecordedDeletes,
    check_replacement,
    check_vectors,
)
from icectl.errors import StorageError
from icectl.spec.locations import named_in_vector
from icectl.spec.manifest import FileFormat
from icectl.spec.metadata import TableMetadata
from icectl.storage.store import Store
from icectl.table.reading import OF_ONE_FILE
from icectl.table.sfc1.checked import RootRead
from icectl.table.sfc1.live import vector_rows

_NAMES: Mapping[str, str] = {"R-118": "V4-090", "R-119": "V4-082"}
"""What version 4 calls rules of deletion vectors where a vector is one over a leaf."""


@dataclass(slots=True)
class LeafVectors:
    """A check of the Puffin files of vectors over leaves; each vector once, however many roots."""

    store: Store
    metadata: TableMetadata
    _seen: set[tuple[object, ...]] = field(default_factory=set)

    def check(self, root: RootRead) -> Iterator[Finding]:
        """The vectors of a root that are not inline (V4-090, V4-182)."""
        found: dict[str, list[RecordedDeletes]] = {}
        for leaf, row in vector_rows(root.rows):
            place, offset, size = row.location, row.content_offset, row.content_size_in_bytes
            key = (place, offset, size, leaf, row.record_count)
            if place is None or row.inline_content is not None or key in self._seen:
                continue
            self._seen.add(key)
            file = Recorded(place, FileFormat.PUFFIN, row.record_count, row.sequence_number or 0)
            deletes = RecordedDeletes(file, (), leaf, offset, size)
            found.setdefault(place, []).append(deletes)
        for place, vectors in found.items():
            yield from self._file(place, vectors)

    def _file(self, location: str, vectors: Sequence[RecordedDeletes]) -> Iterator[Finding]:
        status = self.store.stat(location)
        if status is None:  # V4-182
            message = "the file of delete vectors over leaves is missing"
            yield finding("V4-182", location, message)
            return
        read = partial(self.store.read_range, location)
        named = partial(named_in_vector, self.metadata)
        for one in check_vectors(read, status.size_bytes, vectors, lambda _: None, named):
            yield finding(_NAMES.get(one.rule, one.rule), one.subject, one.message)


@dataclass(frozen=True, slots=True)
class Replaced:
    """A delete vector of a data file and the one that took its place, each by its blob."""

    data_file: str
    before: tuple[str, int, int]
    after: tuple[str, int, int]


def check_replaced(store: Store, replaced: Iterable[Replaced]) -> Iterator[Finding]:
    """Vectors hold all positions of those that they replaced (V4-164).

    Cost: the bytes of both.
    """
    for one in replaced:
        before, after = _bytes(store, one.before), _bytes(store, one.after)
        if before is not None and after is not None:
            yield from check_replacement(one.data_file, before, after)


def _bytes(store: Store, blob: tuple[str, int, int]) -> bytes | None:
    """The bytes of a vector; None where its file can't be read, which is said of the file."""
    try:
        return store.read_range(*blob)
    except FileNotFoundError:
        return None
    except StorageError as error:
        if error.error_id not in OF_ONE_FILE:
            raise
        return None
