"""The facts that maintenance judges a table by, from metadata and manifests of its current state.

Less is read than for the health view: of older snapshots only what their summaries say.
"""

from collections.abc import Callable, Sequence

from icectl.catalog.protocol import LoadedTable
from icectl.commands.inspect.health import estimate_freed, metadata_files_in, targets_of
from icectl.commands.inspect.health_plan import HEALTH_SOURCES, HealthSource
from icectl.commands.inspect.health_plan import health as health_view
from icectl.commands.maintain.needs_plan import Facts
from icectl.commit.attempt import CommitAsked, commit_changes
from icectl.errors import CommitConflict, Refused, UsageError
from icectl.format.metadata import TableMetadata
from icectl.format.properties import MAINTAIN_ENABLED, ORPHANS_LOOKED_FOR, read
from icectl.format.updates import SetProperties, Update
from icectl.table.context import TableContext, open_table
from icectl.table.reader import Reader
from icectl.table.retention import AskedRetention, decide
from icectl.table.row_safety import check_gc_enabled, check_not_maintained
from icectl.units import parse_instant, print_instant


def mark_looked_for(context: TableContext, at_ms: int) -> None:
    """Note in the table that orphans were looked for; where it says so already, do nothing.

    Raises: CommitUnknown; Unsupported, where the catalog cannot set properties; what loading and
    committing raise. A mark that conflicts is left to the next run.
    """
    loaded = open_table(context.catalog)
    loaded.capabilities.check_update(SetProperties, "record when orphans were last searched")

    def changes(metadata: TableMetadata) -> Sequence[Update]:
        """Set the property, unless another run has looked since."""
        known = looked_ms(metadata, at_ms)
        if known is not None and known >= at_ms:
            return ()
        return (SetProperties({ORPHANS_LOOKED_FOR.name: print_instant(at_ms)}),)

    try:
        commit_changes(context, loaded, changes, CommitAsked())
    except CommitConflict:
        return


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
    now_ms = reader.context.env.now_ms()
    retention = decide(metadata, retention_of(metadata), now_ms)
    listed = reader.context.store.list_directory(reader.loaded.metadata_folder)
    view = health_view(
        HealthSource(
            metadata=metadata,
            snapshot=snapshot,
            manifests=manifests,
            entries=reader.load(manifests, HEALTH_SOURCES, to_match=True),
            targets=targets_of(metadata),
            expirable=estimate_freed(metadata, retention),
            metadata_files=metadata_files_in(listed),
            commands=frozenset(),
        )
    )
    deletes, manifest_debt = view["delete_debt"], view["manifest_debt"]
    files = view["metadata_file_debt"]
    return Facts(
        data_file_count=view["data_file_count"],
        data_file_bytes=view["data_file_bytes"],
        delete_file_count=deletes["position_delete_file_count"]
        + deletes["equality_delete_file_count"]
        + deletes["deletion_vector_count"],
        delete_file_bytes=deletes["delete_file_bytes"],
        surplus_file_count=view["small_files"]["surplus_file_count"],
        deleted_ratio=deletes["deleted_ratio"],
        most_deletes_on_one_file=deletes["most_deletes_on_one_file"],
        dangling_delete_count=deletes["dangling_delete_count"],
        manifest_count=manifest_debt["manifest_count"],
        manifest_bytes=manifest_debt["manifest_bytes"],
        surplus_manifest_count=manifest_debt["surplus_manifest_count"],
        snapshot_count=len(metadata.snapshots),
        expirable_snapshot_count=view["snapshot_debt"]["expirable_snapshot_count"],
        reclaimable_bytes=view["reclaimable"]["reclaimable_bytes"],
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
