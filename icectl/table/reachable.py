"""The files that snapshots reach, read from their manifest lists and manifests."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from icectl.entries.files import NO_FILES, FileKind, Files, content_files, distinct, files, together
from icectl.entries.rows import live
from icectl.progress import Progress
from icectl.spec.manifest import ManifestFile
from icectl.spec.metadata import TableMetadata
from icectl.spec.snapshot import Snapshot
from icectl.storage.location import loosest_key, loosest_keys
from icectl.storage.store import Store
from icectl.table.manifest_lists import distinct_manifests, load_manifest_lists
from icectl.table.manifests import scan_together

SOURCES = frozenset({"content", "status", "location", "file_format", "file_size_in_bytes"})
_ROWS_TO_THIN_OUT = 1_000_000
"""Rows that are gathered before repeated files among them are dropped."""


@dataclass(frozen=True, slots=True)
class ReachReader:
    """The means to read what snapshots of one table reach."""

    store: Store
    concurrency: int
    progress: Progress


@dataclass(frozen=True, slots=True)
class Live:
    """The live files of some manifests, and the schemas that those were written with.

    A file that several entries name may be there several times. `spec_ids` are those of entries
    in every state: a root and leaves of version 4 have such of several specs.
    """

    files: Files
    schema_ids: frozenset[int | None]
    spec_ids: frozenset[int]


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
    """The files of live entries in the manifests (R-110, R-191), some of them more than once.

    Raises: StorageError, CorruptTable, when one manifest cannot be read.
    """
    return read_live(reader, metadata, manifests).files


def read_live(
    reader: ReachReader, metadata: TableMetadata, manifests: Sequence[ManifestFile]
) -> Live:
    """The files of live entries in the manifests, and the schemas of the manifests.

    Raises: StorageError, CorruptTable, when one manifest cannot be read.
    Cost: memory for each file once; manifests that repeat files are thinned out on the way.
    """
    found, parts, waiting = NO_FILES, [], 0
    schema_ids: set[int | None] = set()
    spec_ids: set[int] = set()
    for part in scan_together(
        reader.store,
        metadata,
        manifests,
        [SOURCES] * len(manifests),
        concurrency=reader.concurrency,
        progress=reader.progress,
    ):
        alive = live(part.rows)
        parts.append(content_files(alive, loosest_keys(alive.table["location"])))
        schema_ids.update(header.schema_id for header in part.headers)
        spec_ids.update(part.rows.table["spec_id"].unique().to_pylist())
        waiting += len(alive)
        if waiting > max(_ROWS_TO_THIN_OUT, len(found)):
            found, parts, waiting = distinct(together([found, *parts])), [], 0
    return Live(together([found, *parts]), frozenset(schema_ids), frozenset(spec_ids))


def metadata_files(
    metadata: TableMetadata,
    snapshots: Sequence[Snapshot],
    manifests: Iterable[ManifestFile],
    sizes: Mapping[str, int],
) -> Files:
    """Manifest lists or roots, manifests and statistics files of snapshots.

    `sizes` holds bytes by loosest key; a manifest that it does not name has the length of its list.
    """
    described: dict[str, int | None] = {}
    for item in manifests:
        if not item.in_root:
            described[item.manifest_path] = item.manifest_length
        described |= dict.fromkeys(item.dead_locations)
    named: list[tuple[FileKind, Mapping[str, int | None]]] = [
        (FileKind.MANIFESTS, described),
        (
            FileKind.MANIFEST_LISTS,
            dict.fromkeys(filter(None, map(_list_of, snapshots))),
        ),
    ]
    parts = [_named(kind, found, sizes) for kind, found in named]
    ids = frozenset(snapshot.snapshot_id for snapshot in snapshots)
    return distinct(together([*parts, statistics_files(metadata, ids)]))


def _list_of(snapshot: Snapshot) -> str | None:
    return snapshot.root_manifest or snapshot.manifest_list


def statistics_files(metadata: TableMetadata, snapshot_ids: Collection[int]) -> Files:
    """The statistics files of snapshots, there or not (R-141)."""
    table = {
        item.statistics_path: item.file_size_in_bytes
        for item in metadata.statistics
        if item.snapshot_id in snapshot_ids
    }
    partition = {
        item.statistics_path: item.file_size_in_bytes
        for item in metadata.partition_statistics
        if item.snapshot_id in snapshot_ids
    }
    return together(
        [
            _named(FileKind.STATISTICS_FILES, table, {}),
            _named(FileKind.PARTITION_STATISTICS_FILES, partition, {}),
        ]
    )


def every_statistics_file(metadata: TableMetadata) -> Files:
    """The statistics files that the metadata names, also those of no snapshot in it (R-141)."""
    described = {item.snapshot_id for item in metadata.statistics}
    described |= {item.snapshot_id for item in metadata.partition_statistics}
    return statistics_files(metadata, described)


def log_files(metadata: TableMetadata, metadata_location: str) -> Files:
    """The metadata file of the table and those in its log, which stay whatever expires (R-024)."""
    logged = [entry.metadata_file for entry in metadata.metadata_log]
    return _named(FileKind.METADATA_FILES, dict.fromkeys([*logged, metadata_location]), {})


def dropped_files(locations: Sequence[str], sizes: Mapping[str, int]) -> Files:
    """Metadata files that leave the log; `sizes` in bytes by loosest key (R-024)."""
    return _named(FileKind.METADATA_FILES, dict.fromkeys(locations), sizes)


def _named(kind: FileKind, found: Mapping[str, int | None], sizes: Mapping[str, int]) -> Files:
    keys = [loosest_key(location) for location in found]
    known = [sizes.get(key, size) for key, size in zip(keys, found.values(), strict=True)]
    return files(list(found), keys, kind, known)


def all_manifests(
    lists: Mapping[int, Sequence[ManifestFile]], snapshots: Iterable[Snapshot]
) -> tuple[ManifestFile, ...]:
    """The manifests of several snapshots, each once."""
    return distinct_manifests(lists[snapshot.snapshot_id] for snapshot in snapshots)
