"""Reading what an expiry has to know: which files go with snapshots, which stay with others."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager

from icectl.catalog.protocol import LoadedTable
from icectl.entries.files import Files, together
from icectl.errors import CorruptTable, StorageError
from icectl.plan.expire_snapshots import Reached, lost_statistics
from icectl.plan.retention import Retention
from icectl.spec.manifest import ManifestFile
from icectl.spec.metadata import TableMetadata
from icectl.spec.snapshot import Snapshot
from icectl.table.reachable import (
    ReachReader,
    all_manifests,
    every_statistics_file,
    live_files,
    log_files,
    manifest_lists,
    metadata_files,
    read_live,
    statistics_files,
)
from icectl.table.reading import FILE_MISSING


def read_reached(
    reader: ReachReader, metadata: TableMetadata, retention: Retention, sizes: Mapping[str, int]
) -> Reached:
    """The files that snapshots reach, those which go and those which stay.

    `sizes` in bytes by loosest key, where known.
    Raises: StorageError, CorruptTable, when anything that stays cannot be read (R-192); what goes
    and is lost is warned of.
    """
    going_ids = {decision.snapshot_id for decision in retention.expired}
    kept = [item for item in metadata.snapshots if item.snapshot_id not in going_ids]
    staying = all_manifests(manifest_lists(reader, metadata, kept), kept)
    live = read_live(reader, metadata, staying)
    return Reached(
        going=_read_going(reader, metadata, going_ids, staying, sizes),
        staying=together([live.files, metadata_files(metadata, kept, staying, sizes)]),
        spec_ids=frozenset(manifest.partition_spec_id for manifest in staying),
        schema_ids=live.schema_ids,
    )


def reached_beside(
    reader: ReachReader, newest: LoadedTable, read_ids: Collection[int]
) -> Sequence[Files]:
    """What the newest metadata reaches, but for manifests of snapshots that were read before.

    Raises: StorageError, CorruptTable, when anything of it cannot be read (R-192).
    """
    metadata = newest.metadata
    unseen = [item for item in metadata.snapshots if item.snapshot_id not in read_ids]
    manifests = all_manifests(manifest_lists(reader, metadata, unseen), unseen)
    return (
        live_files(reader, metadata, manifests),
        metadata_files(metadata, metadata.snapshots, manifests, {}),
        every_statistics_file(metadata),
        log_files(metadata, newest.metadata_location),
    )


def _read_going(
    reader: ReachReader,
    metadata: TableMetadata,
    going_ids: Collection[int],
    staying: Sequence[ManifestFile],
    sizes: Mapping[str, int],
) -> Files:
    """What the snapshots that go reach, but for the contents of manifests that stay."""
    going = [item for item in metadata.snapshots if item.snapshot_id in going_ids]
    kept_paths = {manifest.manifest_path for manifest in staying}
    only_going = [
        manifest
        for manifest in _lists_of_going(reader, metadata, going)
        if manifest.manifest_path not in kept_paths
    ]
    named = [
        _live_files_of_going(reader, metadata, only_going),
        metadata_files(metadata, going, only_going, sizes),
    ]
    if going:
        named.append(statistics_files(metadata, lost_statistics(metadata)))
    return together(named)


def _lists_of_going(
    reader: ReachReader, metadata: TableMetadata, going: Sequence[Snapshot]
) -> tuple[ManifestFile, ...]:
    """The manifests of snapshots that go; a list that is lost hides its files from us."""
    try:
        return all_manifests(manifest_lists(reader, metadata, going), going)
    except (StorageError, CorruptTable) as error:
        _require_lost(error)
        found: dict[int, tuple[ManifestFile, ...]] = {}
        for snapshot in going:
            with _left(reader, f"snapshot {snapshot.snapshot_id}"):
                found |= manifest_lists(reader, metadata, [snapshot])
        return all_manifests(found, [item for item in going if item.snapshot_id in found])


def _live_files_of_going(
    reader: ReachReader, metadata: TableMetadata, manifests: Sequence[ManifestFile]
) -> Files:
    try:
        return live_files(reader, metadata, manifests)
    except (StorageError, CorruptTable) as error:
        _require_lost(error)
        parts = []
        for manifest in manifests:
            with _left(reader, f"manifest {manifest.manifest_path}"):
                parts.append(live_files(reader, metadata, [manifest]))
        return together(parts)


def _require_lost(error: StorageError | CorruptTable) -> None:
    """Go on where a file is missing or damaged for good; a store that is ill may be well later."""
    if isinstance(error, StorageError) and error.error_id != FILE_MISSING:
        raise error


@contextmanager
def _left(reader: ReachReader, subject: str) -> Iterator[None]:
    """Expire what cannot be read, and say that its files stay behind."""
    try:
        yield
    except (StorageError, CorruptTable) as error:
        _require_lost(error)
        reader.progress.warn(f"{subject} expires, but its files are left: {error.message}")
