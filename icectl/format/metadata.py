"""The table metadata: one value for every format version, unknown members kept (R-018)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from icectl.format.expressions import Expression
from icectl.format.partition import PartitionSpec
from icectl.format.schema import Schema
from icectl.format.snapshot import (
    MetadataLogEntry,
    PartitionStatisticsFile,
    Snapshot,
    SnapshotLogEntry,
    SnapshotRef,
    StatisticsFile,
)
from icectl.format.sort import SortOrder


@dataclass(frozen=True, slots=True)
class Oddity:
    """A part of a metadata file that breaks a rule; `lost` says that some of it is not shown."""

    rule: str
    message: str
    member: str
    lost: bool


@dataclass(frozen=True)
class TableMetadata:
    """A table as its metadata JSON describes it.

    Order of every tuple is that of the JSON. `current_snapshot_id` is None where the JSON says -1,
    null or nothing (R-016). `refs` always names `main` when there is a current snapshot (R-015).
    `keeps_manifest_lists` is true in version 4 as Iceberg 1.12 writes it, without roots.
    Metadata with `oddities` is for showing: they are what was let pass, and no table is changed
    that has some.
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
    expressions: tuple[Expression, ...] = ()
    keeps_manifest_lists: bool = False
    unknown: Mapping[str, Any] = field(default_factory=dict)
    oddities: tuple[Oddity, ...] = ()

    @cached_property
    def snapshots_by_id(self) -> Mapping[int, Snapshot]:
        return {snapshot.snapshot_id: snapshot for snapshot in self.snapshots}

    @property
    def every_statistics(self) -> tuple[StatisticsFile | PartitionStatisticsFile, ...]:
        """The entries of all statistics files, those of partitions last."""
        return (*self.statistics, *self.partition_statistics)

    def snapshot(self, snapshot_id: int) -> Snapshot | None:
        return self.snapshots_by_id.get(snapshot_id)

    @property
    def current_snapshot(self) -> Snapshot | None:
        """The snapshot of branch main."""
        if self.current_snapshot_id is None:
            return None
        return self.snapshot(self.current_snapshot_id)

    def schema(self, schema_id: int) -> Schema | None:
        return next((item for item in self.schemas if item.schema_id == schema_id), None)

    @property
    def current_schema(self) -> Schema:
        """The schema that new data is written with; parsing makes sure that there is one."""
        return next(item for item in self.schemas if item.schema_id == self.current_schema_id)

    def spec(self, spec_id: int) -> PartitionSpec | None:
        return next((item for item in self.partition_specs if item.spec_id == spec_id), None)

    @property
    def default_spec(self) -> PartitionSpec:
        """The spec that new data is written with; parsing makes sure that there is one."""
        return next(item for item in self.partition_specs if item.spec_id == self.default_spec_id)

    def sort_order(self, order_id: int) -> SortOrder | None:
        return next((item for item in self.sort_orders if item.order_id == order_id), None)
