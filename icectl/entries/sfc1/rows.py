"""Rows of a version 4 manifest, root or leaf, as one flat Arrow table.

The columns of entries/schema.py under their own names, where they mean the same, and what only
version 4 has: inline bitmaps, counts of leaves, and statistics by field (V4-041). One row is one
content entry; the row's ordinal is its position.
"""

import pyarrow as pa

COUNTS = (
    "added_files_count", "existing_files_count", "deleted_files_count",
    "added_rows_count", "existing_rows_count", "deleted_rows_count", "min_sequence_number",
)  # fmt: skip
"""Members of `manifest_stats`, null together on everything but manifests (V4-058)."""

TREE_ROWS = pa.schema(
    [
        pa.field("content", pa.int8(), nullable=False),
        pa.field("location", pa.string()),
        pa.field("file_format", pa.int8(), nullable=False),
        pa.field("status", pa.int8(), nullable=False),
        pa.field("snapshot_id", pa.int64()),
        pa.field("sequence_number", pa.int64()),
        pa.field("file_sequence_number", pa.int64()),
        pa.field("first_row_id", pa.int64()),
        pa.field("content_offset", pa.int64()),
        pa.field("content_size_in_bytes", pa.int64()),
        pa.field("inline_content", pa.binary()),
        pa.field("spec_id", pa.int32(), nullable=False),
        pa.field("sort_order_id", pa.int32()),
        pa.field("record_count", pa.int64(), nullable=False),
        pa.field("file_size_in_bytes", pa.int64()),
        *(
            pa.field(name, pa.int32() if name.endswith("files_count") else pa.int64())
            for name in COUNTS
        ),
        pa.field("referenced_file", pa.string()),
        pa.field("key_metadata", pa.binary()),
        pa.field("split_offsets", pa.list_(pa.int64())),
        pa.field("equality_ids", pa.list_(pa.int32())),
    ]
)
"""Every column but `content_stats`, whose members depend on the table's columns (sfc-1 5.1).

`content`, `status` and `file_format` are the codes of spec/manifest.py. `content_offset`,
`content_size_in_bytes` and `inline_content` are the members of `deletion_vector`;
`referenced_file` is a data file, or for manifests and bitmaps over them a leaf."""

LEAF_MAX_ENTRIES = 2_097_152
"""No leaf has more (V4-115)."""

STATS = "content_stats"
"""The column of statistics, where a manifest has any: a struct, one member for each stats id."""


def whole(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    """A column in one piece, where pyarrow leaves one of no pieces as it is."""
    if isinstance(column, pa.Array):
        return column
    if not column.num_chunks:
        return pa.nulls(0, column.type)
    combined = column.combine_chunks()
    return pa.concat_arrays(combined.chunks) if isinstance(combined, pa.ChunkedArray) else combined
