"""The files that snapshots reach, read from their manifest lists and manifests."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from icectl.entries.files import FileKind, Files, content_files, distinct, files, together
from icectl.entries.rows import live
from icectl.progress import Progress
from icectl.spec.manifest import ManifestFile
from icectl.spec.metadata import TableMetadata
from icectl.spec.snapshot import Snapshot
from icectl.storage.location import loosest_key, loosest_keys, resolve
from icectl.storage.store import Store
from icectl.table.manifests import distinct_manifests, load_manifest_lists, scan_entries

SOURCES = frozenset({"content", "status", "location", "file_format", "file_size_in_bytes"})


@dataclass(frozen=True, slots=True)
class ReachReader:
    """The means to read what snapshots of one table reach."""

    store: Store
    concurrency: int
    progress: Progress


def manifest_lists(
    reader: ReachReader, metadata: TableMetadata, snapshots: Sequence[Snapshot]
) -> Mapping[int, tuple[ManifestFile, ...]]:
    """The manifests of each snapshot, by snapshot id. Raises: what reading them raises."""
    return load_manifest_lists(
        reader.store,
        metadata,
        snapshots,
        concurrency=reader.concurrency,
        progress=reader.progress,
    )


def live_files(
    reader: ReachReader, metadata: TableMetadata, manifests: Sequence[ManifestFile]
) -> Files:
    """The files of live entries in the manifests, each once (R-110, R-191).

    Raises: StorageError, CorruptTable, when one manifest cannot be read.
    """
    parts = []
    for _, entries in scan_entries(
        reader.store,
        metadata,
        manifests,
        columns=SOURCES,
        concurrency=reader.concurrency,
        progress=reader.progress,
    ):
        alive = live(entries)
        parts.append(content_files(alive, loosest_keys(alive.table["location"])))
    return distinct(together(parts))


def metadata_files(
    metadata: TableMetadata,
    snapshots: Sequence[Snapshot],
    manifests: Iterable[ManifestFile],
    sizes: Mapping[str, int],
) -> Files:
    """Manifest lists, manifests and statistics files of snapshots.

    `sizes` holds bytes by loosest key; a manifest that it does not name has the length of its list.
    """
    ids = {snapshot.snapshot_id for snapshot in snapshots}
    described: dict[str, int | None] = {
        item.manifest_path: item.manifest_length for item in manifests
    }
    statistics = (item for item in metadata.statistics if item.snapshot_id in ids)
    partition_statistics = (i for i in metadata.partition_statistics if i.snapshot_id in ids)
    named: list[tuple[FileKind, Mapping[str, int | None]]] = [
        (FileKind.MANIFESTS, described),
        (
            FileKind.MANIFEST_LISTS,
            {item.manifest_list: None for item in snapshots if item.manifest_list},
        ),
        (
            FileKind.STATISTICS_FILES,
            {item.statistics_path: item.file_size_in_bytes for item in statistics},
        ),
        (
            FileKind.PARTITION_STATISTICS_FILES,
            {item.statistics_path: item.file_size_in_bytes for item in partition_statistics},
        ),
    ]
    parts = []
    for kind, found in named:
        keys = [loosest_key(resolve(metadata.location, location)) for location in found]
        known = [sizes.get(key, size) for key, size in zip(keys, found.values(), strict=True)]
        parts.append(files(list(found), keys, kind, known))
    return distinct(together(parts))


def all_manifests(
    lists: Mapping[int, Sequence[ManifestFile]], snapshots: Iterable[Snapshot]
) -> tuple[ManifestFile, ...]:
    """The manifests of several snapshots, each once."""
    return distinct_manifests(lists[snapshot.snapshot_id] for snapshot in snapshots)
