"""Snapshots, refs, logs and statistics files of the table metadata, from and to their JSON."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from icectl.format.json_members import (
    each,
    json_object,
    optional_number,
    optional_text,
    others,
    put,
    text,
    texts,
    whole_number,
)

_SNAPSHOT_MEMBERS = {
    "snapshot-id", "parent-snapshot-id", "sequence-number", "timestamp-ms", "manifest-list",
    "manifests", "root-manifest", "summary", "schema-id", "first-row-id", "added-rows", "key-id",
}  # fmt: skip
_REF_MEMBERS = {
    "snapshot-id", "type", "min-snapshots-to-keep", "max-snapshot-age-ms", "max-ref-age-ms",
}  # fmt: skip
_STATISTICS_MEMBERS = {
    "snapshot-id", "statistics-path", "file-size-in-bytes", "file-footer-size-in-bytes",
    "blob-metadata",
}  # fmt: skip
_PARTITION_STATISTICS_MEMBERS = {"snapshot-id", "statistics-path", "file-size-in-bytes"}


PUT_BACK = "icectl.put-back"
"""Member of the summary of a snapshot that was added again: the id that its manifest list has."""

ERASURE = "icectl.erasure"
ERASED_COLUMNS = "icectl.erasure.columns"
ERASED_ROWS = "icectl.erasure.rows"
"""Members of a summary that an erasure writes: its uuid, the columns that rows were looked for by,
and how many live rows it has erased by then."""


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
    """Yield a snapshot and its ancestors, newest first, up to one that is gone or a cycle."""
    seen: set[int] = set()
    current = snapshots_by_id.get(snapshot_id)
    while current is not None and current.snapshot_id not in seen:
        seen.add(current.snapshot_id)
        yield current
        parent = current.parent_snapshot_id
        current = None if parent is None else snapshots_by_id.get(parent)


def snapshot_from_json(value: Mapping[str, Any]) -> Snapshot:
    """Read a snapshot. Raises: one of UNUSABLE."""
    summary = value.get("summary")
    is_embedding = value.get("manifests") is not None
    embedded = each(value, "manifests", text, "R-030") if is_embedding else None
    return Snapshot(
        snapshot_id=whole_number(value["snapshot-id"]),
        timestamp_ms=whole_number(value["timestamp-ms"]),
        parent_snapshot_id=optional_number(value, "parent-snapshot-id"),
        sequence_number=whole_number(value.get("sequence-number") or 0),
        manifest_list=optional_text(value, "manifest-list"),
        manifests=None if embedded is None else tuple(embedded),
        root_manifest=optional_text(value, "root-manifest"),
        summary=None if summary is None else texts(summary),
        schema_id=optional_number(value, "schema-id"),
        first_row_id=optional_number(value, "first-row-id"),
        added_rows=optional_number(value, "added-rows"),
        key_id=optional_text(value, "key-id"),
        unknown=others(value, _SNAPSHOT_MEMBERS),
    )


def ref_from_json(value: Mapping[str, Any]) -> SnapshotRef:
    """Read a branch or tag. Raises: one of UNUSABLE."""
    return SnapshotRef(
        whole_number(value["snapshot-id"]),
        text(value["type"]).lower(),
        optional_number(value, "min-snapshots-to-keep"),
        optional_number(value, "max-snapshot-age-ms"),
        optional_number(value, "max-ref-age-ms"),
        others(value, _REF_MEMBERS),
    )


def snapshot_log_from_json(value: Mapping[str, Any]) -> SnapshotLogEntry:
    """Read an entry of the snapshot log. Raises: one of UNUSABLE."""
    unknown = others(value, {"timestamp-ms", "snapshot-id"})
    return SnapshotLogEntry(
        whole_number(value["timestamp-ms"]), whole_number(value["snapshot-id"]), unknown
    )


def metadata_log_from_json(value: Mapping[str, Any]) -> MetadataLogEntry:
    """Read an entry of the metadata log. Raises: one of UNUSABLE."""
    unknown = others(value, {"timestamp-ms", "metadata-file"})
    return MetadataLogEntry(
        whole_number(value["timestamp-ms"]), str(value["metadata-file"]), unknown
    )


def statistics_from_json(value: Mapping[str, Any]) -> StatisticsFile:
    """Read what names a statistics file. Raises: one of UNUSABLE."""
    return StatisticsFile(
        whole_number(value["snapshot-id"]),
        str(value["statistics-path"]),
        whole_number(value["file-size-in-bytes"]),
        whole_number(value["file-footer-size-in-bytes"]),
        tuple(each(value, "blob-metadata", json_object, "R-140")),
        others(value, _STATISTICS_MEMBERS),
    )


def partition_statistics_from_json(value: Mapping[str, Any]) -> PartitionStatisticsFile:
    """Read what names a file of partition statistics. Raises: one of UNUSABLE."""
    return PartitionStatisticsFile(
        whole_number(value["snapshot-id"]),
        str(value["statistics-path"]),
        whole_number(value["file-size-in-bytes"]),
        others(value, _PARTITION_STATISTICS_MEMBERS),
    )


def snapshot_json(snapshot: Snapshot, version: int) -> dict[str, Any]:
    """Return the JSON object of a snapshot in a table of a format version."""
    members: dict[str, Any] = {}
    if version > 1 or snapshot.sequence_number:
        members["sequence-number"] = snapshot.sequence_number
    members["snapshot-id"] = snapshot.snapshot_id
    put(members, "parent-snapshot-id", snapshot.parent_snapshot_id)
    members["timestamp-ms"] = snapshot.timestamp_ms
    put(members, "summary", None if snapshot.summary is None else dict(snapshot.summary))
    put(members, "manifest-list", snapshot.manifest_list)
    put(members, "manifests", None if snapshot.manifests is None else list(snapshot.manifests))
    put(members, "root-manifest", snapshot.root_manifest)
    put(members, "schema-id", snapshot.schema_id)
    put(members, "first-row-id", snapshot.first_row_id)
    put(members, "added-rows", snapshot.added_rows)
    put(members, "key-id", snapshot.key_id)
    return members | dict(snapshot.unknown)


def item_json(item: SnapshotRef | StatisticsFile | PartitionStatisticsFile) -> dict[str, Any]:
    """Return the JSON object of a ref or of a statistics file, with its fields in their order."""
    members: dict[str, Any] = {}
    for name in (one.name for one in fields(item) if one.name != "unknown"):
        value = getattr(item, name)
        stored = [dict(part) for part in value] if isinstance(value, tuple) else value
        put(members, name.replace("_", "-"), stored)
    return members | dict(item.unknown)


def snapshot_log_json(entry: SnapshotLogEntry) -> dict[str, Any]:
    """Return the JSON object of an entry of the snapshot log."""
    members = {"timestamp-ms": entry.timestamp_ms, "snapshot-id": entry.snapshot_id}
    return members | dict(entry.unknown)


def metadata_log_json(entry: MetadataLogEntry) -> dict[str, Any]:
    """Return the JSON object of an entry of the metadata log."""
    members: dict[str, Any] = {"timestamp-ms": entry.timestamp_ms}
    return members | {"metadata-file": entry.metadata_file} | dict(entry.unknown)
