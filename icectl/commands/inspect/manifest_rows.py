"""Rows of the manifests view: what manifest lists say."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from icectl.commands.inspect.metadata_rows import id_text
from icectl.commands.inspect.views import Row
from icectl.format.layout import Layout, layout_of_table
from icectl.format.manifest import FieldSummary, ManifestContent, ManifestFile
from icectl.format.metadata import TableMetadata
from icectl.format.partition import PartitionField, result_types
from icectl.format.single_value import decode
from icectl.format.transforms import human
from icectl.format.types import Type

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


def manifest_rows(metadata: TableMetadata, manifests: Iterable[ManifestFile]) -> Iterator[Row]:
    """Yield rows of the manifests of one snapshot.

    Order: that of the manifest list.
    """
    for manifest in manifests:
        yield _row(metadata, manifest)


def all_manifest_rows(
    metadata: TableMetadata, lists: Mapping[int, Sequence[ManifestFile]]
) -> Iterator[Row]:
    """Rows of the manifests of every snapshot: a manifest appears once for each that lists it."""
    for snapshot_id, manifests in lists.items():
        for manifest in manifests:
            key_metadata = manifest.key_metadata
            yield {
                **_row(metadata, manifest),
                "reference_snapshot_id": str(snapshot_id),
                "key_metadata": None if key_metadata is None else key_metadata.hex(),
            }


def _row(metadata: TableMetadata, manifest: ManifestFile) -> Row:
    of_data = manifest.content is ManifestContent.DATA
    files = (
        manifest.added_files_count,
        manifest.existing_files_count,
        manifest.deleted_files_count,
    )
    data_files, delete_files = (files, (0, 0, 0)) if of_data else ((0, 0, 0), files)
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
        **(_of_tree(manifest) if layout_of_table(metadata) is Layout.SFC_1 else {}),
    }


def _of_tree(manifest: ManifestFile) -> Row:
    return {
        "file_format": manifest.file_format.name,
        "status": None if manifest.status is None else int(manifest.status),
        "dead_files_count": manifest.dead_count,
        "affiliated_to": manifest.affiliated_to,
    }


def _summaries(metadata: TableMetadata, manifest: ManifestFile) -> list[Row]:
    """Return one summary per field of the manifest's spec, bounds for people (R-053)."""
    spec = metadata.spec(manifest.partition_spec_id)
    summaries = manifest.partitions or ()
    if spec is None or len(spec.fields) != len(summaries):
        return [_summary(summary, None, None) for summary in summaries]
    types = result_types(spec, metadata.schemas)
    return [
        _summary(summary, field, type_)
        for summary, field, type_ in zip(summaries, spec.fields, types, strict=True)
    ]


def _summary(summary: FieldSummary, field: PartitionField | None, type_: Type | None) -> Row:
    return {
        "contains_null": summary.contains_null,
        "contains_nan": summary.contains_nan,
        "lower_bound": _bound_text(summary.lower_bound, field, type_),
        "upper_bound": _bound_text(summary.upper_bound, field, type_),
    }


def _bound_text(
    bound: bytes | None, field: PartitionField | None, type_: Type | None
) -> str | None:
    """Return a bound as the transform prints it; hexadecimal where the type is not known."""
    if bound is None:
        return None
    if field is None or type_ is None:
        return bound.hex()
    try:
        return human(field.transform, type_, decode(type_, bound))
    except ValueError:
        return bound.hex()
