"""What the snapshots of a table list: manifests, by one interface with a reader for each layout.

A snapshot of any layout is manifests, each with the positions that are dead in it, and a manifest
of any layout is entries of the same columns.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Protocol

from icectl.entries.rows import Entries, RawEntries
from icectl.format.layout import Layout, layout_of
from icectl.format.manifest import (
    ManifestContent,
    ManifestFile,
    ManifestHeader,
    RootManifest,
    Status,
)
from icectl.format.metadata import TableMetadata
from icectl.format.snapshot import Snapshot
from icectl.storage.store import Store
from icectl.table.context import TableContext
from icectl.table.reading import Problem, read_in_threads

if TYPE_CHECKING:  # which signatures name: a reader with neither starts without them
    from icectl.checks.rule import Finding
    from icectl.entries.conditions import Predicate

_READERS: Mapping[Layout, str] = {
    Layout.MANIFEST_LISTS: "icectl.table.list_reader",
    Layout.SFC_1: "icectl.sfc1.reader",
}
"""Modules with a function `reader`: loaded where there is such a snapshot, since it takes time."""


@dataclass(frozen=True, slots=True)
class ManifestListRead:
    """The manifests that a snapshot lists, and the problems with them, by location.

    `properties` is the key-value metadata of a manifest list (R-054); None where there is no list.
    With `is_odd` all manifests are there, and the problems are good enough to be shown.
    """

    snapshot: Snapshot
    manifests: tuple[ManifestFile, ...] = ()
    properties: Mapping[str, str] | None = None
    size_bytes: int = 0
    problems: tuple[tuple[str, Problem], ...] = ()
    is_odd: bool = False


@dataclass(frozen=True, slots=True)
class MarkedManifest:
    """A manifest some of whose entries a snapshot added or removed: those with these statuses.

    Entries that are not concerned are dead in `manifest`. `unless_live` is true where files count
    as removed only if nothing else of the snapshot has them.
    """

    manifest: ManifestFile
    added: frozenset[Status] = frozenset()
    removed: frozenset[Status] = frozenset()
    unless_live: bool = False


class SnapshotReader(Protocol):
    """Reads the snapshots of one layout of one table."""

    def manifests(
        self, store: Store, snapshot: Snapshot, *, sound: bool = True
    ) -> tuple[ManifestFile, ...]:
        """Read what a snapshot lists; it need not be `sound` where it is only shown.

        Order: as listed.
        Raises: MissingFile; CorruptTable; Unsupported; StorageError.
        """

    def manifests_of(
        self, store: Store, snapshot: Snapshot, within: "Predicate"
    ) -> tuple[tuple[ManifestFile, ...], bool]:
        """Read the same, but for manifests that can matter to no row a condition may be true of.

        The second tells whether manifests were left out: the deletes that are listed may then be of
        files that are not.
        Order, errors: as `manifests`.
        """

    def try_manifests(self, store: Store, snapshot: Snapshot) -> ManifestListRead:
        """Read what a snapshot lists, damaged and missing files included.

        Raises: StorageError, where the store itself fails.
        """

    def described(
        self, store: Store, snapshot: Snapshot, manifests: Sequence[ManifestFile]
    ) -> tuple[ManifestFile, ...]:
        """Fill in what only views show of the manifests that a snapshot lists.

        Order: kept.
        Raises: as `manifests`.
        """

    def root(self, store: Store, snapshot: Snapshot) -> RootManifest | None:
        """Read what a root says beside the manifests; None where the layout has no root.

        Raises: as `manifests`.
        """

    def marked(self, store: Store, snapshot: Snapshot) -> Sequence[MarkedManifest]:
        """Find the manifests with what a snapshot changed; none where its layout does not tell.

        Order: as listed.
        Raises: as `manifests`.
        """

    def deleted_only(self, manifest: ManifestFile) -> ManifestFile:
        """Return the same manifest with what is dead in it alive, and the other way round."""

    def decode(
        self,
        contents: Sequence[bytes],
        manifest: ManifestFile,
        *,
        columns: frozenset[str],
        indices: Sequence[int],
        threads: int = 1,
    ) -> tuple[Sequence[ManifestHeader], RawEntries]:
        """Decode manifests like `manifest`, which is the first of them, without what is dead.

        Shape: the `columns` asked for; `manifest` is the one of `indices`. `threads` may share it.
        Order: as stored.
        Raises: CorruptTable; Unsupported.
        """

    def risks(
        self, snapshot: Snapshot, manifests: Sequence[ManifestFile], entries: Entries
    ) -> Iterator["Finding"]:
        """Find what makes it unsure which entries of a snapshot live, or what their rows are."""


def reader_of(metadata: TableMetadata, layout: Layout, *, snapshots: int = 1) -> SnapshotReader:
    """Return the reader of a table's snapshots of one layout, ready for so many of them."""
    reader: SnapshotReader = import_module(_READERS[layout]).reader(metadata, snapshots)
    return reader


def snapshot_reader(metadata: TableMetadata, snapshot: Snapshot) -> SnapshotReader:
    """Return the reader of one snapshot."""
    return reader_of(metadata, layout_of(snapshot))


def read_snapshot_manifests(
    store: Store, metadata: TableMetadata, snapshot: Snapshot, *, sound: bool = True
) -> tuple[ManifestFile, ...]:
    """Read the manifests that a snapshot lists; it need not be `sound` where it is only shown.

    Order: as listed.
    Raises: MissingFile; CorruptTable; Unsupported; StorageError.
    """
    return snapshot_reader(metadata, snapshot).manifests(store, snapshot, sound=sound)


def try_manifest_lists(
    context: TableContext, metadata: TableMetadata, snapshots: Sequence[Snapshot]
) -> Generator[ManifestListRead, None, None]:
    """Read what snapshots list, damaged and missing files included.

    Order: that of `snapshots`.
    Raises: StorageError, where the store itself fails.
    """
    context.progress.phase("reading manifest lists", total=len(snapshots))
    reader = _readers(metadata, snapshots)

    def read(snapshot: Snapshot) -> ManifestListRead:
        read = reader(layout_of(snapshot)).try_manifests(context.store, snapshot)
        context.progress.advance(1)
        return read

    yield from read_in_threads(read, snapshots, [1] * len(snapshots), threads=context.concurrency)


def manifests_by_snapshot(
    context: TableContext, metadata: TableMetadata, snapshots: Sequence[Snapshot]
) -> Mapping[int, tuple[ManifestFile, ...]]:
    """Read the manifests of several snapshots, by snapshot id.

    Order: that of `snapshots`.
    Raises: as read_snapshot_manifests.
    """
    context.progress.phase("reading manifest lists", total=len(snapshots))
    reader = _readers(metadata, snapshots)

    def read(snapshot: Snapshot) -> tuple[ManifestFile, ...]:
        manifests = reader(layout_of(snapshot)).manifests(context.store, snapshot)
        context.progress.advance(1)
        return manifests

    lists = read_in_threads(read, snapshots, [1] * len(snapshots), threads=context.concurrency)
    return {
        snapshot.snapshot_id: manifests
        for snapshot, manifests in zip(snapshots, lists, strict=True)
    }


def _readers(
    metadata: TableMetadata, snapshots: Sequence[Snapshot]
) -> Callable[[Layout], SnapshotReader]:
    readers = {
        layout: reader_of(metadata, layout, snapshots=len(snapshots))
        for layout in dict.fromkeys(map(layout_of, snapshots))
    }
    return readers.__getitem__


def distinct_manifests(lists: Iterable[Sequence[ManifestFile]]) -> tuple[ManifestFile, ...]:
    """Return every manifest of several manifest lists once, by location.

    Order: first appearance.
    """
    # Lists that were read together share their rows, and to compare those takes longer.
    rows = {id(manifest): manifest for manifests in lists for manifest in manifests}
    distinct: dict[tuple[str, ManifestContent, bytes], ManifestFile] = {}
    for manifest in rows.values():
        distinct.setdefault(manifest.identity, manifest)
    return tuple(distinct.values())
