"""What the snapshots of a table list: manifests, whatever the layout."""

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence

from icectl.format.layout import Layout, layout_of
from icectl.format.manifest import ManifestContent, ManifestFile
from icectl.format.metadata import TableMetadata
from icectl.format.snapshot import Snapshot
from icectl.storage.store import Store
from icectl.table.context import TableContext
from icectl.table.reading import read_in_threads
from icectl.table.snapshot_reader import ManifestListRead, SnapshotReader, reader_of


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
        """Read what one snapshot lists, damaged or not."""
        found = reader(layout_of(snapshot)).try_manifests(context.store, snapshot)
        context.progress.advance(1)
        return found

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
        """Read the manifests of one snapshot."""
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
    """Return a reader for each layout, ready for so many snapshots."""
    found = {
        layout: reader_of(metadata, layout, snapshots=len(snapshots))
        for layout in dict.fromkeys(map(layout_of, snapshots))
    }
    return found.__getitem__


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
