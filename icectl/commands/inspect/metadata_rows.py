"""Rows of the views of the metadata file, and of manifests.

Column names are those of Iceberg's metadata tables in Spark and PyIceberg where such a table
exists; columns of ours stand after them.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress

from icectl.cli.document import id_text
from icectl.commands.inspect.views import Row, RowSet
from icectl.format.layout import Layout, layout_of_table
from icectl.format.manifest import ManifestContent, ManifestFile
from icectl.format.metadata import TableMetadata
from icectl.format.partition import PartitionField, result_types
from icectl.format.schema import Schema
from icectl.format.single_value import decode
from icectl.format.snapshot import ERASED_COLUMNS, ERASED_ROWS, ERASURE, StatisticsFile, ancestors
from icectl.format.transforms import path_text
from icectl.format.types import Type, type_text
from icectl.table.reader import logged_snapshot_id
from icectl.units import print_instant, read_count


def metadata_rows(view: str, metadata: TableMetadata, metadata_location: str) -> RowSet:
    """Return rows of one of the views in `METADATA_VIEWS`."""
    if view == "metadata-log":
        return RowSet(_COLUMNS[view], _metadata_log_rows(metadata, metadata_location))
    return RowSet(_COLUMNS[view], _ROWS[view](metadata))


def names_by_snapshot(metadata: TableMetadata) -> Mapping[int, list[str]]:
    """Return names of the branches and tags of every snapshot that has some."""
    names: dict[int, list[str]] = {}
    for name, ref in metadata.refs.items():
        names.setdefault(ref.snapshot_id, []).append(name)
    return names


def _snapshot_rows(metadata: TableMetadata) -> Iterator[Row]:
    names = names_by_snapshot(metadata)
    for snapshot in metadata.snapshots:
        summary = snapshot.summary
        yield {
            "committed_at": print_instant(snapshot.timestamp_ms),
            "snapshot_id": str(snapshot.snapshot_id),
            "parent_id": id_text(snapshot.parent_snapshot_id),
            "operation": snapshot.operation,
            "manifest_list": snapshot.manifest_list,
            "summary": None
            if summary is None
            else {key: value for key, value in summary.items() if key != "operation"},
            "sequence_number": snapshot.sequence_number,
            "schema_id": snapshot.schema_id,
            "refs": names.get(snapshot.snapshot_id, []),
        }


def _history_rows(metadata: TableMetadata) -> Iterator[Row]:
    head = metadata.current_snapshot_id
    lineage = () if head is None else ancestors(metadata.snapshots_by_id, head)
    line = {snapshot.snapshot_id for snapshot in lineage}
    for entry in metadata.snapshot_log:
        snapshot = metadata.snapshot(entry.snapshot_id)
        yield {
            "made_current_at": print_instant(entry.timestamp_ms),
            "snapshot_id": str(entry.snapshot_id),
            "parent_id": id_text(snapshot.parent_snapshot_id) if snapshot else None,
            "is_current_ancestor": entry.snapshot_id in line,
        }


def _erasure_rows(metadata: TableMetadata) -> Iterator[Row]:
    for snapshot in metadata.snapshots:
        summary = snapshot.summary or {}
        if ERASURE in summary:
            columns, rows = summary.get(ERASED_COLUMNS), summary.get(ERASED_ROWS, "")
            yield {
                "erasure": summary[ERASURE],
                "committed_at": print_instant(snapshot.timestamp_ms),
                "snapshot_id": str(snapshot.snapshot_id),
                "columns": columns.split(",") if columns else [],
                "erased_rows": read_count(rows),
            }


def _ref_rows(metadata: TableMetadata) -> Iterator[Row]:
    for name, ref in metadata.refs.items():
        yield {
            "name": name,
            "type": ref.type.upper(),
            "snapshot_id": str(ref.snapshot_id),
            "max_reference_age_in_ms": ref.max_ref_age_ms,
            "min_snapshots_to_keep": ref.min_snapshots_to_keep,
            "max_snapshot_age_in_ms": ref.max_snapshot_age_ms,
        }


def _schema_rows(metadata: TableMetadata) -> Iterator[Row]:
    for schema in metadata.schemas:
        identifiers = set(schema.identifier_field_ids)
        for field_id, field in schema.all_fields.items():
            yield {
                "schema_id": schema.schema_id,
                "is_current": schema.schema_id == metadata.current_schema_id,
                "field_id": field_id,
                "name": schema.name_of(field_id),
                "type": type_text(field.type),
                "required": field.required,
                "is_identifier": field_id in identifiers,
                "initial_default": field.initial_default,
                "write_default": field.write_default,
                "doc": field.doc,
            }


def _source_names(metadata: TableMetadata, source_ids: tuple[int, ...]) -> list[str | None]:
    """Return names of source columns; dropped ones from an older schema."""
    newest_first: list[Schema] = [metadata.current_schema] if metadata.current_schema else []
    newest_first += reversed(metadata.schemas)
    return [
        next((name for schema in newest_first if (name := schema.name_of(source_id))), None)
        for source_id in source_ids
    ]


def _spec_rows(metadata: TableMetadata) -> Iterator[Row]:
    """Yield one row a field; an unpartitioned spec has one without field."""
    for spec in metadata.partition_specs:
        start = {"spec_id": spec.spec_id, "is_default": spec.spec_id == metadata.default_spec_id}
        if not spec.fields:
            yield start | dict.fromkeys(_SPEC_FIELD_COLUMNS)
        for field in spec.fields:
            yield start | {
                "field_id": field.field_id,
                "name": field.name,
                "transform": field.transform.text,
                "source_ids": list(field.source_ids),
                "source_names": _source_names(metadata, field.source_ids),
            }


def _sort_order_rows(metadata: TableMetadata) -> Iterator[Row]:
    """Yield one row a key; one without key for the unsorted order (R-084)."""
    for order in metadata.sort_orders:
        is_default = order.order_id == metadata.default_sort_order_id
        start = {"order_id": order.order_id, "is_default": is_default}
        if not order.fields:
            yield start | dict.fromkeys(_SORT_FIELD_COLUMNS)
        for position, field in enumerate(order.fields):
            yield start | {
                "position": position,
                "transform": field.transform.text,
                "source_ids": list(field.source_ids),
                "source_names": _source_names(metadata, field.source_ids),
                "direction": field.direction,
                "null_order": field.null_order,
            }


def _metadata_log_rows(metadata: TableMetadata, metadata_location: str) -> Iterator[Row]:
    """Yield the log, then the current metadata file."""
    logged = [(entry.timestamp_ms, entry.metadata_file) for entry in metadata.metadata_log]
    for timestamp_ms, location in [*logged, (metadata.last_updated_ms, metadata_location)]:
        logged_id = logged_snapshot_id(metadata, timestamp_ms)
        latest = None if logged_id is None else metadata.snapshot(logged_id)
        yield {
            "timestamp": print_instant(timestamp_ms),
            "file": location,
            "latest_snapshot_id": id_text(latest.snapshot_id) if latest else None,
            "latest_schema_id": latest.schema_id if latest else None,
            "latest_sequence_number": latest.sequence_number if latest else None,
        }


def _statistics_rows(metadata: TableMetadata) -> Iterator[Row]:
    for file in metadata.every_statistics:
        of_table = file if isinstance(file, StatisticsFile) else None
        blobs = [
            {
                "type": blob.get("type"),
                "snapshot_id": None if (id_ := blob.get("snapshot-id")) is None else str(id_),
                "sequence_number": blob.get("sequence-number"),
                "fields": blob.get("fields"),
                "properties": blob.get("properties"),
            }
            for blob in (of_table.blob_metadata if of_table else ())
        ]
        yield {
            "snapshot_id": str(file.snapshot_id),
            "kind": "table" if of_table else "partition",
            "statistics_path": file.statistics_path,
            "file_size_in_bytes": file.file_size_in_bytes,
            "file_footer_size_in_bytes": of_table.file_footer_size_in_bytes if of_table else None,
            "blobs": blobs,
        }


_SPEC_FIELD_COLUMNS = ("field_id", "name", "transform", "source_ids", "source_names")
_SORT_FIELD_COLUMNS = (
    "position", "transform", "source_ids", "source_names", "direction", "null_order"
)  # fmt: skip

_COLUMNS: Mapping[str, tuple[str, ...]] = {
    "snapshots": (
        "committed_at", "snapshot_id", "parent_id", "operation", "manifest_list", "summary",
        "sequence_number", "schema_id", "refs",
    ),
    "history": ("made_current_at", "snapshot_id", "parent_id", "is_current_ancestor"),
    "erasures": ("erasure", "committed_at", "snapshot_id", "columns", "erased_rows"),
    "refs": (
        "name", "type", "snapshot_id", "max_reference_age_in_ms", "min_snapshots_to_keep",
        "max_snapshot_age_in_ms",
    ),
    "schemas": (
        "schema_id", "is_current", "field_id", "name", "type", "required", "is_identifier",
        "initial_default", "write_default", "doc",
    ),
    "specs": ("spec_id", "is_default", *_SPEC_FIELD_COLUMNS),
    "sort-orders": ("order_id", "is_default", *_SORT_FIELD_COLUMNS),
    "properties": ("key", "value"),
    "metadata-log": (
        "timestamp", "file", "latest_snapshot_id", "latest_schema_id", "latest_sequence_number",
    ),
    "statistics": (
        "snapshot_id", "kind", "statistics_path", "file_size_in_bytes",
        "file_footer_size_in_bytes", "blobs",
    ),
}  # fmt: skip
_ROWS: Mapping[str, Callable[[TableMetadata], Iterator[Row]]] = {
    "snapshots": _snapshot_rows, "history": _history_rows, "refs": _ref_rows,
    "erasures": _erasure_rows,
    "schemas": _schema_rows, "specs": _spec_rows, "sort-orders": _sort_order_rows,
    "properties": lambda metadata: (
        {"key": key, "value": value} for key, value in sorted(metadata.properties.items())
    ),
    "statistics": _statistics_rows,
}  # fmt: skip
METADATA_VIEWS: frozenset[str] = frozenset(_COLUMNS)
"""Views that need nothing but the metadata file."""

MANIFEST_COLUMNS: tuple[str, ...] = (
    "content", "path", "length", "partition_spec_id", "added_snapshot_id",
    "added_data_files_count", "existing_data_files_count", "deleted_data_files_count",
    "added_delete_files_count", "existing_delete_files_count", "deleted_delete_files_count",
    "partition_summaries", "sequence_number", "min_sequence_number", "added_rows_count",
    "existing_rows_count", "deleted_rows_count", "first_row_id",
)  # fmt: skip
ALL_MANIFEST_COLUMNS: tuple[str, ...] = (
    *MANIFEST_COLUMNS[:12], "reference_snapshot_id", "key_metadata", *MANIFEST_COLUMNS[12:]
)  # fmt: skip

_TREE_COLUMNS: tuple[str, ...] = ("file_format", "status", "dead_files_count", "affiliated_to")
"""What only roots of version 4 say of manifests."""


def manifest_columns(metadata: TableMetadata, *, all_snapshots: bool) -> tuple[str, ...]:
    """Name the columns of the view."""
    columns = ALL_MANIFEST_COLUMNS if all_snapshots else MANIFEST_COLUMNS
    has_roots = layout_of_table(metadata) is Layout.SFC_1
    return (*columns, *_TREE_COLUMNS) if has_roots else columns


def all_manifest_rows(
    metadata: TableMetadata, lists: Mapping[int, Sequence[ManifestFile]]
) -> Iterator[Row]:
    """Rows of the manifests of every snapshot: a manifest appears once for each that lists it."""
    for snapshot_id, manifests in lists.items():
        for manifest in manifests:
            key_metadata = manifest.key_metadata
            yield {
                **manifest_row(metadata, manifest),
                "reference_snapshot_id": str(snapshot_id),
                "key_metadata": None if key_metadata is None else key_metadata.hex(),
            }


def manifest_row(metadata: TableMetadata, manifest: ManifestFile) -> Row:
    """Return the row of a manifest."""
    of_data = manifest.content is ManifestContent.DATA
    files = manifest.added_files_count, manifest.existing_files_count, manifest.deleted_files_count
    data_files, delete_files = (files, (0, 0, 0)) if of_data else ((0, 0, 0), files)
    tree_facts: Row = {
        "file_format": manifest.file_format.name,
        "status": None if manifest.status is None else int(manifest.status),
        "dead_files_count": manifest.dead_count,
        "affiliated_to": manifest.affiliated_to,
    }
    return {
        "content": int(manifest.content),
        "path": manifest.manifest_path,
        "length": manifest.manifest_length,
        "partition_spec_id": manifest.partition_spec_id,
        "added_snapshot_id": id_text(manifest.added_snapshot_id),
        "added_data_files_count": data_files[0],
        "existing_data_files_count": data_files[1],
        "deleted_data_files_count": data_files[2],
        "added_delete_files_count": delete_files[0],
        "existing_delete_files_count": delete_files[1],
        "deleted_delete_files_count": delete_files[2],
        "partition_summaries": _summaries(metadata, manifest),
        "sequence_number": manifest.sequence_number,
        "min_sequence_number": manifest.min_sequence_number,
        "added_rows_count": manifest.added_rows_count,
        "existing_rows_count": manifest.existing_rows_count,
        "deleted_rows_count": manifest.deleted_rows_count,
        "first_row_id": manifest.first_row_id,
        **(tree_facts if layout_of_table(metadata) is Layout.SFC_1 else {}),
    }


def _summaries(metadata: TableMetadata, manifest: ManifestFile) -> list[Row]:
    """Return one summary per field of the manifest's spec, bounds for people (R-053)."""
    spec = metadata.spec(manifest.partition_spec_id)
    summaries = manifest.partitions or ()
    fields: list[tuple[PartitionField | None, Type | None]] = [(None, None)] * len(summaries)
    if spec is not None and len(spec.fields) == len(summaries):
        fields = list(zip(spec.fields, result_types(spec, metadata.schemas), strict=True))
    return [
        {
            "contains_null": summary.contains_null,
            "contains_nan": summary.contains_nan,
            "lower_bound": _bound_text(summary.lower_bound, field, type_),
            "upper_bound": _bound_text(summary.upper_bound, field, type_),
        }
        for summary, (field, type_) in zip(summaries, fields, strict=True)
    ]


def _bound_text(
    bound: bytes | None, field: PartitionField | None, type_: Type | None
) -> str | None:
    """Return a bound as the transform prints it; hexadecimal for unknown types."""
    if bound is not None and field is not None and type_ is not None:
        with suppress(ValueError):
            return path_text(field.transform, type_, decode(type_, bound))
    return None if bound is None else bound.hex()
