"""Gathering what the health view judges by: entries, properties, the metadata folder, retention."""

from collections.abc import Sequence

from icectl.commands.expire_snapshots.reach import read_reached
from icectl.commands.inspect.health_plan import (
    HEALTH_SOURCES,
    Expirable,
    HealthLimits,
    HealthSource,
    MetadataFiles,
    Targets,
)
from icectl.commands.inspect.health_plan import health as health_view
from icectl.commands.inspect.views import Row
from icectl.entries import files
from icectl.errors import CorruptTable, StorageError
from icectl.format import properties
from icectl.format.metadata import TableMetadata
from icectl.format.names import parse_metadata_file_name
from icectl.storage import location as locations
from icectl.storage.store import FileStatus
from icectl.table.reader import Reader, SnapshotChoice, chosen_snapshot
from icectl.table.retention import AskedRetention, Retention, decide
from icectl.units import read_count

_EXACT_SNAPSHOTS = 5_000
"""Snapshots whose manifests are read for exact reclaimable bytes; beyond, summaries must do."""


def health(
    reader: Reader,
    choice: SnapshotChoice,
    commands: frozenset[str],
    limits: HealthLimits | None = None,
) -> Row:
    """Judge the chosen snapshot and the table's metadata; `commands` may be advised.
    Measures are compared with `limits`.

    Raises: UsageError for a snapshot that is not there; Refused for a property that makes no
    sense; what reading manifests raises.
    Cost: the manifests of all snapshots, where some are past retention.
    """
    snapshot = chosen_snapshot(reader.metadata, choice)
    manifests = reader.manifests(snapshot)
    listed = reader.context.store.list_directory(reader.loaded.metadata_folder)
    entries = reader.load(manifests, HEALTH_SOURCES, to_match=True)
    has_gaps = reader.gaps is not None and bool(reader.gaps.problems)
    return health_view(
        HealthSource(
            metadata=reader.metadata,
            snapshot=snapshot,
            manifests=manifests,
            entries=entries,
            targets=targets_of(reader.metadata),
            expirable=_expirable(reader, listed),
            metadata_files=metadata_files_in(listed),
            commands=commands,
            limits=limits or HealthLimits(),
            is_whole=not has_gaps and not any(one.lost for one in reader.metadata.oddities),
        )
    )


def targets_of(metadata: TableMetadata) -> Targets:
    """Return the sizes that a table asks for.

    Raises: Refused, for a property that makes no sense.
    """
    stored = metadata.properties
    return Targets(
        file_size_bytes=properties.read(stored, properties.TARGET_FILE_SIZE_BYTES),
        file_size_given=properties.TARGET_FILE_SIZE_BYTES.name in stored,
        manifest_size_bytes=properties.read(stored, properties.TARGET_MANIFEST_SIZE_BYTES),
    )


def metadata_files_in(listed: Sequence[FileStatus]) -> MetadataFiles:
    """Return the metadata files in the folder of the one that was read."""
    sizes = [
        status.size_bytes
        for status in listed
        if parse_metadata_file_name(locations.name(status.location)) is not None
    ]
    return MetadataFiles(len(sizes), sum(sizes))


def _expirable(reader: Reader, listed: Sequence[FileStatus]) -> Expirable:
    """Find what expiring by the table's own policy frees."""
    metadata = reader.metadata
    retention = decide(metadata, AskedRetention(), reader.context.env.now_ms())
    if not retention.expired:
        return Expirable(0, 0, 0, exact=True)
    if len(metadata.snapshots) <= _EXACT_SNAPSHOTS:
        sizes = {locations.loosest_key(each.location): each.size_bytes for each in listed}
        try:
            reached = read_reached(reader.context, metadata, retention, sizes)
        except (StorageError, CorruptTable) as error:
            doubts = [error.message]
        else:
            doubts = [lost.reason for lost in reached.unread]
        if not doubts:
            freed = reached.only_going
            size_bytes = files.total_bytes(freed)
            return Expirable(len(retention.expired), size_bytes, len(freed), exact=True)
        reader.context.progress.warn(f"reclaimable bytes are an estimate: {doubts[0]}")
    return estimate_freed(metadata, retention)


def estimate_freed(metadata: TableMetadata, retention: Retention) -> Expirable:
    """Return what expiring frees, by the summaries of the snapshots."""
    expired_ids = {decision.snapshot_id for decision in retention.expired}
    # A snapshot removes files of those before it: they are freed once its parent has gone.
    removed = sum(
        (read_count((snapshot.summary or {}).get("removed-files-size")) or 0)
        for snapshot in metadata.snapshots
        if snapshot.parent_snapshot_id in expired_ids
    )
    return Expirable(len(expired_ids), removed, None, exact=False)
