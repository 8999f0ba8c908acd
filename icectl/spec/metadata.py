"""The table metadata: one value for every format version, unknown members kept (R-018)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from icectl.spec.partition import PartitionSpec
from icectl.spec.schema import Schema
from icectl.spec.snapshot import (
    MetadataLogEntry,
    PartitionStatisticsFile,
    Snapshot,
    SnapshotLogEntry,
    SnapshotRef,
    StatisticsFile,
)
from icectl.spec.sort import SortOrder


@dataclass(frozen=True)
class TableMetadata:
    """A table as its metadata JSON describes it.

    Order of every tuple is that of the JSON. `current_snapshot_id` is None where the JSON says -1,
    null or nothing (R-016). `refs` always names `main` when there is a current snapshot (R-015).
    """

    format_version: int
    table_uuid: str | None
    location: str
    last_sequence_number: int
    last_updated_ms: int
    last_column_id: int
    schemas: tuple[Schema, ...]
    current_schema_id: int
    partition_specs: tuple[PartitionSpec, ...]
    default_spec_id: int
    last_partition_id: int
    sort_orders: tuple[SortOrder, ...]
    default_sort_order_id: int
    properties: Mapping[str, str] = field(default_factory=dict)
    current_snapshot_id: int | None = None
    snapshots: tuple[Snapshot, ...] = ()
    refs: Mapping[str, SnapshotRef] = field(default_factory=dict)
    snapshot_log: tuple[SnapshotLogEntry, ...] = ()
    metadata_log: tuple[MetadataLogEntry, ...] = ()
    statistics: tuple[StatisticsFile, ...] = ()
    partition_statistics: tuple[PartitionStatisticsFile, ...] = ()
    next_row_id: int | None = None
    encryption_keys: tuple[Mapping[str, Any], ...] = ()
    unknown: Mapping[str, Any] = field(default_factory=dict)
