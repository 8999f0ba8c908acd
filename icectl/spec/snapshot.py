"""Snapshots, refs, logs and statistics entries of the table metadata."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One snapshot (R-030). Exactly one of `manifest_list`, `manifests` and `root_manifest` is set
    on a well-formed snapshot: lists from version 1, embedded manifests in version 1 only, roots in
    V4 (V4-030).
    """

    snapshot_id: int
    timestamp_ms: int
    parent_snapshot_id: int | None = None
    sequence_number: int = 0
    manifest_list: str | None = None
    manifests: tuple[str, ...] | None = None
    root_manifest: str | None = None
    summary: Mapping[str, str] | None = None
    schema_id: int | None = None
    first_row_id: int | None = None
    added_rows: int | None = None
    key_id: str | None = None
    unknown: Mapping[str, Any] = field(default_factory=dict)

    @property
    def operation(self) -> str | None:
        """`append`, `replace`, `overwrite` or `delete`; None without a summary (R-032)."""
        if not self.summary:
            return None
        return self.summary.get("operation", "overwrite")

    @property
    def embeds_manifests(self) -> bool:
        """Whether its manifests are named here alone, as early writers of version 1 did."""
        return self.manifests is not None and self.manifest_list is None


@dataclass(frozen=True, slots=True)
class SnapshotRef:
    """A branch or tag with its own retention (R-027); `type` is `branch` or `tag`."""

    snapshot_id: int
    type: str
    min_snapshots_to_keep: int | None = None
    max_snapshot_age_ms: int | None = None
    max_ref_age_ms: int | None = None
    unknown: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SnapshotLogEntry:
    """The table's current snapshot from `timestamp_ms` on (R-025)."""

    timestamp_ms: int
    snapshot_id: int
    unknown: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class MetadataLogEntry:
    """A metadata file that was current until it was replaced (R-024)."""

    timestamp_ms: int
    metadata_file: str
    unknown: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StatisticsFile:
    """A Puffin file of table statistics (R-140); blob metadata is kept as its JSON."""

    snapshot_id: int
    statistics_path: str
    file_size_in_bytes: int
    file_footer_size_in_bytes: int
    blob_metadata: tuple[Mapping[str, Any], ...] = ()
    unknown: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PartitionStatisticsFile:
    """A file of partition statistics (R-142)."""

    snapshot_id: int
    statistics_path: str
    file_size_in_bytes: int
    unknown: Mapping[str, Any] = field(default_factory=dict)


def ancestors(snapshots_by_id: Mapping[int, Snapshot], snapshot_id: int) -> Iterator[Snapshot]:
    """Yield a snapshot and its ancestors.

    Order: newest first; ends at a parent that is gone, and at a cycle.
    """
    seen: set[int] = set()
    current = snapshots_by_id.get(snapshot_id)
    while current is not None and current.snapshot_id not in seen:
        seen.add(current.snapshot_id)
        yield current
        parent = current.parent_snapshot_id
        current = None if parent is None else snapshots_by_id.get(parent)
