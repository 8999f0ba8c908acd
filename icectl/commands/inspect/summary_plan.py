"""The summary view: what a table is, and what one of its snapshots holds."""

from collections.abc import Sequence

from icectl.commands.inspect.metadata_rows import id_text
from icectl.commands.inspect.views import Row
from icectl.entries.summary import Totals
from icectl.format.layout import layout_name
from icectl.format.manifest import ManifestFile
from icectl.format.metadata import TableMetadata
from icectl.format.snapshot import Snapshot
from icectl.units import print_instant

SUMMARY_COLUMNS: frozenset[str] = frozenset(
    {
        "content", "status", "file_format", "record_count", "file_size_in_bytes",
        "content_size_in_bytes",
    }
)  # fmt: skip
"""What the totals are made of; manifest lists carry no bytes, so manifests are read."""


def summary(
    metadata: TableMetadata,
    metadata_location: str,
    snapshot: Snapshot | None,
    manifests: Sequence[ManifestFile],
    totals: Totals | None,
) -> Row:
    """Describe the table, and the live files of the chosen snapshot.

    `totals` is None where nobody knows what the snapshot lists; so are all counts of it then.
    Units: bytes; record_count before deletes.
    """
    counts = _counts(manifests, Totals() if totals is None else totals)
    return {
        "format_version": metadata.format_version,
        **({"layout": layout} if (layout := layout_name(metadata)) is not None else {}),
        "uuid": metadata.table_uuid,
        "location": metadata.location,
        "metadata_location": metadata_location,
        "last_updated": print_instant(metadata.last_updated_ms),
        "current_snapshot_id": id_text(metadata.current_snapshot_id),
        "snapshot_count": len(metadata.snapshots),
        "refs": {
            name: {"snapshot_id": str(ref.snapshot_id), "type": ref.type}
            for name, ref in metadata.refs.items()
        },
        "schema_id": metadata.current_schema_id,
        "partition_spec_id": metadata.default_spec_id,
        "sort_order_id": metadata.default_sort_order_id,
        "snapshot_id": id_text(snapshot.snapshot_id) if snapshot else None,
        "committed_at": print_instant(snapshot.timestamp_ms) if snapshot else None,
        "operation": snapshot.operation if snapshot else None,
        **(counts if totals is not None else dict.fromkeys(counts)),
        "properties": dict(metadata.properties),
    }


def _counts(manifests: Sequence[ManifestFile], totals: Totals) -> Row:
    return {
        "data_file_count": totals.data_file_count,
        "delete_file_count": totals.delete_file_count,
        "data_file_bytes": totals.data_file_bytes,
        "delete_file_bytes": totals.delete_file_bytes,
        "record_count": totals.record_count,
        "position_delete_file_count": totals.position_delete_file_count,
        "equality_delete_file_count": totals.equality_delete_file_count,
        "deletion_vector_count": totals.deletion_vector_count,
        "position_delete_record_count": totals.position_delete_record_count
        + totals.deletion_vector_record_count,
        "equality_delete_record_count": totals.equality_delete_record_count,
        # As manifest lists do not count, the root of version 4 does not.
        "manifest_count": sum(not manifest.in_root for manifest in manifests),
        "manifest_bytes": sum(
            manifest.manifest_length for manifest in manifests if not manifest.in_root
        ),
    }
