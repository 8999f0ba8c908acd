"""Rows of views by partition."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from icectl.cli.document import id_text
from icectl.commands.inspect.views import Row, RowSet
from icectl.entries.partition_records import partitions_of
from icectl.entries.rows import Entries, live
from icectl.entries.summary import by_partition, merge_partitions
from icectl.format.metadata import TableMetadata
from icectl.format.snapshot import Snapshot
from icectl.units import print_instant

_COLUMNS = (
    "record_count", "file_count", "total_data_file_size_in_bytes", "position_delete_record_count",
    "position_delete_file_count", "equality_delete_record_count", "equality_delete_file_count",
    "last_updated_at", "last_updated_snapshot_id",
)  # fmt: skip


def partition_columns(metadata: TableMetadata) -> tuple[str, ...]:
    """Return columns of the view; an unpartitioned table has neither partition nor spec."""
    if not any(spec.fields for spec in metadata.partition_specs):
        return _COLUMNS
    return ("partition", "spec_id", *_COLUMNS)


def partition_rows(batches: Iterable[Entries], metadata: TableMetadata) -> RowSet:
    """Add up the live entries of some manifests by spec and partition.

    Order: spec id, then partition values, null first.
    """
    newest_last = sorted(
        metadata.snapshots, key=lambda item: (item.timestamp_ms, item.sequence_number)
    )
    # Two snapshots may share a timestamp, so that ranks tell what brought a partition up to date.
    ranks = {snapshot.snapshot_id: rank for rank, snapshot in enumerate(newest_last)}
    parts = [by_partition(live(entries), ranks) for entries in batches]
    counted = merge_partitions(parts).to_pylist() if parts else []
    return RowSet(partition_columns(metadata), _rows(counted, metadata, newest_last))


def compared_columns(metadata: TableMetadata) -> tuple[str, ...]:
    """Return columns of the view of deletes; an unpartitioned table has no partition, no spec."""
    names = partition_columns(metadata)[: -len(_COLUMNS)]
    return (*names, "data_file_count", "key_count", "row_count")


def _rows(
    counted: list[Mapping[str, Any]], metadata: TableMetadata, newest_last: list[Snapshot]
) -> Iterator[Row]:
    partitions = partitions_of(metadata)

    def place(group: Mapping[str, Any]) -> tuple[Any, ...]:
        """Make the key that partitions are ordered by: spec id, then values, null first."""
        values = partitions.values(group["spec_id"], group["partition_key"])
        return (group["spec_id"], *((value is not None, value) for value in values))

    for group in sorted(counted, key=place):
        rank = group["updated_ms"]
        updated = None if rank is None else newest_last[rank]
        yield {
            "partition": partitions.record(group["spec_id"], group["partition_key"]),
            "partition_path": partitions.path(group["spec_id"], group["partition_key"]),
            "spec_id": group["spec_id"],
            "record_count": group["record_count"],
            "file_count": group["file_count"],
            "total_data_file_size_in_bytes": group["size_bytes"],
            # Vectors are position deletes here, as in the reference implementation's table.
            "position_delete_record_count": group["position_delete_record_count"]
            + group["deletion_vector_record_count"],
            "position_delete_file_count": group["position_delete_file_count"]
            + group["deletion_vector_count"],
            "equality_delete_record_count": group["equality_delete_record_count"],
            "equality_delete_file_count": group["equality_delete_file_count"],
            "last_updated_at": print_instant(updated.timestamp_ms) if updated else None,
            "last_updated_snapshot_id": id_text(updated.snapshot_id) if updated else None,
        }
