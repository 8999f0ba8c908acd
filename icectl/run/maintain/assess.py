"""The facts that maintenance judges a table by, from metadata and manifests of its current state.

Less is read than for the health view: of older snapshots only what their summaries say.
"""

from collections.abc import Callable

from icectl.catalog.protocol import LoadedTable
from icectl.errors import Refused, UsageError
from icectl.plan.inspect.health import HEALTH_SOURCES, HealthSource
from icectl.plan.inspect.health import health as health_view
from icectl.plan.maintain.needs import Facts
from icectl.plan.retention import AskedRetention, decide
from icectl.run.guards import check_gc_enabled, check_not_maintained
from icectl.run.inspect.health import estimate_freed, metadata_files_in, targets_of
from icectl.run.reader import Reader
from icectl.spec.metadata import TableMetadata
from icectl.spec.properties import MAINTAIN_ENABLED, ORPHANS_LOOKED_FOR, read
from icectl.units import parse_instant

RetentionOf = Callable[[TableMetadata], AskedRetention]
"""The policy of retention that holds for a table."""


def is_enabled(metadata: TableMetadata) -> bool:
    """Return whether the table lets itself be maintained.

    Raises: Refused, for a property that is odd.
    """
    return read(metadata.properties, MAINTAIN_ENABLED)


def assess(reader: Reader, retention_of: RetentionOf) -> Facts:
    """Gather what a table is judged by.

    Raises: Refused for a property that makes no sense; what reading manifests raises.
    Cost: the manifests of the current snapshot, one listing of the metadata folder.
    """
    metadata, snapshot = reader.metadata, reader.metadata.current_snapshot
    manifests = reader.manifests(snapshot)
    now_ms = reader.env.now_ms()
    retention = decide(metadata, retention_of(metadata), now_ms)
    listed = reader.store.list_directory(reader.loaded.metadata_folder)
    found = health_view(
        HealthSource(
            metadata=metadata,
            snapshot=snapshot,
            manifests=manifests,
            entries=reader.load_to_match(manifests, HEALTH_SOURCES),
            targets=targets_of(metadata),
            expirable=estimate_freed(metadata, retention),
            metadata_files=metadata_files_in(listed),
            commands=frozenset(),
        )
    )
    deletes, manifest_debt = found["delete_debt"], found["manifest_debt"]
    files = found["metadata_file_debt"]
    return Facts(
        data_file_count=found["data_file_count"],
        data_file_bytes=found["data_file_bytes"],
        delete_file_count=deletes["position_delete_file_count"]
        + deletes["equality_delete_file_count"]
        + deletes["deletion_vector_count"],
        delete_file_bytes=deletes["delete_file_bytes"],
        surplus_file_count=found["small_files"]["surplus_file_count"],
        deleted_ratio=deletes["deleted_ratio"],
        most_deletes_on_one_file=deletes["most_deletes_on_one_file"],
        dangling_delete_count=deletes["dangling_delete_count"],
        manifest_count=manifest_debt["manifest_count"],
        manifest_bytes=manifest_debt["manifest_bytes"],
        surplus_manifest_count=manifest_debt["surplus_manifest_count"],
        snapshot_count=len(metadata.snapshots),
        expirable_snapshot_count=found["snapshot_debt"]["expirable_snapshot_count"],
        reclaimable_bytes=found["reclaimable"]["reclaimable_bytes"],
        metadata_file_count=files["metadata_file_count"],
        metadata_file_bytes=files["metadata_file_bytes"],
        untracked_metadata_file_count=files["untracked_metadata_file_count"],
        looked_ms=looked_ms(metadata, now_ms),
        keeps_files=_keeps_files(reader.loaded),
    )


def looked_ms(metadata: TableMetadata, now_ms: int) -> int | None:
    """Return when maintenance last looked for orphans.

    None for never, and for what cannot be read.
    """
    text = read(metadata.properties, ORPHANS_LOOKED_FOR)
    try:
        return None if text is None else parse_instant(text, now_ms)
    except UsageError:
        return None


def _keeps_files(loaded: LoadedTable) -> str | None:
    """Return why no file of the table may be deleted, where that is so."""
    try:
        check_gc_enabled(loaded.metadata)
        check_not_maintained(loaded)
    except Refused as refused:
        return refused.message
    return None
