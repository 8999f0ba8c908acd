"""The head of a branch as far as it can be read, and what becomes of what it lists."""

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Any

from icectl.commands.repair.plan import Remedy
from icectl.entries.inherit import inherit
from icectl.entries.rows import (
    PLANNING_COLUMNS,
    Entries,
    with_manifest_number,
)
from icectl.entries.summary import describe_manifest
from icectl.errors import CorruptTable
from icectl.format.manifest import ManifestFile
from icectl.format.partition import result_types
from icectl.format.snapshot import Snapshot
from icectl.table.manifest_lists import ManifestListRead, try_manifest_lists
from icectl.table.manifests import ManifestRead, try_manifests
from icectl.table.reader import Reader


@dataclass(frozen=True, slots=True)
class ManifestChange:
    """The change of the manifest at a place in the list, and of entries by their position in it.

    `described`: its row is counted anew. `restated` has columns of entries by name. `rebuilt`
    stands in for a manifest that is lost.
    """

    place: int
    gone: bool = False
    described: bool = False
    dropped: frozenset[int] = frozenset()
    restated: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)
    rebuilt: Entries | None = None

    def __or__(self, other: "ManifestChange") -> "ManifestChange":
        return ManifestChange(
            self.place,
            self.gone or other.gone,
            self.described or other.described,
            self.dropped | other.dropped,
            {**self.restated, **other.restated},
            self.rebuilt if other.rebuilt is None else other.rebuilt,
        )


@dataclass(frozen=True, slots=True)
class Mend:
    """A repair, and what it changes of the list; without a change a new list is all that it is."""

    remedy: Remedy
    changes: tuple[ManifestChange, ...] = ()


@dataclass(frozen=True, slots=True)
class ReadHead:
    """The head of a branch as far as it can be read; `entries` of each manifest, None of a broken
    one.

    Where its list is lost and `is_proven`, other manifests stand in for those that it named, with
    the `changes` that make them what it listed; `entries` are those after them.
    """

    snapshot: Snapshot
    listed: ManifestListRead
    read: tuple[ManifestRead, ...]
    entries: tuple[Entries | None, ...]
    changes: tuple[ManifestChange, ...] = ()
    is_proven: bool = False

    @property
    def is_whole(self) -> bool:
        """Whether everything that it lists can be read."""
        return not self.listed.problems and None not in self.entries


def read_head(reader: Reader, snapshot: Snapshot) -> ReadHead:
    """Read what a snapshot of versions 1 to 3 lists, damaged manifests included.

    Raises: StorageError of the store; Incomplete.
    Cost: planning columns of all entries in memory.
    """
    lists = try_manifest_lists(reader.context, reader.metadata, [snapshot])
    with closing(lists):
        (listed,) = lists
    manifests = listed.manifests
    read: list[ManifestRead] = []
    entries: list[Entries | None] = []
    reads = try_manifests(reader.context, reader.metadata, manifests, PLANNING_COLUMNS)
    with closing(reads):
        for one in reads:
            reader.context.deadline.check()
            read.append(one)
            entries.append(_inherited(one, manifests[one.index]))
    return ReadHead(snapshot, listed, tuple(read), tuple(entries))


def _inherited(read: ManifestRead, manifest: ManifestFile) -> Entries | None:
    if read.rows is None:
        return None
    try:
        return inherit(with_manifest_number(read.rows, 0), [manifest])
    except CorruptTable:
        return None


def counted_manifest(reader: Reader, head: ReadHead, place: int) -> ManifestFile:
    """Return the row of a manifest counted from its entries; its numbers are those of the list.

    Raises: CorruptTable R-052, R-068: of which spec its partitions are is not sure.
    """
    manifest, entries = head.listed.manifests[place], head.entries[place]
    size = head.read[place].size_bytes
    assert entries is not None
    assert size is not None
    spec = reader.metadata.spec(manifest.partition_spec_id)
    if spec is None:
        message = (
            f"`{manifest.manifest_path}`: spec {manifest.partition_spec_id} is not in the table"
        )
        raise CorruptTable(message, rule="R-052")
    types = result_types(spec, reader.metadata.schemas)
    row = describe_manifest(
        entries, types, location=manifest.manifest_path, length=size, spec_id=spec.spec_id
    )
    return replace(
        row,
        content=manifest.content,
        sequence_number=manifest.sequence_number,
        added_snapshot_id=manifest.added_snapshot_id,
        first_row_id=manifest.first_row_id,
        key_metadata=manifest.key_metadata,
    )
